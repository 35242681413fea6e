//! Arithmetic that the rules share, written so that every result is finite and no zero is negative.

use crate::rules::window::or_else;
use crate::score::clamp01;

/// What is usual: the measured mean, a measured 0 included, or the fallback while there is none.
///
/// A mean that is no finite number tells nothing, so it counts as absent.
pub(super) fn usual(window: Option<f64>, fallback: f64) -> f64 {
    or_else(window.filter(|mean| mean.is_finite()), fallback)
}

/// `part / whole` within 0..1; `whole` is above 0.
pub(super) fn fraction(part: f64, whole: f64) -> f64 {
    let fraction = clamp01(part / whole);
    if fraction.is_nan() { 0.0 } else { fraction }
}

/// A rate within 0..1.
pub(super) fn rate(value: f64) -> f64 {
    fraction(value, 1.0)
}

/// Takes points away. Nothing taken away is 0 and not -0, which would look odd in records.
pub(super) fn minus(points: f64) -> f64 {
    0.0 - points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p31_a_measured_zero_is_a_value_and_nonsense_is_none() {
        let usual = |window| usual(window, 9.0);
        assert_eq!([Some(5.0), Some(0.0), None].map(usual), [5.0, 0.0, 9.0]);
        assert_eq!([Some(f64::NAN), Some(f64::INFINITY)].map(usual), [9.0, 9.0]);
    }

    #[test]
    fn fractions_stay_within_bounds() {
        assert_eq!(fraction(1.0, 4.0), 0.25);
        assert_eq!(fraction(9.0, 4.0), 1.0);
        assert_eq!(fraction(1.0, f64::MIN_POSITIVE), 1.0);
        assert_eq!(fraction(f64::NAN, 4.0), 0.0);
        assert_eq!((rate(-1.0), rate(0.5), rate(7.0)), (0.0, 0.5, 1.0));
    }

    #[test]
    fn no_zero_is_negative() {
        assert!(minus(0.0).is_sign_positive());
        assert_eq!(minus(3.0), -3.0);
    }
}
