//! Why a job of a running server is where it is, and what stands between it and a node.

use landfall_api::answer::Granted;
use landfall_model::answer::{OnNode, WhyNot};
use landfall_model::life::Phase;
use landfall_model::{NodeId, PoolId};

use super::super::explain::{may_not, refused, scored};
use super::super::standing::{nodes, points, section};
use super::super::style::{BAD, GOOD};
use super::super::text::{clean, labelled, word};
use crate::answer::Page;
use crate::commands::service::explain::{Explained, ExplainedNode};

pub(crate) fn job(explained: &Explained, page: Page) -> String {
    let mut text = format!(
        "job {} {}",
        clean(&explained.job),
        section(&explained.explanation, explained.estimate.as_ref(), page)
    );
    if let Some(decision) = explained.decision.as_ref().filter(|_| explained.explanation.ended.is_none()) {
        text += "\nlast decision about it\n";
        text += &super::decisions::one(decision, page);
    } else if let Some(decision) = &explained.decision {
        let mut line =
            |label: &str, content: &str| text += &labelled(label, &clean(content), page.text_width());
        let on = |at: &Granted| {
            Some(OnNode {
                node: NodeId::new(&at.node).ok()?,
                phase: Phase::Ended,
                gpus: at.gpus.clone(),
                lender: at.lender.as_deref().and_then(|pool| PoolId::new(pool).ok()),
            })
        };
        line("  was on      ", &nodes(&decision.nodes.iter().filter_map(on).collect::<Vec<_>>()));
        if let Some(total) = decision.total {
            line("  points      ", &points(total, &decision.terms));
        }
        if let Some(runner_up) = &decision.runner_up {
            line("  next best   ", runner_up);
        }
        if !decision.against.is_empty() {
            line("  against     ", &super::decisions::against(&decision.against));
        }
    }
    if let Some(placement) = &explained.placement {
        text += &super::peers::placement(placement);
    }
    text
}

pub(crate) fn node(explained: &ExplainedNode, page: Page) -> String {
    let found = &explained.why_not;
    let (job, node) = (clean(found.job.as_str()), clean(found.node.as_str()));
    let mut text = if found.placed_here {
        format!("{GOOD}placed{GOOD:#}: job {job} is on node {node}\n")
    } else if !found.verdict.is_admitted() {
        refused(&found.verdict, None, page)
    } else if !found.ledger.is_empty() {
        format!(
            "{BAD}not now{BAD:#}: the policy admits job {job} on node {node}, and the ledger would refuse it\n"
        )
    } else {
        format!("{GOOD}admitted{GOOD:#}: job {job} may run on node {node}\n")
    };
    text += &around(found, page);
    if found.verdict.total.is_some() {
        text.push('\n');
        text += &may_not(&found.verdict, page);
        text += &scored(&found.verdict, page);
    }
    text
}

/// What else is to be known about the node.
fn around(found: &WhyNot, page: Page) -> String {
    let mut text = String::from("\n");
    let mut line = |label: &str, content: &str| text += &labelled(label, &clean(content), page.text_width());
    line("  node        ", &word(found.node_state));
    if !found.ledger.is_empty() && !found.placed_here {
        let said: Vec<_> = found.ledger.iter().map(|reason| reason.by_ledger().said()).collect();
        line("  ledger      ", &said.join("; "));
    }
    if !found.occupants.is_empty() {
        let jobs: Vec<&str> = found.occupants.iter().map(landfall_model::JobId::as_str).collect();
        line("  runs        ", &jobs.join(", "));
    }
    if let Some(job) = &found.kept_for {
        line("  kept for    ", job.as_str());
    }
    text
}
