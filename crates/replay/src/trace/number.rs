//! Numbers out of bytes, without a string on the way: logs have millions of them.

/// A number as logs write it: an integer, or a decimal where the log has them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Whole(i64),
    Decimal(f64),
}

impl Number {
    /// Reads a whole token; `None` if it is not a finite number or not near what 64 bits can hold.
    #[inline]
    pub(crate) fn parse(token: &[u8]) -> Option<Self> {
        let (negative, digits) = match token.split_first() {
            Some((b'-', rest)) => (true, rest),
            Some((b'+', rest)) => (false, rest),
            _ => (false, token),
        };
        // Eighteen digits always fit; anything longer or with other characters takes the slow way.
        if digits.is_empty() || digits.len() > 18 {
            return Self::parse_slowly(token);
        }
        let mut value: i64 = 0;
        for &byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return Self::parse_slowly(token);
            }
            value = value * 10 + i64::from(digit);
        }
        Some(Self::Whole(if negative { -value } else { value }))
    }

    #[cold]
    fn parse_slowly(token: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(token).ok()?;
        if let Ok(whole) = text.parse::<i64>() {
            return Some(Self::Whole(whole));
        }
        // Rust also reads "inf" and "nan", which are no measurements.
        if !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E')) {
            return None;
        }
        text.parse::<f64>().ok().filter(|value| value.is_finite()).map(Self::Decimal)
    }

    /// The integer part; `None` where 64 bits cannot hold it.
    #[inline]
    pub(crate) fn truncated(self) -> Option<i64> {
        match self {
            Self::Whole(value) => Some(value),
            Self::Decimal(value) => {
                // 2^63 as a float is exact; the cast below saturates and would hide an overflow.
                let limit = 9_223_372_036_854_775_808.0_f64;
                (value > -limit && value < limit).then_some(value as i64)
            }
        }
    }

    #[inline]
    pub(crate) fn decimal(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Decimal(value) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_logs() {
        let whole = |text: &str| Number::parse(text.as_bytes()).and_then(Number::truncated);
        assert_eq!(whole("0"), Some(0));
        assert_eq!(whole("-1"), Some(-1));
        assert_eq!(whole("+7"), Some(7));
        assert_eq!(whole("0012"), Some(12));
        assert_eq!(whole("999999999999999999"), Some(999_999_999_999_999_999));
        assert_eq!(whole("9223372036854775807"), Some(i64::MAX));
        assert_eq!(whole("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(whole("9223372036854775808"), None);
        assert_eq!(whole("7.98"), Some(7));
        assert_eq!(whole("-0.5"), Some(0));
        assert_eq!(whole("1e3"), Some(1000));
        assert_eq!(Number::parse(b"7.38").map(Number::decimal), Some(7.38));
    }

    #[test]
    fn everything_else_is_refused() {
        for text in
            ["", "-", "+", "--1", "1-", "x", "1x", "inf", "NaN", "1e999", "0x10", "1,5", "1.2.3", "\u{663}"]
        {
            assert_eq!(Number::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Number::parse(b"\xff"), None);
    }
}
