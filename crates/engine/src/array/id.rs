//! Ids of elements: the array's, a dot, and the index with as many digits as the last one has.
//!
//! All ids of an array have one length, so that their order as bytes is the order of their indices.

use landfall_model::{IdError, JobId};

/// The id of one element. `last` is the last index of its array.
pub fn element_id(array: &JobId, index: u32, last: u32) -> Result<JobId, IdError> {
    let width = digits(last);
    JobId::new(&format!("{array}.{index:0width$}"))
}

/// The array and the index that an id has the form of; whether there is such an array is another question.
pub fn parse_element_id(id: &JobId) -> Option<(&str, u32)> {
    let (array, index) = id.as_str().rsplit_once('.')?;
    let plain = !array.is_empty() && !index.is_empty() && index.len() <= 10;
    if !plain || !index.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((array, index.parse().ok()?))
}

/// Digits of the last index.
pub(super) fn digits(last: u32) -> usize {
    last.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> JobId {
        JobId::new(text).unwrap()
    }

    #[test]
    fn bytewise_order_is_index_order() {
        let of = |index| element_id(&id("a"), index, 1000).unwrap();
        assert_eq!(of(7).as_str(), "a.0007");
        assert!([0, 7, 99, 100, 1000].windows(2).all(|pair| of(pair[0]) < of(pair[1])));
        assert_eq!(element_id(&id("a"), 0, 0).unwrap().as_str(), "a.0");
    }

    #[test]
    fn an_id_reads_back() {
        let whole = element_id(&id("a.b"), 42, u32::MAX).unwrap();
        assert_eq!(parse_element_id(&whole), Some(("a.b", 42)));
        for text in ["a", "a.", ".5", "a.x", "a.-1", "a.+1", "a.99999999999"] {
            assert_eq!(parse_element_id(&id(text)), None, "{text}");
        }
    }

    #[test]
    fn an_id_that_would_be_too_long_is_refused() {
        assert!(element_id(&id(&"x".repeat(250)), 1, 1_000_000).is_err());
    }
}
