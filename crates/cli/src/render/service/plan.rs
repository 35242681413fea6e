//! What would happen, as a running server says.

use super::super::standing::{cause, headline, kind, points, state};
use super::super::style::{BAD, DIM, STRONG};
use super::super::table::{Column, Table};
use super::super::text::{clean, count, labelled};
use super::explain::{nodes, section, start};
use crate::answer::Page;
use crate::commands::service::plan::Planned;

/// Rows that are shown of a table, and waiting jobs that are explained.
const ROWS_MAX: usize = 20;
const EXPLAINED_MAX: usize = 5;

/// The page of `plan` and of `submit --dry-run`.
pub(crate) fn page(planned: &Planned, page: Page) -> String {
    let answer = &planned.shown;
    let mut text = format!("{STRONG}if {}{STRONG:#}\n\n", clean(&planned.change));
    if let Some(refused) = &answer.refused {
        text += &format!("{BAD}refused{BAD:#} ({}): {}\n", refused.code, clean(&refused.message));
        return text + &labelled("  would help  ", &clean(&refused.hint), page.text_width());
    }
    for start in answer.starts.iter().take(ROWS_MAX) {
        text += &format!("{}: {}\n", headline(true, "starts now"), clean(&start.job));
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
    text += &more(answer.starts.len(), ROWS_MAX);
    if !answer.stopped.is_empty() {
        let mut table = Table::new(["job", "why", "then"].map(Column::left).into()).indent(2);
        for stopped in answer.stopped.iter().take(ROWS_MAX) {
            table.row(vec![
                clean(&stopped.job).into(),
                cause(&stopped.cause).into(),
                state(stopped.state).into(),
            ]);
        }
        text += &format!(
            "{}: {}\n{}",
            headline(false, "stopped"),
            count(answer.stopped.len(), "job"),
            table.render()
        );
        text += &more(answer.stopped.len(), ROWS_MAX);
        text.push('\n');
    }
    for waiting in answer.waiting.iter().take(EXPLAINED_MAX) {
        text += &format!("{} ", clean(&waiting.job));
        text += &section(&waiting.explanation, waiting.estimate.as_ref(), page);
        text.push('\n');
    }
    text += &more(answer.waiting.len(), EXPLAINED_MAX);
    if !answer.moved.is_empty() {
        let columns = ["job", "would have started", "would start"];
        let mut table = Table::new(columns.map(Column::left).into()).indent(2);
        for moved in answer.moved.iter().take(ROWS_MAX) {
            let shown = [&moved.before, &moved.after].map(|estimate| start(estimate, answer.now_ms));
            let [before, after] = shown;
            table.row(vec![clean(&moved.job).into(), before.into(), after.into()]);
        }
        let title = headline(false, "starts that move");
        text += &format!("{title}: {}\n{}", count(answer.moved.len(), "job"), table.render());
        text += &more(answer.moved.len(), ROWS_MAX);
        text.push('\n');
    }
    if answer.starts.is_empty()
        && answer.stopped.is_empty()
        && answer.waiting.is_empty()
        && answer.moved.is_empty()
    {
        text += "nothing changes\n\n";
    }
    text + &format!("{} waiting afterwards\n", count(answer.waiting_total, "job"))
}

/// Says how many rows were left out.
fn more(all: usize, shown: usize) -> String {
    if all <= shown {
        return String::new();
    }
    format!("  {DIM}… and {} more (--json has all){DIM:#}\n", all - shown)
}
