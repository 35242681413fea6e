//! Jobs: one piece of work each, and what it needs.
//!
//! Everything that identical jobs share stands in a [`JobSpec`] behind an `Arc`, so that an array of a million jobs has
//! one; a [`Job`] adds only what differs. Two jobs are of one *class* when their specs are equal.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Bytes, Digest, JobId, JobSpec, Mib, MigProfile, MilliGpu, Millis, Name, NodeId, Time};

/// Longest pause before a job that failed runs again.
pub const RETRY_DELAY_MAX: Millis = Millis::secs(600);

/// What a pull worker is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Does work.
    #[default]
    Build,
    /// Reads a description and creates further jobs.
    Eval,
}

/// Whether an `llmcpp` model may spill into RAM or run without a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offload {
    /// It may not.
    #[default]
    Never,
    /// It may.
    Allow,
}

/// How a job saves its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpoint {
    /// It cannot.
    #[default]
    None,
    /// On its own.
    Auto,
    /// When asked.
    Manual,
}

/// How long a job lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Until its walltime.
    #[default]
    Bounded,
    /// Until it is stopped.
    Unbounded,
    /// Until it is stopped, growing and shrinking with demand.
    Reactive,
}

/// Which closeness matters inside a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalityBias {
    /// Links between GPUs.
    Gpu,
    /// Both alike.
    #[default]
    Even,
    /// Memory domains.
    Cpu,
}

/// How near a peer is, from near to far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The same site.
    Local,
    Cell,
    /// The same organisation.
    Org,
    /// The same federation.
    Federation,
    /// Anybody.
    #[default]
    Commons,
}

/// Whether an input is near where it will be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warmth {
    /// On fast storage of the pool.
    Hot,
    /// Anywhere else.
    #[default]
    Cold,
}

/// What becomes of a job whose node has lost the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// It goes on; the server may start a second copy elsewhere.
    #[default]
    Keep,
    /// Its node stops it after a while.
    Stop,
}

/// When a job that was stopped goes back to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requeue {
    /// Never; for sessions.
    Never,
    /// After the loss of a node, a preemption or a reclaim.
    #[default]
    OnLoss,
    /// Also after an exit other than 0.
    Always,
}

/// One input of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub digest: Name,
    /// Its size, if known.
    #[serde(default)]
    pub bytes: Option<Bytes>,
    #[serde(default)]
    pub tier: Warmth,
}

/// How many nodes a job takes, all or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "NodeCountForm")]
pub struct NodeCount {
    /// The fewest it can run on.
    pub min: u32,
    /// The most it can use.
    pub max: u32,
}

impl Default for NodeCount {
    fn default() -> Self {
        Self { min: 1, max: 1 }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NodeCountForm {
    Exactly(u32),
    Range(NodeRange),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeRange {
    min: u32,
    max: u32,
}

impl From<NodeCountForm> for NodeCount {
    fn from(form: NodeCountForm) -> Self {
        match form {
            NodeCountForm::Exactly(n) => Self { min: n, max: n },
            NodeCountForm::Range(NodeRange { min, max }) => Self { min, max },
        }
    }
}

/// A feature a node must have, at least so many times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "FeatureForm")]
pub struct FeatureNeed {
    pub name: Name,
    /// How many, 1 if not said.
    pub count: u32,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FeatureForm {
    Plain(Name),
    Counted(CountedFeature),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CountedFeature {
    name: Name,
    count: u32,
}

impl From<FeatureForm> for FeatureNeed {
    fn from(form: FeatureForm) -> Self {
        match form {
            FeatureForm::Plain(name) => Self { name, count: 1 },
            FeatureForm::Counted(CountedFeature { name, count }) => Self { name, count },
        }
    }
}

/// Wishes of a negotiated job. Avoiding beats preferring.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hints {
    pub prefer_peers: Vec<NodeId>,
    pub prefer_regions: Vec<Name>,
    /// Peers that must not run it.
    pub avoid_peers: Vec<NodeId>,
    /// Jobs to run beside.
    pub colocate_with: Vec<JobId>,
    /// Data to run near.
    pub data: Vec<Name>,
}

impl Hints {
    /// Whether they name nodes or jobs that run there.
    pub fn name_somebody(&self) -> bool {
        !(self.prefer_peers.is_empty() && self.avoid_peers.is_empty() && self.colocate_with.is_empty())
    }
}

/// Why a job cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JobError {
    /// The field at fault.
    pub field: &'static str,
    /// A stable name for programs.
    pub code: &'static str,
    /// What is wrong, for people.
    pub message: String,
    /// What to do about it, where that is not plain.
    pub hint: Option<String>,
}

impl JobError {
    pub(crate) fn new(field: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        Self { field, code, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.hint = Some(hint.to_owned());
        self
    }
}

/// Runtimes whose speed depends on a model size.
const MODEL_RUNTIMES: [&str; 3] = ["llmcpp", "coreml", "onnx"];

/// A node speaks with the server every few seconds; a shorter silence means nothing.
pub(crate) const DISCONNECT_STOP_AFTER: std::ops::RangeInclusive<u64> = 5_000..=86_400_000;

impl JobSpec {
    /// Whether it must not run a second time when it may have run once.
    pub fn runs_once(&self) -> bool {
        self.requeue == Requeue::Never || self.max_requeue == 0
    }

    /// Whether a GPU is asked for.
    pub fn is_gpu_job(&self) -> bool {
        self.gpu_count >= 1
    }

    /// The slice of a partitioned device that it asks for, if it does.
    pub fn slice(&self) -> Option<MigProfile> {
        MigProfile::parse(self.gpu_slice.as_ref()?.as_str())
    }

    /// Whether it asks for part of a device only.
    pub fn shares_a_gpu(&self) -> bool {
        self.gpu_count == 1 && self.gpu_milli < MilliGpu::WHOLE
    }

    /// Compute asked of all its GPUs on one node, in milli-GPU.
    pub fn gpu_milli_total(&self) -> u64 {
        self.gpu_milli.get() * u64::from(self.gpu_count)
    }

    /// The model size in MiB: declared, or `share` of the memory asked.
    pub fn model_mib_f64(&self, share: f64) -> f64 {
        if let Some(model) = self.model_mib.filter(|model| !model.is_zero()) {
            return model.as_f64();
        }
        let vram = share * self.vram_mib.as_f64() * f64::from(self.gpu_count);
        if vram > 0.0 { vram } else { share * self.ram_mib.as_f64() }
    }

    /// Whether the runtime is the given one.
    pub fn runs_with(&self, runtime: &str) -> bool {
        self.runtime.as_str() == runtime
    }

    /// Whether it is a fetch or copy that runs on any node.
    pub fn is_builtin(&self) -> bool {
        self.architecture.as_str() == "builtin"
    }

    /// Total size of the inputs whose size is known; `None` if none is. Declaring no inputs is a known size of 0.
    pub fn inputs_total_bytes(&self) -> Option<Bytes> {
        let inputs = self.inputs.as_ref()?;
        if inputs.is_empty() {
            return Some(Bytes::ZERO);
        }
        inputs.iter().filter_map(|input| input.bytes).reduce(|a, b| a + b)
    }

    /// Refuses what contradicts itself.
    pub fn validate(&self) -> Result<(), JobError> {
        let err = |field, code, message: String| Err(JobError::new(field, code, message));
        if self.gpu_milli.is_zero() {
            return err("gpu_milli", "bad_share", "gpu_milli must be 1 to 1000".into());
        }
        if self.gpu_milli < MilliGpu::WHOLE && self.gpu_count != 1 {
            let message = format!(
                "a shared GPU (gpu_milli {}) goes with gpu_count 1, not {}",
                self.gpu_milli.get(),
                self.gpu_count
            );
            return err("gpu_milli", "bad_share", message);
        }
        if MODEL_RUNTIMES.contains(&self.runtime.as_str())
            && self.model_mib.is_none_or(Mib::is_zero)
            && (self.vram_mib.is_zero() || self.gpu_count == 0)
            && self.ram_mib.is_zero()
        {
            let message =
                format!("a job of runtime `{}` must give model_mib, vram_mib or ram_mib", self.runtime);
            return err("model_mib", "model_unknown", message);
        }
        let vram = self.vram_mib * u64::from(self.gpu_count);
        if let Some(model) = self.model_mib.filter(|&model| {
            self.runs_with("llmcpp") && self.is_gpu_job() && model > vram && self.offload == Offload::Never
        }) {
            let message =
                format!("the model ({model}) exceeds the GPU memory asked ({vram}); set offload = \"allow\"");
            return err("model_mib", "model_exceeds_vram", message);
        }
        if self.fetchable && self.kind == JobKind::Eval {
            let message = "an eval has no result that could be fetched; use fetch_task".into();
            return err("fetchable", "contradiction", message);
        }
        if self.nodes.min == 0 || self.nodes.max < self.nodes.min {
            let message =
                format!("nodes must be 1 <= min <= max, not {} and {}", self.nodes.min, self.nodes.max);
            return err("nodes", "out_of_range", message);
        }
        if self.class > 10 {
            return err("class", "out_of_range", format!("class must be 0 to 10, not {}", self.class));
        }
        if self.sensitive && self.class != 10 {
            return err("class", "sensitive_class", "a sensitive job has class 10; leave class out".into());
        }
        if self.sensitive && !self.exclusive {
            return err(
                "exclusive",
                "sensitive_shared",
                "a sensitive job takes whole nodes; leave exclusive out".into(),
            );
        }
        if self.checkpoint_minutes.is_some() && self.checkpoint == Checkpoint::None {
            let message = "checkpoint_minutes needs checkpoint = \"auto\" or \"manual\"".into();
            return err("checkpoint_minutes", "contradiction", message);
        }
        if self.checkpoint_minutes.is_some_and(|minutes| minutes.as_f64() > 1440.0) {
            return err("checkpoint_minutes", "out_of_range", "checkpoint_minutes must be 0 to 1440".into());
        }
        if self.sensitive && self.preemptible {
            let message = "a sensitive job is never stopped for others; leave preemptible out".into();
            return err("preemptible", "sensitive_preemptible", message);
        }
        if self.max_requeue > 100 {
            return err("max_requeue", "out_of_range", "max_requeue must be 0 to 100".into());
        }
        if !DISCONNECT_STOP_AFTER.contains(&self.disconnect_stop_after_ms.get()) {
            let message = "disconnect_stop_after_ms must be 5 s to 1 day".into();
            return err("disconnect_stop_after_ms", "out_of_range", message);
        }
        if self.at_once == Some(0) {
            return err("at_once", "out_of_range", "at_once must be 1 or more".into());
        }
        if self.retry_delay_ms > RETRY_DELAY_MAX {
            return err(
                "retry_delay_ms",
                "out_of_range",
                format!("retry_delay_ms must be {RETRY_DELAY_MAX} or less"),
            );
        }
        if self.max_span == Some(0) {
            return err("max_span", "out_of_range", "max_span must be 1 or more".into());
        }
        if self.mutex.len() > 8 || self.mutex.iter().any(|name| name.as_str().len() > 64) {
            return err("mutex", "out_of_range", "at most 8 mutex names of at most 64 bytes".into());
        }
        let Hints { prefer_peers, prefer_regions, avoid_peers, colocate_with, data } = &self.hints;
        let wishes = prefer_peers.len() + prefer_regions.len() + avoid_peers.len() + colocate_with.len();
        if wishes > 16 || data.len() > 256 {
            return err("hints", "out_of_range", "at most 16 hints and 256 digests are accepted".into());
        }
        if self.lifecycle == Lifecycle::Bounded && self.walltime_ms.is_zero() {
            return err("walltime_ms", "out_of_range", "walltime_ms must be above 0".into());
        }
        if self.expected_duration_ms.is_zero() {
            return err(
                "expected_duration_ms",
                "out_of_range",
                "expected_duration_ms must be above 0".into(),
            );
        }
        Ok(())
    }
}

/// One piece of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: JobId,
    /// What it has in common with jobs like it.
    pub spec: Arc<JobSpec>,
    /// When it was submitted.
    pub submitted_at: Time,
    /// When it became eligible; set once.
    pub queued_at: Time,
    /// When the last thing it waited for cleared.
    pub ready_at: Time,
    /// What it still waits for, if anything.
    pub waits_for: Option<Name>,
    /// Not before this instant (back-off).
    pub retry_at: Option<Time>,
    /// Timer rounds it has been pending.
    pub rescore_count: u32,
    /// Round of its negotiation.
    pub round: u32,
    /// What identifies it between peers.
    pub digest: Option<Box<Digest>>,
    /// How long its last checkpoint took, if one was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_took: Option<Millis>,
}

impl Job {
    /// A job that becomes ready at `at`.
    pub fn new(id: JobId, spec: Arc<JobSpec>, at: Time) -> Self {
        Self {
            id,
            spec,
            submitted_at: at,
            queued_at: at,
            ready_at: at,
            waits_for: None,
            retry_at: None,
            rescore_count: 0,
            round: 1,
            digest: None,
            checkpoint_took: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl Fn(&mut JobSpec)) -> Option<(&'static str, &'static str)> {
        let mut spec = JobSpec::empty();
        change(&mut spec);
        spec.validate().err().map(|e| (e.field, e.code))
    }

    #[test]
    fn contradictions_name_their_field() {
        let llm = |spec: &mut JobSpec| spec.runtime = Name::new("llmcpp").unwrap();
        assert_eq!(refusal(|_| {}), None);
        assert_eq!(refusal(llm), Some(("model_mib", "model_unknown")));
        let too_big = |spec: &mut JobSpec| {
            llm(spec);
            (spec.gpu_count, spec.vram_mib, spec.model_mib) = (1, Mib::gib(8), Some(Mib::gib(9)));
        };
        assert_eq!(refusal(too_big), Some(("model_mib", "model_exceeds_vram")));
        assert_eq!(
            refusal(|spec| {
                too_big(spec);
                spec.offload = Offload::Allow;
            }),
            None
        );
        assert_eq!(
            refusal(|spec| (spec.gpu_count, spec.gpu_milli) = (2, MilliGpu::new(500))),
            Some(("gpu_milli", "bad_share"))
        );
        assert_eq!(refusal(|spec| spec.sensitive = true), Some(("class", "sensitive_class")));
        assert_eq!(
            refusal(|spec| spec.nodes = NodeCount { min: 3, max: 2 }),
            Some(("nodes", "out_of_range"))
        );
    }

    #[test]
    fn the_model_is_a_share_of_the_memory_asked() {
        let mut spec = JobSpec::empty();
        spec.ram_mib = Mib::new(1000);
        assert_eq!(spec.model_mib_f64(0.7), 700.0);
        (spec.gpu_count, spec.vram_mib) = (2, Mib::gib(8));
        assert!((spec.model_mib_f64(0.7) - 0.7 * 16384.0).abs() < 1e-9);
        spec.model_mib = Some(Mib::new(5));
        assert_eq!(spec.model_mib_f64(0.7), 5.0);
    }
}
