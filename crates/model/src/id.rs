//! Ids and names: short printable strings that compare bytewise and are cheap to copy.
//!
//! Nearly all are short, and maps are full of them. So a short one lies where it is used: comparing two reads no memory
//! elsewhere, and copying one takes none ([ADR 30](../../../docs/adr/0030-short-names-in-place.md)).

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest id accepted, in bytes.
const ID_BYTES_MAX: usize = 256;

/// Why a string is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The string has no characters.
    #[error("an id must not be empty")]
    Empty,
    /// The string is longer than an id may be.
    #[error("an id must have at most {ID_BYTES_MAX} bytes, this one has {0}")]
    TooLong(usize),
    /// The string has a control character, which would spoil tables and logs.
    #[error("an id must not contain control characters")]
    Control,
    /// A digest is written as 64 hexadecimal digits.
    #[error("a digest must have 64 hexadecimal digits")]
    Digest,
}

/// Longest text kept in place, in bytes: with its tag it takes two words, as a pointer to text would.
const SHORT_MAX: usize = 15;

/// The text of an id.
#[derive(Clone)]
enum Text {
    /// In place, filled up with zeros, which no text has.
    Short([u8; SHORT_MAX]),
    /// Elsewhere; a pointer of one word, so that short texts are not made larger by long ones.
    Long(Arc<Box<str>>),
}

impl Text {
    fn of(text: &str) -> Self {
        let mut bytes = [0; SHORT_MAX];
        match bytes.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                Self::Short(bytes)
            }
            None => Self::Long(Arc::new(Box::from(text))),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short(bytes) => {
                let filled = bytes.iter().position(|byte| *byte == 0).unwrap_or(SHORT_MAX);
                &bytes[..filled]
            }
            Self::Long(text) => text.as_bytes(),
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Short(_) => match std::str::from_utf8(self.as_bytes()) {
                Ok(text) => text,
                Err(_) => unreachable!("it was made of a text"),
            },
            Self::Long(text) => text,
        }
    }
}

/// The bytes as numbers in the same order, which compare faster; the second overlaps the first. Spelled out, because a build that
/// optimises little, as that of the tests, would call a function for each part, and maps ask for this all the time.
#[inline]
fn words(&[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o]: &[u8; SHORT_MAX]) -> (u64, u64) {
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u64::from_be_bytes([h, i, j, k, l, m, n, o]))
}

impl Ord for Text {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            // A text that begins another comes before it, and so do the zeros after it.
            (Self::Short(bytes), Self::Short(others)) => {
                let ((one, rest), (other, others)) = (words(bytes), words(others));
                if one == other { rest.cmp(&others) } else { one.cmp(&other) }
            }
            _ => self.as_bytes().cmp(other.as_bytes()),
        }
    }
}

impl PartialOrd for Text {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Text {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Short(bytes), Self::Short(others)) => words(bytes) == words(others),
            (Self::Long(text), Self::Long(others)) => Arc::ptr_eq(text, others) || text == others,
            _ => false,
        }
    }
}

impl Eq for Text {}

impl Hash for Text {
    /// Like the text itself, by which maps may be asked.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

fn checked(text: &str) -> Result<Text, IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > ID_BYTES_MAX {
        return Err(IdError::TooLong(text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err(IdError::Control);
    }
    Ok(Text::of(text))
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(value_type = String))]
        pub struct $name(Text);

        impl $name {
            /// Checks and wraps a string.
            pub fn new(text: &str) -> Result<Self, IdError> {
                checked(text).map(Self)
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(&String::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.as_str().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }
    )*};
}

ids! {
    /// A machine that runs work.
    NodeId
    /// One piece of work.
    JobId
    /// Leased capacity that nodes belong to.
    BlockId
    /// Nodes with one scheduler.
    PoolId
    /// Who owns jobs, shares, quotas and budgets.
    TenantId
    /// A named, reusable job template.
    WorkloadId
    /// Any other name: runtime, region, GPU model, feature, architecture, group, provider.
    Name
}

/// A 32-byte digest, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl TryFrom<String> for Digest {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(IdError::Digest);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |d: u8| (d as char).to_digit(16).unwrap_or(0) as u8;
            *byte = digit(pair[0]) << 4 | digit(pair[1]);
        }
        Ok(Self(bytes))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_refuse_what_would_spoil_a_table() {
        assert_eq!(NodeId::new(""), Err(IdError::Empty));
        assert_eq!(NodeId::new("a\nb"), Err(IdError::Control));
        assert_eq!(NodeId::new(&"x".repeat(257)), Err(IdError::TooLong(257)));
        assert!(NodeId::new("gpu-box 🚀").is_ok());
    }

    #[test]
    fn ids_compare_bytewise() {
        let id = |text| NodeId::new(text).unwrap();
        assert!(id("n10") < id("n2"));
        assert!(id("Z") < id("a"));
    }

    #[test]
    fn texts_of_any_length_compare_and_read_back_like_strings() {
        assert_eq!((size_of::<Name>(), size_of::<Option<Name>>()), (16, 16));
        let mut texts = vec!["é".repeat(7), "é".repeat(8), "a!".into(), "b".into(), "a".repeat(14) + "é"];
        texts.extend((1..40).map(|len| "a".repeat(len)));
        texts.extend((5..20).map(|len| "a".repeat(len) + "b"));
        for a in &texts {
            let name = Name::new(a).unwrap();
            assert_eq!((name.as_str(), name.to_string()), (a.as_str(), a.clone()));
            let json = serde_json::to_string(&name).unwrap();
            assert_eq!(json, serde_json::to_string(a).unwrap());
            assert_eq!(serde_json::from_str::<Name>(&json).unwrap(), name);
            for b in &texts {
                let other = Name::new(b).unwrap();
                assert_eq!((name.cmp(&other), name == other), (a.cmp(b), a == b), "{a} {b}");
            }
        }
        let by_name: std::collections::BTreeMap<Name, usize> =
            texts.iter().enumerate().map(|(at, text)| (Name::new(text).unwrap(), at)).collect();
        assert!(texts.iter().all(|text| by_name.contains_key(text.as_str())));
    }

    #[test]
    fn a_digest_reads_back() {
        let text = "11".repeat(32);
        assert_eq!(Digest::try_from(text.clone()).unwrap().to_string(), text);
        assert_eq!(Digest::try_from("11".to_owned()), Err(IdError::Digest));
    }
}
