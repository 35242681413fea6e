//! Filter `approved`: an operator lets the node take part.

use crate::filter::{Filter, FilterInfo};
use crate::params::{ParamError, Params};
use crate::refusal::{Quantity, Refusal, Wake};
use crate::view::View;
use landfall_model::Approval;

/// What the catalogue says.
pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "approved",
    description: "Admits nodes that an operator approved.",
    reasons: &["not_approved"],
    params: &[],
    clock: false,
    job_identity: false,
    build,
};

struct Approved;

fn build(_: &Params<'_>) -> Result<Box<dyn Filter>, ParamError> {
    Ok(Box::new(Approved))
}

impl Filter for Approved {
    fn check(&self, view: &View<'_>) -> Option<Refusal> {
        let found = match view.node.approval {
            Approval::Approved => return None,
            Approval::Pending => "pending",
            Approval::Suspended => "suspended",
        };
        Some(
            Refusal::not_now(
                "not_approved",
                Quantity::Word("approved"),
                Quantity::Word(found),
                Wake::ApprovalChange,
            )
            .remedy("an operator must approve the node"),
        )
    }
}
