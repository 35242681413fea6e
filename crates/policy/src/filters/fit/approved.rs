//! Filter `approved`: an operator lets the node take part.

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;
use landfall_model::Approval;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "approved",
    description: "Admits nodes that an operator approved.",
    reasons: &[Reason::NotApproved],
    about: About::Registration,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

pub(crate) fn check(view: &View<'_>) -> Option<Refusal> {
    let found = match view.node.approval {
        Approval::Approved => return None,
        Approval::Pending => "pending",
        Approval::Suspended => "suspended",
    };
    let (needed, found) = (Quantity::word("approved"), Quantity::word(found));
    let refusal = Refusal::not_now(Reason::NotApproved, needed, found, Wake::ApprovalChange);
    Some(refusal.remedy("an operator must approve the node"))
}
