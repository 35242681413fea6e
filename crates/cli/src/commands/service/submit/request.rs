//! A job of the command line or of a file as the server takes it.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use landfall_api::job::{DagRequest, JobRequest, PlacementRequest, RunSpec, SubmittedFrom};
use landfall_client::ClientError;
use landfall_engine::dag::Join;
use landfall_model::scenario::{Format, decode, locate};
use landfall_model::{
    IdError, Mib, MilliCpu, MilliGpu, Millis, Name, Needs, NodeCount, PoolId, Requeue, TenantId,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::args::{JobArgs, Negotiation};
use super::entries::entries;
use super::lines::{self, Lines};
use crate::error::{CliError, usage};
use crate::input::{Input, is_stdin};
use crate::service::later;

/// CPU of a job that says nothing about what it needs.
const CPU_DEFAULT: MilliCpu = MilliCpu::new(1000);

#[derive(Debug)]
pub(crate) enum Asked {
    /// One job or array.
    One(Box<JobRequest>),
    /// Jobs that depend on each other.
    Dag(DagRequest),
    /// Many that have nothing to do with each other.
    Lines(Lines),
}

/// What is asked for; `now` is the server's time, for spans that are counted from it.
pub(crate) fn asked(args: &JobArgs, now: impl FnOnce() -> Result<u64, CliError>) -> Result<Asked, CliError> {
    let not_before = args.not_before.as_deref().map(|when| later("--not-before", when, now)).transpose()?;
    let one = |job| one(args, not_before, job);
    let Some(path) = &args.file else { return Ok(Asked::One(Box::new(one(JobRequest::default())?))) };
    let input = Input::read(path)?;
    if lines::are_in(&input) {
        only_the_file_says(args, &input)?;
        return lines::read(&input, one).map(Asked::Lines);
    }
    #[derive(Deserialize)]
    struct Shape {
        jobs: Option<serde::de::IgnoredAny>,
    }
    let several =
        decode::<Shape>(&input.text, input.format).map_err(|error| input.invalid(error))?.jobs.is_some();
    if !several {
        let request = decode(&input.text, input.format).map_err(|error| input.invalid(error))?;
        return Ok(Asked::One(Box::new(one(request)?)));
    }
    let dag: DagRequest = decode(&input.text, input.format).map_err(|error| input.invalid(error))?;
    if dag.jobs.is_empty() {
        return Err(usage(format!("{} has no jobs", input.file), "add rows under [[jobs]]"));
    }
    only_the_file_says(args, &input)?;
    let mut jobs = Vec::new();
    for (place, job) in dag.jobs.into_iter().enumerate() {
        let called = called(place, &job);
        match one(job) {
            Ok(job) => jobs.push(job),
            Err(error) => return Err(in_file(&input, &format!("jobs[{place}]"), Some(called), error)),
        }
    }
    Ok(Asked::Dag(DagRequest { jobs }))
}

/// Refuses flags that say what a job is where the file has several.
fn only_the_file_says(args: &JobArgs, input: &Input) -> Result<(), CliError> {
    let of_one = !args.command.is_empty() || args.name.is_some() || !args.depends_on.is_empty();
    if of_one || args.array.is_some() || args.each_line.is_some() || args.from_json.is_some() || args.open {
        return Err(usage(
            format!("{} holds several jobs, and flags say what one of them is", input.file),
            "say it in the file",
        ));
    }
    Ok(())
}

/// How one of several jobs is called in a message.
fn called(place: usize, job: &JobRequest) -> String {
    let name = job.key.as_ref().or(job.name.as_ref());
    name.map_or_else(|| format!("job {}", place + 1), |name| format!("job {} (`{name}`)", place + 1))
}

fn in_file(input: &Input, field: &str, job: Option<String>, error: CliError) -> CliError {
    let position = locate(&input.text, input.format, field);
    CliError::Asked { file: input.file.clone(), position, job, source: Box::new(error) }
}

/// What the server says against a request, with the place in the file that the request came from.
#[derive(Debug)]
pub(crate) struct Origin {
    input: Input,
    /// How each of several jobs is called; empty if the file holds one.
    jobs: Vec<String>,
}

impl Origin {
    /// Where a request came from, if it came from a file; standard input is read only once and says no place.
    pub(crate) fn of(args: &JobArgs, asked: &Asked) -> Option<Self> {
        let path = args.file.as_ref().filter(|path| !is_stdin(path))?;
        let jobs = match asked {
            Asked::One(_) | Asked::Lines(_) => Vec::new(),
            Asked::Dag(dag) => dag.jobs.iter().enumerate().map(|(place, job)| called(place, job)).collect(),
        };
        Some(Self { input: Input::read(path).ok()?, jobs })
    }

    /// The error, with its place if the file is what is wrong.
    pub(crate) fn place(&self, error: CliError) -> CliError {
        let CliError::Service(ClientError::Refused { status: 400..=499, error: said }) = &error else {
            return error;
        };
        let field = said.field.clone().unwrap_or_default();
        // A plan says what is submitted in a field of its own.
        let field = field.strip_prefix("submit.").unwrap_or(&field).to_owned();
        // A single job is asked for without a list around it.
        let (field, number) = match (self.jobs.len(), field.strip_prefix("jobs[")) {
            (0, _) => (field, None),
            (_, Some(rest)) => {
                let number = rest.split_once(']').and_then(|(number, _)| number.parse::<usize>().ok());
                (field, number)
            }
            (1, None) => (format!("jobs[0].{field}"), Some(0)),
            _ => (field, None),
        };
        let job = number.and_then(|number| self.jobs.get(number).cloned());
        in_file(&self.input, &field, job, error)
    }
}

/// One job: what the file says, changed by what the flags say.
fn one(args: &JobArgs, not_before: Option<u64>, mut job: JobRequest) -> Result<JobRequest, CliError> {
    let set = |field: &mut Option<String>, value: &Option<String>| {
        if value.is_some() {
            field.clone_from(value);
        }
    };
    set(&mut job.name, &args.name);
    set(&mut job.workload, &args.workload);
    set(&mut job.dag, &args.dag);
    let run = &mut job.run;
    set(&mut run.image, &args.image);
    set(&mut run.module, &args.module);
    set(&mut run.model, &args.model);
    set(&mut run.cwd, &args.cwd);
    set(&mut run.stdout, &args.output);
    set(&mut run.stderr, &args.error);
    stand_here(run);
    if let Some(script) = &args.read {
        let arguments = args.script.iter().skip(1).chain(&args.command);
        run.command = std::iter::once(&script.name).chain(arguments).cloned().collect();
        run.script = Some(script.text.clone());
        run.slurm |= script.slurm;
        job.name = job.name.take().or_else(|| Some(script.name.clone()));
    } else if !args.command.is_empty() {
        run.command.clone_from(&args.command);
    }
    run.slurm |= args.slurm_env;
    run.pin |= args.pin;
    if let Some(what) = &args.export {
        run.env.extend(exported(what, std::env::vars_os())?);
    }
    for variable in &args.env {
        let (name, value) = variable_of(variable)?;
        run.env.insert(name, value);
    }
    if let Some(path) = &args.stdin_file {
        run.stdin = Some(text_of(path)?);
    }
    run.timeout_ms = args.timeout.or(run.timeout_ms);
    if !args.retry_on.is_empty() {
        run.retry_on.clone_from(&args.retry_on);
    }
    needs(args, &mut job)?;
    if !args.depends_on.is_empty() {
        job.depends_on.clone_from(&args.depends_on);
    }
    if args.any {
        job.join = Join::Any;
    }
    job.not_before_ms = not_before.or(job.not_before_ms);
    job.hold |= args.hold;
    job.strict |= args.strict;
    placement(&args.negotiation, &mut job);
    let says_nothing = job.run.command.is_empty()
        && job.run.image.is_none()
        && job.run.module.is_none()
        && job.run.model.is_none();
    if says_nothing && job.workload.is_none() {
        return Err(usage(
            "there is nothing to run",
            "write the command after `--`, as in: landfall submit -- echo hello; `landfall submit -` reads a script",
        ));
    }
    if args.each_line.is_some() || args.from_json.is_some() {
        job.entries = entries(args.each_line.as_deref(), args.from_json.as_deref())?;
    }
    job.open |= args.open;
    if let Some(array) = &args.array {
        let indices = array.indices.clone();
        if job.run.slurm {
            for (name, value) in [
                ("COUNT", indices.count()),
                ("MIN", indices.first.into()),
                ("MAX", indices.last.into()),
                ("STEP", indices.step.into()),
            ] {
                job.run.env.insert(format!("SLURM_ARRAY_TASK_{name}"), value.to_string());
            }
        }
        job.array = Some(indices);
    }
    Ok(job)
}

/// What of an environment a job gets: `ALL`, `NONE`, names, and values that are given.
fn exported(
    what: &str,
    vars: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
) -> Result<BTreeMap<String, String>, CliError> {
    let mut env = BTreeMap::new();
    for part in what.split(',').filter(|part| !part.is_empty() && *part != "NONE" && *part != "ALL") {
        let (name, value) = variable_of(part)?;
        env.insert(name, value);
    }
    if what.split(',').any(|part| part == "ALL") {
        // What says where Landfall is and who asks is nobody else's business, and a shell's own notes are about that shell.
        let own =
            |name: &str| name.starts_with("LANDFALL_") || ["_", "PWD", "OLDPWD", "SHLVL"].contains(&name);
        let texts =
            vars.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        for (name, value) in texts.filter(|(name, _)| !name.is_empty() && !own(name)) {
            env.entry(name).or_insert(value);
        }
    }
    Ok(env)
}

/// A directory is meant as the person who names it sees it, and a job that names none runs where it was submitted, if that can be.
fn stand_here(run: &mut RunSpec) {
    // A container has directories of its own.
    let Some(dir) = std::env::current_dir().ok().filter(|_| run.image.is_none()) else { return };
    if let Some(cwd) = &mut run.cwd {
        let named = dir.join(&*cwd);
        // Without looking: what the node has there may not be here.
        *cwd = named.components().collect::<std::path::PathBuf>().display().to_string();
        return;
    }
    let (host, uid) = landfall_agent::here();
    let here = dir.to_str().map(|dir| SubmittedFrom { host, uid, dir: dir.to_owned() });
    // A file may say it of a job that was put together elsewhere.
    run.submitted_from = run.submitted_from.take().or(here);
}

/// What the flags say about needs, before what the file says, before what is usual for a command.
fn needs(args: &JobArgs, job: &mut JobRequest) -> Result<(), CliError> {
    let mut flags = Needs {
        pool: named("--pool", args.pool.as_deref(), PoolId::new)?,
        tenant: named("--tenant", args.tenant.as_deref(), TenantId::new)?,
        runtime: named("--runtime", args.runtime.as_deref(), Name::new)?,
        region: named("--region", args.region.as_deref(), Name::new)?,
        cpu_milli: args.cpu.map(MilliCpu::new),
        ram_mib: args.memory.map(Mib::new),
        storage_mib: args.storage.map(Mib::new),
        gpu_milli: args.gpu_share.map(MilliGpu::new),
        gpu_count: args.gpu_share.map(|_| 1),
        nodes: args.nodes.map(|number| NodeCount { min: number, max: number }),
        exclusive: args.exclusive.then_some(true),
        priority: args.priority,
        class: args.class,
        walltime_ms: args.walltime.map(Millis::new),
        checkpoint: args.checkpoint,
        max_requeue: args.retries.or(args.crash_limit),
        retry_delay_ms: args.retry_delay.map(Millis::new),
        at_once: args.at_once.or(args.array.as_ref().and_then(|array| array.at_once)),
        max_fails: args.max_fails,
        max_price: args.max_price,
        ..Needs::default()
    };
    if let Some(gpu) = &args.gpu {
        flags.gpu_count = Some(gpu.count);
        flags.vram_mib = gpu.vram_mib.map(Mib::new);
        flags.gpu_slice = named("--gpu", gpu.slice.as_deref(), Name::new)?;
        flags.gpu_capability = named("--gpu", gpu.capability.as_deref(), Name::new)?;
    }
    // Somebody who allows retries and names no codes means every failure.
    if args.retries.is_some_and(|number| number > 0) && job.run.retry_on.is_empty() {
        flags.requeue = Some(Requeue::Always);
    }
    let others: Map<String, Value> = args.need.iter().cloned().collect();
    let others: Needs = decode(&Value::Object(others).to_string(), Format::Json).map_err(|error| {
        let hint =
            error.hint.unwrap_or_else(|| "docs/reference/scenario.md lists what a job may need".into());
        CliError::Usage { message: format!("--need {}: {}", error.field, error.message), hint }
    })?;
    let said = others.or(flags).or(std::mem::take(&mut job.needs));
    // A workload knows better than any default.
    let usual = if job.workload.is_some() { Needs::default() } else { usual(&job.run)? };
    job.needs = said.or(usual);
    Ok(())
}

/// A command asks for one core, and takes what it asks for; whole nodes are for those who say so.
fn usual(run: &RunSpec) -> Result<Needs, CliError> {
    Ok(Needs {
        runtime: named("--runtime", Some(run.runtime()), Name::new)?,
        cpu_milli: Some(CPU_DEFAULT),
        exclusive: Some(false),
        ..Needs::default()
    })
}

/// The name that a flag gives, checked.
fn named<T>(
    flag: &str,
    text: Option<&str>,
    make: impl Fn(&str) -> Result<T, IdError>,
) -> Result<Option<T>, CliError> {
    let name = text.map(make).transpose();
    name.map_err(|error| usage(format!("{flag}: {error}"), "choose another name"))
}

fn placement(asked: &Negotiation, job: &mut JobRequest) {
    let mut request = job.placement.take().unwrap_or_default();
    let mut wish = |name: &str, values: &[String]| {
        if !values.is_empty() {
            request.hints.insert(name.to_owned(), json!(values));
        }
    };
    wish("prefer_regions", &asked.prefer_region);
    wish("prefer_peers", &asked.prefer_peer);
    wish("avoid_peers", &asked.avoid);
    wish("data", &asked.data);
    wish("colocate_with", &asked.colocate);
    request.max_cost = asked.max_cost.or(request.max_cost);
    request.preset = asked.preset.clone().or(request.preset);
    request.lease_ms = asked.lease.or(request.lease_ms);
    request.max_scope = asked.placement.clone().or(request.max_scope);
    request.negotiate = asked.negotiate.clone().or(request.negotiate);
    job.placement = Some(request).filter(|request| *request != PlacementRequest::default());
}

fn variable_of(text: &str) -> Result<(String, String), CliError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => match std::env::var(text) {
            Ok(value) => (text, value),
            Err(_) => return Err(usage(format!("you have no variable `{text}`"), "write it as NAME=VALUE")),
        },
    };
    if name.is_empty() {
        return Err(usage(format!("`{text}` names no variable"), "write it as NAME=VALUE"));
    }
    Ok((name.to_owned(), value))
}

fn text_of(path: &Path) -> Result<String, CliError> {
    /// The server takes no larger requests anyway.
    const MOST: u64 = 16 << 20;
    let file = if is_stdin(path) { "<stdin>".into() } else { path.display().to_string() };
    let mut text = String::new();
    let read = if is_stdin(path) {
        std::io::stdin().lock().take(MOST + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|opened| opened.take(MOST + 1).read_to_string(&mut text))
    };
    match read {
        Ok(size) if size as u64 > MOST => Err(usage(
            format!("{file} is larger than {} MiB", MOST >> 20),
            "put it where the node can read it",
        )),
        Ok(_) => Ok(text),
        Err(source) => Err(CliError::Read { file, source }),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        job: JobArgs,
    }

    fn request(line: &[&str]) -> JobRequest {
        let line =
            Line::try_parse_from([&["submit"], line].concat()).unwrap_or_else(|error| panic!("{error}"));
        match asked(&line.job, || Ok(0)).unwrap() {
            Asked::One(job) => *job,
            _ => panic!("more than one"),
        }
    }

    fn said(job: &JobRequest) -> Value {
        serde_json::to_value(&job.needs).unwrap()
    }

    #[test]
    fn a_command_alone_asks_for_one_core() {
        let job = request(&["--", "echo", "-n", "hello"]);
        assert_eq!(job.run.command, ["echo", "-n", "hello"]);
        assert_eq!(said(&job), json!({"runtime": "process", "cpu_milli": 1000, "exclusive": false}));
        assert_eq!((job.array, job.hold, job.placement), (None, false, None));
    }

    #[test]
    fn needs_are_the_fields_of_a_scenario() {
        let job = request(&[
            "--cpu",
            "500m",
            "--memory",
            "4GiB",
            "--gpu",
            "2:24GiB:sm_80",
            "--nodes",
            "3",
            "--exclusive",
            "--pool",
            "gpu",
            "--tenant",
            "lab",
            "--priority",
            "-3",
            "--class",
            "7",
            "--walltime",
            "2h",
            "--retries",
            "2",
            "--need",
            "sensitive=true",
            "--image",
            "alpine",
            "--",
            "true",
        ]);
        assert_eq!(
            said(&job),
            json!({"runtime": "container", "cpu_milli": 500, "ram_mib": 4096, "gpu_count": 2, "vram_mib": 24576,
                "gpu_capability": "sm_80", "nodes": {"min": 3, "max": 3}, "exclusive": true, "pool": "gpu", "tenant": "lab", "priority": -3,
                "class": 7, "walltime_ms": 7_200_000, "max_requeue": 2, "requeue": "always", "sensitive": true})
        );
    }

    #[test]
    fn wishes_of_negotiation_are_kept_together() {
        let job = request(&[
            "--prefer-region",
            "eu",
            "--avoid",
            "x",
            "--avoid",
            "y",
            "--max-cost",
            "5",
            "--lease",
            "30s",
            "--",
            "true",
        ]);
        let placement = job.placement.unwrap();
        assert_eq!(
            Value::Object(placement.hints),
            json!({"prefer_regions": ["eu"], "avoid_peers": ["x", "y"]})
        );
        assert_eq!((placement.max_cost, placement.lease_ms), (Some(5), Some(30_000)));
    }

    #[test]
    fn workloads_know_better_than_defaults() {
        let job = request(&["--workload", "train"]);
        assert!(job.needs.is_empty(), "{:?}", job.needs);
        assert_eq!(job.workload.as_deref(), Some("train"));
    }

    #[test]
    fn other_needs_are_read_as_in_a_file_and_come_first() {
        let job =
            request(&["--cpu", "2", "--need", "cpu_milli=4 cores", "--need", "tier=FLEX", "--", "true"]);
        assert_eq!(said(&job)["cpu_milli"], 4000);
        assert_eq!(said(&job)["tier"], "FLEX");
        let line = Line::try_parse_from(["submit", "--need", "cpu_mili=1", "--", "true"]).unwrap();
        let Err(CliError::Usage { message, hint }) = asked(&line.job, || Ok(0)) else {
            panic!("not refused")
        };
        assert_eq!(
            (message.as_str(), hint.as_str()),
            ("--need cpu_mili: unknown field `cpu_mili`", "did you mean `cpu_milli`?")
        );
    }

    #[test]
    fn nothing_to_run_is_refused() {
        let line = Line::try_parse_from(["submit", "--cpu", "2"]).unwrap();
        assert!(matches!(asked(&line.job, || Ok(0)), Err(CliError::Usage { .. })));
    }
}
