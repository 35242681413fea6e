//! Decisions as a table, or each with everything it rests on.

use landfall_api::answer::DecisionView;
use landfall_model::life::Against;
use landfall_model::verdict::Fact;

use super::super::clock::{ago, date, span};
use super::super::style::DIM;
use super::super::table::{Cell, Table};
use super::super::text::{clean, count, cut, labelled, short};
use crate::answer::Page;
use crate::commands::service::decisions::Listed;

pub(crate) fn list(listed: &Listed, page: Page) -> String {
    if listed.decisions.is_empty() {
        return "no decisions\n".to_owned();
    }
    if listed.full {
        let each = listed.decisions.iter().map(|decision| one(decision, page));
        return each.collect::<Vec<String>>().join("\n");
    }
    let mut table =
        Table::of(&["when", "", "job", "pool", "kind", "nodes", ">total", "runner-up", "against others"]);
    for decision in &listed.decisions {
        table.row(vec![
            date(decision.at_ms).into(),
            Cell::styled(ago(decision.at_ms, listed.now_ms), DIM),
            cut(&clean(decision.job.as_deref().unwrap_or("-")), 32).into(),
            Cell::from(decision.pool.as_deref().unwrap_or_default()),
            Cell::from(&decision.kind),
            cut(&clean(&nodes(decision)), 48).into(),
            decision.total.map(short).unwrap_or_default().into(),
            Cell::from(decision.runner_up.as_deref().unwrap_or_default()),
            cut(&against(&decision.against), 48).into(),
        ]);
    }
    table.render()
}

/// The nodes it chose, or the worker that asked.
fn nodes(decision: &DecisionView) -> String {
    match &decision.asked {
        Some(node) => format!("{node} asked"),
        None => decision.nodes.iter().map(|granted| granted.node.as_str()).collect::<Vec<_>>().join(", "),
    }
}

/// What stood against the others, in short.
pub(crate) fn against(all: &[Against]) -> String {
    let each = all.iter().map(|against| format!("{} {}", against.candidates, against.reason.name()));
    each.collect::<Vec<String>>().join(", ")
}

/// One decision with everything it rests on.
pub(crate) fn one(decision: &DecisionView, page: Page) -> String {
    let width = page.text_width();
    let subject = match (&decision.job, &decision.asked) {
        (Some(job), _) => format!("job {}", clean(job)),
        (None, Some(node)) => format!("worker {}", clean(node)),
        (None, None) => String::new(),
    };
    let chose = match decision.nodes.is_empty() {
        true => "nobody".to_owned(),
        false => format!("{} ({})", clean(&nodes(decision)), decision.kind),
    };
    let pool = decision.pool.as_deref().map(|pool| format!(", pool {}", clean(pool))).unwrap_or_default();
    let mut text = format!("{} {subject}{pool}: {chose}\n", date(decision.at_ms));
    let mut line = |label: &str, value: &str| text += &labelled(label, value, width);
    if let Some(total) = decision.total {
        let terms = decision.terms.iter().map(|points| format!("{} {}", points.term, short(points.points)));
        let terms: Vec<String> = terms.collect();
        line("  points      ", &format!("{} = {}", short(total), terms.join(" + ")));
    }
    if decision.looked_at > 0 {
        line("  looked at   ", &count(decision.looked_at, "candidate"));
    }
    for next in &decision.runners_up {
        let mut said = format!("{} {}", clean(next.candidate.as_str()), short(next.total));
        if !next.vetoes.is_empty() {
            said += &format!(", vetoed by {}", next.vetoes.join(", "));
        } else if let Some(barred) = next.barred {
            said += &format!(", {}", barred.name());
        }
        line("  next best   ", &said);
    }
    for against in &decision.against {
        let said = format!("{}: {} ({})", against.candidates, against.reason.said(), against.reason.name());
        line("  against     ", &said);
    }
    let facts: Vec<String> =
        decision.facts.0.iter().map(|(name, fact)| format!("{name} {}", told(fact))).collect();
    if !facts.is_empty() {
        line("  facts       ", &facts.join(", "));
    }
    if let Some(heard) = decision.heard_ms {
        line("  heard       ", &format!("the node's own figures were {} old", span(heard)));
    }
    text
}

fn told(fact: &Fact) -> String {
    match fact {
        Fact::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Fact::Count(count) => count.to_string(),
        Fact::Number(number) => short(*number),
        Fact::Word(word) => clean(word),
    }
}
