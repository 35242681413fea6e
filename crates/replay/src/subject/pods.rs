//! GPU pods and the nodes they are packed on.

use std::collections::BTreeMap;

use landfall_engine::answers::dispatch_of;
use landfall_model::{Dispatch, JobId, Time};
use serde::Serialize;

use super::{Chosen, PolicyKind, Progress, ReplayError};
use crate::decisions::Decisions;
use crate::packing::{Sequence, pack, published};
use crate::run::{Capacity, Counts, Ending, JobRun, NODE_PARTS, Run};
use crate::trace::openb::{Arrival, OpenbNode, OpenbPod};

#[derive(Debug, Clone)]
pub struct Pods {
    /// The name of the pod list, without path.
    pub name: String,
    pub nodes: Vec<OpenbNode>,
    pub pods: Vec<OpenbPod>,
    /// Given orders by seed; drawn from the seed where there are none.
    pub arrivals: Option<BTreeMap<u64, Arrival>>,
    /// How much GPU is asked for, as a multiple of what there is, where the order is drawn.
    pub ratio: f64,
    /// Whether scores keep their decimals; published programs cut them to whole numbers.
    pub exact_scores: bool,
    /// SHA-256 of the files.
    pub inputs_sha256: BTreeMap<String, String>,
}

/// A placement as it is logged.
#[derive(Serialize)]
struct Decision<'a> {
    pod: &'a str,
    node: Option<&'a str>,
}

impl Pods {
    /// The order in which pods come.
    pub fn sequence(&self, seed: u64) -> Result<Sequence, ReplayError> {
        let Some(arrivals) = &self.arrivals else {
            return Ok(Sequence::drawn(&self.pods, &self.nodes, seed, self.ratio));
        };
        arrivals.get(&seed).cloned().map(Sequence::from).ok_or_else(|| {
            let known: Vec<String> = arrivals.keys().map(ToString::to_string).collect();
            ReplayError::Subject(format!("the arrivals have no seed {seed}; they have {}", known.join(", ")))
        })
    }

    pub(super) fn run(
        &self,
        policy: &Chosen,
        seed: u64,
        mut decisions: Decisions<'_>,
        progress: Progress<'_>,
    ) -> Result<Run, ReplayError> {
        let PolicyKind::Spec(spec) = &policy.what else {
            let why = "it orders jobs on alike processors; packing needs one that scores nodes, such as fgd";
            return Err(ReplayError::Policy { policy: policy.name.clone(), why: why.into() });
        };
        if dispatch_of(spec) != Some(Dispatch::Push) {
            let why =
                "it does not place jobs as they come; packing needs a push policy, such as fgd".to_owned();
            return Err(ReplayError::Policy { policy: policy.name.clone(), why });
        }
        let spec = if self.exact_scores { (**spec).clone() } else { published((**spec).clone()) };
        let sequence = self.sequence(seed)?;
        let packed = pack(&self.nodes, &self.pods, &sequence, &spec, progress)
            .map_err(|error| ReplayError::Subject(error.to_string()))?;
        let mut jobs = Vec::with_capacity(packed.placed.len());
        for (number, (row, placed)) in sequence.pods.iter().zip(&packed.placed).enumerate() {
            let pod = &self.pods[*row as usize];
            let node = placed.map(|place| self.nodes[place as usize].name.as_str());
            decisions.note(&Decision { pod: &pod.name, node });
            jobs.push(job_run(number, pod, placed.is_some()));
        }
        let starts = packed.placed.iter().flatten().count() as u64;
        let arrived = packed.placed.len() as u64;
        Ok(Run {
            trace: self.name.clone(),
            unit: "nodes",
            unit_parts: NODE_PARTS,
            jobs,
            capacity: vec![Capacity {
                from: Time::ZERO,
                units: self.nodes.len() as u64 * NODE_PARTS,
                gpu_milli: packed.capacity,
            }],
            counts: Counts { starts, passes: arrived, decisions: arrived, ..Counts::default() },
            curve: packed.curve.points(),
            decisions_sha256: decisions.finish()?,
            inputs_sha256: self.inputs_sha256.clone(),
            ..Run::default()
        })
    }
}

fn job_run(number: usize, pod: &OpenbPod, placed: bool) -> JobRun {
    JobRun {
        job: JobId::new(&format!("{number:06}")).unwrap_or_else(|_| unreachable!("a number is an id")),
        tenant: None,
        units: 0,
        gpu_milli: u64::from(pod.num_gpu) * pod.gpu_milli,
        queued: Time::ZERO,
        started: placed.then_some(Time::ZERO),
        ended: None,
        run_ms: 0,
        held_ms: 0,
        lost_ms: 0,
        first_estimate: None,
        qos_wait_ms: None,
        backfilled: false,
        preemptions: 0,
        ending: if placed { Ending::Completed } else { Ending::NeverStarted("no_room".into()) },
    }
}
