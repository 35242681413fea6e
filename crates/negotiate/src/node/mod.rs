//! The node's part: the ledger of its own capacity, and the jobs it considers, holds room for, runs and reports.

mod award;
mod request;
mod restart;
mod run;
mod scope;

use std::collections::{BTreeMap, VecDeque};

use landfall_model::{Digest, NodeId, Scope, Time};
use serde::{Deserialize, Serialize};

use crate::capacity::{Ledger, Probe};
use crate::message::{
    Fence, Message, NodeCapacityAnnounce, Phase, PlacementRequest, TaskClaimed, TaskResult,
};
use crate::profile::Profile;
use crate::reason::Reason;
use crate::timers::{HostTimer, TimerId};
use crate::{Out, Peer, after};

/// A run in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub fence: Fence,
    pub lease_ms: u64,
    /// How far it has come.
    pub phase: Phase,
    /// When it must be stopped.
    pub self_stop_at: Time,
    /// Renewals that were not granted yet, and when they were sent.
    pub renewals: Vec<(u64, Time)>,
    /// The number of the next renewal.
    pub next_renewal: u64,
}

/// Where a job stands on this node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Stage {
    /// Before an offer.
    Considering,
    /// An offer is out, and room is held for it.
    Offered,
    /// The hold has ended; an award may still come.
    Expired,
    /// An award was taken and first acked then; waits for the commit.
    Reserved { fence: Fence, lease_ms: u64, first_ack_at: Time },
    /// The job is this node's to run.
    Running(Run),
    /// The work is over, and its result was sent so often since then; the arbiter has not said that it knows.
    Reporting { result: TaskResult, sent: u32, since: Time },
}

impl Stage {
    /// The award this stage rests on.
    pub const fn fence(&self) -> Option<Fence> {
        match self {
            Self::Considering | Self::Offered | Self::Expired => None,
            Self::Reserved { fence, .. } => Some(*fence),
            Self::Running(run) => Some(run.fence),
            Self::Reporting { result, .. } => Some(result.fence),
        }
    }
}

/// A job on this node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostedJob {
    pub arbiter: NodeId,
    pub request: PlacementRequest,
    pub received_at: Time,
    /// Its place among the requests received.
    pub arrival: u64,
    /// What the award says it pays, in credits per 1000 fuel.
    #[serde(default)]
    pub price: u64,
    pub stage: Stage,
}

impl HostedJob {
    pub(super) fn need(&self) -> Profile {
        self.request.profile.clone().unwrap_or_else(Profile::minimal)
    }
}

/// What is remembered of a job whatever became of it: older rounds and fences are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Seen {
    arbiter: NodeId,
    epoch: u64,
    round: u32,
    fence: Fence,
    /// Whom the newest claim names, and its fence.
    #[serde(default)]
    claimed: Option<(Fence, NodeId)>,
    at: Time,
}

/// Jobs and arbiters remembered.
const SEEN_MAX: usize = 16_384;

/// The node's part of a peer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Host {
    pub(super) ledger: Ledger,
    pub(super) jobs: BTreeMap<Digest, HostedJob>,
    seen: BTreeMap<Digest, Seen>,
    /// The highest epoch of each arbiter.
    epochs: BTreeMap<NodeId, (u64, Time)>,
    /// When each peer sent its last requests.
    requests: BTreeMap<NodeId, VecDeque<Time>>,
    /// Shares of the scopes, if they differ from the usual ones.
    shares: Option<[f64; 5]>,
    announced: Option<Probe>,
    announcements: u64,
}

impl Host {
    /// What the node has and has promised.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub const fn jobs(&self) -> &BTreeMap<Digest, HostedJob> {
        &self.jobs
    }

    /// The share of a scope in the node's capacity.
    pub fn share(&self, scope: Scope) -> f64 {
        self.shares.unwrap_or(scope::SHARES)[scope as usize]
    }

    /// The newest fence of each job of which it has seen one.
    pub(super) fn taken(&self) -> BTreeMap<Digest, (NodeId, Fence, Time)> {
        let fenced = self.seen.iter().filter(|(_, seen)| seen.fence != Fence::default());
        fenced.map(|(job, seen)| (*job, (seen.arbiter.clone(), seen.fence, seen.at))).collect()
    }

    /// Remembers a fence of a job, and says whether it is newer than any before.
    fn note_fence(&mut self, job: Digest, fence: Fence, now: Time) -> bool {
        let Some(seen) = self.seen.get_mut(&job) else { return false };
        let newer = fence > seen.fence;
        seen.fence = seen.fence.max(fence);
        seen.at = now;
        newer
    }

    /// Whether an arbiter has given the same award to somebody else before.
    fn is_second_claim(&mut self, claim: &TaskClaimed) -> bool {
        let Some(seen) = self.seen.get_mut(&claim.job) else { return false };
        match &seen.claimed {
            Some((fence, node)) if *fence == claim.fence => *node != claim.node,
            Some((fence, _)) if *fence > claim.fence => false,
            _ => {
                seen.claimed = Some((claim.fence, claim.node.clone()));
                false
            }
        }
    }

    fn remember(&mut self, job: Digest, seen: Seen) {
        self.seen.insert(job, seen);
        if self.seen.len() > SEEN_MAX {
            let idle = self.seen.iter().filter(|(job, _)| !self.jobs.contains_key(job));
            let oldest = idle.map(|(job, seen)| (seen.at, *job)).min();
            oldest.map(|(_, job)| self.seen.remove(&job));
        }
    }

    /// Whether a message of an arbiter is of its newest start; two processes with one key cannot both be followed.
    fn is_newest_epoch(&mut self, arbiter: &NodeId, epoch: u64, now: Time) -> bool {
        let newest = self.epochs.entry(arbiter.clone()).or_insert((epoch, now));
        if epoch < newest.0 {
            return false;
        }
        *newest = (epoch, now);
        if self.epochs.len() > SEEN_MAX {
            let oldest = self.epochs.iter().map(|(id, (_, at))| (*at, id.clone())).min();
            oldest.map(|(_, id)| self.epochs.remove(&id));
        }
        true
    }
}

impl Peer {
    fn set_host_timer(&mut self, job: Digest, kind: HostTimer, at: Time, out: &mut Out) {
        self.set_timer(TimerId::Host { job, kind }, at, out);
    }

    fn clear_host_timers(&mut self, job: Digest, out: &mut Out) {
        let timers: Vec<TimerId> = self
            .timers
            .iter()
            .map(|(id, _)| id)
            .filter(|id| matches!(id, TimerId::Host { job: theirs, .. } if *theirs == job))
            .cloned()
            .collect();
        timers.into_iter().for_each(|id| self.clear_timer(id, out));
    }

    /// Ends a job on this node: timers, promises and memory of it go, except that its fences stay spent.
    fn drop_hosted(&mut self, job: Digest, out: &mut Out) {
        self.clear_host_timers(job, out);
        self.host.ledger.release(&job);
        self.host.jobs.remove(&job);
    }

    pub(super) fn host_timer(&mut self, now: Time, job: Digest, kind: HostTimer, out: &mut Out) {
        let Some(hosted) = self.host.jobs.get(&job) else { return };
        match (kind, &hosted.stage) {
            (HostTimer::Consider, Stage::Considering) => self.offer_or_decline(now, job, out),
            (HostTimer::Hold, Stage::Offered) => self.expire(now, job, out),
            (HostTimer::Forget, Stage::Expired) => self.drop_hosted(job, out),
            (HostTimer::Repeat, Stage::Reserved { .. }) => self.send_ack(now, job, out),
            (HostTimer::Confirm, Stage::Reserved { .. }) => {
                self.give_up_award(job, Reason::ConfirmTimeout, out);
            }
            (HostTimer::Renew, Stage::Running(_)) => self.renew(now, job, out),
            (HostTimer::SelfStop, Stage::Running(_)) => self.stop(job, out),
            (HostTimer::Deadline, Stage::Running(_)) => self.time_out(now, job, out),
            (HostTimer::Body, Stage::Running(_)) => self.ask_for_body(now, job, out),
            (HostTimer::BodyLimit, Stage::Running(_)) => self.body_unavailable(now, job, out),
            (HostTimer::Report, Stage::Reporting { .. }) => self.report(now, job, out),
            _ => {}
        }
    }

    pub(super) fn probed(&mut self, now: Time, probe: Probe, out: &mut Out) {
        let news = self.host.announced.as_ref().is_none_or(|before| probe.totals_changed(before));
        self.host.ledger.set_probe(probe, now);
        if !self.settings.runs_work {
            return;
        }
        if news {
            self.announce(now, out);
        }
        if self.settings.scope_adapt && self.timers.due_at(&TimerId::ScopeAdapt).is_none() {
            self.set_timer(TimerId::ScopeAdapt, after(now, scope::ADAPT_EVERY_MS), out);
        }
    }

    /// Tells everybody what this node has.
    pub(super) fn announce(&mut self, now: Time, out: &mut Out) {
        let Some(facts) = self.host.ledger.facts(now, None, &[]) else { return };
        self.host.announced = self.host.ledger.probe().cloned();
        self.host.announcements += 1;
        let runtimes = self.host.announced.iter().flat_map(|probe| probe.runtimes.iter().cloned()).collect();
        let announce = NodeCapacityAnnounce {
            node: self.id.clone(),
            // Grows over restarts, because the epoch does.
            seq: self.epoch.saturating_mul(1 << 32).saturating_add(self.host.announcements),
            capacity: facts,
            runtimes,
            updated_at: None,
        };
        let message = Message::NodeCapacityAnnounce(Box::new(announce));
        out.effects.push(crate::Effect::Broadcast { message });
        self.set_timer(TimerId::Announce, after(now, self.settings.announce_ms), out);
    }
}
