//! How values are distributed: the part of jobs at or below each value, on a grid that all runs share.

/// Points of the grid per power of ten.
const POINTS_PER_POWER: usize = 40;
/// The grid reaches this power of ten.
const POWERS: usize = 9;

/// Grid of values: 0 (drawn at the left end), then 1 to 10^9 in equal ratios.
pub(super) fn grid() -> Vec<f64> {
    (0..=POINTS_PER_POWER * POWERS)
        .map(|place| libm::pow(10.0, place as f64 / POINTS_PER_POWER as f64))
        .collect()
}

/// Bounds of the classes of waits, in seconds, with their names.
pub(super) const WAIT_CLASSES: [(f64, &str); 9] = [
    (0.0, "no wait"),
    (10.0, "up to 10 s"),
    (60.0, "10 s to 1 min"),
    (600.0, "1 to 10 min"),
    (3600.0, "10 min to 1 h"),
    (21_600.0, "1 to 6 h"),
    (86_400.0, "6 h to 1 day"),
    (604_800.0, "1 to 7 days"),
    (f64::INFINITY, "over 7 days"),
];

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Spread {
    /// Part of the values at or below each point of the grid.
    pub(super) at_most: Vec<f64>,
    /// How many fall into each of [`WAIT_CLASSES`].
    pub(super) classes: Vec<u64>,
    pub(super) largest: f64,
}

impl Spread {
    /// Of these values; nothing if there are none.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let largest = *values.last()?;
        let below = |bound: f64| values.partition_point(|value| *value <= bound);
        // A value that is on the grid must not fall off it by the last bit of a power.
        let at_most =
            grid().iter().map(|bound| below(bound * (1.0 + 1e-12)) as f64 / values.len() as f64).collect();
        let mut before = 0;
        let classes = WAIT_CLASSES
            .iter()
            .map(|(bound, _)| {
                let count = below(*bound) - before;
                before += count;
                count as u64
            })
            .collect();
        Some(Self { at_most, classes, largest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_every_value_once() {
        let found = Spread::of(vec![0.0, 0.5, 10.0, 10.5, 3600.0, 700_000.0]).unwrap();
        assert_eq!(found.classes, [1, 2, 1, 0, 1, 0, 0, 0, 1]);
        assert_eq!(found.largest, 700_000.0);
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn parts_grow_to_one() {
        let found = Spread::of(vec![0.0, 10.0, 100.0, 1e6]).unwrap();
        let at =
            |value: f64| found.at_most[grid().iter().position(|bound| *bound >= value * 0.999_999).unwrap()];
        assert_eq!((at(1.0), at(10.0), at(100.0), at(999.0), at(1e6)), (0.25, 0.5, 0.75, 0.75, 1.0));
        assert!(found.at_most.is_sorted());
    }
}
