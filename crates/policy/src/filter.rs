//! The contract of a filter: a rule that admits or refuses a pair, with a reason.

use serde::Serialize;

use crate::params::{ParamError, ParamInfo, Params};
use crate::refusal::Refusal;
use crate::view::View;

/// A rule that admits or refuses a pair of job and node.
pub trait Filter: Send + Sync {
    /// `None` admits.
    ///
    /// As time passes and nothing else changes, a filter may stop admitting; it may begin to admit only at the instant
    /// that its refusal named with [`Refusal::until`].
    fn check(&self, view: &View<'_>) -> Option<Refusal>;
}

/// What the catalogue says about a filter.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FilterInfo {
    /// Its name: public and persisted, never changed.
    pub name: &'static str,
    /// One sentence for people.
    pub description: &'static str,
    /// The reasons it may give.
    pub reasons: &'static [&'static str],
    pub params: &'static [ParamInfo],
    /// Whether the outcome may change as time passes.
    pub clock: bool,
    /// Whether the outcome depends on the job beyond its class.
    pub job_identity: bool,
    #[serde(skip)]
    pub build: fn(&Params<'_>) -> Result<Box<dyn Filter>, ParamError>,
}
