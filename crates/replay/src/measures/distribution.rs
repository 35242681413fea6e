//! Mean, percentiles and largest value of a list.

use serde::Serialize;

use super::number;

/// Place (from 0) of the nearest-rank percentile in an ascending list: element ⌈p/100 · N⌉ counted from 1.
/// An empty list has none.
pub fn nearest_rank(percent: usize, count: usize) -> Option<usize> {
    let last = count.checked_sub(1)?;
    Some((percent * count).div_ceil(100).saturating_sub(1).min(last))
}

/// What a list of values looks like.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Distribution {
    pub count: u64,
    /// Their mean, summed in the order given.
    #[serde(serialize_with = "number::six")]
    pub mean: f64,
    /// Half of the values are at most this.
    #[serde(serialize_with = "number::six")]
    pub p50: f64,
    /// 95 of 100 values are at most this.
    #[serde(serialize_with = "number::six")]
    pub p95: f64,
    /// 99 of 100 values are at most this.
    #[serde(serialize_with = "number::six")]
    pub p99: f64,
    #[serde(serialize_with = "number::six")]
    pub max: f64,
}

impl Distribution {
    /// Of these values, which are put into another order; nothing if there are none.
    pub fn of(values: &mut [f64]) -> Option<Self> {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // From the highest percentile down: each selection leaves everything smaller before it.
        let (i99, i95, i50) = (nearest_rank(99, count)?, nearest_rank(95, count)?, nearest_rank(50, count)?);
        let p99 = *values.select_nth_unstable_by(i99, f64::total_cmp).1;
        let p95 = *values[..=i99].select_nth_unstable_by(i95, f64::total_cmp).1;
        let p50 = *values[..=i95].select_nth_unstable_by(i50, f64::total_cmp).1;
        Some(Self { count: count as u64, mean, p50, p95, p99, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_elements_of_the_list() {
        // B47, second part: 10, 20 … 200.
        let mut waits: Vec<f64> = (1..=20).rev().map(|i| f64::from(i) * 10.0).collect();
        let found = Distribution::of(&mut waits).unwrap();
        assert_eq!((found.p50, found.p95, found.p99, found.max), (100.0, 190.0, 200.0, 200.0));
        assert_eq!((found.mean, found.count), (105.0, 20));
    }

    #[test]
    fn one_value_is_all_percentiles_and_none_is_nothing() {
        let one = Distribution::of(&mut [7.0]).unwrap();
        assert_eq!((one.p50, one.p95, one.p99, one.max, one.mean), (7.0, 7.0, 7.0, 7.0, 7.0));
        assert_eq!(Distribution::of(&mut []), None);
    }
}
