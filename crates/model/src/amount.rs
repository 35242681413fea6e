//! Amounts as integers in base units. Floats appear only in scores.
//!
//! Every amount has an upper bound far above any real machine, so that sums over a fleet stay exact in `u64` and in
//! `f64`. In files an amount is an integer in its base unit, or a string with a unit (`"8GiB"`, `"4 cores"`).

use std::fmt;
use std::ops::{Add, AddAssign, Mul};

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// Why a number or a string is not an amount.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AmountError {
    /// Larger than any real machine; sums might overflow.
    #[error("{value} is too large: at most {max} {unit} are accepted")]
    TooLarge { value: String, max: u64, unit: &'static str },
    /// Below zero.
    #[error("{0} is negative: an amount must be 0 or more")]
    Negative(String),
    /// Not a whole number of base units.
    #[error("{value} is not a whole number of {unit}")]
    Fractional { value: String, unit: &'static str },
    /// The text is not a number followed by a unit.
    #[error("`{0}` is not a number with a unit")]
    NotANumber(String),
    /// The unit is not one of the known ones.
    #[error("unknown unit `{unit}`: use {known}")]
    UnknownUnit { unit: String, known: String },
}

/// Splits `"1.5 GiB"` into number and unit and scales it to whole base units.
pub(crate) fn parse_with_unit(
    text: &str,
    base: &'static str,
    units: &[(&'static str, f64)],
    max: u64,
) -> Result<u64, AmountError> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+')));
    let (digits, unit) = text.split_at(split.unwrap_or(text.len()));
    let (digits, unit) = (digits.replace('_', ""), unit.trim());
    if digits.starts_with('-') {
        return Err(AmountError::Negative(text.to_owned()));
    }
    let number: f64 = digits.parse().map_err(|_| AmountError::NotANumber(text.to_owned()))?;
    let Some(&(_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let known = units
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| !name.is_empty())
            .collect::<Vec<_>>()
            .join(", ");
        return Err(AmountError::UnknownUnit { unit: unit.to_owned(), known });
    };
    let value = number * factor;
    if value > max as f64 {
        return Err(AmountError::TooLarge { value: text.to_owned(), max, unit: base });
    }
    // A nanosecond of slack: 0.1 GiB is no whole number of MiB, but 1.1 cores are 1100 milli-cores despite rounding.
    if (value - value.round()).abs() > 1e-6 {
        return Err(AmountError::Fractional { value: text.to_owned(), unit: base });
    }
    Ok(value.round() as u64)
}

macro_rules! amounts {
    ($($(#[$doc:meta])* $name:ident, $base:literal, max $max:expr, units $units:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            pub const ZERO: Self = Self(0);
            /// The largest amount accepted at the edge.
            pub const MAX: u64 = $max;
            /// The base unit as people write it.
            pub const UNIT: &'static str = $base;

            /// Checks and wraps a number of base units.
            pub fn try_new(value: u64) -> Result<Self, AmountError> {
                if value > Self::MAX {
                    return Err(AmountError::TooLarge { value: value.to_string(), max: Self::MAX, unit: $base });
                }
                Ok(Self(value))
            }

            /// Wraps a number that the program itself made; sums of accepted amounts may pass [`Self::MAX`].
            pub const fn new(value: u64) -> Self {
                Self(value)
            }

            /// The number of base units.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The number of base units as a float, for scores.
            pub const fn as_f64(self) -> f64 {
                self.0 as f64
            }

            /// What is left, never below zero.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// Whether there is none.
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl Mul<u64> for $name {
            type Output = Self;
            fn mul(self, factor: u64) -> Self {
                Self(self.0.saturating_mul(factor))
            }
        }

        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Add::add)
            }
        }

        impl std::str::FromStr for $name {
            type Err = AmountError;
            fn from_str(text: &str) -> Result<Self, AmountError> {
                parse_with_unit(text, $base, $units, Self::MAX).map(Self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct AmountVisitor;
                impl Visitor<'_> for AmountVisitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, concat!("a whole number of ", $base, ", or a string with a unit"))
                    }
                    fn visit_u64<E: de::Error>(self, value: u64) -> Result<$name, E> {
                        $name::try_new(value).map_err(E::custom)
                    }
                    fn visit_i64<E: de::Error>(self, value: i64) -> Result<$name, E> {
                        let value =
                            u64::try_from(value).map_err(|_| E::custom(AmountError::Negative(value.to_string())))?;
                        self.visit_u64(value)
                    }
                    fn visit_f64<E: de::Error>(self, value: f64) -> Result<$name, E> {
                        if value.fract() == 0.0 && (0.0..=$name::MAX as f64).contains(&value) {
                            return Ok($name(value as u64));
                        }
                        Err(E::custom(if value < 0.0 {
                            AmountError::Negative(value.to_string())
                        } else {
                            AmountError::Fractional { value: value.to_string(), unit: $base }
                        }))
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(AmountVisitor)
            }
        }
    )*};
}
pub(crate) use amounts;

amounts! {
    /// CPU in thousandths of a core.
    MilliCpu, "milli-cores", max 1 << 40,
        units &[("m", 1.0), ("milli", 1.0), ("core", 1000.0), ("cores", 1000.0), ("", 1.0)];
    /// Memory in MiB (2^20 bytes).
    Mib, "MiB", max 1 << 40,
        units &[("MiB", 1.0), ("GiB", 1024.0), ("TiB", 1_048_576.0), ("M", 1.0), ("G", 1024.0), ("T", 1_048_576.0), ("", 1.0)];
    /// GPU compute in thousandths of a device.
    MilliGpu, "milli-GPU", max 1000,
        units &[("m", 1.0), ("milli", 1.0), ("gpu", 1000.0), ("", 1.0)];
    /// Data in bytes.
    Bytes, "bytes", max 1 << 60,
        units &[("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0),
                ("TiB", 1_099_511_627_776.0), ("", 1.0)];
    /// Money in millionths of a currency unit.
    Money, "micro-units", max 1 << 50, units &[("", 1.0)];
}

impl Mib {
    /// A number of GiB.
    pub const fn gib(value: u64) -> Self {
        Self(value * 1024)
    }
}

impl MilliCpu {
    /// A number of whole cores.
    pub const fn cores(value: u64) -> Self {
        Self(value * 1000)
    }
}

impl MilliGpu {
    pub const WHOLE: Self = Self(1000);
}

impl fmt::Display for MilliCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 1000, self.0 % 1000) {
            (1, 0) => write!(f, "1 core"),
            (cores, 0) => write!(f, "{cores} cores"),
            _ => write!(f, "{} cores", self.0 as f64 / 1000.0),
        }
    }
}

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "0 MiB"),
            mib if mib % 1024 == 0 => write!(f, "{} GiB", mib / 1024),
            mib if mib > 10 * 1024 => write!(f, "{:.1} GiB", mib as f64 / 1024.0),
            mib => write!(f, "{mib} MiB"),
        }
    }
}

impl fmt::Display for MilliGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} milli-GPU", self.0)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// Money as people give it: a number of currency units, kept in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Price(Money);

impl Price {
    pub const ZERO: Self = Self(Money::ZERO);
    /// The largest that is accepted.
    pub const MAX: f64 = 1e9;

    pub const fn new(money: Money) -> Self {
        Self(money)
    }

    /// So many currency units, if that can be a price.
    pub fn of(units: f64) -> Option<Self> {
        let micro = (units * 1e6).round();
        (0.0..=Self::MAX).contains(&units).then(|| Self(Money::new(micro as u64)))
    }

    pub const fn get(self) -> Money {
        self.0
    }

    /// Currency units.
    pub fn as_f64(self) -> f64 {
        self.0.as_f64() / 1e6
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f64().fmt(f)
    }
}

impl std::str::FromStr for Price {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let units = text.trim().parse().unwrap_or(f64::NAN);
        Self::of(units).ok_or_else(|| format!("`{text}` is no price: write a number of 0 to {}", Self::MAX))
    }
}

impl Serialize for Price {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Price;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a price: a number of 0 to {}", Price::MAX)
            }
            fn visit_u64<E: de::Error>(self, units: u64) -> Result<Price, E> {
                self.visit_f64(units as f64)
            }
            fn visit_i64<E: de::Error>(self, units: i64) -> Result<Price, E> {
                self.visit_f64(units as f64)
            }
            fn visit_f64<E: de::Error>(self, units: f64) -> Result<Price, E> {
                Price::of(units).ok_or_else(|| E::invalid_value(de::Unexpected::Float(units), &self))
            }
        }
        deserializer.deserialize_any(Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_with_units_become_base_units() {
        for (text, want) in
            [("8GiB", 8192), ("512 MiB", 512), ("1.5GiB", 1536), ("2TiB", 2_097_152), ("77", 77)]
        {
            assert_eq!(text.parse::<Mib>().unwrap().get(), want, "{text}");
        }
        assert_eq!("4 cores".parse::<MilliCpu>().unwrap().get(), 4000);
        assert_eq!("1.1 cores".parse::<MilliCpu>().unwrap().get(), 1100);
        assert_eq!("500m".parse::<MilliCpu>().unwrap().get(), 500);
    }

    #[test]
    fn prices_are_numbers_and_read_back() {
        for (text, micro) in [("0.05", 50_000), ("12", 12_000_000), ("0", 0), ("1e9", 1_000_000_000_000_000)]
        {
            let price: Price = text.parse().unwrap();
            assert_eq!(price.get().get(), micro, "{text}");
            let written = serde_json::to_string(&price).unwrap();
            assert_eq!(serde_json::from_str::<Price>(&written).unwrap(), price, "{written}");
        }
        for wrong in ["-1", "NaN", "inf", "2e9", "dear"] {
            assert!(wrong.parse::<Price>().unwrap_err().contains("0 to 1000000000"), "{wrong}");
        }
        assert_eq!("0.05".parse::<Price>().unwrap().to_string(), "0.05");
    }

    #[test]
    fn bad_amounts_say_what_is_wrong() {
        let message = |text: &str| text.parse::<Mib>().unwrap_err().to_string();
        assert_eq!(message("8GB"), "unknown unit `GB`: use MiB, GiB, TiB, M, G, T");
        assert_eq!(message("-1GiB"), "-1GiB is negative: an amount must be 0 or more");
        assert_eq!(message("lots"), "`lots` is not a number with a unit");
        assert_eq!(message("0.0001 MiB"), "0.0001 MiB is not a whole number of MiB");
        assert!(message("99999999999TiB").contains("too large"));
    }
}
