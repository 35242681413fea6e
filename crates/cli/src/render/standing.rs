//! Where a job stands: its place in the queue, why it waits, when it starts, where it was put.

use landfall_model::answer::{Estimate, Explanation, OnNode, Why};
use landfall_model::life::{JobState, Points, Precision, StartKind};
use landfall_model::{Dispatch, Millis, Time};
use landfall_policy::catalogue;
use landfall_policy::term::TermKind;

use super::clock::{date, span};
use super::style::{GOOD, STRONG, WARN};
use super::text::{clean, labelled, short};
use super::words;
use crate::answer::Page;

/// Reasons that are shown; the rest is rare, and in the JSON answer.
const REASONS_MAX: usize = 8;

/// Where a job stands, as a section of a page.
pub(crate) fn section(explanation: &Explanation, estimate: Option<&Estimate>, page: Page) -> String {
    let mut text = format!(
        "{STRONG}{}{STRONG:#} in pool {} ({}, policy {})\n",
        state(explanation.state),
        clean(explanation.pool.as_str()),
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
    for (at, (detail, names)) in said(&explanation.reasons).iter().take(REASONS_MAX).enumerate() {
        let label = if at == 0 { "  waits       " } else { "  also        " };
        line(label, &format!("{detail} [{}]", names.join(", ")));
    }
    if explanation.never {
        line(
            "  never       ",
            "no node of the pool can run it, busy or not; it waits until one joins that can",
        );
    }
    if let Some(placed) = &explanation.placed {
        line("  on          ", &nodes(&placed.nodes));
        if let Some(total) = placed.why.total {
            line("  points      ", &points(total, &placed.why.terms));
        }
        if let Some(runner_up) = &placed.why.runner_up {
            line("  next best   ", runner_up.as_str());
        }
        if let Some(price) = placed.price {
            line("  costs       ", &short(price));
        }
        if placed.kind != StartKind::Start {
            line("  start       ", kind(placed.kind));
        }
        if !placed.checkpoint_left_on.is_empty() {
            let on: Vec<&str> = placed.checkpoint_left_on.iter().map(|node| node.as_str()).collect();
            line("  afresh      ", &format!("its checkpoint is on {}", on.join(", ")));
        }
        if let Some(leaves) = &placed.leaves {
            line("  leaves      ", &leaves.said());
        }
    }
    if let Some(ended) = &explanation.ended {
        line("  ended       ", &ended.cause.said());
    }
    if let Some(array) = explanation.array.filter(|_| explanation.state.is_final()) {
        let ends = [(array.completed, "completed"), (array.failed, "failed"), (array.cancelled, "cancelled")];
        let ends = ends.iter().filter(|(number, _)| *number > 0);
        let ends: Vec<String> = ends.map(|(number, how)| format!("{number} {how}")).collect();
        line("  elements    ", &ends.join(", "));
    }
    let told = explanation.placed.is_some() || explanation.state.is_final() || explanation.never;
    if let Some(estimate) = estimate.filter(|_| !told) {
        let mut told = start(estimate, explanation.now_ms);
        if estimate.is_conditional() {
            told += &format!("; {}", estimate.said());
        }
        line("  start       ", &told);
    }
    for note in &explanation.notes {
        line("  note        ", note);
    }
    for help in explanation.help.iter().take(REASONS_MAX) {
        line("  would help  ", help);
    }
    text
}

/// Reasons in words, each sentence once, with the names of those that say it for whoever looks them up.
fn said(reasons: &[Why]) -> Vec<(&str, Vec<&'static str>)> {
    let mut said: Vec<(&str, Vec<&'static str>)> = Vec::new();
    for why in reasons {
        match said.iter_mut().find(|(detail, _)| *detail == why.detail) {
            Some((_, names)) => names.push(why.reason.name()),
            None => said.push((&why.detail, vec![why.reason.name()])),
        }
    }
    said
}

pub(super) fn start(estimate: &Estimate, now: Time) -> String {
    let Some(at) = estimate.planned_start else {
        return format!("cannot be told: {}", estimate.said());
    };
    let mut text = when(at, now);
    if let Some(likely) = estimate.likely_start.filter(|likely| *likely != at) {
        text += &format!(", likely {}", when(likely, now));
    }
    if let Some((early, late)) = estimate.range.filter(|(early, late)| early != late) {
        text += &format!(" (8 of 10 times between {} and {})", when(early, now), when(late, now));
    }
    if estimate.precision == Precision::Coarse {
        text = format!("not before {text}");
    }
    text
}

/// An instant as people wait for it.
pub(super) fn when(at: Time, now: Time) -> String {
    match at.since(now) {
        Millis::ZERO => "now".into(),
        ahead if is_date(now) => {
            format!("in {} ({})", span(ahead.get()), date(u64::try_from(at.as_millis()).unwrap_or(0)))
        }
        _ => words::instant(at, now),
    }
}

/// Whether instants are counted from 1970, as servers do; scenarios count from where they like, usually from 0.
pub(super) fn is_date(now: Time) -> bool {
    now.as_millis() > 1_000_000_000_000
}

pub(super) fn nodes(nodes: &[OnNode]) -> String {
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

/// A total and the terms that count most in it.
pub(super) fn points(total: f64, terms: &[Points]) -> String {
    const MOST: usize = 3;
    // Factors are no points.
    let adds = |term: &&Points| {
        catalogue::term(&term.term).is_none_or(|info| info.class != TermKind::Multiplier)
            && term.points != 0.0
    };
    let mut terms: Vec<_> = terms.iter().filter(adds).collect();
    terms.sort_by(|a, b| b.points.abs().total_cmp(&a.points.abs()));
    let shown: Vec<String> =
        terms.iter().take(MOST).map(|term| format!("{} {}", term.term, short(term.points))).collect();
    if shown.is_empty() { short(total) } else { format!("{}: {}", short(total), shown.join(", ")) }
}

/// A state as files and JSON spell it.
pub(super) fn state(state: JobState) -> &'static str {
    match state {
        JobState::Pending => "waits",
        JobState::Staging => "starts now",
        JobState::Running => "runs",
        JobState::Checkpointing => "saves its work",
        JobState::Stopping => "is stopped",
        JobState::Suspended => "is suspended",
        JobState::Completed => "has completed",
        JobState::Failed => "has failed",
        JobState::Cancelled => "was cancelled",
    }
}

pub(super) fn dispatch(dispatch: Dispatch) -> &'static str {
    match dispatch {
        Dispatch::Push => "push",
        Dispatch::Pull => "pull",
        Dispatch::Batch => "batch",
        Dispatch::Negotiate => "negotiate",
    }
}

pub(super) fn kind(kind: StartKind) -> &'static str {
    match kind {
        StartKind::Start => "in its turn",
        StartKind::Backfill => "backfill: ahead of a blocked job that it does not delay",
        StartKind::Preempt => "after less urgent work was stopped for it",
    }
}

/// A headline in the colour of good or bad news.
pub(super) fn headline(good: bool, words: &str) -> String {
    if good { format!("{GOOD}{words}{GOOD:#}") } else { format!("{WARN}{words}{WARN:#}") }
}
