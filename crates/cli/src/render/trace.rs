//! What is in a trace, and what was written, as pages.

use std::collections::BTreeMap;

use landfall_model::Millis;
use landfall_replay::trace::own::Contents;
use landfall_replay::trace::summary::{Spread, Summary};

use super::style::GOOD;
use super::table::{Column, Table};
use super::text::{clean, count, number};
use crate::commands::trace::{Info, Written};

pub(crate) fn info(info: &Info) -> String {
    let mut text = format!("{GOOD}{}{GOOD:#}: {}\n", clean(&info.file), info.kind);
    let mut facts: Vec<(&str, String)> = vec![("records", info.records.to_string())];
    if let Some(capacity) = info.capacity {
        facts.push(("machine", format!("{capacity} {}", info.unit)));
    }
    if info.nodes > 0 {
        facts.push(("nodes", info.nodes.to_string()));
    }
    if info.changes > 0 {
        facts.push(("changes of nodes", info.changes.to_string()));
    }
    if let Some(contents) = &info.contents {
        of_contents(contents, &mut facts);
    }
    if let Some(jobs) = &info.jobs {
        of_jobs(jobs, info, &mut facts);
    }
    facts.push(("sha256", info.sha256.clone()));
    text += &table(&facts);
    if let Some(contents) = &info.contents {
        text += &pools(contents);
    }
    if let Some(jobs) = &info.jobs {
        text += &sizes(jobs, info.unit);
    }
    text += &reasons("left out by a replay", &info.dropped, "jobs");
    text += &reasons("bad lines", &info.bad_lines, "jobs");
    text
}

fn of_contents(contents: &Contents, facts: &mut Vec<(&'static str, String)>) {
    let counts = [
        ("tenants", contents.tenants),
        ("blocks", contents.blocks),
        ("groups", contents.groups),
        ("fingerprints", contents.fingerprints),
        ("joins of nodes", contents.joins),
        ("new facts of nodes", contents.facts),
        ("arrays", contents.arrays),
        ("elements of arrays", contents.elements),
        ("jobs that wait for others", contents.dependencies),
        ("orders about jobs", contents.orders),
        ("cycles", contents.cycles),
    ];
    facts.extend(counts.into_iter().filter(|(_, n)| *n > 0).map(|(what, n)| (what, n.to_string())));
}

/// The pools of a trace; nothing where it has none.
fn pools(contents: &Contents) -> String {
    if contents.pools.is_empty() {
        return String::new();
    }
    let columns = ["pool", "dispatch", "policy"].map(Column::left).into_iter();
    let mut table = Table::new(columns.chain(["nodes", "jobs"].map(Column::right)).collect()).indent(2);
    for pool in &contents.pools {
        let dispatch = serde_json::to_value(pool.dispatch).unwrap_or_default();
        let own = if pool.policy_file { " (its own file)" } else { "" };
        table.row(vec![
            clean(pool.id.as_str()).into(),
            dispatch.as_str().unwrap_or_default().into(),
            format!("{}{own}", clean(&pool.policy)).into(),
            pool.nodes.to_string().into(),
            pool.jobs.to_string().into(),
        ]);
    }
    format!("\n{}", table.render())
}

fn of_jobs(jobs: &Summary, info: &Info, facts: &mut Vec<(&'static str, String)>) {
    facts.push(("jobs kept", jobs.jobs.to_string()));
    if let (Some(first), Some(span)) = (jobs.first_submit_s, jobs.span_s) {
        facts.push(("first submission", format!("{} s", number(first))));
        facts.push(("submitted within", time(span)));
    }
    facts.push((
        "work",
        format!("{} {}-hours", number(round(jobs.work_hours, 1.0)), info.unit.trim_end_matches('s')),
    ));
    if let Some(load) = jobs.load {
        facts.push(("load", number(round(load, 1e4))));
    }
    if let Some(width) = jobs.width {
        facts.push((info.unit, spread(width, |value| number(round(value, 1e2)))));
    }
    if let Some(run) = jobs.run_s {
        facts.push(("run time", spread(run, time)));
    }
    let known = match info.estimates_defaulted {
        0 => format!("known for {} of {}", jobs.estimates_known, jobs.jobs),
        _ => "none known; the run time stands in".to_owned(),
    };
    facts.push(("estimates", known));
    if let Some(used) = jobs.estimate_used {
        facts.push((
            "estimate used",
            spread(used, |value| format!("{} %", number(round(value * 100.0, 10.0)))),
        ));
    }
    if info.runs_cut > 0 {
        facts.push(("ran past estimate", count(info.runs_cut, "job")));
    }
    if jobs.users > 0 {
        let busiest = jobs.busiest_user.map_or(String::new(), |share| {
            format!(", the busiest with {} % of the jobs", number(round(share * 100.0, 10.0)))
        });
        facts.push(("users", format!("{}{busiest}", jobs.users)));
    }
}

/// The page of `trace convert` and `trace generate`.
pub(crate) fn written(written: &Written) -> String {
    let mut text = format!("{GOOD}wrote{GOOD:#} {}: {}", clean(&written.file), count(written.jobs, "job"));
    if written.nodes > 0 {
        text += &format!(", {}", count(written.nodes, "node"));
    }
    text += &format!(" ({})\n", written.kind);
    if written.estimates_defaulted > 0 {
        let jobs = count(written.estimates_defaulted, "job");
        text += &format!("  {jobs} without estimate: the run time stands in\n");
    }
    text += &reasons("left out", &written.dropped, "jobs");
    text += &reasons("not in the trace, or not as it was", &written.left_out, "times");
    text
}

fn table(facts: &[(&str, String)]) -> String {
    let mut table = Table::of(&["", ""]).indent(2);
    for (what, value) in facts {
        table.row(vec![(*what).into(), value.as_str().into()]);
    }
    // The titles are empty: these are facts, not rows.
    table.render().trim_start_matches('\n').to_owned()
}

fn sizes(jobs: &Summary, unit: &str) -> String {
    if jobs.sizes.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new(vec![Column::right(unit), Column::right("jobs"), Column::right("%")]).indent(2);
    for class in &jobs.sizes {
        let range = if class.from == class.to {
            class.to.to_string()
        } else {
            format!("{}-{}", class.from, class.to)
        };
        let share = 100.0 * class.jobs as f64 / jobs.jobs.max(1) as f64;
        table.row(vec![range.into(), class.jobs.to_string().into(), format!("{share:.1}").into()]);
    }
    format!("\n{}", table.render())
}

fn reasons(title: &str, counts: &BTreeMap<String, u64>, unit: &str) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![Column::left(title), Column::right(unit)]).indent(2);
    for (reason, count) in counts {
        table.row(vec![reason.as_str().into(), count.to_string().into()]);
    }
    format!("\n{}", table.render())
}

fn spread(spread: Spread, show: impl Fn(f64) -> String) -> String {
    let Spread { mean, p50, p95, max } = spread;
    format!("median {}, mean {}, p95 {}, largest {}", show(p50), show(mean), show(p95), show(max))
}

fn time(seconds: f64) -> String {
    Millis::secs(seconds.max(0.0).round() as u64).to_string()
}

fn round(value: f64, factor: f64) -> f64 {
    (value * factor).round() / factor
}
