//! A small seeded generator of random numbers: the same seed gives the same numbers on every platform.

/// SplitMix64: one 64-bit word of state, every seed is a good one.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator of its own for each seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator that does not share draws with this one or with those of other names: adding a draw to one part of a
    /// program leaves the other parts as they were.
    pub fn fork(&self, name: u64) -> Self {
        let mut mixed = Self::new(self.state ^ name.wrapping_mul(0xd134_2543_de82_ef95));
        Self::new(mixed.word())
    }

    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to, not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A whole number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product; the bias is far below anything a workload could show.
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// Whether something of this probability happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Normal with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(2.0 * self.exponential());
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Log-normal with this median; `spread` is the deviation of the logarithm.
    pub fn log_normal(&mut self, median: f64, spread: f64) -> f64 {
        median * libm::exp(spread * self.normal())
    }

    /// A place in a list of cumulative weights, the last of which is the sum.
    pub fn weighted(&mut self, cumulative: &[f64]) -> usize {
        let at = self.unit() * cumulative.last().copied().unwrap_or(0.0);
        cumulative.partition_point(|&sum| sum <= at).min(cumulative.len().saturating_sub(1))
    }
}

/// Cumulative weights 1, 1/2^s, 1/3^s, …: a few are popular, most are rare.
pub fn zipf(count: usize, exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    (1..=count)
        .map(|rank| {
            sum += libm::pow(rank as f64, -exponent);
            sum
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_of_a_seed_are_fixed() {
        // Published outputs of SplitMix64 for seed 1234567.
        let mut random = Random::new(1_234_567);
        let words = [random.word(), random.word(), random.word()];
        assert_eq!(words, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn means_are_where_they_should_be() {
        let mut random = Random::new(1);
        let mut mean = |draw: &mut dyn FnMut(&mut Random) -> f64| {
            (0..20_000).map(|_| draw(&mut random)).sum::<f64>() / 20_000.0
        };
        assert!((mean(&mut Random::unit) - 0.5).abs() < 0.02);
        assert!((mean(&mut Random::exponential) - 1.0).abs() < 0.05);
        assert!(mean(&mut Random::normal).abs() < 0.05);
        assert!((mean(&mut |r| r.below(11) as f64) - 5.0).abs() < 0.1);
        assert!((mean(&mut |r| libm::log(r.log_normal(1.0, 1.0))) - 0.0).abs() < 0.05);
    }

    #[test]
    fn popular_ones_come_first() {
        let weights = zipf(10, 1.0);
        let mut random = Random::new(2);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            counts[random.weighted(&weights)] += 1;
        }
        assert!(counts.windows(2).filter(|pair| pair[0] > pair[1]).count() >= 7, "{counts:?}");
        assert!(counts.iter().all(|&count| count > 0));
        assert_eq!(random.weighted(&[]), 0);
    }
}
