//! Holds: what a placer outside the server keeps while it prepares a placement.

use landfall_model::{Dispatch, JobId, Millis, NodeId, Placement};

use super::unknown;
use crate::effect::{Answer, Refused};
use crate::engine::Engine;
use crate::event::{Event, Grant, Hold, HoldEnd};
use crate::ledger::Proposal;
use crate::record::StartKind;
use landfall_model::life::Breakdown;
use landfall_model::life::Fence;

/// The shortest and the longest life of a hold.
const LIFETIME: (Millis, Millis) = (Millis::secs(1), Millis::secs(86_400));

impl Engine {
    pub(crate) fn reserve(
        &mut self,
        job: &JobId,
        node: &NodeId,
        gpus: &[u16],
        lifetime: Option<Millis>,
        fence: Option<&Fence>,
    ) -> Answer {
        if let Err(refused) = self.unfold_named(job) {
            return Answer::Refused(refused);
        }
        match self.hold_for(job, node, gpus, lifetime, fence) {
            Err(refused) => Answer::Refused(refused),
            Ok(Ok(known)) => Answer::Held { id: known.id, expires_at: known.expires_at },
            Ok(Err(hold)) => {
                let answer = Answer::Held { id: hold.id, expires_at: hold.expires_at };
                self.emit(Event::HoldMade(Box::new(hold)));
                answer
            }
        }
    }

    /// The hold that is there already, or the one to make.
    fn hold_for(
        &self,
        job: &JobId,
        node: &NodeId,
        gpus: &[u16],
        lifetime: Option<Millis>,
        fence: Option<&Fence>,
    ) -> Result<Result<Hold, Hold>, Refused> {
        let record = self.state.job(job).ok_or_else(|| unknown("job", job.as_str()))?;
        let (at, _) = self.state.node(node).ok_or_else(|| unknown("node", node.as_str()))?;
        let pool =
            self.state.places.get(node).map(|(pool, _)| pool.clone()).unwrap_or_else(|| record.pool.clone());
        let usual = self.state.pools.get(&pool).map_or(LIFETIME.0, |pool| pool.pool.push.hold_ms);
        let lifetime = lifetime.unwrap_or(usual);
        if lifetime < LIFETIME.0 || lifetime > LIFETIME.1 {
            let message = format!("a hold cannot live for {lifetime}");
            return Err(Refused::new("bad_lifetime", message, "ask for 1 s to 86400 s"));
        }
        if let Some(index) = gpus.iter().enumerate().find_map(|(position, index)| {
            (at.gpu(*index).is_none() || gpus[..position].contains(index)).then_some(index)
        }) {
            let message = format!("node `{node}` has no device {index}, or it is named twice");
            return Err(Refused::new("bad_index", message, "name each device of the node once"));
        }
        if gpus.len() != record.job.spec.gpu_count as usize {
            let message =
                format!("job `{job}` needs {} devices, not {}", record.job.spec.gpu_count, gpus.len());
            return Err(Refused::new("bad_count", message, "name as many devices as the job needs"));
        }
        let whole_nodes = record.job.spec.exclusive
            && self.state.pools.get(&record.pool).is_some_and(|pool| pool.pool.dispatch == Dispatch::Batch);
        if record.job.spec.nodes.min > 1 || whole_nodes {
            let message =
                format!("job `{job}` takes whole nodes or several at once, and a hold is part of one");
            return Err(Refused::new("whole_nodes", message, "let its pool place it"));
        }
        let stale = fence.is_some_and(|fence| fence.job != *job || fence.attempt < record.attempt);
        if stale || !record.is_queued() {
            let message = format!("job `{job}` is no longer what it was, or does not wait");
            return Err(Refused::new("stale", message, "look at the job again"));
        }
        if let Some(live) = self.state.holds.values().find(|hold| hold.job == *job) {
            let same = live.node == *node
                && live.placement.devices.iter().map(|share| share.index).eq(gpus.iter().copied())
                && live.attempt == record.attempt;
            if same {
                return Ok(Ok(live.clone()));
            }
            let message = format!("hold {} is there for job `{job}` already", live.id);
            return Err(Refused::new("held", message, "release it first"));
        }
        let placement = Placement::of(job.clone(), &record.job.spec, gpus);
        self.can_hold(&placement, node)?;
        Ok(Err(Hold {
            id: self.state.next_hold,
            job: job.clone(),
            attempt: record.attempt,
            pool,
            node: node.clone(),
            placement,
            expires_at: self.now + lifetime,
            created_at: self.now,
            award: None,
        }))
    }

    pub(super) fn can_hold(&self, placement: &Placement, node: &NodeId) -> Result<(), Refused> {
        let Some((at, kept)) = self.state.node(node) else { return Err(unknown("node", node.as_str())) };
        #[cfg(feature = "mutations")]
        if self.fault == Some(crate::mutation::Fault::AwardTaken) {
            return Ok(());
        }
        for share in &placement.devices {
            if let Some(holder) = at.gpu(share.index).and_then(|gpu| gpu.holder.as_ref()) {
                let message = format!("device {} of node `{node}` is used by job `{holder}`", share.index);
                return Err(Refused::new("occupied", message, "choose other devices, or wait"));
            }
        }
        // All that stand in the way are named, or whoever asks meets the next one after this.
        let in_the_way = |hold: &&Hold| {
            let asked = |index: u16| placement.devices.iter().any(|share| share.index == index);
            hold.node == *node && hold.placement.devices.iter().any(|share| asked(share.index))
        };
        let held: Vec<String> = self
            .state
            .holds
            .values()
            .filter(in_the_way)
            .map(|hold| {
                let devices: Vec<String> =
                    hold.placement.devices.iter().map(|share| share.index.to_string()).collect();
                format!("hold {} covers device {} for job `{}`", hold.id, devices.join(", "), hold.job)
            })
            .collect();
        if !held.is_empty() {
            let message = format!("node `{node}`: {}", held.join("; "));
            let help = "choose other devices, release them, or wait for them to end";
            return Err(Refused::new("held", message, help));
        }
        let open = self.state.takes_work(self.now, at, &placement.job)
            && kept.kept_for.is_none()
            && !at.placements.iter().any(|other| other.exclusive_node);
        if !open || at.clone().place(placement.clone()).is_err() {
            let message =
                format!("node `{node}` has too little CPU, RAM or GPU memory left, or takes no work");
            return Err(Refused::new("insufficient", message, "choose another node, or wait"));
        }
        Ok(())
    }

    pub(crate) fn release(&mut self, id: u64) -> Answer {
        #[cfg(feature = "mutations")]
        if self.fault == Some(crate::mutation::Fault::LeakedHold) {
            return Answer::Done;
        }
        if self.state.holds.contains_key(&id) {
            self.emit(Event::HoldEnded { id, why: HoldEnd::Released });
        }
        // Giving back what is gone is no mistake.
        Answer::Done
    }

    /// Turns a hold into a placement.
    pub(crate) fn place_hold(&mut self, id: u64) -> Answer {
        let Some(hold) = self.state.holds.get(&id).filter(|hold| hold.expires_at > self.now).cloned() else {
            let message = format!("there is no live hold {id}");
            return Answer::Refused(Refused::new("unknown_hold", message, "reserve again"));
        };
        let grant = Grant { node: hold.node, placement: hold.placement, lender: None };
        let proposal = Proposal {
            job: hold.job,
            attempt: hold.attempt,
            grants: [grant].into_iter().collect(),
            kind: StartKind::Start,
            why: Breakdown::default(),
        };
        match self.propose(proposal) {
            Ok(fence) => Answer::Work(fence),
            Err(reasons) => Answer::NotCommitted(reasons),
        }
    }
}
