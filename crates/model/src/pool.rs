//! Pools: nodes with one scheduler, and how that scheduler is set.
//!
//! Every pool has one way to dispatch; the settings of the other ways are kept but not read.

use serde::{Deserialize, Serialize};

use std::collections::BTreeMap;

use crate::{Bytes, JobSpec, Millis, Name, OnDisconnect, PoolId, job::DISCONNECT_STOP_AFTER};

/// A node with a sensitive job is given so many times as long.
const SENSITIVE_TIMES: u64 = 5;
/// In what time a job is gone that its node begins to stop: its ten seconds to end, and a word of the server that was on its way,
/// from which the node counts later than the server.
const STOPPED_WITHIN: Millis = Millis::secs(15);

/// Who asks, and what is ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Dispatch {
    /// A job arrives; nodes are ranked for it.
    #[default]
    Push,
    /// A worker asks for work; jobs are ranked for it.
    Pull,
    /// A cycle starts; the queue is ranked, then sets of nodes, with reservations and backfill.
    Batch,
    /// A job is announced to peers; their offers are ranked.
    Negotiate,
}

/// Whether a job that does not fit lets later ones pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// It does.
    #[default]
    BestEffort,
    /// Nothing of its tier passes it, unless no node could ever hold it.
    Strict,
}

/// Whether three rules of pull policies follow their published description or their later published behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullPreset {
    #[default]
    Documented,
    Upstream,
}

/// What is known of a region.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// The regions next to it, nearest first; not the other way round.
    #[serde(default)]
    pub adjacent: Vec<Name>,
}

settings! {
    /// How a push pool works.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct PushSettings {
        /// Every waiting job is looked at again this often, whatever happened.
        pub retry_interval_ms: Millis = Millis::secs(5),
        /// How often a job is decided anew in one cycle when the ledger refuses.
        pub propose_attempts: u32 = 3,
        /// Whether a job that does not fit lets later ones pass.
        pub queue_discipline: Discipline = Discipline::BestEffort,
        /// Most jobs looked at per cycle; `None` means all.
        pub cycle_limit: Option<u32> = None,
        /// How long a hold lives unless its maker says otherwise.
        pub hold_ms: Millis = Millis::secs(300),
        /// Most elements of an array of short jobs that a node is told ahead of time, for each that runs there; 0 means none.
        pub ahead: u32 = 64,
        /// Which regions lie next to which.
        pub regions: BTreeMap<Name, Region> = BTreeMap::new(),
    }
}

settings! {
    /// How a pull pool works.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct PullSettings {
        /// A round of rescoring passes this often.
        pub tick_ms: Millis = Millis::secs(5),
        /// How often a request is decided anew when the ledger refuses.
        pub propose_attempts: u32 = 3,
        /// Attempts of a job before it fails.
        pub max_attempts: u32 = 3,
        /// Wait before the second attempt; doubled with each further one.
        pub retry_base_ms: Millis = Millis::secs(30),
        /// A worker is lost when it was silent for longer; 0 means never.
        pub liveness_timeout_ms: Millis = Millis::secs(120),
        /// Decisions kept for people to look at.
        pub ring_decisions: u32 = 200,
        /// Candidates kept of each decision.
        pub ring_candidates: u32 = 64,
        /// Misses of a fetchable job before it is built.
        pub fetch_misses: u32 = 2,
        /// The ready set is rebuilt from the dependencies every so many ticks; 0 means never.
        pub reconcile_ticks: u32 = 6,
        /// The queue is made anew from what the journal says of each job every so many ticks; 0 means never.
        pub deep_reconcile_ticks: u32 = 720,
        /// Architecture of jobs that name none; otherwise what most of its nodes have.
        pub architecture: Option<Name> = None,
        /// How often trailing means are made anew.
        pub instance_metrics_interval_ms: Millis = Millis::secs(30),
        /// Whether requests are answered with nothing.
        pub paused: bool = false,
    }
}

/// How the queue of a batch pool is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueOrder {
    #[default]
    Score,
    /// By queue time.
    Fifo,
    /// As much slowdown ended per node-second as can be, by how long jobs like it ran before.
    Learned,
}

/// Which jobs may overtake which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backfill {
    /// No later job delays one of the first blocked ones.
    #[default]
    Easy,
    /// No later job delays any earlier one.
    Conservative,
    /// No overtaking.
    Strict,
    /// No guarantee.
    Greedy,
    /// Whoever fits starts; who has waited for long is promised a time that nobody may delay.
    Promises,
}

/// In which order the walk goes on behind the first blocked job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackfillOrder {
    /// As the queue stands.
    #[default]
    Queue,
    /// Shortest first.
    Shortest,
}

/// What a pool does with the run times it has learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Learn {
    /// Nothing.
    #[default]
    Off,
    /// Behind the first blocked job, those come first that are expected to be over first.
    Order,
    /// And times are planned as if running jobs ended when they are expected to.
    Times,
}

/// Whether a reservation lasts from one cycle to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reservations {
    /// It stands until its job starts, and moves to earlier times only.
    #[default]
    Standing,
    /// All are dropped when a walk begins and made anew.
    Rebuild,
}

/// How the nodes of a set should lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetHint {
    /// In few groups.
    #[default]
    Tight,
    /// In many groups.
    Spread,
    /// Anywhere.
    Any,
}

/// When fair shares are looked at anew. Only `cycle` is accepted; journals of earlier versions may have the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rescore {
    /// Once per cycle.
    #[default]
    Cycle,
    /// After every start.
    Start,
}

/// Whose work may be stopped for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreemptRule {
    /// Any class below the preemptor's.
    #[default]
    Below,
    /// Best effort, low, normal and high, each by the next band.
    Bands,
}

/// How the share in use is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Usage {
    /// What is held now.
    #[default]
    Instant,
    /// What was held, halved with every half-life.
    Decayed,
}

/// What happens at submission to a job that is over a quota right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaOnSubmit {
    /// It is accepted and waits.
    #[default]
    Queue,
    /// It is refused.
    Reject,
}

settings! {
    /// How a batch pool works.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct BatchSettings {
        /// Time from one cycle to the next.
        pub cycle_ms: Millis = Millis::secs(5),
        /// Cycles follow events instead of a beat: whoever drives the engine asks for one after each instant at which something
        /// happened.
        pub cycle_on_events: bool = false,
        /// How the queue is ordered.
        pub order: QueueOrder = QueueOrder::Score,
        /// Which jobs may overtake which.
        pub backfill: Backfill = Backfill::Easy,
        /// Blocked jobs per walk that receive a reservation; under `promises`, jobs that have one at once.
        pub depth: u32 = 1,
        /// Under `promises`: how long a job waits before it is promised a time.
        pub promise_after_ms: Millis = Millis::secs(20 * 3600),
        /// How much later than its first time a promise is made, so that short jobs may go before.
        pub promise_grace_ms: Millis = Millis::secs(90 * 60),
        /// How long a job waits before no such room is taken from it any more.
        pub promise_limit_ms: Millis = Millis::secs(60 * 3600),
        /// Whether a reservation lasts.
        pub reservations: Reservations = Reservations::Standing,
        /// In which order the walk goes on behind the first blocked job.
        pub backfill_order: BackfillOrder = BackfillOrder::Queue,
        /// What becomes of the run times of ended jobs.
        pub learn: Learn = Learn::Off,
        /// Standing reservations at most.
        pub reservations_max: u32 = 1000,
        /// How far ahead slots are looked for.
        pub horizon_ms: Millis = Millis::secs(30 * 86_400),
        /// Jobs walked per cycle.
        pub scan_max: u32 = 10_000,
        /// How sets lie when the job does not say.
        pub hint: SetHint = SetHint::Tight,
        /// Most groups a set may touch.
        pub max_span: Option<u32> = None,
        /// When fair shares are looked at anew.
        pub rescore: Rescore = Rescore::Cycle,
        /// Whether running work may be stopped for more urgent work.
        pub preemption: bool = true,
        /// Whose work may be stopped for whom.
        pub preempt_rule: PreemptRule = PreemptRule::Below,
        /// Most jobs stopped for one.
        pub max_victims: u32 = 3,
        /// The cost of all victims must stay below this.
        pub preempt_cost_max: f64 = 1000.0,
        /// Whether a stager brings inputs near; refused by servers, which have none yet.
        pub staging: bool = false,
        /// Most power drawn, in watts.
        pub power_cap_w: Option<u64> = None,
        /// Most storage traffic, in bytes per second.
        pub io_cap: Option<Bytes> = None,
        /// From the polite to the hard stop.
        pub kill_grace_ms: Millis = Millis::secs(30),
        /// How shares in use are measured.
        pub usage: Usage = Usage::Instant,
        /// How fast use is forgotten.
        pub half_life_ms: Millis = Millis::secs(7 * 86_400),
        /// What happens at submission over a quota.
        pub quota_on_submit: QuotaOnSubmit = QuotaOnSubmit::Queue,
        /// Work that has run for less is not stopped for others.
        pub min_run_ms: Millis = Millis::secs(600),
        /// How often a service is asked how it does.
        pub scale_interval_ms: Millis = Millis::secs(60),
        /// How long a service must want more before it gets a node.
        pub scale_up_after_ms: Millis = Millis::secs(120),
        /// How long a service must want less before it loses one.
        pub scale_down_after_ms: Millis = Millis::secs(300),
        /// Time from one step of a service to the next in the same direction.
        pub scale_cooldown_ms: Millis = Millis::secs(180),
        /// When jobs save their work by themselves.
        pub checkpoint: CheckpointSettings = CheckpointSettings::default(),
    }
}

/// What may be drawn and moved: the caps of the cluster beside those of a pool, or what is left under both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Caps {
    /// Watts; `None` without a cap.
    pub power_w: Option<u64>,
    /// Bytes per second to and from storage; `None` without a cap.
    pub io_bytes_s: Option<u64>,
}

impl BatchSettings {
    /// Whether the shortest come first behind the first blocked job.
    pub fn goes_on_by_duration(&self) -> bool {
        self.backfill_order == BackfillOrder::Shortest || self.learn != Learn::Off
    }
}

settings! {
    /// What saving costs, and how likely a loss is.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct CheckpointSettings {
        /// State of one node, in GiB.
        pub gib_per_node: f64 = 80.0,
        /// What storage takes from all nodes together, in GiB/s; 0 means there is none.
        pub storage_gib_s: f64 = 10.0,
        /// What storage takes from each node, in GiB/s, where nodes write side by side.
        pub node_gib_s: Option<f64> = None,
        /// GPU-seconds that a second of the storage path counts.
        pub storage_weight: f64 = 1.0,
        /// GPU-seconds that a stored GiB counts.
        pub per_gib: f64 = 0.02,
        /// How likely a run is lost.
        pub loss_probability: f64 = 0.001,
    }
}

settings! {
    /// How nodes move between pools.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct LoanSettings {
        /// Whether the pool lends nodes.
        pub lend: bool = true,
        /// Whether the pool borrows nodes.
        pub borrow: bool = true,
        /// Most of its nodes that a pool lends.
        pub lend_max_fraction: f64 = 0.2,
        /// Notice before a reclaim stops work.
        pub return_grace_ms: Millis = Millis::secs(60),
        /// What a borrowed set loses in points.
        pub borrow_penalty: f64 = 0.1,
    }
}

settings! {
    /// What follows from the silence of nodes. Silence is counted from when somebody listened: not while the server was away.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct SilenceSettings {
        /// A node that was silent for longer is unknown: what runs there goes on, and it gets nothing new.
        pub node_unknown_after_ms: Millis = Millis::secs(30),
        /// A node without jobs that was silent for longer is down.
        pub node_down_after_ms: Millis = Millis::secs(120),
        /// A node with jobs that was silent for longer is down, and its jobs go back to the queue. Sensitive jobs are given
        /// five times as long.
        pub requeue_after_ms: Millis = Millis::secs(120),
        /// Share of the pool's nodes whose jobs go back to the queue within a minute because of silence, 1 means no limit. One
        /// node always may.
        pub requeue_limit: f64 = 0.2,
    }
}

impl SilenceSettings {
    /// Nodes whose jobs may go back to the queue within a minute, out of so many; `None` means all.
    pub fn requeues_per_minute(&self, nodes: usize) -> Option<usize> {
        (self.requeue_limit < 1.0).then(|| ((nodes as f64 * self.requeue_limit) as usize).max(1))
    }
}

/// Whose hardware sets the tier of a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceBasis {
    /// The devices that the placement holds.
    #[default]
    Placement,
    /// All devices of the node.
    Node,
}

settings! {
    /// What jobs cost in a pool. It never changes who gets which node.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct PriceSettings {
        /// What a job costs on hardware of the tier that counts once.
        pub base: f64 = 0.0,
        /// Whose hardware sets the tier.
        pub basis: PriceBasis = PriceBasis::Placement,
        /// Whether jobs cost more while many wait.
        pub surge: bool = false,
        /// How many times as much they cost then.
        pub surge_factor: f64 = 1.25,
        /// Many wait while more jobs wait than this times the nodes that take work.
        pub surge_ratio: f64 = 2.0,
        /// How often that is looked at.
        pub surge_every_ms: Millis = Millis::secs(30),
    }
}

/// Dearer jobs are a slip of the pen.
const BASE_PRICE_MAX: f64 = 1e6;
const SURGE_FACTOR_MAX: f64 = 100.0;

/// Nodes with one scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    pub id: PoolId,
    #[serde(default)]
    pub dispatch: Dispatch,
    /// The policy it uses, if named.
    #[serde(default)]
    pub policy: Option<Name>,
    /// Which reading of the rules a pull pool follows, `documented` or `upstream`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<PullPreset>,
    /// The fingerprint its nodes should have.
    #[serde(default)]
    pub baseline: Option<Name>,
    /// How it works as a push pool.
    #[serde(default)]
    pub push: PushSettings,
    /// How it works as a pull pool.
    #[serde(default)]
    pub pull: PullSettings,
    /// How it works as a batch pool.
    #[serde(default)]
    pub batch: BatchSettings,
    /// How its nodes move.
    #[serde(default)]
    pub loans: LoanSettings,
    /// What follows from the silence of its nodes.
    #[serde(default)]
    pub silence: SilenceSettings,
    /// What jobs cost here; without it they have no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceSettings>,
    /// Whether its nodes are expected to report. Where not, as in replays, a node is there until it is said to be gone.
    #[serde(default = "yes")]
    pub heartbeats: bool,
}

fn yes() -> bool {
    true
}

/// Why the settings of a pool cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PoolError {
    /// The setting at fault.
    pub field: &'static str,
    /// What is wrong, for people.
    pub message: String,
}

impl Pool {
    /// A pool with the usual settings.
    pub fn new(id: PoolId, dispatch: Dispatch) -> Self {
        Self {
            id,
            dispatch,
            policy: None,
            preset: None,
            baseline: None,
            push: PushSettings::default(),
            pull: PullSettings::default(),
            batch: BatchSettings::default(),
            loans: LoanSettings::default(),
            silence: SilenceSettings::default(),
            price: None,
            heartbeats: true,
        }
    }

    /// The name of its policy: the one it names, or the usual one of its way to dispatch.
    pub fn policy_name(&self) -> &str {
        match (&self.policy, self.dispatch) {
            (Some(name), _) => name.as_str(),
            (None, Dispatch::Push) => "fit",
            (None, Dispatch::Pull) => "resource-aware",
            (None, Dispatch::Batch) => "balanced",
            (None, Dispatch::Negotiate) => "offer-standard",
        }
    }

    /// How long one of its nodes with jobs may be silent before they are started elsewhere; `None` means for ever.
    pub fn given_up_after(&self, sensitive: bool) -> Option<Millis> {
        if self.dispatch == Dispatch::Pull {
            return Some(self.pull.liveness_timeout_ms).filter(|timeout| !timeout.is_zero());
        }
        let times = if sensitive { SENSITIVE_TIMES } else { 1 };
        Some(Millis::new(self.silence.requeue_after_ms.get().saturating_mul(times)))
    }

    /// Why a job that its node stops when it has lost the server could be started elsewhere before that, and what helps. In
    /// pools that negotiate the lease of the award counts.
    pub fn starts_beside(&self, spec: &JobSpec) -> Option<(String, String)> {
        if spec.on_disconnect != OnDisconnect::Stop
            || !self.heartbeats
            || self.dispatch == Dispatch::Negotiate
        {
            return None;
        }
        let given_up = self.given_up_after(spec.sensitive)?;
        let after = spec.disconnect_stop_after_ms;
        let gone = Millis::new(after.get().saturating_add(STOPPED_WITHIN.get()));
        if gone <= given_up {
            return None;
        }
        let (setting, times) = match self.dispatch {
            Dispatch::Pull => ("pull.liveness_timeout_ms", 1),
            _ => ("silence.requeue_after_ms", if spec.sensitive { SENSITIVE_TIMES } else { 1 }),
        };
        let message = format!(
            "would be stopped {after} after its node lost the server and gone {STOPPED_WITHIN} later, but pool `{}` starts it elsewhere \
             after {given_up}",
            self.id
        );
        let longer = format!("`{setting}` of the pool to {} or more", gone.get().div_ceil(times));
        let most = given_up.saturating_sub(STOPPED_WITHIN);
        let hint = match DISCONNECT_STOP_AFTER.contains(&most.get()) {
            true => format!("set `disconnect_stop_after_ms` to {} or less, or {longer}", most.get()),
            false => format!("set {longer}"),
        };
        Some((message, hint))
    }

    /// Refuses settings outside their range.
    pub fn validate(&self) -> Result<(), PoolError> {
        let ms = |secs: u64| secs * 1000;
        if self.preset.is_some() && self.dispatch != Dispatch::Pull {
            let message =
                "`preset` is for pull pools: it chooses between two readings of their rules".to_owned();
            return Err(PoolError { field: "preset", message });
        }
        let base = self.price.map_or(0.0, |price| price.base);
        // Written so that NaN is refused as well.
        if !(0.0..=BASE_PRICE_MAX).contains(&base) {
            let message = format!("price.base must be 0 to {BASE_PRICE_MAX}, not {base}");
            return Err(PoolError { field: "price.base", message });
        }
        let price = self.price.unwrap_or_default();
        if !(1.0..=SURGE_FACTOR_MAX).contains(&price.surge_factor) {
            let (most, said) = (SURGE_FACTOR_MAX, price.surge_factor);
            let message = format!("price.surge_factor must be 1 to {most}, not {said}");
            return Err(PoolError { field: "price.surge_factor", message });
        }
        let batch = &self.batch;
        let silence = &self.silence;
        let ranges: [(&'static str, u64, u64, u64); 14] = [
            ("price.surge_every_ms", price.surge_every_ms.get(), ms(1), ms(86_400)),
            ("push.retry_interval_ms", self.push.retry_interval_ms.get(), 1, u64::MAX),
            ("push.propose_attempts", self.push.propose_attempts.into(), 1, 1000),
            ("push.hold_ms", self.push.hold_ms.get(), ms(1), ms(86_400)),
            ("pull.tick_ms", self.pull.tick_ms.get(), 1, u64::MAX),
            ("pull.propose_attempts", self.pull.propose_attempts.into(), 1, 1000),
            (
                "pull.instance_metrics_interval_ms",
                self.pull.instance_metrics_interval_ms.get(),
                ms(1),
                u64::MAX,
            ),
            ("silence.node_unknown_after_ms", silence.node_unknown_after_ms.get(), ms(1), ms(86_400)),
            ("batch.cycle_ms", batch.cycle_ms.get(), ms(5), ms(30)),
            ("batch.scale_interval_ms", batch.scale_interval_ms.get(), ms(1), ms(3600)),
            ("batch.depth", batch.depth.into(), 1, 1000),
            ("batch.reservations_max", batch.reservations_max.into(), 1, 10_000),
            ("batch.horizon_ms", batch.horizon_ms.get(), ms(3600), ms(365 * 86_400)),
            ("batch.scan_max", batch.scan_max.into(), 1, 1_000_000),
        ];
        for (field, value, least, most) in ranges {
            if value < least || value > most {
                let most = if most == u64::MAX { "any".to_owned() } else { most.to_string() };
                return Err(PoolError {
                    field,
                    message: format!("{field} must be {least} to {most}, not {value}"),
                });
            }
        }
        let ordered = [
            ("silence.node_down_after_ms", silence.node_down_after_ms),
            ("silence.requeue_after_ms", silence.requeue_after_ms),
        ];
        for (field, after) in ordered {
            if after < silence.node_unknown_after_ms {
                let unknown = silence.node_unknown_after_ms;
                let message = format!(
                    "{field} must not be below silence.node_unknown_after_ms ({unknown}), not {after}"
                );
                return Err(PoolError { field, message });
            }
        }
        if silence.requeue_limit == 0.0 {
            let message = "silence.requeue_limit must be above 0; one node a minute always may".to_owned();
            return Err(PoolError { field: "silence.requeue_limit", message });
        }
        let fractions = [
            ("price.surge_ratio", price.surge_ratio, f64::MAX),
            ("silence.requeue_limit", silence.requeue_limit, 1.0),
            ("loans.lend_max_fraction", self.loans.lend_max_fraction, 1.0),
            ("loans.borrow_penalty", self.loans.borrow_penalty, f64::MAX),
            ("batch.preempt_cost_max", batch.preempt_cost_max, f64::MAX),
            ("batch.checkpoint.gib_per_node", batch.checkpoint.gib_per_node, f64::MAX),
            ("batch.checkpoint.storage_gib_s", batch.checkpoint.storage_gib_s, f64::MAX),
            ("batch.checkpoint.node_gib_s", batch.checkpoint.node_gib_s.unwrap_or(0.0), f64::MAX),
            ("batch.checkpoint.storage_weight", batch.checkpoint.storage_weight, f64::MAX),
            ("batch.checkpoint.per_gib", batch.checkpoint.per_gib, f64::MAX),
            ("batch.checkpoint.loss_probability", batch.checkpoint.loss_probability, 1.0),
        ];
        for (field, value, most) in fractions {
            if !value.is_finite() || value < 0.0 || value > most {
                return Err(PoolError {
                    field,
                    message: match most {
                        1.0 => format!("{field} must be 0 to 1, not {value}"),
                        _ => format!("{field} must be 0 or more and finite, not {value}"),
                    },
                });
            }
        }
        if batch.rescore == Rescore::Start {
            let message = "batch.rescore must be `cycle`: shares are looked at once per cycle".to_owned();
            return Err(PoolError { field: "batch.rescore", message });
        }
        if batch.usage == Usage::Decayed && batch.half_life_ms.is_zero() {
            let message =
                "batch.half_life_ms must be above 0, or usage would be forgotten at once".to_owned();
            return Err(PoolError { field: "batch.half_life_ms", message });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_may_always_be_given_up() {
        let limit = |requeue_limit, nodes| {
            SilenceSettings { requeue_limit, ..SilenceSettings::default() }.requeues_per_minute(nodes)
        };
        for (share, nodes, expected) in [
            (0.2, 1, Some(1)),
            (0.2, 9, Some(1)),
            (0.2, 10, Some(2)),
            (0.2, 1000, Some(200)),
            (0.01, 1000, Some(10)),
            (1.0, 3, None),
        ] {
            assert_eq!(limit(share, nodes), expected, "{share} of {nodes}");
        }
    }

    #[test]
    fn a_job_is_gone_before_its_pool_starts_it_elsewhere() {
        let mut spec = JobSpec::empty();
        spec.on_disconnect = OnDisconnect::Stop;
        let beside = |change: &dyn Fn(&mut Pool, &mut JobSpec)| {
            let mut pool = Pool::new(PoolId::new("p").unwrap_or_else(|_| unreachable!()), Dispatch::Push);
            let mut spec = spec.clone();
            change(&mut pool, &mut spec);
            pool.starts_beside(&spec)
        };
        let after =
            |secs| move |_: &mut Pool, spec: &mut JobSpec| spec.disconnect_stop_after_ms = Millis::secs(secs);
        assert_eq!(beside(&|_, _| {}), None, "the usual times fit");
        assert_eq!(beside(&after(105)), None);
        let (message, hint) = beside(&after(106)).unwrap_or_default();
        assert!(message.contains("pool `p` starts it elsewhere after"), "{message}");
        let both = "set `disconnect_stop_after_ms` to 105000 or less, or `silence.requeue_after_ms` of the pool to 121000 or more";
        assert_eq!(hint, both);
        assert_eq!(
            beside(&|_, spec| (spec.sensitive, spec.disconnect_stop_after_ms) = (true, Millis::secs(500))),
            None
        );
        assert_eq!(
            beside(&|_, spec| (spec.on_disconnect, spec.disconnect_stop_after_ms) =
                (OnDisconnect::Keep, Millis::secs(500))),
            None
        );
        let quick = beside(&|pool, _| pool.silence.requeue_after_ms = Millis::secs(3));
        assert_eq!(
            quick.unwrap_or_default().1,
            "set `silence.requeue_after_ms` of the pool to 105000 or more"
        );
        let pull = |ms| {
            move |pool: &mut Pool, _: &mut JobSpec| {
                (pool.dispatch, pool.pull.liveness_timeout_ms) = (Dispatch::Pull, Millis::secs(ms));
            }
        };
        assert!(beside(&pull(60)).unwrap_or_default().1.contains("`pull.liveness_timeout_ms`"));
        assert_eq!(beside(&pull(0)), None, "nobody is given up");
        assert_eq!(beside(&|pool, _| pool.silence.requeue_after_ms = Millis::secs(600)), None);
    }

    #[test]
    fn settings_outside_their_range_are_named() {
        let field = |change: &dyn Fn(&mut Pool)| {
            let mut pool = Pool::new(PoolId::new("p").unwrap(), Dispatch::Batch);
            change(&mut pool);
            pool.validate().err().map(|error| error.field)
        };
        assert_eq!(field(&|_| {}), None);
        assert_eq!(field(&|pool| pool.batch.cycle_ms = Millis::secs(31)), Some("batch.cycle_ms"));
        assert_eq!(field(&|pool| pool.batch.depth = 0), Some("batch.depth"));
        assert_eq!(field(&|pool| pool.batch.rescore = Rescore::Start), Some("batch.rescore"));
        let likely = |chance| move |pool: &mut Pool| pool.batch.checkpoint.loss_probability = chance;
        assert_eq!(field(&likely(1.5)), Some("batch.checkpoint.loss_probability"));
        assert_eq!(field(&likely(f64::NAN)), Some("batch.checkpoint.loss_probability"));
        assert_eq!(field(&|pool| pool.loans.lend_max_fraction = f64::NAN), Some("loans.lend_max_fraction"));
        let costs = |base| {
            move |pool: &mut Pool| pool.price = Some(PriceSettings { base, ..PriceSettings::default() })
        };
        for base in [-0.1, f64::NAN, f64::INFINITY, 1e7] {
            assert_eq!(field(&costs(base)), Some("price.base"), "{base}");
        }
        assert_eq!(field(&costs(0.1)), None);
        let surges = |change: &dyn Fn(&mut PriceSettings)| {
            field(&|pool| change(pool.price.get_or_insert_with(PriceSettings::default)))
        };
        for factor in [0.9, f64::NAN, 101.0] {
            let changed = surges(&|price| price.surge_factor = factor);
            assert_eq!(changed, Some("price.surge_factor"), "{factor}");
        }
        assert_eq!(surges(&|price| price.surge_ratio = -1.0), Some("price.surge_ratio"));
        assert_eq!(surges(&|price| price.surge_every_ms = Millis::ZERO), Some("price.surge_every_ms"));
        let forgets = |pool: &mut Pool| {
            (pool.batch.usage, pool.batch.half_life_ms) = (Usage::Decayed, Millis::ZERO);
        };
        assert_eq!(field(&forgets), Some("batch.half_life_ms"));
        let silence = |change: &dyn Fn(&mut SilenceSettings)| field(&|pool| change(&mut pool.silence));
        let unknown = |after| move |silence: &mut SilenceSettings| silence.node_unknown_after_ms = after;
        assert_eq!(silence(&unknown(Millis::new(999))), Some("silence.node_unknown_after_ms"));
        assert_eq!(silence(&unknown(Millis::secs(121))), Some("silence.node_down_after_ms"));
        let requeue = |after| move |silence: &mut SilenceSettings| silence.requeue_after_ms = after;
        assert_eq!(silence(&requeue(Millis::secs(29))), Some("silence.requeue_after_ms"));
        assert_eq!(silence(&requeue(Millis::secs(86_400))), None);
        for limit in [0.0, -1.0, 1.1, f64::NAN] {
            assert_eq!(silence(&|silence| silence.requeue_limit = limit), Some("silence.requeue_limit"));
        }
    }
}
