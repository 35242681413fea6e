//! The fleet as a map: every node with its devices, and who has them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use landfall_api::board::{LoanView, MapNode, MapView, Used};
use landfall_engine::state::PoolState;
use landfall_model::{JobId, MilliGpu, Node, NodeId, NodeState, PoolId, TenantId, Time};
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::app::{App, Shared};
use super::super::auth::{Principal, Submitter};
use super::super::extract::Params;
use super::super::problem::{Problem, Problems, Reply};
use super::super::status::word;
use super::{fresh_for, locked, sent};
use crate::driver::{Failure, View};

/// Nodes that left which are kept in mind for those who ask what changed.
const GONE_KEPT: usize = 10_000;

/// A node as it stands, and since which version.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    pool: u32,
    state: NodeState,
    model: Option<Arc<str>>,
    cpu: u8,
    ram: u8,
    gpus: Vec<u8>,
    by: Vec<i32>,
    jobs: Vec<(JobId, Option<TenantId>)>,
    /// The pool that borrowed it.
    lent_to: Option<PoolId>,
}

/// A pool as it stands.
#[derive(Debug, Clone)]
pub(super) struct PoolRow {
    pub(super) id: String,
    pub(super) dispatch: String,
    pub(super) policy: String,
    pub(super) warning: Option<String>,
    pub(super) nodes: u64,
    pub(super) ready: u64,
    pub(super) gpu_milli: Used,
    pub(super) cpu_milli: Used,
    pub(super) ram_mib: Used,
    pub(super) waiting: u64,
    pub(super) drifted: u64,
    /// Silent nodes that keep their jobs for now.
    pub(super) silent: u64,
    /// Blocks that end soon: name and end.
    pub(super) ending: Vec<(String, Time)>,
}

/// A tenant as it stands.
#[derive(Debug, Clone)]
pub(super) struct TenantRow {
    pub(super) id: String,
    pub(super) units: f32,
    pub(super) gpus: u64,
    pub(super) jobs: u64,
}

/// The fleet at an instant.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) at: Time,
    pub(super) seq: u64,
    pub(super) pools: Vec<PoolRow>,
    pub(super) tenants: Vec<TenantRow>,
    pub(super) states: BTreeMap<String, u64>,
    pub(super) agents: u64,
    /// Why nothing can be stored, if so.
    pub(super) trouble: Option<(String, String)>,
    rows: BTreeMap<NodeId, (u64, Row)>,
    /// Nodes that left, with the version in which they were gone.
    gone: Vec<(u64, NodeId)>,
    /// The version before which nothing is known of what left.
    since: u64,
    version: u64,
    made: Instant,
    took: Duration,
    /// Answers that were made from it.
    answers: Mutex<Answers>,
}

/// Answers by the tenant who may see them, or nobody's for those who may see everything, and the version that is known.
type Answers = HashMap<(Option<String>, u64), Arc<Vec<u8>>>;

fn percent(used: u64, total: u64) -> u8 {
    if total == 0 { 0 } else { u8::try_from((used * 100).div_ceil(total).min(100)).unwrap_or(100) }
}

type Known = HashMap<JobId, Option<TenantId>>;

fn row(view: &View<'_>, pool: u32, node: &Node, known: &Known) -> Row {
    let tenant_of = |job: &JobId| match known.get(job) {
        Some(tenant) => tenant.clone(),
        None => view.engine.state().job(job).and_then(|record| record.job.spec.tenant.clone()),
    };
    let jobs: Vec<_> =
        node.placements.iter().map(|placed| (placed.job.clone(), tenant_of(&placed.job))).collect();
    let has = |index: u16| {
        let has = node.placements.iter().position(|placed| placed.devices.iter().any(|it| it.index == index));
        has.and_then(|place| i32::try_from(place).ok()).unwrap_or(-1)
    };
    let whole = MilliGpu::WHOLE.get();
    Row {
        pool,
        state: node.state,
        model: node
            .gpus
            .first()
            .and_then(|gpu| gpu.model.as_ref())
            .map(|model| Arc::from(model.name.as_str())),
        cpu: percent(node.cpu_committed.get(), node.cpu_total.get()),
        ram: percent(node.ram_committed.get(), node.ram_total.get()),
        gpus: node.gpus.iter().map(|gpu| percent(whole - gpu.milli_free().get(), whole)).collect(),
        by: node.gpus.iter().map(|gpu| has(gpu.index)).collect(),
        jobs,
        lent_to: node.lent_to.clone(),
    }
}

fn pool_row(view: &View<'_>, id: &PoolId, pool: &PoolState) -> PoolRow {
    let mut row = PoolRow {
        id: id.to_string(),
        dispatch: word(&pool.pool.dispatch),
        policy: pool.pool.policy_name().to_owned(),
        warning: None,
        nodes: 0,
        ready: 0,
        gpu_milli: Used::default(),
        cpu_milli: Used::default(),
        ram_mib: Used::default(),
        waiting: view.engine.waiting_in(id) as u64,
        drifted: 0,
        silent: if pool.requeue_limited { view.engine.overdue(id) } else { 0 },
        ending: Vec::new(),
    };
    if let Some((in_force, warning)) = view.engine.policy_in_force(id) {
        row.policy = in_force.to_owned();
        row.warning = warning.map(str::to_owned);
    }
    let soon = view.now + landfall_model::Millis::secs(3600);
    for block in pool.world.blocks.values().filter(|block| block.usable_at(view.now)) {
        row.ending.extend(block.ends_at().filter(|end| *end <= soon).map(|end| (block.id.to_string(), end)));
    }
    for node in pool.present() {
        row.nodes += 1;
        row.ready += u64::from(node.state == NodeState::Ready);
        row.drifted += u64::from(node.drifted);
        if matches!(node.state, NodeState::Down | NodeState::Unknown) {
            continue;
        }
        row.cpu_milli.total += node.cpu_total.get();
        row.cpu_milli.used += node.cpu_committed.get();
        row.ram_mib.total += node.ram_total.get();
        row.ram_mib.used += node.ram_committed.get();
        for gpu in &node.gpus {
            row.gpu_milli.total += MilliGpu::WHOLE.get();
            row.gpu_milli.used += MilliGpu::WHOLE.get() - gpu.milli_free().get();
        }
    }
    row
}

/// What one question to the driver brings.
struct Asked {
    at: Time,
    seq: u64,
    pools: Vec<PoolRow>,
    tenants: Vec<TenantRow>,
    nodes: Vec<(NodeId, Row)>,
    agents: u64,
    trouble: Option<(String, String)>,
    took: Duration,
}

fn ask(view: &mut View<'_>, known: &Known) -> Asked {
    let began = Instant::now();
    let trouble = view.trouble().map(|trouble| (trouble.message, trouble.hint));
    let state = view.engine.state();
    let mut nodes = Vec::with_capacity(state.places.len());
    for (place, pool) in state.pools.values().enumerate() {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        nodes.extend(pool.present().map(|node| (node.id.clone(), row(view, place, node, known))));
    }
    let tenant = |(id, tenant): (&TenantId, &landfall_engine::state::TenantState)| TenantRow {
        id: id.to_string(),
        units: (tenant.units as f64 / landfall_engine::units::MICRO as f64) as f32,
        gpus: tenant.gpus,
        jobs: tenant.jobs,
    };
    Asked {
        at: view.now,
        seq: view.seq,
        pools: state.pools.iter().map(|(id, pool)| pool_row(view, id, pool)).collect(),
        tenants: state.tenants.iter().map(tenant).collect(),
        nodes,
        agents: view.connections.count() as u64,
        trouble,
        took: began.elapsed(),
    }
}

/// The fleet as it stands, or stood a moment ago.
pub(super) async fn fleet(app: &App) -> Result<Arc<Fleet>, Failure> {
    let mut kept = app.looks.fleet.lock().await;
    if let Some(fleet) = kept.as_ref().filter(|fleet| fleet.made.elapsed() < fresh_for(fleet.took)) {
        return Ok(fleet.clone());
    }
    let before = kept.clone();
    let known: Known =
        before.iter().flat_map(|fleet| fleet.rows.values()).flat_map(|(_, row)| row.jobs.clone()).collect();
    let asked = app.handle.read(move |view| ask(view, &known)).await?;
    let made = Arc::new(after(before.as_deref(), asked));
    *kept = Some(made.clone());
    Ok(made)
}

/// The next version of the fleet.
fn after(before: Option<&Fleet>, asked: Asked) -> Fleet {
    // Times make versions that are later than those of a server before this one.
    let time = u64::try_from(asked.at.as_millis()).unwrap_or(0);
    let version = before.map_or(time, |before| time.max(before.version + 1));
    let mut states = BTreeMap::new();
    let mut rows = BTreeMap::new();
    for (id, row) in asked.nodes {
        *states.entry(word(&row.state)).or_insert(0) += 1;
        let same = before.and_then(|before| before.rows.get(&id)).filter(|(_, known)| *known == row);
        let since = same.map_or(version, |(since, _)| *since);
        rows.insert(id, (since, row));
    }
    let (mut gone, mut since) = before.map_or((Vec::new(), version), |it| (it.gone.clone(), it.since));
    gone.retain(|(_, id)| !rows.contains_key(id));
    let left = before.iter().flat_map(|before| before.rows.keys()).filter(|id| !rows.contains_key(*id));
    gone.extend(left.map(|id| (version, id.clone())));
    if gone.len() > GONE_KEPT {
        (gone, since) = (Vec::new(), version);
    }
    Fleet {
        at: asked.at,
        seq: asked.seq,
        pools: asked.pools,
        tenants: asked.tenants,
        states,
        agents: asked.agents,
        trouble: asked.trouble,
        rows,
        gone,
        since,
        version,
        made: Instant::now(),
        took: asked.took,
        answers: Mutex::default(),
    }
}

/// Gives names numbers in the order in which they come.
#[derive(Default)]
struct Names(Vec<String>, HashMap<String, u32>);

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.1.get(name) {
            return *number;
        }
        let number = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(name.to_owned());
        self.1.insert(name.to_owned(), number);
        number
    }
}

impl Fleet {
    fn shown(&self, principal: &Principal, since: u64) -> MapView {
        let whole = since < self.since || since > self.version;
        let (mut states, mut models, mut tenants) = (Names::default(), Names::default(), Names::default());
        let changed = self.rows.iter().filter(|(_, (at, _))| whole || *at > since);
        let nodes = changed.map(|(id, (_, row))| {
            let mut node = MapNode {
                id: id.to_string(),
                pool: row.pool,
                state: states.number(&word(&row.state)),
                model: row.model.as_deref().map(|model| models.number(model)),
                cpu: row.cpu,
                ram: row.ram,
                gpus: row.gpus.clone(),
                by: row.by.clone(),
                jobs: Vec::with_capacity(row.jobs.len()),
                tenants: Vec::with_capacity(row.jobs.len()),
            };
            for (job, tenant) in &row.jobs {
                let seen = principal.sees(tenant.as_ref().map(TenantId::as_str));
                let tenant = tenant.as_ref().filter(|_| seen).map(|tenant| tenants.number(tenant.as_str()));
                node.jobs.push(if seen { job.to_string() } else { String::new() });
                node.tenants.push(tenant.and_then(|tenant| i32::try_from(tenant).ok()).unwrap_or(-1));
            }
            node
        });
        let nodes: Vec<MapNode> = nodes.collect();
        let gone = self.gone.iter().filter(|(at, _)| !whole && *at > since);
        MapView {
            version: self.version,
            at_ms: u64::try_from(self.at.as_millis()).unwrap_or(0),
            whole,
            pools: self.pools.iter().map(|pool| pool.id.clone()).collect(),
            states: states.0,
            models: models.0,
            tenants: tenants.0,
            nodes,
            gone: gone.map(|(_, id)| id.to_string()).collect(),
        }
    }
}

impl Fleet {
    fn loans(&self, principal: &Principal) -> Vec<LoanView> {
        let lent = self.rows.iter().filter_map(|(id, (_, row))| Some((id, row, row.lent_to.as_ref()?)));
        let shown = lent.map(|(id, row, to)| {
            let seen = |tenant: &Option<TenantId>| principal.sees(tenant.as_ref().map(TenantId::as_str));
            let jobs: Vec<_> = row.jobs.iter().filter(|(_, tenant)| seen(tenant)).collect();
            let tenants: BTreeSet<String> =
                jobs.iter().filter_map(|(_, tenant)| Some(tenant.as_ref()?.to_string())).collect();
            LoanView {
                node: id.to_string(),
                from: self.pools.get(row.pool as usize).map(|pool| pool.id.clone()).unwrap_or_default(),
                to: to.to_string(),
                gpus: u32::try_from(row.gpus.len()).unwrap_or(u32::MAX),
                jobs: jobs.iter().map(|(job, _)| job.to_string()).collect(),
                tenants: tenants.into_iter().collect(),
            }
        });
        shown.collect()
    }
}

/// Who lent what to whom: nodes that work for another pool than their own.
#[utoipa::path(get, path = "/loans", tag = "board",
    responses((status = 200, description = "Every node that is lent.", body = Vec<LoanView>), Problems))]
pub(crate) async fn loans(State(app): Shared, Submitter(principal): Submitter) -> Reply<Vec<LoanView>> {
    Ok(Json(fleet(&app).await?.loans(&principal)))
}

/// What is known already.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct Since {
    /// `version` of the map that is known: only what changed is told. Everything if left out, or too long ago.
    since: Option<u64>,
}

/// The fleet as a map: every node with its devices and who has them. It is made at most once a second for everybody.
#[utoipa::path(get, path = "/map", tag = "board", params(Since),
    responses((status = 200, description = "The map, or what changed.", body = MapView), Problems))]
pub(crate) async fn map(
    State(app): Shared,
    Submitter(principal): Submitter,
    Params(asked): Params<Since>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    app.looks.somebody_looks(&app);
    let fleet = fleet(&app).await?;
    let since = asked.since.unwrap_or(0);
    let scope = if principal.sees_all() { None } else { Some(principal.tenant.clone().unwrap_or_default()) };
    let known = locked(&fleet.answers).get(&(scope.clone(), since)).cloned();
    let text = match known {
        Some(text) => text,
        None => {
            let made = tokio::task::spawn_blocking(move || {
                let text = Arc::new(serde_json::to_vec(&fleet.shown(&principal, since)).unwrap_or_default());
                locked(&fleet.answers).insert((scope, since), text.clone());
                text
            });
            made.await.map_err(|_| Failure::Closing)?
        }
    };
    sent(&headers, text).await
}
