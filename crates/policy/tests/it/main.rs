//! Acceptance cases and properties of policies, through scenario files.

mod batch_factors;
mod binpack;
mod fit;
#[path = "../../benches/fleet/mod.rs"]
mod fleet;
mod index;
mod offers;
mod packing;
mod policy_files;
mod pull_rules;
mod support;
