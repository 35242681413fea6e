//! Whose work may be stopped for whom, what that costs, and which few jobs are stopped.
//!
//! Three questions, asked in this order: [`judge`] says of one running job whether it may be a victim, or why not;
//! [`choose`] finds the best small set of victims; a [`PreemptBudget`] keeps a pool from stopping too much. The same
//! rules serve a pool that wants its lent nodes back ([`Claim::Reclaim`]): then class does not matter.
//!
//! [`choose`] sorts all sets of up to a few victims by what is known of them beforehand (highest class, cost, count) and
//! only then asks the caller, who plans on an overlay, whether a set frees enough. It stops at the first set that cannot
//! be better than what it has, so the answer is exact and the expensive question is asked as rarely as possible.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use landfall_model::{Checkpoint, JobId, Lifecycle, Millis, Minutes, PreemptRule, Time};
use landfall_policy::q;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// A job that has no more than this left is left alone.
pub const NEAR_END: Millis = Millis::secs(300);
/// A job that was stopped so often within [`PREEMPT_WINDOW`] is left alone.
pub const PREEMPT_LIMIT: usize = 3;
/// How long a preemption is held in a job's favour.
pub const PREEMPT_WINDOW: Millis = Millis::secs(86_400);
/// Candidates looked at, the cheapest first.
pub const CANDIDATES_MAX: usize = 32;
/// The most victims ever taken together, whatever a pool allows: beyond it there are too many sets to try them all.
pub const VICTIMS_MAX: usize = 5;
/// Jobs per pool and cycle that may stop others.
pub const PREEMPTORS_PER_CYCLE: u32 = 4;
/// Jobs per pool and hour that may be stopped.
pub const PREEMPTIONS_PER_HOUR: u32 = 100;

/// How long nodes are kept for a job that has work stopped for it: the longest checkpoint, the kill grace, two cycles.
pub fn kept_for(cycle: Millis) -> Millis {
    Millis::new(930_000_u64.saturating_add(cycle.get().saturating_mul(2)))
}

const HOUR: Millis = Millis::secs(3600);
const CLASS_CRITICAL: u8 = 10;
const CLASS_HIGH: u8 = 7;

/// By what right nodes are asked back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// A more urgent job of this class needs them, and the pool lets it stop others by this rule.
    Preempt { class: u8, rule: PreemptRule },
    /// Their home pool needs them; class does not matter.
    Reclaim,
}

impl Claim {
    /// That of the most urgent job there can be.
    pub(crate) fn highest() -> Self {
        Self::Preempt { class: CLASS_CRITICAL, rule: PreemptRule::Below }
    }

    pub(crate) fn beats(self, class: u8) -> bool {
        match self {
            Self::Reclaim => true,
            Self::Preempt { class: by, rule: PreemptRule::Below } => class < by,
            Self::Preempt { class: by, rule: PreemptRule::Bands } => match class {
                0 => by >= 1,
                1..=3 => by >= 4,
                4..=6 => by >= 7,
                7..=9 => by >= CLASS_CRITICAL,
                _ => false,
            },
        }
    }
}

/// A job that holds nodes, as these rules see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Incumbent<'a> {
    pub job: &'a JobId,
    /// Whether it is Running; any other state is left alone.
    pub running: bool,
    pub class: u8,
    pub sensitive: bool,
    pub preemptible: bool,
    pub lifecycle: Lifecycle,
    pub walltime: Millis,
    /// When its walltime is over, if bounded. After a resume that is this start plus what was left.
    pub ends_at: Option<Time>,
    pub started: Time,
    pub nodes: u32,
    /// Whether every node it holds is at home in the pool it runs in.
    pub on_home_nodes: bool,
    pub checkpoint: Checkpoint,
    /// Minutes a checkpoint takes ([`checkpoint_minutes`]); `None` if it cannot save.
    pub checkpoint_minutes: Option<f64>,
    /// Whether its tenant may burst and is above its share.
    pub over_share: bool,
    pub preempted: &'a Preempted,
    /// Until when it is left alone.
    pub min_run: Millis,
}

/// Why a job is not stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exempt {
    NotRunning,
    Sensitive,
    #[serde(rename = "class_10")]
    Class10,
    NotPreemptible,
    /// Its class is not far enough below.
    Class,
    MinRun,
    NearEnd,
    NoCheckpointHigh,
    /// It is a service on nodes of its own pool.
    ServiceHome,
    PreemptLimit,
}

/// The last times a job was stopped for others; no more of them than the limit looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Preempted(Vec<Time>);

impl Preempted {
    pub fn note(&mut self, at: Time) {
        if self.0.len() == PREEMPT_LIMIT {
            self.0.remove(0);
        }
        self.0.push(at);
    }

    /// Whether the job was stopped often enough lately.
    pub fn is_enough(&self, now: Time) -> bool {
        self.0.iter().filter(|&&at| now.since(at) < PREEMPT_WINDOW).count() >= PREEMPT_LIMIT
    }
}

/// A job that may be stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Victim {
    pub job: JobId,
    pub class: u8,
    pub cost: f64,
    pub started: Time,
}

/// Minutes one checkpoint takes: as declared, else as last measured, else the usual; `None` for a job that cannot save.
pub fn checkpoint_minutes(
    checkpoint: Checkpoint,
    declared: Option<Minutes>,
    measured: Option<Millis>,
) -> Option<f64> {
    let usual = match checkpoint {
        Checkpoint::None => return None,
        Checkpoint::Auto => 5.0,
        Checkpoint::Manual => 10.0,
    };
    Some(declared.map(Minutes::as_f64).or(measured.map(minutes)).unwrap_or(usual))
}

fn minutes(span: Millis) -> f64 {
    span.as_f64() / 60_000.0
}

/// Whether a job may be stopped on this claim, and at which cost; otherwise the first reason against it.
pub fn judge(job: &Incumbent<'_>, claim: Claim, now: Time) -> Result<Victim, Exempt> {
    let bounded = job.lifecycle == Lifecycle::Bounded;
    let refusals = [
        (!job.running, Exempt::NotRunning),
        (job.sensitive, Exempt::Sensitive),
        (job.class >= CLASS_CRITICAL, Exempt::Class10),
        (!job.preemptible, Exempt::NotPreemptible),
        (!claim.beats(job.class), Exempt::Class),
        (now.since(job.started) < job.min_run, Exempt::MinRun),
        (bounded && job.ends_at.is_some_and(|end| end.since(now) <= NEAR_END), Exempt::NearEnd),
        (job.checkpoint == Checkpoint::None && job.class >= CLASS_HIGH, Exempt::NoCheckpointHigh),
        (!bounded && job.on_home_nodes, Exempt::ServiceHome),
        (job.preempted.is_enough(now), Exempt::PreemptLimit),
    ];
    match refusals.into_iter().find(|(holds, _)| *holds) {
        Some((_, reason)) => Err(reason),
        None => {
            Ok(Victim { job: job.job.clone(), class: job.class, cost: cost(job, now), started: job.started })
        }
    }
}

/// What stopping a job costs: what is lost or must be written, dearer near the end, half price above a share.
pub fn cost(job: &Incumbent<'_>, now: Time) -> f64 {
    let saved_or_lost = match job.checkpoint_minutes {
        Some(minutes) if job.checkpoint != Checkpoint::None => minutes,
        _ => f64::from(job.nodes) * minutes(now.since(job.started)),
    };
    let burst = if job.over_share { 0.5 } else { 1.0 };
    (saved_or_lost + progress_cost(job, now)) * burst
}

/// Work that is nearly done is hardly ever worth stopping; work that has hardly begun costs next to nothing.
fn progress_cost(job: &Incumbent<'_>, now: Time) -> f64 {
    if job.lifecycle != Lifecycle::Bounded || job.walltime.is_zero() {
        return 0.0;
    }
    // After a resume the run is as far as its walltime is used up, not as far as it is from its last start.
    let used = match job.ends_at {
        Some(end) => job.walltime.saturating_sub(end.since(now)),
        None => now.since(job.started),
    };
    match used.as_f64() / job.walltime.as_f64() {
        x if x >= 0.9 => 1000.0,
        x if x < 0.1 => 1.0,
        x => 100.0 * x,
    }
}

/// How victims are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChoiceRules {
    pub max_victims: u32,
    /// The cost of all victims must stay below this.
    pub cost_max: f64,
    /// Whether lent nodes are asked back: then the classes of victims are not compared.
    pub reclaim: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice<S> {
    /// Who is stopped, in the order of the candidates.
    pub victims: Vec<Victim>,
    /// The nodes found with them gone.
    pub set: S,
    pub surplus: u32,
    pub cost: f64,
}

/// Why nobody is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoVictims {
    NoCandidates,
    /// No few victims free what is needed.
    NoSet,
    /// Some would, but the cost of stopping them is too high.
    PreemptCost,
}

/// The first so many candidates in the order in which they are tried.
pub fn first<T>(mut candidates: Vec<T>, most: usize, victim: impl Fn(&T) -> &Victim) -> Vec<T> {
    let in_order = |a: &T, b: &T| {
        let (a, b) = (victim(a), victim(b));
        (a.class.cmp(&b.class))
            .then(q(a.cost).cmp(&q(b.cost)))
            .then(b.started.cmp(&a.started))
            .then(a.job.cmp(&b.job))
    };
    if candidates.len() > most {
        candidates.select_nth_unstable_by(most, in_order);
        candidates.truncate(most);
    }
    candidates.sort_by(in_order);
    candidates
}

/// Those that are tried, in order; [`choose`] does the same.
pub fn shortlist(candidates: Vec<Victim>) -> Vec<Victim> {
    first(candidates, CANDIDATES_MAX, |victim| victim)
}

type Indices = SmallVec<[usize; VICTIMS_MAX]>;

/// What is known of a set before anybody looks whether it frees enough. Fields in order of comparison.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    class: u8,
    cost: i64,
    count: usize,
}

/// The best set of victims.
///
/// `fits` is given indices into the [`shortlist`] of the candidates, ascending, and answers with the nodes it found with
/// these victims gone and the number of freed nodes that stay unused, or `None` if they do not free enough. `could_fit`
/// is asked before, of every set: it is quick, and wrong only in saying yes.
pub fn choose<S>(
    candidates: Vec<Victim>,
    rules: &ChoiceRules,
    could_fit: impl Fn(&[usize]) -> bool,
    mut fits: impl FnMut(&[usize]) -> Option<(S, u32)>,
) -> Result<Choice<S>, NoVictims> {
    let candidates = shortlist(candidates);
    if candidates.is_empty() {
        return Err(NoVictims::NoCandidates);
    }
    let cost = |set: &Indices| set.iter().fold(0.0, |sum, &at| sum + candidates[at].cost);
    // Mostly one of the first fits: no need to sort them all.
    let mut sets: BinaryHeap<Reverse<(Known, Indices)>> = sets(candidates.len(), rules.max_victims as usize)
        .into_iter()
        .filter(|set| could_fit(set))
        .map(|set| {
            let class = if rules.reclaim { None } else { set.iter().map(|&at| candidates[at].class).max() };
            Reverse((Known { class: class.unwrap_or(0), cost: q(cost(&set)), count: set.len() }, set))
        })
        .collect();

    // The last criteria, known once a set fits: unused nodes, newest starts first, ids.
    let rest = |set: &Indices, surplus: u32| {
        let mut starts: Vec<_> = set.iter().map(|&at| Reverse(candidates[at].started)).collect();
        let mut ids: Vec<_> = set.iter().map(|&at| &candidates[at].job).collect();
        starts.sort_unstable();
        ids.sort_unstable();
        (surplus, starts, ids)
    };
    let mut too_dear = false;
    let mut best: Option<(Known, Indices, S, u32)> = None;
    while let Some(Reverse((known, set))) = sets.pop() {
        if best.as_ref().is_some_and(|best| known > best.0) {
            break;
        }
        let affordable = cost(&set) < rules.cost_max;
        if !affordable && too_dear {
            continue;
        }
        let Some((found, surplus)) = fits(&set) else { continue };
        if !affordable {
            too_dear = true;
        } else if best.as_ref().is_none_or(|(_, held, _, unused)| rest(&set, surplus) < rest(held, *unused)) {
            best = Some((known, set, found, surplus));
        }
    }
    match best {
        Some((_, set, found, surplus)) => Ok(Choice {
            cost: cost(&set),
            victims: set.iter().map(|&at| candidates[at].clone()).collect(),
            set: found,
            surplus,
        }),
        None if too_dear => Err(NoVictims::PreemptCost),
        None => Err(NoVictims::NoSet),
    }
}

/// Every set of 1 to `most` of the first `count` numbers.
fn sets(count: usize, most: usize) -> Vec<Indices> {
    let mut all: Vec<Indices> = Vec::new();
    let mut last: Vec<Indices> = vec![Indices::new()];
    for _ in 0..most.min(VICTIMS_MAX) {
        let longer = |set: &Indices| {
            let set = set.clone();
            let from = set.last().map_or(0, |&at| at + 1);
            (from..count).map(move |at| set.iter().copied().chain([at]).collect::<Indices>())
        };
        last = last.iter().flat_map(longer).collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// How much a pool may still stop: a few preemptors per cycle, a number of victims per hour.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PreemptBudget {
    preemptors: u32,
    /// When how many were stopped, oldest first, of the last hour only.
    stopped: VecDeque<(Time, u32)>,
}

impl PreemptBudget {
    pub fn begin_cycle(&mut self, now: Time) {
        self.preemptors = 0;
        while self.stopped.front().is_some_and(|&(at, _)| now.since(at) >= HOUR) {
            self.stopped.pop_front();
        }
    }

    /// How many more jobs may be stopped now for one more preemptor; 0 if none.
    pub fn room(&self, now: Time) -> u32 {
        if self.preemptors >= PREEMPTORS_PER_CYCLE {
            return 0;
        }
        let recent = self.stopped.iter().filter(|(at, _)| now.since(*at) < HOUR).map(|(_, count)| count);
        PREEMPTIONS_PER_HOUR.saturating_sub(recent.fold(0, |sum, &count| u32::saturating_add(sum, count)))
    }

    pub fn spend(&mut self, victims: u32, now: Time) {
        self.preemptors = self.preemptors.saturating_add(1);
        self.stopped.push_back((now, victims));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_set_is_there_once() {
        let all = sets(6, 3);
        assert_eq!(all.len(), 6 + 15 + 20);
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert!(all.iter().all(|set| set.is_sorted()));
        assert_eq!(sets(32, 3).len(), 5488);
    }

    #[test]
    fn bands_need_the_next_band() {
        let least = |class: u8| {
            (0..=10).find(|&by| Claim::Preempt { class: by, rule: PreemptRule::Bands }.beats(class))
        };
        let want = [1, 4, 4, 4, 7, 7, 7, 10, 10, 10].map(Some);
        assert_eq!((0..10).map(least).collect::<Vec<_>>(), want);
        assert_eq!(least(10), None);
    }
}
