//! A node after a restart: holds are gone; a run goes on only if this boot's clock says that its lease may still hold.

use std::collections::BTreeMap;

use landfall_model::{Digest, NodeId, Time};

use super::{HostedJob, Run, Seen, Stage};
use crate::message::{Fence, Phase};
use crate::{Effect, Entry, Out, Peer, RunRecord};

impl Peer {
    pub(crate) fn restart_runs(
        &mut self,
        now: Time,
        taken: BTreeMap<Digest, (NodeId, Fence, Time)>,
        runs: BTreeMap<Digest, RunRecord>,
        out: &mut Out,
    ) {
        for (job, (arbiter, fence, at)) in taken {
            // Rounds seen before are not in the journal; fences are, so nothing is taken or run twice.
            self.host.remember(job, Seen { arbiter, epoch: 0, round: 0, fence, claimed: None, at });
        }
        for (job, run) in runs {
            let arrival = self.next_arrival();
            let seen = Seen {
                arbiter: run.arbiter.clone(),
                epoch: run.request.epoch,
                round: run.request.round,
                fence: run.fence,
                claimed: None,
                at: now,
            };
            self.host.remember(job, seen);
            let in_time = run.boot == self.boot && run.self_stop_at > now;
            if run.result.is_none() && !in_time {
                if run.started {
                    out.effects.push(Effect::Stop { job, attempt: run.fence.attempt });
                }
                out.journal(Entry::RunEnded { job });
                continue;
            }
            self.resume(now, job, arrival, run, out);
        }
    }

    fn resume(&mut self, now: Time, job: Digest, arrival: u64, run: RunRecord, out: &mut Out) {
        let reports = run.result.is_some();
        let stage = match run.result {
            Some(result) => Stage::Reporting { result, sent: 0, since: now },
            None => Stage::Running(Run {
                fence: run.fence,
                lease_ms: run.lease_ms,
                // The runner is told nothing twice; a run that it does not know, it reports as failed.
                phase: if run.started { Phase::Starting } else { Phase::Fetching },
                self_stop_at: run.self_stop_at,
                renewals: Vec::new(),
                next_renewal: self.epoch.saturating_mul(1 << 32),
            }),
        };
        let RunRecord { arbiter, request, received_at, price, .. } = run;
        self.host.jobs.insert(job, HostedJob { arbiter, request, received_at, arrival, price, stage });
        if reports {
            self.report(now, job, out);
            return;
        }
        if let Some(grant) = run.grant {
            self.host.ledger.restore(job, grant);
        }
        self.set_run_limits(job, run.self_stop_at, out);
        self.renew(now, job, out);
        if !run.started {
            self.get_body(now, job, run.lease_ms, out);
        }
    }
}
