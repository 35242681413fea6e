//! Trailing windows: a measured value, or what stands in for it.

/// The measured value if there is one, a measured 0 included; otherwise the fallback.
pub fn or_else(measured: Option<f64>, fallback: f64) -> f64 {
    measured.unwrap_or(fallback)
}

#[cfg(test)]
mod tests {
    #[test]
    fn p31_a_measured_zero_is_a_value() {
        assert_eq!([Some(5.0), Some(0.0), None].map(|window| super::or_else(window, 9.0)), [5.0, 0.0, 9.0]);
    }
}
