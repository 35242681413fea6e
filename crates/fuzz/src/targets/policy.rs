//! Policy files: what compiles can be written down and compiles to the same.

use landfall_model::scenario::ScenarioError;
use landfall_policy::{Policy, policy_file};

pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let spec = match policy_file::parse(text) {
        Ok(spec) => spec,
        Err(error) => return has_a_place(&error),
    };
    if let Some(written) = policy_file::text(&spec) {
        let again = policy_file::parse(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
        assert_eq!(policy_file::text(&again).as_deref(), Some(written.as_str()));
    }
    match policy_file::load(text) {
        Ok(policy) => drop(Policy::compile(policy.spec().clone()).expect("it compiled before")),
        Err(error) => has_a_place(&error),
    }
}

/// A refusal tells what is wrong and where: a field or a position.
pub(crate) fn has_a_place(error: &ScenarioError) {
    assert!(!error.message.is_empty(), "a refusal says why");
    assert!(!error.field.is_empty() || error.position.is_some(), "a refusal says where: {error:?}");
}
