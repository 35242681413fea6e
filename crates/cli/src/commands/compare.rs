//! `landfall compare`: several policies on the same traces.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use landfall_model::Mib;
use landfall_replay::decisions::Decisions;
use landfall_replay::measures::{Comparison, Measures};
use landfall_replay::report::{Extract, of_comparison};
use landfall_replay::subject::{Chosen, ReplayError};
use serde::Serialize;

use super::replay::{Bar, Bound, OutArgs, Read, SubjectArgs, parse_bound, policy_for, replay_error, step};
use super::trace::stretch::StretchArgs;
use crate::answer::{Answer, Page, to_json};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::render;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs every policy on every trace, with every seed where one matters, on all cores. Means and spreads over seeds are shown \
with the difference to the baseline; the first policy is the baseline unless --baseline names another.

Examples:
  landfall compare kth.swf.gz --procs 100 --policy easy --policy easy++ --policy landfall-batch
  landfall compare pods.csv --nodes nodes.csv --policy fgd --policy landfall-pack --seeds 10 --out packing
  landfall compare week.jsonl --cluster hpc.toml --policy balanced --policy hpc-batch --fail-if 'mean_wait_s>+10%'
  landfall compare --journal /var/lib/landfall --since 7d --pool gpu --policy own --policy fgd --out last-week

Ends with 4 if a bound given with --fail-if was broken.")]
pub(crate) struct Args {
    /// Traces: SWF, openb pods, Muri or Landfall's own; plain or gzip.
    #[arg(value_name = "TRACE", required_unless_present = "journal")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    stretch: StretchArgs,
    #[command(flatten)]
    subject: SubjectArgs,
    /// A policy for logs, a built-in policy, a policy file, or `own` for what pools have; give several.
    #[arg(long, visible_alias = "profile", value_name = "NAME|FILE", required = true)]
    policy: Vec<String>,
    /// The policy that others are measured against; the first one without it.
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// The first seed.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// How many seeds, where one matters.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Replays at the same time; as many as there are cores without it.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Fail (exit 4) if a measure is beyond a bound, such as `utilisation<0.6` or, against the baseline,
    /// `mean_wait_s>+10%`; may be given several times.
    #[arg(long, value_name = "BOUND", value_parser = parse_bound)]
    fail_if: Vec<Bound>,
    /// Give way to everything else on this machine.
    #[arg(long)]
    low_priority: bool,
    /// Fail rather than take more memory than this, such as 4GiB.
    #[arg(long, value_name = "SIZE")]
    memory_max: Option<Mib>,
    /// Say in this file how far it is, from 0 to 1.
    #[arg(long, value_name = "FILE")]
    progress_file: Option<PathBuf>,
    #[command(flatten)]
    out: OutArgs,
}

#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) schema: &'static str,
    /// One comparison per trace.
    pub(crate) comparisons: Vec<Comparison>,
    /// Jobs left out of each trace, by reason.
    pub(crate) dropped: BTreeMap<String, BTreeMap<String, u64>>,
    pub(crate) broken: Vec<String>,
    #[serde(skip)]
    pub(crate) written: Vec<String>,
}

/// One replay to do.
struct Task<'a> {
    read: &'a Read,
    policy: Chosen,
    seed: u64,
}

pub(crate) fn run(args: &Args) -> Result<Compared, CliError> {
    args.out.check(&["report.json", "report.html"], &[])?;
    twice("policy", args.policy.iter().map(String::as_str))?;
    bounded(args)?;
    let stretch = args.stretch.write(args.out.directory()?, args.out.force)?;
    let traces = stretch.iter().chain(&args.traces);
    let reads: Vec<Read> = traces.map(|trace| args.subject.read(trace, false)).collect::<Result<_, _>>()?;
    twice("trace", reads.iter().map(|read| read.subject.name()))?;
    if args.seed.checked_add(args.seeds).is_none() {
        return Err(usage("--seed is too large for so many seeds", "begin with a smaller one"));
    }
    let mut tasks = Vec::new();
    for read in &reads {
        for name in &args.policy {
            let policy = policy_for(Some(name), &read.subject)?;
            let seeds = if read.subject.draws(&policy) { args.seeds } else { 1 };
            tasks.extend((0..seeds).map(|more| Task {
                read,
                policy: policy.clone(),
                seed: args.seed + more,
            }));
        }
    }
    let extracts = replay_all(&tasks, args.threads, args.progress_file.as_deref()).map_err(replay_error)?;
    let measures: Vec<Measures> = extracts.iter().map(|extract| extract.measures.clone()).collect();
    let wrong = |error: landfall_replay::measures::CompareError| {
        usage(error.to_string(), "name one of the policies with --baseline")
    };
    let comparisons = Comparison::by_trace(&measures, args.baseline.as_deref()).map_err(wrong)?;
    let broken =
        args.fail_if.iter().flat_map(|bound| comparisons.iter().flat_map(|one| bound.broken_in(one)));
    let dropped = reads.iter().filter(|read| !read.dropped.is_empty());
    let dropped = dropped.map(|read| (read.subject.name().to_owned(), read.dropped.clone())).collect();
    let mut answer = Compared {
        schema: "landfall.compare/1",
        broken: broken.collect(),
        dropped,
        comparisons,
        written: Vec::new(),
    };
    if let Some(dir) = args.out.directory()? {
        let mut json = serde_json::to_vec_pretty(&answer).map_err(|error| CliError::Output(error.into()))?;
        json.push(b'\n');
        args.out.write(&dir.join("report.json"), &json)?;
        let html = of_comparison(&extracts, args.baseline.as_deref()).map_err(wrong)?;
        args.out.write(&dir.join("report.html"), html.as_bytes())?;
        answer.written.push(dir.display().to_string());
    }
    Ok(answer)
}

/// Takes no more of this machine than it was told to.
fn bounded(args: &Args) -> Result<(), CliError> {
    use rustix::process::{Resource, Rlimit, nice, setrlimit};
    let failed =
        |what: &str, error: rustix::io::Errno| usage(format!("{what}: {error}"), "leave it out, or ask less");
    if args.low_priority {
        nice(19).map_err(|error| failed("--low-priority", error))?;
    }
    if let Some(most) = args.memory_max {
        let bytes = Some(most.get().saturating_mul(1 << 20));
        let limit = Rlimit { current: bytes, maximum: bytes };
        setrlimit(Resource::As, limit).map_err(|error| failed("--memory-max", error))?;
    }
    Ok(())
}

/// Refuses what could not be told apart in the answer.
fn twice<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), CliError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            let message = format!("there are two of {what} `{name}`");
            return Err(usage(&message, "give each once; traces are told apart by their file names"));
        }
    }
    Ok(())
}

/// Replays everything on so many threads; answers come in the order of the tasks.
fn replay_all(
    tasks: &[Task<'_>],
    threads: Option<usize>,
    told_in: Option<&Path>,
) -> Result<Vec<Extract>, ReplayError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.unwrap_or(cores).clamp(1, tasks.len().max(1));
    let bar = Bar::new(tasks.iter().map(|task| task.read.subject.size(task.seed)).sum(), told_in);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Result<Extract, ReplayError>>>> =
        Mutex::new(tasks.iter().map(|_| None).collect());
    let work = || {
        while let Some((place, task)) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            tasks.get(place).map(|task| (place, task))
        } {
            let subject = &task.read.subject;
            let run = subject.run(&task.policy, task.seed, Decisions::new(None), &mut step(&bar));
            let extract = run.map(|run| Extract::of(&run));
            if let Ok(mut done) = done.lock() {
                done[place] = Some(extract);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    bar.clear();
    let done = done.into_inner().unwrap_or_default();
    done.into_iter().flatten().collect()
}

impl Answer for Compared {
    fn exit(&self) -> Exit {
        if self.broken.is_empty() { Exit::Done } else { Exit::BoundBroken }
    }

    fn warnings(&self) -> &[String] {
        &self.broken
    }

    fn text(&self, page: Page) -> String {
        render::replay::compared(self, page)
    }

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        to_json(out, self)
    }
}
