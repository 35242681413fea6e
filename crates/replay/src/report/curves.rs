//! GPU packing as the load grows: what was given, and what lies in pieces that are of no use.

use std::collections::BTreeMap;

use super::Extract;
use super::page::figure;
use super::plot::{Plot, key, line_style};
use super::scale::Axis;
use super::table::{Cell, Table};
use crate::measures::with_decimals;
use crate::run::CurvePoint;

/// From this load on policies differ, and a close-up tells them apart.
const CLOSE_UP: u32 = 80;

/// The mean curve of each policy over its runs.
pub(super) fn mean_curves<'a>(policies: &[(&'a str, Vec<&Extract>)]) -> Vec<(&'a str, Vec<CurvePoint>)> {
    let mut found = Vec::new();
    for (name, runs) in policies {
        let mut at: BTreeMap<u32, (f64, CurvePoint)> = BTreeMap::new();
        for point in runs.iter().flat_map(|run| &run.curve) {
            let zero = CurvePoint {
                arrived: point.arrived,
                allocation: 0.0,
                fragmentation_ratio: 0.0,
                fragmentation: 0.0,
            };
            let (count, sum) = at.entry(point.arrived).or_insert((0.0, zero));
            *count += 1.0;
            sum.allocation += point.allocation;
            sum.fragmentation_ratio += point.fragmentation_ratio;
            sum.fragmentation += point.fragmentation;
        }
        if !at.is_empty() {
            let mean = |(count, sum): (f64, CurvePoint)| CurvePoint {
                allocation: sum.allocation / count,
                fragmentation_ratio: sum.fragmentation_ratio / count,
                fragmentation: sum.fragmentation / count,
                ..sum
            };
            found.push((*name, at.into_values().map(mean).collect()));
        }
    }
    found
}

/// Packing curves of one or several policies.
pub(super) fn curves(lines: &[(&str, &[CurvePoint])]) -> Vec<String> {
    let lines: Vec<&(&str, &[CurvePoint])> = lines.iter().filter(|(_, curve)| !curve.is_empty()).collect();
    let Some(last) = lines.iter().filter_map(|(_, curve)| curve.last()).map(|point| point.arrived).max()
    else {
        return Vec::new();
    };
    let names = match lines.as_slice() {
        [_] => String::new(),
        _ => key(lines.iter().enumerate().map(|(place, (name, _))| (*name, line_style(place)))),
    };
    let plot =
        |title: &str, from: u32, y: Axis, value: fn(&CurvePoint) -> f64, caption: &str, table: &str| {
            let step = if last - from > 60 { 20.0 } else { 10.0 };
            let x = Axis::exact(
                f64::from(from),
                f64::from(last.max(from + 1)),
                step,
                "GPU asked for so far (% of all GPU)",
            );
            let mut plot = Plot::new(x, y);
            for (place, (_, curve)) in lines.iter().enumerate() {
                let points: Vec<(f64, f64)> = curve
                    .iter()
                    .filter(|point| point.arrived >= from)
                    .map(|point| (f64::from(point.arrived), value(point)))
                    .collect();
                plot.line(&line_style(place), &points);
            }
            figure(title, &names, &plot.finish(title), caption, table)
        };
    let range = |from: u32, value: fn(&CurvePoint) -> f64| {
        let values =
            || lines.iter().flat_map(|(_, curve)| *curve).filter(|point| point.arrived >= from).map(value);
        (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
    };
    let allocation: fn(&CurvePoint) -> f64 = |point| point.allocation;
    let mut plots = vec![plot(
        "GPU allocated",
        0,
        Axis::percent("GPU given (% of all GPU)"),
        allocation,
        "As jobs arrive and none leaves, how much GPU was given to them. While everything fits, what is given equals what \
         is asked for; the line bends where jobs begin to be refused. Higher is better.",
        &curve_table(&lines, last),
    )];
    if last > CLOSE_UP {
        let (low, high) = range(CLOSE_UP, allocation);
        plots.push(plot(
            "GPU allocated, close up",
            CLOSE_UP,
            Axis::round(low, high, "GPU given (% of all GPU)"),
            allocation,
            "The same where it matters: from 80 % asked for. Neither axis begins at zero.",
            "",
        ));
    }
    plots.push(plot(
        "Fragmentation of free GPU",
        0,
        Axis::percent("Fragmented (% of free GPU)"),
        |point| point.fragmentation_ratio,
        "Of the GPU still free, the part that lies in pieces which the expected mix of jobs cannot use. Lower is better. \
         Near 100 % asked for almost nothing is free and every policy comes close to 100 %: compare at 50 to 90 %.",
        "",
    ));
    let (_, most) = range(0, |point| point.fragmentation);
    plots.push(plot(
        "Fragmented GPU",
        0,
        Axis::from_zero(most, "Fragmented (% of all GPU)"),
        |point| point.fragmentation,
        "The same as a part of all GPU: what is lost for good to bad packing. Lower is better.",
        "",
    ));
    plots
}

fn curve_table(lines: &[&(&str, &[CurvePoint])], last: u32) -> String {
    let head =
        |name: &str, what: &str| if name.is_empty() { what.to_owned() } else { format!("{name}, {what}") };
    let heads =
        lines.iter().flat_map(|(name, _)| ["given", "fragmented part of free"].map(|what| head(name, what)));
    let mut table = Table::new(std::iter::once("Asked for (%)".to_owned()).chain(heads));
    for arrived in (0..=last).step_by(5) {
        let cells =
            lines.iter().flat_map(|(_, curve)| match curve.iter().find(|point| point.arrived == arrived) {
                Some(point) => [point.allocation, point.fragmentation_ratio]
                    .map(|value| Cell::Number(with_decimals(value, 2))),
                None => [Cell::Empty, Cell::Empty],
            });
        table.row(std::iter::once(Cell::Words(arrived.to_string())).chain(cells));
    }
    table.folded("Numbers behind these plots (%)")
}
