//! What was read has to survive being written.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a value, and if it can be read, writes it, reads that and writes it again: both must say the same.
///
/// Texts are compared, not values: a value with a number that is unequal to itself would never be the same.
pub(crate) fn json<T: Serialize + DeserializeOwned>(text: &str) -> Option<T> {
    let value: T = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "a refusal says why");
            return None;
        }
    };
    let once = serde_json::to_string(&value).expect("what was read can be written");
    let again: T = serde_json::from_str(&once).unwrap_or_else(|error| panic!("{error}: {once}"));
    let twice = serde_json::to_string(&again).expect("it was written before");
    assert!(once == twice || same(&parsed(&once), &parsed(&twice)), "{once}\nis read as\n{twice}");
    Some(value)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("what was written is JSON")
}

/// Whether two values say the same. A number that is no integer may be off by its last digit: the reader of JSON is allowed that.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => {
            let near = |a: f64, b: f64| (a - b).abs() <= a.abs() * 1e-14;
            a == b
                || (a.is_f64() && b.is_f64() && a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| near(a, b)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && same(a, b))
        }
        _ => one == other,
    }
}
