//! What a job asks of peers: the announcement that is made of a submission to a pool that negotiates.

use landfall_api::ApiError;
use landfall_api::job::{JobRequest, PlacementRequest, RunSpec};
use landfall_engine::Input;
use landfall_model::{Digest, Hints, JobSpec, Mib, MilliCpu, Needs, NodeId, PoolId, Scope};
use landfall_negotiate::{Blob, GpuNeed, Preset, Profile, Protocol, Submission};

use super::core::{Core, View};
use super::handle::Failure;
use super::intake::{self, Prepared};
use super::submit::invalid;

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
        let asked = asked(&job, submitter, getrandom::u64().unwrap_or_default())?;
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
        let mut peers = self.engine.state().peers.iter();
        let Some((pool, peer)) = peers.next() else {
            return Err(alone("needs.pool", "this server is no peer"));
        };
        let mut asked = asked(job, peer.id().clone(), getrandom::u64().unwrap_or_default())?;
        // Where the first offer would win, all are wanted to be seen.
        (asked.dry_run, asked.protocol) = (true, Protocol::Always);
        asked.want_declines = Some(true);
        let digest = peer.check(self.now, &asked).map_err(|refusal| {
            let error = ApiError::new(refusal.reason.as_str(), refusal.to_string());
            Failure::refused(422, error.hint("change the field, or use another pool"))
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
fn stays_here(placement: Option<&PlacementRequest>) -> bool {
    placement.and_then(|placement| placement.max_scope.as_deref()) == Some("local")
}

fn word<T: serde::de::DeserializeOwned>(field: &str, text: &str, known: &str) -> Result<T, Failure> {
    serde_json::from_value(serde_json::Value::from(text)).map_err(|_| {
        let message = format!("`{text}` is none of {known}");
        Failure::refused(
            400,
            ApiError::new("invalid", message).field(format!("placement.{field}")).hint("use one of them"),
        )
    })
}

/// What a job asks of peers.
pub(super) fn asked(job: &Prepared, submitter: NodeId, nonce: u64) -> Result<Submission, Failure> {
    let spec = &job.submission.job.spec;
    let wishes = job.placement.clone().unwrap_or_default();
    let hints: Hints = serde_json::from_value(serde_json::Value::Object(wishes.hints))
        .map_err(|error| invalid("placement.hints", error.to_string(), "see docs/guides/peers.md"))?;
    let max_scope = match wishes.max_scope.as_deref() {
        Some(text) => word("max_scope", text, "local, cell, org, federation, commons")?,
        None => Scope::Commons,
    };
    let preset: Option<Preset> =
        wishes.preset.as_deref().map(|text| word("preset", text, "standard, locality, scope")).transpose()?;
    let profile = profile_of(spec);
    Ok(Submission {
        nodes: spec.nodes.max,
        runtimes: vec![spec.runtime.clone()],
        hints,
        max_cost: wishes.max_cost,
        deliberation_ms: wishes.deliberation_ms,
        lease_ms: wishes.lease_ms,
        max_scope,
        preset,
        protocol: Protocol::Auto,
        body: Blob::new(body_of(job, spec, profile.as_ref())?),
        profile,
        ..Submission::new(submitter, nonce)
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
        gpu,
        ..Profile::default()
    };
    (profile != Profile::default()).then_some(profile)
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
