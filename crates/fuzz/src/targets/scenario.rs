//! Scenario files, and what every built-in policy says about a small one.

use std::sync::OnceLock;

use landfall_model::scenario::{Format, parse};
use landfall_policy::{Policy, builtin};

use super::policy::has_a_place;

/// Pairs of a larger situation are not all judged.
const ROWS_JUDGED: usize = 8;

pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let format = if text.trim_start().starts_with('{') { Format::Json } else { Format::Toml };
    if says_many(text) {
        return;
    }
    let situation = match parse(text, format) {
        Ok(situation) => situation,
        Err(error) => return has_a_place(&error),
    };
    for policy in policies() {
        for job in situation.jobs().iter().take(ROWS_JUDGED) {
            let ranking = policy.rank_nodes(&situation, job);
            assert!(serde_json::to_string(&ranking).is_ok(), "it can be shown");
        }
        for node in situation.nodes().iter().take(ROWS_JUDGED) {
            let _ = policy.rank_jobs(&situation, node);
        }
    }
}

/// Whether a row says that it stands for thousands: large fleets take time and memory as they should.
pub(crate) fn says_many(text: &str) -> bool {
    let large = |rest: &str| rest.bytes().take(24).filter(u8::is_ascii_digit).count() > 3;
    text.split("count").skip(1).any(large)
}

fn policies() -> &'static [Policy] {
    static POLICIES: OnceLock<Vec<Policy>> = OnceLock::new();
    POLICIES.get_or_init(|| {
        let built = builtin::ALL.iter().filter_map(|(name, _)| builtin::policy(name)?.ok());
        built.collect()
    })
}
