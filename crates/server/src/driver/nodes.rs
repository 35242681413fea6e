//! Nodes: from what agents say to what the engine takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_api::ApiError;
use landfall_api::job::UsageView;
use landfall_api::node::{GpuFacts, Heard, Heartbeat, NODE_TAKEN, Registered, Registration};
use landfall_engine::input::{Report, RunUsage};
use landfall_engine::record::{JobRecord, Phase, RunNode};
use landfall_engine::{Answer, Fence, Input};
use landfall_model::scenario::{Format, NodeRow, Rows, closest, decode};
use landfall_model::{
    Block, DeviceHealth, IMAGES_MAX, Mib, Name, Node, NodeId, PoolId, TenantId, Thermal, WorkloadId,
};
use landfall_store::{Store, StoreError, Table};
use serde_json::{Map, Value, json};

use super::core::{Core, unreadable};
use super::handle::Failure;
use super::submit::{invalid, refused_answer};
use super::view::word;

/// From one heartbeat to the next, unless the pool wants to know of a silence sooner.
const HEARTBEAT_INTERVAL_MS: u64 = 10_000;
/// Nodes that may speak so often. More of them speak less often, as far as the time-outs of their pool allow.
const NODES_AT_THAT_PACE: usize = 10_000;
/// Heartbeats that come before a node is unknown: one may be lost and one late.
const HEARTBEATS_IN_TIME: u64 = 3;
/// Bandwidth beyond which a heartbeat is not believed.
const BANDWIDTH_MAX: f64 = 20_000.0;
/// No machine has more of anything.
const AMOUNT_MAX: u64 = 1 << 40;
/// The largest score of a core.
const CORE_SCORE_MAX: u32 = 100_000;
/// No machine draws more watts.
const POWER_MAX: f64 = 1e6;

#[derive(Debug, Clone, PartialEq)]
pub struct Registering {
    pub node: NodeId,
    pub registration: Registration,
    /// The journal that the agent's memory belongs to, if it says so.
    pub journal: Option<String>,
    /// How large the agent's token lets the node be.
    pub most: Most,
}

/// How large a node counts at most, whatever it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Most {
    pub cpu_milli: Option<u64>,
    pub ram_mib: Option<u64>,
}

impl Most {
    /// Makes a node no larger than it may be, and names what it said beyond that.
    fn hold(self, beat: &mut Heartbeat) -> Vec<String> {
        let said = [
            ("cpu_milli", &mut beat.cpu_milli, self.cpu_milli),
            ("ram_mib", &mut beat.ram_mib, self.ram_mib),
        ];
        let beyond = said.into_iter().filter_map(|(field, value, most)| {
            let most = most.filter(|most| *most < *value)?;
            *value = most;
            Some(format!("{field} above what its token allows"))
        });
        beyond.collect()
    }
}

/// What is kept of nodes beside the engine.
#[derive(Debug, Default)]
pub struct Nodes {
    registrations: BTreeMap<NodeId, Registration>,
    /// The last heartbeat of each.
    heard: BTreeMap<NodeId, (u64, u64)>,
    /// How often each was told to send one, in milliseconds.
    intervals: BTreeMap<NodeId, u64>,
    /// Those that registered and have not spoken since.
    rejoined: BTreeSet<NodeId>,
    /// How many times the usual time between two of them is doubled.
    slower: u32,
    /// Nodes on which limits of memory do not bind; most have none.
    unbound: BTreeSet<NodeId>,
    /// Figures of the last heartbeat of each that cannot be true or may not count; most have none.
    doubted: BTreeMap<NodeId, Vec<String>>,
}

impl Nodes {
    /// What a node last said about itself.
    pub fn facts(&self, node: &NodeId) -> Option<&Registration> {
        self.registrations.get(node)
    }

    /// Nodes that do not keep jobs within their memory.
    pub fn unbound(&self) -> impl Iterator<Item = &NodeId> {
        self.unbound.iter()
    }

    fn keep(&mut self, id: NodeId, registration: Registration) {
        match &registration.limits {
            Some(limits) if !limits.memory => self.unbound.insert(id.clone()),
            _ => self.unbound.remove(&id),
        };
        self.registrations.insert(id, registration);
    }

    /// Whether a node has sent so many heartbeats since its agent began.
    pub(super) fn has_spoken(&self, node: &NodeId, times: u64) -> bool {
        self.heard.get(node).is_some_and(|(_, seq)| *seq >= times)
    }

    /// What a node last said that cannot be true.
    pub fn doubted(&self, node: &NodeId) -> &[String] {
        self.doubted.get(node).map_or(&[], Vec::as_slice)
    }

    /// The pace of those that come halves with every doubling of the nodes, and comes back late: a node that is to speak more often
    /// registers anew, and that should not happen to all of them whenever one comes or goes.
    fn choose_pace(&mut self, nodes: usize) {
        let fit = |slower: u32| NODES_AT_THAT_PACE << slower;
        while nodes > fit(self.slower) {
            self.slower += 1;
        }
        while self.slower > 0 && nodes < fit(self.slower) / 4 {
            self.slower -= 1;
        }
    }

    pub(super) fn forget(&mut self, node: &NodeId) {
        self.doubted.remove(node);
        self.registrations.remove(node);
        self.unbound.remove(node);
        self.heard.remove(node);
        self.intervals.remove(node);
    }

    pub(super) fn load(&mut self, store: &mut dyn Store) -> Result<(), StoreError> {
        self.registrations.clear();
        self.unbound.clear();
        let mut after: Option<String> = None;
        loop {
            let page = store.scan(Table::Nodes, after.as_deref(), 1000, false)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(last.clone());
            for (key, value) in page {
                let id = NodeId::new(&key).map_err(|error| unreadable(Table::Nodes, &key, error))?;
                let registration =
                    serde_json::from_slice(&value).map_err(|error| unreadable(Table::Nodes, &key, error))?;
                self.keep(id, registration);
            }
        }
    }
}

/// Adds what a run used on one node to what it used on others.
pub(super) fn add_usage(sum: &mut UsageView, usage: &RunUsage) {
    let max = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).max();
    let add = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).reduce(u64::saturating_add);
    sum.peak_ram_mib = max(sum.peak_ram_mib, usage.peak_ram.map(Mib::get));
    sum.cpu_time_ms = add(sum.cpu_time_ms, usage.cpu_time.map(landfall_model::Millis::get));
    sum.wall_ms = max(sum.wall_ms, usage.wall.map(landfall_model::Millis::get));
    sum.disk_bytes = add(sum.disk_bytes, Some(usage.disk.get()));
    sum.oom |= usage.oom;
}

impl Core {
    pub(super) fn register(&mut self, mut node: Registering) -> Result<Registered, Failure> {
        self.check_not_taken(&node)?;
        self.stops.forget(&node.node);
        let forgot = std::mem::take(&mut node.registration.forgot);
        let named = node.registration.heartbeat.running.clone();
        let adopted = self.adopted(&node, &named);
        let same = match &node.journal {
            Some(journal) => journal == self.store.incarnation(),
            None => self.origin.is_none(),
        };
        #[cfg(feature = "mutations")]
        let same = same || crate::mutation::Fault::IncarnationIgnored.is_planted();
        // Of another journal's attempts only those exist here that go on; the agent ends the others by itself.
        let running = if same { named } else { adopted.clone() };
        // Who remembers another journal cannot tell what began under this one before its backup was made.
        if forgot || !same {
            self.lose_unanswered(&node.node, &running);
        }
        Ok(Registered { adopted, ..self.join(node, Some(running))? })
    }

    /// The attempts that a node names and that are runs of this state on that node.
    fn adopted(&self, registering: &Registering, named: &[Fence]) -> Vec<Fence> {
        let before = match (&registering.journal, &self.origin) {
            (Some(journal), _) if journal == self.store.incarnation() => None,
            (None, None) => None,
            // A run that the backup had; one that was placed after the restore only looks like it.
            (None, Some(origin)) => Some(origin),
            (Some(journal), Some(origin)) if origin.journals.contains(journal) => Some(origin),
            (Some(_), _) => return Vec::new(),
        };
        let epoch = before.map_or(self.engine.state().epoch, |origin| origin.epoch);
        let goes_on = |fence: &&Fence| {
            let run = self.engine.state().job(&fence.job).and_then(|record| record.run.as_ref());
            self.runs_there(&registering.node, fence)
                && fence.epoch <= epoch
                && before.is_none_or(|origin| run.is_some_and(|run| run.committed_at <= origin.at))
        };
        named.iter().filter(goes_on).cloned().collect()
    }

    /// A node does not know what began there: of starts that it has not answered and does not name, those that must not happen
    /// twice are lost.
    fn lose_unanswered(&mut self, node: &NodeId, named: &[Fence]) {
        let state = self.engine.state();
        let Some((known, _)) = state.node(node) else { return };
        let unanswered = |record: &JobRecord| {
            let there = |at: &RunNode| at.node == *node && at.phase == Phase::Assigned;
            record.run.as_ref().is_some_and(|run| run.nodes.iter().any(there))
        };
        let lost: Vec<Fence> = known
            .placements
            .iter()
            .filter_map(|placement| state.job(&placement.job))
            .filter(|record| record.job.spec.runs_once() && unanswered(record))
            .map(|record| state.fence(record))
            .filter(|lost| !named.iter().any(|it| it.job == lost.job && it.attempt == lost.attempt))
            .collect();
        for fence in lost {
            self.step(Input::Report { node: node.clone(), fence, report: Report::Stopped });
        }
    }

    /// Of two agents that speak for one node, the one that began later does; the other has to hear so, or they would
    /// take the node from each other for ever.
    fn check_not_taken(&self, node: &Registering) -> Result<(), Failure> {
        let Registering { node, registration, .. } = node;
        let newer =
            self.nodes.heard.get(node).is_some_and(|(epoch, _)| *epoch > registration.heartbeat.epoch);
        if !newer || !self.connections.is_open(node) {
            return self.check_at_home(node, registration);
        }
        let message = format!("another agent that was started later speaks for node `{node}`");
        let error = ApiError::new(NODE_TAKEN, message).hint(
            "give each machine a name of its own (`landfall agent --node NAME`), or stop the other agent",
        );
        Err(Failure::refused(409, error))
    }

    /// A node stays in its pool: one that names another pool is told so before anything is made of what it says.
    fn check_at_home(&self, node: &NodeId, registration: &Registration) -> Result<(), Failure> {
        let pool = self.pool_for(node, registration)?;
        let Some((home, _)) = self.engine.state().places.get(node).filter(|(home, _)| *home != pool) else {
            return Ok(());
        };
        let message = format!("node `{node}` belongs to pool `{home}`, not `{pool}`");
        let error = ApiError::new("other_pool", message).hint(format!(
            "give this machine a name of its own (`landfall agent --node NAME`), or take the other out first (`landfall remove {node}`)"
        ));
        Err(Failure::refused(422, error))
    }

    /// A node joins or tells everything anew; `running` if it named all that it runs.
    fn join(&mut self, node: Registering, running: Option<Vec<Fence>>) -> Result<Registered, Failure> {
        let Registering { node: id, mut registration, most, .. } = node;
        check_size(&registration.heartbeat)?;
        let mut doubted = take_doubted(&mut registration.heartbeat);
        doubted.extend(most.hold(&mut registration.heartbeat));
        let pool = self.pool_for(&id, &registration)?;
        registration.pool = Some(pool.to_string());
        let mut model = model_node(&id, &registration, self.now)?;
        model.block = self.block_for(registration.block.as_deref())?;
        if let Some((known, _)) = self.engine.state().node(&id) {
            // What people decided about it stays, and so does what is warm unless it says otherwise.
            model.approval = known.approval;
            if registration.heartbeat.cache.is_none() {
                model.cache.clone_from(&known.cache);
            }
            if registration.heartbeat.images.is_none() {
                model.images.clone_from(&known.images);
            }
        }
        let approval = word(&model.approval);
        self.revoke_tenants(&id, &model.tenants);
        let join = Input::Join { pool: pool.clone(), node: Box::new(model), running };
        if let Answer::Refused(refused) = self.step(join) {
            return Err(refused_answer(refused));
        }
        let heard = (registration.heartbeat.epoch, registration.heartbeat.seq);
        self.nodes.heard.insert(id.clone(), heard);
        self.nodes.rejoined.insert(id.clone());
        self.doubt(&id, doubted);
        self.keep_facts(&id, registration);
        self.pull_forgets(&pool, &id);
        self.nodes.choose_pace(self.nodes.registrations.len());
        let interval = self.heartbeat_interval_ms(&pool, self.nodes.slower);
        self.nodes.intervals.insert(id, interval);
        let state = self.engine.state();
        let dispatch = state.pool(&pool).map_or_else(String::new, |state| word(&state.pool.dispatch));
        Ok(Registered {
            pool: pool.to_string(),
            dispatch,
            heartbeat_interval_ms: interval,
            server_epoch: state.epoch,
            approval,
            journal: self.store.incarnation().to_owned(),
            adopted: Vec::new(),
            server_time_ms: Some(self.now.as_millis()),
        })
    }

    /// A worker that no longer names a tenant gives that tenant's jobs back.
    fn revoke_tenants(&mut self, id: &NodeId, named: &BTreeSet<TenantId>) {
        let Some((node, _)) = self.engine.state().node(id) else { return };
        // One that names none serves all.
        let revoked: Vec<TenantId> = match named.is_empty() {
            true => Vec::new(),
            false => node.tenants.difference(named).cloned().collect(),
        };
        for tenant in revoked {
            self.step(Input::RevokeTenant { node: id.clone(), tenant });
        }
    }

    fn heartbeat_interval_ms(&self, pool: &PoolId, slower: u32) -> u64 {
        let unknown = self.engine.state().pool(pool).map(|state| state.pool.silence.node_unknown_after_ms);
        let interval = HEARTBEAT_INTERVAL_MS << slower;
        unknown.map_or(interval, |after| interval.min(after.get() / HEARTBEATS_IN_TIME))
    }

    /// Whether the settings of its pool want a node to speak more or less often than it was told, or it came when there were many more
    /// nodes. One that came when there were fewer may go on.
    fn beats_at_another_pace(&self, id: &NodeId) -> bool {
        let told = self.nodes.intervals.get(id).zip(self.engine.state().places.get(id));
        let fits = |told: u64, pool: &PoolId| {
            (0..=self.nodes.slower).any(|slower| told == self.heartbeat_interval_ms(pool, slower))
        };
        told.is_some_and(|(told, (pool, _))| !fits(*told, pool))
    }

    /// Remembers what of a heartbeat cannot be true, and says so once.
    fn doubt(&mut self, node: &NodeId, doubted: Vec<String>) {
        if self.nodes.doubted(node) == doubted {
            return;
        }
        if doubted.is_empty() {
            self.nodes.doubted.remove(node);
        } else {
            self.alert_doubted(node, &doubted.join(", "));
            self.nodes.doubted.insert(node.clone(), doubted);
        }
    }

    fn keep_facts(&mut self, id: &NodeId, registration: Registration) {
        let changed =
            self.nodes.registrations.get(id).is_none_or(|known| !same_machine(known, &registration));
        if changed {
            self.put(Table::Nodes, id.as_str(), &registration);
        }
        self.nodes.keep(id.clone(), registration);
    }

    fn pool_for(&self, id: &NodeId, registration: &Registration) -> Result<PoolId, Failure> {
        let pools = &self.engine.state().pools;
        let known = self.engine.state().places.get(id).map(|(pool, _)| pool);
        let named = registration.pool.as_deref();
        let chosen = match named {
            Some(name) => pools.get_key_value(name).map(|(pool, _)| pool),
            None if known.is_some() => known,
            None if pools.len() == 1 => pools.keys().next(),
            None => pools.get_key_value("default").map(|(pool, _)| pool),
        };
        let Some(pool) = chosen else {
            let names = pools.keys().map(PoolId::as_str).collect::<Vec<_>>().join(", ");
            let message = match named {
                Some(name) => format!("there is no pool `{name}`"),
                None => "there are several pools and none is called `default`".to_owned(),
            };
            let error =
                ApiError::new("unknown_pool", message).hint(format!("there is {names}")).field("pool");
            return Err(Failure::refused(422, error));
        };
        Ok(pool.clone())
    }

    /// The block that a node says it belongs to.
    fn block_for(&self, named: Option<&str>) -> Result<Option<Arc<Block>>, Failure> {
        let Some(named) = named else { return Ok(None) };
        let blocks = || self.engine.state().pools.values().flat_map(|pool| &pool.world.blocks);
        if let Some((_, block)) = blocks().find(|(id, _)| id.as_str() == named) {
            return Ok(Some(block.clone()));
        }
        let near = closest(named, blocks().map(|(id, _)| id.as_str()));
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                format!("an operator adds it with PUT /api/v1/blocks/{named}; until then it is tried again")
            }
        };
        let error = ApiError::new("unknown_block", format!("there is no block `{named}`"));
        Err(Failure::refused(422, error.hint(hint).field("block")))
    }

    pub(super) fn heartbeat(
        &mut self,
        id: &NodeId,
        mut heartbeat: Heartbeat,
        most: Most,
    ) -> Result<Heard, Failure> {
        let server_time_ms = Some(self.now.as_millis());
        let heard = |status: &str| Heard { status: status.to_owned(), server_time_ms };
        let last = self.nodes.heard.get(id);
        if last.is_some_and(|(epoch, seq)| {
            *epoch > heartbeat.epoch || (*epoch == heartbeat.epoch && *seq >= heartbeat.seq)
        }) {
            return Ok(heard("stale"));
        }
        // An agent that was never taken in speaks for nobody: what it says must not silence the one that was.
        let stranger = last.is_some_and(|(epoch, _)| *epoch < heartbeat.epoch);
        let Some(known) = self.nodes.registrations.get(id).filter(|_| !stranger).cloned() else {
            return Ok(heard("rejoin"));
        };
        let mut doubted = take_doubted(&mut heartbeat);
        let size = [
            ("cpu_milli", &mut heartbeat.cpu_milli, known.heartbeat.cpu_milli),
            ("ram_mib", &mut heartbeat.ram_mib, known.heartbeat.ram_mib),
        ];
        for (field, value, before) in size {
            if *value > AMOUNT_MAX {
                doubted.push(field.to_owned());
                *value = before;
            }
        }
        doubted.extend(most.hold(&mut heartbeat));
        let now_says = Registration { heartbeat: heartbeat.clone(), ..known.clone() };
        if !same_machine(&known, &now_says) {
            // Its capacity changed. The heartbeat was made before jobs that are on their way, so it need not name all.
            let registering =
                Registering { node: id.clone(), registration: now_says.clone(), journal: None, most };
            self.join(registering, None)?;
        }
        // It registers before it listens, and speaks again once it does.
        if self.nodes.rejoined.remove(id) {
            self.tell_walltimes(id);
        }
        let running: Vec<Fence> = heartbeat.running.clone();
        let seen = (heartbeat.epoch, heartbeat.seq);
        let input =
            Input::Heartbeat { node: id.clone(), heartbeat: Box::new(engine_heartbeat(&heartbeat)), running };
        match self.step(input) {
            Answer::Refused(refused) if refused.code == "rejoin" || refused.code.starts_with("unknown") => {
                return Ok(heard("rejoin"));
            }
            Answer::Refused(refused) => return Err(refused_answer(refused)),
            _ => {}
        }
        self.nodes.heard.insert(id.clone(), seen);
        self.doubt(id, doubted);
        self.nodes.registrations.insert(id.clone(), now_says);
        Ok(heard(if self.beats_at_another_pace(id) { "rejoin" } else { "ok" }))
    }
}

/// Whether two reports are about the same capacity.
fn same_machine(a: &Registration, b: &Registration) -> bool {
    let still = |registration: &Registration| {
        let beat = &registration.heartbeat;
        let gpus: Vec<GpuFacts> =
            beat.gpus.iter().map(|gpu| GpuFacts { vram_used_mib: None, ..gpu.clone() }).collect();
        let heartbeat = Heartbeat {
            agent_version: beat.agent_version.clone(),
            platform: beat.platform.clone(),
            cpu_milli: beat.cpu_milli,
            ram_mib: beat.ram_mib,
            memory_domains: beat.memory_domains.clone(),
            neural_engine: beat.neural_engine,
            npu: beat.npu,
            metal_gpu: beat.metal_gpu,
            unified_memory: beat.unified_memory,
            gpus,
            cpu_core_score: beat.cpu_core_score,
            performance_estimates: beat.performance_estimates.clone(),
            ..Heartbeat::default()
        };
        Registration { heartbeat, ..registration.clone() }
    };
    still(a) == still(b)
}

fn engine_heartbeat(beat: &Heartbeat) -> landfall_engine::heartbeat::Heartbeat {
    landfall_engine::heartbeat::Heartbeat {
        ram_used: beat.memory_used_mb.map(Mib::new),
        ram_unknown: beat.memory_used_mb.is_none(),
        // Use that is not told counts as none.
        vram_used: beat
            .gpus
            .iter()
            .map(|gpu| (gpu.index, Mib::new(gpu.vram_used_mib.unwrap_or_default())))
            .collect(),
        active: Some(beat.active_jobs),
        cache: beat
            .cache
            .as_ref()
            .map(|cache| cache.iter().filter_map(|id| WorkloadId::new(id).ok()).collect()),
        images: beat.images.as_deref().map(images),
        metrics: Some(metrics(beat)),
        health: Some(DeviceHealth {
            thermal: beat.thermal.as_deref().and_then(thermal),
            battery_pct: beat.battery_pct,
            charging: beat.charging,
            neural_engine: beat.neural_engine,
            npu: beat.npu,
            metal_gpu: beat.metal_gpu,
        }),
        accepting: Some(beat.accepting),
        fingerprint: beat.fingerprint.as_deref().and_then(|text| Name::new(text).ok()),
        acknowledged: false,
    }
}

/// Images by their full names; more than a node may name are left out.
fn images(listed: &[String]) -> BTreeSet<Name> {
    listed.iter().filter_map(|image| landfall_model::image_name(image)).take(IMAGES_MAX).collect()
}

fn thermal(word: &str) -> Option<Thermal> {
    serde_json::from_value(Value::from(word)).ok()
}

pub(super) fn metrics(beat: &Heartbeat) -> landfall_model::Metrics {
    landfall_model::Metrics {
        cpu_count: u32::try_from(beat.cpu_milli / 1000).unwrap_or(u32::MAX),
        cpu_core_score: beat.cpu_core_score.unwrap_or_default(),
        ram_total_mib: Mib::new(beat.ram_mib),
        ram_free_mib: beat.ram_free_mib.map(Mib::new),
        cpu_usage_pct: beat.cpu_usage_pct,
        disk_mb_s: beat.disk_mb_s,
        network_mbit_s: beat.network_mbit_s,
    }
}

/// Without its size nothing can be placed on a node, so a registration has to tell it.
fn check_size(beat: &Heartbeat) -> Result<(), Failure> {
    for (field, value) in [("cpu_milli", beat.cpu_milli), ("ram_mib", beat.ram_mib)] {
        if value > AMOUNT_MAX {
            let error = ApiError::new("out_of_range", format!("`{field}` is larger than any machine"));
            let error = error.hint("tell what the machine has").field(format!("heartbeat.{field}"));
            return Err(Failure::refused(400, error));
        }
    }
    Ok(())
}

/// Takes figures that cannot be true out of a heartbeat and names them: they count as unknown.
fn take_doubted(beat: &mut Heartbeat) -> Vec<String> {
    let mut doubted = Vec::new();
    let mut number = |field: String, value: &mut Option<f64>, most: f64| {
        if value.is_some_and(|value| !value.is_finite() || value < 0.0 || value > most) {
            *value = None;
            doubted.push(field);
        }
    };
    let estimates = &mut beat.performance_estimates;
    number("cpu_usage_pct".into(), &mut beat.cpu_usage_pct, 100.0);
    number("disk_mb_s".into(), &mut beat.disk_mb_s, 1e9);
    number("network_mbit_s".into(), &mut beat.network_mbit_s, 1e9);
    number("power_w".into(), &mut beat.power_w, POWER_MAX);
    number(
        "performance_estimates.gpu_bandwidth_gb_s".into(),
        &mut estimates.gpu_bandwidth_gb_s,
        BANDWIDTH_MAX,
    );
    number("performance_estimates.estimated_llm_tok_s".into(), &mut estimates.estimated_llm_tok_s, 1e9);
    for (place, gpu) in beat.gpus.iter_mut().enumerate() {
        number(format!("gpus[{place}].bandwidth_gb_s"), &mut gpu.bandwidth_gb_s, BANDWIDTH_MAX);
    }
    let mut whole = |field: String, value: &mut Option<u64>| {
        if value.is_some_and(|value| value > AMOUNT_MAX) {
            *value = None;
            doubted.push(field);
        }
    };
    whole("memory_used_mb".into(), &mut beat.memory_used_mb);
    whole("ram_free_mib".into(), &mut beat.ram_free_mib);
    if beat.io_bytes_s.is_some_and(|bytes| bytes > AMOUNT_MAX << 10) {
        whole("io_bytes_s".into(), &mut beat.io_bytes_s);
    }
    for (place, gpu) in beat.gpus.iter_mut().enumerate() {
        whole(format!("gpus[{place}].vram_mib"), &mut gpu.vram_mib);
        whole(format!("gpus[{place}].vram_used_mib"), &mut gpu.vram_used_mib);
    }
    let mut amount = |field: &str, value: &mut u64| {
        if *value > AMOUNT_MAX {
            *value = 0;
            doubted.push(field.to_owned());
        }
    };
    amount("active_jobs", &mut beat.active_jobs);
    amount("performance_estimates.wasm_memory_limit_mb", &mut estimates.wasm_memory_limit_mb);
    amount("performance_estimates.max_concurrent_containers", &mut estimates.max_concurrent_containers);
    if beat.battery_pct.is_some_and(|pct| pct > 100) {
        beat.battery_pct = None;
        doubted.push("battery_pct".into());
    }
    if beat.cpu_core_score.is_some_and(|score| score == 0 || score > CORE_SCORE_MAX) {
        beat.cpu_core_score = None;
        doubted.push("cpu_core_score".into());
    }
    if beat.thermal.as_deref().is_some_and(|word| thermal(word).is_none()) {
        beat.thermal = None;
        doubted.push("thermal".into());
    }
    doubted
}

/// The node that a registration describes, checked as in a scenario.
fn model_node(id: &NodeId, registration: &Registration, now: landfall_model::Time) -> Result<Node, Failure> {
    let beat = &registration.heartbeat;
    let mut row = Map::new();
    let mut set = |key: &str, value: Value| {
        let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if !empty {
            row.insert(key.to_owned(), value);
        }
    };
    let gpus: Vec<Value> = beat
        .gpus
        .iter()
        .map(|gpu| {
            let fields = json!({
                "index": gpu.index, "model": gpu.model, "vram_mib": gpu.vram_mib,
                "vram_used_mib": gpu.vram_used_mib.unwrap_or(0), "bandwidth_gb_s": gpu.bandwidth_gb_s.filter(|v| *v > 0.0),
                "link_group": gpu.link_group, "capability": gpu.capability.as_deref().and_then(|text| Name::new(text).ok()),
                "slices": gpu.sliced.then(|| json!({})),
            });
            let Value::Object(mut fields) = fields else { return Value::Null };
            fields.retain(|_, value| !value.is_null());
            Value::Object(fields)
        })
        .collect();
    let estimates = &beat.performance_estimates;
    set("id", json!(id.as_str()));
    set("pool", json!(registration.pool));
    set("region", json!(registration.region));
    set("group", json!(registration.group));
    set("tenants", json!(registration.tenants));
    set("platform", json!(if beat.platform.is_empty() { "desktop" } else { &beat.platform }));
    set("accepting", json!(beat.accepting));
    set("cpu_milli", json!(beat.cpu_milli));
    set("ram_mib", json!(beat.ram_mib));
    set("memory_used_mb", json!(beat.memory_used_mb));
    set("gpus", Value::Array(gpus));
    set("gpu_bandwidth_gb_s", json!(estimates.gpu_bandwidth_gb_s.filter(|value| *value > 0.0)));
    set("wasm_memory_limit_mb", json!(Some(estimates.wasm_memory_limit_mb).filter(|limit| *limit > 0)));
    set("supported_runtimes", json!(estimates.supported_runtimes));
    set("active_jobs", json!(beat.active_jobs));
    set("cache", json!(beat.cache.as_deref().unwrap_or_default()));
    set("memory_domains", json!(beat.memory_domains));
    set("thermal", json!(beat.thermal));
    set("battery_pct", json!(beat.battery_pct));
    set("charging", json!(beat.charging));
    set("neural_engine", json!(beat.neural_engine));
    set("npu", json!(beat.npu));
    set("metal_gpu", json!(beat.metal_gpu));
    set("unified_memory", json!(beat.unified_memory));
    set("architectures", json!(registration.architectures));
    set("features", json!(registration.features));
    // A worker that says any of these has said what it can do.
    if !registration.architectures.is_empty() || registration.eval || registration.fetch {
        set("eval", json!(registration.eval));
        set("fetch", json!(registration.fetch));
    }
    set("max_concurrent", json!(registration.max_concurrent));
    set("fingerprint", json!(beat.fingerprint));
    if let Some((idle_w, busy_w)) = registration.power_w {
        set("power", json!({ "idle_w": idle_w, "busy_w": busy_w }));
    }
    let bad = |error: landfall_model::scenario::ScenarioError| {
        let field = error.field.strip_prefix("node.").unwrap_or(&error.field).to_owned();
        let Failure::Refused(status, mut api) = invalid(&field, error.message, "") else {
            return Failure::Closing;
        };
        api.hint = error.hint;
        Failure::Refused(status, api)
    };
    let row: NodeRow = decode(&Value::Object(row).to_string(), Format::Json).map_err(bad)?;
    let mut nodes = Rows::default().nodes(row, now, "node").map_err(bad)?;
    let Some(mut node) = nodes.pop() else { return Err(Failure::Closing) };
    node.metrics = Some(metrics(beat));
    node.images = images(beat.images.as_deref().unwrap_or_default());
    node.heartbeat_at = Some(now);
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_nodes_speak_less_often_and_one_more_changes_nothing() {
        let mut nodes = Nodes::default();
        let mut slower = |count: usize| {
            nodes.choose_pace(count);
            nodes.slower
        };
        let counts = [1, 10_000, 10_001, 10_000, 9_999, 5_001, 4_999, 100_000, 41_000, 39_999];
        assert_eq!(counts.map(&mut slower), [0, 0, 1, 1, 1, 1, 0, 4, 4, 3]);
    }
}
