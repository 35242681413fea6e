//! Why a job waits, as a closed list of names.

use std::fmt;

use landfall_model::JobId;
use serde::{Deserialize, Serialize, Serializer};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a job waits.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
            /// The ledger refused the last proposal, for this reason.
            Ledger(String),
        }

        impl Reason {
            /// Every reason with a fixed name.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            fn fixed(&self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Ledger(_) => "ledger",
                }
            }
        }
    };
}

reasons! {
    /// A job it depends on has not ended.
    Dependency = "dependency",
    /// Another job holds a lock it needs.
    Mutex = "mutex",
    /// Its owner holds it back.
    UserHold = "user_hold",
    /// Its time has not come.
    NotBefore = "not_before",
    /// Its tenant has too few node units left.
    QuotaNodes = "quota_nodes",
    /// Its tenant has too few GPUs left.
    QuotaGpus = "quota_gpus",
    /// Its tenant has too few GPU-hours left.
    GpuHours = "gpu_hours",
    /// Its inputs are still far away.
    Staging = "staging",
    /// Too few nodes are usable.
    Nodes = "nodes",
    /// The nodes would lie in too many groups.
    Span = "span",
    /// The pool or cluster would draw too much power.
    Power = "power",
    /// Storage traffic would be too high.
    Io = "io",
    /// Nodes are not in service.
    NodeState = "node_state",
    /// Other work holds nodes.
    NodeTaken = "node_taken",
    /// Devices are of other or unknown models.
    GpuModel = "gpu_model",
    /// Nodes have too few devices.
    GpuCount = "gpu_count",
    /// Devices have too little memory.
    GpuMemory = "gpu_memory",
    /// Nodes have too little CPU.
    Cpu = "cpu",
    /// Nodes have too little memory.
    Memory = "memory",
    /// Nodes lack a feature.
    Feature = "feature",
    /// Nodes lack unified memory.
    UnifiedMemory = "unified_memory",
    /// Nodes are not of one known configuration.
    Fingerprint = "fingerprint",
    /// Nodes are taken out before the job would end.
    BlockEnd = "block_end",
    /// It would delay the reservation of another job.
    Reserved = "reserved",
    /// Nodes are kept for another job.
    Held = "held",
    /// Nodes are in quarantine.
    Quarantine = "quarantine",
    /// Other pools do not lend enough.
    Loan = "loan",
    /// Stopping less urgent work for it would cost too much.
    PreemptCost = "preempt_cost",
    /// A job ahead of it waits, and nothing overtakes.
    StrictOrder = "strict_order",
    /// Less urgent work is being stopped for it.
    Preempting = "preempting",
    /// The walk ended before it.
    ScanMax = "scan_max",
    /// Not even all nodes, idle, would do.
    NeverFits = "never_fits",
    /// There is no slot as far as the pool plans.
    BeyondHorizon = "beyond_horizon",
}

impl Reason {
    /// The reason with this name.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        match text.strip_prefix("ledger:") {
            Some(inner) => Some(Self::Ledger(inner.to_owned())),
            None => Self::ALL.iter().find(|reason| reason.fixed() == text).cloned(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger(inner) => write!(f, "ledger:{inner}"),
            fixed => f.write_str(fixed.fixed()),
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::named(&text).ok_or_else(|| serde::de::Error::custom(format!("there is no reason `{text}`")))
    }
}

/// One thing that stands against a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    pub reason: Reason,
    /// What was needed, in the unit of the reason (nodes, groups, watts, bytes per second, GPU-hours).
    pub needed: f64,
    /// What was found; for the filters of nodes, how many nodes are refused for this reason.
    pub found: f64,
    /// The jobs in the way, if they are known.
    pub jobs: Vec<JobId>,
}

impl Refusal {
    pub(super) fn new(reason: Reason, needed: f64, found: f64) -> Self {
        Self { reason, needed, found, jobs: Vec::new() }
    }

    /// A reason without amounts.
    pub(super) fn plain(reason: Reason) -> Self {
        Self::new(reason, 0.0, 0.0)
    }
}
