//! Single rows, for files that are streams of them: the same fields and checks as in a scenario, one at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ScenarioError;
use super::build::{self, Models};
use super::rows::{BlockRow, JobRow, NodeRow, TenantRow};
use crate::{Block, BlockId, Job, JobMaker, Node, NodeId, Tenant, Time};

/// Makes nodes, jobs and what belongs to them of single rows. What many rows share, such as a GPU model or a job's needs,
/// is kept once.
#[derive(Debug, Default)]
pub struct Rows {
    models: Models,
    maker: JobMaker,
    nodes: usize,
    /// Blocks that nodes may name, as they were read last.
    blocks: BTreeMap<BlockId, Arc<Block>>,
}

impl Rows {
    /// The nodes of a row: one, or as many as its `count` says.
    ///
    /// # Errors
    /// If the row makes no sense; `path` is where it stands.
    pub fn nodes(&mut self, row: NodeRow, now: Time, path: &str) -> Result<Vec<Node>, ScenarioError> {
        let (count, id) = (build::copies(row.count, self.nodes, path)?, row.id.clone());
        let first = build::node(row, now, &self.blocks, &mut self.models, path)?;
        let nodes = match count {
            None => vec![first],
            Some(count) => (0..count)
                .map(|copy| {
                    let id = build::copy_id(id.as_str(), copy, count, path, NodeId::new)?;
                    Ok(Node { id, ..first.clone() })
                })
                .collect::<Result<_, ScenarioError>>()?,
        };
        self.nodes += nodes.len();
        Ok(nodes)
    }

    /// The tenant of a row.
    ///
    /// # Errors
    /// If the row makes no sense; `path` is where it stands.
    pub fn tenant(&mut self, row: &TenantRow, path: &str) -> Result<Tenant, ScenarioError> {
        build::tenant(row, path)
    }

    /// The block of a row; nodes may name it from now on.
    ///
    /// # Errors
    /// If the row makes no sense; `path` is where it stands.
    pub fn block(&mut self, row: BlockRow, now: Time, path: &str) -> Result<Arc<Block>, ScenarioError> {
        let block = Arc::new(build::block(row, now, path)?);
        self.blocks.insert(block.id.clone(), block.clone());
        Ok(block)
    }

    /// The job of a row; times it leaves out are `now`.
    ///
    /// # Errors
    /// If the row makes no sense; `path` is where it stands.
    pub fn job(&mut self, row: JobRow, now: Time, path: &str) -> Result<Job, ScenarioError> {
        if row.count.is_some() {
            return Err(ScenarioError::at(format!("{path}.count"), "each row is one job here")
                .hint("write one row per job"));
        }
        build::job(row, now, &BTreeMap::new(), &mut self.maker, path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, Written, decode};
    use super::*;

    fn job(text: &str) -> Result<Job, ScenarioError> {
        Rows::default().job(decode(text, Format::Json)?, Time::from_millis(7), "job")
    }

    #[test]
    fn a_written_row_reads_back_equal() {
        for text in [
            r#"{"id": "a"}"#,
            r#"{"id": "a", "workload": "w", "vram_mib": 10, "tenant": "t", "nodes": {"min": 2, "max": 3}}"#,
            r#"{"id": "a", "vram_mib": 10, "gpu_count": 4, "gpu_models": ["A100", "H100"], "features": ["x"]}"#,
            r#"{"id": "a", "sensitive": true}"#,
            r#"{"id": "a", "sensitive": true, "immediate": false}"#,
            r#"{"id": "a", "class": 10, "immediate": true, "preemptible": false, "may_preempt": false}"#,
            r#"{"id": "a", "gpu_count": 1, "gpu_milli": 250, "walltime_ms": "2h", "waits_for": "b"}"#,
        ] {
            let read = job(text).unwrap();
            let written = serde_json::to_string(&Written(&read)).unwrap();
            assert_eq!(job(&written).unwrap(), read, "{written}");
        }
    }

    #[test]
    fn rows_say_no_more_than_needed() {
        let read = job(r#"{"id": "a", "vram_mib": 10, "gpu_count": 1, "class": 5}"#).unwrap();
        assert_eq!(serde_json::to_string(&Written(&read)).unwrap(), r#"{"id":"a","vram_mib":10}"#);
    }

    #[test]
    fn mistakes_name_the_field() {
        let error = job(r#"{"id": "a", "gpu_count": 2, "gpu_milli": 500}"#).unwrap_err();
        assert!(error.field.starts_with("job."), "{error}");
        let error = job(r#"{"id": "a", "count": 2}"#).unwrap_err();
        assert_eq!(error.field, "job.count");
        let row = decode(r#"{"id": "n", "count": 2, "block": "b"}"#, Format::Json).unwrap();
        let error = Rows::default().nodes(row, Time::ZERO, "node").unwrap_err();
        assert_eq!(error.field, "node.block");
    }

    #[test]
    fn nodes_are_copied_as_in_a_scenario() {
        let row = decode(r#"{"id": "n", "count": 2, "cpu_milli": 4000}"#, Format::Json).unwrap();
        let nodes = Rows::default().nodes(row, Time::ZERO, "node").unwrap();
        let ids: Vec<&str> = nodes.iter().map(|node| node.id.as_str()).collect();
        assert_eq!(ids, ["n-0", "n-1"]);
    }
}
