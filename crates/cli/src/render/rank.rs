//! A ranking as a page: the table, what decided, who is refused.

use landfall_policy::verdict::{Margin, Ranking, TermScore, Verdict};

use super::style::{DIM, GOOD, PLAIN, STRONG, WARN};
use super::table::{Cell, Column, Table, with_gap};
use super::text::{clean, count, cut, decimals, fixed, labelled, short, width};
use super::{reasons, words};
use crate::answer::Page;
use crate::commands::question::Asked;
use crate::findings::Group;
use crate::selection::Origin;

pub(crate) fn page(asked: &Asked, groups: &[Group], rows: usize, page: Page) -> String {
    let ranking = &asked.ranking;
    let mut text = heading(ranking, asked.origin);
    let admitted = ranking.candidates.iter().take_while(|verdict| verdict.is_admitted()).count();
    if admitted > 0 {
        text.push('\n');
        text += &table(&ranking.candidates[..admitted.min(rows)], asked, page);
        if admitted > rows {
            text += &format!("{DIM}… and {} more (--limit all shows every one){DIM:#}\n", admitted - rows);
        }
    }
    text.push('\n');
    text += &outcome(ranking, page);
    if ranking.candidates_skipped > 0 {
        let noun = words::candidate(ranking.direction);
        let skipped = count(ranking.candidates_skipped, noun);
        text += &format!("{skipped} left out by the policy's candidate_limit\n");
    }
    text + &reasons::section(ranking, groups, page)
}

/// What was asked of whom.
pub(super) fn heading(ranking: &Ranking, origin: Origin) -> String {
    let (candidate, subject) = (words::candidate(ranking.direction), words::subject(ranking.direction));
    format!(
        "{STRONG}{candidate}s for {subject} {}{STRONG:#}, policy {} ({}), {}\n",
        clean(ranking.subject.as_str()),
        clean(&ranking.policy),
        origin.word(),
        ranking.now_ms,
    )
}

/// What was chosen and what decided it, or what to do instead.
pub(super) fn outcome(ranking: &Ranking, page: Page) -> String {
    if let Some((kind, reason, detail)) = words::decision(&ranking.decision) {
        let text = format!("decision: {STRONG}{}{STRONG:#} ({reason})\n", clean(&kind));
        return text + &labelled("  ", &clean(detail), page.text_width());
    }
    let Some(winner) = &ranking.winner else { return String::new() };
    let winner = clean(winner.as_str());
    let mut text = format!("winner: {GOOD}{winner}{GOOD:#}");
    text += &match &ranking.margin {
        Some(margin) => lead(margin),
        None => match ranking
            .candidates
            .iter()
            .filter(|other| other.is_admitted() && other.barred.is_none())
            .count()
        {
            0 | 1 => ", the only one that may be chosen".into(),
            choices => format!(", drawn from {choices} that may be chosen"),
        },
    };
    text.push('\n');
    if ranking.fallback {
        text += &format!("{WARN}note{WARN:#}: everything is too tight; this is the fallback\n");
    }
    text
}

/// By how much the winner leads and what made the difference.
fn lead(margin: &Margin) -> String {
    let runner_up = clean(margin.runner_up.as_str());
    let ahead = match margin.lead {
        lead if lead > 0.0 => format!(", {} ahead of {runner_up}", short(lead)),
        lead if lead < 0.0 => format!(", before {runner_up} though {} behind in points", short(-lead)),
        _ => format!(", level on points with {runner_up}"),
    };
    match (margin.decided_by.as_deref(), &margin.deciding_term) {
        (Some("order"), _) => format!("{ahead}; the order of ids decided"),
        (Some(what), _) => format!("{ahead}; the {what} decided"),
        (None, Some(term)) => format!("{ahead}; {term} made the difference"),
        (None, None) => ahead,
    }
}

/// One term's column: what it gave to each candidate.
struct TermColumn {
    column: Column,
    cells: Vec<String>,
    weight: f64,
}

impl TermColumn {
    fn new(title: &str, values: &[f64], weight: f64) -> Self {
        let decimals = decimals(values.iter().copied());
        let cells = values.iter().map(|value| fixed(*value, decimals)).collect();
        Self { column: Column::narrow(title), cells, weight }
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| width(cell)).max().unwrap_or(0).max(self.column.width())
    }
}

fn table(verdicts: &[Verdict], asked: &Asked, page: Page) -> String {
    let ranking = &asked.ranking;
    /// Names take at most this part of the page.
    const NAME_SHARE: usize = 3;
    let name_width = page.width.map_or(usize::MAX, |width| (width / NAME_SHARE).max(12));
    let totals: Vec<f64> = verdicts.iter().map(|verdict| verdict.total.unwrap_or_default()).collect();
    let total_decimals = decimals(totals.iter().copied());
    let levels = verdicts.iter().any(|verdict| verdict.level.is_some());
    let devices = verdicts.iter().any(|verdict| !words::devices(verdict).is_empty());
    let notes = verdicts.iter().any(|verdict| verdict.barred.is_some());

    let mut columns = vec![
        Column::right("rank"),
        Column::left(words::candidate(ranking.direction)),
        Column::right("total"),
    ];
    let mut rows: Vec<Vec<Cell>> = Vec::with_capacity(verdicts.len());
    let mut rank = 0;
    for (verdict, total) in verdicts.iter().zip(&totals) {
        let is_winner = ranking.winner.as_ref() == Some(&verdict.candidate);
        let style = match verdict.barred {
            _ if is_winner => GOOD,
            Some(_) => DIM,
            None => PLAIN,
        };
        // What may not be chosen has a place in the table, but no rank.
        let place = if verdict.barred.is_some() { "-".into() } else { place(&mut rank) };
        rows.push(vec![
            Cell::styled(place, style),
            Cell::styled(cut(&clean(verdict.candidate.as_str()), name_width), style),
            Cell::styled(fixed(*total, total_decimals), style),
        ]);
    }
    if levels {
        columns.push(Column::left("level"));
        push(&mut rows, verdicts.iter().map(|verdict| verdict.level.map_or("", words::level).into()));
    }
    // Only where regions differ do they explain an order that totals alone do not.
    if asked.by_region && verdicts.iter().any(|verdict| verdict.region_tier != verdicts[0].region_tier) {
        columns.push(Column::right("region tier"));
        let tier = |verdict: &Verdict| verdict.region_tier.map_or(String::new(), |tier| tier.to_string());
        push(&mut rows, verdicts.iter().map(|verdict| tier(verdict).into()));
    }
    let mut tail: Vec<(Column, Vec<Cell>)> = Vec::new();
    if devices {
        tail.push((
            Column::left("devices"),
            verdicts.iter().map(|verdict| words::devices(verdict).into()).collect(),
        ));
    }
    if notes {
        let note = |verdict: &Verdict| words::barred(verdict).unwrap_or_default().into();
        tail.push((Column::left("may not be chosen"), verdicts.iter().map(note).collect()));
    }

    let fixed_width = drawn_width(&columns, &rows, &tail);
    let deciding = ranking.margin.as_ref().and_then(|margin| margin.deciding_term.as_deref());
    let all = term_columns(verdicts, deciding);
    let count_all = all.len();
    let shown = fitting(all, page.width.map(|width| width.saturating_sub(fixed_width)));
    let hidden = count_all - shown.len();
    for term in shown {
        columns.push(term.column);
        push(&mut rows, term.cells.into_iter().map(Cell::from));
    }
    for (column, cells) in tail {
        columns.push(column);
        push(&mut rows, cells.into_iter());
    }

    let mut table = Table::new(columns);
    rows.into_iter().for_each(|row| table.row(row));
    let mut text = table.render();
    if hidden > 0 {
        let shown = count_all - hidden;
        text += &format!(
            "{DIM}{shown} of {count_all} terms shown, those that matter most; a wider terminal or --json shows all{DIM:#}\n"
        );
    }
    text
}

fn place(rank: &mut usize) -> String {
    *rank += 1;
    rank.to_string()
}

fn push(rows: &mut [Vec<Cell>], cells: impl Iterator<Item = Cell>) {
    rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
}

/// Columns that everything but the terms takes.
fn drawn_width(columns: &[Column], rows: &[Vec<Cell>], tail: &[(Column, Vec<Cell>)]) -> usize {
    let head: usize = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let cells = rows.iter().filter_map(|row| row.get(at)).map(Cell::width).max().unwrap_or(0);
            with_gap(cells.max(column.width()))
        })
        .sum();
    let tail: usize = tail
        .iter()
        .map(|(column, cells)| with_gap(cells.iter().map(Cell::width).max().unwrap_or(0).max(column.width())))
        .sum();
    // The first column has no gap before it.
    (head + tail).saturating_sub(with_gap(0))
}

/// A column for each term and factor, in policy order.
fn term_columns(verdicts: &[Verdict], deciding: Option<&str>) -> Vec<TermColumn> {
    let Some(first) = verdicts.first() else { return Vec::new() };
    let values = |at: usize, of: fn(&Verdict) -> &Vec<TermScore>| -> Vec<f64> {
        verdicts.iter().map(|verdict| of(verdict).get(at).map_or(0.0, |term| term.contribution)).collect()
    };
    let terms = first.terms.iter().enumerate().map(|(at, term)| {
        let values = values(at, |verdict| &verdict.terms);
        let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        // The term that made the difference is named below the table, so it must be in it.
        let weight = if deciding == Some(&*term.term) { f64::MAX } else { largest };
        TermColumn::new(&term.term, &values, weight)
    });
    // A factor bears on every term, so it is never the one to leave out.
    let factors = first.multipliers.iter().enumerate().map(|(at, term)| {
        let values = values(at, |verdict| &verdict.multipliers);
        TermColumn::new(&format!("× {}", term.term), &values, f64::INFINITY)
    });
    terms.chain(factors).collect()
}

/// The columns with the largest contributions that fit into the room, in their own order.
fn fitting(columns: Vec<TermColumn>, room: Option<usize>) -> Vec<TermColumn> {
    let Some(mut room) = room else { return columns };
    let mut by_weight: Vec<usize> = (0..columns.len()).collect();
    by_weight.sort_by(|&a, &b| columns[b].weight.total_cmp(&columns[a].weight).then(a.cmp(&b)));
    let mut taken = vec![false; columns.len()];
    for at in by_weight {
        let needs = with_gap(columns[at].width());
        // A narrower but lesser column must not take the place of a greater one: what is shown is what gives most.
        if needs > room {
            break;
        }
        room -= needs;
        taken[at] = true;
    }
    columns.into_iter().zip(taken).filter_map(|(column, taken)| taken.then_some(column)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(room: Option<usize>) -> Vec<f64> {
        let column = |weight| TermColumn::new("termname", &[weight], weight);
        let columns = vec![column(1.0), column(30.0), column(2.0)];
        fitting(columns, room).into_iter().map(|column| column.weight).collect()
    }

    #[test]
    fn the_largest_contributions_fit_first_and_keep_their_order() {
        assert_eq!(names(None), [1.0, 30.0, 2.0]);
        assert_eq!(names(Some(20)), [30.0, 2.0]);
        assert_eq!(names(Some(10)), [30.0]);
        assert!(names(Some(0)).is_empty());
    }
}
