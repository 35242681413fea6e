//! Numbers as they leave: six decimals in JSON, grouped digits for people.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

/// The number with six decimals, and never a negative zero, so that two runs give the same bytes.
pub fn rounded(value: f64) -> f64 {
    // Through text, because text rounds correctly where a multiplication by a million would not.
    format!("{value:.6}").parse::<f64>().unwrap_or(value) + 0.0
}

/// Digits for people: about five that matter, thousands apart from 10 000 on.
pub fn grouped(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size >= 10_000.0 || value == libm::trunc(value) => 0,
        _ if size >= 1000.0 => 1,
        _ if size >= 100.0 => 2,
        _ if size >= 10.0 => 3,
        _ => 4,
    };
    with_decimals(value, decimals)
}

/// The number with so many decimals and its thousands apart.
pub(crate) fn with_decimals(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let mut out = String::new();
    // What rounds to zero has no sign.
    if value < 0.0 && text.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) {
        out.push('\u{2212}');
    }
    for (place, digit) in whole.chars().enumerate() {
        // Four digits stand together, as print does it.
        if place > 0 && whole.len() > 4 && (whole.len() - place).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    out
}

/// Writes a number rounded.
pub(super) fn six<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    rounded(*value).serialize(to)
}

/// Writes a number rounded, or null.
pub(super) fn six_or_null<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    value.map(rounded).serialize(to)
}

/// Writes numbers by load, rounded, in ascending order of load.
pub(super) fn six_by_load<S: Serializer>(values: &BTreeMap<u32, f64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(values.iter().map(|(load, value)| (load, rounded(*value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_decimals_and_no_negative_zero() {
        for (value, want) in [
            (92.576_540_4, "92.57654"),
            (-0.000_000_1, "0.0"),
            (1.0 / 3.0, "0.333333"),
            (1e12, "1000000000000.0"),
        ] {
            assert_eq!(serde_json::to_string(&rounded(value)).unwrap(), want);
        }
    }

    #[test]
    fn people_read_grouped_digits() {
        for (value, want) in [
            (295_540.0, "295\u{202f}540"),
            (6836.872, "6836.9"),
            (92.576_54, "92.577"),
            (0.685_613, "0.6856"),
            (-12_345.6, "\u{2212}12\u{202f}346"),
            (0.0, "0"),
            (-0.000_001, "0.0000"),
        ] {
            assert_eq!(grouped(value), want, "{value}");
        }
    }
}
