//! Ids and names: short printable strings that compare bytewise and are cheap to copy.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

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

fn checked(text: &str) -> Result<Arc<str>, IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > ID_BYTES_MAX {
        return Err(IdError::TooLong(text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err(IdError::Control);
    }
    Ok(Arc::from(text))
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(value_type = String))]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and wraps a string.
            pub fn new(text: &str) -> Result<Self, IdError> {
                checked(text).map(Self)
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
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
                id.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
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
    fn a_digest_reads_back() {
        let text = "11".repeat(32);
        assert_eq!(Digest::try_from(text.clone()).unwrap().to_string(), text);
        assert_eq!(Digest::try_from("11".to_owned()), Err(IdError::Digest));
    }
}
