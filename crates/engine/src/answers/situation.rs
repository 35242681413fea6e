//! An engine that stands where a scenario says: its nodes, what runs on them, and what waits.
//!
//! A situation is one instant. Nodes join when they were last heard, what is placed becomes running jobs that started
//! just now, and waiting jobs keep the times they came with. Nothing is decided yet: the first step decides.
//!
//! *Pools.* A situation may name pools, or nothing at all. Nodes and jobs that name no pool belong to the only one there
//! is; without any there is one called `default`, which dispatches as its policy is made for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_model::{
    Dispatch, Job, JobId, JobSpec, Lifecycle, Mib, MilliGpu, NodeCount, NodeId, Placement, PolicySetting,
    Pool, PoolId, Situation,
};
use landfall_policy::spec::PolicySpec;
use landfall_policy::term::Family;
use landfall_policy::{Policy, builtin, policy_file};

use crate::dag;
use crate::dispatch::Dispatcher;
use crate::effect::Refused;
use crate::engine::Engine;
use crate::event::{Event, Grant};
use crate::ledger::Proposal;
use crate::record::{Phase, StartKind};
use crate::state::State;
use landfall_model::life::Breakdown;

/// The pool of whatever names none.
const DEFAULT_POOL: &str = "default";

/// A pool with the text of its policy, where that is not a built-in one as it stands.
type PoolAndPolicy = (Pool, Option<Arc<str>>);

impl Engine {
    /// An engine in the given situation, in which nothing has been decided yet.
    pub fn from_situation(situation: &Situation) -> Result<Self, Refused> {
        Self::from_situation_with(situation, None)
    }

    /// The same with a policy that stands before those of the situation, in every pool that dispatches as it is made for.
    pub fn from_situation_with(situation: &Situation, policy: Option<&PolicySpec>) -> Result<Self, Refused> {
        let pools = pools_of(situation, policy)?;
        let heard = |node: &landfall_model::Node| node.heartbeat_at.unwrap_or(situation.now);
        let first = situation.nodes().iter().map(heard).min().unwrap_or(situation.now).min(situation.now);
        let mut engine = Self::of(State { now: first, ..State::default() });
        for (pool, policy) in pools.values() {
            engine.emit(Event::PoolSet { pool: Box::new(pool.clone()), policy: policy.clone() });
        }
        for tenant in situation.world.tenants.values() {
            engine.emit(Event::TenantSet(Box::new(tenant.clone())));
        }
        engine.nodes_as_they_were_heard(situation, &pools)?;
        engine.now = situation.now;
        let running = engine.adopt_placements(situation)?;
        for pool in pools.keys() {
            let mut world = situation.world.clone();
            world.policy = PolicySetting::default();
            world.policies.clear();
            world.pools = pools.iter().map(|(id, (pool, _))| (id.clone(), pool.clone())).collect();
            engine.emit(Event::WorldSet { pool: pool.clone(), world: Box::new(world) });
        }
        for job in situation.jobs().iter().filter(|job| !running.contains(&job.id)) {
            engine.queue_as_it_stands(job, &pools)?;
        }
        engine.link_waiting(situation);
        engine.look_for_surges();
        engine.take_events();
        Ok(engine)
    }

    fn nodes_as_they_were_heard(
        &mut self,
        situation: &Situation,
        pools: &BTreeMap<PoolId, PoolAndPolicy>,
    ) -> Result<(), Refused> {
        let mut nodes: Vec<_> = situation.nodes().iter().collect();
        // Time never goes back, so those that were heard first join first.
        nodes.sort_by_key(|node| (node.heartbeat_at.unwrap_or(situation.now), &node.id));
        for node in nodes {
            let pool = home(node.pool.as_ref(), pools).ok_or_else(|| no_pool("node", node.id.as_str()))?;
            let mut bare = node.clone();
            let placed: Vec<JobId> = bare.placements.iter().map(|placement| placement.job.clone()).collect();
            placed.iter().for_each(|job| {
                bare.remove(job);
            });
            self.now = self.now.max(node.heartbeat_at.unwrap_or(situation.now).min(situation.now));
            self.emit(Event::NodeJoined { pool, node: Box::new(bare) });
        }
        Ok(())
    }

    /// Turns what is placed on nodes into jobs that started just now; gives their ids.
    fn adopt_placements(&mut self, situation: &Situation) -> Result<BTreeSet<JobId>, Refused> {
        let mut by_job: BTreeMap<JobId, Vec<(NodeId, Placement)>> = BTreeMap::new();
        for node in situation.nodes() {
            for placement in &node.placements {
                by_job.entry(placement.job.clone()).or_default().push((node.id.clone(), placement.clone()));
            }
        }
        for (id, placed) in &by_job {
            let known = situation.job(id.as_str()).map(|job| job.spec.clone());
            let spec = known.unwrap_or_else(|| Arc::new(spec_of(placed)));
            self.adopt(Job::new(id.clone(), spec, situation.now), placed)?;
        }
        Ok(by_job.into_keys().collect())
    }

    /// Takes in a job that runs already on the given nodes.
    fn adopt(&mut self, job: Job, placed: &[(NodeId, Placement)]) -> Result<(), Refused> {
        let id = job.id.clone();
        let home_of = |node: &NodeId| self.state.places.get(node).map(|(pool, _)| pool.clone());
        let named = job.spec.pool.clone().filter(|pool| self.state.pools.contains_key(pool));
        let first = placed.first().and_then(|(node, _)| home_of(node));
        let pool = named.or(first).ok_or_else(|| no_pool("job", id.as_str()))?;
        let grants = placed.iter().map(|(node, placement)| Grant {
            node: node.clone(),
            placement: placement.clone(),
            lender: home_of(node).filter(|home| *home != pool),
        });
        let proposal = Proposal {
            job: id.clone(),
            attempt: 1,
            grants: grants.collect(),
            kind: StartKind::Start,
            why: Breakdown::default(),
        };
        self.emit(Event::Submitted { job: Box::new(job), pool, user_hold: false });
        let Some(record) = self.state.job(&id) else { return Ok(()) };
        let counted = self.state.counted(&proposal, record);
        let commit = proposal.commit(counted);
        self.emit(Event::Committed(Box::new(commit)));
        for (node, _) in placed {
            let (job, node) = (id.clone(), node.clone());
            self.emit(Event::Reported { job, node, phase: Phase::Started, exit: None });
        }
        self.emit(Event::Started(id));
        Ok(())
    }

    /// Puts a job into its queue with the times it came with.
    fn queue_as_it_stands(
        &mut self,
        job: &Job,
        pools: &BTreeMap<PoolId, PoolAndPolicy>,
    ) -> Result<(), Refused> {
        let pool = home(job.spec.pool.as_ref(), pools).ok_or_else(|| no_pool("job", job.id.as_str()))?;
        let dispatch = pools.get(&pool).map(|(pool, _)| pool.dispatch);
        if job.spec.nodes.max > 1 && dispatch != Some(Dispatch::Batch) {
            let message =
                format!("job `{}` wants several nodes, and pool `{pool}` places one at a time", job.id);
            return Err(Refused::new("gang_unsupported", message, "give the pool dispatch = \"batch\""));
        }
        self.emit(Event::Submitted { job: Box::new(job.clone()), pool, user_hold: false });
        Ok(())
    }

    /// Makes edges of what jobs wait for, where that is a job of the situation.
    fn link_waiting(&mut self, situation: &Situation) {
        for job in situation.jobs() {
            let on = job.waits_for.as_ref().and_then(|name| JobId::new(name.as_str()).ok());
            let Some(on) = on.filter(|on| self.state.jobs.contains_key(on)) else { continue };
            let new = dag::NewJob {
                id: job.id.clone(),
                element: None,
                join: dag::Join::All,
                edges: vec![dag::Edge { on, kind: dag::EdgeKind::Success }],
                mutex: job.spec.mutex.clone(),
            };
            let submission = dag::Submission { tenant: job.spec.tenant.clone(), jobs: vec![new] };
            // What cannot be an edge (such as a job of another tenant) stays a name to wait for.
            if self.state.graph.check(&submission, |id| self.state.known(id, &submission)).is_ok() {
                self.emit(Event::Linked(Box::new(submission)));
            }
        }
    }
}

fn no_pool(what: &str, id: &str) -> Refused {
    let message = format!("{what} `{id}` names no pool, and there are several");
    Refused::new("no_pool", message, format!("give the {what} a pool"))
}

/// The pool of something that names this one or none.
fn home(named: Option<&PoolId>, pools: &BTreeMap<PoolId, PoolAndPolicy>) -> Option<PoolId> {
    if let Some(named) = named {
        return pools.contains_key(named).then(|| named.clone());
    }
    let only = pools.keys().next().filter(|_| pools.len() == 1);
    only.or_else(|| pools.keys().find(|pool| pool.as_str() == DEFAULT_POOL)).cloned()
}

/// Every pool that the situation names or needs.
fn pools_of(
    situation: &Situation,
    policy: Option<&PolicySpec>,
) -> Result<BTreeMap<PoolId, PoolAndPolicy>, Refused> {
    let mut pools = situation.world.pools.clone();
    let usual = usual_dispatch(situation, policy);
    let mentioned = situation.nodes().iter().filter_map(|node| node.pool.as_ref());
    let mentioned = mentioned.chain(situation.jobs().iter().filter_map(|job| job.spec.pool.as_ref()));
    for id in mentioned {
        if !pools.contains_key(id) {
            pools.insert(id.clone(), Pool::new(id.clone(), usual));
        }
    }
    let homeless = situation.nodes().iter().any(|node| node.pool.is_none());
    if pools.is_empty() || (homeless && pools.len() > 1) {
        let id = PoolId::new(DEFAULT_POOL).unwrap_or_else(|_| unreachable!("a literal id is valid"));
        pools.entry(id.clone()).or_insert_with(|| Pool::new(id, usual));
    }
    let setting = &situation.world.policy;
    let mut changed_nowhere = None;
    let mut changed = false;
    let mut given = policy.is_none();
    let mut found = BTreeMap::new();
    for (id, mut pool) in pools {
        let suits = |name: &str| dispatch_of_name(name) == Some(pool.dispatch);
        if let Some(name) = setting.name.as_ref().filter(|name| suits(name.as_str())) {
            pool.policy = Some(name.clone());
        }
        let text = match policy.filter(|policy| dispatch_of(policy) == Some(pool.dispatch)) {
            Some(policy) => {
                given = true;
                Some(as_text(policy)?)
            }
            None => match changed_policy(&pool, situation.world.policies.get(&id), setting) {
                Ok(text) => {
                    changed = true;
                    text
                }
                Err(refused) => {
                    changed_nowhere = Some(refused);
                    None
                }
            },
        };
        pool.validate().map_err(|error| Refused::new("out_of_range", error.message, "change the setting"))?;
        Dispatcher::check_policy(text.as_deref())?;
        // A server goes on with another policy and says so; whoever asks about a file can correct it first.
        let name = pool.policy_name();
        if text.is_none() && pool.dispatch != Dispatch::Pull && builtin::spec(name).is_none() {
            let message = format!("there is no policy `{name}`");
            return Err(Refused::new("unknown_policy", message, "`landfall policy list` shows all"));
        }
        found.insert(id, (pool, text));
    }
    if !given {
        let name = policy.map_or("", |policy| policy.name.as_str());
        let message = format!("no pool dispatches in the way that policy `{name}` is made for");
        return Err(Refused::new("policy_family", message, "change `dispatch` of the pool, or the policy"));
    }
    // Changes that fit the policy of one pool need not fit those of the others.
    match changed_nowhere.filter(|_| !changed) {
        Some(refused) => Err(refused),
        None => Ok(found),
    }
}

/// The policy of a pool with the changes of a scenario, if there are any.
fn changed_policy(
    pool: &Pool,
    own: Option<&Arc<str>>,
    setting: &PolicySetting,
) -> Result<Option<Arc<str>>, Refused> {
    if setting.params.is_empty() && setting.weights.is_empty() && setting.enabled.is_empty() {
        return Ok(own.cloned());
    }
    let bad = |message: String| Refused::new("bad_policy", message, "correct [policy] in the scenario");
    let mut spec = match own {
        Some(text) => policy_file::parse(text).map_err(|error| bad(error.to_string()))?,
        None => match builtin::spec(pool.policy_name()) {
            Some(spec) => spec.map_err(|error| bad(error.to_string()))?,
            None => return Ok(None),
        },
    };
    spec.apply(setting).map_err(bad)?;
    Policy::compile(spec.clone()).map_err(|error| bad(error.to_string()))?;
    as_text(&spec).map(Some)
}

/// A policy as the text of its file, as pools keep it.
pub fn as_text(spec: &PolicySpec) -> Result<Arc<str>, Refused> {
    let text = policy_file::text(spec).map(Arc::from);
    text.ok_or_else(|| Refused::new("bad_policy", "the policy cannot be written as a file", "correct it"))
}

/// How a pool dispatches that nobody described.
fn usual_dispatch(situation: &Situation, policy: Option<&PolicySpec>) -> Dispatch {
    let named = situation.world.policy.name.as_ref().and_then(|name| dispatch_of_name(name.as_str()));
    let gangs = situation.jobs().iter().any(|job| job.spec.nodes.max > 1);
    let usual = if gangs { Dispatch::Batch } else { Dispatch::Push };
    policy.and_then(dispatch_of).or(named).unwrap_or(usual)
}

fn dispatch_of_name(name: &str) -> Option<Dispatch> {
    builtin::spec(name)?.ok().as_ref().and_then(dispatch_of)
}

/// The way to dispatch that a policy is made for: that of the first of its terms, push if it has none.
pub fn dispatch_of(policy: &PolicySpec) -> Option<Dispatch> {
    let Some(first) = policy.terms.first() else { return Some(Dispatch::Push) };
    let info = landfall_policy::catalogue::term(&first.name)?;
    Some(match info.family {
        Family::Fit | Family::BinPack | Family::Packing => Dispatch::Push,
        Family::Pull => Dispatch::Pull,
        Family::Batch => Dispatch::Batch,
        Family::Offer => Dispatch::Negotiate,
    })
}

/// Says that the policy of a pool, by name or as the text of a file, is made for another way to dispatch. One without terms suits all.
pub fn misfit(pool: &Pool, text: Option<&str>) -> Option<String> {
    let spec = match text {
        Some(text) => policy_file::parse(text).ok()?,
        None => builtin::spec(pool.policy_name())?.ok()?,
    };
    let made_for = dispatch_of(&spec).filter(|_| !spec.terms.is_empty())?;
    let word = |dispatch| match dispatch {
        Dispatch::Push => "push",
        Dispatch::Pull => "pull",
        Dispatch::Batch => "batch",
        Dispatch::Negotiate => "negotiate",
    };
    let (id, is) = (&pool.id, word(pool.dispatch));
    (made_for != pool.dispatch).then(|| {
        format!("policy `{}` is made for {} pools, and pool `{id}` is a {is} pool", spec.name, word(made_for))
    })
}

/// What a job must have asked for to hold what it holds.
fn spec_of(placed: &[(NodeId, Placement)]) -> JobSpec {
    let mut spec = JobSpec::empty();
    let Some((_, placement)) = placed.first() else { return spec };
    let share = placement.devices.first();
    (spec.cpu_milli, spec.ram_mib) = (placement.cpu, placement.ram);
    spec.gpu_count = placement.devices.len() as u32;
    spec.vram_mib = share.map_or(Mib::ZERO, |share| share.vram);
    spec.gpu_milli = share.map_or(MilliGpu::WHOLE, |share| share.milli);
    spec.exclusive = placement.exclusive_node;
    spec.expected_duration_ms = placement.expected_duration;
    let nodes = u32::try_from(placed.len()).unwrap_or(u32::MAX);
    spec.nodes = NodeCount { min: nodes, max: nodes };
    match placement.walltime {
        Some(walltime) => spec.walltime_ms = walltime,
        None => spec.lifecycle = Lifecycle::Unbounded,
    }
    spec
}
