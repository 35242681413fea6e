//! When jobs are submitted: a Poisson process whose rate follows day and week, with bursts.

use crate::trace::random::Random;

/// Rate in each hour of the day, of a machine that people use: quiet nights, two humps around noon.
const HOURS: [f64; 24] = [
    0.45, 0.38, 0.33, 0.30, 0.30, 0.33, 0.42, 0.60, 0.95, 1.45, 1.75, 1.80, 1.60, 1.60, 1.80, 1.85, 1.75,
    1.50, 1.20, 1.00, 0.90, 0.80, 0.70, 0.55,
];

/// Rate on each day, from Monday.
const DAYS: [f64; 7] = [1.15, 1.20, 1.20, 1.15, 1.05, 0.55, 0.50];

/// Share of jobs that come right behind another: a script submitted them.
const BURST: f64 = 0.3;

/// Mean gap inside a burst, in mean gaps between jobs.
const BURST_GAP: f64 = 0.01;

const HOUR: f64 = 3600.0;

/// Ascending submit times in seconds: the first is 0, the last is `span`.
pub(super) fn times(count: usize, span: f64, mut random: Random) -> Vec<i64> {
    let mut sum = 0.0;
    let mut sums: Vec<f64> = Vec::with_capacity(count);
    for at in 0..count {
        if at > 0 {
            let scale = if random.chance(BURST) { BURST_GAP } else { 1.0 };
            sum += scale * random.exponential();
        }
        sums.push(sum);
    }
    let rhythm = Rhythm::new(span);
    let stretch = if sum > 0.0 { rhythm.total() / sum } else { 0.0 };
    sums.into_iter().map(|sum| rhythm.instant(sum * stretch).min(span).round() as i64).collect()
}

/// How much of the submissions has happened by when: the rate summed up hour by hour.
struct Rhythm {
    span: f64,
    /// At the end of each hour.
    sums: Vec<f64>,
}

impl Rhythm {
    /// Beyond this many hours (some 500 years) the rhythm is not worth its memory.
    const HOURS_MAX: f64 = 4_500_000.0;

    fn new(span: f64) -> Self {
        let hours = (span / HOUR).min(Self::HOURS_MAX);
        let mut sums = Vec::with_capacity(hours as usize + 1);
        let mut sum = 0.0;
        let mut hour = 0;
        while (hour as f64) < hours {
            let part = (hours - hour as f64).min(1.0);
            sum += part * HOURS[hour % 24] * DAYS[hour / 24 % 7];
            sums.push(sum);
            hour += 1;
        }
        Self { span, sums }
    }

    fn total(&self) -> f64 {
        self.sums.last().copied().unwrap_or(0.0)
    }

    /// When so much has happened, in seconds.
    fn instant(&self, sum: f64) -> f64 {
        let hour = self.sums.partition_point(|&until| until < sum).min(self.sums.len().saturating_sub(1));
        let before = if hour == 0 { 0.0 } else { self.sums[hour - 1] };
        let within = self.sums.get(hour).copied().unwrap_or(0.0) - before;
        // The last hour may be a part of one.
        let length = (self.span - hour as f64 * HOUR).min(HOUR);
        let part = if within > 0.0 { ((sum - before) / within).clamp(0.0, 1.0) } else { 0.0 };
        hour as f64 * HOUR + part * length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_ascend_from_zero_to_the_end() {
        for span in [1.0, 100.0, 3600.0, 5000.0, 1e6, 1e8] {
            let times = times(500, span, Random::new(1));
            assert_eq!((times[0], times[499]), (0, span as i64), "{span}");
            assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
        }
        assert_eq!(times(1, 100.0, Random::new(1)), [0]);
    }

    #[test]
    fn days_are_busier_than_nights_and_weekends() {
        let times = times(20_000, 4.0 * 7.0 * 86_400.0, Random::new(1));
        let count = |of: &dyn Fn(i64, i64) -> bool| {
            times.iter().filter(|&&at| of(at / 3600 % 24, at / 86_400 % 7)).count() as f64
        };
        assert!(count(&|hour, _| (10..16).contains(&hour)) > 3.0 * count(&|hour, _| hour < 6));
        assert!(count(&|_, day| day < 2) > 1.5 * count(&|_, day| day >= 5));
    }

    #[test]
    fn bursts_make_gaps_more_uneven_than_chance() {
        let times = times(20_000, 2e7, Random::new(1));
        let short = times.windows(2).filter(|pair| pair[1] - pair[0] < 30).count();
        // Without bursts about 3 % of the gaps (mean 1000 s) would be that short.
        assert!(short > 20_000 / 4, "{short}");
    }
}
