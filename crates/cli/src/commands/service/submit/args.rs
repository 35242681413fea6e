//! What may be said about a job on the command line.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use landfall_api::job::{ArrayRange, DependsOn};
use landfall_engine::dag::EdgeKind;
use landfall_model::{Checkpoint, Mib, Millis};

use crate::config;

// What a job is: the arguments that `submit` and `plan` share.
#[derive(Debug, Default, Clone, PartialEq, clap::Args)]
pub(crate) struct JobArgs {
    /// Program and arguments.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// A job in TOML or JSON, or several under `[[jobs]]` that may depend on each other; flags change a single job.
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// What people call it.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The workload it is made from.
    #[arg(long, value_name = "ID")]
    pub(crate) workload: Option<String>,
    /// The pool it is for [default: the only one, or `default`].
    #[arg(long, value_name = "ID")]
    pub(crate) pool: Option<String>,
    /// Whose it is [default: the tenant of the token].
    #[arg(long, value_name = "ID")]
    pub(crate) tenant: Option<String>,

    /// Cores, such as `2`, `0.5` or `500m` [default: 1].
    #[arg(long, value_name = "CORES", help_heading = "Needs", value_parser = cores)]
    pub(crate) cpu: Option<u64>,
    /// Memory, such as `4GiB`.
    #[arg(long, value_name = "SIZE", help_heading = "Needs", value_parser = mib)]
    pub(crate) memory: Option<u64>,
    /// GPUs: how many, memory of each, lowest capability, such as `1`, `2:24GiB` or `1:24GiB:sm_80`.
    #[arg(long, value_name = "N[:SIZE[:CAPABILITY]]", help_heading = "Needs", value_parser = gpu)]
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
    /// Time after which it is stopped, such as `2h`; batch pools plan with it [default: 1h in batch pools, else none].
    #[arg(long, value_name = "SPAN", help_heading = "Treatment", value_parser = some_time)]
    pub(crate) walltime: Option<u64>,
    /// How often it may go back to the queue.
    #[arg(long, value_name = "N", help_heading = "Treatment")]
    pub(crate) retries: Option<u32>,
    /// Exit codes after which it goes back to the queue, such as `75,137` [default with --retries: any but 0].
    #[arg(long, value_name = "CODES", help_heading = "Treatment", value_delimiter = ',')]
    pub(crate) retry_on: Vec<i32>,
    /// A job or array it waits for, and what of it: success (if left out), failure, any, corresponding.
    #[arg(long, value_name = "ID[:WHAT]", help_heading = "Treatment", value_parser = depends)]
    pub(crate) depends_on: Vec<DependsOn>,
    /// One of --depends-on will do.
    #[arg(long, help_heading = "Treatment", requires = "depends_on")]
    pub(crate) any: bool,
    /// One job for each index, such as `1-1000`, `0-90:10` or `7,57`; they see it as LANDFALL_ARRAY_INDEX.
    #[arg(long, value_name = "INDICES", help_heading = "Treatment", value_parser = array)]
    pub(crate) array: Option<Indices>,
    /// Not before: milliseconds since 1970, or a span from now such as `+2h`.
    #[arg(long, value_name = "WHEN", help_heading = "Treatment", allow_hyphen_values = true)]
    pub(crate) not_before: Option<String>,
    /// Accept it, but start it only after `landfall release`.
    #[arg(long, help_heading = "Treatment")]
    pub(crate) hold: bool,
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
    /// The farthest peer that may run it: local, family, federation, commons.
    #[arg(long, value_name = "SCOPE", help_heading = "Negotiation")]
    pub(crate) placement: Option<String>,
    /// A region it would like; may be given several times.
    #[arg(long, value_name = "NAME", help_heading = "Negotiation")]
    pub(crate) prefer_region: Vec<String>,
    /// A peer it would like; may be given several times.
    #[arg(long, value_name = "ID", help_heading = "Negotiation")]
    pub(crate) prefer_peer: Vec<String>,
    /// A peer it would not like; may be given several times.
    #[arg(long, value_name = "ID", help_heading = "Negotiation")]
    pub(crate) avoid: Vec<String>,
    /// A digest of data it reads; may be given several times.
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

/// A span; `10m` is ten minutes here as it is to everybody else.
pub(crate) fn millis(text: &str) -> Result<u64, String> {
    let minutes = text.strip_suffix('m').filter(|number| number.parse::<f64>().is_ok());
    let text = minutes.map_or_else(|| text.to_owned(), |number| format!("{number}min"));
    if text.parse::<f64>().is_ok() {
        return Err("say in what unit: 30s, 10min, 2h, 1d".into());
    }
    text.parse::<Millis>().map(Millis::get).map_err(|error| error.to_string())
}

/// A span in which something can happen.
fn some_time(text: &str) -> Result<u64, String> {
    match millis(text)? {
        0 => Err("a time-out of 0 leaves no time to run; leave it out for no limit".into()),
        span => Ok(span),
    }
}

fn gpu(text: &str) -> Result<GpuNeed, String> {
    let mut parts = text.splitn(3, ':');
    let count = parts.next().unwrap_or_default();
    let count: u32 = count.parse().map_err(|_| format!("`{count}` is no number of GPUs"))?;
    let vram_mib = parts.next().filter(|size| !size.is_empty()).map(mib).transpose()?;
    let capability = parts.next().map(str::to_owned).filter(|name| !name.is_empty());
    Ok(GpuNeed { count, vram_mib, capability })
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
        Some((_, other)) => {
            return Err(format!("`{other}` is none of success, failure, any, corresponding, mutex"));
        }
    };
    if on.is_empty() {
        return Err("name a job".into());
    }
    Ok(DependsOn { on: on.to_owned(), kind })
}

/// The indices of an array, as few ranges as they make; each is an array of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Indices(pub(crate) Vec<ArrayRange>);

/// Most indices that may be listed one by one.
const LISTED_MAX: u64 = 100_000;

fn array(text: &str) -> Result<Indices, String> {
    let wrong = || "write it as FIRST-LAST, FIRST-LAST:STEP or a list such as 7,57".to_owned();
    if text.contains('%') {
        return Err("a limit of elements that run at once is not supported; leave the % out".into());
    }
    let one = |part: &str| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let range = ArrayRange { first: number(first)?, last: number(last)?, step: number(step)? };
        if range.count() == 0 {
            return Err("the last index is below the first, or the step is 0".to_owned());
        }
        Ok(range)
    };
    let parts: Vec<ArrayRange> = text.split(',').map(one).collect::<Result<_, _>>()?;
    if let [only] = parts.as_slice() {
        return Ok(Indices(vec![*only]));
    }
    if parts.iter().map(|part| part.count()).sum::<u64>() > LISTED_MAX {
        return Err(format!("a list has at most {LISTED_MAX} indices; write a range"));
    }
    let all = parts.iter().flat_map(|part| (part.first..=part.last).step_by(part.step as usize));
    let mut all: Vec<u32> = all.collect();
    all.sort_unstable();
    all.dedup();
    Ok(Indices(ranges(&all)))
}

/// Indices in ascending order as few ranges with steps.
pub(crate) fn ranges(indices: &[u32]) -> Vec<ArrayRange> {
    let mut found = Vec::new();
    let mut rest = indices;
    while let [first, more @ ..] = rest {
        let step = more.first().map_or(1, |second| second - first);
        let pairs = rest.windows(2).take_while(|pair| pair[1] - pair[0] == step).count();
        found.push(ArrayRange { first: *first, last: rest[pairs], step });
        rest = &rest[pairs + 1..];
    }
    found
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
        assert!(millis("10").is_err() && millis("soon").is_err());
        assert_eq!(some_time("1s"), Ok(1000));
        assert!(some_time("0s").is_err());
    }

    #[test]
    fn arrays_are_ranges() {
        let range = |first, last, step| ArrayRange { first, last, step };
        for (text, found) in [
            ("1-1000", vec![range(1, 1000, 1)]),
            ("0-90:10", vec![range(0, 90, 10)]),
            ("7", vec![range(7, 7, 1)]),
            ("7,57", vec![range(7, 57, 50)]),
            ("57,7,7", vec![range(7, 57, 50)]),
            ("1,5,9", vec![range(1, 9, 4)]),
            ("1-3,7", vec![range(1, 3, 1), range(7, 7, 1)]),
            ("1,2,7,57", vec![range(1, 2, 1), range(7, 57, 50)]),
        ] {
            assert_eq!(array(text), Ok(Indices(found)), "{text}");
        }
        for wrong in ["5-1", "x", "", "1,", "0-9:0", "1-100%5", "0-4000000000,7"] {
            assert!(array(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dependencies_say_what_is_needed() {
        assert_eq!(depends("12").unwrap().kind, EdgeKind::Success);
        assert_eq!(depends("12:any").unwrap(), DependsOn { on: "12".into(), kind: EdgeKind::Any });
        assert!(depends("12:never").is_err() && depends(":any").is_err());
    }

    #[test]
    fn other_needs_are_json_or_words() {
        assert_eq!(need("sensitive=true"), Ok(("sensitive".into(), true.into())));
        assert_eq!(need("tier=FLEX"), Ok(("tier".into(), "FLEX".into())));
        assert!(need("sensitive").is_err());
    }
}
