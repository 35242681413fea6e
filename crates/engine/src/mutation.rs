//! Faults that can be planted in the ledger and in how silence is counted, to see whether the checks of
//! `landfall_testkit::invariants` and the simulation of a whole service notice them.

use crate::engine::Engine;
use crate::ledger::{Counted, Proposal, Reason};

/// A fault of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It gives away devices that are taken.
    AwardTaken,
    /// It places a job that is placed already.
    AwardPlaced,
    /// It does not take back what was held when a hold ends.
    LeakedHold,
    /// The silence of a node counts from when it was last heard, also by a server that was not there.
    SilenceFromBefore,
}

impl Engine {
    /// What a ledger with the planted fault says.
    pub(crate) fn mutated(
        &self,
        proposal: &Proposal,
        checked: Result<Counted, Vec<Reason>>,
    ) -> Result<Counted, Vec<Reason>> {
        match (self.fault, checked) {
            (Some(Fault::AwardTaken), Err(reasons)) if reasons == [Reason::NodeTaken] => self
                .state
                .job(&proposal.job)
                .map(|record| self.state.counted(proposal, record))
                .ok_or(reasons),
            (_, checked) => checked,
        }
    }
}
