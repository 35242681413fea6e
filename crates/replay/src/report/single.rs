//! The report of one run.

use super::Extract;
use super::bars::{Bar, bars};
use super::curves::curves;
use super::distribution::{Spread, WAIT_CLASSES, grid};
use super::page::{Page, digests, figure};
use super::plot::{Plot, key, line_style};
use super::scale::Axis;
use super::table::{Cell, Table};
use super::text::duration;
use super::timeline::{Level, Timeline, by_frequency};
use crate::measures::{CATALOGUE, Group, Measures, Unit, grouped, with_decimals};

/// The report of one run as one HTML file.
pub fn of_run(run: &Extract) -> String {
    let measures = &run.measures;
    let mut page = Page::new(
        &format!("{} under {}", measures.trace, measures.policy),
        "A recorded workload, replayed in virtual time. Each plot is followed by what it shows and how to read it.",
    );
    page.facts(&facts(measures));
    page.tiles(&tiles(measures));
    let mut plots = Vec::new();
    if let Some(timeline) = &run.timeline {
        plots.extend(over_time(timeline, measures.unit));
    }
    plots.extend(run.waits.as_ref().map(wait_classes));
    plots
        .extend(run.slowdowns.as_ref().map(|found| slowdowns(&[("", found.at_most.clone())], found.largest)));
    plots.extend(curves(&[("", run.curve.as_slice())]));
    if !plots.is_empty() {
        page.section("Plots");
        page.plots(&plots);
    }
    if let Some(timeline) = &run.timeline {
        page.html(&time_table(timeline, measures.unit).folded("Numbers behind the plots over time"));
    }
    if let Some(gantt) = &run.gantt {
        let caption = "One row per node; a block is a job, as long as it held the node. A job on several nodes is one \
                       tall block, or several of the same colour. White is idle time: look for gaps in front of tall \
                       blocks, where nodes were kept free for a wide job.";
        let drawing = figure("Which job held which node", "", &gantt.draw(), caption, "");
        page.whole("Nodes over time", &format!("<div class=\"wide\">{drawing}</div>\n"));
    }
    page.whole("All measures", &all_measures(measures).show());
    reasons(&mut page, measures);
    groups(&mut page, "By tenant", "Tenant", &measures.tenants, true);
    groups(&mut page, "By size of job", &format!("Size ({})", measures.unit), &measures.sizes, false);
    page.finish()
}

fn facts(measures: &Measures) -> Vec<(String, String)> {
    let mut facts =
        vec![("Trace".to_owned(), measures.trace.clone()), ("Policy".to_owned(), measures.policy.clone())];
    facts.extend(measures.seed.map(|seed| ("Seed".to_owned(), seed.to_string())));
    facts.extend(digests(&measures.inputs_sha256, &measures.decisions_sha256));
    facts
}

fn tiles(measures: &Measures) -> Vec<(&'static str, String, String)> {
    let never: u64 = measures.never_started.values().sum();
    let remark = if never > 0 { format!("{} never started", grouped(never as f64)) } else { String::new() };
    let mut tiles = vec![("Jobs", grouped(measures.jobs as f64), remark)];
    if measures.jobs == 0 {
        tiles.clear();
    }
    if let Some(wait) = measures.wait_s {
        tiles.push(("Mean wait", duration(wait.mean), format!("longest {}", duration(wait.max))));
        tiles.push((
            "95 % waited at most",
            duration(wait.p95),
            format!("half at most {}", duration(wait.p50)),
        ));
    }
    if let Some(slowdown) = measures.bounded_slowdown {
        tiles.push((
            "Mean bounded slowdown",
            grouped(slowdown.mean),
            format!("median {}", grouped(slowdown.p50)),
        ));
    }
    let percent = |part: f64| format!("{} %", Unit::Part.show(part));
    if let Some(part) = measures.utilisation {
        tiles.push(("Utilisation", percent(part), format!("of {}", measures.unit)));
    }
    if let Some(part) = measures.gpu_utilisation {
        tiles.push(("Utilisation of GPUs", percent(part), String::new()));
    }
    if let Some(packing) = &measures.packing {
        for (load, value) in packing.allocation.iter().filter(|(load, _)| **load >= 90) {
            let word = match load {
                90 => "GPU allocated at 90 %",
                100 => "GPU allocated at 100 %",
                _ => "GPU allocated at 130 %",
            };
            tiles.push((word, format!("{} %", with_decimals(*value, 2)), String::new()));
        }
    }
    if let Some(makespan) = measures.makespan_s {
        tiles.push(("Makespan", duration(makespan), "first submission to last end".to_owned()));
    }
    tiles
}

const STRETCH: &str = " The run is long: each point is the mean of one of 400 equal stretches of time.";

fn over_time(timeline: &Timeline, unit: &str) -> Vec<String> {
    let stretch = if timeline.exact { "" } else { STRETCH };
    let mut plot = Plot::new(Axis::time(timeline.length_s()), Axis::percent("In use (%)"));
    plot.steps(&line_style(0), &timeline.bounds_s, &timeline.units);
    let mut names = Vec::new();
    if !timeline.gpus.is_empty() {
        plot.steps(&line_style(1), &timeline.bounds_s, &timeline.gpus);
        names = vec![(unit, line_style(0)), ("GPUs", line_style(1))];
    }
    let caption = format!(
        "How much of what was in service was in use. 100 % means no idle {unit}; dips while jobs wait (see the queue) \
         are room that the policy could not fill.{stretch}"
    );
    let names = if names.is_empty() { String::new() } else { key(names.into_iter()) };
    let used = figure("Utilisation over time", &names, &plot.finish("Utilisation over time"), &caption, "");
    let queue = |title: &str, label: &str, levels: &[Level], what: &str| {
        let most = levels.iter().map(|level| level.max).fold(0.0, f64::max);
        let of = |value: fn(&Level) -> f64| levels.iter().map(value).collect::<Vec<f64>>();
        let mut plot = Plot::new(Axis::time(timeline.length_s()), Axis::from_zero(most, label));
        let mut shade = "";
        if !timeline.exact {
            plot.band("band", &timeline.bounds_s, &of(|level| level.min), &of(|level| level.max));
            shade = " The shade reaches from the lowest to the highest value within each stretch.";
        }
        plot.steps(&line_style(0), &timeline.bounds_s, &of(|level| level.mean));
        let caption = format!("{what}{stretch}{shade}");
        figure(title, "", &plot.finish(title), &caption, "")
    };
    let jobs = "Jobs that were ready and waited for their first start. A line that keeps climbing means that more work \
                arrives than can be done.";
    let units = format!(
        "What the waiting jobs asked for, in {unit}. A few wide jobs can make this high while the number of jobs is low."
    );
    vec![
        used,
        queue("Queue: jobs", "Waiting jobs", &timeline.waiting_jobs, jobs),
        queue(&format!("Queue: {unit}"), &format!("Waiting {unit}"), &timeline.waiting_units, &units),
    ]
}

fn time_table(timeline: &Timeline, unit: &str) -> Table {
    let gpus = !timeline.gpus.is_empty();
    let mut head = vec!["From (s)".to_owned(), "Until (s)".to_owned(), format!("{unit} in use (%)")];
    head.extend(gpus.then(|| "GPUs in use (%)".to_owned()));
    head.extend(["Waiting jobs, mean".to_owned(), "lowest".to_owned(), "highest".to_owned()]);
    head.push(format!("Waiting {unit}, mean"));
    let mut table = Table::new(head);
    for (place, used) in timeline.units.iter().enumerate() {
        let (jobs, units) = (timeline.waiting_jobs[place], timeline.waiting_units[place]);
        let mut cells = vec![timeline.bounds_s[place], timeline.bounds_s[place + 1]]
            .into_iter()
            .map(|at| Cell::Number(Unit::Seconds.show(at)))
            .collect::<Vec<_>>();
        cells.push(Cell::Number(with_decimals(*used, 2)));
        cells.extend(timeline.gpus.get(place).map(|used| Cell::Number(with_decimals(*used, 2))));
        cells.push(Cell::Number(with_decimals(jobs.mean, 2)));
        cells.extend([jobs.min, jobs.max].map(|value| Cell::Number(grouped(value))));
        cells.push(Cell::Number(with_decimals(units.mean, 1)));
        table.row(cells);
    }
    table
}

fn wait_classes(waits: &Spread) -> String {
    let all: u64 = waits.classes.iter().sum();
    let last = waits.classes.iter().rposition(|count| *count > 0).unwrap_or(0);
    let rows: Vec<Bar> = WAIT_CLASSES
        .iter()
        .zip(&waits.classes)
        .take(last + 1)
        .map(|((_, name), count)| {
            let value = 100.0 * *count as f64 / all.max(1) as f64;
            Bar {
                name: (*name).to_owned(),
                value,
                spread: None,
                text: format!("{} %", with_decimals(value, 1)),
            }
        })
        .collect();
    let most = rows.iter().map(|row| row.value).fold(0.0, f64::max);
    let whole = [25.0, 50.0, 100.0].into_iter().find(|end| *end >= most);
    let (drawing, _) = bars(&rows, "Jobs (%)", whole);
    let mut table = Table::new(["Wait", "Jobs"]);
    for ((_, name), count) in WAIT_CLASSES.iter().zip(&waits.classes) {
        table.row([Cell::Words((*name).to_owned()), Cell::Number(grouped(*count as f64))]);
    }
    let caption = "How long jobs waited from being ready to their first start. The steps grow from top to bottom, so that \
                   seconds and days fit one picture: the more is in the upper rows, the better.";
    figure("Waits", "", &drawing, caption, &table.folded("Numbers behind this plot"))
}

/// Bounded slowdowns of one or several policies.
pub(super) fn slowdowns(lines: &[(&str, Vec<f64>)], largest: f64) -> String {
    let caption = "How many times longer than its own run a job took in all; 1 means it never waited. For each slowdown \
                   on the lower axis, the line tells how many jobs of 100 had at most that one. Higher and further left \
                   is better. Runs under 10 s count as 10 s.";
    let axis = Axis::powers(largest, "Bounded slowdown (times, in powers of ten)");
    shares("Bounded slowdown", axis, lines, caption, "Slowdown at most", grouped)
}

/// Waits of several policies.
pub(super) fn waits(lines: &[(&str, Vec<f64>)], longest: f64) -> String {
    let caption = "For each wait on the lower axis, the line tells how many jobs of 100 waited at most so long. Higher is \
                   better: where one line is above another, its policy let more jobs start within that time. Waits under \
                   a second stand at the left edge.";
    let axis = Axis::spans(longest, "Wait (in powers of ten)");
    shares("Waits", axis, lines, caption, "Wait at most", duration)
}

fn shares(
    title: &str,
    axis: Axis,
    lines: &[(&str, Vec<f64>)],
    caption: &str,
    first: &str,
    show: fn(f64) -> String,
) -> String {
    let grid = grid();
    let end = grid.iter().position(|value| *value > axis.end()).unwrap_or(grid.len());
    let mut plot = Plot::new(axis, Axis::percent("Jobs at or below (%)"));
    for (place, (_, parts)) in lines.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            grid.iter().zip(parts).take(end).map(|(x, part)| (*x, 100.0 * part)).collect();
        plot.line(&line_style(place), &points);
    }
    let names = match lines {
        [_] => String::new(),
        _ => key(lines.iter().enumerate().map(|(place, (name, _))| (*name, line_style(place)))),
    };
    let heads = lines
        .iter()
        .map(|(name, _)| if name.is_empty() { "Jobs (%)".to_owned() } else { format!("{name} (%)") });
    let mut table = Table::new(std::iter::once(first.to_owned()).chain(heads));
    // Every fifth point: eight to a power of ten are enough to read.
    for place in (0..end.next_multiple_of(5).min(grid.len())).step_by(5) {
        let cells = lines.iter().map(|(_, parts)| Cell::Number(with_decimals(100.0 * parts[place], 2)));
        table.row(std::iter::once(Cell::Words(show(grid[place]))).chain(cells));
    }
    figure(title, &names, &plot.finish(title), caption, &table.folded("Numbers behind this plot"))
}

fn all_measures(measures: &Measures) -> Table {
    let mut table = Table::new(["Measure", "Value", ""]);
    for measure in &CATALOGUE {
        let Some(value) = measure.of(measures) else { continue };
        let text = format!("{} {}", measure.unit.show(value), measure.unit.sign());
        let remark = match measure.unit {
            Unit::Seconds if value >= 60.0 => duration(value),
            _ if measure.key == "share_deviation" => {
                measures.share_deviation.as_ref().map(|found| found.tenant.clone()).unwrap_or_default()
            }
            _ => String::new(),
        };
        let words = Cell::Words(measure.title.to_owned());
        table.row([words, Cell::Number(text.trim_end().to_owned()), Cell::Words(remark)]);
    }
    table
}

fn reasons(page: &mut Page, measures: &Measures) {
    for (title, counts) in [
        ("Jobs that never started", &measures.never_started),
        ("Jobs that failed", &measures.failed),
        ("Reservations that moved later", &measures.counts.moved),
    ] {
        let mut table = Table::new(["Reason", "Count"]);
        for (reason, count) in by_frequency(counts) {
            table.row([Cell::Words(reason.to_owned()), Cell::Number(grouped(count as f64))]);
        }
        if !table.is_empty() {
            page.whole(title, &table.fold("All reasons"));
        }
    }
}

fn groups(page: &mut Page, title: &str, first: &str, groups: &[Group], shares: bool) {
    if groups.is_empty() {
        return;
    }
    let mut head =
        vec![first, "Jobs", "Started", "Mean wait", "Median wait", "95th percentile", "Longest wait"];
    head.extend(["Mean slowdown", "95th percentile", "Part of all (%)"]);
    let shares = shares && groups.iter().any(|group| group.share.is_some());
    head.extend(shares.then_some("Share (%)"));
    let mut table = Table::new(head);
    let number = |value: Option<String>| value.map_or(Cell::Empty, Cell::Number);
    for group in groups {
        let (wait, slowdown) = (group.wait_s, group.bounded_slowdown);
        let mut row = vec![Cell::Words(group.name.clone())];
        row.extend([group.jobs, group.started].map(|count| Cell::Number(grouped(count as f64))));
        row.extend([
            number(wait.map(|wait| duration(wait.mean))),
            number(wait.map(|wait| duration(wait.p50))),
            number(wait.map(|wait| duration(wait.p95))),
            number(wait.map(|wait| duration(wait.max))),
            number(slowdown.map(|slowdown| grouped(slowdown.mean))),
            number(slowdown.map(|slowdown| grouped(slowdown.p95))),
            number(group.part.map(|part| Unit::Part.show(part))),
        ]);
        if shares {
            row.push(number(group.share.map(|share| Unit::Part.show(share))));
        }
        table.row(row);
    }
    page.whole(title, &table.fold(&format!("All {}", grouped(groups.len() as f64))));
}
