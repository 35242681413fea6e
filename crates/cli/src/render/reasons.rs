//! Refused candidates, grouped by the set of their reasons.

use landfall_policy::verdict::{Ranking, ReasonCount};

use super::style::{DIM, STRONG};
use super::table::{Column, Table};
use super::text::count;
use super::words;
use crate::answer::Page;
use crate::findings::Group;

/// Groups that are shown; further ones are rare combinations.
const GROUPS_MAX: usize = 12;

/// Who is refused and why; empty if nobody is.
pub(super) fn section(ranking: &Ranking, groups: &[Group], page: Page) -> String {
    let refused: u64 = groups.iter().map(|group| group.candidates).sum();
    if refused == 0 {
        return String::new();
    }
    let noun = words::candidate(ranking.direction);
    let mut text = format!("\n{STRONG}Refused{STRONG:#}: {}\n", count(refused, noun));
    let plural = format!("{noun}s");
    let shown = &groups[..groups.len().min(GROUPS_MAX)];
    let with_examples = grouped(shown, &plural, true);
    // On a narrow page the names of some are the first thing to do without.
    let fits = page.width.is_none_or(|columns| with_examples.width() <= columns);
    let table = if fits { with_examples } else { grouped(shown, &plural, false) };
    text += &table.render();
    if groups.len() > GROUPS_MAX {
        text += &format!("  {DIM}… and {}{DIM:#}\n", count(groups.len() - GROUPS_MAX, "rarer combination"));
    }
    // With one reason in all, the second table would repeat the first.
    if ranking.reasons.len() > 1 {
        text.push('\n');
        text += &by_reason(&ranking.reasons, &plural);
    }
    text
}

fn grouped(groups: &[Group], plural: &str, examples: bool) -> Table {
    let mut columns =
        vec![Column::right(plural), Column::left("waiting may help"), Column::left("all reasons together")];
    if examples {
        columns.push(Column::left("such as"));
    }
    let mut table = Table::new(columns).indent(2);
    for group in groups {
        let names: Vec<&str> = group.examples.iter().map(landfall_model::Name::as_str).collect();
        let more = if group.candidates as usize > names.len() { ", …" } else { "" };
        let mut cells = vec![
            group.candidates.to_string().into(),
            if group.may_pass { "yes" } else { "no" }.into(),
            group.reasons.iter().map(|reason| reason.name()).collect::<Vec<_>>().join(" + ").into(),
        ];
        if examples {
            cells.push((names.join(", ") + more).into());
        }
        table.row(cells);
    }
    table
}

fn by_reason(reasons: &[ReasonCount], plural: &str) -> String {
    let mut table =
        Table::new(vec![Column::left("reason"), Column::right(plural), Column::right("the only reason for")])
            .indent(2);
    for reason in reasons {
        table.row(vec![
            reason.reason.name().into(),
            reason.candidates.to_string().into(),
            reason.alone.to_string().into(),
        ]);
    }
    table.render()
}
