//! Time as integers: instants and spans in milliseconds. There is no clock here; `now` is always an argument.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use crate::amount::{AmountError, amounts, parse_with_unit};

amounts! {
    /// A span of time in milliseconds.
    Millis, "milliseconds", max 1 << 46,
        units &[("ms", 1.0), ("s", 1000.0), ("min", 60_000.0), ("h", 3_600_000.0), ("d", 86_400_000.0), ("", 1.0)];
}

/// A span as people write it: `90s`, `10m` (minutes), `1h30m`, and on a clock `1:30:00` or `1-12:00:00` with days before the hours.
///
/// # Errors
/// If it is none; the text says what to write.
pub fn span(text: &str) -> Result<Millis, String> {
    let wrong = || format!("`{text}` is no span; write 30s, 10min, 1h30m, 2h, 1d or H:MM:SS");
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number < 10_000_000);
    let days = text.split_once('-');
    if text.contains(':') || days.is_some_and(|(days, _)| number(days).is_some()) {
        let (days, clock) = days.map_or((Some(0), text), |(days, clock)| (number(days), clock));
        let parts: Option<Vec<u64>> = clock.split(':').map(number).collect();
        let seconds = match (parts.as_deref(), text.contains('-')) {
            (Some([hours, minutes, seconds]), _) => Some(hours * 3600 + minutes * 60 + seconds),
            (Some([hours, minutes]), true) => Some(hours * 3600 + minutes * 60),
            (Some([hours]), true) => Some(hours * 3600),
            _ => None,
        };
        let span = seconds.zip(days).map(|(seconds, days)| Millis::secs(days * 86_400 + seconds));
        return span.ok_or_else(wrong);
    }
    if text.parse::<f64>().is_ok() {
        return Err("say in what unit: 30s, 10min, 2h, 1d".to_owned());
    }
    let mut total = Millis::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let unit = rest.find(|next: char| !(next.is_ascii_digit() || next == '.')).ok_or_else(wrong)?;
        let end = rest[unit..].find(|next: char| next.is_ascii_digit()).map_or(rest.len(), |end| unit + end);
        let (part, more) = rest.split_at(end);
        // A minute to everybody but files, where it might be a milli-something.
        let part = if part[unit..].trim() == "m" { format!("{}min", &part[..unit]) } else { part.to_owned() };
        total += part.parse::<Millis>().map_err(|_| wrong())?;
        rest = more;
    }
    Ok(total)
}

impl Millis {
    /// A number of seconds.
    pub const fn secs(value: u64) -> Self {
        Self::new(value * 1000)
    }

    /// The span in seconds.
    pub const fn as_secs_f64(self) -> f64 {
        self.get() as f64 / 1000.0
    }
}

/// In one or two units: `1.500 s`, `12 s`, `3 min 20 s`, `5 h 10 min`, `9 d 4 h`.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.get() / 1000;
        let (large, unit, small, below) = match secs {
            0..60 if !self.get().is_multiple_of(1000) => {
                return write!(f, "{:.3} s", self.get() as f64 / 1000.0);
            }
            0..60 => return write!(f, "{secs} s"),
            60..3600 => (secs / 60, "min", secs % 60, "s"),
            3600..86_400 => (secs / 3600, "h", secs % 3600 / 60, "min"),
            _ => (secs / 86_400, "d", secs % 86_400 / 3600, "h"),
        };
        write!(f, "{large} {unit}")?;
        if small > 0 { write!(f, " {small} {below}") } else { Ok(()) }
    }
}

/// An instant: milliseconds since an epoch that the scenario or the server chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Time(i64);

impl Time {
    pub const ZERO: Self = Self(0);

    /// An instant so many milliseconds after the epoch.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    /// An instant so many seconds after the epoch.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs * 1000)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The span from `earlier` to this instant; zero if this instant is the earlier one.
    pub const fn since(self, earlier: Self) -> Millis {
        let ms = self.0.saturating_sub(earlier.0);
        Millis::new(if ms > 0 { ms as u64 } else { 0 })
    }
}

impl Add<Millis> for Time {
    type Output = Self;
    fn add(self, span: Millis) -> Self {
        Self(self.0.saturating_add_unsigned(span.get()))
    }
}

impl Sub<Millis> for Time {
    type Output = Self;
    fn sub(self, span: Millis) -> Self {
        Self(self.0.saturating_sub_unsigned(span.get()))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t={:.3} s", self.0 as f64 / 1000.0)
    }
}

/// A span that people give in minutes, whole or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minutes(Millis);

impl Minutes {
    pub const fn new(span: Millis) -> Self {
        Self(span)
    }

    pub fn as_f64(self) -> f64 {
        self.0.as_secs_f64() / 60.0
    }
}

impl<'de> Deserialize<'de> for Minutes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Minutes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of minutes, 0 or more")
            }
            fn visit_u64<E: de::Error>(self, minutes: u64) -> Result<Minutes, E> {
                self.visit_f64(minutes as f64)
            }
            fn visit_i64<E: de::Error>(self, minutes: i64) -> Result<Minutes, E> {
                self.visit_f64(minutes as f64)
            }
            fn visit_f64<E: de::Error>(self, minutes: f64) -> Result<Minutes, E> {
                // Far more than anybody means, and exact.
                if !(0.0..=1e9).contains(&minutes) {
                    return Err(E::invalid_value(de::Unexpected::Float(minutes), &self));
                }
                Ok(Minutes(Millis::new((minutes * 60_000.0).round() as u64)))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

impl Serialize for Minutes {
    /// Whole minutes are written as such, as they were before there were others.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (whole, rest) = (self.0.get() / 60_000, self.0.get() % 60_000);
        if rest == 0 { serializer.serialize_u64(whole) } else { serializer.serialize_f64(self.as_f64()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, ms) in [
            ("90s", 90_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("1d 12h", 129_600_000),
            ("1.5h", 5_400_000),
            ("01:30:00", 5_400_000),
            ("1-00:00:00", 86_400_000),
            ("1-12", 129_600_000),
            ("500ms", 500),
        ] {
            assert_eq!(span(text), Ok(Millis::new(ms)), "{text}");
        }
        for wrong in
            ["10", "soon", "", "1:30", "h", "1h-", "1-2-3", "1h30", "-1h", "99999999999999999999:0:0"]
        {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_read_with_units() {
        for (text, want) in
            [("90s", 90_000), ("15min", 900_000), ("24 h", 86_400_000), ("250ms", 250), ("5", 5)]
        {
            assert_eq!(text.parse::<Millis>().unwrap().get(), want, "{text}");
        }
    }

    #[test]
    fn spans_are_shown_as_people_say_them() {
        let shown = [1500, 60_000, 90_250, 3_600_000, 7_199_000, 9_000_000, 86_400_000, 7_786_800_000];
        let want = ["1.500 s", "1 min", "1 min 30 s", "1 h", "1 h 59 min", "2 h 30 min", "1 d", "90 d 3 h"];
        assert_eq!(shown.map(|ms| Millis::new(ms).to_string()), want);
    }

    #[test]
    fn the_past_is_no_span() {
        assert_eq!(Time::from_secs(1).since(Time::from_secs(3)), Millis::ZERO);
        assert_eq!((Time::from_secs(1) + Millis::secs(2)).as_millis(), 3000);
    }
}
