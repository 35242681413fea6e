//! The last decisions of each pool, with what was known when they were made.
//!
//! In memory, for boards. The journal has all decisions, with less of each; after a start the rings are filled from there.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use landfall_engine::event::Commit;
use landfall_engine::notes::{Note, Undecided};
use landfall_engine::state::PoolState;
use landfall_engine::{Event, Input, State};
use landfall_model::life::{Beside, Breakdown, Points, RunnerUp};
use landfall_model::verdict::Verdict;
use landfall_model::{
    Capabilities, Dispatch, Instance, JobId, JobKind, JobReport, JobSpec, Metrics, Node, NodeId, PoolId, Time,
};
use landfall_store::{Reader, StoreError};

use super::core::Core;

/// Decisions kept of a pool that has no setting for it.
const KEPT: usize = 200;
/// Events of the journal that are looked at to fill the rings.
const LOOKED_THROUGH: u64 = 20_000;

/// A decision and its circumstances.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    /// Counts decisions since the server began.
    pub(crate) number: u64,
    pub(crate) at: Time,
    pub(crate) pool: PoolId,
    /// The worker that asked, or the node that the job went to.
    pub(crate) node: Option<NodeId>,
    pub(crate) kind: JobKind,
    pub(crate) winner: Option<JobId>,
    /// Jobs that were scored, best first.
    pub(crate) candidates: Vec<Candidate>,
    /// What was known of the node.
    pub(crate) of_node: Option<NodeSeen>,
    /// What was known of the pool.
    pub(crate) instance: Option<Box<Instance>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) job: JobId,
    pub(crate) total: Option<f64>,
    pub(crate) terms: Vec<Points>,
    pub(crate) vetoes: Vec<Cow<'static, str>>,
    /// What was known of the job; nothing if the decision comes from the journal.
    pub(crate) seen: Option<JobSeen>,
}

#[derive(Debug, Clone)]
pub(crate) struct JobSeen {
    pub(crate) spec: Arc<JobSpec>,
    pub(crate) queued_at: Time,
    pub(crate) ready_at: Time,
    pub(crate) rounds: u32,
    pub(crate) dependents: u64,
    /// What the node said that it would have to fetch.
    pub(crate) report: Option<JobReport>,
    /// How much of all work its tenant has.
    pub(crate) work_share: Option<f64>,
}

#[derive(Debug, Clone)]
pub(crate) struct NodeSeen {
    pub(crate) capabilities: Capabilities,
    pub(crate) features: Vec<String>,
    pub(crate) metrics: Option<Metrics>,
}

impl NodeSeen {
    pub(crate) fn of(node: &Node) -> Self {
        Self {
            capabilities: node.capabilities.clone().unwrap_or_default(),
            features: node.features.keys().map(ToString::to_string).collect(),
            metrics: node.metrics,
        }
    }
}

impl JobSeen {
    pub(crate) fn of(state: &State, job: &JobId, report: Option<JobReport>) -> Option<Self> {
        let record = state.job(job)?;
        let spec = record.job.spec.clone();
        let tenants = state.pool(&record.pool).map(|pool| &pool.world.tenants);
        let tenant = tenants.zip(spec.tenant.as_ref()).and_then(|(tenants, tenant)| tenants.get(tenant));
        Some(Self {
            work_share: tenant.and_then(|tenant| tenant.work_share),
            report,
            queued_at: record.job.queued_at,
            ready_at: record.job.ready_at,
            rounds: state.rounds(record),
            dependents: spec.dependents.max(state.graph.dependents(job)),
            spec,
        })
    }
}

impl Candidate {
    fn of_verdict(core: &Core, node: &NodeId, verdict: Verdict) -> Option<Self> {
        let job = JobId::new(verdict.candidate.as_str()).ok()?;
        let why = Breakdown::of(&verdict, None);
        let seen = JobSeen::of(core.engine.state(), &job, core.instances.report(&job, node));
        Some(Self { job, total: why.total, terms: why.terms, vetoes: verdict.vetoes, seen })
    }

    fn of_commit(state: &State, commit: &Commit) -> Self {
        let (job, why) = (commit.job.clone(), commit.why.clone());
        let seen = JobSeen::of(state, &job, None);
        Self { job, total: why.total, terms: why.terms, vetoes: Vec::new(), seen }
    }

    /// Higher totals first, then by id.
    fn place(&self) -> (Reverse<i64>, JobId) {
        (Reverse(self.total.map_or(i64::MIN, landfall_policy::q)), self.job.clone())
    }

    /// What the journal knows of a job that was passed over.
    fn of_runner_up(runner_up: &RunnerUp) -> Option<Self> {
        let job = JobId::new(runner_up.candidate.as_str()).ok()?;
        let (total, vetoes) = (Some(runner_up.total), runner_up.vetoes.clone());
        Some(Self { job, total, terms: Vec::new(), vetoes, seen: None })
    }
}

impl Made {
    /// The id by which a board finds one of its candidates.
    pub(crate) fn id_of(&self, place: usize) -> String {
        format!("d{}.{place}", self.number)
    }

    /// The place of the winner among the candidates.
    pub(crate) fn winner_at(&self) -> Option<usize> {
        let winner = self.winner.as_ref()?;
        self.candidates.iter().position(|candidate| candidate.job == *winner)
    }

    /// The id of the winner.
    pub(crate) fn id(&self) -> Option<String> {
        self.winner_at().map(|place| self.id_of(place))
    }
}

/// The last decisions of all pools.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    pools: BTreeMap<PoolId, VecDeque<Arc<Made>>>,
    made: u64,
}

impl Rings {
    fn add(&mut self, room: usize, mut made: Made) {
        self.made += 1;
        made.number = self.made;
        let ring = self.pools.entry(made.pool.clone()).or_default();
        ring.push_back(Arc::new(made));
        while ring.len() > room {
            ring.pop_front();
        }
    }

    /// All of them, newest first.
    pub(crate) fn newest_first(&self) -> Vec<&Arc<Made>> {
        let mut all: Vec<&Arc<Made>> = self.pools.values().flatten().collect();
        all.sort_by_key(|made| Reverse(made.number));
        all
    }

    /// The ids by which a board finds the last decision that chose each job.
    pub(crate) fn winners(&self) -> BTreeMap<&JobId, String> {
        let made = self.newest_first().into_iter().rev();
        made.filter_map(|made| Some((made.winner.as_ref()?, made.id()?))).collect()
    }

    /// The candidate of an id, or the newest decision that chose a job.
    pub(crate) fn find(&self, id: &str) -> Option<(&Arc<Made>, usize)> {
        let numbers = id.strip_prefix('d').and_then(|id| id.split_once('.'));
        if let Some((number, place)) = numbers
            && let (Ok(number), Ok(place)) = (number.parse::<u64>(), place.parse::<usize>())
        {
            let made = self.pools.values().flatten().find(|made| made.number == number)?;
            return (place < made.candidates.len()).then_some((made, place));
        }
        let all = self.newest_first();
        let chose =
            all.into_iter().find(|made| made.winner.as_ref().is_some_and(|job| job.as_str() == id))?;
        Some((chose, chose.winner_at()?))
    }

    /// Earlier decisions that chose the same job, newest first.
    pub(crate) fn earlier(&self, than: &Made) -> Vec<&Arc<Made>> {
        let same = |other: &&Arc<Made>| other.winner == than.winner && other.number < than.number;
        self.newest_first().into_iter().filter(|_| than.winner.is_some()).filter(same).collect()
    }

    /// The rings as far as the journal tells them.
    pub(super) fn load(store: &mut dyn Reader, state: &State) -> Result<Self, StoreError> {
        let mut rings = Self::default();
        let (oldest, last) = (store.oldest_seq()?, store.last_seq()?);
        let mut after = last.saturating_sub(LOOKED_THROUGH).max(oldest.saturating_sub(1));
        while after < last {
            let page = store.events(after, 1000)?;
            let Some(newest) = page.last() else { break };
            after = newest.seq;
            for stored in page {
                let made = match stored.event {
                    Event::Committed(commit) => rings_commit(state, stored.at, &commit),
                    Event::Undecided(undecided) => rings_undecided(state, stored.at, &undecided),
                    _ => None,
                };
                if let Some(made) = made {
                    rings.add(room(state, &made.pool), made);
                }
            }
        }
        Ok(rings)
    }
}

/// How many decisions of a pool are kept.
fn room(state: &State, pool: &PoolId) -> usize {
    match state.pool(pool) {
        Some(PoolState { pool, .. }) if pool.dispatch == Dispatch::Pull => pool.pull.ring_decisions as usize,
        _ => KEPT,
    }
}

fn rings_commit(state: &State, at: Time, commit: &Commit) -> Option<Made> {
    let beside = commit.beside.as_deref();
    let known = state.job(&commit.job);
    let pool = beside.and_then(|beside| beside.pool.clone()).or_else(|| Some(known?.pool.clone()))?;
    let mut candidates = vec![Candidate::of_commit(state, commit)];
    if state.pool(&pool).is_some_and(|pool| pool.pool.dispatch == Dispatch::Pull) {
        let others = beside.into_iter().flat_map(|beside| &beside.runners_up);
        candidates.extend(others.filter_map(Candidate::of_runner_up));
        // A vetoed job stands where its total puts it, also before the winner.
        candidates.sort_by_key(Candidate::place);
    }
    Some(Made {
        number: 0,
        at,
        node: commit.grants.first().map(|grant| grant.node.clone()),
        kind: known.map_or(JobKind::Build, |record| record.job.spec.kind),
        winner: Some(commit.job.clone()),
        candidates,
        of_node: None,
        instance: None,
        pool,
    })
}

fn rings_undecided(state: &State, at: Time, undecided: &Undecided) -> Option<Made> {
    let Undecided { node: Some(node), beside, .. } = undecided else { return None };
    let pool = beside.pool.clone().filter(|pool| state.pool(pool).is_some())?;
    let candidates: Vec<_> = beside.runners_up.iter().filter_map(Candidate::of_runner_up).collect();
    let (node, kind) = (Some(node.clone()), JobKind::Build);
    (!candidates.is_empty()).then_some(Made {
        number: 0,
        at,
        pool,
        node,
        kind,
        winner: None,
        candidates,
        of_node: None,
        instance: None,
    })
}

impl Core {
    /// Puts what decisions looked at into their events and into the rings. Gives what is to be kept of those that chose nobody.
    pub(super) fn keep_decisions(&mut self, events: &mut [Event], notes: Vec<Note>) -> Vec<Input> {
        let mut beside: BTreeMap<JobId, Beside> = BTreeMap::new();
        let mut undecided = Vec::new();
        for note in notes {
            if let Some((node, kind)) = &note.asked {
                self.ring_of_worker(node, *kind, &note);
            }
            match (note.placed, note.job) {
                (true, Some(job)) => {
                    beside.insert(job, note.beside);
                }
                (false, job) if note.is_news => {
                    let node = note.asked.map(|(node, _)| node);
                    let told = Undecided { job, node, beside: note.beside };
                    undecided.push(Input::Undecided(Box::new(told)));
                }
                _ => {}
            }
        }
        for event in events {
            let Event::Committed(commit) = event else { continue };
            let state = self.engine.state();
            let pool = state.job(&commit.job).map(|record| record.pool.clone());
            let known = beside.remove(&commit.job);
            let pulled = known.is_some() && pool.as_ref().is_some_and(|pool| self.is_pull(pool));
            let mut beside = known.unwrap_or_default();
            beside.pool = beside.pool.or(pool);
            commit.beside = Some(Box::new(beside));
            if !pulled && let Some(mut made) = rings_commit(state, self.now, commit) {
                let node = commit.grants.first().and_then(|grant| state.node(&grant.node));
                made.of_node = node.map(|(node, _)| NodeSeen::of(node));
                self.rings.add(room(state, &made.pool.clone()), made);
            }
        }
        undecided
    }

    fn ring_of_worker(&mut self, node: &NodeId, kind: JobKind, note: &Note) {
        let state = self.engine.state();
        let Some((at, _)) = state.node(node) else { return };
        let Some(pool) = note.beside.pool.clone() else { return };
        let room = room(state, &pool);
        if room == 0 || note.candidates.is_empty() {
            return;
        }
        let most = state.pool(&pool).map_or(0, |pool| pool.pool.pull.ring_candidates as usize);
        let mut candidates: Vec<Candidate> = Vec::new();
        for (place, verdict) in note.candidates.iter().enumerate() {
            let won = note.job.as_ref().is_some_and(|job| job.as_str() == verdict.candidate.as_str());
            if place < most || won {
                candidates.extend(Candidate::of_verdict(self, node, verdict.clone()));
            }
        }
        let made = Made {
            number: 0,
            at: self.now,
            node: Some(node.clone()),
            kind,
            winner: note.job.clone(),
            candidates,
            of_node: Some(NodeSeen::of(at)),
            instance: state.pool(&pool).map(|pool| Box::new(pool.world.instance.clone())),
            pool,
        };
        self.rings.add(room, made);
    }
}
