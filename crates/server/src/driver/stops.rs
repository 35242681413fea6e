//! Stops that are said again: with growing pauses, and not for ever.
//!
//! A stop goes out whenever something is heard of an attempt that is over: with a report, with every heartbeat. An agent that
//! answers a stop by such a report would otherwise be told again at once, and the two would go on as fast as the line allows.

use std::collections::BTreeMap;

use landfall_engine::{Fence, Input};
use landfall_model::{JobId, Millis, NodeId, Time};

use super::core::Core;

/// Pause after the first stop; it doubles with every further one.
const FIRST_PAUSE: Millis = Millis::secs(1);
/// Stops that are said of one attempt to one node.
const TIMES_MAX: u32 = 10;

#[derive(Debug)]
struct Said {
    grace: Millis,
    times: u32,
    next: Time,
}

#[derive(Debug, Default)]
pub(super) struct Stops {
    said: BTreeMap<NodeId, BTreeMap<(JobId, u32), Said>>,
    /// Nodes that went on after the last stop.
    deaf: Vec<NodeId>,
}

impl Stops {
    /// Whether a node is to be told now. A shorter grace is news, and told in any case.
    pub(super) fn may(&mut self, node: &NodeId, fence: &Fence, grace: Millis, now: Time) -> bool {
        #[cfg(feature = "mutations")]
        if crate::mutation::Fault::StopsRepeated.is_planted() {
            return true;
        }
        let of_node = self.said.entry(node.clone()).or_default();
        let at = (fence.job.clone(), fence.attempt);
        match of_node.get_mut(&at) {
            Some(said) if said.grace <= grace => {
                if now < said.next || said.times > TIMES_MAX {
                    return false;
                }
                said.times += 1;
                said.next = now + Millis::new(FIRST_PAUSE.get() << (said.times - 1).min(TIMES_MAX));
                if said.times > TIMES_MAX {
                    self.deaf.push(node.clone());
                    return false;
                }
            }
            _ => {
                of_node.insert(at, Said { grace, times: 1, next: now + FIRST_PAUSE });
            }
        }
        true
    }

    /// An attempt is over on a node.
    pub(super) fn over(&mut self, node: &NodeId, fence: &Fence) {
        if let Some(of_node) = self.said.get_mut(node) {
            of_node.remove(&(fence.job.clone(), fence.attempt));
        }
    }

    /// A node begins anew, or is gone.
    pub(super) fn forget(&mut self, node: &NodeId) {
        self.said.remove(node);
    }
}

impl Core {
    /// A node that does not stop what it is told to stop is not well: it gets no more work until a probe finds that it is.
    pub(super) fn take_out_deaf_nodes(&mut self) {
        for node in std::mem::take(&mut self.stops.deaf) {
            tracing::warn!(%node, "goes on with something that it was told to stop {TIMES_MAX} times");
            self.step(Input::Probe { node, good: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let node = NodeId::new("n").unwrap();
        let fence = Fence { job: JobId::new("j").unwrap(), attempt: 1, epoch: 1 };
        let mut stops = Stops::default();
        let at = |ms: i64| Time::from_millis(ms);
        assert!(stops.may(&node, &fence, Millis::secs(30), at(0)));
        assert!(stops.may(&node, &fence, Millis::ZERO, at(1)), "sooner is news");
        assert!(!stops.may(&node, &fence, Millis::secs(30), at(2)), "later is not");
        let mut told = Vec::new();
        for ms in (2..2_000_000).step_by(10) {
            if stops.may(&node, &fence, Millis::ZERO, at(ms)) {
                told.push(ms);
            }
        }
        assert_eq!(told.len(), 9, "{told:?}");
        assert!(told.windows(3).all(|at| at[2] - at[1] >= 2 * (at[1] - at[0]) - 20), "{told:?}");
        assert_eq!(stops.deaf, std::slice::from_ref(&node));
        stops.over(&node, &fence);
        assert!(stops.may(&node, &fence, Millis::ZERO, at(2)));
    }
}
