//! Smoothed figures of disk and network.

/// Weight of the newest sample.
const NEWEST: f64 = 0.3;

/// A figure that follows its samples slowly; absent until the first.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Ewma(Option<f64>);

impl Ewma {
    /// Takes a sample in. Nonsense is left out.
    pub fn add(&mut self, sample: f64) {
        if sample.is_finite() && sample > 0.0 {
            self.0 = Some(self.0.map_or(sample, |value| NEWEST * sample + (1.0 - NEWEST) * value));
        }
    }

    /// The figure, to three digits.
    pub fn value(self) -> Option<f64> {
        self.0.map(|value| (value * 1000.0).round() / 1000.0)
    }
}

/// Mbit/s of a transfer.
pub fn network_mbit_s(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / seconds.max(1e-6) / 1e6
}

/// MB/s of a job's disk; `None` if it used none or took no time.
pub fn disk_mb_s(bytes: u64, seconds: f64) -> Option<f64> {
    (bytes > 0 && seconds > 0.0).then(|| bytes as f64 / f64::from(1 << 20) / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p38_smoothing() {
        for (samples, value) in [
            (&[][..], None),
            (&[100.0], Some(100.0)),
            (&[100.0, 200.0], Some(130.0)),
            (&[100.0, 0.0, -5.0, f64::NAN], Some(100.0)),
        ] {
            let mut ewma = Ewma::default();
            samples.iter().for_each(|sample| ewma.add(*sample));
            assert_eq!(ewma.value(), value, "{samples:?}");
        }
    }

    #[test]
    fn p39_samples() {
        assert_eq!(network_mbit_s(125_000_000, 2.0), 500.0);
        assert_eq!(disk_mb_s(2 << 30, 40.0), Some(51.2));
        assert_eq!(disk_mb_s(0, 40.0), None);
        assert_eq!(disk_mb_s(1, 0.0), None);
    }
}
