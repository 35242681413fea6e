//! Decisions as a table.

use super::super::clock::{ago, date};
use super::super::style::DIM;
use super::super::table::{Cell, Table};
use super::super::text::{clean, cut, short};
use crate::answer::Page;
use crate::commands::service::decisions::Listed;

pub(crate) fn list(listed: &Listed, _: Page) -> String {
    if listed.decisions.is_empty() {
        return "no decisions\n".to_owned();
    }
    let mut table = Table::of(&["when", "", "job", "kind", "nodes", ">total", "runner-up"]);
    for decision in &listed.decisions {
        let nodes: Vec<&str> = decision.nodes.iter().map(|granted| granted.node.as_str()).collect();
        table.row(vec![
            date(decision.at_ms).into(),
            Cell::styled(ago(decision.at_ms, listed.now_ms), DIM),
            cut(&clean(&decision.job), 32).into(),
            Cell::from(&decision.kind),
            cut(&clean(&nodes.join(", ")), 48).into(),
            decision.total.map(short).unwrap_or_default().into(),
            Cell::from(decision.runner_up.as_deref().unwrap_or_default()),
        ]);
    }
    table.render()
}
