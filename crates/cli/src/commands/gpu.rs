//! `landfall gpu`: what a GPU's name tells.

use landfall_model::Mib;
use landfall_model::gpu_table::{self, HardwareTier, Row};
use landfall_policy::rules::fit::Bandwidths;
use serde::Serialize;

use crate::answer::{Answer, Page, to_json};
use crate::exit::Exit;
use crate::render;
use crate::reply::Reply;

/// Keys suggested for a name that the table does not know.
const SUGGESTIONS: usize = 3;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall gpu \"NVIDIA GeForce RTX 3090\" --vram 24GiB
  landfall gpu \"NVIDIA A100-SXM4-40GB MIG 3g.20gb\"
  landfall gpu --list --json")]
pub(crate) struct Args {
    /// The name as the driver reports it.
    #[arg(value_name = "NAME", required_unless_present = "list", num_args = 1..)]
    name: Vec<String>,
    /// Memory of the device, such as 24GiB; a bare number is MiB.
    #[arg(long, value_name = "SIZE", value_parser = vram)]
    vram: Option<Mib>,
    /// List every model that the table knows.
    #[arg(long, conflicts_with_all = ["name", "vram"])]
    list: bool,
}

fn vram(text: &str) -> Result<Mib, String> {
    text.parse::<Mib>().map_err(|error| error.to_string())
}

pub(crate) fn run(args: &Args) -> Box<dyn Answer> {
    if args.list {
        return Box::new(Listed(rows()));
    }
    let found = looked_up(&args.name.join(" "), args.vram);
    let exit = if found.known { Exit::Done } else { Exit::Nothing };
    Reply::new("landfall.gpu/1", found, render::gpu::page).exit(exit).boxed()
}

/// What is known about one device.
#[derive(Serialize)]
pub(crate) struct LookedUp {
    pub(crate) name: String,
    /// Whether the table knows it.
    pub(crate) known: bool,
    pub(crate) key: Option<&'static str>,
    /// Memory slices of eight, if the name is a slice.
    pub(crate) memory_slices: Option<u8>,
    /// The share of the device's memory, if the name is a slice or a virtual GPU.
    pub(crate) memory_share: Option<f64>,
    /// Whether the name stands for several products, of which the slowest counts.
    pub(crate) group: bool,
    /// Memory bandwidth in GB/s.
    pub(crate) bandwidth_gb_s: f64,
    /// Where the bandwidth comes from.
    pub(crate) bandwidth_from: String,
    /// What the device costs and earns.
    pub(crate) tier: HardwareTier,
    pub(crate) price_multiplier: f64,
    /// The memory that was given.
    pub(crate) vram_mib: Option<Mib>,
    /// Estimated tokens per second of a 7B model at 4 bits.
    pub(crate) estimated_llm_tok_s: f64,
    /// Keys that look like the name, if it is unknown.
    pub(crate) near: Vec<&'static str>,
}

fn looked_up(name: &str, vram: Option<Mib>) -> LookedUp {
    let found = gpu_table::lookup(name);
    let (gb_s, source) = match found {
        Some(found) => (found.gb_s_with(vram), source(found)),
        None => unknown(vram),
    };
    let tier = gpu_table::tier(name, gb_s);
    let near = if found.is_some() { Vec::new() } else { gpu_table::near(name, SUGGESTIONS) };
    LookedUp {
        name: name.to_owned(),
        known: found.is_some(),
        key: found.map(|found| found.row.key.as_str()),
        memory_slices: found.and_then(|found| found.memory_slices),
        memory_share: found.and_then(|found| found.share),
        group: found.is_some_and(|found| found.group),
        bandwidth_gb_s: gb_s,
        bandwidth_from: source,
        tier,
        price_multiplier: tier.multiplier(),
        vram_mib: vram,
        estimated_llm_tok_s: gpu_table::estimated_llm_tok_s(gb_s, vram),
        near: near.into_iter().map(|row| row.key.as_str()).collect(),
    }
}

/// Where a figure comes from, and what stands behind it that the name does not tell.
fn source(found: gpu_table::Match) -> String {
    let row = found.row;
    match row.is_group() {
        true => format!("slowest of a {}", row.source),
        false if found.group => format!("slowest of a group of products; {}", row.source),
        false => row.source.clone(),
    }
}

/// Bandwidth of a device that the table does not know, by the same rule that scores it.
fn unknown(vram: Option<Mib>) -> (f64, String) {
    let (gb_s, source) = Bandwidths::default().of_unknown(vram);
    let rule = match vram.filter(|vram| !vram.is_zero()) {
        Some(vram) => format!("{} GB/s per GiB", gb_s / (vram.as_f64() / 1024.0)),
        None => "memory not given either".to_owned(),
    };
    (gb_s, format!("{}: {rule}", source.word()))
}

#[derive(Serialize)]
pub(crate) struct Listing {
    /// The row of the table.
    #[serde(flatten)]
    pub(crate) row: &'static Row,
    pub(crate) tier: HardwareTier,
}

fn rows() -> Vec<Listing> {
    gpu_table::rows().map(|row| Listing { tier: gpu_table::tier(&row.key, row.gb_s), row }).collect()
}

struct Listed(Vec<Listing>);

impl Answer for Listed {
    fn text(&self, _page: Page) -> String {
        render::gpu::list(&self.0)
    }

    fn json(&self, out: &mut dyn std::io::Write) -> serde_json::Result<()> {
        to_json(out, &serde_json::json!({ "schema": "landfall.gpus/1", "gpus": self.0 }))
    }
}
