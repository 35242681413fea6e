//! How a job's spec is written: only what is not as in an empty one.

use std::sync::LazyLock;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::JobSpec;

static EMPTY: LazyLock<JobSpec> = LazyLock::new(JobSpec::empty);

impl Default for JobSpec {
    fn default() -> Self {
        EMPTY.clone()
    }
}

/// Names every field once. The pattern has no `..`, so a field that is added and not named here does not compile.
macro_rules! written_if_different {
    ($($field:ident),* $(,)?) => {
        impl Serialize for JobSpec {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let Self { $($field),* } = self;
                let differing = [$(*$field != EMPTY.$field),*].into_iter().filter(|differs| *differs).count();
                let mut form = serializer.serialize_struct("JobSpec", differing)?;
                $(
                    if *$field == EMPTY.$field {
                        form.skip_field(stringify!($field))?;
                    } else {
                        form.serialize_field(stringify!($field), $field)?;
                    }
                )*
                form.end()
            }
        }
    };
}

written_if_different!(
    workload,
    tenant,
    pool,
    runtime,
    cpu_milli,
    ram_mib,
    gpu_count,
    vram_mib,
    gpu_milli,
    gpu_models,
    gpu_capability,
    model_mib,
    offload,
    storage_mib,
    network_mbit_s,
    region,
    expected_duration_ms,
    priority,
    tier,
    provider,
    kind,
    architecture,
    features,
    fetch_task,
    evaluate_task,
    prefer_local,
    network_bound,
    dependents,
    direct_inputs,
    inputs,
    nodes,
    exclusive,
    lifecycle,
    walltime_ms,
    class,
    sensitive,
    checkpoint,
    checkpoint_minutes,
    same_numa,
    locality_bias,
    flexible,
    unified_memory,
    requeue,
    max_requeue,
    preemptible,
    may_preempt,
    hint,
    max_span,
    power_w,
    io_bytes_s,
    immediate,
    qos_wait_ms,
    scale_target_milli,
    resizable,
    wait_for_capacity,
    allow_degraded,
    mutex,
    fetchable,
    hints,
    max_cost,
    max_scope,
    allowed_scopes,
    cell
);
