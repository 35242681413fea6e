//! What came of replays, as pages.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use landfall_replay::measures::{CATALOGUE, Comparison, Group, Measure, Row, Unit, Verdict};

use super::style::{BAD, DIM, GOOD, PLAIN};
use super::table::{Cell, Column, Table};
use super::text::{clean, count, number};
use crate::answer::Page;
use crate::commands::compare::Compared;
use crate::commands::replay::{Replayed, Sequences};

/// Tenants and sizes shown on a terminal; all are in the JSON answer.
const GROUPS_SHOWN: usize = 8;

pub(crate) fn replayed(answer: &Replayed) -> String {
    let run = &answer.measures;
    let seed = run.seed.map_or(String::new(), |seed| format!(", seed {seed}"));
    let mut text = format!(
        "{GOOD}{}{GOOD:#} under {GOOD}{}{GOOD:#}{seed}: {}\n\n",
        clean(&run.trace),
        clean(&run.policy),
        count(run.jobs, "job")
    );
    let mut table = Table::of(&["measure", ">value", ""]);
    for measure in &CATALOGUE {
        if let Some(value) = measure.of(run).filter(|value| *value != 0.0 || tells(measure)) {
            let unit = Cell::styled(measure.unit.sign(), DIM);
            table.row(vec![
                Cell::styled(measure.title, PLAIN),
                Cell::styled(measure.unit.show(value), PLAIN),
                unit,
            ]);
        }
    }
    text += &table.render();
    text += &groups("size", run.unit, &run.sizes);
    if run.tenants.len() > 1 {
        text += &groups("tenant", run.unit, &run.tenants);
    }
    text += &reasons("never started", &run.never_started);
    text += &reasons("failed", &run.failed);
    text += &reasons("left out of the trace", &answer.dropped);
    if answer.estimates_defaulted > 0 {
        text += &format!(
            "\nno estimates in the trace: the run time stands in for {}\n",
            count(answer.estimates_defaulted, "job")
        );
    }
    text += &written(&answer.written);
    if std::io::stdout().is_terminal() {
        text += &speed(answer);
    }
    text
}

/// Whether a measure says something even when it is zero; counts of what did not happen are left to the JSON answer.
fn tells(measure: &Measure) -> bool {
    measure.key == "never_started" || !matches!(measure.unit, Unit::Count | Unit::Times)
}

/// How fast it went, for whoever watched; never part of what is compared.
fn speed(answer: &Replayed) -> String {
    let seconds = answer.took.as_secs_f64();
    let rate = (answer.measures.counts.decisions as f64 / seconds.max(1e-3)).round();
    format!("\n{DIM}replayed in {seconds:.2} s, {} decisions a second{DIM:#}\n", number(rate))
}

fn groups(title: &str, unit: &str, all: &[Group]) -> String {
    if all.len() < 2 {
        return String::new();
    }
    let mut largest: Vec<&Group> = all.iter().collect();
    largest.sort_by_key(|group| std::cmp::Reverse(group.jobs));
    let shown: Vec<&str> = largest.iter().take(GROUPS_SHOWN).map(|group| group.name.as_str()).collect();
    let columns = vec![
        Column::left(&if title == "size" { unit.to_owned() } else { title.to_owned() }),
        Column::right("jobs"),
        Column::right("mean wait s"),
        Column::right("p95 s"),
        Column::right("mean slowdown"),
    ];
    let mut table = Table::new(columns);
    for group in all.iter().filter(|group| shown.contains(&group.name.as_str())) {
        let wait = group.wait_s;
        let one = |value: Option<f64>, decimals: usize| {
            Cell::styled(value.map_or("–".to_owned(), |value| format!("{value:.decimals$}")), PLAIN)
        };
        table.row(vec![
            Cell::styled(&group.name, PLAIN),
            Cell::styled(group.jobs.to_string(), PLAIN),
            one(wait.map(|wait| wait.mean), 0),
            one(wait.map(|wait| wait.p95), 0),
            one(group.bounded_slowdown.map(|slowdown| slowdown.mean), 2),
        ]);
    }
    let more = all.len().saturating_sub(GROUPS_SHOWN);
    let rest =
        if more > 0 { format!("{DIM}and {more} more; --json lists all{DIM:#}\n") } else { String::new() };
    format!("\n{}{rest}", table.render())
}

fn reasons(title: &str, reasons: &BTreeMap<String, u64>) -> String {
    if reasons.is_empty() {
        return String::new();
    }
    let lines = reasons.iter().map(|(reason, number)| format!("  {}  {}\n", number, clean(reason)));
    format!("\n{title}:\n{}", lines.collect::<String>())
}

fn written(files: &[String]) -> String {
    files.iter().map(|file| format!("\nwrote {}\n", clean(file))).collect()
}

/// The page of `replay` over sequences.
pub(crate) fn sequences(answer: &Sequences) -> String {
    let mut table = Table::of(&[">first job", ">jobs", ">mean slowdown", ">mean wait s", ">utilisation"]);
    for one in &answer.sequences {
        table.row(vec![
            Cell::styled(one.start.to_string(), PLAIN),
            Cell::styled(one.jobs.to_string(), PLAIN),
            Cell::styled(format!("{:.2}", one.mean_bounded_slowdown), PLAIN),
            Cell::styled(format!("{:.0}", one.mean_wait_s), PLAIN),
            Cell::styled(format!("{:.3}", one.utilisation), PLAIN),
        ]);
    }
    format!(
        "{GOOD}{}{GOOD:#} under {GOOD}{}{GOOD:#}, means over {}: bounded slowdown {:.2}, wait {:.0} s, utilisation {:.3}\n\n{}",
        clean(&answer.trace),
        clean(&answer.policy),
        count(answer.sequences.len() as u64, "sequence"),
        answer.mean_bounded_slowdown,
        answer.mean_wait_s,
        answer.utilisation,
        table.render()
    )
}

pub(crate) fn compared(answer: &Compared, page: Page) -> String {
    let pages = answer.comparisons.iter().map(|one| comparison(one, page));
    pages.collect::<Vec<_>>().join("\n") + &written(&answer.written)
}

fn comparison(one: &Comparison, page: Page) -> String {
    let seeds = one.policies.iter().map(|runs| runs.seeds.len()).max().unwrap_or(1);
    let over = if seeds > 1 { format!(", means over {seeds} seeds") } else { String::new() };
    let head = format!("{GOOD}{}{GOOD:#}{over}; baseline {}\n", clean(&one.trace), clean(&one.baseline));
    // As many policies side by side as the page has room for; the others below.
    let all: Vec<usize> = (0..one.policies.len()).collect();
    let tables =
        |beside: usize| all.chunks(beside).map(|places| side_by_side(one, places)).collect::<Vec<_>>();
    let fits =
        |tables: &[Table]| page.width.is_none_or(|width| tables.iter().all(|table| table.width() <= width));
    let tables = (2..=all.len()).rev().map(tables).find(|tables| fits(tables)).unwrap_or_else(|| tables(1));
    tables.iter().fold(head, |text, table| text + "\n" + &table.render())
}

/// One table of some of the policies.
fn side_by_side(one: &Comparison, places: &[usize]) -> Table {
    let mut columns = vec![Column::left("measure")];
    columns.extend(places.iter().map(|place| Column::right(&one.policies[*place].policy)));
    let mut table = Table::new(columns);
    let all_zero = |row: &Row| row.cells.iter().flatten().all(|cell| cell.mean == 0.0);
    for row in one.measures.iter().filter(|row| !all_zero(row) || tells(row.measure)) {
        let title = format!("{} {}", row.measure.title, row.measure.unit.sign());
        let mut cells = vec![Cell::styled(title.trim_end(), PLAIN)];
        cells.extend(places.iter().map(|place| cell_of(row, *place)));
        table.row(cells);
    }
    table
}

/// A value with its spread, and how it differs from the baseline.
fn cell_of(row: &Row, place: usize) -> Cell {
    let Some(cell) = row.cells.get(place).copied().flatten() else { return Cell::styled("–", DIM) };
    let spread = cell.spread.map_or(String::new(), |spread| format!(" ±{}", row.measure.unit.show(spread)));
    let value = row.measure.unit.show(cell.mean);
    let Some(against) = cell.against else { return Cell::styled(format!("{value}{spread}"), PLAIN) };
    let change = against.relative.map_or(String::new(), |part| format!(" ({:+.1} %)", part * 100.0));
    let style = match against.verdict {
        Verdict::Better => GOOD,
        Verdict::Worse => BAD,
        Verdict::Same | Verdict::Other => PLAIN,
    };
    Cell::styled(format!("{value}{spread}{change}"), style)
}
