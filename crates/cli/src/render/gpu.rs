//! What a GPU's name tells, as a page.

use landfall_model::gpu_table::{Category, HardwareTier};

use super::style::{GOOD, WARN};
use super::table::Table;
use super::text::{clean, number};
use crate::answer::Page;
use crate::commands::gpu::{Listing, LookedUp};

pub(crate) fn page(gpu: &LookedUp, _page: Page) -> String {
    let name = clean(&gpu.name);
    let mut text = match gpu.key {
        Some(key) => format!("{GOOD}{name}{GOOD:#} is `{key}`\n"),
        None => format!("{WARN}{name}{WARN:#} is unknown\n"),
    };
    let mut table = Table::of(&["", ""]).indent(2);
    let mut line = |what: &str, value: String| table.row(vec![what.into(), value.into()]);
    match (gpu.memory_slices, gpu.memory_share) {
        (Some(slices), _) => line("slice", format!("{slices} of 8 memory slices")),
        (None, Some(share)) => line("virtual GPU", format!("{} % of the memory", number(share * 100.0))),
        (None, None) => {}
    }
    line("bandwidth", format!("{} GB/s ({})", number(gpu.bandwidth_gb_s), gpu.bandwidth_from));
    line("tier", format!("{}, price × {}", tier(gpu.tier), number(gpu.price_multiplier)));
    let memory = match gpu.vram_mib {
        Some(vram) => format!("{vram}"),
        None => "not given; --vram 24GiB makes the estimate better".into(),
    };
    line("memory", memory);
    line("estimate", format!("{} tokens/s of a 7B model at 4 bits", number(gpu.estimated_llm_tok_s)));
    if !gpu.near.is_empty() {
        line("did you mean", gpu.near.join(", "));
    }
    // The titles are empty: these are facts, not rows.
    text += table.render().trim_start_matches('\n');
    text
}

pub(crate) fn list(rows: &[Listing]) -> String {
    let mut table = Table::of(&["key", ">GB/s", "category", "tier", "source"]);
    for Listing { row, tier: class } in rows {
        let category = Category::ALL.into_iter().find(|(_, category)| *category == row.category);
        table.row(vec![
            row.key.as_str().into(),
            number(row.gb_s).into(),
            category.map_or("", |(name, _)| name).into(),
            tier(*class).into(),
            row.source.as_str().into(),
        ]);
    }
    table.render()
}

fn tier(tier: HardwareTier) -> &'static str {
    match tier {
        HardwareTier::CpuOnly => "cpu_only",
        HardwareTier::Entry => "entry",
        HardwareTier::MidRange => "mid_range",
        HardwareTier::HighEnd => "high_end",
        HardwareTier::Enterprise => "enterprise",
    }
}
