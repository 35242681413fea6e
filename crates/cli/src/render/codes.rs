//! Stable names that servers use, in words for people. Names that are not known here are shown as they are.

use landfall_api::job::UNNEEDED;
use landfall_model::life::{Cause, not_placed};
use landfall_model::reason::Reason;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn named<T: DeserializeOwned>(code: &str) -> Option<T> {
    serde_json::from_value(Value::String(code.to_owned())).ok()
}

/// Why a job waits or how it ended.
pub(crate) fn reason(code: &str) -> String {
    let words = Reason::named(code).map(|reason| reason.said().into_owned());
    let words = words.or_else(|| named::<Cause>(code).map(|cause| cause.said().into_owned()));
    let words = words.or_else(|| not_placed(code).map(str::to_owned));
    words.unwrap_or_else(|| {
        match code {
            "timeout" => "it ran longer than it may",
            UNNEEDED => "it was there for a failure that did not happen",
            "dependency_unsatisfiable" => "what it waited for did not end as it needs",
            other => other,
        }
        .to_owned()
    })
}

/// Why an order changed nothing.
pub(crate) fn ignored(code: &str) -> &str {
    match code {
        "as_it_was" => "it was so before",
        "ended" => "it has ended",
        "stopping" => "it is being stopped already",
        "saving" => "it is saving its work already",
        "not_running" => "it does not run",
        "draining" => "it is draining already",
        "down" => "it is down",
        "in_service" => "it is in service",
        "submitted_before" => "it was submitted before",
        "unknown_job" => "there is no such job any more",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_words_and_words_stay() {
        for (code, words) in [
            ("user_hold", "it is held back"),
            ("ledger:node_state", "a node it would get takes no work"),
            ("node_lost", "its node is gone"),
            ("user", "somebody asked for it"),
            ("timeout", "it ran longer than it may"),
            ("dependency_unsatisfiable", "what it waited for did not end as it needs"),
            ("exec format error", "exec format error"),
            ("ledger:something_new", "ledger:something_new"),
        ] {
            assert_eq!(reason(code), words);
        }
        assert_eq!(ignored("as_it_was"), "it was so before");
        assert_eq!(ignored("something_new"), "something_new");
    }
}
