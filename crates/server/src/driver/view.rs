//! Jobs, arrays and nodes as they are shown.

use landfall_api::job::{ElementView, JobView, OnNode, UNNEEDED, UsageView};
use landfall_api::node::{GpuView, NodeView};
use landfall_engine::State;
use landfall_engine::record::{Cause, JobRecord, JobState, Run};
use landfall_model::answer::Why;
use landfall_model::reason::Reason;
use landfall_model::{JobId, JobSpec, Needs, NodeId, Time};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::arrays::folded_record;
use super::core::View;
use super::jobs::{JobMeta, LiveRun, element_of};

/// A slice of a GPU, such as `2g@4`: compute slices, and the first memory slice if it has a place.
pub(super) fn slice(compute: u8, start: Option<u8>) -> String {
    start.map_or_else(|| format!("{compute}g"), |start| format!("{compute}g@{start}"))
}

/// How a value is called in JSON.
pub(super) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        // A cause with details is called by its name.
        Ok(Value::Object(map)) => map.keys().next().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

pub(super) fn ms(time: Time) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(0)
}

/// A run that went on while the server was away.
pub(super) fn live_run(state: &State, id: &JobId, run: &Run) -> LiveRun {
    let nodes = run.nodes.iter().map(|at| {
        let placements = state.node(&at.node).map_or(&[][..], |(node, _)| node.placements.as_slice());
        let held = placements.iter().find(|placement| placement.job == *id);
        OnNode {
            node: at.node.to_string(),
            gpus: held.into_iter().flat_map(|held| &held.devices).map(|device| device.index).collect(),
            cpus: None,
            phase: word(&at.phase),
            exit_code: at.exit,
        }
    });
    let nodes: Vec<OnNode> = nodes.collect();
    let exit = nodes.iter().filter_map(|at| at.exit_code).max_by_key(|code| *code != 0);
    LiveRun { nodes, usage: None, exit, files: None, failure: None }
}

/// A digest that changes whenever the value does.
pub fn version_of(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).unwrap_or_default();
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// What a job needs, in the fields of a scenario.
pub(super) fn needs_of(spec: &JobSpec) -> Map<String, Value> {
    match serde_json::to_value(Needs::of(spec)) {
        Ok(Value::Object(needs)) => needs,
        _ => Map::new(),
    }
}

/// How it goes or went with a job, as it is shown.
pub(super) struct Own {
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) started_at_ms: Option<u64>,
    pub(super) ended_at_ms: Option<u64>,
    pub(super) exit_code: Option<i32>,
    pub(super) usage: Option<UsageView>,
    pub(super) price: Option<f64>,
}

impl Own {
    pub(super) fn of(record: &JobRecord, run: Option<&LiveRun>) -> Self {
        let past = record.past.as_deref();
        let started = record.run.as_ref().and_then(|run| run.started_at);
        Self {
            state: word(&record.state),
            reason: match (&record.ended, run.and_then(|run| run.failure.clone())) {
                (Some(_), Some(failure)) => Some(failure),
                _ => cheap_reason(record),
            },
            started_at_ms: past.and_then(|past| past.first_started_at).or(started).map(ms),
            ended_at_ms: record.ended.as_ref().map(|ended| ms(ended.1)),
            exit_code: run.and_then(|run| run.exit),
            usage: run.and_then(|run| run.usage),
            price: past.and_then(|past| past.price).map(|price| price.get() as f64 / 1e6),
        }
    }
}

/// A job as it is shown, from the record of the engine and what is kept beside it.
pub(super) fn job_view(record: &JobRecord, meta: Option<&JobMeta>, run: Option<&LiveRun>) -> JobView {
    let id = &record.job.id;
    let needs = needs_of(&record.job.spec);
    let Own { state, reason, started_at_ms, ended_at_ms, exit_code, usage, price } = Own::of(record, run);
    let mut view = JobView {
        id: id.to_string(),
        name: meta.and_then(|meta| meta.name.clone()),
        array: element_of(id.as_str()).map(|(array, index)| match meta {
            Some(meta) => meta.element(array, index),
            None => ElementView { id: array.to_owned(), index, entry: None },
        }),
        elements: None,
        state,
        reason,
        why: None,
        pool: record.pool.to_string(),
        tenant: record.job.spec.tenant.as_ref().map(ToString::to_string),
        submitter: meta.and_then(|meta| meta.submitter.clone()),
        needs,
        run: meta.map(|meta| (*meta.run).clone()).unwrap_or_default(),
        attempt: record.attempt,
        held: record.user_hold,
        waits_for: record.job.waits_for.as_ref().map(ToString::to_string),
        dag: meta.and_then(|meta| meta.dag.clone()).filter(|_| element_of(id.as_str()).is_none()),
        submitted_at_ms: ms(record.job.submitted_at),
        started_at_ms,
        ended_at_ms,
        nodes: run.map(|run| run.nodes.clone()).unwrap_or_default(),
        exit_code,
        usage,
        price,
        files: run.and_then(|run| run.files.clone()),
        note: note(record),
        version: String::new(),
    };
    view.version = version_of(&view);
    view
}

/// What is worth knowing about the present run of a job.
fn note(record: &JobRecord) -> Option<String> {
    let on: Vec<&str> = record.left_behind().iter().map(|node| node.as_str()).collect();
    (!on.is_empty()).then(|| format!("started afresh: its checkpoint is on {}", on.join(", ")))
}

/// Why a job is where it is, as far as its record says.
fn cheap_reason(record: &JobRecord) -> Option<String> {
    if let Some(ended) = &record.ended {
        return Some(match &ended.0 {
            Cause::NotPlaced(why) => why.to_string(),
            Cause::DependencyUnsatisfiable { on_failure: true, .. } => UNNEEDED.to_owned(),
            cause => word(cause),
        });
    }
    if record.state != JobState::Pending {
        return record.run.as_ref().and_then(|run| run.stop.as_ref()).map(|stop| word(&stop.cause));
    }
    if record.user_hold {
        return Some(Reason::UserHold.to_string());
    }
    if record.job.waits_for.is_some() {
        return Some(Reason::Dependency.to_string());
    }
    record.job.retry_at.map(|_| Reason::NotBefore.to_string())
}

impl View<'_> {
    /// The job or array that a person means: `12`, `12.7` for element 7 of array 12.
    pub fn resolve(&mut self, text: &str) -> Option<JobId> {
        let id = self.exact(text)?;
        let state = self.engine.state();
        let known = state.jobs.contains_key(&id)
            || state.folded.contains_key(&id)
            || state.folded_element(&id).is_some();
        known.then_some(id)
    }

    /// The primary reason why a job waits.
    pub(super) fn why_waiting(&self, id: &JobId) -> Option<Why> {
        let explanation = self.engine.explain(id)?;
        let why = explanation.reasons.into_iter().next()?;
        // What no end of any job changes must not look like a queue.
        match explanation.never.then(|| self.engine.can_never_start(id)).flatten() {
            Some(never) => Some(Why { detail: format!("can never start here: {}", never.detail), ..why }),
            None => Some(why),
        }
    }

    /// A job as it is shown; ended ones come from the archive.
    pub fn job(&mut self, id: &JobId) -> Option<JobView> {
        let meta = self.jobs.meta(id).map(|meta| &**meta);
        if let Some(record) = self.engine.state().job(id).filter(|record| !record.state.is_final()) {
            let mut view = job_view(record, meta, self.jobs.run(id));
            if let Some(why) = self.why_waiting(id) {
                (view.reason, view.why) = (Some(why.reason.to_string()), Some(why.detail));
            }
            view.note = view.note.or_else(|| self.engine.usual_walltime(&record.job.spec, &record.pool));
            return Some(view);
        }
        if let Some((array, _)) = self.engine.state().folded_element(id) {
            let record = folded_record(array, id, JobState::Pending);
            return Some(job_view(&record, meta, None));
        }
        if let Some(view) = self.archived(id.as_str()) {
            return Some(view);
        }
        // An element that was taken back before it became a job left no record.
        let (array, _) = element_of(id.as_str())?;
        let array = self.engine.state().folded.get(array)?;
        let position = array.position(id)?;
        array.end_of(position)?;
        Some(job_view(&folded_record(array, id, JobState::Cancelled), meta, None))
    }

    /// Which cores a running job has to itself, in words.
    pub fn pinned(&self, id: &JobId) -> Vec<String> {
        let nodes = self.jobs.run(id).map_or(&[][..], |run| run.nodes.as_slice());
        let on =
            |at: &OnNode| Some(format!("it has cores {} of node {} to itself", at.cpus.as_ref()?, at.node));
        nodes.iter().filter_map(on).collect()
    }

    pub fn node(&self, id: &NodeId) -> Option<NodeView> {
        let (node, record) = self.engine.state().node(id).filter(|(node, _)| !node.has_left())?;
        let pool = self.engine.state().places.get(id).map(|(pool, _)| pool.to_string());
        let facts = self.nodes.facts(id);
        // The engine remembers load roughly; here is what the node said last.
        let said = facts.map(|facts| super::nodes::metrics(&facts.heartbeat));
        let metrics = said.or(node.metrics).unwrap_or_default();
        Some(NodeView {
            id: id.to_string(),
            pool: pool.unwrap_or_default(),
            state: word(&node.state),
            approval: word(&node.approval),
            accepting: node.accepting,
            region: node.region.as_ref().map(ToString::to_string),
            heard_at_ms: ms(self.engine.heard_at(id).unwrap_or(record.heard_at)),
            since_ms: ms(record.since),
            cpu_milli: node.cpu_total.get(),
            cpu_committed_milli: node.cpu_committed.get(),
            ram_mib: node.ram_total.get(),
            ram_committed_mib: node.ram_committed.get(),
            gpus: node
                .gpus
                .iter()
                .map(|gpu| GpuView {
                    index: gpu.index,
                    model: gpu.model.as_ref().map(|model| model.name.to_string()),
                    vram_mib: gpu.vram.map(landfall_model::Mib::get),
                    capability: gpu.capability.as_ref().map(ToString::to_string),
                    vram_committed_mib: gpu.vram_committed.get(),
                    milli_committed: gpu.milli_committed.get(),
                    holder: gpu.holder.as_ref().map(ToString::to_string),
                    slices: gpu.slices.as_ref().map(|slices| {
                        slices.taken.iter().map(|(compute, start)| slice(*compute, Some(*start))).collect()
                    }),
                })
                .collect(),
            runtimes: node.runtimes.iter().map(ToString::to_string).collect(),
            jobs: node.placements.iter().map(|placement| placement.job.to_string()).collect(),
            karma: node.karma,
            cooldown_until_ms: node.cooldown_until.map(ms),
            cpu_usage_pct: metrics.cpu_usage_pct,
            ram_free_mib: metrics.ram_free_mib.map(landfall_model::Mib::get),
            disk_mb_s: metrics.disk_mb_s,
            network_mbit_s: metrics.network_mbit_s,
            performance_estimates: facts.map(|facts| facts.heartbeat.performance_estimates.clone()),
            agent_version: facts.map(|facts| facts.heartbeat.agent_version.clone()),
            platform: word(&node.platform),
            block: node.block.as_ref().map(|block| block.id.to_string()),
            group: node.group.as_ref().map(ToString::to_string),
            lent_to: node.lent_to.as_ref().map(ToString::to_string),
            fingerprint: node.fingerprint.as_ref().map(ToString::to_string),
            drifted: node.drifted,
            thermal: node.health.thermal.map(|thermal| word(&thermal)),
            battery_pct: node.health.battery_pct,
            charging: node.health.charging,
            power_w: facts.and_then(|facts| facts.heartbeat.power_w),
            cache: node.cache.iter().map(ToString::to_string).collect(),
            images: node.images.iter().map(ToString::to_string).collect(),
            doubted: self.nodes.doubted(id).to_vec(),
            limits: facts.and_then(|facts| facts.limits.clone()),
            why: record.why.clone(),
            maintenance_at_ms: node.maintenance_at.map(ms),
            connected: self.connections.is_open(id),
            hollow: facts.is_some_and(|facts| facts.hollow),
        })
    }
}
