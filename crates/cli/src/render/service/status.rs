//! Where the server stands.

use std::collections::BTreeMap;

use super::super::clock::{mib, span};
use super::super::style::{GOOD, STRONG};
use super::super::text::{clean, count, labelled, word};
use crate::answer::Page;
use crate::commands::service::status::Status;

pub(crate) fn page(status: &Status, page: Page) -> String {
    let Status { server, status } = status;
    let mut text = format!(
        "{GOOD}up{GOOD:#}: {STRONG}{}{STRONG:#}, version {}\n",
        clean(server),
        clean(&status.version)
    );
    let mut line = |label: &str, content: &str| {
        text += &labelled(&format!("  {label:<11} "), &clean(content), page.text_width());
    };
    let up = status.now_ms.saturating_sub(status.started_at_ms);
    line("running for", &format!("{} (start {})", span(up), status.epoch));
    let tenant = status.tenant.as_ref().map(|id| format!(" of tenant {id}")).unwrap_or_default();
    line("you are", &format!("{} ({}{tenant})", status.token, word(status.role)));
    line("jobs", &counts(&status.jobs, "none"));
    line("nodes", &counts(&status.nodes, "none; `landfall agent` adds one"));
    let pools: Vec<String> =
        status.pools.iter().map(|(pool, waiting)| format!("{pool} ({waiting} waiting)")).collect();
    line("pools", &pools.join(", "));
    line("agents", &format!("{} connected", status.agents_connected));
    let size = match status.store_bytes >> 20 {
        0 => "less than 1 MiB".to_owned(),
        size => mib(size),
    };
    line("journal", &format!("{}, {size}", count(status.seq, "event")));
    text
}

fn counts(counts: &BTreeMap<String, u64>, none: &str) -> String {
    let some: Vec<String> = counts
        .iter()
        .filter(|(_, number)| **number > 0)
        .map(|(state, number)| format!("{number} {state}"))
        .collect();
    if some.is_empty() { none.to_owned() } else { some.join(", ") }
}
