//! The nouns of Landfall.
//!
//! Ids, amounts and time are newtypes over integers and strings that check themselves when they are made; nodes, GPUs,
//! blocks, pools, tenants, workloads and jobs are plain data built from them. A [`Situation`] is everything a decision
//! may look at, and a [`scenario`] file is its written form.
//!
//! This crate never reads a clock, a file or the network, draws no random number and decides nothing: it only says what
//! exists. Start at [`Situation`]; how a situation is judged is the business of `landfall-policy`.
#![forbid(unsafe_code)]

#[macro_use]
mod settings;

mod amount;
mod id;
mod image_name;
mod indices;
mod time;

mod block;
mod gpu;
pub mod gpu_table;
mod history;
mod instance;
mod job;
mod job_fields;
mod job_make;
mod job_read;
mod likeness;
mod node;
mod placement;
mod pool;
mod tenant;
mod topology;

mod situation;

pub mod answer;
pub mod fingerprint;
pub mod life;
pub mod reason;
pub mod scenario;
pub mod slices;
pub mod verdict;

pub use amount::{AmountError, Bytes, Mib, MilliCpu, MilliGpu, Money, Price};
pub use block::{Block, BlockStatus, Provider, ProviderKind, Shape, Tier};
pub use gpu::{Gpu, Slices};
pub use gpu_table::MigProfile;
pub use history::{HistoryRow, Prediction, predicted_duration};
pub use id::{BlockId, Digest, IdError, JobId, Name, NodeId, PoolId, TenantId, WorkloadId};
pub use image_name::{IMAGES_MAX, image_name};
pub use indices::{Indices, LISTED_MAX};
pub use instance::{Instance, Window};
pub use job::{
    Checkpoint, FeatureNeed, Hints, Input, Job, JobError, JobKind, Lifecycle, LocalityBias, NodeCount,
    Offload, OnDisconnect, RETRY_DELAY_MAX, Requeue, Scope, Warmth,
};
pub use job_fields::{Field, JobSpec, Kind, Needs};
pub use job_make::{JobFacts, JobMaker};
pub use node::{
    Approval, Capabilities, Correction, DeviceHealth, Metrics, Node, NodePower, NodeState, Peer,
    PlacementError, Platform, Thermal,
};
pub use placement::{DeviceShare, GpuShape, Placement, Slice};
pub use pool::{
    Backfill, BackfillOrder, BatchSettings, Caps, CheckpointSettings, Discipline, Dispatch, Learn,
    LoanSettings, Pool, PoolError, PreemptRule, PriceBasis, PriceSettings, PullPreset, PullSettings,
    PushSettings, QueueOrder, QuotaOnSubmit, Region, Rescore, Reservations, SetHint, Usage,
};
pub use situation::{JobReport, MixShare, PolicySetting, Situation, SituationError, World};
pub use tenant::{Budget, Quota, Tenant};
pub use time::{Millis, Minutes, Time, span};
pub use topology::{Links, MemoryDomain};
