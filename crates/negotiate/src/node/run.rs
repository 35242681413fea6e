//! A committed job on its node: body, start, renewals, self-stop, and the result until it is acknowledged.

use landfall_model::{Digest, NodeId, Time};

use super::{Run, Stage};
use crate::blob::Blob;
use crate::message::{Fence, LeaseGrant, LeaseRenew, Message, Phase, ResultAck, TaskOutcome, TaskResult};
use crate::reason::Reason;
use crate::settings::due;
use crate::timers::{HostTimer, TimerId};
use crate::{Effect, Entry, Out, Peer, RunRecord, RunnerEvent, Start, after};

/// A lost request for a body is repeated after this span.
const BODY_REPEAT_MS: u64 = 1000;
/// A result is repeated this often in quick succession.
const QUICK_REPORTS: u32 = 10;
const QUICK_REPORT_MS: u64 = 1000;
const SLOW_REPORT_MS: u64 = 30_000;
/// A result is given up after this span.
const REPORT_FOR_MS: u64 = 24 * 3_600_000;

/// When a node stops by itself, after it sent the last renewal that was granted.
const fn self_stop_ms(lease_ms: u64) -> u64 {
    lease_ms * 2 / 3
}

impl Peer {
    /// The arbiter has committed: fetch what is to be run, then start it.
    pub(super) fn begin_run(
        &mut self,
        now: Time,
        job: Digest,
        fence: Fence,
        lease_ms: u64,
        first_ack_at: Time,
        out: &mut Out,
    ) {
        self.clear_host_timers(job, out);
        let self_stop_at = after(first_ack_at, self_stop_ms(lease_ms));
        let Some(hosted) = self.host.jobs.get_mut(&job) else { return };
        hosted.stage = Stage::Running(Run {
            fence,
            lease_ms,
            phase: Phase::Fetching,
            self_stop_at,
            renewals: Vec::new(),
            // Grows over restarts, so that a late grant is never taken for that of another renewal.
            next_renewal: self.epoch.saturating_mul(1 << 32),
        });
        self.save_run(job, out);
        self.set_host_timer(job, HostTimer::Renew, after(now, lease_ms / 5), out);
        self.set_run_limits(job, self_stop_at, out);
        self.get_body(now, job, lease_ms, out);
    }

    /// The instants at which a run ends whatever happens.
    pub(super) fn set_run_limits(&mut self, job: Digest, self_stop_at: Time, out: &mut Out) {
        let Some(hosted) = self.host.jobs.get(&job) else { return };
        let deadline = hosted.request.deadline_ms.map(|ms| after(hosted.received_at, ms));
        self.set_host_timer(job, HostTimer::SelfStop, self_stop_at, out);
        if let Some(at) = deadline {
            self.set_host_timer(job, HostTimer::Deadline, at, out);
        }
    }

    /// Starts what travelled with the request, or asks the arbiter for it.
    pub(super) fn get_body(&mut self, now: Time, job: Digest, lease_ms: u64, out: &mut Out) {
        let Some(hosted) = self.host.jobs.get(&job) else { return };
        let body = hosted.request.body.clone();
        match body.inline {
            Some(bytes) if bytes.digest() == body.digest => self.start(job, bytes, out),
            Some(_) => self.body_unavailable(now, job, out),
            None => {
                self.set_host_timer(job, HostTimer::BodyLimit, after(now, lease_ms / 2), out);
                self.ask_for_body(now, job, out);
            }
        }
    }

    fn run_mut(&mut self, job: &Digest) -> Option<&mut Run> {
        match self.host.jobs.get_mut(job).map(|hosted| &mut hosted.stage) {
            Some(Stage::Running(run)) => Some(run),
            _ => None,
        }
    }

    fn save_run(&self, job: Digest, out: &mut Out) {
        if let Some(run) = self.run_record(&job) {
            out.journal(Entry::Run { job, run: Box::new(run) });
        }
    }

    /// A run as it must survive a restart; what is not awarded for good need not.
    pub(crate) fn run_record(&self, job: &Digest) -> Option<RunRecord> {
        let hosted = self.host.jobs.get(job)?;
        let (fence, lease_ms, self_stop_at, result) = match &hosted.stage {
            Stage::Running(run) => (run.fence, run.lease_ms, run.self_stop_at, None),
            Stage::Reporting { result, since, .. } => (result.fence, 0, *since, Some(result.clone())),
            _ => return None,
        };
        let started = !matches!(&hosted.stage, Stage::Running(run) if run.phase == Phase::Fetching);
        Some(RunRecord {
            arbiter: hosted.arbiter.clone(),
            request: hosted.request.clone(),
            received_at: hosted.received_at,
            fence,
            lease_ms,
            price: hosted.price,
            grant: self.host.ledger.grants().get(job).cloned(),
            started,
            self_stop_at,
            boot: self.boot,
            result,
        })
    }

    fn start(&mut self, job: Digest, body: Blob, out: &mut Out) {
        let Some(run) = self.run_mut(&job).filter(|run| run.phase == Phase::Fetching) else { return };
        run.phase = Phase::Starting;
        let attempt = run.fence.attempt;
        for kind in [HostTimer::Body, HostTimer::BodyLimit] {
            self.clear_timer(TimerId::Host { job, kind }, out);
        }
        let (Some(hosted), Some(grant)) = (self.host.jobs.get(&job), self.host.ledger.grants().get(&job))
        else {
            return;
        };
        let (request, grant) = (hosted.request.clone(), grant.clone());
        self.save_run(job, out);
        out.effects.push(Effect::Start(Box::new(Start { job, attempt, request, grant, body })));
    }

    pub(super) fn ask_for_body(&mut self, now: Time, job: Digest, out: &mut Out) {
        let Some(hosted) = self.host.jobs.get(&job) else { return };
        let (arbiter, digest) = (hosted.arbiter.clone(), hosted.request.body.digest);
        self.set_host_timer(job, HostTimer::Body, after(now, BODY_REPEAT_MS), out);
        self.send(&arbiter, Message::BodyRequest { digest }, out);
    }

    /// A body starts the jobs that wait for it; bytes with another digest are nobody's.
    pub(crate) fn on_body(&mut self, from: &NodeId, bytes: &Blob, out: &mut Out) {
        let digest = bytes.digest();
        let waiting: Vec<Digest> = self
            .host
            .jobs
            .iter()
            .filter(|(_, hosted)| hosted.arbiter == *from && hosted.request.body.digest == digest)
            .map(|(job, _)| *job)
            .collect();
        waiting.into_iter().for_each(|job| self.start(job, bytes.clone(), out));
    }

    pub(super) fn body_unavailable(&mut self, now: Time, job: Digest, out: &mut Out) {
        let reason = Some(Reason::BodyUnavailable);
        self.conclude(now, job, (TaskOutcome::Failed, reason), 0, 0, None, out);
    }

    pub(super) fn renew(&mut self, now: Time, job: Digest, out: &mut Out) {
        let Some(run) = self.run_mut(&job) else { return };
        let (fence, phase, lease_ms, renewal) = (run.fence, run.phase, run.lease_ms, run.next_renewal);
        run.next_renewal += 1;
        run.renewals.push((renewal, now));
        let Some(arbiter) = self.host.jobs.get(&job).map(|hosted| hosted.arbiter.clone()) else { return };
        self.set_host_timer(job, HostTimer::Renew, after(now, lease_ms / 5), out);
        self.send(&arbiter, Message::LeaseRenew(LeaseRenew { job, fence, phase, renewal }), out);
    }

    pub(crate) fn on_grant(&mut self, now: Time, from: &NodeId, grant: &LeaseGrant, out: &mut Out) {
        let job = grant.job;
        if self.host.jobs.get(&job).is_none_or(|hosted| hosted.arbiter != *from) {
            return;
        }
        let Some(run) = self.run_mut(&job).filter(|run| run.fence.is_award_of(grant.fence)) else { return };
        let Some(at) = run.renewals.iter().position(|(renewal, _)| *renewal == grant.renewal) else { return };
        let (_, sent_at) = run.renewals[at];
        run.renewals.drain(..=at);
        run.fence = grant.fence;
        run.self_stop_at = run.self_stop_at.max(after(sent_at, self_stop_ms(run.lease_ms)));
        let self_stop_at = run.self_stop_at;
        self.host.note_fence(job, grant.fence, now);
        self.save_run(job, out);
        self.set_host_timer(job, HostTimer::SelfStop, self_stop_at, out);
    }

    /// Stops a run and tells nobody: its award is void, or may be soon.
    pub(super) fn stop(&mut self, job: Digest, out: &mut Out) {
        self.stop_runner(job, out);
        self.drop_hosted(job, out);
        out.journal(Entry::RunEnded { job });
    }

    fn stop_runner(&mut self, job: Digest, out: &mut Out) {
        if let Some(run) = self.run_mut(&job).filter(|run| run.phase != Phase::Fetching) {
            let attempt = run.fence.attempt;
            out.effects.push(Effect::Stop { job, attempt });
        }
    }

    /// The deadline has passed: the job is stopped and reported.
    pub(super) fn time_out(&mut self, now: Time, job: Digest, out: &mut Out) {
        self.stop_runner(job, out);
        let reason = Some(Reason::Deadline);
        self.conclude(now, job, (TaskOutcome::Timeout, reason), 0, 0, None, out);
    }

    pub(crate) fn runner(&mut self, now: Time, job: Digest, attempt: u32, event: RunnerEvent, out: &mut Out) {
        let Some(run) = self.run_mut(&job).filter(|run| run.fence.attempt == attempt) else { return };
        match event {
            RunnerEvent::Started => run.phase = Phase::Running,
            RunnerEvent::Finished { outcome, fuel_used, run_ms, output } => {
                let cpu = self.host.ledger.grants().get(&job).map_or(0, |grant| grant.cpu_milli);
                let metered = fuel_used.unwrap_or_else(|| cpu.saturating_mul(run_ms).div_ceil(1000));
                self.conclude(now, job, (outcome, None), metered, run_ms, output, out);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a result has that many parts")]
    fn conclude(
        &mut self,
        now: Time,
        job: Digest,
        (outcome, reason): (TaskOutcome, Option<Reason>),
        fuel_used: u64,
        run_ms: u64,
        output: Option<Digest>,
        out: &mut Out,
    ) {
        let Some(fence) = self.run_mut(&job).map(|run| run.fence) else { return };
        let node = self.id.clone();
        let result = TaskResult { job, fence, node, outcome, reason, fuel_used, run_ms, output };
        self.clear_host_timers(job, out);
        self.host.ledger.release(&job);
        if let Some(hosted) = self.host.jobs.get_mut(&job) {
            hosted.stage = Stage::Reporting { result, sent: 0, since: now };
        }
        self.save_run(job, out);
        self.report(now, job, out);
    }

    /// Sends the result, and again until the arbiter has seen it or a day has passed.
    pub(super) fn report(&mut self, now: Time, job: Digest, out: &mut Out) {
        let Some(hosted) = self.host.jobs.get_mut(&job) else { return };
        let arbiter = hosted.arbiter.clone();
        let Stage::Reporting { result, sent, since } = &mut hosted.stage else { return };
        if now.since(*since).get() > REPORT_FOR_MS {
            self.drop_award(job, out);
            return;
        }
        *sent = sent.saturating_add(1);
        let pause = if *sent <= QUICK_REPORTS { QUICK_REPORT_MS } else { SLOW_REPORT_MS };
        let message = Message::TaskResult(result.clone());
        self.set_host_timer(job, HostTimer::Report, after(now, pause), out);
        self.send(&arbiter, message, out);
    }

    pub(crate) fn on_result_ack(&mut self, from: &NodeId, ack: &ResultAck, out: &mut Out) {
        let Some(hosted) = self.host.jobs.get(&ack.job).filter(|hosted| hosted.arbiter == *from) else {
            return;
        };
        match hosted.stage.fence() {
            Some(fence) if fence == ack.fence => {}
            _ => return,
        }
        match &hosted.stage {
            Stage::Reporting { result, .. } => {
                if ack.accepted {
                    let charge = due(result, hosted.price);
                    let arbiter = from.clone();
                    out.journal(Entry::Earned { job: ack.job, arbiter, charge });
                }
                self.drop_award(ack.job, out);
            }
            // Only a refusal means anything before there is a result.
            Stage::Running(_) if ack.reason == Some(Reason::StaleFence) => self.stop(ack.job, out),
            Stage::Reserved { .. } if ack.reason == Some(Reason::StaleFence) => self.drop_award(ack.job, out),
            _ => {}
        }
    }
}
