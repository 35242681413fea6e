//! What the server keeps of jobs beside the engine: what they run, who submitted them, how their present run goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_api::fill::{fill, of_entry};
use landfall_api::job::{DagPlace, ElementView, OnNode, RunSpec, UsageView};
use landfall_engine::event::Commit;
use landfall_model::{Indices, JobId};
use serde::{Deserialize, Serialize};

/// What is kept of a job or an array while it lives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobMeta {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitter: Option<String>,
    pub run: Arc<RunSpec>,
    /// Which elements it has, if it is an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Indices>,
    /// What they differ in, in their order.
    #[serde(default, skip_serializing_if = "no_entries")]
    pub entries: Arc<Vec<String>>,
    /// Its place in a DAG, if it is part of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dag: Option<DagPlace>,
    /// Whether it is the job of another peer, which this one won.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

fn no_entries(entries: &Arc<Vec<String>>) -> bool {
    entries.is_empty()
}

impl JobMeta {
    /// What the element with this index differs in from the others.
    pub fn entry(&self, index: u32) -> Option<&String> {
        self.entries.get(self.array.as_ref()?.position(index)? as usize)
    }

    /// A place in the array, as it is shown.
    pub(super) fn element(&self, array: &str, index: u32) -> ElementView {
        ElementView { id: array.to_owned(), index, entry: self.entry(index).cloned() }
    }

    /// What a job of it runs, with its entry filled in.
    pub(super) fn run_of(&self, index: Option<u32>) -> RunSpec {
        let mut run = (*self.run).clone();
        if let Some(entry) = index.and_then(|index| self.entry(index)) {
            for word in &mut run.command {
                *word = fill(word, |name| of_entry(entry, name));
            }
            run.env.insert("LANDFALL_ENTRY".to_owned(), entry.clone());
        }
        run
    }
}

/// How the present run of a job goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LiveRun {
    pub nodes: Vec<OnNode>,
    /// What it used, as far as it is known.
    pub usage: Option<UsageView>,
    /// Its exit code: the first that is not 0, else the last.
    pub exit: Option<i32>,
    /// Where what it left in its fresh directory is kept on its node.
    pub files: Option<String>,
    /// How it failed, where the agent can tell: it took too long, for instance.
    pub failure: Option<String>,
}

impl LiveRun {
    /// A run that was committed just now.
    pub fn of(commit: &Commit) -> Self {
        let nodes = commit.grants.iter().map(|grant| OnNode {
            node: grant.node.to_string(),
            gpus: grant.placement.devices.iter().map(|device| device.index).collect(),
            cpus: None,
            phase: "assigned".into(),
            exit_code: None,
        });
        Self { nodes: nodes.collect(), usage: None, exit: None, files: None, failure: None }
    }
}

#[derive(Debug, Default)]
pub struct Jobs {
    metas: BTreeMap<JobId, Arc<JobMeta>>,
    runs: BTreeMap<JobId, LiveRun>,
}

/// The array and the index of an element's id.
pub fn element_of(id: &str) -> Option<(&str, u32)> {
    let (array, index) = id.split_once('.')?;
    Some((array, index.parse().ok()?))
}

impl Jobs {
    /// What is kept of a job; elements share what is kept of their array.
    pub fn meta(&self, id: &JobId) -> Option<&Arc<JobMeta>> {
        self.metas.get(id).or_else(|| self.metas.get(element_of(id.as_str())?.0))
    }

    pub(super) fn insert(&mut self, id: JobId, meta: Arc<JobMeta>) {
        self.metas.insert(id, meta);
    }

    pub(super) fn remove(&mut self, id: &JobId) -> Option<Arc<JobMeta>> {
        self.metas.remove(id)
    }

    /// How the present run of a job goes.
    pub fn run(&self, id: &JobId) -> Option<&LiveRun> {
        self.runs.get(id)
    }

    pub(super) fn run_mut(&mut self, id: &JobId) -> Option<&mut LiveRun> {
        self.runs.get_mut(id)
    }

    pub(super) fn begin_run(&mut self, id: JobId, run: LiveRun) {
        self.runs.insert(id, run);
    }

    pub(super) fn end_run(&mut self, id: &JobId) -> Option<LiveRun> {
        self.runs.remove(id)
    }

    /// Jobs and arrays that are kept, by id.
    pub fn metas(&self) -> impl Iterator<Item = (&JobId, &Arc<JobMeta>)> {
        self.metas.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_name_their_array() {
        assert_eq!(element_of("12.0007"), Some(("12", 7)));
        assert_eq!(element_of("12"), None);
        assert_eq!(element_of("12.x"), None);
    }
}
