//! From what people submit to what the engine takes: templates merged, names resolved, ids given. All or nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_api::ApiError;
use landfall_api::job::{DependsOn, JobRequest, RunSpec, Submitted};
use landfall_engine::dag::{Edge, EdgeKind, JOBS_MAX};
use landfall_engine::input::Submission;
use landfall_engine::{Answer, Input, Refused};
use landfall_model::scenario::{JobRow, Rows, ScenarioError, closest};
use landfall_model::{Dispatch, Job, JobId, PoolId, Time};
use landfall_store::Table;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::core::{Core, NEXT_JOB, RememberedAnswers};
use super::handle::{Caller, Failure};
use super::jobs::JobMeta;

/// The pool of a job that names none, where there are several.
const DEFAULT_POOL: &str = "default";
/// Longest name of a job in characters.
const NAME_MAX: usize = 200;
/// Most arguments and variables of a job together, in bytes.
const RUN_BYTES_MAX: usize = 1 << 20;
/// Longest idempotency key in bytes.
const KEY_MAX: usize = 255;

/// Answers to submissions that may be repeated, while they may not be on disk yet.
#[derive(Debug, Default)]
pub(super) struct Remembered(RememberedAnswers);

/// How many answers are kept in memory; all of them are on disk.
const REMEMBERED_MAX: usize = 10_000;

/// An answer on disk.
#[derive(Serialize, Deserialize)]
struct Kept {
    request: String,
    jobs: Vec<Submitted>,
    at_ms: i64,
}

/// A job made ready for the engine.
pub(super) struct Prepared {
    pub(super) id: JobId,
    pub(super) submission: Submission,
    pub(super) meta: JobMeta,
}

impl Core {
    /// Accepts all jobs or none.
    pub(super) fn submit(
        &mut self,
        caller: &Caller,
        jobs: Vec<JobRequest>,
        key: Option<&str>,
    ) -> Result<(Vec<Submitted>, bool), Failure> {
        let key = key.map(|key| self.repeatable(caller, key, &jobs)).transpose()?;
        if let Some(Repeatable { before: Some(before), .. }) = key {
            return Ok((before, true));
        }
        let accepted = self.submit_new(caller, jobs)?;
        if let Some(key) = key {
            let kept =
                Kept { request: key.request.clone(), jobs: accepted.clone(), at_ms: self.now.as_millis() };
            self.put(Table::Idempotency, key.key.clone(), &kept);
            let Remembered(answers) = &mut self.remembered;
            if answers.len() >= REMEMBERED_MAX {
                answers.clear();
            }
            answers.insert(key.key, (key.request, accepted.clone()));
        }
        Ok((accepted, false))
    }

    fn submit_new(&mut self, caller: &Caller, jobs: Vec<JobRequest>) -> Result<Vec<Submitted>, Failure> {
        if jobs.is_empty() {
            return Err(invalid("jobs", "there is no job in it", "give at least one"));
        }
        if jobs.len() > JOBS_MAX {
            let message = format!("a DAG has at most {JOBS_MAX} jobs, this one has {}", jobs.len());
            return Err(invalid("jobs", message, "submit it in parts, or as an array"));
        }
        let several = jobs.len() > 1;
        let first = self.next_job;
        let ids: Vec<JobId> = (first..).take(jobs.len()).map(id).collect::<Result<_, _>>()?;
        let mut keys: BTreeMap<String, JobId> = BTreeMap::new();
        for (job, id) in jobs.iter().zip(&ids) {
            let Some(key) = &job.key else { continue };
            if keys.insert(key.clone(), id.clone()).is_some() {
                let message = format!("two jobs have the key `{key}`");
                return Err(invalid("key", message, "give each job a key of its own"));
            }
        }
        let mut prepared = Vec::with_capacity(jobs.len());
        for (place, (job, id)) in jobs.into_iter().zip(ids).enumerate() {
            let path = if several { format!("jobs[{place}].") } else { String::new() };
            prepared.push(self.prepare(caller, job, id, &keys, &path)?);
        }
        let accepted = prepared.iter().map(|job| Submitted {
            id: job.id.to_string(),
            count: job.meta.array.map_or(1, landfall_api::job::ArrayRange::count),
            repeated: false,
        });
        let accepted: Vec<Submitted> = accepted.collect();
        let metas: Vec<(JobId, Arc<JobMeta>)> =
            prepared.iter().map(|job| (job.id.clone(), Arc::new(job.meta.clone()))).collect();
        // The engine may place them at once, and a start command needs to know what to run.
        for (id, meta) in &metas {
            self.jobs.insert(id.clone(), meta.clone());
        }
        if let Err(refused) = self.hand_over(prepared) {
            for (id, _) in &metas {
                self.jobs.remove(id);
            }
            return Err(refused_answer(refused));
        }
        for (id, meta) in &metas {
            self.put(Table::Jobs, id.as_str(), &**meta);
        }
        self.next_job = first + accepted.len() as u64;
        let next = self.next_job;
        self.put(Table::Meta, NEXT_JOB, &next);
        Ok(accepted)
    }

    /// Gives prepared jobs to the engine, all or none.
    fn hand_over(&mut self, mut prepared: Vec<Prepared>) -> Result<(), Refused> {
        let arrays = prepared.iter().filter(|job| job.meta.array.is_some()).count();
        let answer = if arrays == 0 {
            let jobs = prepared.into_iter().map(|job| job.submission).collect();
            self.step(Input::Submit(jobs))
        } else if prepared.len() == 1 {
            let Some(array) = prepared.pop() else { return Ok(()) };
            self.submit_array(array)
        } else {
            let message = "an array cannot be part of a DAG that is submitted at once";
            return Err(Refused::new(
                "array_in_dag",
                message,
                "submit the array alone and let other jobs depend on its id",
            ));
        };
        match answer {
            Answer::Refused(refused) => Err(refused),
            _ => Ok(()),
        }
    }

    /// What a submission would be for the engine, without handing it over.
    pub(super) fn prepare(
        &mut self,
        caller: &Caller,
        request: JobRequest,
        id: JobId,
        keys: &BTreeMap<String, JobId>,
        path: &str,
    ) -> Result<Prepared, Failure> {
        let request = self.with_workload(request, path)?;
        if request.placement.is_some() {
            let message = "no pool of this server negotiates";
            return Err(Failure::refused(
                422,
                ApiError::new("placement_unsupported", message)
                    .hint("leave `placement` out; `plan` shows where the job would go")
                    .field(format!("{path}placement")),
            ));
        }
        check_run(&request, path)?;
        let pool = self.pool_of(&request, path)?;
        let tenant = tenant_of(caller, &request, path)?;
        let now = self.now;
        let mut job = job_of(&request, &id, now, path)?;
        let spec = Arc::make_mut(&mut job.spec);
        spec.pool = Some(pool.clone());
        spec.tenant =
            tenant.map(|name| landfall_model::TenantId::new(&name)).transpose().map_err(|error| {
                invalid(&format!("{path}needs.tenant"), error.to_string(), "choose another name")
            })?;
        let mut submission = Submission::new(job);
        submission.pool = Some(pool);
        submission.join = request.join;
        submission.user_hold = request.hold;
        submission.not_before =
            request.not_before_ms.map(|ms| Time::from_millis(i64::try_from(ms).unwrap_or(i64::MAX)));
        submission.edges = self.edges(caller, &request.depends_on, keys, path)?;
        let meta = JobMeta {
            name: request.name,
            submitter: Some(caller.name.clone()).filter(|name| !name.is_empty()),
            run: Arc::new(request.run),
            array: request.array,
        };
        Ok(Prepared { id, submission, meta })
    }

    fn with_workload(&mut self, mut request: JobRequest, path: &str) -> Result<JobRequest, Failure> {
        let Some(name) = request.workload.clone() else { return Ok(request) };
        let known = self.store.get(Table::Workloads, &name).map_err(|e| Failure::Storage(e.to_string()))?;
        let Some(template) = known.and_then(|bytes| serde_json::from_slice::<JobRequest>(&bytes).ok()) else {
            let message = format!("there is no workload `{name}`");
            return Err(Failure::refused(
                422,
                ApiError::new("unknown_workload", message)
                    .hint("`landfall workloads` lists all")
                    .field(format!("{path}workload")),
            ));
        };
        let mut needs = template.needs;
        needs.extend(std::mem::take(&mut request.needs));
        needs.entry("workload").or_insert(Value::String(name));
        request.needs = needs;
        request.name = request.name.or(template.name);
        request.run = merged(template.run, request.run);
        Ok(request)
    }

    fn pool_of(&self, request: &JobRequest, path: &str) -> Result<PoolId, Failure> {
        let pools = &self.engine.state().pools;
        let field = format!("{path}needs.pool");
        let named = match request.needs.get("pool") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name.as_str()),
            Some(_) => return Err(invalid(&field, "a pool is named by a string", "give its id")),
        };
        let chosen = match named {
            Some(name) => pools.get_key_value(name).map(|(id, _)| id),
            None if pools.len() == 1 => pools.keys().next(),
            None => pools.get_key_value(DEFAULT_POOL).map(|(id, _)| id),
        };
        match (chosen, named) {
            (Some(pool), _) if pools[pool].pool.dispatch == Dispatch::Negotiate => {
                let message = format!("pool `{pool}` negotiates between peers, which this server does not");
                Err(Failure::refused(422, ApiError::new("placement_unsupported", message).field(field)))
            }
            (Some(pool), _) => Ok(pool.clone()),
            (None, Some(name)) => {
                let known: Vec<&str> = pools.keys().map(PoolId::as_str).collect();
                let hint = match closest(name, known.iter().copied()) {
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
        wanted: &[DependsOn],
        keys: &BTreeMap<String, JobId>,
        path: &str,
    ) -> Result<Vec<Edge>, Failure> {
        let mut edges = Vec::with_capacity(wanted.len());
        for (place, wish) in wanted.iter().enumerate() {
            let field = format!("{path}depends_on[{place}].on");
            if let Some(job) = keys.get(&wish.on) {
                edges.push(Edge { on: job.clone(), kind: wish.kind });
                continue;
            }
            let own = |tenant: Option<&str>| caller.tenant.is_none() || tenant == caller.tenant.as_deref();
            let known = self.view().resolve(&wish.on);
            let tenant = known.as_ref().and_then(|job| self.tenant_of_job(job));
            if let Some(job) = known.filter(|_| own(tenant.as_deref())) {
                edges.push(Edge { on: job, kind: wish.kind });
                continue;
            }
            // The engine has forgotten it; the archive knows how it ended.
            // To whoever acts for one tenant, jobs of others are unknown.
            let ended = self.view().archived(&wish.on).filter(|view| own(view.tenant.as_deref()));
            let state = ended.map(|view| view.state);
            let holds = match (state.as_deref(), wish.kind) {
                (None, _) => {
                    let message = format!("there is no job `{}`", wish.on);
                    let error = ApiError::new("unknown_job", message)
                        .hint("give the id of a job, or the key of another job of this DAG")
                        .field(field);
                    return Err(Failure::refused(422, error));
                }
                (Some("completed"), EdgeKind::Success) | (Some("failed"), EdgeKind::Failure) => true,
                (Some(_), EdgeKind::Any | EdgeKind::Mutex) => true,
                (Some(_), _) => false,
            };
            if !holds {
                let state = state.unwrap_or_default();
                let message = format!("job `{}` ended as {state}, so this can never start", wish.on);
                let error = ApiError::new("dependency_unsatisfiable", message)
                    .hint("leave the dependency out, or submit that job again")
                    .field(field);
                return Err(Failure::refused(422, error));
            }
        }
        Ok(edges)
    }
}

impl Core {
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

/// An idempotency key and what it gave before.
struct Repeatable {
    key: String,
    request: String,
    before: Option<Vec<Submitted>>,
}

impl Core {
    fn repeatable(&mut self, caller: &Caller, key: &str, jobs: &[JobRequest]) -> Result<Repeatable, Failure> {
        if key.is_empty() || key.len() > KEY_MAX || key.chars().any(char::is_control) {
            let message = format!("an idempotency key has 1 to {KEY_MAX} printable characters");
            return Err(invalid("idempotency-key", message, "send a random one per submission"));
        }
        let text = serde_json::to_vec(jobs).map_err(|error| invalid("", error.to_string(), ""))?;
        let request: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        let key = format!("{} {key}", caller.token);
        let Remembered(answers) = &self.remembered;
        let before = match answers.get(&key) {
            Some(known) => Some(known.clone()),
            None => {
                let kept = self.store.get(Table::Idempotency, &key);
                let kept = kept.map_err(|error| Failure::Storage(error.to_string()))?;
                let kept = kept.and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
                kept.map(|kept| (kept.request, kept.jobs))
            }
        };
        match before {
            Some((known, _)) if known != request => Err(Failure::refused(
                422,
                ApiError::new("idempotency_mismatch", "this idempotency key was used for another submission")
                    .hint("use a new key for a new submission")
                    .field("idempotency-key"),
            )),
            before => Ok(Repeatable { key, request, before: before.map(|(_, jobs)| jobs) }),
        }
    }
}

fn id(number: u64) -> Result<JobId, Failure> {
    JobId::new(&number.to_string()).map_err(|error| invalid("id", error.to_string(), ""))
}

/// An answer with status 422 that names a field.
pub(super) fn invalid(field: &str, message: impl Into<String>, hint: &str) -> Failure {
    let mut error = ApiError::new("invalid", message);
    if !field.is_empty() {
        error = error.field(field);
    }
    if !hint.is_empty() {
        error = error.hint(hint);
    }
    Failure::refused(422, error)
}

/// How a refusal of the engine is answered.
pub(super) fn refused_answer(refused: Refused) -> Failure {
    let status = if refused.code.starts_with("unknown_") { 404 } else { 422 };
    let hint = refused.hint.clone();
    let mut error = ApiError::new(refused.code.clone(), refused.message);
    if !hint.is_empty() {
        error = error.hint(hint);
    }
    Failure::refused(status, error)
}

fn tenant_of(caller: &Caller, request: &JobRequest, path: &str) -> Result<Option<String>, Failure> {
    let named = match request.needs.get("tenant") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name.clone()),
        Some(_) => {
            return Err(invalid(
                &format!("{path}needs.tenant"),
                "a tenant is named by a string",
                "give its id",
            ));
        }
    };
    match (&caller.tenant, named) {
        (Some(own), Some(named)) if *own != named => {
            let message = format!("this token submits for tenant `{own}`, not `{named}`");
            let error = ApiError::new("other_tenant", message)
                .hint("leave the tenant out, or use a token of that tenant")
                .field(format!("{path}needs.tenant"));
            Err(Failure::refused(403, error))
        }
        (Some(own), _) => Ok(Some(own.clone())),
        (None, named) => Ok(named),
    }
}

fn check_run(request: &JobRequest, path: &str) -> Result<(), Failure> {
    let run = &request.run;
    let runtime = runtime_of(request);
    let missing = |field: &str, message: &str| {
        Err(invalid(&format!("{path}run.{field}"), message, "say what the job runs"))
    };
    match runtime.as_str() {
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
            "no job runs in no time",
            "leave it out for no limit",
        ));
    }
    let arguments = run.command.iter().map(String::len).sum::<usize>();
    let variables = run.env.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    let mounts = run.mounts.iter().map(|mount| mount.source.len() + mount.target.len()).sum::<usize>();
    let texts = [&run.cwd, &run.image, &run.module, &run.model, &run.stdin, &run.checkpoint_signal];
    let others = texts.into_iter().flatten().map(String::len).sum::<usize>() + run.retry_on.len() * 4;
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

/// What runs a job: as it says, or what its run needs.
fn runtime_of(request: &JobRequest) -> String {
    match request.needs.get("runtime") {
        Some(Value::String(name)) => name.clone(),
        _ if request.run.image.is_some() => "container".to_owned(),
        _ if request.run.module.is_some() => "wasm".to_owned(),
        _ if request.run.model.is_some() => "llmcpp".to_owned(),
        _ => "process".to_owned(),
    }
}

/// The job that the needs describe, checked as in a scenario.
fn job_of(request: &JobRequest, id: &JobId, now: Time, path: &str) -> Result<Job, Failure> {
    const SET_BY_THE_SERVER: [&str; 9] = [
        "id",
        "count",
        "submitted_at_ms",
        "queued_at_ms",
        "ready_at_ms",
        "waits_for",
        "retry_at_ms",
        "rescore_count",
        "round",
    ];
    let mut needs: Map<String, Value> = request.needs.clone();
    if let Some(field) = SET_BY_THE_SERVER.iter().find(|field| needs.contains_key(**field)) {
        let message = format!("`{field}` is set by the server");
        return Err(invalid(&format!("{path}needs.{field}"), message, "leave it out"));
    }
    needs.retain(|_, value| !value.is_null());
    needs.insert("id".into(), Value::String(id.to_string()));
    needs.insert("runtime".into(), Value::String(runtime_of(request)));
    let bad = |error: ScenarioError| {
        let field = error.field.strip_prefix("needs.").unwrap_or(&error.field);
        let field = if field.is_empty() { format!("{path}needs") } else { format!("{path}needs.{field}") };
        let mut api = ApiError::new("invalid_needs", error.message).field(field);
        api.hint = error.hint;
        Failure::refused(422, api)
    };
    let row: JobRow = landfall_model::scenario::decode(
        &Value::Object(needs).to_string(),
        landfall_model::scenario::Format::Json,
    )
    .map_err(bad)?;
    Rows::default().job(row, now, "needs").map_err(bad)
}

/// The template's run with what the job says instead.
fn merged(template: RunSpec, job: RunSpec) -> RunSpec {
    let mut env = template.env;
    env.extend(job.env);
    RunSpec {
        command: if job.command.is_empty() { template.command } else { job.command },
        env,
        cwd: job.cwd.or(template.cwd),
        image: job.image.or(template.image),
        module: job.module.or(template.module),
        model: job.model.or(template.model),
        mounts: if job.mounts.is_empty() { template.mounts } else { job.mounts },
        stdin: job.stdin.or(template.stdin),
        timeout_ms: job.timeout_ms.or(template.timeout_ms),
        retry_on: if job.retry_on.is_empty() { template.retry_on } else { job.retry_on },
        checkpoint_signal: job.checkpoint_signal.or(template.checkpoint_signal),
    }
}
