//! Jobs and arrays as tables and pages.

use anstyle::Style;
use landfall_api::job::{ArrayView, JobView, RunSpec};
use landfall_model::{Indices, Time};
use serde_json::{Map, Value};

use super::super::clock::{ago, cores, date, mib, span};
use super::super::codes;
use super::super::standing::start;
use super::super::style::{BAD, DIM, GOOD, PLAIN, STRONG, WARN};
use super::super::table::{Cell, Table};
use super::super::text::{clean, count, cut, labelled};
use super::super::words::ranges;
use crate::answer::Page;
use crate::commands::service::jobs::{Listed, One, OneArray};
use landfall_model::answer::Estimate;

pub(crate) fn list(listed: &Listed, _: Page) -> String {
    if listed.jobs.is_empty() && listed.arrays.is_empty() {
        return "no jobs\n".into();
    }
    // Where nobody has a tenant there is nothing to tell apart.
    let tenants = listed.jobs.iter().any(|job| job.tenant.is_some())
        || listed.arrays.iter().any(|array| array.tenant.is_some());
    let mut names = vec![">job", "name", "state", "pool", "needs", ">age", ">ran", "where, or why it waits"];
    if tenants {
        names.insert(4, "tenant");
    }
    let mut table = Table::of(&names);
    enum Row<'a> {
        Job(&'a JobView),
        Array(&'a ArrayView),
    }
    let jobs = listed.jobs.iter().map(|job| (job.submitted_at_ms, Row::Job(job)));
    let arrays = listed.arrays.iter().map(|array| (array.submitted_at_ms, Row::Array(array)));
    let mut rows: Vec<(u64, Row<'_>)> = jobs.chain(arrays).collect();
    rows.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (_, row) in rows {
        let (mut cells, tenant) = match row {
            Row::Job(job) => (job_row(job, listed.now_ms), &job.tenant),
            Row::Array(array) => (array_row(array, listed.now_ms), &array.tenant),
        };
        if tenants {
            cells.insert(4, Cell::from(tenant.as_deref().unwrap_or_default()));
        }
        table.row(cells);
    }
    let mut text = table.render();
    if listed.more {
        text += &format!("{DIM}… and more: --limit shows them{DIM:#}\n");
    }
    text
}

fn job_row(job: &JobView, now_ms: u64) -> Vec<Cell> {
    vec![
        Cell::from(&job.id),
        cut(&clean(&title(job)), 24).into(),
        Cell::styled(&job.state, colour(&job.state)),
        Cell::from(&job.pool),
        Cell::from(needs(&job.needs)),
        age(job.submitted_at_ms, now_ms).into(),
        ran(job, now_ms).into(),
        Cell::from(standing(job)),
    ]
}

fn array_row(array: &ArrayView, now_ms: u64) -> Vec<Cell> {
    let state = match array {
        _ if array.is_over() => "ended",
        _ if array.open => "open",
        _ => "live",
    };
    let mut counts = Vec::new();
    for (number, word) in [
        (array.pending, "waiting"),
        (array.running, "running"),
        (array.completed, "completed"),
        (array.failed, "failed"),
        (array.cancelled, "cancelled"),
    ] {
        if number > 0 {
            counts.push(format!("{number} {word}"));
        }
    }
    vec![
        Cell::from(&array.id),
        cut(&clean(&array.name.clone().unwrap_or_else(|| array.command.join(" "))), 24).into(),
        Cell::styled(state, if array.failed > 0 { BAD } else { PLAIN }),
        Cell::from(&array.pool),
        format!("array of {}", array.total).into(),
        age(array.submitted_at_ms, now_ms).into(),
        "".into(),
        match &array.why {
            Some(why) => Cell::from(format!("{}: {why}", counts.join(", "))),
            None => counts.join(", ").into(),
        },
    ]
}

/// What a job is called: its name, else what it runs.
pub(crate) fn title(job: &JobView) -> String {
    job.name.clone().unwrap_or_else(|| what_runs(&job.run))
}

fn what_runs(run: &RunSpec) -> String {
    let first = run.image.as_ref().or(run.module.as_ref()).or(run.model.as_ref());
    let words = first.into_iter().chain(&run.command);
    words.map(String::as_str).collect::<Vec<_>>().join(" ")
}

pub(crate) fn colour(state: &str) -> Style {
    match state {
        "running" | "completed" | "ready" => GOOD,
        "failed" | "down" => BAD,
        "pending" | "suspended" | "stopping" | "checkpointing" | "degraded" | "unknown" | "draining" => WARN,
        _ => PLAIN,
    }
}

fn age(at_ms: u64, now_ms: u64) -> String {
    span(now_ms.saturating_sub(at_ms).max(1000) / 1000 * 1000)
}

fn ran(job: &JobView, now_ms: u64) -> String {
    let end = job.ended_at_ms.unwrap_or(now_ms);
    job.started_at_ms.map(|at| span(ran_ms(job, end.saturating_sub(at)))).unwrap_or_default()
}

/// How long it ran: as its node says where it ran once, for an end may be told late.
fn ran_ms(job: &JobView, seen: u64) -> u64 {
    let told =
        job.usage.and_then(|usage| usage.wall_ms).filter(|_| job.attempt == 1 && job.ended_at_ms.is_some());
    told.map_or(seen, |told| told.min(seen))
}

/// Where it is or was, how it ended, or why it waits.
pub(crate) fn standing(job: &JobView) -> String {
    let on: Vec<String> = job
        .nodes
        .iter()
        .map(|at| {
            let gpus = match at.gpus.is_empty() {
                true => String::new(),
                false => format!(" gpu {}", ranges(&at.gpus)),
            };
            let cpus = at.cpus.as_ref().map(|cpus| format!(" cpu {cpus}")).unwrap_or_default();
            format!("{}{gpus}{cpus}", at.node)
        })
        .collect();
    let on = match on.len() {
        0..=3 => on.join(", "),
        more => format!("{} and {} more", on[..2].join(", "), more - 2),
    };
    let how = match (job.state.as_str(), job.exit_code, &job.reason) {
        ("completed", ..) => String::new(),
        (_, Some(code), _) => format!("exit code {code}"),
        (_, None, Some(reason)) => job.why.clone().unwrap_or_else(|| codes::reason(reason)),
        (_, None, None) if job.held => "held back".into(),
        _ => String::new(),
    };
    match (on.is_empty(), how.is_empty()) {
        (true, _) => how,
        (_, true) => on,
        _ => format!("{on}: {how}"),
    }
}

/// What a job asks for, in a few words.
pub(crate) fn needs(needs: &Map<String, Value>) -> String {
    let number = |field: &str| needs.get(field).and_then(Value::as_u64).filter(|amount| *amount > 0);
    let mut words = Vec::new();
    match needs.get("nodes") {
        Some(Value::Number(nodes)) if nodes.as_u64() != Some(1) => words.push(format!("{nodes} nodes")),
        Some(Value::Object(range)) => {
            let (min, max) =
                (range.get("min").and_then(Value::as_u64), range.get("max").and_then(Value::as_u64));
            match (min.unwrap_or(1), max.or(min).unwrap_or(1)) {
                (1, 1) => {}
                (min, max) if min == max => words.push(format!("{min} nodes")),
                (min, max) => words.push(format!("{min}-{max} nodes")),
            }
        }
        _ => {}
    }
    words.extend(number("cpu_milli").map(|amount| format!("{} cpu", cores(amount))));
    words.extend(number("ram_mib").map(mib));
    if let Some(gpus) = number("gpu_count") {
        let memory = number("vram_mib").map(|amount| format!(" of {}", mib(amount))).unwrap_or_default();
        let share = number("gpu_milli").filter(|share| *share < 1000);
        words.push(match share {
            Some(share) => format!("{} gpu{memory}", cores(share)),
            None => format!("{gpus} gpu{memory}"),
        });
    }
    words.join(", ")
}

pub(crate) fn one(one: &One, page: Page) -> String {
    let (job, now) = (&one.job, one.now_ms);
    let style = colour(&job.state);
    let mut text = format!(
        "{STRONG}job {}{STRONG:#}  {}  {style}{}{style:#}\n",
        clean(&job.id),
        clean(job.name.as_deref().unwrap_or_default()),
        clean(&job.state)
    );
    let mut line = |label: &str, content: &str| {
        if !content.is_empty() {
            text += &labelled(&format!("  {label:<11} "), &clean(content), page.text_width());
        }
    };
    line("runs", &what_runs(&job.run));
    line("in", job.run.cwd.as_deref().unwrap_or_default());
    let files: Vec<&str> =
        [&job.run.stdout, &job.run.stderr].into_iter().flatten().map(String::as_str).collect();
    line("writes to", &files.join(", "));
    line("needs", &needs(&job.needs));
    let owner = job.tenant.as_ref().map(|id| format!(", tenant {id}")).unwrap_or_default();
    let by = job.submitter.as_ref().map(|name| format!(", by {name}")).unwrap_or_default();
    line("pool", &format!("{}{owner}{by}", job.pool));
    if let Some(element) = &job.array {
        line("array", &format!("element {} of {}", element.index, element.id));
        line("entry", element.entry.as_deref().unwrap_or_default());
    }
    if let Some(dag) = &job.dag {
        let key = dag.key.as_ref().map(|key| format!(", called {key}")).unwrap_or_default();
        line("dag", &format!("{}{key}", dag.id));
    }
    let at = |at_ms: u64| format!("{} ({})", date(at_ms), ago(at_ms, now));
    line("submitted", &at(job.submitted_at_ms));
    line("started", &job.started_at_ms.map(at).unwrap_or_default());
    if let Some(ended) = job.ended_at_ms {
        let ran = job.started_at_ms.map(|start| span(ran_ms(job, ended.saturating_sub(start))));
        let ran = ran.map(|ran| format!(", after {ran}"));
        line("ended", &format!("{}{}", at(ended), ran.unwrap_or_default()));
    }
    let on = standing(&JobView { reason: None, exit_code: None, held: false, ..job.clone() });
    line("on", &on);
    if job.attempt > 1 {
        line("attempt", &job.attempt.to_string());
    }
    line("price", &job.price.map(|price| price.to_string()).unwrap_or_default());
    line("files", job.files.as_deref().unwrap_or_default());
    line("note", job.note.as_deref().unwrap_or_default());
    line("exit code", &job.exit_code.map(|code| code.to_string()).unwrap_or_default());
    // That it exited is what the code says.
    let reason = job.reason.as_deref().filter(|reason| *reason != "exit");
    let why = job.why.clone().or_else(|| reason.map(codes::reason));
    line("why", &why.unwrap_or_default());
    line("waits for", job.waits_for.as_deref().unwrap_or_default());
    if job.held {
        line("held", &format!("`landfall release {}` lets it start", job.id));
    }
    if let Some(usage) = &job.usage {
        let mut words = Vec::new();
        words.extend(usage.cpu_time_ms.map(|ms| format!("{} of CPU", span(ms))));
        words.extend(usage.peak_ram_mib.map(|amount| format!("{} of memory at most", mib(amount))));
        words.extend(
            usage
                .disk_bytes
                .filter(|bytes| *bytes >> 20 > 0)
                .map(|bytes| format!("{} of disk traffic", mib(bytes >> 20))),
        );
        let network = usage.network_bytes_s.filter(|bytes| *bytes >> 20 > 0);
        words.extend(network.map(|bytes| format!("{}/s over the network at most", mib(bytes >> 20))));
        words.extend(usage.oom.then(|| "killed for memory".to_owned()));
        line("used", &words.join(", "));
    }
    let estimate: Option<Estimate> =
        one.estimate.clone().and_then(|value| serde_json::from_value(value).ok());
    if let Some(estimate) = estimate {
        let now = Time::from_millis(i64::try_from(now).unwrap_or(i64::MAX));
        line("starts", &start(&estimate, now));
    }
    if matches!(job.state.as_str(), "pending" | "suspended") {
        text += &format!("{DIM}landfall explain {} says more{DIM:#}\n", clean(&job.id));
    }
    text
}

/// Most characters of a list of indices that are shown.
const LIST_SHOWN: usize = 200;

fn indices(of: &Indices) -> String {
    if of.list.is_some() {
        return cut(&of.to_string(), LIST_SHOWN);
    }
    let step = if of.step == 1 { String::new() } else { format!(" by {}", of.step) };
    format!("{} to {}{step}", of.first, of.last)
}

pub(crate) fn array(one: &OneArray, page: Page) -> String {
    let array = &one.array;
    let mut text = format!(
        "{STRONG}array {}{STRONG:#}  {}  {}\n",
        clean(&array.id),
        clean(array.name.as_deref().unwrap_or_default()),
        count(array.total, "job")
    );
    let command = array.command.join(" ");
    let mut line = |label: &str, content: String| {
        text += &labelled(&format!("  {label:<11} "), &clean(&content), page.text_width());
    };
    if !command.is_empty() {
        line("runs", command);
    }
    line("indices", indices(&array.range));
    if array.open {
        line(
            "open",
            format!(
                "`landfall arrays add {}` adds elements, `landfall arrays close {}` ends that",
                array.id, array.id
            ),
        );
    }
    let owner = array.tenant.as_ref().map(|id| format!(", tenant {id}")).unwrap_or_default();
    line("pool", format!("{}{owner}", array.pool));
    line(
        "submitted",
        format!("{} ({})", date(array.submitted_at_ms), ago(array.submitted_at_ms, one.now_ms)),
    );
    for (label, number) in [
        ("waiting", array.pending),
        ("running", array.running),
        ("completed", array.completed),
        ("failed", array.failed),
        ("cancelled", array.cancelled),
    ] {
        if number > 0 {
            line(label, number.to_string());
        }
    }
    if let Some(why) = &array.why {
        line("why", why.clone());
    }
    text += &format!("{DIM}landfall jobs --array {} lists its elements{DIM:#}\n", clean(&array.id));
    text
}
