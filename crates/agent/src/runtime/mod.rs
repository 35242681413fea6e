//! Runtimes: from a start command to a process for the keeper. Pure but for a look at the size of a model.

pub mod container;
pub(crate) mod env;
mod files;
pub mod llm;
pub mod template;
pub(crate) mod wasm;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landfall_api::agent::Start;
use landfall_api::fill;
use landfall_api::job::RunSpec;
use landfall_api::node::GpuFacts;
use landfall_model::JobId;
use landfall_model::life::StartRefusal;

use crate::keeper::signal;
use crate::keeper::wire::{Limits, Note, Program, Spawn};
use crate::layout::Layout;
use crate::probe::{Programs, estimate};

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
    /// Variables of the machine that jobs get.
    pub(crate) base_env: BTreeMap<String, String>,
    /// Variables of the machine that a container engine needs.
    pub(crate) engine_env: BTreeMap<String, String>,
    pub(crate) gpus: Vec<GpuFacts>,
    pub(crate) programs: Programs,
    /// Whether jobs are kept within what they asked for.
    pub(crate) limits: bool,
    /// The program that stands beside jobs that somebody is at.
    pub(crate) helper: PathBuf,
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
        let scripted = self.scripted(start)?;
        let start = scripted.as_ref().unwrap_or(start);
        let checkpoint_dir = self.layout.checkpoint(start.fence.job.as_str());
        let mut vars = env::of_job(start, &self.node, &self.gpus, &checkpoint_dir, &self.base_env);
        if !matches!(start.runtime.as_str(), "container" | "wasm") {
            let metric = self.layout.metric(&start.fence).display().to_string();
            vars.insert("LANDFALL_METRIC_FILE".to_owned(), metric);
        }
        let file = |file: &Option<String>| file.as_ref().map(|file| files::name(file, start, &self.node));
        let mut program = Program {
            env: vars.into_iter().collect(),
            cwd: start.run.cwd.clone().or_else(|| directory_here(&start.run)),
            stdin: start.run.stdin.clone(),
            script: start.run.script.clone(),
            stdout: file(&start.run.stdout),
            // One file for both is what it is without a second name.
            stderr: file(&start.run.stderr).filter(|name| Some(name) != file(&start.run.stdout).as_ref()),
            timeout_ms: start.run.timeout_ms,
            limits: limits(start.share.cpu_milli, start.share.ram_mib).filter(|_| self.limits),
            pin: if start.run.pin { cores(start)? } else { 0 },
            ..Program::default()
        };
        let mut note = Note {
            runtime: start.runtime.clone(),
            retry_on: start.run.retry_on.clone(),
            checkpoint_signal: start.run.checkpoint_signal.clone(),
            walltime_ms: start.walltime_ms,
            stop_after_silence_ms: start.stop_after_silence_ms,
            attended: start.run.terminal.is_some(),
            ..Note::default()
        };
        match (start.runtime.as_str(), self.programs.templates.get(&start.runtime)) {
            (_, Some(template)) => {
                let fresh = self.layout.work(&start.fence).display().to_string();
                program.argv = template.fill(start, program.cwd.as_deref().unwrap_or(&fresh));
            }
            ("process" | "", None) => {
                if start.run.command.is_empty() {
                    return Err(Refusal::malformed("run.command is empty"));
                }
                program.argv = start.run.command.clone();
            }
            ("wasm", None) => {
                let runner = self.programs.wasm.as_ref();
                let runner = runner.ok_or_else(|| Refusal::unsupported(wasm::MISSING))?;
                wasm::run(runner, start, &self.layout.outcome(&start.fence), &mut program)?;
            }
            ("container", None) => self.container(start, &checkpoint_dir, &mut program)?,
            ("llmcpp", None) => {
                let llama = self.programs.llama.as_ref();
                let llama = llama.ok_or_else(|| Refusal::unsupported("llama.cpp is not on this node"))?;
                program.argv = llm::run(llama, start)?;
                note.expected_milli_tok_s = self.expected_speed(start);
            }
            (other, None) => return Err(Refusal::unsupported(format!("no runtime {other} on this node"))),
        }
        if start.run.terminal.is_some() {
            let socket = self.layout.typed(&start.fence);
            program.argv = crate::attend::command(&self.helper, &socket, &start.run, program.argv);
        }
        let array = start.array.as_ref().map(|(array, _)| array.clone());
        Ok(Spawn { fence: start.fence.clone(), program, note, array, ahead: start.ahead })
    }

    /// A job that brings its script, as the command that runs it.
    fn scripted(&self, start: &Start) -> Result<Option<Start>, Refusal> {
        let own = [
            ("script", start.run.script.is_some()),
            ("stdout", start.run.stdout.is_some()),
            ("stderr", start.run.stderr.is_some()),
            ("terminal", start.run.terminal.is_some()),
            ("pin", start.run.pin),
        ];
        let Some((field, _)) = own.into_iter().find(|(_, given)| *given) else { return Ok(None) };
        // What is shut in must not reach the machine through a file that is opened for it outside.
        let runtime = start.runtime.as_str();
        if !matches!(runtime, "process" | "") || self.programs.templates.contains_key(runtime) {
            return Err(Refusal::malformed(format!("run.{field} is for plain processes")));
        }
        let Some(text) = &start.run.script else { return Ok(None) };
        let (program, argument) = fill::interpreter(text)
            .ok_or_else(|| Refusal::malformed("run.script does not begin with a line such as #!/bin/sh"))?;
        let mut start = start.clone();
        let script = self.layout.script(&start.fence).display().to_string();
        let words = [Some(program.to_owned()), argument.map(str::to_owned), Some(script)];
        let arguments = std::mem::take(&mut start.run.command).into_iter().skip(1);
        start.run.command = words.into_iter().flatten().chain(arguments).collect();
        Ok(Some(start))
    }

    /// Whether a job can go on here from where it saved its work.
    pub(crate) fn has_checkpoint(&self, job: &JobId) -> bool {
        self.layout.saved_mark(job.as_str()).exists()
    }

    /// Whether a job needs its checkpoint directory from the beginning.
    pub(crate) fn needs_checkpoint_dir(start: &Start) -> bool {
        start.resume || start.run.checkpoint_signal.is_some()
    }

    fn container(&self, start: &Start, checkpoint_dir: &Path, program: &mut Program) -> Result<(), Refusal> {
        let engine = self.programs.engine.as_ref();
        let engine =
            engine.ok_or_else(|| Refusal::unsupported("no container engine answers on this node"))?;
        // A container has a machine's environment of its own; only what is meant for the job goes in.
        let inside = Path::new(container::CHECKPOINT_TARGET);
        let mut vars = start.run.env.clone();
        vars.extend(env::told(start, &self.node, &self.gpus, inside));
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

    /// Tokens per second that the job should reach, in thousandths: what the server said, or what the slowest of its GPUs should do. With
    /// less than a whole GPU nobody can tell.
    fn expected_speed(&self, start: &Start) -> Option<u64> {
        if !start.share.gpus.is_empty() && start.share.gpu_milli < 1000 {
            return None;
        }
        if let Some(expected) = start.expected_milli_tok_s {
            return Some(expected);
        }
        let chosen = self.gpus.iter().filter(|gpu| start.share.gpus.contains(&gpu.index));
        let gb_s = chosen.map(estimate::bandwidth_gb_s).min_by(f64::total_cmp)?;
        llm::expected_milli_tok_s(llm::model_bytes(start)?, gb_s)
    }
}

/// This machine and this user, as a submission names them.
pub fn here() -> (String, u32) {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    (name, rustix::process::getuid().as_raw())
}

/// The directory that a job was submitted from, if that was on this machine and by the user that runs jobs here.
fn directory_here(run: &RunSpec) -> Option<String> {
    let from = run.submitted_from.as_ref()?;
    let (host, uid) = here();
    (from.host == host && from.uid == uid).then(|| from.dir.clone())
}

/// How many cores a job gets to itself.
fn cores(start: &Start) -> Result<u32, Refusal> {
    let milli = start.share.cpu_milli;
    let whole = u32::try_from(milli / 1000).ok().filter(|whole| *whole > 0 && milli.is_multiple_of(1000));
    whole.ok_or_else(|| Refusal::malformed("run.pin is for jobs that ask for whole cores"))
}

fn limits(cpu_milli: u64, ram_mib: u64) -> Option<Limits> {
    (cpu_milli > 0 || ram_mib > 0).then_some(Limits { cpu_milli, ram_mib })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use landfall_api::agent::Share;
    use landfall_model::life::Fence;

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
            stop_after_silence_ms: None,
            sent_at_ms: None,
            inputs: Vec::new(),
            ahead: false,
            task: None,
            expected_milli_tok_s: None,
        }
    }

    pub(crate) fn site() -> Site {
        Site {
            node: "n1".to_owned(),
            layout: Layout::new("/d"),
            base_env: BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]),
            engine_env: BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]),
            gpus: Vec::new(),
            programs: Programs::default(),
            limits: true,
            helper: "/bin/landfall".into(),
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
            (start("wasm", &[]), Some(StartRefusal::Unsupported)),
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
    fn jobs_run_where_they_were_submitted_if_that_is_here() {
        use landfall_api::job::SubmittedFrom;
        let (host, uid) = here();
        let cwd = |from: Option<SubmittedFrom>, cwd: Option<&str>| {
            let mut start = start("process", &["true"]);
            start.run.submitted_from = from;
            start.run.cwd = cwd.map(str::to_owned);
            site().plan(&start).expect("planned").program.cwd
        };
        let from =
            |host: &str, uid| Some(SubmittedFrom { host: host.to_owned(), uid, dir: "/home/me".into() });
        assert_eq!(cwd(from(&host, uid), None).as_deref(), Some("/home/me"));
        assert_eq!(cwd(from(&host, uid), Some("/else")).as_deref(), Some("/else"));
        assert_eq!(cwd(from("elsewhere", uid), None), None);
        assert_eq!(cwd(from(&host, uid + 1), None), None);
        assert_eq!(cwd(None, None), None);
    }

    #[test]
    fn a_model_is_measured_against_what_the_server_expected_and_not_on_part_of_a_gpu() {
        for (gpus, gpu_milli, said, expected) in [
            (vec![], 0, Some(5893), Some(5893)),
            (vec![0], 1000, Some(26_714), Some(26_714)),
            (vec![0], 500, Some(26_714), None),
            (vec![], 0, None, None),
        ] {
            let mut start = start("llmcpp", &["x"]);
            (start.share.gpus, start.share.gpu_milli, start.expected_milli_tok_s) = (gpus, gpu_milli, said);
            assert_eq!(site().expected_speed(&start), expected, "{start:?}");
        }
    }

    #[test]
    fn templates_come_before_built_in_runtimes() {
        let mut site = site();
        let words = ["nice", "{command}"].map(str::to_owned).to_vec();
        site.programs.templates.insert("process".to_owned(), template::Template { command: words });
        let spawn = site.plan(&start("process", &["make", "-j2"])).expect("planned");
        assert_eq!(spawn.program.argv, ["nice", "make", "-j2"]);
    }
}
