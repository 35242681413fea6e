//! What is in a scenario file, as a page.

use super::style::GOOD;
use super::table::Table;
use super::text::clean;
use crate::commands::scenario::Checked;

pub(crate) fn page(checked: &Checked) -> String {
    let mut text = format!("{GOOD}valid{GOOD:#}: {}, {}\n", clean(&checked.file), checked.now_ms);
    let counts = &checked.counts;
    let rows = [
        ("nodes", counts.nodes),
        ("gpus", counts.gpus),
        ("placements", counts.placements),
        ("jobs", counts.jobs),
        ("workloads", counts.workloads),
        ("pools", counts.pools),
        ("tenants", counts.tenants),
        ("blocks", counts.blocks),
        ("providers", counts.providers),
        ("regions", counts.regions),
        ("history rows", counts.history),
        ("reports", counts.reports),
        ("mix classes", counts.mix),
    ];
    let mut table = Table::of(&["", ">"]).indent(2);
    for (what, number) in rows.into_iter().filter(|(_, number)| *number > 0) {
        table.row(vec![what.into(), number.to_string().into()]);
    }
    text += table.render().trim_start_matches('\n');
    if let Some(policy) = &checked.policy {
        text += &format!("  policy {}\n", clean(policy));
    }
    text
}
