//! Axes: from values to places on paper, and the ticks that people can read them by.

use crate::measures::grouped;

/// How values become places.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// Evenly, from the first value to the second.
    Linear(f64, f64),
    /// By powers of ten, from the first value (above zero) to the second. Smaller values stand at the first.
    Log(f64, f64),
}

impl Scale {
    /// Where the value is, from 0 to 1.
    pub(super) fn place(self, value: f64) -> f64 {
        let part = match self {
            Self::Linear(from, to) => (value - from) / (to - from),
            Self::Log(from, to) => {
                let log = |value: f64| libm::log10(value.max(from));
                (log(value) - log(from)) / (log(to) - log(from))
            }
        };
        if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// A mark on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) text: String,
}

/// An axis: its scale, its marks, and what it shows in which unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) scale: Scale,
    pub(super) ticks: Vec<Tick>,
    pub(super) label: String,
}

impl Axis {
    /// From zero to at least `max`, ending at a round number.
    pub(super) fn from_zero(max: f64, label: &str) -> Self {
        Self::round(0.0, if max > 0.0 { max } else { 1.0 }, label)
    }

    /// From at most `min` to at least `max`, both ends round numbers.
    pub(super) fn round(min: f64, max: f64, label: &str) -> Self {
        // Values that are all alike still need an axis around them.
        let room = if max - min > 1e-9 * max.abs() { 0.0 } else { (0.01 * max.abs()).max(0.01) };
        let (min, max) = (min - room, max + room);
        let step = nice_step(max - min, 5);
        let (first, last) = (libm::floor(min / step + 1e-9), libm::ceil(max / step - 1e-9));
        let last = if last > first { last } else { first + 1.0 };
        Self::stepped(first * step, last * step, step, label)
    }

    /// From `min` to `max` exactly, with marks where they fall.
    pub(super) fn exact(min: f64, max: f64, step: f64, label: &str) -> Self {
        Self::stepped(min, max, step, label)
    }

    fn stepped(min: f64, max: f64, step: f64, label: &str) -> Self {
        let first = libm::ceil(min / step - 1e-9);
        let count = (libm::floor(max / step + 1e-9) - first).clamp(0.0, 1000.0) as usize;
        let decimals = (0..6).find(|&digits| is_whole(step * 10_f64.powi(digits))).unwrap_or(6);
        let ticks = (0..=count)
            .map(|place| (first + place as f64) * step)
            .map(|at| Tick { at, text: crate::measures::with_decimals(at, decimals.unsigned_abs() as usize) })
            .collect();
        Self { scale: Scale::Linear(min, max), ticks, label: label.to_owned() }
    }

    /// Per cent, from 0 to 100.
    pub(super) fn percent(label: &str) -> Self {
        Self::stepped(0.0, 100.0, 20.0, label)
    }

    /// Time since the beginning, in the unit that suits its length. Values are seconds.
    pub(super) fn time(seconds: f64) -> Self {
        let (unit, size, steps): (&str, f64, &[f64]) = match seconds {
            _ if seconds <= 600.0 => ("seconds", 1.0, &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]),
            _ if seconds <= 4.0 * 3600.0 => ("minutes", 60.0, &[1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0]),
            _ if seconds <= 5.0 * 86_400.0 => ("hours", 3600.0, &[1.0, 2.0, 3.0, 6.0, 12.0, 24.0]),
            _ => ("days", 86_400.0, &[]),
        };
        let length = if seconds > 0.0 { seconds / size } else { 1.0 };
        let few = |step: f64| length / step <= 8.0;
        let step = steps.iter().copied().find(|step| few(*step)).unwrap_or_else(|| nice_step(length, 7));
        let mut axis = Self::stepped(0.0, length, step, &format!("Time since the first submission ({unit})"));
        for tick in &mut axis.ticks {
            tick.at *= size;
        }
        axis.scale = Scale::Linear(0.0, length * size);
        axis
    }

    /// Spans of time by powers of ten, from a second to at least `longest` seconds.
    pub(super) fn spans(longest: f64, label: &str) -> Self {
        const MARKS: [(f64, &str); 10] = [
            (1.0, "1 s"),
            (10.0, "10 s"),
            (60.0, "1 min"),
            (600.0, "10 min"),
            (3600.0, "1 h"),
            (21_600.0, "6 h"),
            (86_400.0, "1 d"),
            (604_800.0, "7 d"),
            (2_592_000.0, "30 d"),
            (31_536_000.0, "365 d"),
        ];
        let end = MARKS.iter().map(|mark| mark.0).find(|mark| *mark >= longest.max(60.0));
        let end = end.unwrap_or(longest);
        let ticks = MARKS.iter().filter(|mark| mark.0 <= end);
        let ticks = ticks.map(|(at, text)| Tick { at: *at, text: (*text).to_owned() }).collect();
        Self { scale: Scale::Log(1.0, end), ticks, label: label.to_owned() }
    }

    /// Numbers by powers of ten, from 1 to at least `largest`.
    pub(super) fn powers(largest: f64, label: &str) -> Self {
        let mut marks = vec![1.0];
        while marks[marks.len() - 1] < largest.max(10.0) && marks.len() < 60 {
            let next = if marks.len() % 3 == 2 { 2.5 } else { 2.0 };
            marks.push(marks[marks.len() - 1] * next);
        }
        let end = marks[marks.len() - 1];
        // Marks between the powers only as long as there is room for them.
        let every = if marks.len() > 12 { 3 } else { 1 };
        let ticks = marks.into_iter().step_by(every).map(|at| Tick { at, text: grouped(at) }).collect();
        Self { scale: Scale::Log(1.0, end), ticks, label: label.to_owned() }
    }

    /// The same, from the last mark that is not above `smallest` on.
    pub(super) fn powers_from(smallest: f64, largest: f64, label: &str) -> Self {
        let mut axis = Self::powers(largest, label);
        let first = axis.ticks.iter().rposition(|tick| tick.at <= smallest).unwrap_or(0);
        axis.ticks.drain(..first);
        axis.scale = Scale::Log(axis.ticks[0].at, axis.end());
        axis
    }

    /// The last value that has a place.
    pub(super) fn end(&self) -> f64 {
        match self.scale {
            Scale::Linear(_, to) | Scale::Log(_, to) => to,
        }
    }
}

fn is_whole(value: f64) -> bool {
    (value - libm::round(value)).abs() < 1e-6
}

/// The smallest of 1, 2, 5 times a power of ten that cuts `length` into at most about `most` pieces.
fn nice_step(length: f64, most: u32) -> f64 {
    let wanted = length / f64::from(most);
    let power = libm::pow(10.0, libm::floor(libm::log10(wanted)));
    [1.0, 2.0, 5.0, 10.0]
        .map(|times| times * power)
        .into_iter()
        .find(|step| *step >= wanted * 0.999)
        .unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(texts(&Axis::from_zero(93.0, "")), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(&Axis::from_zero(0.0, "")), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(
            texts(&Axis::round(92.86, 95.23, "")),
            ["92.5", "93.0", "93.5", "94.0", "94.5", "95.0", "95.5"]
        );
        assert_eq!(texts(&Axis::from_zero(52_000.0, ""))[1], "20\u{202f}000");
        assert_eq!(
            texts(&Axis::round(5.0, 5.0, "")),
            ["4.94", "4.96", "4.98", "5.00", "5.02", "5.04", "5.06"]
        );
    }

    #[test]
    fn time_has_the_unit_that_suits() {
        for (seconds, unit, ticks) in [
            (520.0, "seconds", vec!["0", "100", "200", "300", "400", "500"]),
            (7200.0, "minutes", vec!["0", "15", "30", "45", "60", "75", "90", "105", "120"]),
            (86_400.0, "hours", vec!["0", "3", "6", "9", "12", "15", "18", "21", "24"]),
            (29_363_626.0, "days", vec!["0", "50", "100", "150", "200", "250", "300"]),
        ] {
            let axis = Axis::time(seconds);
            assert!(axis.label.contains(unit), "{}", axis.label);
            assert_eq!(texts(&axis), ticks);
        }
    }

    #[test]
    fn places_stay_on_the_paper() {
        assert_eq!(Scale::Linear(0.0, 4.0).place(1.0), 0.25);
        assert_eq!(Scale::Log(1.0, 100.0).place(10.0), 0.5);
        assert_eq!(Scale::Log(1.0, 100.0).place(0.0), 0.0);
        assert_eq!(Scale::Linear(0.0, 4.0).place(9.0), 1.0);
        assert_eq!(Scale::Linear(3.0, 3.0).place(3.0), 0.0);
    }

    #[test]
    fn powers_end_above_the_largest() {
        let axis = Axis::powers(14_805.2, "");
        assert_eq!(texts(&axis), ["1", "10", "100", "1000", "10\u{202f}000"]);
        assert!((axis.end() - 20_000.0).abs() < 1e-6);
        assert_eq!(texts(&Axis::powers(7.0, "")), ["1", "2", "5", "10"]);
        let axis = Axis::powers_from(46.0, 93.0, "");
        assert_eq!((texts(&axis), axis.scale), (vec!["20", "50", "100"], Scale::Log(20.0, 100.0)));
        assert_eq!(texts(&Axis::powers_from(0.5, 7.0, "")), ["1", "2", "5", "10"]);
        assert_eq!(texts(&Axis::spans(350.0, "")), ["1 s", "10 s", "1 min", "10 min"]);
    }
}
