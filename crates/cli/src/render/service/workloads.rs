//! Workloads as a table and as a page.

use landfall_model::Needs;
use serde_json::{Map, Value};

use super::super::style::{DIM, STRONG};
use super::super::table::{Cell, Table};
use super::super::text::{clean, cut, labelled, short};
use super::jobs::needs;
use crate::answer::Page;
use crate::commands::service::workloads::{Listed, One};

pub(crate) fn list(listed: &Listed, _: Page) -> String {
    if listed.workloads.is_empty() {
        return format!("no workloads\n{DIM}landfall workloads set NAME -- COMMAND makes one{DIM:#}\n");
    }
    let mut table = Table::of(&["workload", "needs", ">ready nodes", "best", "runs"]);
    for row in &listed.workloads {
        let workload = &row.workload;
        let found = row.availability.as_ref();
        let command = workload.template.run.command.join(" ");
        table.row(vec![
            Cell::from(&workload.id),
            Cell::from(needs(&fields(&workload.template.needs))),
            found.map(|found| found.ready.to_string()).unwrap_or_default().into(),
            found.and_then(|found| found.best_level.as_deref()).map(clean).unwrap_or_default().into(),
            cut(&clean(&command), 60).into(),
        ]);
    }
    table.render()
}

fn fields(needs: &Needs) -> Map<String, Value> {
    match serde_json::to_value(needs) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

pub(crate) fn one(one: &One, page: Page) -> String {
    let workload = &one.workload;
    let mut text = format!("{STRONG}workload {}{STRONG:#}\n", clean(&workload.id));
    let mut line = |label: &str, content: &str| {
        if !content.is_empty() {
            text += &labelled(&format!("  {label:<14} "), &clean(content), page.text_width());
        }
    };
    line("runs", &workload.template.run.command.join(" "));
    let said = fields(&workload.template.needs);
    line("needs", &needs(&said));
    for (field, value) in &said {
        if !["cpu_milli", "ram_mib", "gpu_count", "vram_mib", "nodes"].contains(&field.as_str()) {
            line(field, value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str());
        }
    }
    if let Some(found) = &one.availability {
        let best = found.best_level.as_ref().map(|level| {
            let score = found.best_score.map(|score| format!(", score {}", short(score))).unwrap_or_default();
            format!("; the best is {level}{score}")
        });
        line("ready nodes", &format!("{}{}", found.ready, best.unwrap_or_default()));
        if let Some(speed) = found.estimated_throughput {
            line("tokens/s", &short(speed));
        }
        let listed = |map: &std::collections::BTreeMap<String, u64>| {
            map.iter().map(|(name, nodes)| format!("{name} {nodes}")).collect::<Vec<_>>().join(", ")
        };
        line("levels", &listed(&found.levels));
        line("refused by", &listed(&found.filtered));
    }
    text
}
