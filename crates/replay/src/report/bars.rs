//! Bars that lie: a name to the left, the value to the right, whiskers for the spread.

use super::plot::{WIDTH, fill_style};
use super::scale::Axis;
use super::svg::{Anchor, Svg};
use super::text::shortened;

const NAME_WIDTH: f64 = 150.0;
const VALUE_WIDTH: f64 = 96.0;
const ROW: f64 = 28.0;
const THICK: f64 = 16.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 48.0;
/// Longest name that has room.
const NAME_LENGTH: usize = 20;

pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) spread: Option<f64>,
    /// The value for people.
    pub(super) text: String,
}

/// Whether bars grow from zero, or dots stand on an axis that may begin elsewhere. Values that are close to each other
/// are told apart only by the latter; a bar that does not begin at zero would lie.
fn as_dots(bars: &[Bar]) -> bool {
    let largest = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    bars.len() > 1 && largest > 0.0 && bars.iter().all(|bar| bar.value > 0.6 * largest)
}

/// Bars, all in one colour: their names tell them apart. True if the axis does not begin at zero.
pub(super) fn bars(bars: &[Bar], label: &str, highest: Option<f64>) -> (String, bool) {
    let dots = as_dots(bars);
    let ends = |bar: &Bar| (bar.value - bar.spread.unwrap_or(0.0), bar.value + bar.spread.unwrap_or(0.0));
    let low = bars.iter().map(|bar| ends(bar).0).fold(f64::INFINITY, f64::min);
    let high = bars.iter().map(|bar| ends(bar).1).fold(0.0, f64::max);
    let mut axis = match (dots, highest) {
        (true, _) => Axis::round(low, high, label),
        (false, Some(highest)) => Axis::exact(0.0, highest, highest / 5.0, label),
        (false, None) => Axis::from_zero(high, label),
    };
    // Long numbers need room: leave every other mark unnamed.
    let longest = axis.ticks.iter().map(|tick| tick.text.chars().count()).max().unwrap_or(0);
    if longest * axis.ticks.len() > 36 {
        axis.ticks.iter_mut().skip(1).step_by(2).for_each(|tick| tick.text.clear());
    }
    let height = TOP + ROW * bars.len() as f64 + BOTTOM;
    let floor = height - BOTTOM;
    let at = |value: f64| NAME_WIDTH + (WIDTH - NAME_WIDTH - VALUE_WIDTH) * axis.scale.place(value);
    let mut svg = Svg::new(WIDTH, height);
    for tick in &axis.ticks {
        svg.line("grid", (at(tick.at), TOP), (at(tick.at), floor));
        svg.text("tick", (at(tick.at), floor + 17.0), Anchor::Middle, &tick.text);
    }
    for (place, bar) in bars.iter().enumerate() {
        let middle = TOP + ROW * (place as f64 + 0.5);
        let (from, to) = ends(bar);
        svg.text("name", (NAME_WIDTH - 8.0, middle + 4.0), Anchor::End, &shortened(&bar.name, NAME_LENGTH));
        if !dots {
            let size = (at(bar.value) - NAME_WIDTH, THICK);
            svg.rect(&fill_style(0), (NAME_WIDTH, middle - THICK / 2.0), size, None);
        }
        if bar.spread.is_some() {
            svg.line("whisker", (at(from), middle), (at(to), middle));
            for end in [from, to] {
                svg.line("whisker", (at(end), middle - 5.0), (at(end), middle + 5.0));
            }
        }
        if dots {
            svg.dot(&fill_style(0), (at(bar.value), middle), 5.0);
        }
        svg.text("value", (WIDTH - 2.0, middle + 4.0), Anchor::End, &bar.text);
    }
    svg.line("axis", (NAME_WIDTH, TOP), (NAME_WIDTH, floor));
    svg.text("label", (WIDTH - VALUE_WIDTH, height - 8.0), Anchor::End, label);
    (svg.finish(label), dots && axis.ticks.first().is_some_and(|tick| tick.at != 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[f64]) -> (String, bool) {
        let rows = values.iter().map(|value| Bar {
            name: "a".to_owned(),
            value: *value,
            spread: Some(0.1),
            text: value.to_string(),
        });
        bars(&rows.collect::<Vec<_>>(), "per cent", None)
    }

    #[test]
    fn bars_begin_at_zero_and_dots_may_not() {
        let (far, zoomed) = drawn(&[10.0, 90.0]);
        assert!(far.contains("<rect") && !zoomed);
        let (near, zoomed) = drawn(&[92.0, 95.0]);
        assert!(near.contains("<circle") && !near.contains("<rect") && zoomed);
    }

    #[test]
    fn bars_of_nothing_are_drawn() {
        let (none, zoomed) = drawn(&[0.0, 0.0]);
        assert!(none.contains("width=\"0\"") && !zoomed);
    }
}
