//! Share in use that fades: what a tenant held long ago counts less than what it holds now.

use std::f64::consts::LN_2;

use landfall_model::Millis;
use serde::{Deserialize, Serialize};

/// Amounts held over time, each halved with every half-life that has passed since.
///
/// A tenant and its pool each keep one; their quotient is the tenant's usage.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Decayed(f64);

impl Decayed {
    /// The value after a span in which `held` node units were held throughout. A half-life of zero forgets at once.
    #[must_use]
    pub fn after(self, span: Millis, held: f64, half_life: Millis) -> Self {
        if half_life.is_zero() {
            return Self::default();
        }
        let half_life = half_life.as_secs_f64();
        let kept = libm::exp2(-span.as_secs_f64() / half_life);
        Self(self.0 * kept + held * (half_life / LN_2) * (1.0 - kept))
    }

    /// This tenant's part of what its pool had; 0 if the pool had nothing.
    pub fn share_of(self, pool: Self) -> f64 {
        if pool.0 > 0.0 { self.0 / pool.0 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEEK: Millis = Millis::secs(7 * 86_400);

    #[test]
    fn one_step_equals_many() {
        let whole = Decayed::default().after(WEEK, 10.0, WEEK);
        let mut parts = Decayed::default();
        for _ in 0..7 {
            parts = parts.after(Millis::secs(86_400), 10.0, WEEK);
        }
        assert!((whole.0 - parts.0).abs() < 1e-6 * whole.0);
    }

    #[test]
    fn a_constant_share_is_that_share() {
        let of = |held| Decayed::default().after(WEEK, held, WEEK).after(Millis::secs(5), held, WEEK);
        assert!((of(3.0).share_of(of(12.0)) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn nothing_of_nothing_is_nothing() {
        assert_eq!(Decayed::default().share_of(Decayed::default()), 0.0);
        assert_eq!(Decayed(5.0).after(WEEK, 1.0, Millis::ZERO), Decayed::default());
    }
}
