//! GPU packing: what was given and what was left over when so much had been asked for.

use std::collections::BTreeMap;

use crate::run::CurvePoint;

/// The loads at which packing is reported, in per cent of all GPUs asked for.
pub const LOADS: [u32; 5] = [50, 80, 90, 100, 130];

/// A packing curve at [`LOADS`]. A load that the run did not reach is missing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Packing {
    /// GPU given, in per cent of all.
    pub allocation: BTreeMap<u32, f64>,
    /// Share of the free GPU that the expected mix cannot use, in per cent.
    pub fragmentation_ratio: BTreeMap<u32, f64>,
    /// The same in per cent of all GPU.
    pub fragmentation: BTreeMap<u32, f64>,
}

impl Packing {
    /// Of a curve; nothing if there is none.
    pub fn of(curve: &[CurvePoint]) -> Option<Self> {
        if curve.is_empty() {
            return None;
        }
        let at = |value: fn(&CurvePoint) -> f64| {
            LOADS.iter().filter_map(|&load| Some((load, value_at(curve, load, value)?))).collect()
        };
        Some(Self {
            allocation: at(|point| point.allocation),
            fragmentation_ratio: at(|point| point.fragmentation_ratio),
            fragmentation: at(|point| point.fragmentation),
        })
    }
}

/// The value at a load; where one job leaps over the load, the mean of its two neighbours.
fn value_at(curve: &[CurvePoint], load: u32, value: fn(&CurvePoint) -> f64) -> Option<f64> {
    let mean =
        |points: Vec<f64>| (!points.is_empty()).then(|| points.iter().sum::<f64>() / points.len() as f64);
    let near = |distance| {
        mean(curve.iter().filter(|point| point.arrived.abs_diff(load) == distance).map(value).collect())
    };
    near(0).or_else(|| near(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(arrived: u32, allocation: f64) -> CurvePoint {
        CurvePoint { arrived, allocation, fragmentation_ratio: 2.0 * allocation, fragmentation: 1.0 }
    }

    #[test]
    fn a_load_that_was_leapt_over_is_the_mean_of_its_neighbours() {
        let found =
            Packing::of(&[point(50, 49.0), point(79, 78.0), point(81, 79.0), point(100, 95.0)]).unwrap();
        assert_eq!(found.allocation, BTreeMap::from([(50, 49.0), (80, 78.5), (100, 95.0)]));
        assert_eq!(found.fragmentation_ratio[&80], 157.0);
        assert_eq!(Packing::of(&[]), None);
    }
}
