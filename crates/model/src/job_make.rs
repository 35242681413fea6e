//! The one way from what is said about a job to the job: scenario files, traces, submissions and plans all take it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::scenario::closest;
use crate::{
    Digest, Job, JobError, JobId, JobKind, JobSpec, Mib, MigProfile, MilliGpu, Name, Needs, Provider,
    ProviderKind, Time, image_name, slices,
};

/// Different specs that are kept for sharing; past this many, sharing costs more than it saves.
const SPECS_MAX: usize = 4_000_000;

/// What is said of one job and not of its kind. All of it may be left out.
#[derive(Debug, Clone, Default)]
pub struct JobFacts {
    pub submitted_at_ms: Option<Time>,
    pub queued_at_ms: Option<Time>,
    pub ready_at_ms: Option<Time>,
    pub waits_for: Option<Name>,
    pub retry_at_ms: Option<Time>,
    pub rescore_count: Option<u32>,
    pub round: Option<u32>,
    pub digest: Option<Digest>,
}

impl Needs {
    /// Whether nothing is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What jobs with these needs have in common, checked.
    ///
    /// # Errors
    /// If they contradict each other.
    pub fn spec(self) -> Result<JobSpec, JobError> {
        let slice = self.sliced()?;
        let unsaid = JobSpec::unsaid(self.sensitive == Some(true), self.vram_mib.unwrap_or_default());
        let mut spec = self.onto(&unsaid);
        if let Some((milli, memory)) = slice {
            (spec.gpu_count, spec.gpu_milli) = (1, milli);
            spec.vram_mib = spec.vram_mib.max(memory);
        }
        spec.may_preempt |= spec.sensitive;
        if let Some(said) = &spec.image {
            spec.image = Some(image_name(said.as_str()).ok_or_else(|| {
                let message = format!("`{said}` is no name of an image");
                JobError::new("image", "bad_image", message)
                    .hint("such as alpine:3.20 or quay.io/team/tool:1")
            })?);
        }
        spec.validate()?;
        Ok(spec)
    }

    /// Compute and memory of the slice that is asked for, if one is.
    fn sliced(&self) -> Result<Option<(MilliGpu, Mib)>, JobError> {
        let Some(said) = &self.gpu_slice else { return Ok(None) };
        let wrong =
            |message: String, hint: &str| Err(JobError::new("gpu_slice", "bad_slice", message).hint(hint));
        let profile = MigProfile::parse(said.as_str());
        let Some(profile) = profile.filter(|it| slices::memory_slices(it.compute).is_some()) else {
            return wrong(
                format!("`{said}` is no slice of a GPU"),
                "there are 1g, 2g, 3g, 4g and 7g, with their memory if you like: 1g.10gb",
            );
        };
        let milli = MilliGpu::new(u64::from(profile.compute) * 1000 / u64::from(slices::COMPUTE_SLICES));
        if self.gpu_count.is_some_and(|count| count != 1) || self.gpu_milli.is_some_and(|said| said != milli)
        {
            return wrong(
                "a job gets one slice of a GPU".to_owned(),
                "leave gpu_count and gpu_milli out; several slices are several jobs, or a larger slice",
            );
        }
        Ok(Some((milli, profile.memory().unwrap_or_default())))
    }

    /// The fewest needs from which the same spec is made.
    pub fn of(spec: &JobSpec) -> Self {
        Self::between(spec, &JobSpec::unsaid(spec.sensitive, spec.vram_mib))
    }
}

/// Makes jobs; those that need the same share it.
#[derive(Debug)]
pub struct JobMaker {
    specs: BTreeSet<Arc<JobSpec>>,
    providers: Vec<Provider>,
}

impl Default for JobMaker {
    fn default() -> Self {
        Self::new(Provider::defaults())
    }
}

impl JobMaker {
    /// Makes jobs where these providers lease capacity.
    pub fn new(providers: Vec<Provider>) -> Self {
        Self { specs: BTreeSet::new(), providers }
    }

    /// The job that is described; times that are not given are `now`.
    ///
    /// # Errors
    /// If what is said makes no sense.
    pub fn make(&mut self, id: JobId, facts: JobFacts, needs: Needs, now: Time) -> Result<Job, JobError> {
        let spec = needs.spec()?;
        self.pinned_provider(&spec)?;
        let spec = self.shared(spec);
        let submitted = facts.submitted_at_ms.unwrap_or(now);
        // An eval is ready when it is queued, so either instant tells both.
        let is_eval = spec.kind == JobKind::Eval;
        let queued = facts.queued_at_ms.or(facts.ready_at_ms.filter(|_| is_eval)).unwrap_or(submitted);
        if is_eval && facts.ready_at_ms.is_some_and(|ready| ready != queued) {
            return Err(JobError::new("ready_at_ms", "contradiction", "an eval is ready when it is queued")
                .hint("give one of queued_at_ms and ready_at_ms"));
        }
        Ok(Job {
            id,
            spec,
            submitted_at: submitted,
            queued_at: queued,
            ready_at: facts.ready_at_ms.unwrap_or(queued),
            waits_for: facts.waits_for,
            retry_at: facts.retry_at_ms,
            rescore_count: facts.rescore_count.unwrap_or(0),
            round: facts.round.unwrap_or(1),
            digest: facts.digest.map(Box::new),
            checkpoint_took: None,
        })
    }

    fn shared(&mut self, spec: JobSpec) -> Arc<JobSpec> {
        if let Some(shared) = self.specs.get(&spec) {
            return shared.clone();
        }
        if self.specs.len() > SPECS_MAX {
            self.specs.clear();
        }
        let shared = Arc::new(spec);
        self.specs.insert(shared.clone());
        shared
    }

    /// A pinned provider must exist and be able to deliver the GPUs asked for.
    fn pinned_provider(&self, spec: &JobSpec) -> Result<(), JobError> {
        let Some(name) = &spec.provider else { return Ok(()) };
        let Some(provider) = self.providers.iter().find(|provider| provider.name == *name) else {
            let known = self.providers.iter().map(|provider| provider.name.as_str());
            let near = closest(name.as_str(), known).map(|near| format!("did you mean `{near}`?"));
            let error =
                JobError::new("provider", "unknown_provider", format!("there is no provider `{name}`"));
            return Err(JobError { hint: near, ..error });
        };
        if provider.class == ProviderKind::Exact && spec.gpu_count > provider.shape.gpus {
            let message =
                format!("`{name}` delivers at most {} GPUs, {} asked", provider.shape.gpus, spec.gpu_count);
            return Err(JobError::new("provider", "provider_too_small", message)
                .hint("leave the provider out, or submit the job as a gang"));
        }
        Ok(())
    }
}
