//! `landfall trace convert`: one kind of trace from another.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use landfall_replay::trace::convert::{Converted, Shape, from_muri, from_openb, from_swf, to_swf};
use landfall_replay::trace::own::{Header, Trace};
use landfall_replay::trace::swf::{BadLines, Log};
use landfall_replay::trace::{Kind, TraceError, muri, openb};
use serde::Serialize;

use super::files::{self, Opened, write_file};
use crate::answer::{Answer, Page, to_json};
use crate::error::{CliError, usage};
use crate::render;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The kind of IN is told by what it says, that of OUT by its name: .swf is a log, anything else a trace of landfall's own.
A name of OUT that ends in .gz is compressed. Jobs that cannot be said in the other kind are left out and counted.

Examples:
  landfall trace convert KTH-SP2.swf.gz kth.jsonl
  landfall trace convert openb_pod_list_default.csv openb.jsonl.gz --nodes openb_node_list_gpu_node.csv
  landfall trace convert muri_philly_trace1.csv philly.jsonl --node-count 64 --gpus-per-node 8
  landfall trace convert kth.jsonl kth.swf")]
pub(crate) struct Args {
    /// The trace to read.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The trace to write.
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// What IN is, where its content does not tell.
    #[arg(long, value_name = "KIND", value_parser = files::kind)]
    from: Option<Kind>,
    /// What OUT shall be: landfall or swf.
    #[arg(long, value_name = "KIND", value_parser = files::kind)]
    to: Option<Kind>,
    /// Processors of a log's machine; without it, what the header says.
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u64).range(1..))]
    procs: Option<u64>,
    /// Processors that make a node.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    procs_per_node: u64,
    /// GPUs of a node: jobs with more become gangs.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    gpus_per_node: u32,
    /// Nodes to write for a trace that knows none (muri).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    node_count: Option<u64>,
    /// The node list of an openb trace.
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// Leave bad lines of a log out and count them, instead of stopping.
    #[arg(long)]
    lenient: bool,
    /// Replace OUT if it is there.
    #[arg(long)]
    force: bool,
}

/// The answer of `trace convert` and `trace generate`.
#[derive(Serialize)]
pub(crate) struct Written {
    pub(super) schema: &'static str,
    pub(crate) file: String,
    pub(crate) kind: &'static str,
    pub(crate) jobs: u64,
    pub(crate) nodes: u64,
    /// Jobs left out, by reason.
    pub(crate) dropped: BTreeMap<String, u64>,
    /// Jobs whose missing estimate became their run time.
    pub(crate) estimates_defaulted: u64,
    /// What else is not in the file, or not as it was, with how often.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) left_out: BTreeMap<String, u64>,
}

impl Written {
    pub(super) fn new(schema: &'static str, file: String, kind: Kind, converted: Converted) -> Self {
        Self {
            schema,
            file,
            kind: kind.name(),
            jobs: converted.jobs,
            nodes: converted.nodes,
            dropped: converted.dropped,
            estimates_defaulted: converted.estimates_defaulted,
            left_out: BTreeMap::new(),
        }
    }
}

/// The kind of a file to write: as asked, else by its name.
pub(super) fn output_kind(path: &std::path::Path, asked: Option<Kind>) -> Result<Kind, CliError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let by_name = if name.trim_end_matches(".gz").ends_with(".swf") { Kind::Swf } else { Kind::Own };
    match asked.unwrap_or(by_name) {
        kind @ (Kind::Swf | Kind::Own) => Ok(kind),
        other => {
            Err(usage(format!("a trace of kind {} cannot be written", other.name()), "write landfall or swf"))
        }
    }
}

/// What was read, as far as it matters for writing.
enum Content {
    Log(Log, u64),
    Own(Trace),
    Openb(Vec<openb::OpenbNode>, Vec<openb::OpenbPod>),
    Muri(Vec<muri::MuriJob>),
}

/// Answers `trace convert`.
pub(crate) fn run(args: &Args) -> Result<Written, CliError> {
    let kind = output_kind(&args.output, args.to)?;
    let mut opened = Opened::open(&args.input, args.from)?;
    let failed = opened.failed();
    let (content, mut bad) = read(args, &mut opened, &failed)?;
    let name = args.input.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let header = Header { description: Some(format!("converted from {name}")) };
    let shape = Shape {
        procs_per_node: args.procs_per_node,
        gpus_per_node: args.gpus_per_node,
        nodes: args.node_count,
    };
    if let (Kind::Swf, Content::Openb(..) | Content::Muri(_)) = (kind, &content) {
        return Err(usage(
            format!("a log cannot say what {} says: it knows no GPUs", opened.kind.name()),
            "write a trace of landfall's own: give OUT another name than .swf, or --to landfall",
        ));
    }
    if let (Kind::Own, Content::Own(_)) = (kind, &content) {
        return Err(usage(
            format!("{} is a trace of landfall's own already", opened.file),
            "write a log: give OUT a name that ends in .swf, or --to swf",
        ));
    }
    let mut converted =
        write_file(&args.output, args.force, |out| write(&content, kind, shape, &header, out))?;
    for (reason, count) in std::mem::take(&mut bad) {
        *converted.dropped.entry(reason).or_default() += count;
    }
    let file = args.output.display().to_string();
    Ok(Written::new("landfall.trace-convert/1", file, kind, converted))
}

fn read(
    args: &Args,
    opened: &mut Opened,
    failed: &impl Fn(TraceError) -> CliError,
) -> Result<(Content, BTreeMap<String, u64>), CliError> {
    let mut bad = BTreeMap::new();
    let source = &mut opened.source;
    let content = match opened.kind {
        Kind::Swf => {
            let bad_lines = if args.lenient { BadLines::Drop } else { BadLines::Refuse };
            let (log, dropped) = Log::read_with(source, bad_lines).map_err(failed)?;
            bad = dropped;
            let Some(procs) = args.procs.or(log.processors()) else {
                return Err(usage(
                    format!("{} does not say how many processors there are", opened.file),
                    "give --procs",
                ));
            };
            Content::Log(log, procs)
        }
        Kind::Own => Content::Own(Trace::read(source).map_err(failed)?),
        Kind::OpenbPods => {
            let pods = openb::read_pods(source).map_err(failed)?;
            let nodes = match &args.nodes {
                None => Vec::new(),
                Some(path) => {
                    let mut nodes = Opened::open(path, Some(Kind::OpenbNodes))?;
                    let failed = nodes.failed();
                    openb::read_nodes(&mut nodes.source).map_err(failed)?
                }
            };
            Content::Openb(nodes, pods)
        }
        Kind::Muri => Content::Muri(muri::read(source).map_err(failed)?),
        Kind::OpenbNodes | Kind::OpenbArrivals => {
            return Err(usage(
                format!("{} has no jobs", opened.file),
                "convert the pod list, with --nodes for the node list",
            ));
        }
    };
    Ok((content, bad))
}

fn write(
    content: &Content,
    kind: Kind,
    shape: Shape,
    header: &Header,
    mut out: &mut dyn Write,
) -> io::Result<Converted> {
    match content {
        Content::Log(log, _) if kind == Kind::Swf => {
            log.write(&mut out)?;
            Ok(Converted { jobs: log.jobs.len() as u64, ..Converted::default() })
        }
        Content::Log(log, procs) => from_swf(log, *procs, shape, header, out),
        Content::Own(trace) => {
            let (log, converted) = to_swf(trace, shape);
            log.write(&mut out)?;
            Ok(converted)
        }
        Content::Openb(nodes, pods) => from_openb(nodes, pods, header, out),
        Content::Muri(jobs) => from_muri(jobs, shape, header, out),
    }
}

impl Answer for Written {
    fn text(&self, _page: Page) -> String {
        render::trace::written(self)
    }

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        to_json(out, self)
    }
}
