//! What a job asks of peers: the announcement that is made of a submission to a pool that negotiates.

use std::collections::BTreeMap;

use landfall_api::ApiError;
use landfall_api::job::{JobRequest, PlacementRequest, RunSpec};
use landfall_engine::Input;
use landfall_model::{Digest, Hints, JobId, JobSpec, Mib, MilliCpu, Name, Needs, NodeId, PoolId, Scope};
use landfall_negotiate::{Blob, GpuNeed, Preset, Profile, Protocol, Submission};

use super::core::{Core, View};
use super::handle::Failure;
use super::intake::{self, Prepared};
use super::submit::{invalid, refused_status};

/// How near a peer is, from near to far.
const SCOPES: &str = "local, cell, org, federation, commons";

impl Core {
    /// What the engine is given: jobs that it places, or one that peers place.
    pub(super) fn input_of(&mut self, mut prepared: Vec<Prepared>) -> Result<Input, Failure> {
        let view = self.view();
        if !prepared.iter().any(|job| view.asks_peers(job)) {
            return Ok(intake::input(prepared));
        }
        if prepared.len() > 1 {
            return Err(alone("jobs", "jobs that peers place are submitted one by one"));
        }
        let Some(job) = prepared.pop() else { return Ok(Input::Tick) };
        plain(&job)?;
        let Some(submitter) = self.peers.as_ref().map(|peers| peers.id.clone()) else {
            return Err(alone("needs.pool", "this server is no peer"));
        };
        let announced = &self.engine.state().announced;
        let asked = asked(&job, announced, submitter, getrandom::u64().unwrap_or_default())?;
        Ok(Input::Negotiate { submission: Box::new(job.submission), asked: Box::new(asked) })
    }
}

impl View<'_> {
    /// Whether peers would be asked about a job.
    pub fn asks_peers(&self, job: &Prepared) -> bool {
        self.negotiates(job.submission.pool.as_ref()) && !stays_here(job.placement.as_ref())
    }

    /// What peers are asked about a job that is not to be awarded, and what that question is called.
    pub fn dry_run(&self, job: &Prepared) -> Result<(PoolId, Digest, Submission), Failure> {
        plain(job)?;
        let state = self.engine.state();
        let Some((pool, peer)) = state.peers.iter().next() else {
            return Err(alone("needs.pool", "this server is no peer"));
        };
        let nonce = getrandom::u64().unwrap_or_default();
        let mut asked = asked(job, &state.announced, peer.id().clone(), nonce)?;
        // Where the first offer would win, all are wanted to be seen.
        (asked.dry_run, asked.protocol) = (true, Protocol::Always);
        asked.want_declines = Some(true);
        let digest = peer.check(self.now, &asked).map_err(|refusal| {
            let error = ApiError::new(refusal.reason.as_str(), refusal.to_string());
            let status = refused_status(refusal.reason.as_str());
            Failure::refused(status, error.hint("change the field, or use another pool"))
        })?;
        Ok((pool.clone(), digest, asked))
    }
}

/// Refuses what peers cannot be asked about.
fn plain(job: &Prepared) -> Result<(), Failure> {
    let submission = &job.submission;
    let waits = [
        ("array", job.meta.array.is_some(), "peers place each job by itself; arrays cannot be negotiated"),
        ("depends_on", !submission.edges.is_empty(), "peers know nothing of other jobs"),
        ("not_before_ms", submission.not_before.is_some(), "peers are asked at once"),
        ("hold", submission.user_hold, "peers are asked at once"),
    ];
    match waits.into_iter().find(|(_, given, _)| *given) {
        Some((field, _, message)) => Err(alone(field, message)),
        None => Ok(()),
    }
}

fn alone(field: &str, message: &str) -> Failure {
    let error = ApiError::new("negotiate_unsupported", message).field(field);
    Failure::refused(422, error.hint("leave it out, use another pool, or say --placement local"))
}

/// A job that may run nowhere else is not announced to anybody.
pub(super) fn stays_here(placement: Option<&PlacementRequest>) -> bool {
    placement.and_then(|placement| placement.max_scope.as_deref()) == Some("local")
}

fn bad(field: &str, message: String, hint: &str) -> Failure {
    let error = ApiError::new("invalid", message).field(format!("placement.{field}"));
    Failure::refused(400, error.hint(hint))
}

fn word<T: serde::de::DeserializeOwned>(field: &str, text: &str, known: &str) -> Result<T, Failure> {
    serde_json::from_value(serde_json::Value::from(text))
        .map_err(|_| bad(field, format!("`{text}` is none of {known}"), "use one of them"))
}

fn scope(field: &str, text: &str) -> Result<Scope, Failure> {
    word(field, text, SCOPES)
}

/// What a job asks of peers.
fn asked(
    job: &Prepared,
    announced: &BTreeMap<JobId, Digest>,
    submitter: NodeId,
    nonce: u64,
) -> Result<Submission, Failure> {
    let spec = &job.submission.job.spec;
    let wishes = job.placement.clone().unwrap_or_default();
    let mut hints: Hints = serde_json::from_value(serde_json::Value::Object(wishes.hints))
        .map_err(|error| bad("hints", error.to_string(), "see docs/guides/peers.md"))?;
    for other in &mut hints.colocate_with {
        *other = as_announced(other, announced)?;
    }
    let far = |field, text: &Option<String>| text.as_deref().map(|text| scope(field, text)).transpose();
    let (max_scope, start_scope) =
        (far("max_scope", &wishes.max_scope)?, far("start_scope", &wishes.start_scope)?);
    let allowed = wishes.allowed_scopes.iter().map(|text| scope("allowed_scopes", text));
    let allowed_scopes = allowed.collect::<Result<_, _>>()?;
    let preset: Option<Preset> =
        wishes.preset.as_deref().map(|text| word("preset", text, "standard, locality, scope")).transpose()?;
    let protocol = wishes.negotiate.as_deref().map(|text| word("negotiate", text, "auto, always, never"));
    let cell = wishes.cell.as_deref().map(Name::new).transpose();
    let profile = profile_of(spec);
    Ok(Submission {
        nodes: spec.nodes.max,
        runtimes: vec![spec.runtime.clone()],
        hints,
        cell: cell.map_err(|error| bad("cell", error.to_string(), "choose another name"))?,
        max_cost: wishes.max_cost,
        class: spec.class,
        deliberation_ms: wishes.deliberation_ms,
        lease_ms: wishes.lease_ms,
        max_scope: max_scope.unwrap_or(Scope::Commons),
        start_scope,
        allowed_scopes,
        preset,
        protocol: protocol.transpose()?.unwrap_or(Protocol::Auto),
        body: Blob::new(body_of(job, spec, profile.as_ref())?),
        profile,
        ..Submission::new(submitter, nonce)
    })
}

/// What peers call a job: they know no numbers of this server. One of another server is named by its digest.
fn as_announced(job: &JobId, announced: &BTreeMap<JobId, Digest>) -> Result<JobId, Failure> {
    let text = job.as_str();
    let is_digest = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let known = announced.get(job).and_then(|digest| JobId::new(&digest.to_string()).ok());
    known.or_else(|| is_digest.then(|| job.clone())).ok_or_else(|| {
        bad(
            "hints.colocate_with",
            format!("job `{job}` was not announced to peers, so none of them can know where it runs"),
            "name a job that peers placed, or the digest that `landfall explain --json` shows of one",
        )
    })
}

/// What the job says it needs; nothing means that any node will do.
fn profile_of(spec: &JobSpec) -> Option<Profile> {
    let some = |amount: u64| Some(amount).filter(|amount| *amount > 0);
    let gpu = (spec.gpu_count > 0).then(|| GpuNeed {
        count: spec.gpu_count,
        memory_mib: some(spec.vram_mib.get()),
        capability: spec.gpu_capability.clone(),
    });
    let profile = Profile {
        cpu_milli: some(spec.cpu_milli.get()),
        memory_mib: some(spec.ram_mib.get()),
        storage_mib: some(spec.storage_mib.get()),
        network_mbit_s: Some(spec.network_mbit_s).filter(|mbit_s| *mbit_s > 0),
        gpu,
        duration_ms: None,
    };
    // How long it may take is told, but is nothing that a node could be short of.
    let expected = spec.expected_duration_ms;
    let duration_ms = (expected != JobSpec::empty().expected_duration_ms).then(|| expected.get());
    (profile != Profile::default()).then_some(Profile { duration_ms, ..profile })
}

/// The job as its winner gets it. Who submitted it, and where, is nobody's business but that of this server.
fn body_of(job: &Prepared, spec: &JobSpec, profile: Option<&Profile>) -> Result<Vec<u8>, Failure> {
    let mut needs = Needs::of(spec);
    (needs.pool, needs.tenant, needs.workload, needs.user) = (None, None, None, None);
    if profile.is_none() {
        // What an offer without a profile is judged by is what the winner gives.
        let minimal = Profile::minimal();
        needs.cpu_milli = minimal.cpu_milli.map(MilliCpu::new);
        needs.ram_mib = minimal.memory_mib.map(Mib::new);
    }
    let request = JobRequest {
        name: job.meta.name.clone(),
        needs,
        run: RunSpec { submitted_from: None, ..(*job.meta.run).clone() },
        ..JobRequest::default()
    };
    serde_json::to_vec(&request).map_err(|error| invalid("run", error.to_string(), ""))
}
