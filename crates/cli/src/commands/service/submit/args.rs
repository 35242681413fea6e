//! What may be said about a job on the command line.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use landfall_api::job::DependsOn;
use landfall_engine::dag::EdgeKind;
use landfall_model::{Checkpoint, Indices, Mib, Millis, Price};

use super::script::Script;
use crate::config;

// What a job is: the arguments that `submit` and `plan` share.
#[derive(Debug, Default, Clone, PartialEq, clap::Args)]
pub(crate) struct JobArgs {
    /// A script with #LANDFALL or #SBATCH lines, and its arguments; those that begin with - stand behind `--`.
    #[arg(value_name = "SCRIPT", conflicts_with_all = ["file", "image", "module", "model"])]
    pub(crate) script: Vec<String>,
    /// Program and arguments; behind a script, more arguments of it.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    // The script as it was read; what its lines say is among the flags by then.
    #[arg(skip)]
    pub(crate) read: Option<Script>,
    /// Lines of the script to leave out, by the names of their options, such as `partition,account`.
    #[arg(long, value_name = "OPTIONS", value_delimiter = ',', requires = "script")]
    pub(crate) skip: Vec<String>,
    /// A job in TOML or JSON, or several under `[[jobs]]` that may depend on each other; flags change a single job.
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// What people call it.
    #[arg(long, alias = "job-name", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The workload it is made from.
    #[arg(long, value_name = "ID")]
    pub(crate) workload: Option<String>,
    /// The pool it is for [default: the only one, or `default`].
    #[arg(long, alias = "partition", value_name = "ID")]
    pub(crate) pool: Option<String>,
    /// Whose it is [default: the tenant of the token].
    #[arg(long, alias = "account", value_name = "ID")]
    pub(crate) tenant: Option<String>,

    /// Cores, such as `2`, `0.5` or `500m` [default: 1].
    #[arg(long, alias = "cpus", value_name = "CORES", help_heading = "Needs", value_parser = cores)]
    pub(crate) cpu: Option<u64>,
    /// Memory, such as `4GiB` or `4G`.
    #[arg(long, alias = "mem", value_name = "SIZE", help_heading = "Needs", value_parser = mib)]
    pub(crate) memory: Option<u64>,
    /// GPUs: how many and memory of each, such as `1` or `2:24GiB`; a slice of one, `mig:1g.10gb`; where peers negotiate also the lowest
    /// capability, `1:24GiB:sm_80`.
    #[arg(long, alias = "gpus", value_name = "N[:SIZE[:CAPABILITY]]", help_heading = "Needs", value_parser = gpu)]
    pub(crate) gpu: Option<GpuNeed>,
    /// A share of one GPU's compute, above 0 up to 1.
    #[arg(long, value_name = "SHARE", help_heading = "Needs", value_parser = gpu_share)]
    pub(crate) gpu_share: Option<u64>,
    /// Disk, such as `10GiB`.
    #[arg(long, value_name = "SIZE", help_heading = "Needs", value_parser = mib)]
    pub(crate) storage: Option<u64>,
    /// How many nodes together, all or nothing.
    #[arg(long, value_name = "N", help_heading = "Needs", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes: Option<u32>,
    /// Whole nodes, shared with nobody.
    #[arg(long, help_heading = "Needs")]
    pub(crate) exclusive: bool,
    /// Cores of its own: whole ones, on which no other pinned job runs; LANDFALL_CPU_LIST names them.
    #[arg(long, help_heading = "Needs")]
    pub(crate) pin: bool,
    /// Where it should run, if there is room (push pools).
    #[arg(long, value_name = "NAME", help_heading = "Needs")]
    pub(crate) region: Option<String>,
    /// Any other need, as in a scenario (docs/reference/scenario.md), such as `sensitive=true`; may be given several times.
    #[arg(long, value_name = "FIELD=VALUE", help_heading = "Needs", value_parser = need)]
    pub(crate) need: Vec<(String, serde_json::Value)>,

    /// What runs it: process, wasm, container or llmcpp [default: process, or what --image, --module or --model asks for].
    #[arg(long, value_name = "NAME", help_heading = "What runs")]
    pub(crate) runtime: Option<String>,
    /// Image of a container.
    #[arg(long, value_name = "IMAGE", help_heading = "What runs")]
    pub(crate) image: Option<String>,
    /// Module of a wasm job, as the node sees it.
    #[arg(long, value_name = "PATH", help_heading = "What runs")]
    pub(crate) module: Option<String>,
    /// Model of an llmcpp job, as the node sees it.
    #[arg(long, value_name = "PATH", help_heading = "What runs")]
    pub(crate) model: Option<String>,
    /// What of your environment it gets: ALL, NONE, or names and NAME=VALUE separated by commas, such as `ALL,SEED=7` [default: NONE].
    #[arg(long, value_name = "WHAT", help_heading = "What runs")]
    pub(crate) export: Option<String>,
    /// The variables of Slurm as well, such as SLURM_JOB_ID [default with #SBATCH lines: yes].
    #[arg(long, help_heading = "What runs")]
    pub(crate) slurm_env: bool,
    /// A file for what it writes, from its working directory; {job}, {array}, {index}, {name}, {node}, {rank} are filled in.
    #[arg(long, short = 'o', value_name = "FILE", help_heading = "What runs")]
    pub(crate) output: Option<String>,
    /// A file for what it writes to standard error [default with --output: the same].
    #[arg(long, value_name = "FILE", help_heading = "What runs")]
    pub(crate) error: Option<String>,
    /// An environment variable; without a value it is the one you have. May be given several times.
    #[arg(long, short = 'e', value_name = "NAME[=VALUE]", help_heading = "What runs")]
    pub(crate) env: Vec<String>,
    /// Working directory, from where you are [default: where you are, if the job runs on this machine as you; else a fresh one].
    #[arg(long, value_name = "PATH", help_heading = "What runs")]
    pub(crate) cwd: Option<String>,
    /// A file whose text becomes standard input; `-` is your own.
    #[arg(long, value_name = "FILE", help_heading = "What runs")]
    pub(crate) stdin_file: Option<PathBuf>,
    /// Longest run, in any pool, such as `10min`.
    #[arg(long, value_name = "SPAN", help_heading = "What runs", value_parser = some_time)]
    pub(crate) timeout: Option<u64>,

    /// Order within a push pool, higher first.
    #[arg(long, value_name = "N", help_heading = "Treatment", allow_hyphen_values = true)]
    pub(crate) priority: Option<i32>,
    /// Urgency in a batch pool, 0 to 10.
    #[arg(long, value_name = "N", help_heading = "Treatment", value_parser = clap::value_parser!(u8).range(0..=10))]
    pub(crate) class: Option<u8>,
    /// Time after which it is stopped, such as `2h` or `1:30:00`; batch pools plan with it [default: 1h in batch pools, else none].
    #[arg(long, alias = "time", value_name = "SPAN", help_heading = "Treatment", value_parser = some_time)]
    pub(crate) walltime: Option<u64>,
    /// How often it may go back to the queue.
    #[arg(long, value_name = "N", help_heading = "Treatment")]
    pub(crate) retries: Option<u32>,
    /// Pause before a run that failed is repeated; it doubles each time, to 10 min at most [default: 1s].
    #[arg(long, value_name = "SPAN", help_heading = "Treatment", value_parser = millis)]
    pub(crate) retry_delay: Option<u64>,
    /// How often it may be lost with its node before it has failed [default: 3].
    #[arg(long, value_name = "N", help_heading = "Treatment", conflicts_with = "retries")]
    pub(crate) crash_limit: Option<u32>,
    /// Exit codes after which it goes back to the queue, such as `75,137` [default with --retries: any but 0].
    #[arg(long, value_name = "CODES", help_heading = "Treatment", value_delimiter = ',')]
    pub(crate) retry_on: Vec<i32>,
    /// A job or array it waits for, and what of it: success (if left out), failure, any, corresponding.
    #[arg(long, value_name = "ID[:WHAT]", help_heading = "Treatment", value_delimiter = ',', value_parser = depends)]
    pub(crate) depends_on: Vec<DependsOn>,
    /// One of --depends-on will do.
    #[arg(long, help_heading = "Treatment", requires = "depends_on")]
    pub(crate) any: bool,
    /// The DAG it is part of: its id, or that of a job or an array of it.
    #[arg(long, value_name = "ID", help_heading = "Treatment")]
    pub(crate) dag: Option<String>,
    /// One job for each index, such as `1-1000`, `0-90:10`, `1,2,9-12` or `1-1000%10` (10 at once); they see it as LANDFALL_ARRAY_INDEX.
    #[arg(long, value_name = "INDICES", help_heading = "Many", value_parser = array)]
    pub(crate) array: Option<Array>,
    /// One job for each line of a file, which it finds in LANDFALL_ENTRY and where its command says {entry}; the index is the line.
    #[arg(long, value_name = "FILE", help_heading = "Many", conflicts_with_all = ["array", "from_json"])]
    pub(crate) each_line: Option<PathBuf>,
    /// One job for each element of a list in JSON, likewise; {entry.FIELD} is a field of an object.
    #[arg(long, value_name = "FILE", help_heading = "Many", conflicts_with = "array")]
    pub(crate) from_json: Option<PathBuf>,
    /// More elements may be added later, until `landfall arrays close`.
    #[arg(long, help_heading = "Many")]
    pub(crate) open: bool,
    /// How many of them run at once, at most.
    #[arg(long, value_name = "N", help_heading = "Many", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) at_once: Option<u32>,
    /// How many of them may fail; when more have, the rest is cancelled.
    #[arg(long, value_name = "N", help_heading = "Many")]
    pub(crate) max_fails: Option<u32>,
    /// Not before: a span from now such as `+2h`, a date such as `2026-11-17T12:30Z` (UTC), or milliseconds since 1970.
    #[arg(long, value_name = "WHEN", help_heading = "Treatment", allow_hyphen_values = true)]
    pub(crate) not_before: Option<String>,
    /// Accept it, but start it only after `landfall release`.
    #[arg(long, help_heading = "Treatment")]
    pub(crate) hold: bool,
    /// Most it may cost, where its pool has prices: it waits for a node on which it costs no more.
    #[arg(long, value_name = "PRICE", help_heading = "Treatment", allow_hyphen_values = true)]
    pub(crate) max_price: Option<Price>,
    /// Refuse it if no node could ever run it, instead of a warning.
    #[arg(long, help_heading = "Treatment")]
    pub(crate) strict: bool,
    /// How it saves its work when it has to leave.
    #[arg(long, value_name = "HOW", help_heading = "Treatment", value_parser = checkpoint())]
    pub(crate) checkpoint: Option<Checkpoint>,

    #[command(flatten)]
    pub(crate) negotiation: Negotiation,
}

// How a job of a pool that negotiates wants to be placed.
#[derive(Debug, Default, Clone, PartialEq, clap::Args)]
pub(crate) struct Negotiation {
    /// The farthest peer that may run it: local, cell, org, federation, commons.
    #[arg(long, value_name = "SCOPE", help_heading = "Negotiation")]
    pub(crate) placement: Option<String>,
    /// Whether offers are compared: always, never (the first that fits is taken), auto [default: auto, by whether it says what it needs].
    #[arg(long, value_name = "WHEN", help_heading = "Negotiation")]
    pub(crate) negotiate: Option<String>,
    /// A region it would like; may be given several times.
    #[arg(long, value_name = "NAME", help_heading = "Negotiation")]
    pub(crate) prefer_region: Vec<String>,
    /// A peer it would like; may be given several times.
    #[arg(long, value_name = "ID", help_heading = "Negotiation")]
    pub(crate) prefer_peer: Vec<String>,
    /// A peer it would not like; may be given several times.
    #[arg(long, value_name = "ID", help_heading = "Negotiation")]
    pub(crate) avoid: Vec<String>,
    /// What it reads, as peers name what they have warm: an image, a workload; may be given several times.
    #[arg(long, value_name = "DIGEST", help_heading = "Negotiation")]
    pub(crate) data: Vec<String>,
    /// A job it should run beside; may be given several times.
    #[arg(long, value_name = "ID", help_heading = "Negotiation")]
    pub(crate) colocate: Vec<String>,
    /// Most it pays, in credits per 1000 fuel.
    #[arg(long, value_name = "CREDITS", help_heading = "Negotiation")]
    pub(crate) max_cost: Option<u64>,
    /// Named weights for offers.
    #[arg(long, value_name = "NAME", help_heading = "Negotiation")]
    pub(crate) preset: Option<String>,
    /// How long an award lasts without renewal, such as `30s`.
    #[arg(long, value_name = "SPAN", help_heading = "Negotiation", value_parser = millis)]
    pub(crate) lease: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GpuNeed {
    pub(crate) count: u32,
    /// Memory of each.
    pub(crate) vram_mib: Option<u64>,
    pub(crate) capability: Option<String>,
    /// A slice of one instead.
    pub(crate) slice: Option<String>,
}

fn checkpoint() -> impl TypedValueParser<Value = Checkpoint> {
    PossibleValuesParser::new(["none", "auto", "manual"]).map(|word| match word.as_str() {
        "auto" => Checkpoint::Auto,
        "manual" => Checkpoint::Manual,
        _ => Checkpoint::None,
    })
}

fn cores(text: &str) -> Result<u64, String> {
    config::cores(text).map(|amount| amount.get())
}

pub(crate) fn mib(text: &str) -> Result<u64, String> {
    text.parse::<Mib>().map(Mib::get).map_err(|error| error.to_string())
}

pub(crate) fn millis(text: &str) -> Result<u64, String> {
    landfall_model::span(text).map(Millis::get)
}

/// A span in which something can happen.
fn some_time(text: &str) -> Result<u64, String> {
    match millis(text)? {
        0 => Err("a time-out of 0 leaves no time to run; leave it out for no limit".into()),
        span => Ok(span),
    }
}

fn gpu(text: &str) -> Result<GpuNeed, String> {
    if let Some(profile) = text.strip_prefix("mig:") {
        if landfall_model::MigProfile::parse(profile).is_none() {
            return Err(format!("`{profile}` is no slice of a GPU; write it as `mig:1g.10gb` or `mig:2g`"));
        }
        let slice = Some(profile.to_owned());
        return Ok(GpuNeed { count: 1, vram_mib: None, capability: None, slice });
    }
    let mut parts = text.splitn(3, ':');
    let count = parts.next().unwrap_or_default();
    let count: u32 = count.parse().map_err(|_| format!("`{count}` is no number of GPUs"))?;
    let vram_mib = parts.next().filter(|size| !size.is_empty()).map(mib).transpose()?;
    let capability = parts.next().map(str::to_owned).filter(|name| !name.is_empty());
    Ok(GpuNeed { count, vram_mib, capability, slice: None })
}

fn gpu_share(text: &str) -> Result<u64, String> {
    let share: f64 = text.parse().map_err(|_| "write a number above 0 up to 1".to_owned())?;
    let milli = (share * 1000.0).round();
    if !(1.0..=1000.0).contains(&milli) {
        return Err("write a number above 0 up to 1".into());
    }
    Ok(milli as u64)
}

/// `name=value`; a value that is no JSON is a word.
fn need(text: &str) -> Result<(String, serde_json::Value), String> {
    let (name, value) = text.split_once('=').ok_or("write it as FIELD=VALUE")?;
    let parsed = serde_json::from_str(value).unwrap_or_else(|_| serde_json::Value::String(value.to_owned()));
    Ok((name.trim().to_owned(), parsed))
}

fn depends(text: &str) -> Result<DependsOn, String> {
    let (on, kind) = match text.rsplit_once(':') {
        None => (text, EdgeKind::Success),
        Some((on, "success" | "afterok")) => (on, EdgeKind::Success),
        Some((on, "failure" | "afternotok")) => (on, EdgeKind::Failure),
        Some((on, "any" | "afterany")) => (on, EdgeKind::Any),
        Some((on, "corresponding" | "aftercorr")) => (on, EdgeKind::Corresponding),
        Some((on, "mutex")) => (on, EdgeKind::Mutex),
        Some((what @ ("success" | "afterok" | "failure" | "afternotok" | "any" | "afterany"), id)) => {
            return Err(format!("it stands behind the job: write {}:{what}", id.replace(':', ",")));
        }
        Some((_, other)) => {
            return Err(format!("`{other}` is none of success, failure, any, corresponding, mutex"));
        }
    };
    if on.is_empty() {
        return Err("name a job".into());
    }
    Ok(DependsOn { on: on.to_owned(), kind })
}

/// The indices of an array, and how many of its elements run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Array {
    pub(crate) indices: Indices,
    pub(crate) at_once: Option<u32>,
}

fn array(text: &str) -> Result<Array, String> {
    let (text, at_once) = match text.split_once('%') {
        Some((text, limit)) => {
            let limit = limit.parse::<u32>().ok().filter(|limit| *limit > 0);
            (text, Some(limit.ok_or("behind the % stands how many run at once, 1 or more")?))
        }
        None => (text, None),
    };
    Ok(Array { indices: text.parse()?, at_once })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_a_number_memory_and_a_capability() {
        let need = |count, vram_mib, capability: Option<&str>| GpuNeed {
            count,
            vram_mib,
            capability: capability.map(str::to_owned),
            slice: None,
        };
        assert_eq!(gpu("2"), Ok(need(2, None, None)));
        assert_eq!(gpu("1:24GiB"), Ok(need(1, Some(24_576), None)));
        assert_eq!(gpu("1:24GiB:sm_80"), Ok(need(1, Some(24_576), Some("sm_80"))));
        assert_eq!(gpu("1::sm_80"), Ok(need(1, None, Some("sm_80"))));
        assert!(gpu("one").is_err() && gpu("1:24GB").is_err());
        assert_eq!((gpu_share("0.5"), gpu_share("1")), (Ok(500), Ok(1000)));
        assert!(gpu_share("0").is_err() && gpu_share("2").is_err());
    }

    #[test]
    fn spans_need_a_unit() {
        assert_eq!((millis("10m"), millis("2h"), millis("90s")), (Ok(600_000), Ok(7_200_000), Ok(90_000)));
        assert_eq!((millis("1h30m"), millis("01:30:00")), (Ok(5_400_000), Ok(5_400_000)));
        assert!(millis("10").is_err() && millis("soon").is_err());
        assert_eq!((mib("4G"), mib("512M"), mib("4GiB")), (Ok(4096), Ok(512), Ok(4096)));
        assert!(mib("4GB").is_err());
        assert_eq!(some_time("1s"), Ok(1000));
        assert!(some_time("0s").is_err());
    }

    #[test]
    fn arrays_have_indices_and_perhaps_a_limit() {
        for (text, indices, at_once) in
            [("1-1000%10", "1-1000", Some(10)), ("1,2,9%2", "1,2,9", Some(2)), ("7", "7", None)]
        {
            assert_eq!(array(text), Ok(Array { indices: indices.parse().unwrap(), at_once }), "{text}");
        }
        for wrong in ["5-1", "", "1-100%0", "1-9%", "%2"] {
            assert!(array(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dependencies_say_what_is_needed() {
        assert_eq!(depends("12").unwrap().kind, EdgeKind::Success);
        assert_eq!(depends("12:any").unwrap(), DependsOn { on: "12".into(), kind: EdgeKind::Any });
        assert!(depends("afterok:12").unwrap_err().contains("write 12:afterok"));
        assert!(depends("12:never").is_err() && depends(":any").is_err());
    }

    #[test]
    fn other_needs_are_json_or_words() {
        assert_eq!(need("sensitive=true"), Ok(("sensitive".into(), true.into())));
        assert_eq!(need("tier=FLEX"), Ok(("tier".into(), "FLEX".into())));
        assert!(need("sensitive").is_err());
    }
}
