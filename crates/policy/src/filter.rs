//! The contract of a filter: a rule that admits or refuses a pair, with a reason.

use serde::Serialize;

use crate::params::{ParamError, ParamInfo, Params};
use crate::refusal::{Reason, Refusal};
use crate::view::View;

/// A rule that admits or refuses a pair of job and node.
pub trait Filter: Send + Sync {
    /// `None` admits.
    ///
    /// As time passes and nothing else changes, a filter may stop admitting; it may begin to admit only at the instant
    /// that its refusal named with [`Refusal::until`].
    fn check(&self, view: &View<'_>) -> Option<Refusal>;
}

impl<F: Fn(&View<'_>) -> Option<Refusal> + Send + Sync> Filter for F {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        self(view)
    }
}

/// What of a node an answer rests on. It says when whoever plans ahead has to ask ([`crate::planning`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// Times, dependencies, state, occupancy and leases: a planner works these out itself, for every instant.
    Plan,
    /// What the node is made of, where it stands and whether it serves.
    Make,
    /// What else it was registered with, such as runtimes, tenants and approval.
    Registration,
    /// How it is now: what runs there, what was measured, when it was heard; or who it is.
    Moment,
}

/// What the catalogue says about a filter.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FilterInfo {
    /// Its name: public and persisted, never changed.
    pub name: &'static str,
    /// One sentence for people.
    pub description: &'static str,
    /// The reasons it may give.
    pub reasons: &'static [Reason],
    pub params: &'static [ParamInfo],
    /// Whether the outcome may change as time passes.
    pub clock: bool,
    /// Whether the outcome depends on the job beyond its class.
    pub job_identity: bool,
    pub about: About,
    #[serde(skip)]
    pub build: fn(&Params<'_>) -> Result<Box<dyn Filter>, ParamError>,
}

impl FilterInfo {
    /// What most filters have in common: they look at what a node is made of. Each says the rest.
    pub(crate) const fn of(build: fn(&Params<'_>) -> Result<Box<dyn Filter>, ParamError>) -> Self {
        Self {
            name: "",
            description: "",
            reasons: &[],
            params: &[],
            clock: false,
            job_identity: false,
            about: About::Make,
            build,
        }
    }
}
