//! The jobs of this node: what commands and events of the keeper make of them.
//!
//! No clock, no files, no sockets in here: commands and events go in, [`Action`]s come out, and [`crate::hub`] carries
//! them out. The rules of the protocol live in this file:
//!
//! - a command with an older attempt or epoch than the newest one known is ignored;
//! - a start of what runs is answered with `started` again, and tells how long it may run if that was changed;
//! - a start that was long on its way is ignored where two copies must never run: by then the job may run elsewhere, and a
//!   server that still wants it here says so again;
//! - a command about what is over is answered once per server, by a word that asks for nothing more, and not at all while
//!   the report of its end is on its way: a report is repeated until it is stored, so one is enough;
//! - an attempt is named in heartbeats until the server has stored how it ended, so it is never taken for lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use landfall_api::agent::{Command, FetchEntry, Offered, ReportItem, Start};
use landfall_api::job::Typed;
use landfall_model::life::Fence;
use landfall_model::life::{Failure, Report, RunUsage, StartRefusal};
use landfall_model::{Bytes, JobId, Mib, Millis};

use crate::keeper::wire::{Cause, Ended, Event, Hello, Note, Program, Request, Spawn};
use crate::runtime::Site;
use crate::server_clock::ServerClock;

/// Ends that are remembered, for commands that come late.
const RECENT_MAX: usize = 10_000;
/// What a job that saved its work gets to leave, and one past its walltime.
const LEAVE_GRACE_MS: u64 = 10_000;
/// How long past its walltime a job goes on when the server is not there to stop it.
const WALLTIME_SLACK: Duration = Duration::from_secs(60);
/// How old the word to start a job may be where two copies must never run. The server repeats it after one, two and five
/// seconds, and gives it up after ten.
const START_GOOD_FOR: Duration = Duration::from_secs(4);
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
    /// Note that the checkpoint directory has something to go on from.
    MarkSaved(JobId),
    /// Tell a job through a file that its node will be wanted back.
    Notice(JobId, u64),
    Probed(bool),
    /// Note that the server has heard that this keeper cannot tell what began before it.
    NoteForgotten(u32),
    /// Pass on what somebody typed for a job.
    Type(Fence, Typed),
    /// There is work to ask for.
    Ask,
    /// Say which inputs are missing.
    Fetches(Vec<FetchEntry>),
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
    /// Whether it begins when another element of its array ends.
    ahead: bool,
    since: Instant,
    checkpoint: Option<Checkpoint>,
}

impl Live {
    fn started(&self) -> ReportItem {
        let began = if self.note.afresh { Report::StartedAfresh } else { Report::Started };
        ReportItem { cpus: self.note.cpus.clone(), ..report(&self.fence, began) }
    }
}

/// An attempt that is over.
#[derive(Debug)]
struct Over {
    end: ReportItem,
    /// The server, by its epoch, that was told once more.
    told: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Jobs {
    pub(crate) site: Site,
    pub(crate) server_clock: ServerClock,
    pub(crate) draining: bool,
    /// Whether the pool lets workers ask; then no more than so many jobs are taken.
    pub(crate) pull: bool,
    max_concurrent: u32,
    keeper_up: bool,
    /// The keeper, by its process id, that cannot tell what began here before it, until the server has heard so: an attempt
    /// that is not named may have begun. From then on what is not named never began.
    pub(crate) forgot: Option<u32>,
    live: BTreeMap<JobId, Live>,
    /// Ended, but the server has not stored it yet.
    unreported: BTreeMap<(JobId, u32), ReportItem>,
    recent: BTreeMap<JobId, Over>,
    recent_order: VecDeque<(JobId, u32)>,
    /// Attempts of another journal that the keeper still ends. Nobody is told about them.
    foreign: BTreeSet<(JobId, u32)>,
    probes: BTreeSet<u32>,
    probe_count: u32,
    /// Jobs granted whose start commands have not come; negative while a start overtakes the answer.
    expected: i64,
    /// Whether jobs were granted or came since the last heartbeat.
    expecting: bool,
    asked: u32,
    /// A planted fault: what is over is told again whenever somebody asks, in the words of then.
    #[cfg(feature = "mutations")]
    pub(crate) repeats_itself: bool,
}

impl Jobs {
    pub(crate) fn new(site: Site, max_concurrent: u32) -> Self {
        Self {
            site,
            server_clock: ServerClock::default(),
            draining: false,
            pull: false,
            max_concurrent,
            keeper_up: false,
            forgot: Some(0),
            live: BTreeMap::new(),
            unreported: BTreeMap::new(),
            recent: BTreeMap::new(),
            recent_order: VecDeque::new(),
            foreign: BTreeSet::new(),
            probes: BTreeSet::new(),
            probe_count: 0,
            expected: 0,
            expecting: false,
            asked: 0,
            #[cfg(feature = "mutations")]
            repeats_itself: false,
        }
    }

    pub(crate) fn active(&self) -> u64 {
        self.live.len() as u64
    }

    /// Whether at least as much can begin without the server as runs: then nothing waits for what the server has to say.
    pub(crate) fn is_ahead(&self) -> bool {
        let ahead = self.live.values().filter(|live| live.ahead).count();
        ahead > 0 && 2 * ahead >= self.live.len()
    }

    /// Every attempt that the server must not take for lost.
    pub(crate) fn running(&self) -> Vec<Fence> {
        let live = self.live.values().map(|live| live.fence.clone());
        live.chain(self.unreported.values().map(|end| end.fence.clone())).collect()
    }

    /// What runs now.
    pub(crate) fn under_way(&self) -> Vec<Fence> {
        self.live.values().filter(|live| live.running).map(|live| live.fence.clone()).collect()
    }

    /// The shortest silence of the server that stops a job.
    pub(crate) fn shortest_silence(&self) -> Option<Duration> {
        self.live.values().filter_map(|live| live.note.stop_after_silence_ms).min().map(Duration::from_millis)
    }

    /// The server has another journal than the one that all this is about. What goes on there goes on here; the rest is ended
    /// and forgotten, for its ids mean other jobs now.
    pub(crate) fn on_other_journal(&mut self, adopted: &[Fence]) -> Vec<Action> {
        let goes_on = |job: &JobId, attempt: u32| {
            adopted.iter().any(|fence| fence.job == *job && fence.attempt == attempt)
        };
        let mut actions = Vec::new();
        self.live.retain(|job, live| {
            let stays = goes_on(job, live.fence.attempt);
            if !stays {
                self.foreign.insert((job.clone(), live.fence.attempt));
                actions.push(stop(&live.fence, 0, Cause::Stopped));
            }
            stays
        });
        let mut fences = Vec::new();
        self.unreported.retain(|(job, attempt), end| {
            let stays = goes_on(job, *attempt);
            if !stays {
                fences.push(end.fence.clone());
            }
            stays
        });
        self.recent.retain(|job, over| goes_on(job, over.end.fence.attempt));
        self.recent_order.retain(|(job, attempt)| goes_on(job, *attempt));
        (self.expected, self.expecting) = (0, false);
        if !actions.is_empty() || !fences.is_empty() {
            let (ended, forgotten) = (actions.len(), fences.len());
            tracing::warn!(
                goes_on = adopted.len(),
                ended,
                forgotten,
                "the server has another journal: it was restored, or it is another one"
            );
        }
        if !fences.is_empty() {
            actions.push(Action::Keeper(Request::Forget { fences }));
        }
        actions
    }

    /// The server took a registration that said so of this keeper. It need not hear it again: whatever it tells to start from
    /// now on is known here.
    pub(crate) fn on_registered(&mut self, said: Option<u32>) -> Vec<Action> {
        // A server that was started anew no longer knows which cores jobs have.
        let pinned = self.live.values().filter(|live| live.running && live.note.cpus.is_some());
        let mut actions: Vec<Action> = pinned.map(|live| Action::Report(live.started())).collect();
        if let Some(pid) = self.forgot.filter(|_| self.forgot == said) {
            self.forgot = None;
            actions.push(Action::NoteForgotten(pid));
        }
        actions
    }

    /// Whether somebody is at a job.
    pub(crate) fn is_attended(&self, fence: &Fence) -> bool {
        self.live.get(&fence.job).is_some_and(|live| live.note.attended)
    }

    /// Whether something of another journal still runs.
    pub(crate) fn is_foreign_left(&self) -> bool {
        !self.foreign.is_empty()
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
            Command::GiveBack { fence } => self.on_give_back(&fence),
            Command::Checkpoint { fence, within_ms, leave } => {
                self.on_checkpoint(&fence, within_ms, leave, now)
            }
            Command::Notice { fence, in_ms } => {
                let known = self.newest(&fence).is_some_and(|live| live.running);
                if known { vec![Action::Notice(fence.job, in_ms)] } else { Vec::new() }
            }
            Command::Input { fence, typed } => {
                let known = self.newest(&fence).is_some_and(|live| live.running && live.note.attended);
                if known { vec![Action::Type(fence, typed)] } else { Vec::new() }
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

    fn on_start(&mut self, mut start: Start, now: Instant) -> Vec<Action> {
        let fence = start.fence.clone();
        if let Some(live) = self.live.get_mut(&fence.job) {
            if fence.attempt == live.fence.attempt {
                live.fence.epoch = live.fence.epoch.max(fence.epoch);
                if live.ahead && !start.ahead {
                    live.ahead = false;
                    return vec![Action::Keeper(Request::Begin { fence })];
                }
                let mut actions = Vec::new();
                // It was changed since the start that it runs by.
                if live.note.walltime_ms != start.walltime_ms {
                    let walltime_ms = start.walltime_ms;
                    live.note.walltime_ms = walltime_ms;
                    actions.push(Action::Keeper(Request::Walltime { fence, walltime_ms }));
                }
                actions.extend(live.running.then(|| Action::Report(live.started())));
                return actions;
            }
            if fence.attempt < live.fence.attempt {
                tracing::debug!(%fence, "a start of an older attempt is ignored");
                return Vec::new();
            }
            // The old attempt must be gone before the new one begins; the server asks again.
            let old = stop(&live.fence, 0, Cause::Stopped);
            return vec![old, Action::Report(report(&fence, Report::Refused(StartRefusal::Busy)))];
        }
        if let Some(answer) = self.about_what_is_over(&fence) {
            return answer;
        }
        let age = start.sent_at_ms.and_then(|sent| self.server_clock.age_at_most(sent, now));
        if start.stop_after_silence_ms.is_some() && age.is_some_and(|age| age > START_GOOD_FOR) {
            tracing::info!(%fence, "a start that came late is ignored: the job may run elsewhere by now");
            return Vec::new();
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
        let afresh = start.resume && !self.site.has_checkpoint(&fence.job);
        if afresh {
            tracing::info!(%fence, "started afresh: this node has no checkpoint of it");
            start.resume = false;
        }
        match self.site.plan(&start) {
            Ok(mut spawn) => {
                spawn.note.afresh = afresh;
                let note = spawn.note.clone();
                let (fence, ahead) = (fence.clone(), start.ahead);
                let live =
                    Live { fence: fence.clone(), note, running: false, ahead, since: now, checkpoint: None };
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

    fn on_give_back(&mut self, fence: &Fence) -> Vec<Action> {
        match self.live.get(&fence.job) {
            Some(live) if live.fence.attempt == fence.attempt && live.ahead => {
                vec![Action::Keeper(Request::GiveBack { fence: fence.clone() })]
            }
            // It has begun, which is said by itself.
            Some(_) => Vec::new(),
            None => self.about_what_is_over(fence).unwrap_or_else(|| vec![self.returned(fence)]),
        }
    }

    /// It does not begin here any more, also if its start should come late.
    fn returned(&mut self, fence: &Fence) -> Action {
        let returned = report(fence, Report::Refused(StartRefusal::Returned));
        self.remember(returned.clone(), Some(fence.epoch));
        Action::Report(returned)
    }

    fn on_stop(&mut self, fence: &Fence, grace_ms: u64) -> Vec<Action> {
        if let Some(live) = self.newest(fence) {
            return vec![stop(&live.fence, grace_ms, Cause::Stopped)];
        }
        if self.live.contains_key(&fence.job) {
            return Vec::new();
        }
        self.about_what_is_over(fence).unwrap_or_else(|| {
            // It never came here, or it is lost; either way it does not run. Should its start come late, it is over.
            let stopped = report(fence, Report::Stopped);
            self.remember(stopped.clone(), Some(fence.epoch));
            vec![Action::Report(stopped)]
        })
    }

    /// The answer to a command about an attempt that is over; `None` if it is about none such.
    fn about_what_is_over(&mut self, fence: &Fence) -> Option<Vec<Action>> {
        let over = self.recent.get_mut(&fence.job).filter(|over| over.end.fence.attempt >= fence.attempt)?;
        let on_its_way = self.unreported.contains_key(&(fence.job.clone(), fence.attempt));
        let told = over.told.is_some_and(|epoch| epoch >= fence.epoch);
        #[cfg(feature = "mutations")]
        if self.repeats_itself {
            return Some(vec![Action::Report(report(fence, over.end.report.clone()))]);
        }
        if over.end.fence.attempt > fence.attempt || on_its_way || told {
            return Some(Vec::new());
        }
        over.told = Some(fence.epoch);
        let again = match &over.end.report {
            // "Saved" does not say "gone": a server that no longer waits for it would ask for a stop once more.
            Report::Checkpointed => Report::Stopped,
            end => end.clone(),
        };
        Some(vec![Action::Report(report(fence, again))])
    }

    fn on_checkpoint(&mut self, fence: &Fence, within_ms: u64, leave: bool, now: Instant) -> Vec<Action> {
        if self.live.get(&fence.job).is_some_and(|live| live.fence.attempt != fence.attempt) {
            return Vec::new();
        }
        if let Some(answer) = self.about_what_is_over(fence) {
            return answer;
        }
        let Some(live) = self.newest(fence).filter(|live| live.running) else {
            return vec![Action::Report(report(fence, Report::CheckpointFailed))];
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
        let spawn = Spawn { fence, program, note: Note::default(), array: None, ahead: false };
        vec![Action::Keeper(Request::Spawn(Box::new(spawn)))]
    }

    /// Whether jobs are saving their work, so that somebody must look whether they are done.
    pub(crate) fn saving(&self) -> Vec<JobId> {
        self.live.iter().filter(|(_, live)| live.checkpoint.is_some()).map(|(job, _)| job.clone()).collect()
    }

    /// A job says that it saved its work.
    pub(crate) fn on_saved(&mut self, job: &JobId) -> Vec<Action> {
        let Some(live) = self.live.get_mut(job) else { return Vec::new() };
        let Some(checkpoint) = live.checkpoint.take() else { return Vec::new() };
        let then = if checkpoint.leave {
            stop(&live.fence, LEAVE_GRACE_MS, Cause::Checkpointed)
        } else {
            Action::Report(report(&live.fence, Report::Checkpointed))
        };
        vec![Action::MarkSaved(job.clone()), then]
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

    /// A keeper is there. What it does not name never began.
    pub(crate) fn on_hello(&mut self, hello: Hello, now: Instant) -> Vec<Action> {
        self.keeper_up = true;
        self.forgot = (!hello.remembers).then_some(hello.pid);
        let mut before = std::mem::take(&mut self.live);
        let mut foreign = std::mem::take(&mut self.foreign);
        let mut actions = Vec::new();
        for running in hello.running {
            if running.fence.job.as_str() == PROBE_JOB {
                continue;
            }
            let fence = running.fence;
            if foreign.remove(&(fence.job.clone(), fence.attempt)) {
                self.foreign.insert((fence.job.clone(), fence.attempt));
                actions.push(stop(&fence, 0, Cause::Stopped));
                continue;
            }
            let since = now.checked_sub(Duration::from_millis(running.for_ms)).unwrap_or(now);
            let epoch = before
                .get(&fence.job)
                .filter(|live| live.fence.attempt == fence.attempt)
                .map(|l| l.fence.epoch);
            let fence = Fence { epoch: epoch.unwrap_or_default().max(fence.epoch), ..fence };
            before.remove(&fence.job);
            let note = running.note;
            let shipped = note.shipped;
            let ahead = running.ahead;
            let live = Live { fence: fence.clone(), note, running: !ahead, ahead, since, checkpoint: None };
            if !ahead {
                actions.push(Action::Report(live.started()));
                actions.push(Action::Track(fence.clone(), shipped));
            }
            self.live.insert(fence.job, live);
        }
        for ended in hello.ended {
            before.remove(&ended.fence.job);
            let is_foreign = foreign.remove(&(ended.fence.job.clone(), ended.fence.attempt));
            if is_foreign || ended.fence.job.as_str() == PROBE_JOB {
                actions.push(Action::Keeper(Request::Forget { fences: vec![ended.fence] }));
            } else if !self.unreported.contains_key(&(ended.fence.job.clone(), ended.fence.attempt)) {
                actions.push(self.end(ended));
            }
        }
        for live in before.into_values() {
            let fence = &live.fence;
            if live.running {
                tracing::warn!(%fence, "the keeper knows nothing of this attempt; it is lost");
                let lost = report(fence, Report::Stopped);
                self.remember(lost.clone(), Some(fence.epoch));
                actions.push(Action::Report(lost));
            } else {
                // The last keeper never got to it; the server asks again.
                actions.push(Action::Report(report(fence, Report::Refused(StartRefusal::Busy))));
            }
        }
        actions
    }

    pub(crate) fn on_event(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Hello(_) => Vec::new(),
            Event::Pinned { fence, cpus } => {
                if let Some(live) = self.live.get_mut(&fence.job) {
                    live.note.cpus = Some(cpus);
                }
                Vec::new()
            }
            Event::Spawned(fence) => match self.live.get_mut(&fence.job) {
                Some(live) if live.fence.attempt == fence.attempt => {
                    (live.running, live.ahead) = (true, false);
                    vec![Action::Track(live.fence.clone(), (0, 0)), Action::Report(live.started())]
                }
                _ => Vec::new(),
            },
            Event::Returned(fence) => match self.live.remove(&fence.job) {
                Some(live) => vec![self.returned(&live.fence)],
                None => Vec::new(),
            },
            Event::Unstartable { fence, why } => {
                if self.probes.remove(&fence.attempt) && fence.job.as_str() == PROBE_JOB {
                    return vec![Action::Probed(false)];
                }
                if self.foreign.remove(&(fence.job.clone(), fence.attempt)) {
                    return Vec::new();
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
            Event::Ended(ended) => {
                if self.foreign.remove(&(ended.fence.job.clone(), ended.fence.attempt)) {
                    return vec![Action::Keeper(Request::Forget { fences: vec![ended.fence] })];
                }
                vec![self.end(*ended)]
            }
        }
    }

    /// More is known about an end than the keeper knew.
    pub(crate) fn amend(&mut self, end: &ReportItem) {
        if let Some(over) = self.recent.get_mut(&end.fence.job)
            && over.end.fence.attempt == end.fence.attempt
        {
            over.end.report = end.report.clone();
            over.end.network_bytes_s = end.network_bytes_s;
        }
    }

    /// The server stored reports. Those that tell how an attempt ended let the keeper forget it; the same attempt may
    /// have told other things before.
    pub(crate) fn on_stored(&mut self, stored: &[ReportItem]) -> Vec<Action> {
        let mut known: Vec<Fence> = Vec::new();
        for item in stored {
            let at = (item.fence.job.clone(), item.fence.attempt);
            let is_end = |end: &ReportItem| {
                std::mem::discriminant(&end.report) == std::mem::discriminant(&item.report)
            };
            if self.unreported.get(&at).is_some_and(is_end) {
                self.unreported.remove(&at);
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
        let mut report = report(&ended.fence, verdict(&ended));
        report.files.clone_from(&ended.kept);
        report.cpus.clone_from(&ended.note.cpus);
        self.unreported.insert((ended.fence.job.clone(), ended.fence.attempt), report.clone());
        self.remember(report.clone(), None);
        Action::End { ended: Box::new(ended), report }
    }

    fn remember(&mut self, end: ReportItem, told: Option<u32>) {
        let job = end.fence.job.clone();
        if self.recent.get(&job).is_some_and(|over| over.end.fence.attempt > end.fence.attempt) {
            return;
        }
        self.recent_order.push_back((job.clone(), end.fence.attempt));
        self.recent.insert(job, Over { end, told });
        while self.recent_order.len() > RECENT_MAX {
            let Some((job, attempt)) = self.recent_order.pop_front() else { return };
            // A newer attempt of the same job has an entry of its own in the order.
            if self.recent.get(&job).is_some_and(|over| over.end.fence.attempt == attempt) {
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
    ReportItem::new(fence.clone(), report)
}

fn stop(fence: &Fence, grace_ms: u64, cause: Cause) -> Action {
    Action::Keeper(Request::Stop { fence: fence.clone(), grace_ms, cause })
}

/// What is told about an end.
pub(crate) fn verdict(ended: &Ended) -> Report {
    let failure = match ended.cause {
        // What is lost is not asked for, so the server counts it as lost.
        Some(Cause::Stopped | Cause::Lost | Cause::Disconnected) => return Report::Stopped,
        Some(Cause::Checkpointed) => return Report::Checkpointed,
        Some(Cause::Timeout | Cause::Walltime) => Some(Failure::Timeout),
        None => ended.note.retry_on.contains(&ended.code).then_some(Failure::Transient),
    };
    let usage = RunUsage {
        peak_ram: ended.peak_ram_bytes.map(|bytes| Mib::new(bytes.div_ceil(1 << 20))),
        cpu_time: ended.cpu_ms.map(Millis::new),
        wall: Some(Millis::new(ended.wall_ms)),
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
mod rounds;
#[cfg(test)]
mod tests;
