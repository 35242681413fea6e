//! `landfall trace generate`: a workload made up.

use std::path::PathBuf;

use landfall_model::Mib;
use landfall_replay::trace::Kind;
use landfall_replay::trace::convert::{Converted, Shape, from_generated, generated_log};
use landfall_replay::trace::generate::{Gpus, Settings, generate};

use super::convert::{Written, output_kind};
use super::files::{self, write_file};
use crate::error::{CliError, usage};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Users come by popularity and have programs with their usual size and run time; sizes are mostly powers of two; estimates are
round and too large, and a few jobs are stopped at theirs; submissions follow day and week and come in bursts, stretched so
that the work is the wanted share of the machine. The same arguments write the same bytes.

Examples:
  landfall trace generate small.swf --jobs 5000 --procs 128 --load 0.8 --seed 1
  landfall trace generate lab.jsonl --jobs 2000 --procs 512 --gpus 64 --gpus-per-node 8 --vram 80GiB --seed 7")]
pub(crate) struct Args {
    /// The trace to write: .swf is a log, anything else a trace of landfall's own; .gz compresses.
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Jobs.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    jobs: usize,
    /// Processors of the machine.
    #[arg(long, value_name = "P", default_value_t = 256)]
    procs: u64,
    /// Work asked for, as a share of what the machine can do; of its GPUs, if it has any.
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    load: f64,
    /// Seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Users.
    #[arg(long, value_name = "N", default_value_t = 40)]
    users: usize,
    /// Share of programs that use one processor.
    #[arg(long, value_name = "SHARE", default_value_t = 0.25)]
    serial: f64,
    /// GPUs of the machine.
    #[arg(long, value_name = "N")]
    gpus: Option<u64>,
    /// GPUs of a node.
    #[arg(long, value_name = "N", default_value_t = 8, requires = "gpus")]
    gpus_per_node: u32,
    /// Memory of a GPU, such as 80GiB; a bare number is MiB.
    #[arg(long, value_name = "SIZE", default_value = "80GiB", value_parser = vram, requires = "gpus")]
    vram: Mib,
    /// Processors that make a node, on a machine without GPUs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    procs_per_node: u64,
    /// What OUT shall be: landfall or swf.
    #[arg(long, value_name = "KIND", value_parser = files::kind)]
    to: Option<Kind>,
    /// Replace OUT if it is there.
    #[arg(long)]
    force: bool,
}

fn vram(text: &str) -> Result<Mib, String> {
    text.parse::<Mib>().map_err(|error| error.to_string())
}

/// Answers `trace generate`.
pub(crate) fn run(args: &Args) -> Result<Written, CliError> {
    let kind = output_kind(&args.output, args.to)?;
    let gpus = args.gpus.map(|total| Gpus { total, per_node: args.gpus_per_node, vram_mib: args.vram.get() });
    if kind == Kind::Swf && gpus.is_some() {
        return Err(usage(
            "a log cannot say which GPUs a job wants",
            "give OUT another name than .swf, or --to landfall",
        ));
    }
    let settings = Settings {
        jobs: args.jobs,
        procs: args.procs,
        load: args.load,
        seed: args.seed,
        users: args.users,
        serial: args.serial,
        gpus,
    };
    let jobs = generate(&settings).map_err(|(name, why)| {
        usage(
            format!("--{}: {why}", name.replace('_', "-")),
            "landfall trace generate --help lists the arguments",
        )
    })?;
    let shape = Shape { procs_per_node: args.procs_per_node, ..Shape::default() };
    let converted = write_file(&args.output, args.force, |mut out| match kind {
        Kind::Swf => {
            generated_log(&settings, &jobs).write(&mut out)?;
            Ok(Converted { jobs: jobs.len() as u64, ..Converted::default() })
        }
        _ => from_generated(&settings, &jobs, shape, out),
    })?;
    Ok(Written::new("landfall.trace-generate/1", args.output.display().to_string(), kind, converted))
}
