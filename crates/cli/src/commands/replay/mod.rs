//! `landfall replay`: a recorded workload in virtual time.

mod bounds;
mod journal;
mod options;
mod out;
mod policies;
mod progress;
mod subject;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use landfall_replay::decisions::Decisions;
use landfall_replay::machine::{LOG_POLICIES, LogPolicy, Sequence};
use landfall_replay::measures::{Measures, rounded};
use landfall_replay::report::{Extract, of_run};
use landfall_replay::run::Run;
use landfall_replay::subject::{Chosen, Log, PolicyKind, ReplayError, SequenceMeans, Subject};
use serde::Serialize;

use crate::answer::{Answer, Page, to_json};
use crate::commands::trace::files::write_file;
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::render;
use crate::reply::Reply;

pub(crate) use bounds::{Bound, parse as parse_bound};
pub(crate) use out::OutArgs;
pub(crate) use progress::{Bar, step};
pub(crate) use subject::{Read, SubjectArgs};

use options::parse_sequence;

/// What is replayed, under what, with examples.
fn help() -> String {
    let policies = LOG_POLICIES.map(|(name, _, meaning)| format!("  {name:<22} {meaning}"));
    format!(
        "\
What is replayed follows from the trace: a batch log (SWF) on a machine of --procs processors, GPU pods (openb) packed on \
--nodes, or any trace on a --cluster with pools, tenants, GPUs and nodes that come and go. No clock passes.

Policies for logs; besides, every built-in policy (`landfall policy list`) or policy file:
{}

Examples:
  landfall replay kth.swf.gz --procs 100 --policy easy
  landfall replay kth.swf.gz --procs 100 --policy sjbf --estimate true --events single --schedule-out sjbf.swf
  landfall replay pods.csv --nodes nodes.csv --policy fgd --seed 42 --curve-out fgd.csv
  landfall replay week.jsonl --cluster hpc.toml --policy balanced --out week
  landfall replay --journal /var/lib/landfall --verify
  landfall replay lublin.swf --procs 256 --policy f1 --sequence 1981:1024 --sequence 2756:1024

Ends with 4 if a bound given with --fail-if was broken.",
        policies.join("\n")
    )
}

#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Args {
    /// The trace: SWF, openb pods, Muri or Landfall's own; plain or gzip.
    #[arg(value_name = "TRACE", required_unless_present = "journal")]
    trace: Option<PathBuf>,
    /// The data directory of a server instead of a trace; it may run.
    #[arg(long, value_name = "DIR", requires = "verify", conflicts_with = "trace")]
    journal: Option<PathBuf>,
    /// Apply the events of the journal again and compare the state with the server's snapshots.
    #[arg(long, requires = "journal")]
    verify: bool,
    #[command(flatten)]
    subject: SubjectArgs,
    /// A policy for logs, a built-in policy or a policy file.
    #[arg(long, visible_alias = "profile", value_name = "NAME|FILE")]
    policy: Option<String>,
    /// Replay a part of the log on an empty machine, one job at a time: first job (from 0) and how many. Given several
    /// times, means over the parts are reported. Jobs are then taken by number, failed ones too.
    #[arg(long = "sequence", value_name = "START:COUNT", value_parser = parse_sequence)]
    sequences: Vec<Sequence>,
    /// Draws whatever the trace leaves open; with --arrivals, chooses the order.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Write the log with simulated waits (field 3) to this file.
    #[arg(long, value_name = "FILE")]
    schedule_out: Option<PathBuf>,
    /// Write the allocation curve of a packing run to this file, as CSV.
    #[arg(long, value_name = "FILE")]
    curve_out: Option<PathBuf>,
    /// Fail (exit 4) if a measure is beyond a bound, such as `utilisation<0.6`; may be given several times.
    #[arg(long, value_name = "BOUND", value_parser = parse_bound)]
    fail_if: Vec<Bound>,
    #[command(flatten)]
    out: OutArgs,
}

#[derive(Debug, Serialize)]
pub(crate) struct Replayed {
    pub(crate) schema: &'static str,
    #[serde(flatten)]
    pub(crate) measures: Measures,
    /// Jobs of the trace that were left out, by reason.
    pub(crate) dropped: BTreeMap<String, u64>,
    /// Jobs whose missing estimate became their run time.
    pub(crate) estimates_defaulted: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) broken: Vec<String>,
    /// What looked odd, bounds that were broken included.
    #[serde(skip)]
    pub(crate) warnings: Vec<String>,
    #[serde(skip)]
    pub(crate) written: Vec<String>,
    /// How long it took, which is nobody's business but that of whoever waits for it.
    #[serde(skip)]
    pub(crate) took: Duration,
}

/// The answer of `replay` over sequences of a log.
#[derive(Debug, Serialize)]
pub(crate) struct Sequences {
    pub(crate) trace: String,
    pub(crate) policy: String,
    pub(crate) jobs: u64,
    pub(crate) mean_bounded_slowdown: f64,
    pub(crate) mean_wait_s: f64,
    pub(crate) utilisation: f64,
    pub(crate) sequences: Vec<OneSequence>,
}

#[derive(Debug, Serialize)]
pub(crate) struct OneSequence {
    pub(crate) start: usize,
    pub(crate) jobs: usize,
    pub(crate) mean_bounded_slowdown: f64,
    pub(crate) mean_wait_s: f64,
    pub(crate) utilisation: f64,
}

pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let trace = match (&args.journal, &args.trace) {
        (None, Some(trace)) => trace,
        (Some(dir), _) => return journal::verify(dir),
        (None, None) => {
            return Err(usage("there is nothing to replay", "name a trace, or --journal DIR --verify"));
        }
    };
    args.out.check(&FILES, &[&args.schedule_out, &args.curve_out])?;
    if let Some(bound) = args.fail_if.iter().find(|bound| bound.is_relative()) {
        let what = format!("`{bound}` is a change against a baseline, and one replay has none");
        return Err(usage(&what, "give a value, or use `landfall compare`"));
    }
    let read = args.subject.read(trace, !args.sequences.is_empty())?;
    let policy = policy_for(args.policy.as_deref(), &read.subject)?;
    if let (Subject::Log(log), false) = (&read.subject, args.sequences.is_empty()) {
        let data = sequences(args, log, &policy)?;
        let page = |data: &Sequences, _| render::replay::sequences(data);
        return Ok(Reply::new("landfall.replay-sequences/1", data, page).boxed());
    }
    args.suits(&read.subject, &policy)?;
    let (run, took) = replayed(args, &read, &policy)?;
    let mut written = Vec::new();
    if let (Some(path), Some(log), Subject::Log(kept)) = (&args.schedule_out, &read.log, &read.subject) {
        out::write_schedule(path, args.out.force, log, &kept.jobs, &run)?;
        written.push(path.display().to_string());
    }
    if let Some(path) = &args.curve_out {
        out::write_curve(path, args.out.force, &run)?;
        written.push(path.display().to_string());
    }
    let extract = args.out.out.is_some().then(|| Extract::of(&run));
    let measures = extract.as_ref().map_or_else(|| Measures::of(&run), |extract| extract.measures.clone());
    let broken: Vec<String> = args.fail_if.iter().filter_map(|bound| bound.broken_by(&measures)).collect();
    let mut warnings = broken.clone();
    if measures.started == 0 {
        warnings.push("no job started; `landfall trace info` says what is in the trace".to_owned());
    }
    let Read { dropped, estimates_defaulted, .. } = read;
    let schema = "landfall.replay/1";
    let mut answer =
        Replayed { schema, measures, dropped, estimates_defaulted, broken, warnings, written, took };
    if let (Some(dir), Some(extract)) = (&args.out.out, extract) {
        let mut json = serde_json::to_vec_pretty(&answer).map_err(|error| CliError::Output(error.into()))?;
        json.push(b'\n');
        args.out.write(&dir.join("report.json"), &json)?;
        args.out.write(&dir.join("report.html"), of_run(&extract).as_bytes())?;
        answer.written.push(dir.display().to_string());
    }
    Ok(Box::new(answer))
}

/// Files that `--out` writes.
const FILES: [&str; 3] = ["report.json", "report.html", "decisions.jsonl"];

impl Args {
    /// Refuses options that do not go with what is replayed, before anything is done.
    fn suits(&self, subject: &Subject, policy: &Chosen) -> Result<(), CliError> {
        if self.schedule_out.is_some() && !matches!(subject, Subject::Log(_)) {
            return Err(usage(
                "--schedule-out is for batch logs",
                "use --out for the decisions of other replays",
            ));
        }
        if self.curve_out.is_some() && !matches!(subject, Subject::Pods(_)) {
            return Err(usage("--curve-out is for packing of GPU pods", "give a pod list and --nodes"));
        }
        let one_by_one = matches!(policy.what, PolicyKind::Log(LogPolicy::Committed(_)));
        let given = &self.subject;
        let timed = given.events.is_some() || given.cycle.is_some() || given.estimate.is_some();
        if one_by_one && timed {
            let what = format!("policy `{}` takes one job at a time by user estimates", policy.name);
            return Err(usage(&what, "leave out --estimate, --events and --cycle"));
        }
        Ok(())
    }
}

/// Replays, with the log of decisions written where it is wanted.
fn replayed(args: &Args, read: &Read, policy: &Chosen) -> Result<(Run, Duration), CliError> {
    let bar = Bar::new(read.subject.size(args.seed), None);
    let replay = |out: Option<&mut dyn Write>| {
        let began = Instant::now();
        let run = read.subject.run(policy, args.seed, Decisions::new(out), &mut step(&bar));
        bar.clear();
        run.map(|run| (run, began.elapsed()))
    };
    let Some(dir) = args.out.directory()? else { return replay(None).map_err(replay_error) };
    // A replay that fails leaves no log of decisions behind.
    let mut failed = None;
    let done = write_file(&dir.join("decisions.jsonl"), args.out.force, |out| {
        replay(Some(out)).map_err(|error| {
            let told = io::Error::other(error.to_string());
            failed = Some(error);
            told
        })
    });
    done.map_err(|error| failed.map_or(error, replay_error))
}

/// The policy asked for, or the usual one.
pub(crate) fn policy_for(name: Option<&str>, subject: &Subject) -> Result<Chosen, CliError> {
    policies::choose(name.unwrap_or(policies::default_of(subject)), subject)
}

/// Turns a replay that could not be done into an answer.
pub(crate) fn replay_error(error: ReplayError) -> CliError {
    match error {
        ReplayError::Policy { .. } => {
            usage(error.to_string(), "`landfall replay --help` lists policies for logs")
        }
        ReplayError::Subject(message) => {
            usage(&message, "see `landfall replay --help` for what goes together")
        }
        ReplayError::Decisions(source) => CliError::Output(source),
    }
}

fn sequences(args: &Args, log: &Log, policy: &Chosen) -> Result<Sequences, CliError> {
    let given = &args.subject;
    let ignored = [
        ("--out", args.out.out.is_some()),
        ("--schedule-out", args.schedule_out.is_some()),
        ("--curve-out", args.curve_out.is_some()),
        ("--fail-if", !args.fail_if.is_empty()),
        ("--estimate", given.estimate.is_some()),
        ("--events", given.events.is_some()),
        ("--cycle", given.cycle.is_some()),
    ];
    if let Some((name, _)) = ignored.iter().find(|(_, given)| *given) {
        return Err(usage(format!("{name} does not go with --sequence"), "leave one of them out"));
    }
    let means = log.sequences(policy, &args.sequences).map_err(replay_error)?;
    let each = args.sequences.iter().enumerate().map(|(place, part)| OneSequence {
        start: part.start,
        jobs: part.count,
        mean_bounded_slowdown: rounded(means.slowdowns[place]),
        mean_wait_s: rounded(means.waits[place]),
        utilisation: rounded(means.utilisations[place]),
    });
    Ok(Sequences {
        trace: log.name.clone(),
        policy: policy.name.clone(),
        jobs: args.sequences.iter().map(|part| part.count as u64).sum(),
        mean_bounded_slowdown: rounded(SequenceMeans::mean(&means.slowdowns)),
        mean_wait_s: rounded(SequenceMeans::mean(&means.waits)),
        utilisation: rounded(SequenceMeans::mean(&means.utilisations)),
        sequences: each.collect(),
    })
}

impl Answer for Replayed {
    fn exit(&self) -> Exit {
        if self.broken.is_empty() { Exit::Done } else { Exit::BoundBroken }
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn text(&self, _page: Page) -> String {
        render::replay::replayed(self)
    }

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        to_json(out, self)
    }
}
