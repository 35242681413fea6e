//! `plan` as a page: who would start, who would be stopped, who waits, whose start moves.

use landfall_model::answer::{Estimate, Moved, PlanAnswer};

use super::standing::{headline, is_date, kind, nodes, points, section, start, state};
use super::style::{BAD, DIM, STRONG};
use super::table::{Column, Table};
use super::text::{clean, count, labelled, short};
use crate::answer::Page;

/// Rows that are shown of a table, and waiting jobs that are explained.
const ROWS_MAX: usize = 20;
const EXPLAINED_MAX: usize = 5;

/// The page of `plan` and of `submit --dry-run`; `change` is the change in words.
pub(crate) fn page(change: &str, answer: &PlanAnswer, page: Page) -> String {
    let at = if is_date(answer.now_ms) { String::new() } else { format!(", {}", answer.now_ms) };
    let mut text = format!("{STRONG}if {}{STRONG:#}{at}\n\n", clean(change));
    if let Some(refused) = &answer.refused {
        text += &format!("{BAD}refused{BAD:#} ({}): {}\n", refused.code, clean(&refused.message));
        return text + &labelled("  would help  ", &clean(&refused.hint), page.text_width());
    }
    text += &starts(answer, page);
    text += &stopped(answer);
    text += &waiting(answer, page);
    text += &moved(answer);
    if answer.starts.is_empty()
        && answer.stopped.is_empty()
        && answer.waiting.is_empty()
        && answer.moved.is_empty()
    {
        text += "nothing changes\n\n";
    }
    text + &format!("{} waiting afterwards\n", count(answer.waiting_total, "job"))
}

fn starts(answer: &PlanAnswer, page: Page) -> String {
    let mut text = String::new();
    for starts in answer.starts.iter().take(ROWS_MAX) {
        text += &format!("{}: {}\n", headline(true, "starts now"), clean(starts.job.as_str()));
        text += &labelled("  on          ", &clean(&nodes(&starts.nodes)), page.text_width());
        text += &labelled("  start       ", kind(starts.kind), page.text_width());
        if let Some(total) = starts.why.total {
            text += &labelled("  points      ", &clean(&points(total, &starts.why.terms)), page.text_width());
        }
        if let Some(price) = starts.price {
            text += &labelled("  costs       ", &short(price), page.text_width());
        }
        if let Some(runner_up) = &starts.why.runner_up {
            text += &labelled("  next best   ", &clean(runner_up.as_str()), page.text_width());
        }
        text.push('\n');
    }
    text + &more(answer.starts.len(), ROWS_MAX)
}

fn stopped(answer: &PlanAnswer) -> String {
    if answer.stopped.is_empty() {
        return String::new();
    }
    let mut table = Table::of(&["job", "why", "then"]).indent(2);
    for stopped in answer.stopped.iter().take(ROWS_MAX) {
        table.row(vec![
            clean(stopped.job.as_str()).into(),
            stopped.cause.said().into_owned().into(),
            state(stopped.state).into(),
        ]);
    }
    let title = headline(false, "stopped");
    format!(
        "{title}: {}\n{}{}\n",
        count(answer.stopped.len(), "job"),
        table.render(),
        more(answer.stopped.len(), ROWS_MAX)
    )
}

fn waiting(answer: &PlanAnswer, page: Page) -> String {
    let mut text = String::new();
    for waiting in answer.waiting.iter().take(EXPLAINED_MAX) {
        text += &format!("{} ", clean(waiting.job.as_str()));
        text += &section(&waiting.explanation, waiting.estimate.as_ref(), page);
        text.push('\n');
    }
    text + &more(answer.waiting.len(), EXPLAINED_MAX)
}

fn moved(answer: &PlanAnswer) -> String {
    if answer.moved.is_empty() {
        return String::new();
    }
    let now = answer.now_ms;
    let shown = |estimate: &Estimate| match estimate.planned_start {
        Some(_) => start(estimate, now),
        None => "cannot be told".into(),
    };
    let columns = ["job", "would have started", "would start"];
    let mut table = Table::new(columns.map(Column::left).into()).indent(2);
    for Moved { job, before, after } in answer.moved.iter().take(ROWS_MAX) {
        table.row(vec![clean(job.as_str()).into(), shown(before).into(), shown(after).into()]);
    }
    let title = headline(false, "starts that move");
    format!(
        "{title}: {}\n{}{}\n",
        count(answer.moved.len(), "job"),
        table.render(),
        more(answer.moved.len(), ROWS_MAX)
    )
}

/// Says how many rows were left out.
fn more(all: usize, shown: usize) -> String {
    if all <= shown {
        return String::new();
    }
    format!("  {DIM}… and {} more (--json has all){DIM:#}\n", all - shown)
}
