//! Why something is not so: one closed vocabulary for filters, ledger, planner, quotas and answers.
//!
//! A [`Reason`] has a stable name for programs, says what it is about, what it means in general, what would help and what
//! should make somebody look again. What it means *here* (how much is missing, on how many nodes) is a sentence made from
//! it and from amounts: [`Reason::of_nodes`].

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Mib, MilliCpu, MilliGpu, Millis, Name, Time};

/// What a reason is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Concern {
    /// The job itself: its time, its dependencies, somebody's wish.
    Job,
    /// Limits of its tenant.
    Tenant,
    /// One node after the other.
    Node,
    /// The pool as a whole: its order, its limits, its plan.
    Pool,
    /// What the policy's terms make of it.
    Score,
}

/// What happens when a refused job should be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Wake {
    /// The node sends a heartbeat.
    Heartbeat,
    /// An operator changes the node's approval.
    ApprovalChange,
    /// A known instant passes.
    Timer,
    /// The node registers anew.
    RegistrationChange,
    /// A placement or hold on the node ends.
    PlacementEnded,
    /// A node or a block joins.
    NodeAdded,
    /// A lease is extended.
    LeaseExtended,
    /// The job itself changes.
    JobChanged,
    /// Something the job waits for ends.
    DependencyEnded,
    /// A node changes its state.
    NodeStateChange,
    /// Nothing will help this pair.
    Nothing,
}

/// Whether waiting can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Finality {
    /// The node may do later.
    NotNow,
    /// This node will never do for this job as it stands.
    Never,
}

macro_rules! reasons {
    ($($name:ident = $text:literal, $concern:ident, $wake:ident, $said:literal, $help:literal;)*) => {
        /// A reason by its stable name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $(#[doc = $said] $name,)* }

        impl Reason {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its stable name, for programs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            pub const fn concerns(self) -> Concern {
                match self { $(Self::$name => Concern::$concern,)* }
            }

            /// What usually makes it worth looking again.
            pub const fn wake(self) -> Wake {
                match self { $(Self::$name => Wake::$wake,)* }
            }

            /// What would help, for people; empty if nothing but waiting would.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$name => $help,)* }
            }

            /// The sentence, or what is said of several nodes.
            const fn words(self) -> &'static str {
                match self { $(Self::$name => $said,)* }
            }
        }
    };
}

// Name, name for programs, what it is about, what wakes it, what it means, what would help. Of nodes the words are what
// several of them do: "nodes *are offline*".
reasons! {
    Dependency = "dependency", Job, DependencyEnded, "a job it waits for has not ended", "wait for that job, or cancel it";
    NotReady = "not_ready", Job, DependencyEnded, "it waits for another job or for its time", "";
    Mutex = "mutex", Job, PlacementEnded, "another job has a lock it needs", "wait for the holder to end, or submit without the lock";
    UserHold = "user_hold", Job, JobChanged, "it is held back", "release it";
    NotBefore = "not_before", Job, Timer, "its time has not come", "";
    ArrayLimit = "array_limit", Job, PlacementEnded, "as many elements of its array as may run at once are on their way", "wait for one of them to end";
    Suspended = "suspended", Job, JobChanged, "it is suspended", "";
    Staging = "staging", Job, Timer, "its inputs are not near yet", "";
    Negotiating = "negotiating", Job, Timer, "no peer's offer has been accepted yet", "";
    StaleJob = "stale_job", Job, JobChanged, "it does not wait for nodes now", "";

    QuotaNodes = "quota_nodes", Tenant, PlacementEnded, "its tenant may not hold more nodes", "wait for jobs of its tenant to end, ask for less, or raise the quota";
    QuotaGpus = "quota_gpus", Tenant, PlacementEnded, "its tenant may not hold more GPUs", "wait for jobs of its tenant to end, ask for less, or raise the quota";
    QuotaCpus = "quota_cpus", Tenant, PlacementEnded, "its tenant may not hold more CPU cores", "wait for jobs of its tenant to end, ask for less, or raise the quota";
    GpuHours = "gpu_hours", Tenant, Timer, "the GPU-hours of its tenant are used up", "ask for less, or raise the tenant's GPU-hours";

    Budget = "budget", Tenant, Timer, "the budget of its tenant is spent", "wait until earlier runs no longer count, ask for cheaper nodes, or raise the tenant's budget";

    NodeState = "node_state", Node, NodeStateChange, "are not in service", "bring nodes back into service";
    NodeTaken = "node_taken", Node, PlacementEnded, "are taken by other work", "wait for jobs to end, ask for fewer nodes, or add nodes";
    GpuModel = "gpu_model", Node, RegistrationChange, "have GPUs of other models", "allow more models with gpu_models, or add nodes that have one of them";
    GpuCount = "gpu_count", Node, RegistrationChange, "have too few GPUs", "ask for fewer GPUs per node and more nodes, or add larger nodes";
    GpuMemory = "gpu_memory", Node, RegistrationChange, "have GPUs with too little memory", "ask for less memory per GPU, or add larger GPUs";
    Cpu = "cpu", Node, PlacementEnded, "have too little CPU", "ask for less CPU per node, or add larger nodes";
    Memory = "memory", Node, RegistrationChange, "have too little RAM", "ask for less RAM per node, or add larger nodes";
    Feature = "feature", Node, RegistrationChange, "lack a feature it needs", "drop the need, or add nodes that have the feature";
    UnifiedMemory = "unified_memory", Node, RegistrationChange, "have no unified memory", "drop the need, or add nodes that have it";
    Fingerprint = "fingerprint", Node, RegistrationChange, "are not of the configuration it must have", "bring nodes back to one configuration";
    BlockEnd = "block_end", Node, LeaseExtended, "are taken out before it would end", "shorten the walltime, or extend the lease";
    Held = "held", Node, PlacementEnded, "are kept for another job", "wait for the hold to end";
    Quarantine = "quarantine", Node, NodeStateChange, "are in quarantine", "bring nodes back into service, or set allow_degraded";
    Offline = "offline", Node, Heartbeat, "are offline", "check their agents and the network";
    NotApproved = "not_approved", Node, ApprovalChange, "are not approved yet", "approve them: `landfall node NODE approve`";
    Paused = "paused", Node, Heartbeat, "are paused by their owners", "resume them";
    CoolingDown = "cooling_down", Node, Timer, "are cooling down after a fault", "";
    RuntimeMissing = "runtime_missing", Node, RegistrationChange, "do not have its runtime", "install the runtime, or use another one";
    PlatformMismatch = "platform_mismatch", Node, Nothing, "are of another platform", "use another runtime, or nodes of another platform";
    CpuShort = "cpu_short", Node, PlacementEnded, "have too little CPU", "ask for less CPU, or add larger nodes";
    RamShort = "ram_short", Node, PlacementEnded, "have too little RAM", "ask for less RAM, or add larger nodes";
    GpuMissing = "gpu_missing", Node, RegistrationChange, "have too few GPUs", "ask for fewer GPUs, or add nodes that have them";
    VramShort = "vram_short", Node, PlacementEnded, "have too little GPU memory", "ask for less GPU memory, or add larger GPUs";
    Ram = "ram", Node, PlacementEnded, "have too little RAM", "ask for less RAM, or add larger nodes";
    Gpu = "gpu", Node, PlacementEnded, "have too few GPUs that would do", "ask for fewer or smaller GPUs, or add nodes that have them";
    Architecture = "architecture", Node, RegistrationChange, "are of another architecture", "add nodes of that architecture";
    Capability = "capability", Node, RegistrationChange, "cannot do this kind of work", "add a worker that can";
    Kind = "kind", Node, Heartbeat, "ask for another kind of work now", "";
    Needs = "needs", Node, PlacementEnded, "have too little room for what it needs", "ask for less, or add larger workers";
    TenantNotServed = "tenant", Node, RegistrationChange, "do not serve its tenant", "submit it for a tenant they serve, or let them serve this one";
    Draining = "draining", Node, NodeStateChange, "take no new work", "return them to service";
    AtCapacity = "at_capacity", Node, PlacementEnded, "run as much as they may", "wait for a job to end, or add workers";
    JobsFull = "jobs_full", Node, PlacementEnded, "run as many jobs as they may", "wait for a job to end, or add nodes";
    BlockInactive = "block_inactive", Node, NodeAdded, "have not been delivered yet", "wait for the provider";
    Expiry = "expiry", Node, LeaseExtended, "have a lease that ends too soon", "extend the lease, or expect a shorter run";
    Tier = "tier", Node, NodeAdded, "are of another tier", "submit it for their tier, or add capacity of its own";
    OtherPool = "pool", Node, JobChanged, "belong to another pool", "submit it to their pool";
    Provider = "provider", Node, NodeAdded, "are of another provider", "submit it without a provider, or lease from the one it names";
    Avoided = "avoided", Node, JobChanged, "are peers it avoids", "take them out of avoid_peers";
    OverBudget = "over_budget", Node, JobChanged, "ask more than it would pay", "raise max_cost";
    DoesNotFit = "does_not_fit", Node, PlacementEnded, "have too little room for it", "wait until a peer has room, or ask for less";
    StaleCapacity = "stale_capacity", Node, Heartbeat, "have not said lately what they have", "";
    Scope = "scope", Node, JobChanged, "are farther away than it allows", "widen max_scope or allowed_scopes";
    Trust = "trust", Node, JobChanged, "are not trusted enough", "raise their trust";
    MaxPrice = "max_price", Node, Timer, "cost more than it may", "raise max_price, or ask for cheaper hardware";
    NoEligibleNode = "no_eligible_node", Node, NodeAdded, "may not take it", "add a worker that can run it, or ask for less";

    NoNode = "no_node", Pool, NodeAdded, "no node can take it", "add a node that can, or ask for less";
    NoCapacityNow = "no_capacity_now", Pool, PlacementEnded, "no node has room for it now", "wait for jobs to end, or add nodes";
    Unsatisfiable = "unsatisfiable", Pool, NodeAdded, "no node, and none that could be leased, is large enough", "ask for less, or add larger nodes";
    NoJob = "no_job", Pool, NodeAdded, "no waiting job may run here now", "";
    Nodes = "nodes", Pool, PlacementEnded, "too few nodes are free", "wait for jobs to end, ask for fewer nodes, or add nodes";
    Span = "span", Pool, PlacementEnded, "the free nodes lie in too many groups", "allow more groups with max_span, or wait for nodes of one group";
    Power = "power", Pool, PlacementEnded, "the pool or the cluster would draw too much power", "wait, lower power_w, or raise power_cap_w of the pool, or the cap of the cluster";
    Io = "io", Pool, PlacementEnded, "the pool or the cluster would move too much data", "wait, lower io_bytes_s, or raise io_cap of the pool, or the cap of the cluster";
    Reserved = "reserved", Pool, Timer, "it would delay a job that has a reservation", "shorten the walltime so that it ends before the reservation begins, or ask for fewer nodes";
    Loan = "loan", Pool, PlacementEnded, "other pools do not lend enough nodes", "let other pools lend more, or wait";
    PreemptCost = "preempt_cost", Pool, Timer, "stopping less urgent work for it would cost too much", "wait, or raise preempt_cost_max of the pool";
    StrictOrder = "strict_order", Pool, PlacementEnded, "a job ahead of it waits, and nothing overtakes", "wait, or give the pool a discipline that lets later jobs pass";
    Preempting = "preempting", Pool, Timer, "less urgent work is being stopped for it", "";
    ScanMax = "scan_max", Pool, Timer, "the queue is longer than one cycle looks at", "wait, or raise scan_max of the pool";
    NeverFits = "never_fits", Pool, NodeAdded, "not even all nodes, idle, would do", "ask for less, or add nodes";
    BeyondHorizon = "beyond_horizon", Pool, PlacementEnded, "there is no slot as far as the pool plans", "give running work a walltime, or add nodes";
    Conflict = "conflict", Pool, PlacementEnded, "the node it would get was given away meanwhile", "";
    NextCycle = "next_cycle", Pool, Timer, "it would start in the next cycle", "";
    NextLook = "next_look", Pool, Timer, "it is placed when it is looked at next", "";
    NextRequest = "next_request", Pool, Heartbeat, "a worker may take it with its next request", "";

    Vetoed = "vetoed", Score, PlacementEnded, "a rule of the policy vetoes every node", "lift what the rule looks at, or add other nodes";
    BelowFloor = "below_floor", Score, Timer, "its best total is below the policy's floor", "wait: points rise with waiting and with reports";
    MinScore = "min_score", Score, Timer, "its best total is not above the policy's min_score", "lower min_score, or add nodes that suit it better";
    AllTooTight = "all_too_tight", Score, PlacementEnded, "every node that admits it is too tight", "set fallback_too_tight, or add larger nodes";
    TooTight = "too_tight", Score, PlacementEnded, "it is too tight, and fallback_too_tight is off", "set fallback_too_tight, or add larger nodes";

    LedgerStaleJob = "ledger:stale_job", Job, JobChanged, "it does not wait for nodes now", "";
    LedgerNodeState = "ledger:node_state", Pool, NodeStateChange, "a node it would get takes no work", "bring the node back into service";
    LedgerNodeTaken = "ledger:node_taken", Pool, PlacementEnded, "what it would get was given away meanwhile, or is kept for another job", "";
    LedgerQuotaNodes = "ledger:quota_nodes", Tenant, PlacementEnded, "its tenant may not hold more nodes", "wait for jobs of its tenant to end, ask for less, or raise the quota";
    LedgerQuotaGpus = "ledger:quota_gpus", Tenant, PlacementEnded, "its tenant may not hold more GPUs", "wait for jobs of its tenant to end, ask for less, or raise the quota";
    LedgerQuotaCpus = "ledger:quota_cpus", Tenant, PlacementEnded, "its tenant may not hold more CPU cores", "wait for jobs of its tenant to end, ask for less, or raise the quota";
    LedgerGpuHours = "ledger:gpu_hours", Tenant, Timer, "the GPU-hours of its tenant are used up", "ask for less, or raise the tenant's GPU-hours";
    LedgerMutex = "ledger:mutex", Job, PlacementEnded, "another job has a lock it needs", "wait for the holder to end, or submit without the lock";
    LedgerPower = "ledger:power", Pool, PlacementEnded, "the pool or the cluster would draw too much power", "wait, lower power_w, or raise power_cap_w of the pool, or the cap of the cluster";
    LedgerIo = "ledger:io", Pool, PlacementEnded, "the pool or the cluster would move too much data", "wait, lower io_bytes_s, or raise io_cap of the pool, or the cap of the cluster";
    LedgerLoan = "ledger:loan", Pool, PlacementEnded, "a node it would get may not be lent", "let the other pool lend it, or wait";
}

impl Reason {
    /// The reason with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.name() == name)
    }

    /// Whether it is about what a tenant may hold at once.
    pub const fn is_quota(self) -> bool {
        matches!(self, Self::QuotaNodes | Self::QuotaGpus | Self::QuotaCpus)
    }

    /// The same as said by the ledger about the last proposal; itself if the ledger never says it.
    #[must_use]
    pub const fn by_ledger(self) -> Self {
        match self {
            Self::StaleJob => Self::LedgerStaleJob,
            Self::NodeState => Self::LedgerNodeState,
            Self::NodeTaken => Self::LedgerNodeTaken,
            Self::QuotaNodes => Self::LedgerQuotaNodes,
            Self::QuotaGpus => Self::LedgerQuotaGpus,
            Self::QuotaCpus => Self::LedgerQuotaCpus,
            Self::GpuHours => Self::LedgerGpuHours,
            Self::Mutex => Self::LedgerMutex,
            Self::Power => Self::LedgerPower,
            Self::Io => Self::LedgerIo,
            Self::Loan => Self::LedgerLoan,
            other => other,
        }
    }

    /// What it means, for people, where no amounts are known.
    pub fn said(self) -> Cow<'static, str> {
        match self.concerns() {
            Concern::Node => Cow::Owned(format!("nodes {}", self.words())),
            _ => Cow::Borrowed(self.words()),
        }
    }

    /// What stands against a job on `against` of `of` nodes: what it needs, and the most that one of these nodes has.
    /// `passes` if waiting may change it on one of them.
    pub fn of_nodes(
        self,
        needed: &Quantity,
        most: Option<&Quantity>,
        against: u64,
        of: u64,
        passes: bool,
    ) -> String {
        if let (Self::MaxPrice, Quantity::Number(most)) = (self, needed) {
            return format!("may cost {most} at most; {}", self.predicate(against, of));
        }
        let Some((need, kind)) = self.need(needed) else { return self.predicate(against, of) };
        let free = if passes { " free now" } else { "" };
        let (most, memory) = most.map_or((None, None), Quantity::bare);
        let memory = memory
            .map(|most| format!("the most memory{} on one is {most}", if passes { " free" } else { "" }));
        let (have, lack) = if against == 1 { ("has", "does not have") } else { ("have", "do not have") };
        let aside = |words: Option<String>| words.map(|words| format!(" ({words})")).unwrap_or_default();
        let tail = match (kind, against == of, of) {
            (Need::Fact, true, 1) => "the only node does not have it".to_owned(),
            (Need::Fact, true, _) => "no node has it".to_owned(),
            (Need::Fact, false, _) => format!("{against} of {of} nodes {lack} it"),
            (_, true, 1) => format!(
                "the only node has {}{free}{}",
                most.as_deref().unwrap_or("less"),
                memory.map(|memory| format!("; {memory}")).unwrap_or_default()
            ),
            (kind, true, _) => {
                let largest =
                    |most| if passes { format!("at most {most}") } else { format!("the largest has {most}") };
                let known = memory.or_else(|| most.filter(|most| most != "none").map(largest));
                format!("no node has {}{free}{}", kind.that(), aside(known))
            }
            (_, false, _) => {
                let known = memory.or_else(|| most.map(|most| format!("at most {most}")));
                format!("{against} of {of} nodes {have} less{free}{}", aside(known))
            }
        };
        format!("needs {need}; {tail}")
    }

    /// The same of so many nodes, where nothing else is known of them.
    pub fn of_some(self, nodes: u64) -> String {
        let words = self.words();
        if nodes == 1 { format!("1 node {}", singular(words)) } else { format!("{nodes} nodes {words}") }
    }

    fn predicate(self, against: u64, of: u64) -> String {
        let words = self.words();
        if self.concerns() != Concern::Node {
            return words.to_owned();
        }
        match (against == of, of) {
            (true, 1) => format!("the only node {}", singular(words)),
            (true, 2) => format!("both nodes {words}"),
            (true, _) => format!("all {of} nodes {words}"),
            (false, _) if against == 1 => format!("1 of {of} nodes {}", singular(words)),
            (false, _) => format!("{against} of {of} nodes {words}"),
        }
    }

    /// What is needed, in words, where that says more than what nodes are like.
    fn need(self, needed: &Quantity) -> Option<(String, Need)> {
        let need = match (self, needed) {
            (Self::Feature, Quantity::Names(names)) if names.len() == 1 => {
                (format!("the feature {needed}"), Need::Fact)
            }
            (Self::Feature, Quantity::Names(_)) => (format!("the features {needed}"), Need::Fact),
            (Self::GpuModel, Quantity::Names(names)) => {
                let names: Vec<&str> = names.iter().map(Name::as_str).collect();
                (format!("a GPU of model {}", names.join(" or ")), Need::Fact)
            }
            (Self::RuntimeMissing, Quantity::Name(name)) => (format!("the runtime `{name}`"), Need::Fact),
            (Self::UnifiedMemory, _) => ("unified memory".to_owned(), Need::Fact),
            (Self::GpuMemory, Quantity::Mib(mib)) => (format!("{mib} on each GPU"), Need::Much),
            (Self::GpuCount, Quantity::Count(count)) => (gpus(*count), Need::of(*count)),
            (_, Quantity::Devices { count, .. }) => (needed.to_string(), Need::of(*count)),
            (_, Quantity::CpuMilli(cpu)) => (cpu.to_string(), Need::Much),
            (Self::DoesNotFit, Quantity::Mib(mib)) => (format!("{mib} of storage"), Need::Much),
            (_, Quantity::Mib(mib)) => (format!("{mib} of RAM"), Need::Much),
            (Self::Expiry, Quantity::Ms(span)) => (format!("a lease of {span}"), Need::Much),
            _ => return None,
        };
        Some(need)
    }
}

/// What kind of thing is needed; decides how "has it" is said.
#[derive(Clone, Copy)]
enum Need {
    Fact,
    Much,
    One,
    Several,
}

impl Need {
    fn of(count: u64) -> Self {
        if count == 1 { Self::One } else { Self::Several }
    }

    fn that(self) -> &'static str {
        match self {
            Self::Much | Self::Fact => "that much",
            Self::One => "one",
            Self::Several => "them",
        }
    }
}

/// What several do, said of one.
fn singular(words: &str) -> String {
    let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
    let rest = rest.replace("their owners", "its owner");
    let verb = match verb {
        "are" => "is",
        "have" => "has",
        "do" => "does",
        "cannot" => "cannot",
        other => return format!("{other}s {rest}"),
    };
    format!("{verb} {rest}")
}

fn gpus(count: u64) -> String {
    if count == 1 { "a GPU".to_owned() } else { format!("{count} GPUs") }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<'de, str>::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| serde::de::Error::custom(format!("there is no reason `{name}`")))
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Reason {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, Type};
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(Self::ALL.iter().map(|reason| reason.name())))
            .description(Some("A reason by its stable name."))
            .into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Reason {}

/// An amount or a fact in a refusal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    CpuMilli(MilliCpu),
    Mib(Mib),
    /// GPU compute in thousandths.
    GpuMilli(MilliGpu),
    /// A number of things.
    Count(u64),
    /// A span in ms.
    Ms(Millis),
    /// An instant in ms.
    AtMs(Time),
    Number(f64),
    Name(Name),
    Names(Vec<Name>),
    /// A fixed word.
    Word(Cow<'static, str>),
    /// Devices that would do, and the most memory free on any one.
    Free {
        devices: u64,
        /// Left out where devices do not say how much they have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most_vram_mib: Option<Mib>,
    },
    /// Devices with at least so much memory and compute each.
    Devices {
        count: u64,
        vram_mib: Mib,
        gpu_milli: MilliGpu,
    },
}

impl Quantity {
    /// A fixed word.
    pub const fn word(word: &'static str) -> Self {
        Self::Word(Cow::Borrowed(word))
    }

    /// The larger of two amounts of one kind; of different kinds, the first.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        let is_larger = match (&self, &other) {
            (Self::CpuMilli(a), Self::CpuMilli(b)) => b > a,
            (Self::Mib(a), Self::Mib(b)) => b > a,
            (Self::GpuMilli(a), Self::GpuMilli(b)) => b > a,
            (Self::Count(a), Self::Count(b)) => b > a,
            (Self::Ms(a), Self::Ms(b)) => b > a,
            (Self::Number(a), Self::Number(b)) => b > a,
            (Self::Free { devices: a, most_vram_mib: x }, Self::Free { devices: b, most_vram_mib: y }) => {
                (b, y) > (a, x)
            }
            (Self::Devices { count: a, .. }, Self::Devices { count: b, .. }) => b > a,
            _ => false,
        };
        if is_larger { other } else { self }
    }

    /// As said beside what is needed: an amount, or the memory of the largest device where none would do.
    fn bare(&self) -> (Option<String>, Option<Mib>) {
        match self {
            Self::Name(_) | Self::Names(_) | Self::Word(_) | Self::AtMs(_) => (None, None),
            Self::Free { devices: 0, most_vram_mib } => (Some("none".to_owned()), *most_vram_mib),
            Self::Count(0) | Self::Devices { count: 0, .. } => (Some("none".to_owned()), None),
            Self::Devices { count: devices, .. } | Self::Free { devices, .. } => {
                (Some(devices.to_string()), None)
            }
            _ => (Some(self.to_string()), None),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuMilli(x) => x.fmt(f),
            Self::Mib(x) => x.fmt(f),
            Self::GpuMilli(x) => x.fmt(f),
            Self::Count(x) => x.fmt(f),
            Self::Ms(x) => x.fmt(f),
            Self::AtMs(x) => x.fmt(f),
            Self::Number(x) => x.fmt(f),
            Self::Name(x) => x.fmt(f),
            Self::Names(x) if x.is_empty() => f.write_str("none"),
            Self::Names(x) => f.write_str(&x.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")),
            Self::Word(x) => f.write_str(x),
            Self::Free { devices, most_vram_mib: Some(most) } => {
                write!(f, "{devices} that would do, most free memory {most}")
            }
            Self::Free { devices, most_vram_mib: None } => write!(f, "{devices} that would do"),
            Self::Devices { count, vram_mib, gpu_milli } => {
                f.write_str(&gpus(*count))?;
                if !vram_mib.is_zero() {
                    write!(f, " with {vram_mib}{}", if *count == 1 { "" } else { " each" })?;
                }
                if *gpu_milli < MilliGpu::WHOLE {
                    write!(f, ", {gpu_milli}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Quantity {
        Quantity::Names(names.iter().map(|name| Name::new(name).unwrap()).collect())
    }

    #[test]
    fn every_name_is_its_own_and_reads_back() {
        for &reason in Reason::ALL {
            assert_eq!(Reason::named(reason.name()), Some(reason));
            assert!(!reason.said().is_empty() && !reason.said().ends_with('.'), "{reason}");
        }
        assert_eq!(Reason::named("because"), None);
    }

    #[test]
    fn sentences_say_what_is_missing_and_on_how_many_nodes() {
        let gpus = |count, gib| {
            let (vram_mib, gpu_milli) = (Mib::gib(gib), MilliGpu::WHOLE);
            Quantity::Devices { count, vram_mib, gpu_milli }
        };
        let free = |devices, gib| Quantity::Free { devices, most_vram_mib: Some(Mib::gib(gib)) };
        let (count, none) = (Quantity::Count, Quantity::word(""));
        let cores = |cores: u64| Quantity::CpuMilli(MilliCpu::new(cores * 1000));
        let ram = |gib| Quantity::Mib(Mib::gib(gib));
        let wasm = Quantity::Name(Name::new("wasm").unwrap());
        let never = |reason: Reason, needed, most, against, of| {
            reason.of_nodes(&needed, Some(&most), against, of, false)
        };
        let now = |reason: Reason, needed, most, against, of| {
            reason.of_nodes(&needed, Some(&most), against, of, true)
        };
        for (said, expected) in [
            (
                never(Reason::GpuMissing, gpus(4, 24), count(2), 5, 5),
                "needs 4 GPUs with 24 GiB each; no node has them (the largest has 2)",
            ),
            (never(Reason::GpuMissing, gpus(1, 0), count(0), 3, 3), "needs a GPU; no node has one"),
            (never(Reason::GpuMissing, gpus(2, 0), count(0), 1, 1), "needs 2 GPUs; the only node has none"),
            (
                now(Reason::Gpu, gpus(4, 24), free(3, 24), 2, 2),
                "needs 4 GPUs with 24 GiB each; no node has them free now (at most 3)",
            ),
            (
                now(Reason::Gpu, gpus(1, 70), free(0, 50), 2, 3),
                "needs a GPU with 70 GiB; 2 of 3 nodes have less free now (the most memory free on one is 50 GiB)",
            ),
            (
                now(Reason::CpuShort, cores(8), cores(2), 3, 5),
                "needs 8 cores; 3 of 5 nodes have less free now (at most 2 cores)",
            ),
            (
                never(Reason::Cpu, cores(64), cores(32), 5, 5),
                "needs 64 cores; no node has that much (the largest has 32 cores)",
            ),
            (never(Reason::Memory, ram(64), ram(16), 1, 1), "needs 64 GiB of RAM; the only node has 16 GiB"),
            (
                never(Reason::RuntimeMissing, wasm, names(&["process"]), 1, 3),
                "needs the runtime `wasm`; 1 of 3 nodes does not have it",
            ),
            (
                never(Reason::Feature, names(&["avx512"]), names(&[]), 3, 3),
                "needs the feature avx512; no node has it",
            ),
            (
                never(Reason::GpuModel, names(&["A100", "H100"]), none.clone(), 2, 2),
                "needs a GPU of model A100 or H100; no node has it",
            ),
            (now(Reason::Offline, none.clone(), none.clone(), 1, 1), "the only node is offline"),
            (now(Reason::Offline, none.clone(), none.clone(), 4, 4), "all 4 nodes are offline"),
            (now(Reason::Paused, none.clone(), none.clone(), 1, 4), "1 of 4 nodes is paused by its owner"),
            (now(Reason::NotReady, none.clone(), none, 2, 2), "it waits for another job or for its time"),
            (
                now(Reason::MaxPrice, Quantity::Number(0.1), Quantity::Number(0.2), 1, 3),
                "may cost 0.1 at most; 1 of 3 nodes costs more than it may",
            ),
        ] {
            assert_eq!(said, expected);
        }
    }
}
