//! The only clock of the server.

use std::time::{SystemTime, UNIX_EPOCH};

use landfall_model::Time;

/// Milliseconds since 1970. The engine keeps time from going back.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
