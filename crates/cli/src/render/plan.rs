//! `plan` as a page: who would start, who would be stopped, who waits, whose start moves.

use landfall_engine::answers::{Estimate, Moved, PlanAnswer};

use super::standing::{cause, headline, kind, nodes, points, section, state, when};
use super::style::{BAD, DIM, STRONG};
use super::table::{Column, Table};
use super::text::{clean, count, labelled};
use crate::answer::Page;
use crate::commands::plan::Planned;

/// Rows that are shown of a table, and waiting jobs that are explained.
const ROWS_MAX: usize = 20;
const EXPLAINED_MAX: usize = 5;

/// The page of `plan`.
pub(crate) fn page(planned: &Planned, page: Page) -> String {
    let answer = &planned.answer;
    let mut text = format!("{STRONG}if {}{STRONG:#}, {}\n\n", clean(&planned.change), answer.now_ms);
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
    for start in answer.starts.iter().take(ROWS_MAX) {
        text += &format!("{}: {}\n", headline(true, "starts now"), clean(start.job.as_str()));
        text += &labelled("  on          ", &clean(&nodes(&start.nodes)), page.text_width());
        text += &labelled("  start       ", kind(start.kind), page.text_width());
        if let Some(total) = start.why.total {
            text += &labelled("  points      ", &clean(&points(total, &start.why.terms)), page.text_width());
        }
        if let Some(runner_up) = &start.why.runner_up {
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
    let mut table =
        Table::new(vec![Column::left("job"), Column::left("why"), Column::left("then")]).indent(2);
    for stopped in answer.stopped.iter().take(ROWS_MAX) {
        table.row(vec![
            clean(stopped.job.as_str()).into(),
            cause(&stopped.cause).into(),
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
    let shown =
        |estimate: &Estimate| estimate.planned_start.map_or("cannot be told".into(), |at| when(at, now));
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
