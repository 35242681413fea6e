//! Terms and filters as pages.

use landfall_policy::filter::FilterInfo;
use landfall_policy::params::{Default, ParamInfo, ParamKind};
use landfall_policy::term::{Family, TermInfo, TermKind};

use super::style::STRONG;
use super::table::{Column, Table, with_gap};
use super::text::{labelled, number, width, wrap};
use crate::answer::Page;
use crate::commands::policy::{Catalogue, Part};

/// The page of `policy terms`.
pub(crate) fn all(catalogue: &Catalogue, page: Page) -> String {
    let mut text = String::new();
    let columns = ["term", "family", "class", "range"];
    let rows = catalogue.terms.iter().map(|info| {
        let words = [
            info.name.to_owned(),
            family(info.family).into(),
            class(info.class).into(),
            range(info.range, info.unit),
        ];
        (words.to_vec(), info.description)
    });
    text += &described(&columns, &rows.collect::<Vec<_>>(), page);
    text.push('\n');
    let rows = catalogue.filters.iter().map(|info| (vec![info.name.to_owned()], info.description));
    text += &described(&["filter"], &rows.collect::<Vec<_>>(), page);
    text += &format!("\n{STRONG}Parameters of every policy{STRONG:#}\n");
    text += &params(&catalogue.params, page);
    text + "\n`landfall policy terms NAME` shows the parameters of one.\n"
}

/// The page of `policy terms NAME`.
pub(crate) fn one(part: &Part, page: Page) -> String {
    match part {
        Part::Term(info) => term(info, page),
        Part::Filter(info) => filter(info, page),
    }
}

fn term(info: &TermInfo, page: Page) -> String {
    let mut text = format!("{STRONG}{}{STRONG:#}, a term of the family {}\n", info.name, family(info.family));
    let columns = page.text_width();
    text += &labelled("  ", info.description, columns);
    text += &format!("\n  class  {}\n  range  {}\n", class(info.class), range(info.range, info.unit));
    let also = reads(info);
    if !also.is_empty() {
        text += &labelled("  reads  job and node, and ", &also.join(", "), columns);
    }
    text + &own_params(info.params, page)
}

/// What a term looks at beyond the pair, in the words of the JSON form.
fn reads(info: &TermInfo) -> Vec<String> {
    let Ok(serde_json::Value::Object(flags)) = serde_json::to_value(info.reads) else { return Vec::new() };
    flags.into_iter().filter(|(_, does)| does.as_bool() == Some(true)).map(|(what, _)| what).collect()
}

fn filter(info: &FilterInfo, page: Page) -> String {
    let mut text = format!("{STRONG}{}{STRONG:#}, a filter\n", info.name);
    text += &labelled("  ", info.description, page.text_width());
    text.push('\n');
    text += &labelled(
        "  reasons  ",
        &info.reasons.iter().map(|reason| reason.name()).collect::<Vec<_>>().join(", "),
        page.text_width(),
    );
    text + &own_params(info.params, page)
}

fn own_params(infos: &[ParamInfo], page: Page) -> String {
    if infos.is_empty() { "\n  no parameters\n".into() } else { format!("\n{}", params(infos, page)) }
}

fn params(infos: &[ParamInfo], page: Page) -> String {
    let rows: Vec<_> = infos
        .iter()
        .map(|info| {
            let default = match info.default {
                Default::Number(x) => number(x),
                Default::Whole(x) => x.to_string(),
                Default::Switch(x) => x.to_string(),
                Default::Word(x) => x.to_owned(),
            };
            (vec![info.name.to_owned(), default, kind(&info.kind, info.unit)], info.description)
        })
        .collect();
    described(&["parameter", "default", "may be"], &rows, page)
}

/// A table whose last column is a description; it moves below the row where the page is narrow.
fn described(titles: &[&str], rows: &[(Vec<String>, &str)], page: Page) -> String {
    /// Narrower than this a description is a ribbon.
    const DESCRIPTION_MIN: usize = 36;
    /// Wider than this the eye loses the row.
    const PAGE: usize = 140;
    let taken: usize = titles
        .iter()
        .enumerate()
        .map(|(at, title)| {
            let cells = rows.iter().map(|(words, _)| words.get(at).map_or(0, |word| width(word)));
            with_gap(cells.max().unwrap_or(0).max(width(title)))
        })
        .sum();
    // The description is a column of its own, so the page may be wider than a sentence should be.
    let room = page.width.unwrap_or(PAGE).min(PAGE).saturating_sub(taken);
    let mut columns: Vec<Column> = titles.iter().map(|title| Column::left(title)).collect();
    let beside = room >= DESCRIPTION_MIN;
    if beside {
        columns.push(Column::left("description"));
        let mut table = Table::new(columns);
        for (words, description) in rows {
            for (at, line) in wrap(description, room).into_iter().enumerate() {
                let mut cells: Vec<_> =
                    words.iter().map(|word| if at == 0 { word.as_str() } else { "" }.into()).collect();
                cells.push(line.into());
                table.row(cells);
            }
        }
        return table.render();
    }
    let mut table = Table::new(columns);
    rows.iter().for_each(|(words, _)| table.row(words.iter().map(Into::into).collect()));
    let rendered = table.render();
    let mut lines = rendered.lines();
    let mut text = format!("{}\n", lines.next().unwrap_or_default());
    for (line, (_, description)) in lines.zip(rows) {
        text += &format!("{line}\n");
        text += &labelled("    ", description, page.text_width());
    }
    text
}

/// What a term may do to a total.
pub(super) fn class(class: TermKind) -> &'static str {
    match class {
        TermKind::Soft => "soft",
        TermKind::Disqualifier => "disqualifier",
        TermKind::Mixed => "mixed",
        TermKind::Multiplier => "multiplier",
    }
}

fn family(family: Family) -> &'static str {
    match family {
        Family::Fit => "fit",
        Family::BinPack => "bin-pack",
        Family::Pull => "pull",
        Family::Batch => "batch",
        Family::Offer => "offer",
        Family::Packing => "packing",
    }
}

/// Smallest and largest value with the unit.
pub(super) fn range((min, max): (f64, Option<f64>), unit: &str) -> String {
    let max = max.map_or("∞".into(), number);
    format!("{} to {max} {unit}", number(min)).trim_end().to_owned()
}

fn kind(kind: &ParamKind, unit: &str) -> String {
    /// Bounds beyond this only keep sums finite; people need not read them.
    const NO_BOUND: f64 = 1e15;
    let bounded = |min: f64, max: f64, what: &str| match (min > -NO_BOUND, max < NO_BOUND) {
        (true, true) => format!("{} to {}", number(min), number(max)),
        (true, false) => format!("{} or more", number(min)),
        (false, true) => format!("{} or less", number(max)),
        (false, false) => what.to_owned(),
    };
    let text = match *kind {
        ParamKind::Number { min, max } => bounded(min, max, "a number"),
        ParamKind::Whole { min, max } => {
            let max = if max >= 1 << 53 { f64::INFINITY } else { max as f64 };
            format!("{}, whole", bounded(min as f64, max, "a number"))
        }
        ParamKind::Switch => "true, false".into(),
        ParamKind::Word(words) => words.join(", "),
        ParamKind::Limit => "a whole number, \"all\"".into(),
        ParamKind::Text => "a name".into(),
    };
    if unit.is_empty() { text } else { format!("{text}, in {unit}") }
}
