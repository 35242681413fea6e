//! Where the server stands.

use std::collections::BTreeMap;

use landfall_api::answer::ClockView;

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
    for (pool, waiting) in &status.requeue_limited {
        let nodes = count(*waiting, "silent node");
        line(
            "ATTENTION",
            &format!(
                "many nodes of pool {pool} fell silent at once: {nodes} keep their jobs for now, and a few are \
            given up per minute (silence.requeue_limit); look at the network first"
            ),
        );
    }
    if let Some(unbound) = &status.unbound {
        let who = match unbound.nodes {
            1 => format!("node {} lets jobs", unbound.node),
            nodes => format!("{nodes} nodes, such as {}, let jobs", unbound.node),
        };
        line("ATTENTION", &format!("{who} take more memory than they asked for: {}", unbound.why));
    }
    if let Some(clock) = clock(&status.clock) {
        line("ATTENTION", &clock);
    }
    line("agents", &format!("{} connected", status.agents_connected));
    let size = match status.store_bytes >> 20 {
        0 => "less than 1 MiB".to_owned(),
        size => mib(size),
    };
    line("journal", &format!("{}, {}, {size}", clean(&status.journal), count(status.seq, "event")));
    text
}

/// What is wrong with the clock of the server's machine, if anything is.
fn clock(clock: &ClockView) -> Option<String> {
    let apart = span(clock.ahead_ms.unsigned_abs());
    let way = if clock.ahead_ms < 0 { "behind" } else { "ahead of" };
    if clock.rests {
        return Some(
            "the clock of the server's machine went on by more than a day while the server was away; \
            nothing is erased for a day, in which it can be set right"
                .to_owned(),
        );
    }
    (clock.ahead_ms.abs() >= 1000).then(|| {
        format!(
            "the clock of the server's machine is {apart} {way} the server's time, which follows by 6 s a minute; is it right?"
        )
    })
}

fn counts(counts: &BTreeMap<String, u64>, none: &str) -> String {
    let some: Vec<String> = counts
        .iter()
        .filter(|(_, number)| **number > 0)
        .map(|(state, number)| format!("{number} {state}"))
        .collect();
    if some.is_empty() { none.to_owned() } else { some.join(", ") }
}
