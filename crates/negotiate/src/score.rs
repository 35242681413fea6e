//! Asks the policy: an offer's facts become a node with the arbiter's own view of the peer, and a policy, built in
//! or the peer's own, filters, scores and ranks. Arbiters and nodes use the same code, each with its own knowledge.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use landfall_model::{
    Digest, Gpu, Hints, Job, JobId, JobSpec, Mib, MilliCpu, Name, Node, NodeId, Peer, PolicySetting, Scope,
    Situation, Time, World,
};
use landfall_policy::Policy;
use serde::{Deserialize, Serialize};

use crate::profile::{Facts, Profile};
use crate::reason::Reason;
use crate::settings::{Preset, Settings};

/// What one term gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TermLine {
    pub term: String,
    pub raw: f64,
    pub weight: f64,
    /// What it adds to the score.
    pub contribution: f64,
}

/// The job as scoring sees it.
pub(super) struct Question<'a> {
    pub(super) job: Digest,
    pub(super) round: u32,
    pub(super) need: &'a Profile,
    pub(super) hints: &'a Hints,
    pub(super) max_cost: Option<u64>,
    pub(super) max_scope: Scope,
    pub(super) allowed_scopes: &'a [Scope],
    pub(super) cell: Option<&'a Name>,
    pub(super) runtimes: &'a [Name],
}

/// A node as scoring sees it.
pub(super) struct Candidate {
    pub(super) id: NodeId,
    pub(super) facts: Facts,
    pub(super) cost: u64,
    pub(super) start_delay_ms: u64,
    pub(super) trust: f64,
    pub(super) rtt_ms: Option<f64>,
    pub(super) scope: Scope,
    pub(super) cell: Option<Name>,
    /// What it has, or nothing where that is the node's own business.
    pub(super) runtimes: Option<BTreeSet<Name>>,
    /// Jobs known to run there.
    pub(super) beside: Vec<JobId>,
}

/// What became of a candidate.
pub(super) struct Judged {
    pub(super) node: NodeId,
    /// In the order of the checks; empty means it may be chosen.
    pub(super) reasons: Vec<Reason>,
    pub(super) score: Option<f64>,
    pub(super) terms: Vec<TermLine>,
}

/// The compiled policies: a cache that settings alone determine, so it is no part of the state.
#[derive(Clone, Default)]
pub(super) struct Scorers([OnceLock<Arc<Policy>>; 3]);

impl std::fmt::Debug for Scorers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scorers")
    }
}

impl PartialEq for Scorers {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Scorers {
    fn policy(&self, settings: &Settings, preset: Preset) -> &Policy {
        self.0[preset as usize].get_or_init(|| Arc::new(compile(settings, preset)))
    }

    /// Judges candidates, best first; those that may not be chosen come last.
    pub(super) fn judge(
        &self,
        settings: &Settings,
        preset: Preset,
        now: Time,
        question: &Question<'_>,
        candidates: Vec<Candidate>,
    ) -> Vec<Judged> {
        let runtime = question.runtime(&candidates);
        let job = question.job(runtime.clone(), now);
        let nodes = candidates.into_iter().map(|c| c.node(question, &runtime)).collect();
        let situation = Situation::new(now, nodes, Vec::new(), &[], World::default())
            .unwrap_or_else(|_| unreachable!("an arbiter keeps one offer per node"));
        let ranking = self.policy(settings, preset).rank_nodes(&situation, &job);
        let mut judged: Vec<Judged> = ranking.candidates.into_iter().map(judged).collect();
        judged.sort_by_key(|judged| !judged.reasons.is_empty());
        judged
    }
}

fn compile(settings: &Settings, preset: Preset) -> Policy {
    if let Some(Ok(own)) = settings.policy.as_deref().map(landfall_policy::policy_file::load) {
        return own;
    }
    let mut changes = PolicySetting::default();
    let mut set = |name: &str, value| changes.params.insert(name.to_owned(), value);
    let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    set("min_score", settings.min_score.into());
    set("trust_execute", settings.trust_execute.into());
    set("capacity_stale_ms", whole(settings.capacity_stale_ms).into());
    set("base_price", whole(settings.base_price).into());
    set("surge_above", whole(settings.surge_above).into());
    set("jitter_weight", settings.jitter_weight.into());
    set("jitter_seed", whole(settings.jitter_seed).into());
    let compiled = landfall_policy::builtin::spec(preset.policy()).map(|spec| {
        let mut spec = spec.map_err(|error| error.to_string())?;
        spec.apply(&changes)?;
        Policy::compile(spec).map_err(|error| error.to_string())
    });
    match compiled {
        Some(Ok(policy)) => policy,
        Some(Err(error)) => unreachable!("settings in range make a valid policy: {error}"),
        None => unreachable!("`{}` is built in", preset.policy()),
    }
}

fn judged(verdict: landfall_policy::verdict::Verdict) -> Judged {
    let reason = |word: &str| Reason::from_word(word).unwrap_or(Reason::Policy);
    let mut reasons: Vec<Reason> =
        verdict.refusals.iter().map(|refused| reason(refused.refusal.reason.name())).collect();
    if verdict.barred.is_some() {
        reasons.push(Reason::MinScore);
    }
    let line = |term: &landfall_policy::verdict::TermScore| TermLine {
        term: term.term.to_string(),
        raw: term.raw,
        weight: term.weight,
        contribution: term.contribution,
    };
    Judged {
        node: NodeId::new(verdict.candidate.as_str())
            .unwrap_or_else(|_| unreachable!("a node's id stays an id")),
        reasons,
        score: verdict.total,
        terms: verdict.terms.iter().map(line).collect(),
    }
}

impl Question<'_> {
    /// The runtime to ask for: one that a candidate has, if any does.
    fn runtime(&self, candidates: &[Candidate]) -> Name {
        let has = |runtime: &Name| {
            candidates.iter().any(|c| c.runtimes.as_ref().is_none_or(|have| have.contains(runtime)))
        };
        let any = self.runtimes.iter().find(|runtime| has(runtime)).or(self.runtimes.first());
        any.cloned().unwrap_or_else(|| JobSpec::empty().runtime)
    }

    fn job(&self, runtime: Name, now: Time) -> Job {
        let need = self.need;
        let mut spec = JobSpec::empty();
        spec.runtime = runtime;
        spec.cpu_milli = MilliCpu::new(need.cpu_milli.unwrap_or(0));
        spec.ram_mib = Mib::new(need.memory_mib.unwrap_or(0));
        spec.storage_mib = Mib::new(need.storage_mib.unwrap_or(0));
        spec.network_mbit_s = need.network_mbit_s.unwrap_or(0);
        if let Some(gpu) = &need.gpu {
            spec.gpu_count = gpu.count;
            spec.vram_mib = gpu_mark(need);
        }
        spec.hints = self.hints.clone();
        spec.max_cost = self.max_cost;
        spec.max_scope = self.max_scope;
        spec.allowed_scopes = self.allowed_scopes.to_vec();
        spec.cell = self.cell.cloned();
        let mut job = Job::new(job_id(&self.job), Arc::new(spec), now);
        job.round = self.round;
        job.digest = Some(Box::new(self.job));
        job
    }
}

/// A peer says how many of its free devices fit, capability included; in the node they are those with this memory.
fn gpu_mark(need: &Profile) -> Mib {
    Mib::new(need.gpu.as_ref().and_then(|gpu| gpu.memory_mib).unwrap_or(0).max(1))
}

impl Candidate {
    fn node(self, question: &Question<'_>, runtime: &Name) -> Node {
        let facts = self.facts;
        let mut node = Node::new(self.id, MilliCpu::new(facts.cpu_total), Mib::new(facts.memory_total));
        node.cpu_committed = MilliCpu::new(facts.cpu_total.saturating_sub(facts.cpu_free));
        node.ram_committed = Mib::new(facts.memory_total.saturating_sub(facts.memory_free));
        node.region = facts.region;
        node.runtimes = match self.runtimes {
            None => [runtime.clone()].into(),
            Some(_) if question.runtimes.is_empty() => [runtime.clone()].into(),
            Some(runtimes) => runtimes,
        };
        if question.need.gpu.is_some() {
            let mark = gpu_mark(question.need);
            for index in 0..u16::try_from(facts.gpus_total).unwrap_or(u16::MAX) {
                let memory = if u32::from(index) < facts.gpus_fitting { mark } else { Mib::ZERO };
                let mut gpu = Gpu::new(index, None, Some(memory));
                if u32::from(index) >= facts.gpus_free {
                    gpu.holder = Some(job_id(&Digest([0; 32])));
                }
                node.gpus.push(gpu);
            }
        }
        node.placements = self.beside.into_iter().map(marker).collect();
        node.peer = Some(Box::new(Peer {
            trust: self.trust,
            queued: facts.queued,
            cost: Some(self.cost),
            start_delay_ms: Some(self.start_delay_ms),
            rtt_ms: self.rtt_ms,
            scope: self.scope,
            cell: self.cell,
            // The peer says how many of the asked digests it has, not which.
            data: question.hints.data.iter().take(facts.local as usize).cloned().collect(),
            probe_age_ms: facts.probe_age_ms,
            storage_free: Some(Mib::new(facts.storage_free)),
            network_mbit_s: Some(facts.network_mbit_s),
            ..Peer::default()
        }));
        node
    }
}

/// A job that is on the node and whose share of it is already in the node's facts.
fn marker(job: JobId) -> landfall_model::Placement {
    landfall_model::Placement::of(job, &JobSpec::empty(), &[])
}

pub(super) fn job_id(digest: &Digest) -> JobId {
    JobId::new(&digest.to_string()).unwrap_or_else(|_| unreachable!("hexadecimal digits make an id"))
}
