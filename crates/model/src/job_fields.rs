//! The fields of a job, spelled once.
//!
//! From this list come [`JobSpec`], what an empty one is, how it is written and read, [`Needs`] (the same fields as people
//! and programs give them), the table of them in docs/reference/scenario.md and the schema in the OpenAPI document.

use std::sync::LazyLock;

use serde::de::MapAccess;
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use crate::job_read::give;
use crate::{
    Bytes, Checkpoint, FeatureNeed, Hints, Input, JobKind, Lifecycle, LocalityBias, Mib, MilliCpu, MilliGpu,
    Millis, Minutes, Name, NodeCount, Offload, OnDisconnect, PoolId, Price, Requeue, Scope, SetHint,
    TenantId, Tier, WorkloadId,
};

/// What the value of a field looks like in a file or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Flag,
    Whole,
    /// A number, whole or not.
    Number,
    /// A whole number of this unit, or text with a unit.
    Amount(&'static str),
    /// One of these words.
    Word(&'static [&'static str]),
    List(&'static Kind),
    /// An object with these fields.
    Object(&'static [&'static str]),
    /// An object with these fields, or a plain value for the usual one.
    Either(&'static Kind, &'static [&'static str]),
}

/// A field of a job, as it is documented.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    /// What holds where it is left out, as people say it.
    pub default: &'static str,
    pub doc: &'static str,
}

/// A type of a field: how it is given, and how it is kept. What may be unknown is kept as an option and given without.
pub trait Value: Sized {
    type Given;
    const KIND: Kind;
    fn kept(given: Self::Given) -> Self;
    fn given(&self) -> Option<Self::Given>;
}

macro_rules! values {
    ($($kind:expr => $($type:ty),+;)*) => {$($(
        impl Value for $type {
            type Given = Self;
            const KIND: Kind = $kind;
            fn kept(given: Self) -> Self {
                given
            }
            fn given(&self) -> Option<Self> {
                Some(self.clone())
            }
        }
    )+)*};
}

values! {
    Kind::Text => Name, WorkloadId, TenantId, PoolId;
    Kind::Flag => bool;
    Kind::Whole => u8, u32, u64, i32;
    Kind::Number => Minutes, Price;
    Kind::Amount(MilliCpu::UNIT) => MilliCpu;
    Kind::Amount(MilliGpu::UNIT) => MilliGpu;
    Kind::Amount(Mib::UNIT) => Mib;
    Kind::Amount(Bytes::UNIT) => Bytes;
    Kind::Amount(Millis::UNIT) => Millis;
    Kind::Word(&["never", "allow"]) => Offload;
    Kind::Word(&["FAST", "FLEX"]) => Tier;
    Kind::Word(&["build", "eval"]) => JobKind;
    Kind::Word(&["bounded", "unbounded", "reactive"]) => Lifecycle;
    Kind::Word(&["none", "auto", "manual"]) => Checkpoint;
    Kind::Word(&["gpu", "even", "cpu"]) => LocalityBias;
    Kind::Word(&["never", "on_loss", "always"]) => Requeue;
    Kind::Word(&["keep", "stop"]) => OnDisconnect;
    Kind::Word(&["tight", "spread", "any"]) => SetHint;
    Kind::Word(&["local", "cell", "org", "federation", "commons"]) => Scope;
    Kind::Either(&Kind::Whole, &["min", "max"]) => NodeCount;
    Kind::Either(&Kind::Text, &["name", "count"]) => FeatureNeed;
    Kind::Object(&["digest", "bytes", "tier"]) => Input;
    Kind::Object(&["prefer_peers", "prefer_regions", "avoid_peers", "colocate_with", "data"]) => Hints;
}

impl<T: Value<Given = T> + Clone> Value for Option<T> {
    type Given = T;
    const KIND: Kind = T::KIND;
    fn kept(given: T) -> Self {
        Some(given)
    }
    fn given(&self) -> Option<T> {
        self.clone()
    }
}

impl<T: Value + Clone> Value for Vec<T> {
    type Given = Self;
    const KIND: Kind = Kind::List(&T::KIND);
    fn kept(given: Self) -> Self {
        given
    }
    fn given(&self) -> Option<Self> {
        Some(self.clone())
    }
}

static EMPTY: LazyLock<JobSpec> = LazyLock::new(JobSpec::of_nothing);

fn name(text: &str) -> Name {
    Name::new(text).unwrap_or_else(|_| unreachable!("a literal name is valid"))
}

macro_rules! job_fields {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr, $shown:literal;)*) => {
        /// All that identical jobs have in common.
        ///
        /// It is written as the fields that differ from [`JobSpec::empty`], so that a journal stays small; what is left
        /// out is read as it is there.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct JobSpec {
            $($(#[doc = $doc])+ pub $field: $type,)*
        }

        /// What is said about a job: the fields of a [`JobSpec`], each given or not.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct Needs {
            $($(#[doc = $doc])+ pub $field: Option<<$type as Value>::Given>,)*
        }

        /// A field by its name.
        #[derive(Debug, Clone, Copy)]
        #[expect(non_camel_case_types, reason = "these are the names")]
        pub(crate) enum NeedKey { $($field,)* }

        impl NeedKey {
            pub(crate) fn of(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($field) => Some(Self::$field),)*
                    _ => None,
                }
            }
        }

        impl JobSpec {
            fn of_nothing() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl Serialize for JobSpec {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let differing = [$(self.$field != EMPTY.$field),*].into_iter().filter(|differs| *differs);
                let mut form = serializer.serialize_struct("JobSpec", differing.count())?;
                $(
                    if self.$field == EMPTY.$field {
                        form.skip_field(stringify!($field))?;
                    } else {
                        form.serialize_field(stringify!($field), &self.$field)?;
                    }
                )*
                form.end()
            }
        }

        impl Needs {
            /// All fields, in the order of the documentation.
            pub const FIELDS: &[Field] = &[$(Field {
                name: stringify!($field),
                kind: <$type as Value>::KIND,
                default: $shown,
                doc: concat!($($doc),+).trim_ascii_start(),
            },)*];

            /// What is given here, else what the template gives.
            #[must_use]
            pub fn or(self, template: Self) -> Self {
                Self { $($field: self.$field.or(template.$field),)* }
            }

            /// A job of which all that is not given is as in `base`.
            pub(crate) fn onto(self, base: &JobSpec) -> JobSpec {
                JobSpec {
                    $($field: match self.$field {
                        Some(given) => Value::kept(given),
                        None => base.$field.clone(),
                    },)*
                }
            }

            /// The fields in which a job differs from `base`.
            pub(crate) fn between(spec: &JobSpec, base: &JobSpec) -> Self {
                Self {
                    $($field: match spec.$field == base.$field {
                        true => None,
                        false => spec.$field.given(),
                    },)*
                }
            }

            pub(crate) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $(if let Some(given) = &self.$field {
                    map.serialize_entry(stringify!($field), given)?;
                })*
                Ok(())
            }

            pub(crate) fn take<'de, A: MapAccess<'de>>(&mut self, key: NeedKey, map: &mut A) -> Result<(), A::Error> {
                match key {
                    $(NeedKey::$field => give(stringify!($field), &mut self.$field, map),)*
                }
            }
        }
    };
}

job_fields! {
    /// The workload it was made from.
    workload: Option<WorkloadId> = None, "none";
    /// Whose it is.
    tenant: Option<TenantId> = None, "none";
    /// Who wants it: run times are learned by user.
    user: Option<Name> = None, "none; on a server, who submits it";
    /// What it has in common with jobs of its user that take as long: run times are learned by series.
    series: Option<Name> = None, "none; on a server, its name without digits";
    /// Where it was submitted.
    pool: Option<PoolId> = None, "none";
    /// What runs it, such as `process`, `container`, `wasm` or `llmcpp`.
    runtime: Name = name("container"), "`container`";
    /// CPU asked per node.
    cpu_milli: MilliCpu = MilliCpu::ZERO, "0";
    /// RAM asked per node.
    ram_mib: Mib = Mib::ZERO, "0";
    /// GPUs asked per node.
    gpu_count: u32 = 0, "1 if `vram_mib` is above 0, else 0";
    /// Memory asked of each GPU.
    vram_mib: Mib = Mib::ZERO, "0";
    /// Compute asked of each GPU; below 1000 only with one GPU, which is shared.
    gpu_milli: MilliGpu = MilliGpu::WHOLE, "1000";
    /// A slice of a partitioned GPU (MIG) instead of a whole one, such as `1g.10gb` or `2g`.
    gpu_slice: Option<Name> = None, "none";
    /// GPU models that will do.
    gpu_models: Vec<Name> = Vec::new(), "`[]`: any";
    /// Lowest GPU capability, such as `sm_80`.
    gpu_capability: Option<Name> = None, "none";
    /// Size of the model it loads; `llmcpp`, `coreml` and `onnx` need this, `vram_mib` or `ram_mib`.
    model_mib: Option<Mib> = None, "estimated";
    /// `allow`: an `llmcpp` model may spill into RAM or run without a GPU.
    offload: Offload = Offload::Never, "`never`";
    /// The image it runs in, in full: jobs of one image can be kept together.
    image: Option<Name> = None, "none; on a server, that of its container";
    /// Disk asked per node.
    storage_mib: Mib = Mib::ZERO, "0";
    /// Network asked, in Mbit/s.
    network_mbit_s: u32 = 0, "0";
    /// Where it should run.
    region: Option<Name> = None, "none";
    /// How long it is expected to run.
    expected_duration_ms: Millis = Millis::secs(3600), "1 h";
    /// Order within a push pool, higher first.
    priority: i32 = 0, "0";
    /// Which capacity it may use; `FLEX` waits for cheap one.
    tier: Tier = Tier::Fast, "`FAST`";
    /// The only provider it may use.
    provider: Option<Name> = None, "none";

    /// What a pull worker is asked to do; an `eval` reads a description and makes jobs.
    kind: JobKind = JobKind::Build, "`build`";
    /// CPU architecture; `builtin` runs anywhere.
    architecture: Name = name("builtin"), "`builtin`";
    /// Features that a node must have, each a name or `{ name, count }`.
    features: Vec<FeatureNeed> = Vec::new(), "`[]`";
    /// An `eval` that fetches.
    fetch_task: bool = false, "`false`";
    /// An `eval` that evaluates.
    evaluate_task: bool = false, "`false`";
    /// Wants a node that holds its inputs.
    prefer_local: bool = false, "`false`";
    /// Mostly downloads.
    network_bound: bool = false, "`false`";
    /// Jobs that wait for it.
    dependents: u64 = 0, "0";
    /// Jobs it waited for.
    direct_inputs: u64 = 0, "0";
    /// What it reads, each `{ digest, bytes, tier }`; `tier` is `hot` or `cold` (the default).
    inputs: Option<Vec<Input>> = None, "not declared";

    /// Nodes it takes together, all or nothing: a number, or `{ min, max }`.
    nodes: NodeCount = NodeCount::default(), "1";
    /// Takes whole nodes (batch policies).
    exclusive: bool = true, "`true`";
    /// How long it lives: until its walltime, until it is stopped, or growing and shrinking with demand.
    lifecycle: Lifecycle = Lifecycle::Bounded, "`bounded`";
    /// When it is stopped.
    walltime_ms: Millis = Millis::secs(3600), "1 h";
    /// Urgency, 0 (best effort) to 10 (critical).
    class: u8 = 5, "5; 10 if sensitive";
    /// Runs only on one known, undrifted configuration.
    sensitive: bool = false, "`false`";
    /// How it saves its work: not at all, on its own, or when asked.
    checkpoint: Checkpoint = Checkpoint::None, "`none`";
    /// Minutes that one checkpoint takes, 0 to 1440, whole or not; only with a checkpoint.
    checkpoint_minutes: Option<Minutes> = None, "none";
    /// Wants CPUs and GPUs of one memory domain.
    same_numa: bool = false, "`false`";
    /// Which closeness matters inside a node: links between GPUs, both alike, or memory domains.
    locality_bias: LocalityBias = LocalityBias::Even, "`even`";
    /// Can wait for cheap energy.
    flexible: bool = false, "`false`";
    /// Needs unified memory.
    unified_memory: bool = false, "`false`";
    /// When it goes back to the queue: `on_loss` is after a lost node, a preemption or a reclaim, `always` also after an
    /// exit other than 0.
    requeue: Requeue = Requeue::OnLoss, "`on_loss`";
    /// How often it may go back to the queue, 100 times at most; preemptions do not count.
    max_requeue: u32 = 3, "3";
    /// Pause after a run that failed, before the next one; it doubles with every failure, to 10 min at most.
    retry_delay_ms: Millis = Millis::secs(1), "1 s";
    /// Of an array: how many of its elements run at once, at most.
    at_once: Option<u32> = None, "none";
    /// Of an array: how many of its elements may fail; when more have, the rest is cancelled.
    max_fails: Option<u32> = None, "none";
    /// What its node does when it has lost the server: let it go on, beside a copy that the server may start elsewhere, or
    /// stop it before that.
    on_disconnect: OnDisconnect = OnDisconnect::Keep, "`keep`";
    /// After how much silence of the server its node stops it, with `on_disconnect = "stop"`; 5 s to 1 day, and less than the
    /// time after which its pool starts it elsewhere.
    disconnect_stop_after_ms: Millis = Millis::secs(90), "90 s";
    /// May be stopped for more urgent work.
    preemptible: bool = true, "`true`; `false` if sensitive";
    /// Less urgent work may be stopped for it; always so if sensitive.
    may_preempt: bool = true, "`true`";
    /// How its nodes should lie: in few groups, in many, or anywhere.
    hint: Option<SetHint> = None, "that of the pool";
    /// Most groups its nodes may lie in.
    max_span: Option<u32> = None, "that of the pool";
    /// Watts it draws per node.
    power_w: Option<u64> = None, "`busy_w` of the node";
    /// Storage traffic of the whole job in bytes per second.
    io_bytes_s: Bytes = Bytes::ZERO, "0";
    /// Starts in its first cycle or not at all.
    immediate: bool = false, "`false`; `true` if sensitive";
    /// How long it should wait at most; measured, not promised.
    qos_wait_ms: Option<Millis> = None, "none";
    /// What a reactive job's metric should stay below, in thousandths; without one it goes by how busy its nodes are.
    scale_target_milli: Option<u64> = None, "none";
    /// May shrink to its fewest nodes.
    resizable: bool = false, "`false`";
    /// Is accepted though not even all nodes known today, idle, would do.
    wait_for_capacity: bool = false, "`false`";
    /// May run on nodes in state `degraded`.
    allow_degraded: bool = false, "`false`";
    /// Names of locks, 8 at most: jobs of one tenant with the same name never run at once.
    mutex: Vec<Name> = Vec::new(), "`[]`";
    /// Its result may exist elsewhere and is then fetched, not built.
    fetchable: bool = false, "`false`";
    /// Most it may cost where its pool has prices: it waits for a node on which it costs no more.
    max_price: Option<Price> = None, "none";

    /// Wishes of a negotiated job: `prefer_peers`, `prefer_regions`, `avoid_peers`, `colocate_with` (16 together) and `data`
    /// (256). Avoiding beats preferring.
    hints: Hints = Hints::default(), "none";
    /// Most it pays, in credits per 1000 fuel.
    max_cost: Option<u64> = None, "none";
    /// Farthest peer that may run it.
    max_scope: Scope = Scope::Commons, "`commons`";
    /// The only scopes that may run it.
    allowed_scopes: Vec<Scope> = Vec::new(), "`[]`: all";
    /// The cell it would like.
    cell: Option<Name> = None, "none";
}

impl Default for JobSpec {
    fn default() -> Self {
        Self::empty()
    }
}

impl JobSpec {
    /// A job of the default runtime that asks for nothing.
    pub fn empty() -> Self {
        EMPTY.clone()
    }

    /// What is meant where nothing is said: some defaults follow from other fields.
    pub(crate) fn unsaid(sensitive: bool, vram: Mib) -> Self {
        let mut spec = Self::empty();
        if sensitive {
            (spec.class, spec.preemptible, spec.immediate) = (10, false, true);
        }
        // Whoever asks for GPU memory wants one device.
        spec.gpu_count = u32::from(!vram.is_zero());
        spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(text: &str) -> Result<Needs, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// A list of words has all that are understood, and no other.
    #[test]
    fn words_and_defaults_are_those_of_the_types() {
        let empty = serde_json::to_value(needs("{}").unwrap()).unwrap();
        assert_eq!(empty, serde_json::json!({}), "nothing given, nothing written");
        for field in Needs::FIELDS {
            if let Kind::Word(words) = field.kind {
                let known: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                let error = needs(&format!("{{\"{}\": \"?\"}}", field.name)).unwrap_err();
                let listed = error.split("expected ").nth(1).unwrap().split(" at line").next().unwrap();
                let listed: Vec<&str> = listed.trim_start_matches("one of ").split(", ").collect();
                let listed: Vec<&str> = listed.iter().flat_map(|word| word.split(" or ")).collect();
                assert_eq!(listed, known, "{}", field.name);
            }
            let shown = field.default.split(';').next().unwrap().split(':').next().unwrap();
            let default = match (shown, field.kind) {
                ("none" | "estimated" | "not declared" | "that of the pool" | "`busy_w` of the node", _) => {
                    continue;
                }
                ("1 if `vram_mib` is above 0, else 0", _) => "0".to_owned(),
                ("1 h", _) => "3600000".to_owned(),
                ("90 s", _) => "90000".to_owned(),
                ("1 s", _) => "1000".to_owned(),
                (word, Kind::Text | Kind::Word(_)) => format!("\"{}\"", word.trim_matches('`')),
                (word, _) => word.trim_matches('`').to_owned(),
            };
            let given = needs(&format!("{{\"{}\": {default}}}", field.name)).unwrap();
            assert_eq!(given.onto(&JobSpec::empty()), JobSpec::empty(), "{}", field.name);
        }
    }

    #[test]
    fn null_says_nothing_and_unknown_fields_are_named() {
        assert_eq!(needs(r#"{"cpu_milli": null}"#), Ok(Needs::default()));
        assert!(
            needs(r#"{"cpu_mili": 1}"#)
                .unwrap_err()
                .starts_with("unknown field `cpu_mili`, expected one of `workload`")
        );
        assert!(needs(r#"{"id": "x"}"#).unwrap_err().starts_with("`id` is set by the server"));
        assert!(needs(r#"{"class": 1, "class": 1}"#).unwrap_err().starts_with("duplicate field `class`"));
    }

    #[test]
    fn the_names_of_the_command_line_will_do() {
        let plain = needs(r#"{"cpu": 1.5, "memory": "4G", "gpu": 2, "walltime": "1h30m", "retries": 5}"#);
        let exact = r#"{"cpu_milli": 1500, "ram_mib": 4096, "gpu_count": 2, "walltime_ms": 5400000, "max_requeue": 5, "requeue": "always"}"#;
        assert_eq!(plain, needs(exact));
        assert_eq!(needs(r#"{"cpu": "500m"}"#), needs(r#"{"cpu_milli": 500}"#));
        for (wrong, words) in [
            (r#"{"memory": 4}"#, "`memory` needs a unit, such as 4GiB"),
            (r#"{"walltime": 2}"#, "`walltime` needs a unit, such as 2h"),
            (r#"{"gpu": 0.5}"#, "`gpu`: write a whole number"),
            (r#"{"cpu": 1, "cpu_milli": 1000}"#, "duplicate field `cpu_milli`"),
            (r#"{"cpu_milli": 1000, "cpu": 1}"#, "duplicate field `cpu_milli`"),
        ] {
            assert!(needs(wrong).unwrap_err().starts_with(words), "{wrong}: {:?}", needs(wrong));
        }
    }

    #[test]
    fn a_job_comes_before_its_template() {
        let (job, template) =
            (needs(r#"{"class": 1}"#).unwrap(), needs(r#"{"class": 2, "priority": 3}"#).unwrap());
        assert_eq!(job.or(template), needs(r#"{"class": 1, "priority": 3}"#).unwrap());
    }
}
