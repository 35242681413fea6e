//! Trailing windows: a measured value, or what stands in for it.

/// The measured value if there is one, a measured 0 included; otherwise the fallback.
pub fn or_else(measured: Option<f64>, fallback: f64) -> f64 {
    measured.unwrap_or(fallback)
}

/// The middle of some values, or the mean of the two in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        for (values, middle) in
            [(&[][..], None), (&[3.0], Some(3.0)), (&[9.0, 1.0, 2.0], Some(2.0)), (&[4.0, 1.0], Some(2.5))]
        {
            assert_eq!(super::median(values.iter().copied()), middle);
        }
    }

    #[test]
    fn p31_a_measured_zero_is_a_value() {
        assert_eq!([Some(5.0), Some(0.0), None].map(|window| super::or_else(window, 9.0)), [5.0, 0.0, 9.0]);
    }
}
