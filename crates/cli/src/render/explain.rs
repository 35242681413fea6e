//! `explain` as a page: why this one, why not that one, what would help.

use landfall_model::Time;
use landfall_model::verdict::{Refused, Verdict};
use landfall_policy::catalogue;

use super::rank::{heading, outcome};
use super::style::{BAD, DIM, GOOD, STRONG, WARN};
use super::table::{Cell, Column, Table};
use super::text::{clean, count, decimals, fixed, labelled, listed, number, short, signed};
use super::{reasons, words};
use crate::answer::Page;
use crate::commands::explain::{Explained, Outcome};
use crate::findings::Comparison;

pub(crate) fn page(explained: &Explained, page: Page) -> String {
    if explained.planned().is_some() {
        return standing(explained, page).trim_start().to_owned();
    }
    let ranking = &explained.asked.ranking;
    let mut text = heading(ranking, explained.asked.origin);
    text.push('\n');
    match (explained.outcome, explained.verdict()) {
        (Outcome::Chosen, Some(verdict)) => {
            text += &outcome(ranking, page);
            text += &scored(verdict, page);
            text += &explained.comparison.as_ref().map(side_by_side).unwrap_or_default();
        }
        (Outcome::NotChosen, Some(verdict)) => {
            text += &not_chosen(explained, verdict, page);
        }
        (Outcome::Refused, Some(verdict)) => {
            text += &refused(verdict, Some(ranking.now_ms), page);
            text.push('\n');
            text += &outcome(ranking, page);
        }
        (Outcome::LeftOut, _) | (_, None) if explained.focus.is_some() => {
            let name = explained.focus.as_ref().map(|focus| clean(focus.as_str())).unwrap_or_default();
            text += &format!(
                "{name} was left out by the policy's candidate_limit; others were scored before it\n"
            );
            text += &outcome(ranking, page);
        }
        _ => {
            text += &outcome(ranking, page);
            // Candidates that were scored and may not be chosen are the nearest misses.
            for verdict in ranking.candidates.iter().filter(|verdict| verdict.is_admitted()).take(1) {
                text += &format!("\n{STRONG}nearest{STRONG:#}: {}\n", clean(verdict.candidate.as_str()));
                text += &may_not(verdict, page);
                text += &scored(verdict, page);
            }
            text += &reasons::section(ranking, &explained.groups, page);
        }
    }
    text += &suggestion(explained, page);
    text += &standing(explained, page);
    text
}

/// What each term gave, and what that rests on.
pub(super) fn scored(verdict: &Verdict, page: Page) -> String {
    let mut summary = vec![format!("total {}", short(verdict.total.unwrap_or_default()))];
    summary.extend(verdict.level.map(|level| format!("level {}", words::level(level))));
    summary.extend(verdict.region_tier.map(|tier| format!("region tier {tier}")));
    let devices = words::devices(verdict);
    if !devices.is_empty() {
        summary.push(format!("on {devices}"));
    }
    let mut text = format!("{}\n\n", summary.join(", "));
    let mut table = Table::of(&["term", ">raw", ">weight", ">contribution", ""]).indent(2);
    let digits = decimals(verdict.terms.iter().map(|term| term.contribution));
    let raw_digits = decimals(verdict.terms.iter().map(|term| term.raw));
    for term in &verdict.terms {
        table.row(vec![
            clean(&term.term).into(),
            fixed(term.raw, raw_digits).into(),
            number(term.weight).into(),
            fixed(term.contribution, digits).into(),
            Cell::styled(if term.veto { "veto" } else { "" }, BAD),
        ]);
    }
    for factor in &verdict.multipliers {
        let times = format!("× {}", number(factor.contribution));
        table.row(vec![clean(&factor.term).into(), number(factor.raw).into(), "".into(), times.into()]);
    }
    text += &table.render();
    let facts: Vec<String> =
        verdict.facts.0.iter().map(|(name, fact)| format!("{name} {}", words::fact(fact))).collect();
    if !facts.is_empty() {
        text.push('\n');
        text += &labelled("  facts: ", &clean(&facts.join(", ")), page.text_width());
    }
    text
}

/// Two candidates term by term.
fn side_by_side(comparison: &Comparison) -> String {
    let (a, b) = (clean(comparison.candidate.as_str()), clean(comparison.against.as_str()));
    let mut text = format!("\n{STRONG}{a} against {b}{STRONG:#}\n");
    let mut table = Table::new(vec![
        Column::left("term"),
        Column::right(&a),
        Column::right(&b),
        Column::right("difference"),
    ])
    .indent(2);
    let values = comparison.terms.iter().flat_map(|term| [term.candidate, term.against]);
    let digits = decimals(values);
    for term in &comparison.terms {
        table.row(vec![
            clean(&term.term).into(),
            fixed(term.candidate, digits).into(),
            fixed(term.against, digits).into(),
            signed(term.difference, digits).into(),
        ]);
    }
    for factor in &comparison.multipliers {
        let times = |value: f64| format!("× {}", number(value));
        table.row(vec![
            clean(&factor.term).into(),
            times(factor.candidate).into(),
            times(factor.against).into(),
        ]);
    }
    let total = ["total", "", "", &signed(comparison.difference, digits.max(2))]
        .map(|cell| Cell::styled(cell, STRONG));
    table.row(total.into());
    text += &table.render();
    text
}

/// An admitted candidate that another one beat, or that may not be chosen.
fn not_chosen(explained: &Explained, verdict: &Verdict, page: Page) -> String {
    let ranking = &explained.asked.ranking;
    let name = clean(verdict.candidate.as_str());
    let admitted: Vec<_> = ranking.candidates.iter().take_while(|other| other.is_admitted()).collect();
    let place = admitted.iter().position(|other| other.candidate == verdict.candidate).map_or(0, |at| at + 1);
    let noun = words::candidate(ranking.direction);
    let mut text = format!(
        "{WARN}not chosen{WARN:#}: {name} is admitted, place {place} of {}\n",
        count(admitted.len(), &format!("admitted {noun}"))
    );
    text += &may_not(verdict, page);
    text += &outcome(ranking, page);
    text.push('\n');
    text += &scored(verdict, page);
    let Some(comparison) = &explained.comparison else { return text };
    text += &side_by_side(comparison);
    let winner = admitted.iter().find(|other| other.candidate == comparison.against);
    let nearer =
        explained.asked.by_region && winner.is_some_and(|winner| winner.region_tier < verdict.region_tier);
    if let Some(winner) = winner {
        text += &beyond_points(verdict, winner);
    }
    text.push('\n');
    text + &what_would_help(verdict, comparison, nearer, page)
}

/// Why an admitted candidate may not be chosen, if it may not.
pub(super) fn may_not(verdict: &Verdict, page: Page) -> String {
    match words::barred(verdict) {
        Some(why) => labelled("it may not be chosen: ", &clean(&why), page.text_width()),
        None => String::new(),
    }
}

/// What comes before points: level and region.
fn beyond_points(verdict: &Verdict, winner: &Verdict) -> String {
    let mut text = String::new();
    if let (Some(here), Some(there)) = (verdict.level, winner.level)
        && here != there
    {
        text += &format!("  level {} here, {} there\n", words::level(here), words::level(there));
    }
    if let (Some(here), Some(there)) = (verdict.region_tier, winner.region_tier)
        && here != there
    {
        text += &format!("  region tier {here} here, {there} there\n");
    }
    text
}

/// What would have to change for the candidate to win; `nearer` tells that the winner's region comes first.
fn what_would_help(verdict: &Verdict, comparison: &Comparison, nearer: bool, page: Page) -> String {
    let against = clean(comparison.against.as_str());
    let vetoed = !verdict.vetoes.is_empty();
    if comparison.would_close.is_empty() || nearer || vetoed {
        let why = if verdict.barred.is_some() {
            "lift what bars it; points come after that".to_owned()
        } else if nearer {
            format!("points would not: {against} is in a nearer region, and nearer regions come first")
        } else if comparison.difference >= 0.0 {
            format!(
                "points would not: it has no fewer than {against}, so level, region, order or a draw decided"
            )
        } else {
            format!("no few terms alone make up for the lead of {against}")
        };
        return labelled("what would help: ", &why, page.text_width());
    }
    let terms = listed(&comparison.would_close.iter().map(AsRef::as_ref).collect::<Vec<&str>>());
    let intro = format!("as much from {terms} as {against} gets would make up for the difference");
    let mut text = labelled("what would help: ", &intro, page.text_width());
    for name in &comparison.would_close {
        if let Some(info) = catalogue::term(name) {
            text += &labelled(&format!("  {name}: "), info.description, page.text_width());
        }
    }
    text
}

/// Every reason against a candidate; with the present instant also when to look again.
pub(super) fn refused(verdict: &Verdict, now: Option<Time>, page: Page) -> String {
    let name = clean(verdict.candidate.as_str());
    let number = count(verdict.refusals.len(), "reason");
    let mut text = format!("{BAD}refused{BAD:#}: {name}, {number}\n");
    for refused in &verdict.refusals {
        text.push('\n');
        text += &reason(refused, now, page);
    }
    text
}

fn reason(refused: &Refused, now: Option<Time>, page: Page) -> String {
    let Refused { filter, refusal } = refused;
    let mut text = format!(
        "  {STRONG}{}{STRONG:#} (filter {}; {})\n",
        refusal.reason,
        clean(filter),
        words::class(refusal.class)
    );
    let mut line = |label: &str, content: &str| text += &labelled(label, &clean(content), page.text_width());
    line("    means       ", &refusal.said());
    line("    needed      ", &refusal.needed.to_string());
    line("    found       ", &refusal.found.to_string());
    if !refusal.remedy.is_empty() {
        line("    would help  ", &refusal.remedy);
    }
    let again = match (refusal.until_ms, now) {
        (Some(at), Some(now)) => words::instant(at, now),
        _ => words::wake(refusal.wake).to_owned(),
    };
    line("    next look   ", &again);
    text
}

/// Where the job stands once all that can start now has started.
fn standing(explained: &Explained, page: Page) -> String {
    let Some(found) = &explained.standing else { return String::new() };
    let job = clean(found.explanation.job.as_str());
    format!("\n{job} {}", super::standing::section(&found.explanation, found.estimate.as_ref(), page))
}

/// The smallest change that helps most, when nothing is admitted.
fn suggestion(explained: &Explained, page: Page) -> String {
    let Some(found) = &explained.suggestion else { return String::new() };
    let noun = words::candidate(explained.asked.ranking.direction);
    let intro = format!(
        "lifting {} would admit {}",
        listed(&found.reasons.iter().map(|reason| reason.name()).collect::<Vec<_>>()),
        count(found.candidates, noun)
    );
    let mut text = format!("\n{GOOD}smallest change{GOOD:#}\n");
    text += &labelled("  ", &intro, page.text_width());
    for remedy in &found.remedies {
        text += &labelled(&format!("    {}: ", remedy.reason), &clean(&remedy.remedy), page.text_width());
    }
    if found.candidates > 1 && !found.remedies.is_empty() {
        text += &format!("  {DIM}(amounts as for {}){DIM:#}\n", clean(found.example.as_str()));
    }
    text
}
