//! The curve of a packing run over per cent arrived.

use crate::run::CurvePoint;

/// Sums of the notes in one bin.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    notes: u32,
    allocation: f64,
    ratio: f64,
    amount: f64,
}

/// Notes after every pod, gathered by how much had arrived, to whole per cents of all GPU.
#[derive(Debug, Clone, Default)]
pub struct Curve {
    bins: Vec<Bin>,
}

/// Rounds to two decimals, as the published tables do.
fn cents(value: f64) -> f64 {
    (value * 100.0).round_ties_even() / 100.0
}

impl Curve {
    /// Notes one pod: GPU asked for so far, given, and fragmented, of so much in all (all in thousandths).
    pub fn note(&mut self, asked: u64, given: u64, fragmented: f64, capacity: u64) {
        let percent = |part: f64, of: u64| if of == 0 { 0.0 } else { 100.0 * part / of as f64 };
        let at = percent(asked as f64, capacity).round_ties_even() as usize;
        if self.bins.len() <= at {
            self.bins.resize(at + 1, Bin::default());
        }
        let bin = &mut self.bins[at];
        bin.notes += 1;
        bin.allocation += cents(percent(given as f64, capacity));
        bin.ratio += cents(percent(fragmented, capacity - given));
        bin.amount += cents(percent(fragmented, capacity));
    }

    /// The curve. A bin without notes takes those of its neighbours; without these either, it is left out.
    pub fn points(&self) -> Vec<CurvePoint> {
        let around = |at: usize| {
            let own = &self.bins[at..=at];
            if own[0].notes > 0 {
                own
            } else {
                &self.bins[at.saturating_sub(1)..(at + 2).min(self.bins.len())]
            }
        };
        let point = |at: usize| {
            let mut sum = Bin::default();
            for bin in around(at) {
                sum.notes += bin.notes;
                sum.allocation += bin.allocation;
                sum.ratio += bin.ratio;
                sum.amount += bin.amount;
            }
            let mean = |total: f64| cents(total / f64::from(sum.notes));
            (sum.notes > 0).then(|| CurvePoint {
                arrived: at as u32,
                allocation: mean(sum.allocation),
                fragmentation_ratio: mean(sum.ratio),
                fragmentation: mean(sum.amount),
            })
        };
        (0..self.bins.len()).filter_map(point).collect()
    }
}
