//! Runtimes: from a start command to a process for the keeper. Pure but for a look at the size of a model.

pub mod container;
pub(crate) mod env;
pub mod llm;
pub mod template;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landfall_api::agent::Start;
use landfall_api::node::GpuFacts;
use landfall_engine::input::StartRefusal;

use crate::keeper::signal;
use crate::keeper::wire::{Limits, Note, Program, Spawn};
use crate::layout::Layout;
use crate::probe::estimate;
use container::Engine;
use llm::Llama;
use template::Template;

/// Memory of a module that declared none.
const WASM_RAM_MIB: u64 = 256;
/// Memory that the runner of a module needs besides the module's own.
const WASM_OVERHEAD_MIB: u64 = 128;
/// What the keeper gives a module's runner to notice by itself that its time is over, and to say so.
const WASM_NOTICE_MS: u64 = 1_500;

/// Why a job is not started here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) kind: StartRefusal,
    pub(crate) why: String,
}

impl Refusal {
    pub(crate) fn malformed(why: impl Into<String>) -> Self {
        Self { kind: StartRefusal::Malformed, why: why.into() }
    }

    fn unsupported(why: impl Into<String>) -> Self {
        Self { kind: StartRefusal::Unsupported, why: why.into() }
    }
}

/// What is on this machine, as far as starting a job goes.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) node: String,
    pub(crate) layout: Layout,
    /// The program with the hidden commands `keeper` and `wasm-run`.
    pub(crate) helper: PathBuf,
    /// Variables of the machine that jobs get.
    pub(crate) base_env: BTreeMap<String, String>,
    /// Variables of the machine that a container engine needs.
    pub(crate) engine_env: BTreeMap<String, String>,
    pub(crate) gpus: Vec<GpuFacts>,
    pub(crate) engine: Option<Engine>,
    pub(crate) llama: Option<Llama>,
    pub(crate) templates: BTreeMap<String, Template>,
}

impl Site {
    /// What the keeper is asked to start.
    pub(crate) fn plan(&self, start: &Start) -> Result<Spawn, Refusal> {
        if let Some(name) = &start.run.checkpoint_signal
            && signal::by_name(name).is_none()
        {
            return Err(Refusal::malformed(format!(
                "run.checkpoint_signal: {name} is no signal that may be sent"
            )));
        }
        if start
            .run
            .env
            .iter()
            .any(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))
        {
            return Err(Refusal::malformed(
                "run.env: a name must not be empty or hold =, nothing may hold NUL",
            ));
        }
        if start.run.command.iter().any(|word| word.contains('\0')) {
            return Err(Refusal::malformed("run.command must not hold NUL"));
        }
        let checkpoint_dir = self.layout.checkpoint(start.fence.job.as_str());
        let has_gpus = !self.gpus.is_empty();
        let vars = env::of_job(start, &self.node, has_gpus, &checkpoint_dir, &self.base_env);
        let mut program = Program {
            env: vars.into_iter().collect(),
            cwd: start.run.cwd.clone(),
            stdin: start.run.stdin.clone(),
            timeout_ms: start.run.timeout_ms,
            limits: limits(start.share.cpu_milli, start.share.ram_mib),
            ..Program::default()
        };
        let mut note = Note {
            runtime: start.runtime.clone(),
            retry_on: start.run.retry_on.clone(),
            checkpoint_signal: start.run.checkpoint_signal.clone(),
            walltime_ms: start.walltime_ms,
            ..Note::default()
        };
        match (start.runtime.as_str(), self.templates.get(&start.runtime)) {
            (_, Some(template)) => {
                let fresh = self.layout.work(&start.fence).display().to_string();
                program.argv = template.fill(start, start.run.cwd.as_deref().unwrap_or(&fresh));
            }
            ("process" | "", None) => {
                if start.run.command.is_empty() {
                    return Err(Refusal::malformed("run.command is empty"));
                }
                program.argv = start.run.command.clone();
            }
            ("wasm", None) => self.wasm(start, &mut program)?,
            ("container", None) => self.container(start, &checkpoint_dir, &mut program)?,
            ("llmcpp", None) => {
                let llama = self.llama.as_ref();
                let llama = llama.ok_or_else(|| Refusal::unsupported("llama.cpp is not on this node"))?;
                program.argv = llm::run(llama, start)?;
                note.expected_milli_tok_s = self.expected_speed(start);
            }
            (other, None) => return Err(Refusal::unsupported(format!("no runtime {other} on this node"))),
        }
        Ok(Spawn { fence: start.fence.clone(), program, note })
    }

    /// Whether a job needs its checkpoint directory from the beginning.
    pub(crate) fn needs_checkpoint_dir(start: &Start) -> bool {
        start.resume || start.run.checkpoint_signal.is_some()
    }

    fn wasm(&self, start: &Start, program: &mut Program) -> Result<(), Refusal> {
        let module = start.run.module.as_deref().filter(|module| !module.is_empty());
        let module = module.ok_or_else(|| Refusal::malformed("a wasm job needs run.module"))?;
        let ram_mib = if start.share.ram_mib == 0 { WASM_RAM_MIB } else { start.share.ram_mib };
        let mut argv = vec![self.helper.display().to_string(), "wasm-run".into()];
        argv.extend(["--memory-mib".into(), ram_mib.to_string()]);
        if let Some(timeout_ms) = start.run.timeout_ms {
            argv.extend(["--timeout-ms".into(), timeout_ms.to_string()]);
            program.timeout_ms = Some(timeout_ms.saturating_add(WASM_NOTICE_MS));
        }
        argv.extend(["--outcome".into(), self.layout.outcome(&start.fence).display().to_string()]);
        for mount in &start.run.mounts {
            let rights = if mount.writable { "rw" } else { "ro" };
            argv.extend(["--dir".into(), mount.source.clone(), mount.target.clone(), rights.into()]);
        }
        // Options end at the first word that is none, and a module may be called like one.
        argv.push(if module.starts_with('-') { format!("./{module}") } else { module.to_owned() });
        argv.extend(start.run.command.iter().cloned());
        program.argv = argv;
        program.limits = limits(start.share.cpu_milli, start.share.ram_mib).map(|limits| Limits {
            ram_mib: if limits.ram_mib == 0 { 0 } else { limits.ram_mib + WASM_OVERHEAD_MIB },
            ..limits
        });
        Ok(())
    }

    fn container(&self, start: &Start, checkpoint_dir: &Path, program: &mut Program) -> Result<(), Refusal> {
        let engine = self.engine.as_ref();
        let engine =
            engine.ok_or_else(|| Refusal::unsupported("no container engine answers on this node"))?;
        // A container has a machine's environment of its own; only what is meant for the job goes in.
        let inside = Path::new(container::CHECKPOINT_TARGET);
        let mut vars = start.run.env.clone();
        vars.extend(env::told(start, &self.node, !self.gpus.is_empty(), inside));
        let mount = Self::needs_checkpoint_dir(start).then_some(checkpoint_dir);
        if mount.is_none() {
            vars.remove("LANDFALL_CHECKPOINT_DIR");
        }
        program.argv = container::run(engine, start, &vars, &self.engine_env, mount)?;
        vars.extend(self.engine_env.clone());
        program.env = vars.into_iter().collect();
        program.cwd = None;
        program.limits = None;
        program.stop_command = container::stop(engine, &start.fence);
        program.kill_command = container::kill(engine, &start.fence);
        program.elsewhere = true;
        Ok(())
    }

    /// Tokens per second that the slowest of the job's GPUs should reach, if the job has any.
    fn expected_speed(&self, start: &Start) -> Option<u64> {
        let chosen = self.gpus.iter().filter(|gpu| start.share.gpus.contains(&gpu.index));
        let gb_s = chosen.map(estimate::bandwidth_gb_s).min_by(f64::total_cmp)?;
        llm::expected_milli_tok_s(llm::model_bytes(start)?, gb_s)
    }
}

fn limits(cpu_milli: u64, ram_mib: u64) -> Option<Limits> {
    (cpu_milli > 0 || ram_mib > 0).then_some(Limits { cpu_milli, ram_mib })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use landfall_api::agent::Share;
    use landfall_api::job::RunSpec;
    use landfall_engine::Fence;
    use landfall_model::JobId;

    pub(crate) fn start(runtime: &str, command: &[&str]) -> Start {
        Start {
            fence: Fence { job: JobId::new("job-1").expect("id"), attempt: 1, epoch: 1 },
            name: None,
            runtime: runtime.to_owned(),
            run: RunSpec {
                command: command.iter().map(|word| (*word).to_owned()).collect(),
                ..RunSpec::default()
            },
            share: Share::default(),
            pool: "main".to_owned(),
            tenant: None,
            array: None,
            nodes: Vec::new(),
            resume: false,
            walltime_ms: None,
            inputs: Vec::new(),
        }
    }

    pub(crate) fn site() -> Site {
        Site {
            node: "n1".to_owned(),
            layout: Layout::new("/d"),
            helper: "/bin/landfall".into(),
            base_env: BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]),
            engine_env: BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]),
            gpus: Vec::new(),
            engine: None,
            llama: None,
            templates: BTreeMap::new(),
        }
    }

    fn refusal(start: &Start) -> Option<StartRefusal> {
        site().plan(start).err().map(|refusal| refusal.kind)
    }

    #[test]
    fn what_is_not_there_is_unsupported_and_what_makes_no_sense_is_malformed() {
        let mut container = start("container", &["true"]);
        container.run.image = Some("alpine".into());
        let mut signal = start("process", &["true"]);
        signal.run.checkpoint_signal = Some("BOOM".into());
        let mut env = start("process", &["true"]);
        env.run.env.insert("A=B".into(), "c".into());
        for (job, kind) in [
            (start("process", &["true"]), None),
            (start("", &["true"]), None),
            (start("process", &[]), Some(StartRefusal::Malformed)),
            (start("wasm", &[]), Some(StartRefusal::Malformed)),
            (start("quantum", &["x"]), Some(StartRefusal::Unsupported)),
            (start("llmcpp", &["x"]), Some(StartRefusal::Unsupported)),
            (container, Some(StartRefusal::Unsupported)),
            (signal, Some(StartRefusal::Malformed)),
            (env, Some(StartRefusal::Malformed)),
        ] {
            assert_eq!(refusal(&job), kind, "{job:?}");
        }
    }

    #[test]
    fn a_module_is_run_by_the_helper_with_its_limits() {
        let mut job = start("wasm", &["a"]);
        job.run.module = Some("/m.wasm".into());
        job.run.timeout_ms = Some(5000);
        job.share.ram_mib = 64;
        let spawn = site().plan(&job).expect("planned");
        assert_eq!(
            spawn.program.argv.join(" "),
            "/bin/landfall wasm-run --memory-mib 64 --timeout-ms 5000 --outcome /d/logs/job-1.1.outcome /m.wasm a"
        );
        assert_eq!(spawn.program.timeout_ms, Some(6500), "the runner says it better, so it comes first");
        assert_eq!(spawn.program.limits, Some(Limits { cpu_milli: 0, ram_mib: 192 }));
    }

    #[test]
    fn templates_come_before_built_in_runtimes() {
        let mut site = site();
        let words = ["nice", "{command}"].map(str::to_owned).to_vec();
        site.templates.insert("process".to_owned(), Template { command: words });
        let spawn = site.plan(&start("process", &["make", "-j2"])).expect("planned");
        assert_eq!(spawn.program.argv, ["nice", "make", "-j2"]);
    }
}
