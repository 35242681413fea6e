//! Why a job is where it is, and what stands between it and a node.

use landfall_api::answer::{Granted, TermPoints};
use landfall_engine::breakdown::Points;
use landfall_engine::record::StartKind;
use landfall_engine::solver::Precision;
use landfall_model::{Millis, Time};
use serde_json::Value;

use super::super::clock::{self, date, span};
use super::super::codes;
use super::super::standing::{cause, dispatch, kind, points, state};
use super::super::style::{BAD, GOOD, STRONG};
use super::super::table::{Column, Table};
use super::super::text::{clean, count, decimals, fixed, labelled, number, short};
use super::super::words;
use crate::answer::Page;
use crate::commands::service::explain::{Explained, ExplainedNode};
use crate::commands::service::wire::{Estimate, Explanation, OnNode, Refusal, WhyNot};

/// Reasons that are shown; the rest is rare, and in the JSON answer.
const REASONS_MAX: usize = 8;

/// The page of `explain JOB`.
pub(crate) fn job(explained: &Explained, page: Page) -> String {
    let mut text = format!(
        "job {} {}",
        clean(&explained.job),
        section(&explained.shown, explained.start.as_ref(), page)
    );
    if let Some(decision) = &explained.decision {
        let mut line =
            |label: &str, content: &str| text += &labelled(label, &clean(content), page.text_width());
        let on =
            |at: &Granted| OnNode { node: at.node.clone(), gpus: at.gpus.clone(), lender: at.lender.clone() };
        line("  was on      ", &nodes(&decision.nodes.iter().map(on).collect::<Vec<_>>()));
        if let Some(total) = decision.total {
            let term = |term: &TermPoints| Points {
                term: term.term.clone().into(),
                raw: term.raw,
                points: term.points,
            };
            line("  points      ", &points(total, &decision.terms.iter().map(term).collect::<Vec<_>>()));
        }
        if let Some(runner_up) = &decision.runner_up {
            line("  next best   ", runner_up);
        }
    }
    text
}

/// Where a job stands, as a section of a page.
pub(crate) fn section(explanation: &Explanation, estimate: Option<&Estimate>, page: Page) -> String {
    let mut text = format!(
        "{STRONG}{}{STRONG:#} in pool {} ({}, policy {})\n",
        state(explanation.state),
        clean(&explanation.pool),
        dispatch(explanation.dispatch),
        clean(&explanation.policy)
    );
    let mut line = |label: &str, content: &str| text += &labelled(label, &clean(content), page.text_width());
    if explanation.attempt > 1 {
        line("  attempt     ", &explanation.attempt.to_string());
    }
    if let Some(queue) = &explanation.queue {
        let ahead = queue.ahead.as_ref().map(|job| format!(", behind {job}")).unwrap_or_default();
        line("  queue       ", &format!("place {} of {}{ahead}", queue.position, queue.of));
    }
    for (at, why) in explanation.reasons.iter().take(REASONS_MAX).enumerate() {
        let label = if at == 0 { "  waits       " } else { "  also        " };
        line(label, &format!("{}: {}", why.reason, why.detail));
    }
    if let Some(placed) = &explanation.placed {
        line("  on          ", &nodes(&placed.nodes));
        if let Some(total) = placed.why.total {
            line("  points      ", &points(total, &placed.why.terms));
        }
        if let Some(runner_up) = &placed.why.runner_up {
            line("  next best   ", runner_up.as_str());
        }
        if placed.kind != StartKind::Start {
            line("  start       ", kind(placed.kind));
        }
        if let Some(leaves) = &placed.leaves {
            line("  leaves      ", &cause(leaves));
        }
    }
    if let Some(ended) = &explanation.ended {
        line("  ended       ", &cause(&ended.cause));
    }
    if let Some(estimate) = estimate.filter(|_| explanation.placed.is_none() && explanation.ended.is_none()) {
        line("  start       ", &start(estimate, explanation.now_ms));
    }
    for help in explanation.help.iter().take(REASONS_MAX) {
        line("  would help  ", help);
    }
    text
}

pub(crate) fn start(estimate: &Estimate, now: Time) -> String {
    let Some(at) = estimate.planned_start_ms else {
        return format!("cannot be told: {}", codes::reason(&estimate.reason));
    };
    let mut text = when(at, now);
    if let Some(likely) = estimate.likely_start_ms.filter(|likely| *likely != at) {
        text += &format!(", likely {}", when(likely, now));
    }
    if estimate.precision == Precision::Coarse {
        text = format!("not before {text}");
    }
    text
}

fn when(at: Time, now: Time) -> String {
    match at.since(now) {
        Millis::ZERO => "now".into(),
        ahead => format!("in {} ({})", span(ahead.get()), date(u64::try_from(at.as_millis()).unwrap_or(0))),
    }
}

/// Nodes with their devices.
pub(crate) fn nodes(nodes: &[OnNode]) -> String {
    const MOST: usize = 8;
    let one = |at: &OnNode| {
        let gpus = words::ranges(&at.gpus);
        let lent = at.lender.as_ref().map(|pool| format!(" (lent by {pool})")).unwrap_or_default();
        if gpus.is_empty() { format!("{}{lent}", at.node) } else { format!("{} gpu {gpus}{lent}", at.node) }
    };
    let mut text = nodes.iter().take(MOST).map(one).collect::<Vec<_>>().join(", ");
    if nodes.len() > MOST {
        text += &format!(" and {} more", nodes.len() - MOST);
    }
    text
}

/// The page of `explain JOB --node NODE`.
pub(crate) fn node(explained: &ExplainedNode, page: Page) -> String {
    let found = &explained.shown;
    let (job, node) = (clean(&found.job), clean(&found.node));
    let refusals = &found.verdict.refusals;
    let mut text = if found.placed_here {
        format!("{GOOD}placed{GOOD:#}: job {job} is on node {node}\n")
    } else if !refusals.is_empty() {
        format!(
            "{BAD}refused{BAD:#}: job {job} may not run on node {node}, {}\n",
            count(refusals.len(), "reason")
        )
    } else if !found.ledger.is_empty() {
        format!(
            "{BAD}not now{BAD:#}: the policy admits job {job} on node {node}, and the ledger would refuse it\n"
        )
    } else {
        format!("{GOOD}admitted{GOOD:#}: job {job} may run on node {node}\n")
    };
    for refusal in refusals {
        text.push('\n');
        text += &reason(refusal, page);
    }
    text += &around(found, page);
    text + &scored(found)
}

fn reason(refusal: &Refusal, page: Page) -> String {
    let class =
        if refusal.class == "not_now" { "not now; waiting may help" } else { "never as job and node stand" };
    let mut text = format!(
        "  {STRONG}{}{STRONG:#} (filter {}; {class})\n",
        clean(&refusal.reason),
        clean(&refusal.filter)
    );
    let mut line = |label: &str, content: &str| text += &labelled(label, &clean(content), page.text_width());
    line("    needed      ", &quantity(&refusal.needed));
    line("    found       ", &quantity(&refusal.found));
    if !refusal.remedy.is_empty() {
        line("    would help  ", &refusal.remedy);
    }
    text
}

/// What else is to be known about the node.
fn around(found: &WhyNot, page: Page) -> String {
    let mut text = String::from("\n");
    let mut line = |label: &str, content: &str| text += &labelled(label, &clean(content), page.text_width());
    line("  node        ", &found.node_state);
    if !found.ledger.is_empty() && !found.placed_here {
        line(
            "  ledger      ",
            &found.ledger.iter().map(|code| codes::refusal(code)).collect::<Vec<_>>().join("; "),
        );
    }
    if !found.occupants.is_empty() {
        line("  runs        ", &found.occupants.join(", "));
    }
    if let Some(job) = &found.kept_for {
        line("  kept for    ", job);
    }
    if let Some(barred) = &found.verdict.barred {
        let by = found.verdict.vetoes.join(", ");
        line(
            "  may not be chosen  ",
            &if by.is_empty() { barred.clone() } else { format!("{barred} by {by}") },
        );
    }
    text
}

fn scored(found: &WhyNot) -> String {
    let verdict = &found.verdict;
    let Some(total) = verdict.total else { return String::new() };
    let mut text = format!("\n  total {}\n", short(total));
    let mut table = Table::new(vec![
        Column::left("term"),
        Column::right("raw"),
        Column::right("weight"),
        Column::right("contribution"),
    ])
    .indent(2);
    let digits = decimals(verdict.terms.iter().map(|term| term.contribution));
    let raw = decimals(verdict.terms.iter().map(|term| term.raw));
    for term in &verdict.terms {
        table.row(vec![
            clean(&term.term).into(),
            fixed(term.raw, raw).into(),
            number(term.weight).into(),
            fixed(term.contribution, digits).into(),
        ]);
    }
    text += &table.render();
    text
}

/// An amount such as `{"mib": 8192}` in words.
pub(crate) fn quantity(value: &Value) -> String {
    match value {
        Value::Object(object) => match object.iter().next() {
            Some((unit, amount)) if object.len() == 1 => {
                let amount = quantity(amount);
                match unit.as_str() {
                    "mib" => amount.parse().map_or(amount, clock::mib),
                    "cpu_milli" => {
                        amount.parse().map_or(amount, |milli| format!("{} cores", clock::cores(milli)))
                    }
                    "gpu_milli" => {
                        amount.parse().map_or(amount, |milli| format!("{} GPUs", clock::cores(milli)))
                    }
                    "ms" => amount.parse().map_or(amount, span),
                    "at_ms" => amount.parse().map_or(amount, date),
                    "word" | "name" | "names" | "count" | "number" => amount,
                    unit => format!("{amount} {}", unit.replace('_', " ")),
                }
            }
            _ => object
                .iter()
                .map(|(name, value)| format!("{} {}", name.replace('_', " "), quantity(value)))
                .collect::<Vec<_>>()
                .join(", "),
        },
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(quantity).collect::<Vec<_>>().join(", "),
        Value::Null => "nothing".into(),
        other => other.to_string(),
    }
}
