//! The one way in: from what people submit to what the engine takes, with templates merged, names resolved and ids given.
//! Submissions, plans, dry runs and questions about workloads take the same steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_api::ApiError;
use landfall_api::fill::{check_file, interpreter, is_of_one_element, names, of_entry};
use landfall_api::job::{DagPlace, DependsOn, JobRequest, PlacementRequest, PlannedJob, RunSpec};
use landfall_engine::Input;
use landfall_engine::answers::Change;
use landfall_engine::dag::{Edge, EdgeKind, JOBS_MAX, Join, TerminalState};
use landfall_engine::input::Submission;
use landfall_model::scenario::closest;
use landfall_model::{
    Dispatch, Indices, Job, JobFacts, JobId, JobMaker, JobSpec, Lifecycle, Mib, Millis, Name, Needs, PoolId,
    Provider, TenantId, Time, WorkloadId,
};
use landfall_store::Table;

use super::asked_of_peers::stays_here;
use super::core::View;
use super::handle::{Caller, Failure};
use super::jobs::JobMeta;
use super::submit::invalid;

/// The pool of a job that names none, where there are several.
const DEFAULT_POOL: &str = "default";
/// Longest name of a job in characters.
const NAME_MAX: usize = 200;
/// Most arguments and variables of a job together, in bytes.
const RUN_BYTES_MAX: usize = 1 << 20;
/// Most entries of an array together, in bytes.
const ENTRIES_BYTES_MAX: usize = 8 << 20;

/// A job made ready for the engine.
#[derive(Debug)]
pub struct Prepared {
    pub submission: Submission,
    pub meta: JobMeta,
    /// How other jobs of the same DAG call it.
    pub key: Option<String>,
    /// What whoever submits it should know.
    pub warnings: Vec<String>,
    /// How it wants to be placed among peers.
    pub placement: Option<PlacementRequest>,
}

impl Prepared {
    /// The job as a plan shows it.
    pub fn planned(&self) -> PlannedJob {
        let Submission { job, pool, not_before, user_hold, edges, join, .. } = &self.submission;
        let edges = edges.iter().map(|edge| DependsOn { on: edge.on.to_string(), kind: edge.kind });
        PlannedJob {
            id: job.id.to_string(),
            key: self.key.clone(),
            name: self.meta.name.clone(),
            pool: pool.as_ref().map(ToString::to_string).unwrap_or_default(),
            tenant: job.spec.tenant.as_ref().map(ToString::to_string),
            needs: Needs::of(&job.spec),
            run: (*self.meta.run).clone(),
            array: self.meta.array.clone(),
            depends_on: edges.collect(),
            join: *join,
            not_before_ms: not_before.map(super::view::ms),
            held: *user_hold,
        }
    }
}

/// What the engine is given: jobs, or one array.
enum Handed {
    Jobs(Vec<Submission>),
    Array(Box<Submission>, Indices),
}

fn handed(prepared: Vec<Prepared>) -> Handed {
    let array = prepared.iter().find_map(|job| job.meta.array.clone());
    let mut jobs: Vec<Submission> = prepared.into_iter().map(|job| job.submission).collect();
    match (array, jobs.len()) {
        (Some(indices), 1) => Handed::Array(Box::new(jobs.remove(0)), indices),
        _ => Handed::Jobs(jobs),
    }
}

pub(super) fn input(prepared: Vec<Prepared>) -> Input {
    match handed(prepared) {
        Handed::Jobs(jobs) => Input::Submit(jobs),
        Handed::Array(submission, indices) => Input::SubmitArray { submission, indices },
    }
}

/// The change that a plan looks at.
pub fn change(prepared: Vec<Prepared>) -> Change {
    match handed(prepared) {
        Handed::Jobs(jobs) => Change::Submit(jobs),
        Handed::Array(submission, indices) => Change::SubmitArray { submission, indices },
    }
}

impl View<'_> {
    /// Makes jobs that may name the providers that are set, or one of the usual.
    fn maker(&self) -> JobMaker {
        let mut known = self.engine.state().providers().to_vec();
        let usual = Provider::defaults().into_iter();
        let usual: Vec<_> = usual.filter(|it| known.iter().all(|set| set.name != it.name)).collect();
        known.extend(usual);
        JobMaker::new(known)
    }

    /// Checks what a workload's template says by itself.
    pub fn check_template(&self, template: &JobRequest) -> Result<(), Failure> {
        job_of(&mut template.clone(), planned()?, Time::ZERO, &mut self.maker(), "").map(drop)
    }

    /// What a submission would be for the engine; `name` gives the id of the job at each place.
    pub fn intake(
        &mut self,
        caller: &Caller,
        jobs: Vec<JobRequest>,
        name: impl Fn(usize) -> String,
    ) -> Result<Vec<Prepared>, Failure> {
        if jobs.is_empty() {
            return Err(invalid("jobs", "there is no job in it", "give at least one"));
        }
        if jobs.len() > JOBS_MAX {
            let message = format!("a DAG has at most {JOBS_MAX} jobs, this one has {}", jobs.len());
            return Err(invalid("jobs", message, "submit it in parts, or as an array"));
        }
        let several = jobs.len() > 1;
        let mut ids = Vec::with_capacity(jobs.len());
        let mut keys: BTreeMap<String, JobId> = BTreeMap::new();
        for (place, job) in jobs.iter().enumerate() {
            let id = JobId::new(&name(place)).map_err(|error| invalid("id", error.to_string(), ""))?;
            ids.push(id.clone());
            let Some(key) = &job.key else { continue };
            if keys.insert(key.clone(), id).is_some() {
                let message = format!("two jobs have the key `{key}`");
                return Err(invalid("key", message, "give each job a key of its own"));
            }
        }
        let mut maker = self.maker();
        let mut prepared: Vec<Prepared> = Vec::with_capacity(jobs.len());
        let dag = ids.first().filter(|_| several).map(ToString::to_string);
        for (place, (job, id)) in jobs.into_iter().zip(ids).enumerate() {
            let path = if several { format!("jobs[{place}].") } else { String::new() };
            let mut job = self.prepare(caller, job, id, &keys, &mut maker, &path)?;
            if let Some(dag) = dag.clone().filter(|_| job.meta.dag.is_none()) {
                job.meta.dag = Some(place_in(dag, job.key.clone(), &job.submission));
            }
            prepared.push(job);
        }
        if several && prepared.iter().any(|job| job.meta.array.is_some()) {
            let message = "an array cannot be part of a DAG that is submitted at once";
            let error = ApiError::new("array_in_dag", message)
                .hint("submit the array alone and let other jobs depend on its id");
            return Err(Failure::refused(422, error));
        }
        Ok(prepared)
    }

    fn prepare(
        &mut self,
        caller: &Caller,
        request: JobRequest,
        id: JobId,
        keys: &BTreeMap<String, JobId>,
        maker: &mut JobMaker,
        path: &str,
    ) -> Result<Prepared, Failure> {
        let (job, mut request) = self.settled(caller, request, id, maker, path)?;
        check_entries(&mut request, path)?;
        if request.open && request.array.is_none() {
            let message = "only an array can be open for more elements";
            return Err(invalid(&format!("{path}open"), message, "give the indices it begins with"));
        }
        self.check_attended(&request, &job, path)?;
        check_run(&request, job.spec.runtime.as_str(), path)?;
        let mut submission = Submission::new(job);
        submission.join = request.join;
        submission.user_hold = request.hold;
        submission.open = request.open;
        submission.not_before =
            request.not_before_ms.map(|ms| Time::from_millis(i64::try_from(ms).unwrap_or(i64::MAX)));
        submission.edges = self.edges(caller, (&request.depends_on, request.join), keys, path)?;
        let dag = match &request.dag {
            Some(dag) => Some(self.dag_joined(caller, dag, path)?),
            None => None,
        };
        let meta = JobMeta {
            dag: dag.map(|id| place_in(id, request.key.clone(), &submission)),
            name: request.name,
            submitter: Some(caller.name.clone()).filter(|name| !name.is_empty()),
            run: Arc::new(request.run),
            array: request.array,
            entries: Arc::new(request.entries),
            foreign: false,
        };
        let unsaid = request.needs.walltime_ms.is_none();
        // Whether peers have such machines is theirs to say.
        let elsewhere = self.negotiates(submission.pool.as_ref());
        let never = if elsewhere { None } else { self.never(&submission, request.strict, path)? };
        let pool = submission.pool.as_ref().filter(|_| unsaid);
        let usual = pool.and_then(|pool| self.engine.usual_walltime(&submission.job.spec, pool));
        let warnings = [never, self.unbound(&submission), usual].into_iter().flatten().collect();
        Ok(Prepared { submission, meta, key: request.key, warnings, placement: request.placement })
    }

    /// Sees to it that a job that somebody is at, or that wants cores of its own, can have that.
    fn check_attended(&self, request: &JobRequest, job: &Job, path: &str) -> Result<(), Failure> {
        let refused = |field: &str, message: &str, hint: &str| {
            Err(invalid(&format!("{path}run.{field}"), message, hint))
        };
        let cores = job.spec.cpu_milli.get();
        if request.run.pin && (cores == 0 || !cores.is_multiple_of(1000)) {
            return refused("pin", "a pinned job has whole cores", "ask for some, such as --cpu 2");
        }
        if request.run.terminal.is_none() {
            return Ok(());
        }
        if request.array.is_some() || job.spec.nodes.max > 1 {
            return refused(
                "terminal",
                "nobody can be at several processes at once",
                "submit one job on one node",
            );
        }
        if request.run.stdin.is_some() || request.run.stdout.is_some() || request.run.stderr.is_some() {
            return refused("terminal", "its input and output go to whoever is at it", "leave the files out");
        }
        if self.negotiates(job.spec.pool.as_ref()) {
            return refused("terminal", "a peer runs it, and nobody can be at it there", "name another pool");
        }
        Ok(())
    }

    /// What stands between a job and every node that its pool has, if that is more than time: a warning, or a refusal for those
    /// who want one.
    fn never(&self, submission: &Submission, strict: bool, path: &str) -> Result<Option<String>, Failure> {
        let job = &submission.job;
        let pool = submission.pool.as_ref().or(job.spec.pool.as_ref());
        // A batch pool refuses by itself, unless the job says that it waits for what is not there yet.
        let pool = pool.filter(|pool| job.spec.wait_for_capacity || !self.plans_time(Some(pool)));
        let Some(why) = pool.and_then(|pool| self.engine.never(job, pool)) else { return Ok(None) };
        let message = format!(
            "no node of pool `{}` can ever run it: {}",
            job.spec.pool.as_ref().map_or("", PoolId::as_str),
            why.detail
        );
        match strict {
            true => {
                let error = ApiError::new("never_fits", message).field(format!("{path}needs"));
                Err(Failure::refused(422, error.hint("ask for less, add such a node, or leave --strict out")))
            }
            false => Ok(Some(message)),
        }
    }

    /// Says that a limit of memory does not bind on some nodes of a job's pool. A container has limits of its own.
    fn unbound(&self, submission: &Submission) -> Option<String> {
        let spec = &submission.job.spec;
        let pool = submission.pool.as_ref().or(spec.pool.as_ref())?;
        if spec.ram_mib == Mib::ZERO || spec.runtime.as_str() == "container" {
            return None;
        }
        let places = &self.engine.state().places;
        let mut nodes =
            self.nodes.unbound().filter(|node| places.get(*node).is_some_and(|(of, _)| of == pool));
        let first = nodes.next()?;
        let where_ = match nodes.count() {
            0 => format!("node `{first}`"),
            more => format!("{} nodes, such as `{first}`,", more + 1),
        };
        Some(format!(
            "limits of memory are not enforced on {where_} of pool `{pool}`: `landfall node {first}` says why"
        ))
    }

    /// Sees to it that everything a job asks for counts in its pool: what does not is refused.
    fn heed(&self, request: &mut JobRequest, path: &str) -> Result<(), Failure> {
        let Some(pool) = request.needs.pool.as_ref().and_then(|pool| self.engine.state().pools.get(pool))
        else {
            return Ok(());
        };
        let (needs, run) = (&mut request.needs, &mut request.run);
        let dispatch = pool.pool.dispatch;
        let ignored = |field: &str, message: String, hint: &str| {
            let error =
                ApiError::new("need_ignored", message).hint(hint).field(format!("{path}needs.{field}"));
            Err(Failure::refused(422, error))
        };
        if let Some(name) = needs.architecture.take() {
            // The names that people use besides those that machines give themselves.
            let usual = match name.as_str() {
                "arm64" => Name::new("aarch64").unwrap_or(name),
                "amd64" | "x64" => Name::new("x86_64").unwrap_or(name),
                _ => name,
            };
            needs.architecture = Some(usual);
        }
        let told = dispatch == Dispatch::Negotiate && !stays_here(request.placement.as_ref());
        if needs.storage_mib.is_some_and(|size| !size.is_zero()) && !told {
            let message = "nodes do not say how much disk they have, so none can be promised";
            return ignored("storage_mib", message.into(), "leave it out");
        }
        let given = Needs::of(&needs.clone().spec().unwrap_or_else(|_| JobSpec::empty()));
        use Dispatch::{Batch, Negotiate, Pull, Push};
        // What only a request to peers says has no effect on a job that they are not asked about.
        let batch_or_told: &[Dispatch] = if told { &[Batch, Negotiate] } else { &[Batch] };
        let pull_or_told: &[Dispatch] = if told { &[Pull, Negotiate] } else { &[Pull] };
        const LEAVE: &str = "leave it out";
        const PLACEMENT: &str =
            "say it as a wish of `placement`, such as --prefer-region, --max-cost or --placement";
        let reactive = given.lifecycle == Some(Lifecycle::Reactive);
        let only_in: [(&str, bool, &[Dispatch], &str); 34] = [
            (
                "priority",
                given.priority.is_some(),
                &[Push],
                if dispatch == Batch { "use class, 0 to 10" } else { LEAVE },
            ),
            ("tier", given.tier.is_some(), &[Push], LEAVE),
            ("provider", given.provider.is_some(), &[Push], LEAVE),
            ("region", given.region.is_some(), &[Push], "use a feature that the nodes there have"),
            (
                "class",
                given.class.is_some(),
                batch_or_told,
                if dispatch == Push { "use priority, higher first" } else { LEAVE },
            ),
            ("exclusive", needs.exclusive == Some(true), &[Batch], "ask for all its cores"),
            ("sensitive", given.sensitive.is_some(), &[Batch], LEAVE),
            ("flexible", given.flexible.is_some(), &[Batch], LEAVE),
            ("unified_memory", given.unified_memory.is_some(), &[Batch], LEAVE),
            ("hint", given.hint.is_some(), &[Batch], LEAVE),
            ("max_span", given.max_span.is_some(), &[Batch], LEAVE),
            ("immediate", given.immediate.is_some(), &[Batch], LEAVE),
            ("resizable", given.resizable.is_some(), &[Batch], LEAVE),
            ("same_numa", given.same_numa.is_some(), &[Batch], LEAVE),
            ("locality_bias", given.locality_bias.is_some(), &[Batch], LEAVE),
            ("checkpoint_minutes", given.checkpoint_minutes.is_some(), &[Batch], LEAVE),
            ("lifecycle", reactive, &[Batch], "name a batch pool: only there services grow and shrink"),
            ("scale_target_milli", given.scale_target_milli.is_some(), &[Batch], LEAVE),
            (
                "architecture",
                given.architecture.is_some(),
                &[Push, Pull],
                "use a feature that such nodes have",
            ),
            (
                "gpu_slice",
                given.gpu_slice.is_some(),
                &[Push, Pull],
                "ask for whole GPUs; those that a driver shows as slices have a model of their own (gpu_models)",
            ),
            ("kind", given.kind.is_some(), &[Pull], LEAVE),
            ("prefer_local", given.prefer_local.is_some(), &[Pull], LEAVE),
            ("network_bound", given.network_bound.is_some(), &[Pull], LEAVE),
            ("network_mbit_s", given.network_mbit_s.is_some(), pull_or_told, LEAVE),
            ("fetchable", given.fetchable.is_some(), &[Pull], LEAVE),
            ("fetch_task", given.fetch_task.is_some(), &[Pull], LEAVE),
            ("evaluate_task", given.evaluate_task.is_some(), &[Pull], LEAVE),
            ("inputs", given.inputs.is_some(), &[Pull, Batch], LEAVE),
            // Only peers say what their devices are capable of.
            (
                "gpu_capability",
                given.gpu_capability.is_some(),
                &[Negotiate],
                "name the models that will do: --need 'gpu_models=[\"a100\"]'",
            ),
            // Scenarios have these as fields; who submits says them in `placement`.
            ("hints", given.hints.is_some(), &[], PLACEMENT),
            ("max_cost", given.max_cost.is_some(), &[], PLACEMENT),
            ("max_scope", given.max_scope.is_some(), &[], PLACEMENT),
            ("allowed_scopes", given.allowed_scopes.is_some(), &[], PLACEMENT),
            ("cell", given.cell.is_some(), &[], PLACEMENT),
        ];
        for (field, given) in [("at_once", given.at_once), ("max_fails", given.max_fails)] {
            if given.is_some() && request.array.is_none() && request.entries.is_empty() {
                return ignored(
                    field,
                    format!("`{field}` is about the elements of an array"),
                    "leave it out",
                );
            }
        }
        for (field, is_given, ways, hint) in only_in {
            if is_given && !ways.contains(&dispatch) {
                let way = super::view::word(&dispatch);
                return ignored(
                    field,
                    format!("`{field}` has no effect in pool `{}`, a {way} pool", pool.pool.id),
                    hint,
                );
            }
        }
        if let Some(region) = &needs.region {
            let regions: BTreeSet<&str> =
                pool.present().filter_map(|node| node.region.as_ref()).map(Name::as_str).collect();
            let near = pool.world.regions.get(region).into_iter().flatten();
            if !near.chain([region]).any(|region| regions.contains(region.as_str())) {
                let there: Vec<&str> = regions.into_iter().collect();
                let hint = match closest(region.as_str(), there.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if there.is_empty() => "no node of it names a region; leave it out".to_owned(),
                    None => format!("there is {}", there.join(", ")),
                };
                return ignored(
                    "region",
                    format!("no node of pool `{}` is in region `{region}`", pool.pool.id),
                    &hint,
                );
            }
        }
        if dispatch != Dispatch::Batch {
            // Batch pools plan and stop by walltimes; elsewhere the node sees to it.
            run.timeout_ms = run.timeout_ms.into_iter().chain(needs.walltime_ms.map(Millis::get)).min();
            needs.expected_duration_ms = needs.expected_duration_ms.or(run.timeout_ms.map(Millis::new));
        }
        Ok(())
    }

    /// The job that a request and its workload describe, and what else they say together.
    fn settled(
        &mut self,
        caller: &Caller,
        request: JobRequest,
        id: JobId,
        maker: &mut JobMaker,
        path: &str,
    ) -> Result<(Job, JobRequest), Failure> {
        let mut request = self.with_workload(request, path)?;
        request.needs.pool = Some(self.pool_of(request.needs.pool.as_ref(), path)?);
        if request.placement.is_some() && !self.negotiates(request.needs.pool.as_ref()) {
            let pool = request.needs.pool.as_ref().map_or("", PoolId::as_str);
            let message = format!("pool `{pool}` does not negotiate");
            return Err(Failure::refused(
                422,
                ApiError::new("placement_unsupported", message)
                    .hint(
                        "leave `placement` out, or name a pool that negotiates; `landfall up --peer` has one",
                    )
                    .field(format!("{path}placement")),
            ));
        }
        request.needs.tenant = tenant_of(caller, request.needs.tenant.take(), path)?;
        if caller.tenant.is_none()
            && let Some(named) = &request.needs.tenant
            && let Some(hint) = self.no_such_tenant(named.as_str())
        {
            let message = format!("there is no tenant `{named}`");
            let error =
                ApiError::new("unknown_tenant", message).hint(hint).field(format!("{path}needs.tenant"));
            return Err(Failure::refused(422, error));
        }
        self.heed(&mut request, path)?;
        if self.plans_time(request.needs.pool.as_ref()) {
            request.needs.user = request.needs.user.take().or_else(|| Name::new(&caller.name).ok());
            request.needs.series = request.needs.series.take().or_else(|| series_of(&request));
        }
        if request.needs.image.is_none() {
            request.needs.image = request.run.image.as_deref().and_then(landfall_model::image_name);
        }
        if request.needs.architecture.is_none() {
            request.needs.architecture = self.architecture_of(request.needs.pool.as_ref());
        }
        if request.needs.direct_inputs.is_none() && !request.depends_on.is_empty() {
            request.needs.direct_inputs = Some(request.depends_on.len() as u64);
        }
        let job = job_of(&mut request, id, self.now, maker, path)?;
        Ok((job, request))
    }

    /// A job of a workload as it would be submitted, whatever it would run; `pool` stands in for one that is not named.
    pub fn job_of_workload(
        &mut self,
        caller: &Caller,
        workload: &str,
        pool: Option<&PoolId>,
    ) -> Result<Job, Failure> {
        let mut request = JobRequest { workload: Some(workload.to_owned()), ..JobRequest::default() };
        request.needs.pool = pool.cloned();
        self.settled(caller, request, planned()?, &mut self.maker(), "").map(|(job, _)| job)
    }

    /// The template of a workload, if there is one.
    pub fn workload(&mut self, name: &str) -> Result<Option<JobRequest>, Failure> {
        let found = self.store.get(Table::Workloads, name).map_err(|e| Failure::Storage(e.to_string()))?;
        found.map(|bytes| template_of(name, &bytes)).transpose()
    }

    fn with_workload(&mut self, mut request: JobRequest, path: &str) -> Result<JobRequest, Failure> {
        let Some(name) = request.workload.clone() else { return Ok(request) };
        let (Some(template), Ok(id)) = (self.workload(&name)?, WorkloadId::new(&name)) else {
            let message = format!("there is no workload `{name}`");
            return Err(Failure::refused(
                422,
                ApiError::new("unknown_workload", message)
                    .hint("`landfall workloads` lists all")
                    .field(format!("{path}workload")),
            ));
        };
        request.needs = request.needs.or(template.needs);
        request.needs.workload.get_or_insert(id);
        request.name = request.name.or(template.name);
        request.run = merged(template.run, request.run);
        Ok(request)
    }

    /// What to do about a tenant that is not there; `None` if it is.
    pub fn no_such_tenant(&self, id: &str) -> Option<String> {
        let tenants = &self.engine.state().tenants;
        let near = closest(id, tenants.keys().map(TenantId::as_str));
        (!tenants.contains_key(id)).then(|| match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("`landfall tenants set {id}` makes it"),
        })
    }

    /// The architecture of a job that names none, in a pull pool: what the pool says, what most of its nodes have, or what this
    /// server runs on. `builtin` is only what is said to be.
    fn architecture_of(&self, pool: Option<&PoolId>) -> Option<Name> {
        let pool = pool.and_then(|pool| self.engine.state().pools.get(pool))?;
        if pool.pool.dispatch != Dispatch::Pull {
            return None;
        }
        let mut counts: BTreeMap<&Name, usize> = BTreeMap::new();
        for able in pool.nodes.iter().filter_map(|node| node.capabilities.as_ref()) {
            able.architectures.iter().for_each(|name| *counts.entry(name).or_default() += 1);
        }
        let most = counts.into_iter().max_by_key(|(name, count)| (*count, std::cmp::Reverse(*name)));
        let here = || Name::new(std::env::consts::ARCH).ok();
        pool.pool.pull.architecture.clone().or_else(|| most.map(|(name, _)| name.clone())).or_else(here)
    }

    /// Whether peers place the jobs of a pool among themselves.
    pub(super) fn negotiates(&self, pool: Option<&PoolId>) -> bool {
        let pool = pool.and_then(|pool| self.engine.state().pools.get(pool));
        pool.is_some_and(|pool| pool.pool.dispatch == Dispatch::Negotiate)
    }

    /// Whether a pool learns how long jobs take.
    fn plans_time(&self, pool: Option<&PoolId>) -> bool {
        let pool = pool.and_then(|pool| self.engine.state().pools.get(pool));
        pool.is_some_and(|pool| pool.pool.dispatch == Dispatch::Batch)
    }

    fn pool_of(&self, named: Option<&PoolId>, path: &str) -> Result<PoolId, Failure> {
        let pools = &self.engine.state().pools;
        let field = format!("{path}needs.pool");
        let chosen = match named {
            Some(name) => pools.get_key_value(name).map(|(id, _)| id),
            None if pools.len() == 1 => pools.keys().next(),
            None => pools.get_key_value(DEFAULT_POOL).map(|(id, _)| id),
        };
        match (chosen, named) {
            (Some(pool), _) => Ok(pool.clone()),
            (None, Some(name)) => {
                let known: Vec<&str> = pools.keys().map(PoolId::as_str).collect();
                let hint = match closest(name.as_str(), known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there is {}", known.join(", ")),
                };
                let message = format!("there is no pool `{name}`");
                Err(Failure::refused(422, ApiError::new("unknown_pool", message).hint(hint).field(field)))
            }
            (None, None) => {
                Err(invalid(&field, "there are several pools and none is called `default`", "name one"))
            }
        }
    }

    fn edges(
        &mut self,
        caller: &Caller,
        (wanted, join): (&[DependsOn], Join),
        keys: &BTreeMap<String, JobId>,
        path: &str,
    ) -> Result<Vec<Edge>, Failure> {
        let mut edges = Vec::with_capacity(wanted.len());
        let mut in_vain = None;
        for (place, wish) in wanted.iter().enumerate() {
            let field = format!("{path}depends_on[{place}].on");
            if let Some(job) = keys.get(&wish.on) {
                edges.push(Edge { on: job.clone(), kind: wish.kind });
                continue;
            }
            let own = |tenant: Option<&str>| caller.tenant.is_none() || tenant == caller.tenant.as_deref();
            let known = self.resolve(&wish.on);
            let tenant = known.as_ref().and_then(|job| self.tenant_of_job(job));
            let known = known.filter(|_| own(tenant.as_deref()));
            if let Some(job) = &known
                && self.engine.state().folded.get(job).is_some_and(|array| array.open)
            {
                let message = format!("array `{job}` is open: when all of it has ended is not known");
                let hint = format!("`landfall arrays close {job}` first");
                return Err(Failure::refused(
                    422,
                    ApiError::new("array_open", message).hint(hint).field(field),
                ));
            }
            let (state, holds) = match &known {
                Some(job) => {
                    let state = match self.engine.state().ended_as(job) {
                        Some(TerminalState::Failed) => Some("failed"),
                        Some(TerminalState::Cancelled) => Some("cancelled"),
                        _ => None,
                    };
                    // Whoever is there for a failure that did not happen is not needed, and the engine says so.
                    (state, state.is_none() || wish.kind != EdgeKind::Success)
                }
                // What the engine has forgotten the archive knows. To whoever acts for one tenant, jobs of others are unknown.
                None => match self.archived_as(&wish.on).filter(|(_, tenant)| own(tenant.as_deref())) {
                    Some((state, _)) => {
                        let holds = match wish.kind {
                            EdgeKind::Success | EdgeKind::Corresponding => state == "completed",
                            EdgeKind::Failure => state == "failed",
                            EdgeKind::Any | EdgeKind::Mutex => true,
                        };
                        (Some(state), holds)
                    }
                    None => {
                        let error = ApiError::new("unknown_job", format!("there is no job `{}`", wish.on))
                            .hint("give the id of a job, or the key of another job of this DAG")
                            .field(field);
                        return Err(Failure::refused(422, error));
                    }
                },
            };
            match (known, state) {
                (Some(on), _) if holds => edges.push(Edge { on, kind: wish.kind }),
                (None, _) if holds && join == Join::Any => return Ok(Vec::new()),
                (_, Some(state)) if !holds => {
                    let message = format!("job `{}` ended as {state}, so this can never start", wish.on);
                    let error = ApiError::new("dependency_unsatisfiable", message)
                        .hint("leave the dependency out, or submit that job again")
                        .field(field);
                    let refused = Failure::refused(422, error);
                    if join == Join::All {
                        return Err(refused);
                    }
                    in_vain.get_or_insert(refused);
                }
                _ => {}
            }
        }
        match in_vain {
            // One of the others will do.
            Some(_) if !edges.is_empty() => Ok(edges),
            Some(refused) => Err(refused),
            None => Ok(edges),
        }
    }

    /// How a job or an array ended that is only on disk, and whose it is.
    fn archived_as(&mut self, text: &str) -> Option<(&'static str, Option<String>)> {
        let (completed, failed, tenant) = match self.archived(text) {
            Some(job) => (job.state == "completed", job.state == "failed", job.tenant),
            None => {
                let array = self.of_ended(|ended| ended.array(text))?.array;
                (array.failed + array.cancelled == 0, array.failed > 0, array.tenant)
            }
        };
        let state = if completed {
            "completed"
        } else if failed {
            "failed"
        } else {
            "cancelled"
        };
        Some((state, tenant))
    }

    /// Whose a job or an array is.
    fn tenant_of_job(&self, id: &JobId) -> Option<String> {
        let state = self.engine.state();
        let array = || super::jobs::element_of(id.as_str()).map_or(id.as_str(), |(array, _)| array);
        let spec = match state.job(id) {
            Some(record) => &record.job.spec,
            None => &state.folded.get(array())?.job.spec,
        };
        spec.tenant.as_ref().map(ToString::to_string)
    }
}

/// A job's place in a DAG.
fn place_in(id: String, key: Option<String>, submission: &Submission) -> DagPlace {
    let edges = submission.edges.iter();
    let depends_on = edges.map(|edge| DependsOn { on: edge.on.to_string(), kind: edge.kind }).collect();
    DagPlace { id, key, depends_on, join: submission.join }
}

/// What a job is called that nobody submitted.
pub fn planned() -> Result<JobId, Failure> {
    JobId::new("planned").map_err(|error| invalid("id", error.to_string(), ""))
}

/// The stored template of a workload.
///
/// # Errors
/// When another version wrote something into it that this one does not know.
pub fn template_of(name: &str, bytes: &[u8]) -> Result<JobRequest, Failure> {
    serde_json::from_slice(bytes).map_err(|error| {
        let message = format!("workload `{name}` cannot be read: {error}");
        Failure::refused(422, ApiError::new("unreadable_workload", message).hint("store it again"))
    })
}

/// What jobs of a sweep have in common: their name without digits, else the program they run.
fn series_of(request: &JobRequest) -> Option<Name> {
    let program = || request.run.command.first()?.rsplit('/').next();
    let name = request.name.as_deref().or_else(program)?;
    Name::new(&name.replace(|c: char| c.is_ascii_digit(), "")).ok()
}

fn tenant_of(caller: &Caller, named: Option<TenantId>, path: &str) -> Result<Option<TenantId>, Failure> {
    let field = || format!("{path}needs.tenant");
    let Some(own) = &caller.tenant else { return Ok(named) };
    if let Some(named) = named.filter(|named| named.as_str() != own) {
        let message = format!("this token submits for tenant `{own}`, not `{named}`");
        let error = ApiError::new("other_tenant", message)
            .hint("leave the tenant out, or use a token of that tenant")
            .field(field());
        return Err(Failure::refused(403, error));
    }
    let own = TenantId::new(own);
    own.map(Some).map_err(|error| invalid(&field(), error.to_string(), "choose another name"))
}

/// Sees to it that every element of an array has its entry, and that each has what the command asks of it.
pub(super) fn check_entries(request: &mut JobRequest, path: &str) -> Result<(), Failure> {
    let field = format!("{path}entries");
    let Ok(count) = u32::try_from(request.entries.len()) else {
        return Err(invalid(&field, "there are too many entries", "submit them in parts"));
    };
    if count == 0 {
        return Ok(());
    }
    let elements = request.array.get_or_insert_with(|| Indices::range(1, count, 1)).count();
    if elements != u64::from(count) {
        let message = format!("there are {count} entries for {elements} elements");
        return Err(invalid(&field, message, "give one for each, or leave the array out"));
    }
    if request.entries.iter().map(String::len).sum::<usize>() > ENTRIES_BYTES_MAX {
        let message = format!("the entries have more than {ENTRIES_BYTES_MAX} bytes");
        return Err(invalid(&field, message, "put large data into files and name those"));
    }
    if let Some(place) = request.entries.iter().position(|entry| entry.contains('\0')) {
        return Err(invalid(&field, format!("entry {} holds a zero byte", place + 1), "remove it"));
    }
    let asked = request.run.command.iter().flat_map(|word| names(word));
    for name in asked.filter(|name| *name == "entry" || name.starts_with("entry.")) {
        if let Some(place) = request.entries.iter().position(|entry| of_entry(entry, name).is_none()) {
            let message = format!("entry {} has nothing for {{{name}}}", place + 1);
            return Err(invalid(&field, message, "name a field that every entry has"));
        }
    }
    Ok(())
}

fn check_run(request: &JobRequest, runtime: &str, path: &str) -> Result<(), Failure> {
    let run = &request.run;
    let missing = |field: &str, message: &str| {
        Err(invalid(&format!("{path}run.{field}"), message, "say what the job runs"))
    };
    match runtime {
        "process" if run.command.is_empty() => return missing("command", "a process needs a command"),
        "container" if run.image.is_none() => return missing("image", "a container needs an image"),
        "wasm" if run.module.is_none() => return missing("module", "a wasm job needs a module"),
        "llmcpp" if run.model.is_none() => return missing("model", "an llmcpp job needs a model file"),
        _ => {}
    }
    if run.command.first().is_some_and(String::is_empty) {
        return missing("command", "the program has no name");
    }
    if run.timeout_ms == Some(0) {
        return Err(invalid(
            &format!("{path}run.timeout_ms"),
            "a time-out of 0 leaves no time to run",
            "leave it out for no limit",
        ));
    }
    let arguments = run.command.iter().map(String::len).sum::<usize>();
    let variables = run.env.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    let mounts = run.mounts.iter().map(|mount| mount.source.len() + mount.target.len()).sum::<usize>();
    let files = [("stdout", &run.stdout), ("stderr", &run.stderr)];
    if let Some((field, _)) = [("pin", run.pin), ("terminal", run.terminal.is_some())]
        .into_iter()
        .find(|(_, given)| *given && runtime != "process")
    {
        let message = format!("`{field}` is for processes, and this is a job of runtime `{runtime}`");
        return Err(invalid(&format!("{path}run.{field}"), message, "leave it out"));
    }
    if runtime != "process"
        && let Some(field) =
            files.into_iter().chain([("script", &run.script)]).find(|(_, given)| given.is_some())
    {
        let message = format!("`{}` is for processes, and this is a job of runtime `{runtime}`", field.0);
        return Err(invalid(&format!("{path}run.{}", field.0), message, "leave it out"));
    }
    if run.offline && !matches!(runtime, "container" | "wasm") {
        let message = format!("a job of runtime `{runtime}` cannot be cut off from the network");
        return Err(invalid(&format!("{path}run.offline"), message, "run it in a container"));
    }
    if run.script.as_ref().is_some_and(|text| interpreter(text).is_none()) {
        let message = "the script does not say what runs it";
        return Err(invalid(&format!("{path}run.script"), message, "begin it with a line such as #!/bin/sh"));
    }
    for (field, file) in files {
        let Some(file) = file else { continue };
        let field = format!("{path}run.{field}");
        check_file(file).map_err(|message| invalid(&field, message, "change the name"))?;
        let several = request.open || request.array.as_ref().is_some_and(|range| range.count() > 1);
        if several && !is_of_one_element(file) {
            let message = format!("all elements of the array would write to `{file}`");
            return Err(invalid(&field, message, "put {index} into its name (%a under Slurm)"));
        }
    }
    let texts = [&run.cwd, &run.image, &run.module, &run.model, &run.stdin, &run.checkpoint_signal];
    let texts = texts.into_iter().chain([&run.script, &run.stdout, &run.stderr]);
    let others = texts.flatten().map(String::len).sum::<usize>() + run.retry_on.len() * 4;
    if arguments + variables + mounts + others > RUN_BYTES_MAX {
        let message = format!("what the job runs has more than {RUN_BYTES_MAX} bytes");
        return Err(invalid(&format!("{path}run"), message, "put large data into files"));
    }
    let zero = |text: &String| text.contains('\0');
    if run.command.iter().chain(run.env.values()).chain(run.cwd.iter()).any(zero) {
        let message = "command, environment and directory cannot contain a zero byte";
        return Err(invalid(&format!("{path}run"), message, "remove it"));
    }
    if let Some(name) = run.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        let message = format!("`{}` is no name of a variable", name.escape_debug());
        return Err(invalid(&format!("{path}run.env"), message, "use letters, digits and underscores"));
    }
    if request.name.as_ref().is_some_and(|name| name.chars().count() > NAME_MAX) {
        let message = format!("a name has at most {NAME_MAX} characters");
        return Err(invalid(&format!("{path}name"), message, "choose a shorter one"));
    }
    if request.name.as_ref().is_some_and(|name| name.chars().any(char::is_control)) {
        return Err(invalid(&format!("{path}name"), "a name has no control characters", "choose another"));
    }
    Ok(())
}

/// The job that a request describes. What runs it is as it says, or what its run needs.
fn job_of(
    request: &mut JobRequest,
    id: JobId,
    now: Time,
    maker: &mut JobMaker,
    path: &str,
) -> Result<Job, Failure> {
    let JobRequest { needs, run, .. } = request;
    needs.runtime = needs.runtime.take().or_else(|| Name::new(run.runtime()).ok());
    maker.make(id, JobFacts::default(), std::mem::take(needs), now).map_err(|error| {
        let mut api =
            ApiError::new("invalid_needs", error.message).field(format!("{path}needs.{}", error.field));
        api.hint = error.hint;
        Failure::refused(422, api)
    })
}

/// The template's run with what the job says instead.
fn merged(template: RunSpec, job: RunSpec) -> RunSpec {
    let mut env = template.env;
    env.extend(job.env);
    RunSpec {
        command: if job.command.is_empty() { template.command } else { job.command },
        env,
        cwd: job.cwd.or(template.cwd),
        submitted_from: job.submitted_from.or(template.submitted_from),
        image: job.image.or(template.image),
        module: job.module.or(template.module),
        model: job.model.or(template.model),
        mounts: if job.mounts.is_empty() { template.mounts } else { job.mounts },
        stdin: job.stdin.or(template.stdin),
        script: job.script.or(template.script),
        stdout: job.stdout.or(template.stdout),
        stderr: job.stderr.or(template.stderr),
        slurm: job.slurm || template.slurm,
        pin: job.pin || template.pin,
        terminal: job.terminal.or(template.terminal),
        hang_up_ms: job.hang_up_ms.or(template.hang_up_ms),
        offline: job.offline || template.offline,
        timeout_ms: job.timeout_ms.or(template.timeout_ms),
        retry_on: if job.retry_on.is_empty() { template.retry_on } else { job.retry_on },
        checkpoint_signal: job.checkpoint_signal.or(template.checkpoint_signal),
    }
}
