//! The jobs of this node: what commands and events of the keeper make of them.
//!
//! No clock, no files, no sockets in here: commands and events go in, [`Action`]s come out, and [`crate::hub`] carries
//! them out. The rules of the protocol live in this file:
//!
//! - a command with an older attempt or epoch than the newest one known is ignored;
//! - a start of what runs is answered with `started` again, a start of what ended with its end again;
//! - an attempt is named in heartbeats until the server has stored how it ended, so it is never taken for lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use landfall_api::agent::{Command, FetchEntry, Offered, ReportItem, Start};
use landfall_model::life::Fence;
use landfall_model::life::{Failure, Report, RunUsage, StartRefusal};
use landfall_model::{Bytes, JobId, Mib, Millis};

use crate::keeper::wire::{Cause, Ended, Event, Hello, Note, Program, Request, Spawn};
use crate::runtime::Site;

/// Ends that are remembered, for commands that come late.
const RECENT_MAX: usize = 10_000;
/// What a job that saved its work gets to leave, and one past its walltime.
const LEAVE_GRACE_MS: u64 = 10_000;
/// How long past its walltime a job goes on when the server is not there to stop it.
const WALLTIME_SLACK: Duration = Duration::from_secs(60);
/// Jobs that the server gives out at once.
const ASK_MAX: u32 = 1000;
/// The signal that asks a job to save its work.
const CHECKPOINT_SIGNAL: &str = "USR1";
/// Job id of self tests; they never meet the server.
const PROBE_JOB: &str = "landfall-self-test";

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Ask the keeper.
    Keeper(Request),
    /// Watch the output of a job that runs.
    Track(Fence, (u64, u64)),
    Report(ReportItem),
    /// Tell the server how a job ended, after the rest of its output.
    End {
        ended: Box<Ended>,
        report: ReportItem,
    },
    /// Tell the server that a job was not started, after a line about why.
    Refuse {
        report: ReportItem,
        why: String,
    },
    /// Make the checkpoint directory, and remove old marks in it.
    PrepareCheckpoint(JobId),
    /// Tell a job through a file that its node will be wanted back.
    Notice(JobId, u64),
    Probed(bool),
    /// There is work to ask for.
    Ask,
    /// Say which inputs are missing.
    Fetches(Vec<FetchEntry>),
    /// Attempts are lost: register again without them.
    Rejoin,
}

#[derive(Debug)]
struct Checkpoint {
    until: Instant,
    leave: bool,
}

#[derive(Debug)]
struct Live {
    fence: Fence,
    note: Note,
    running: bool,
    since: Instant,
    checkpoint: Option<Checkpoint>,
}

#[derive(Debug)]
pub(crate) struct Jobs {
    pub(crate) site: Site,
    pub(crate) draining: bool,
    /// Whether the pool lets workers ask; then no more than so many jobs are taken.
    pub(crate) pull: bool,
    max_concurrent: u32,
    keeper_up: bool,
    live: BTreeMap<JobId, Live>,
    /// Ended, but the server has not stored it yet.
    unreported: BTreeMap<(JobId, u32), Fence>,
    recent: BTreeMap<JobId, ReportItem>,
    recent_order: VecDeque<(JobId, u32)>,
    probes: BTreeSet<u32>,
    probe_count: u32,
    /// Jobs granted whose start commands have not come; negative while a start overtakes the answer.
    expected: i64,
    /// Whether jobs were granted or came since the last heartbeat.
    expecting: bool,
    asked: u32,
}

impl Jobs {
    pub(crate) fn new(site: Site, max_concurrent: u32) -> Self {
        Self {
            site,
            draining: false,
            pull: false,
            max_concurrent,
            keeper_up: false,
            live: BTreeMap::new(),
            unreported: BTreeMap::new(),
            recent: BTreeMap::new(),
            recent_order: VecDeque::new(),
            probes: BTreeSet::new(),
            probe_count: 0,
            expected: 0,
            expecting: false,
            asked: 0,
        }
    }

    pub(crate) fn active(&self) -> u64 {
        self.live.len() as u64
    }

    /// Every attempt that the server must not take for lost.
    pub(crate) fn running(&self) -> Vec<Fence> {
        let live = self.live.values().map(|live| live.fence.clone());
        live.chain(self.unreported.values().cloned()).collect()
    }

    /// Jobs that run, for stopping all of them.
    pub(crate) fn stop_all(&mut self, grace_ms: u64) -> Vec<Action> {
        let stop = |live: &Live| stop(&live.fence, grace_ms, Cause::Stopped);
        self.live.values().map(stop).collect()
    }

    pub(crate) fn on_command(&mut self, command: Command, now: Instant) -> Vec<Action> {
        match command {
            Command::Start(start) => self.on_start(*start, now),
            Command::Stop { fence, grace_ms } => self.on_stop(&fence, grace_ms),
            Command::Checkpoint { fence, within_ms, leave } => {
                self.on_checkpoint(&fence, within_ms, leave, now)
            }
            Command::Notice { fence, in_ms } => {
                let known = self.newest(&fence).is_some_and(|live| live.running);
                if known { vec![Action::Notice(fence.job, in_ms)] } else { Vec::new() }
            }
            Command::Probe => self.on_probe(),
            Command::Work => vec![Action::Ask],
            Command::Offer { jobs } => {
                let here = |digest: &str| self.site.layout.input(digest).exists();
                vec![Action::Fetches(jobs.iter().map(|job| fetch_entry(job, here)).collect())]
            }
            Command::Ping => Vec::new(),
        }
    }

    fn on_start(&mut self, start: Start, now: Instant) -> Vec<Action> {
        let fence = start.fence.clone();
        if let Some(live) = self.live.get_mut(&fence.job) {
            if fence.attempt == live.fence.attempt {
                live.fence.epoch = live.fence.epoch.max(fence.epoch);
                let started = report(&live.fence, Report::Started);
                return if live.running { vec![Action::Report(started)] } else { Vec::new() };
            }
            if fence.attempt < live.fence.attempt {
                tracing::debug!(%fence, "a start of an older attempt is ignored");
                return Vec::new();
            }
            // The old attempt must be gone before the new one begins; the server asks again.
            let old = stop(&live.fence, 0, Cause::Stopped);
            return vec![old, Action::Report(report(&fence, Report::Refused(StartRefusal::Busy)))];
        }
        match self.recent.get(&fence.job) {
            Some(ended) if ended.fence.attempt > fence.attempt => return Vec::new(),
            Some(ended) if ended.fence.attempt == fence.attempt => {
                let again = ReportItem { fence, report: ended.report.clone() };
                return vec![Action::Report(again)];
            }
            _ => {}
        }
        self.expected -= 1;
        self.expecting = true;
        let refusal = if self.draining {
            Some(StartRefusal::Draining)
        } else if !self.keeper_up {
            Some(StartRefusal::Busy)
        } else if self.pull && self.live.len() >= self.max_concurrent as usize {
            Some(StartRefusal::AtCapacity)
        } else {
            None
        };
        if let Some(kind) = refusal {
            return vec![Action::Report(report(&fence, Report::Refused(kind)))];
        }
        match self.site.plan(&start) {
            Ok(spawn) => {
                let note = spawn.note.clone();
                let live = Live { fence: fence.clone(), note, running: false, since: now, checkpoint: None };
                self.live.insert(fence.job.clone(), live);
                let prepare =
                    Site::needs_checkpoint_dir(&start).then_some(Action::PrepareCheckpoint(fence.job));
                prepare.into_iter().chain([Action::Keeper(Request::Spawn(Box::new(spawn)))]).collect()
            }
            Err(refusal) => {
                tracing::info!(%fence, why = refusal.why, "not started");
                vec![Action::Refuse {
                    report: report(&fence, Report::Refused(refusal.kind)),
                    why: refusal.why,
                }]
            }
        }
    }

    fn on_stop(&mut self, fence: &Fence, grace_ms: u64) -> Vec<Action> {
        if let Some(live) = self.newest(fence) {
            return vec![stop(&live.fence, grace_ms, Cause::Stopped)];
        }
        if self.live.contains_key(&fence.job) {
            return Vec::new();
        }
        match self.recent.get(&fence.job) {
            Some(ended) if ended.fence.attempt > fence.attempt => Vec::new(),
            Some(ended) if ended.fence.attempt == fence.attempt => {
                vec![Action::Report(ReportItem { fence: fence.clone(), report: ended.report.clone() })]
            }
            // It never came here, or it is lost; either way it does not run. Should its start come late, it is over.
            _ => {
                let stopped = report(fence, Report::Stopped);
                self.remember(stopped.clone());
                vec![Action::Report(stopped)]
            }
        }
    }

    fn on_checkpoint(&mut self, fence: &Fence, within_ms: u64, leave: bool, now: Instant) -> Vec<Action> {
        let Some(live) = self.newest(fence).filter(|live| live.running) else {
            let ended = self.recent.get(&fence.job).filter(|ended| ended.fence.attempt == fence.attempt);
            let answer = ended.map_or(Report::CheckpointFailed, |ended| ended.report.clone());
            let stale = self.live.get(&fence.job).is_some_and(|live| live.fence.attempt != fence.attempt);
            return if stale { Vec::new() } else { vec![Action::Report(report(fence, answer))] };
        };
        live.checkpoint = Some(Checkpoint { until: now + Duration::from_millis(within_ms), leave });
        let signal = live.note.checkpoint_signal.clone().unwrap_or_else(|| CHECKPOINT_SIGNAL.to_owned());
        let fence = live.fence.clone();
        vec![Action::PrepareCheckpoint(fence.job.clone()), Action::Keeper(Request::Signal { fence, signal })]
    }

    fn on_probe(&mut self) -> Vec<Action> {
        let Ok(job) = JobId::new(PROBE_JOB) else { return Vec::new() };
        if !self.keeper_up {
            return vec![Action::Probed(false)];
        }
        self.probe_count += 1;
        self.probes.insert(self.probe_count);
        let fence = Fence { job, attempt: self.probe_count, epoch: 0 };
        let program = Program {
            argv: vec!["true".to_owned()],
            env: self.site.base_env.clone().into_iter().collect(),
            ..Program::default()
        };
        vec![Action::Keeper(Request::Spawn(Box::new(Spawn { fence, program, note: Note::default() })))]
    }

    /// Whether jobs are saving their work, so that somebody must look whether they are done.
    pub(crate) fn saving(&self) -> Vec<JobId> {
        self.live.iter().filter(|(_, live)| live.checkpoint.is_some()).map(|(job, _)| job.clone()).collect()
    }

    /// A job says that it saved its work.
    pub(crate) fn on_saved(&mut self, job: &JobId) -> Vec<Action> {
        let Some(live) = self.live.get_mut(job) else { return Vec::new() };
        let Some(checkpoint) = live.checkpoint.take() else { return Vec::new() };
        if checkpoint.leave {
            return vec![stop(&live.fence, LEAVE_GRACE_MS, Cause::Checkpointed)];
        }
        vec![Action::Report(report(&live.fence, Report::Checkpointed))]
    }

    /// What time alone brings: checkpoints that take too long, and jobs past their walltime while the server is away.
    pub(crate) fn on_time(&mut self, now: Instant, server_away_for: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        for live in self.live.values_mut() {
            if live.checkpoint.as_ref().is_some_and(|checkpoint| now >= checkpoint.until) {
                live.checkpoint = None;
                actions.push(Action::Report(report(&live.fence, Report::CheckpointFailed)));
            }
            let walltime = live.note.walltime_ms.map(|ms| Duration::from_millis(ms) + WALLTIME_SLACK);
            let over = walltime.is_some_and(|walltime| now.duration_since(live.since) >= walltime);
            if over && server_away_for >= WALLTIME_SLACK {
                actions.push(stop(&live.fence, LEAVE_GRACE_MS, Cause::Walltime));
            }
        }
        actions
    }

    /// The connection to the keeper is gone; whether its jobs are too is not known yet.
    pub(crate) fn on_keeper_gone(&mut self) -> Vec<Action> {
        self.keeper_up = false;
        let failed = !std::mem::take(&mut self.probes).is_empty();
        if failed { vec![Action::Probed(false)] } else { Vec::new() }
    }

    /// A keeper is there. What it does not name is lost.
    pub(crate) fn on_hello(&mut self, hello: Hello, now: Instant) -> Vec<Action> {
        self.keeper_up = true;
        let mut before = std::mem::take(&mut self.live);
        let mut actions = Vec::new();
        for running in hello.running {
            if running.fence.job.as_str() == PROBE_JOB {
                continue;
            }
            let fence = running.fence;
            let since = now.checked_sub(Duration::from_millis(running.for_ms)).unwrap_or(now);
            let epoch = before
                .get(&fence.job)
                .filter(|live| live.fence.attempt == fence.attempt)
                .map(|l| l.fence.epoch);
            let fence = Fence { epoch: epoch.unwrap_or_default().max(fence.epoch), ..fence };
            before.remove(&fence.job);
            actions.push(Action::Report(report(&fence, Report::Started)));
            actions.push(Action::Track(fence.clone(), running.note.shipped));
            let note = running.note;
            let live = Live { fence: fence.clone(), note, running: true, since, checkpoint: None };
            self.live.insert(fence.job, live);
        }
        for ended in hello.ended {
            before.remove(&ended.fence.job);
            if ended.fence.job.as_str() == PROBE_JOB {
                actions.push(Action::Keeper(Request::Forget { fences: vec![ended.fence] }));
            } else if !self.unreported.contains_key(&(ended.fence.job.clone(), ended.fence.attempt)) {
                actions.push(self.end(ended));
            }
        }
        if !before.is_empty() {
            let names: Vec<String> = before.values().map(|live| live.fence.to_string()).collect();
            tracing::warn!(jobs = names.join(" "), "the keeper was lost, and with it these attempts");
            actions.push(Action::Rejoin);
        }
        actions
    }

    pub(crate) fn on_event(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Hello(_) => Vec::new(),
            Event::Spawned(fence) => match self.live.get_mut(&fence.job) {
                Some(live) if live.fence.attempt == fence.attempt => {
                    live.running = true;
                    let started = report(&live.fence, Report::Started);
                    vec![Action::Track(live.fence.clone(), (0, 0)), Action::Report(started)]
                }
                _ => Vec::new(),
            },
            Event::Unstartable { fence, why } => {
                if self.probes.remove(&fence.attempt) && fence.job.as_str() == PROBE_JOB {
                    return vec![Action::Probed(false)];
                }
                tracing::warn!(%fence, why, "a job could not be started");
                let fence = self.live.remove(&fence.job).map_or(fence, |live| live.fence);
                vec![Action::Refuse { report: report(&fence, Report::Refused(StartRefusal::Failed)), why }]
            }
            Event::Ended(ended) if ended.fence.job.as_str() == PROBE_JOB => {
                let expected = self.probes.remove(&ended.fence.attempt);
                let forget = Action::Keeper(Request::Forget { fences: vec![ended.fence] });
                [forget].into_iter().chain(expected.then_some(Action::Probed(ended.code == 0))).collect()
            }
            Event::Ended(ended) => vec![self.end(*ended)],
        }
    }

    /// More is known about an end than the keeper knew.
    pub(crate) fn amend(&mut self, end: &ReportItem) {
        if let Some(ended) = self.recent.get_mut(&end.fence.job)
            && ended.fence.attempt == end.fence.attempt
        {
            ended.report = end.report.clone();
        }
    }

    /// The server stored reports. Those that tell how an attempt ended let the keeper forget it; the same attempt may
    /// have told other things before.
    pub(crate) fn on_stored(&mut self, stored: &[ReportItem]) -> Vec<Action> {
        let mut known: Vec<Fence> = Vec::new();
        for item in stored {
            let at = (item.fence.job.clone(), item.fence.attempt);
            let is_end = |ended: &ReportItem| {
                ended.fence.attempt == item.fence.attempt
                    && std::mem::discriminant(&ended.report) == std::mem::discriminant(&item.report)
            };
            // An end that is remembered no longer was told long ago.
            if self.recent.get(&item.fence.job).is_none_or(is_end) && self.unreported.remove(&at).is_some() {
                known.push(item.fence.clone());
            }
        }
        if known.is_empty() { Vec::new() } else { vec![Action::Keeper(Request::Forget { fences: known })] }
    }

    fn end(&mut self, mut ended: Ended) -> Action {
        let live = self.live.get(&ended.fence.job).filter(|live| live.fence.attempt == ended.fence.attempt);
        if let Some(live) = live {
            ended.fence.epoch = ended.fence.epoch.max(live.fence.epoch);
            self.live.remove(&ended.fence.job);
        }
        let report = report(&ended.fence, verdict(&ended));
        self.unreported.insert((ended.fence.job.clone(), ended.fence.attempt), ended.fence.clone());
        self.remember(report.clone());
        Action::End { ended: Box::new(ended), report }
    }

    fn remember(&mut self, ended: ReportItem) {
        let job = ended.fence.job.clone();
        self.recent_order.push_back((job.clone(), ended.fence.attempt));
        self.recent.insert(job, ended);
        while self.recent_order.len() > RECENT_MAX {
            let Some((job, attempt)) = self.recent_order.pop_front() else { return };
            // A newer attempt of the same job has an entry of its own in the order.
            if self.recent.get(&job).is_some_and(|ended| ended.fence.attempt == attempt) {
                self.recent.remove(&job);
            }
        }
    }

    /// The job that a command is about, if it is the newest attempt and the command is not from an older server.
    fn newest(&mut self, fence: &Fence) -> Option<&mut Live> {
        let live = self.live.get_mut(&fence.job)?;
        if live.fence.attempt != fence.attempt || fence.epoch < live.fence.epoch {
            return None;
        }
        live.fence.epoch = fence.epoch;
        Some(live)
    }

    /// How many jobs to ask for now, in a pull pool; the answer must be told with [`Jobs::on_granted`].
    pub(crate) fn take_ask(&mut self) -> u32 {
        if !self.pull || self.draining || !self.keeper_up {
            return 0;
        }
        let taken = self.live.len() as i64 + self.expected.max(0) + i64::from(self.asked);
        let free = u32::try_from(i64::from(self.max_concurrent) - taken).unwrap_or_default().min(ASK_MAX);
        self.asked += free;
        free
    }

    /// What became of asking for so many jobs.
    pub(crate) fn on_granted(&mut self, asked: u32, granted: u32) {
        self.asked = self.asked.saturating_sub(asked);
        self.expected += i64::from(granted);
        self.expecting |= granted > 0;
    }

    /// At a heartbeat: start commands of which none came since the one before will not come, or come again by themselves.
    pub(crate) fn forget_expected(&mut self) {
        let quiet = !std::mem::take(&mut self.expecting);
        if quiet && self.asked == 0 {
            self.expected = 0;
        }
    }
}

fn report(fence: &Fence, report: Report) -> ReportItem {
    ReportItem { fence: fence.clone(), report }
}

fn stop(fence: &Fence, grace_ms: u64, cause: Cause) -> Action {
    Action::Keeper(Request::Stop { fence: fence.clone(), grace_ms, cause })
}

/// What is told about an end.
pub(crate) fn verdict(ended: &Ended) -> Report {
    let failure = match ended.cause {
        Some(Cause::Stopped) => return Report::Stopped,
        Some(Cause::Checkpointed) => return Report::Checkpointed,
        Some(Cause::Timeout | Cause::Walltime) => Some(Failure::Timeout),
        None => ended.note.retry_on.contains(&ended.code).then_some(Failure::Transient),
    };
    let usage = RunUsage {
        peak_ram: ended.peak_ram_bytes.map(|bytes| Mib::new(bytes.div_ceil(1 << 20))),
        cpu_time: ended.cpu_ms.map(Millis::new),
        disk: Bytes::new(ended.disk_bytes),
        oom: ended.oom,
        speed_ratio: None,
    };
    Report::Exited { code: ended.code, failure, usage: Box::new(usage) }
}

/// What would have to be fetched for a job: inputs that are not here, and their size as far as it is known.
fn fetch_entry(job: &Offered, here: impl Fn(&str) -> bool) -> FetchEntry {
    let missing: Vec<_> = job.inputs.iter().filter(|(digest, _)| !here(digest)).collect();
    FetchEntry {
        job: job.job.clone(),
        missing_inputs: Some(missing.len() as u64),
        missing_bytes: Some(missing.iter().filter_map(|(_, size)| *size).fold(0, u64::saturating_add)),
    }
}

#[cfg(test)]
mod tests;
