//! The report of a comparison: the same traces under several policies.

use super::Extract;
use super::bars::{Bar, bars};
use super::curves::{curves, mean_curves};
use super::page::{Page, digests, figure};
use super::plot::{Plot, key, line_style};
use super::scale::Axis;
use super::single;
use super::table::{Cell, Table};
use super::text::duration;
use super::timeline::Timeline;
use crate::measures::{
    Better, Cell as Value, CompareError, Comparison, Measures, Row, Unit, Verdict, with_decimals,
};

/// Measures that are drawn as bars.
const DRAWN: [&str; 13] = [
    "mean_bounded_slowdown",
    "p95_bounded_slowdown",
    "mean_wait_s",
    "p95_wait_s",
    "max_wait_s",
    "utilisation",
    "gpu_utilisation",
    "qos_compliance",
    "jain_index",
    "allocation_percent_at_90",
    "allocation_percent_at_100",
    "fragmentation_ratio_percent_at_80",
    "fragmentation_percent_at_100",
];

/// The report of several runs as one HTML file: one part per trace, each policy against the baseline (the first policy
/// if none is named), means and spreads over seeds.
pub fn of_comparison(runs: &[Extract], baseline: Option<&str>) -> Result<String, CompareError> {
    let measures: Vec<Measures> = runs.iter().map(|run| run.measures.clone()).collect();
    let traces = Comparison::by_trace(&measures, baseline)?;
    let title = match traces.as_slice() {
        [one] => format!("{} policies on {}", one.policies.len(), one.trace),
        many => format!("Policies on {} traces", many.len()),
    };
    let mut page = Page::new(
        &title,
        "The same workload, replayed in virtual time under several policies. Each plot is followed by what it shows and \
         how to read it.",
    );
    if traces.len() > 1 {
        overview(&mut page, &traces);
    }
    for trace in &traces {
        let own: Vec<&Extract> = runs.iter().filter(|run| run.measures.trace == trace.trace).collect();
        part(&mut page, trace, &own);
    }
    Ok(page.finish())
}

/// Runs of each policy, in the order of the comparison.
fn by_policy<'a>(comparison: &'a Comparison, runs: &[&'a Extract]) -> Vec<(&'a str, Vec<&'a Extract>)> {
    let of = |policy: &str| runs.iter().copied().filter(|run| run.measures.policy == policy).collect();
    comparison.policies.iter().map(|runs| (runs.policy.as_str(), of(&runs.policy))).collect()
}

fn part(page: &mut Page, comparison: &Comparison, runs: &[&Extract]) {
    let policies = by_policy(comparison, runs);
    page.section(&comparison.trace);
    let seeds = comparison.policies.iter().map(|policy| policy.seeds.len()).max().unwrap_or(0);
    let mut facts = vec![
        ("Baseline".to_owned(), comparison.baseline.clone()),
        ("Runs".to_owned(), runs_in_words(comparison)),
    ];
    // Inputs are the same for all runs of a trace, except what depends on the seed; those are in the table below.
    if let Some(first) = runs.first() {
        facts.extend(digests(&first.measures.inputs_sha256, ""));
    }
    page.facts(&facts);
    page.html(&measures_table(comparison, true).show());
    if seeds > 1 {
        page.paragraph(
            "Values are means over seeds, ± their standard deviation. A difference in brackets varies from seed to seed \
             by more than its own size: chance alone could have made it.",
        );
    }
    let mut plots: Vec<String> = frontier(comparison).into_iter().collect();
    plots.extend(DRAWN.iter().filter_map(|key| bar_plot(comparison, comparison.row(key)?)));
    plots.extend(distributions(&policies));
    plots.extend(over_time(&policies));
    plots.extend(curves(
        &mean_curves(&policies).iter().map(|(name, curve)| (*name, curve.as_slice())).collect::<Vec<_>>(),
    ));
    page.plots(&plots);
    page.html(&measures_table(comparison, false).folded("All measures"));
    page.html(&runs_table(runs).folded("All runs, with digests of their inputs and decisions"));
}

fn runs_in_words(comparison: &Comparison) -> String {
    let runs: Vec<usize> = comparison.policies.iter().map(|policy| policy.seeds.len()).collect();
    let (least, most) = (runs.iter().min().copied().unwrap_or(0), runs.iter().max().copied().unwrap_or(0));
    match (least, most) {
        (1, 1) => format!("{} policies, one run each", runs.len()),
        (least, most) if least == most => format!("{} policies, {most} seeds each", runs.len()),
        (least, most) => format!("{} policies, {least} to {most} seeds each", runs.len()),
    }
}

/// One measure of every trace and policy, so that a reader sees at once whether a policy is good everywhere.
fn overview(page: &mut Page, traces: &[Comparison]) {
    let keys = ["mean_bounded_slowdown", "allocation_percent_at_100"];
    for key in keys {
        let mut policies: Vec<&str> = Vec::new();
        for policy in traces.iter().filter(|trace| trace.row(key).is_some()).flat_map(|trace| &trace.policies)
        {
            if !policies.contains(&policy.policy.as_str()) {
                policies.push(&policy.policy);
            }
        }
        let mut table = Table::new(std::iter::once("Trace").chain(policies.iter().copied()));
        let mut title = "";
        for trace in traces {
            let Some(row) = trace.row(key) else { continue };
            title = row.measure.title;
            let cells = policies.iter().map(|name| {
                let place = trace.policies.iter().position(|policy| policy.policy == *name);
                place.and_then(|place| row.cells[place]).map_or(Cell::Empty, |value| judged(row, &value))
            });
            table.row(std::iter::once(Cell::Words(trace.trace.clone())).chain(cells));
        }
        if !table.is_empty() {
            page.whole(&format!("All traces: {title}"), &table.show());
        }
    }
}

fn measures_table(comparison: &Comparison, few: bool) -> Table {
    let names = comparison.policies.iter().map(|policy| match policy.policy == comparison.baseline {
        true => format!("{} (baseline)", policy.policy),
        false => policy.policy.clone(),
    });
    let mut table = Table::new(std::iter::once("Measure".to_owned()).chain(names));
    for row in comparison.measures.iter().filter(|row| !few || DRAWN.contains(&row.measure.key)) {
        let cells = row.cells.iter().map(|cell| cell.map_or(Cell::Empty, |value| judged(row, &value)));
        table.row(std::iter::once(Cell::Words(titled(row))).chain(cells));
    }
    table
}

fn titled(row: &Row) -> String {
    let sign = row.measure.unit.sign();
    if sign.is_empty() { row.measure.title.to_owned() } else { format!("{} ({sign})", row.measure.title) }
}

/// A value with its spread, and under it how far it is from the baseline.
fn judged(row: &Row, value: &Value) -> Cell {
    let unit = row.measure.unit;
    let text = match value.spread {
        Some(spread) if spread > 0.0 => format!("{} ± {}", unit.show(value.mean), unit.show(spread)),
        _ => unit.show(value.mean),
    };
    let Some(against) = value.against else { return Cell::Number(text) };
    let (word, class) = match against.verdict {
        Verdict::Same => return Cell::Judged(text, "same".to_owned(), ""),
        Verdict::Better => (" better", "good"),
        Verdict::Worse => (" worse", "bad"),
        Verdict::Other => ("", ""),
    };
    // Of what is already in per cent, points say more than per cent of per cent.
    let signed = |value: f64, text: String| if value > 0.0 { format!("+{text}") } else { text };
    let difference = match (unit, against.relative) {
        (Unit::Part | Unit::Percent, _) => {
            format!("{} points", signed(against.absolute, unit.show(against.absolute)))
        }
        (_, Some(relative)) => format!("{} %", signed(relative, with_decimals(100.0 * relative, 1))),
        (_, None) => signed(against.absolute, unit.show(against.absolute)),
    };
    let remark = match against.beyond_spread {
        Some(false) => format!("({difference}{word})"),
        _ => format!("{difference}{word}"),
    };
    Cell::Judged(text, remark, class)
}

/// Mean slowdown against the longest wait: low means are easily bought with starvation, and here that shows.
fn frontier(comparison: &Comparison) -> Option<String> {
    let (slowdowns, waits) = (comparison.row("mean_bounded_slowdown")?, comparison.row("max_wait_s")?);
    let both = comparison.policies.iter().zip(slowdowns.cells.iter().zip(&waits.cells));
    let points: Vec<(&str, f64, f64)> = both
        .filter_map(|(policy, (slowdown, wait))| Some((&*policy.policy, (*slowdown)?.mean, (*wait)?.mean)))
        .collect();
    if points.len() < 2 {
        return None;
    }
    let ends = |of: fn(&(&str, f64, f64)) -> f64| {
        let values = || points.iter().map(of);
        (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
    };
    let (least, most) = ends(|point| point.1);
    let (_, longest) = ends(|point| point.2);
    let (size, unit) = time_unit(longest);
    let x = Axis::powers_from(least, most, "Mean bounded slowdown");
    let y = Axis::from_zero(longest / size, &format!("Longest wait ({unit})"));
    let points: Vec<(&str, f64, f64)> = points.into_iter().map(|(name, x, y)| (name, x, y / size)).collect();
    let mut best: Vec<(f64, f64)> = points.iter().map(|(_, x, y)| (*x, *y)).collect();
    best.sort_by(|one, two| one.0.total_cmp(&two.0).then(one.1.total_cmp(&two.1)));
    let mut lowest = f64::INFINITY;
    best.retain(|(_, wait)| {
        let before = lowest;
        lowest = lowest.min(*wait);
        *wait < before
    });
    let mut plot = Plot::new(x, y);
    plot.line("line axis", &best);
    plot.points(&points);
    let title = "Mean against worst";
    let caption = "Each policy by its mean bounded slowdown and its longest wait; further left and lower is better. The line \
                   joins the policies that no other beats in both: from one of them to the next, one is paid for with the \
                   other.";
    Some(figure(title, "", &plot.finish("Mean bounded slowdown against the longest wait"), caption, ""))
}

/// The unit that suits a span of so many seconds, and its length.
fn time_unit(seconds: f64) -> (f64, &'static str) {
    let sizes = [(86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")];
    sizes.into_iter().find(|(size, _)| seconds >= 2.0 * size).unwrap_or((1.0, "seconds"))
}

fn bar_plot(comparison: &Comparison, row: &Row) -> Option<String> {
    let unit = row.measure.unit;
    let most = row.cells.iter().flatten().map(|cell| cell.mean).fold(0.0, f64::max);
    let (scale, label) = match unit {
        Unit::Part => (100.0, titled(row)),
        Unit::Seconds => {
            let (size, name) = time_unit(most);
            (1.0 / size, format!("{} ({name})", row.measure.title))
        }
        _ => (1.0, titled(row)),
    };
    let rows: Vec<Bar> = comparison
        .policies
        .iter()
        .zip(&row.cells)
        .filter_map(|(policy, cell)| {
            let cell = (*cell)?;
            let text = if unit == Unit::Seconds { duration(cell.mean) } else { unit.show(cell.mean) };
            let spread = cell.spread.map(|spread| spread * scale);
            Some(Bar { name: policy.policy.clone(), value: cell.mean * scale, spread, text })
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let (drawing, zoomed) = bars(&rows, &label, None);
    let better = match row.measure.better {
        Better::Lower => "Shorter is better.",
        Better::Higher => "Further right is better.",
        Better::Neither => "",
    };
    let better =
        if zoomed && row.measure.better == Better::Lower { "Further left is better." } else { better };
    let spread = if rows.iter().any(|row| row.spread.is_some()) {
        " Whiskers reach one standard deviation over seeds to either side."
    } else {
        ""
    };
    let zoom = if zoomed { " The axis does not begin at zero, to tell close values apart." } else { "" };
    Some(figure(row.measure.title, "", &drawing, &format!("{better}{spread}{zoom}"), ""))
}

/// The mean of lists of equal length.
fn mean_of<'a>(lists: impl Iterator<Item = &'a Vec<f64>>) -> Option<Vec<f64>> {
    let mut count = 0.0;
    let mut sums: Vec<f64> = Vec::new();
    for list in lists {
        count += 1.0;
        sums.resize(list.len(), 0.0);
        sums.iter_mut().zip(list).for_each(|(sum, value)| *sum += value);
    }
    sums.iter_mut().for_each(|sum| *sum /= count);
    (count > 0.0).then_some(sums)
}

fn distributions(policies: &[(&str, Vec<&Extract>)]) -> Vec<String> {
    let mut plots = Vec::new();
    let lines = |of: fn(&Extract) -> Option<&super::distribution::Spread>| {
        let mut largest = 0.0_f64;
        let lines: Vec<(&str, Vec<f64>)> = policies
            .iter()
            .filter_map(|(name, runs)| {
                largest =
                    runs.iter().filter_map(|run| of(run)).map(|found| found.largest).fold(largest, f64::max);
                Some((*name, mean_of(runs.iter().filter_map(|run| of(run)).map(|found| &found.at_most))?))
            })
            .collect();
        (lines, largest)
    };
    let (waits, longest) = lines(|run| run.waits.as_ref());
    if !waits.is_empty() {
        plots.push(single::waits(&waits, longest));
    }
    let (slowdowns, largest) = lines(|run| run.slowdowns.as_ref());
    if !slowdowns.is_empty() {
        plots.push(single::slowdowns(&slowdowns, largest));
    }
    plots
}

/// Utilisation and queue of the first run of each policy: runs with other seeds are other workloads, and their mean
/// over time would be none of them.
fn over_time(policies: &[(&str, Vec<&Extract>)]) -> Vec<String> {
    let firsts: Vec<(&str, &Extract)> = policies
        .iter()
        .filter_map(|(name, runs)| Some((*name, *runs.iter().find(|run| run.timeline.is_some())?)))
        .collect();
    let coarse: Vec<Timeline> =
        firsts.iter().filter_map(|(_, run)| Some(run.timeline.as_ref()?.coarse())).collect();
    let timelines = || coarse.iter();
    let Some(unit) = firsts.first().map(|(_, run)| run.measures.unit) else { return Vec::new() };
    let length = timelines().map(|timeline| timeline.length_s()).fold(0.0, f64::max);
    let most =
        timelines().flat_map(|timeline| &timeline.waiting_jobs).map(|level| level.mean).fold(0.0, f64::max);
    let names = || key(firsts.iter().enumerate().map(|(place, (name, _))| (*name, line_style(place))));
    let drawn: Vec<String> = firsts.iter().map(|(_, run)| run.name()).collect();
    let which = format!(" Drawn: {}.", drawn.join("; "));
    let mut used = Plot::new(Axis::time(length), Axis::percent(&format!("In use (% of {unit})")));
    let mut queue = Plot::new(Axis::time(length), Axis::from_zero(most, "Waiting jobs"));
    for (place, timeline) in timelines().enumerate() {
        let waiting: Vec<f64> = timeline.waiting_jobs.iter().map(|level| level.mean).collect();
        for (plot, values) in [(&mut used, &timeline.units), (&mut queue, &waiting)] {
            // Steps of several long runs on top of each other are a thicket; means have no steps to be shown anyway.
            if timeline.exact {
                plot.steps(&line_style(place), &timeline.bounds_s, values);
            } else {
                plot.line(&line_style(place), &timeline.middles(values));
            }
        }
    }
    let caption = format!(
        "How much of what was in service was in use. A policy that packs better is higher early and done sooner.{which}"
    );
    let waiting = format!("Jobs that were ready and waited for their first start; lower is better.{which}");
    vec![
        figure("Utilisation over time", &names(), &used.finish("Utilisation over time"), &caption, ""),
        figure("Queue: jobs", &names(), &queue.finish("Waiting jobs over time"), &waiting, ""),
    ]
}

fn runs_table(runs: &[&Extract]) -> Table {
    let mut table = Table::new(["Policy", "Seed", "Jobs", "Decision log (SHA-256)", "Inputs (SHA-256)"]);
    for run in runs {
        let measures = &run.measures;
        let inputs: Vec<String> =
            measures.inputs_sha256.iter().map(|(name, digest)| format!("{name} {digest}")).collect();
        table.row([
            Cell::Words(measures.policy.clone()),
            measures.seed.map_or(Cell::Empty, |seed| Cell::Number(seed.to_string())),
            Cell::Number(crate::measures::grouped(measures.jobs as f64)),
            Cell::Words(measures.decisions_sha256.clone()),
            Cell::Words(inputs.join(", ")),
        ]);
    }
    table
}
