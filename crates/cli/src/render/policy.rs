//! Policies as pages.

use super::style::{DIM, GOOD};
use super::table::Table;
use super::text::{clean, count, labelled, number, wrap};
use super::{catalogue, table::with_gap, text::width};
use crate::answer::Page;
use crate::commands::policy::{Checked, Listing};

pub(crate) fn list(policies: &[Listing], page: Page) -> String {
    let mut table = Table::of(&["policy", ">filters", ">terms", "what it is for"]);
    let name_width = policies.iter().map(|policy| width(&policy.name)).max().unwrap_or(0);
    let taken = with_gap(name_width) + with_gap("filters".len()) + with_gap("terms".len());
    for policy in policies {
        let lines = wrap(&clean(&policy.description), page.text_width().saturating_sub(taken).max(20));
        for (at, line) in lines.iter().enumerate() {
            let only_first = |text: String| if at == 0 { text } else { String::new() };
            table.row(vec![
                only_first(policy.name.clone()).into(),
                only_first(policy.filters.len().to_string()).into(),
                only_first(policy.terms.len().to_string()).into(),
                line.into(),
            ]);
        }
    }
    table.render()
}

fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

pub(crate) fn checked(checked: &Checked, page: Page) -> String {
    let mut text = format!(
        "{GOOD}valid{GOOD:#}: policy {} with {} and {}\n",
        clean(&checked.name),
        count(checked.filters.len(), "filter"),
        count(checked.terms.len(), "term"),
    );
    for line in wrap(&clean(&checked.description), page.text_width() - 2) {
        text += &format!("  {DIM}{line}{DIM:#}\n");
    }
    if !checked.filters.is_empty() {
        text.push('\n');
        text += &labelled("  filters: ", &clean(&checked.filters.join(", ")), page.text_width());
    }
    if !checked.terms.is_empty() {
        let mut table = Table::of(&["term", ">weight", "class", "range"]).indent(2);
        for term in &checked.terms {
            table.row(vec![
                term.name.into(),
                number(term.weight).into(),
                catalogue::class(term.class).into(),
                catalogue::range(term.range, term.unit).into(),
            ]);
        }
        text.push('\n');
        text += &table.render();
    }
    for when in &checked.when {
        let below = when.utilisation_below.map(|below| format!(" and less than {}", percent(below)));
        let factors: Vec<String> =
            when.factors.iter().map(|(name, factor)| format!("{name} × {}", number(*factor))).collect();
        let from = percent(when.utilisation_min);
        let label = format!("  while {from} or more{} of the tier is in use: ", below.unwrap_or_default());
        text.push('\n');
        text += &labelled(&label, &clean(&factors.join(", ")), page.text_width());
    }
    if !checked.disabled.is_empty() {
        text += &format!("\n  turned off: {}\n", clean(&checked.disabled.join(", ")));
    }
    text
}
