//! Whether the lines of a trace go together: ids are used once, and what a line names is there. What names something may
//! stand before it, so most is checked at the end, with the line that named it.

use std::collections::{BTreeMap, BTreeSet};

use landfall_engine::array::{Shape, parse_element_id};
use landfall_model::scenario::{ScenarioError, closest};
use landfall_model::{JobId, NodeId, PoolId};

use super::{Record, Setting, Submission};
use crate::trace::error::TraceError;

/// Somebody names a job.
struct Named {
    line: usize,
    field: &'static str,
    job: JobId,
    /// Whether an element of an array is meant, and nothing else.
    element: bool,
}

pub(super) struct Checks {
    version: u32,
    pools: BTreeSet<PoolId>,
    /// Where each pool is named first, and in which field; `None` where none is named.
    pools_named: BTreeMap<(&'static str, Option<PoolId>), usize>,
    nodes: BTreeSet<NodeId>,
    /// Nodes without an instant, which are there once.
    nodes_once: BTreeSet<NodeId>,
    nodes_named: Vec<(usize, NodeId)>,
    jobs: BTreeMap<JobId, Option<Shape>>,
    elements: BTreeSet<JobId>,
    jobs_named: Vec<Named>,
}

impl Checks {
    pub(super) fn new(version: u32) -> Self {
        Self {
            version,
            pools: BTreeSet::new(),
            pools_named: BTreeMap::new(),
            nodes: BTreeSet::new(),
            nodes_once: BTreeSet::new(),
            nodes_named: Vec::new(),
            jobs: BTreeMap::new(),
            elements: BTreeSet::new(),
            jobs_named: Vec::new(),
        }
    }

    /// Takes a line in.
    pub(super) fn note(&mut self, line: usize, record: &Record) -> Result<(), TraceError> {
        let once = |field: &str, id: &str, new: bool| match new {
            true => Ok(()),
            false => Err(TraceError::field(line, 1, field, format!("`{id}` is there already"))
                .hint("each id may be used once")),
        };
        match record {
            Record::Setting(_, Setting::Pool { pool, .. }) => {
                self.pools.insert(pool.id.clone());
            }
            Record::Setting(..) => {}
            Record::Nodes(at, nodes) => {
                for node in nodes {
                    let new = at.is_some() || self.nodes_once.insert(node.id.clone());
                    once("node.id", node.id.as_str(), new)?;
                    self.nodes.insert(node.id.clone());
                    self.pools_named.entry(("node.pool", node.pool.clone())).or_insert(line);
                }
            }
            Record::Submission(submission) => {
                let new = self.jobs.insert(submission.job.id.clone(), submission.array.clone()).is_none();
                once("job.id", submission.job.id.as_str(), new)?;
                self.names(line, submission);
            }
            Record::Element(job, _) => {
                once("element", job.as_str(), self.elements.insert(job.clone()))?;
                self.jobs_named.push(Named { line, field: "element", job: job.clone(), element: true });
            }
            Record::Change(change) => self.nodes_named.push((line, change.node.clone())),
            Record::Order(order) => {
                let job = order.job.clone();
                self.jobs_named.push(Named { line, field: "order.job", job, element: false });
            }
            Record::Cycles(pool, _) => {
                self.pools_named.entry(("cycles.pool", Some(pool.clone()))).or_insert(line);
            }
        }
        Ok(())
    }

    fn names(&mut self, line: usize, submission: &Submission) {
        self.pools_named.entry(("job.pool", submission.job.spec.pool.clone())).or_insert(line);
        // Files of the first version were read with such holes; a replay refuses them by itself.
        if self.version > 1 {
            let others = submission.after.iter().map(|edge| ("after", &edge.on));
            let others = others.chain(submission.with.iter().map(|with| ("with", with)));
            let named = others.map(|(field, job)| Named { line, field, job: job.clone(), element: false });
            self.jobs_named.extend(named);
        }
    }

    /// Looks at everything that was named.
    pub(super) fn finish(self) -> Result<(), TraceError> {
        let missing = |line, field: &str, message: String, hint: &str, near: Option<&str>| -> ScenarioError {
            let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            TraceError::field(line, 1, field, message).hint(format!("{near}{hint}"))
        };
        for ((field, pool), line) in self.pools_named {
            // A trace without pools runs on a cluster that is given apart.
            if self.pools.is_empty() && field != "cycles.pool" {
                continue;
            }
            match pool {
                Some(pool) if self.pools.contains(&pool) => {}
                Some(pool) => {
                    let near = closest(pool.as_str(), self.pools.iter().map(PoolId::as_str));
                    let message = format!("there is no pool `{pool}` in the trace");
                    let hint = "add a line with this `pool`, or name one that is there";
                    return Err(missing(line, field, message, hint, near).into());
                }
                None if self.pools.len() == 1 => {}
                None => {
                    let names = self.pools.iter().map(PoolId::as_str).collect::<Vec<_>>().join(", ");
                    let message = format!("no pool is named, and the trace has several: {names}");
                    return Err(missing(line, field, message, "name one of them", None).into());
                }
            }
        }
        for (line, node) in self.nodes_named {
            // A trace without nodes runs on a cluster that is given apart.
            if !self.nodes.is_empty() && !self.nodes.contains(&node) {
                let message = format!("there is no node `{node}` in the trace");
                let hint = "add a line with this `node`, or take the change out";
                return Err(missing(line, "change.node", message, hint, None).into());
            }
        }
        for Named { line, field, job, element } in self.jobs_named {
            let of_array = parse_element_id(&job).is_some_and(|(array, index)| {
                let shape = self.jobs.get(array).and_then(Option::as_ref);
                shape.is_some_and(|shape| shape.position(index).is_some())
            });
            if of_array || (!element && self.jobs.contains_key(&job)) {
                continue;
            }
            let (message, hint) = match element {
                true => {
                    (format!("no array of the trace has an element `{job}`"), "correct it, or take it out")
                }
                false => (format!("there is no job `{job}` in the trace"), "add that job, or take this out"),
            };
            return Err(missing(line, field, message, hint, None).into());
        }
        Ok(())
    }
}
