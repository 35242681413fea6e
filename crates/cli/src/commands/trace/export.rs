//! `landfall trace export`: what a running server has lived through, as a trace that can be replayed.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use landfall_api::job::JobView;
use landfall_api::node::NodeView;
use landfall_model::scenario::{JobRow, Rows};
use landfall_model::{Millis, Time};
use landfall_replay::trace::Kind;
use landfall_replay::trace::own::{GpuFacts, Header, NodeFacts, Submission, Writer};
use serde_json::Value;

use super::convert::Written;
use super::files::write_file;
use crate::commands::service::listing;
use crate::error::CliError;
use crate::service::{self, ConnectArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Jobs that have ended, with when they came, how long they ran, what they needed and whose they were; and the nodes as they are now. \
Jobs that never ran are left out and counted. Times begin at the first submission. Which job waited for which is not told: each \
comes when it was submitted.

Examples:
  landfall trace export --out week.jsonl.gz
  landfall trace export --data-dir /var/lib/landfall --out week.jsonl
  landfall trace export --pool gpu --out gpu.jsonl && landfall replay gpu.jsonl")]
pub(crate) struct Args {
    /// The trace to write; a name that ends in .gz is compressed.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Ask the server that runs on this data directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["server", "token_file"])]
    data_dir: Option<PathBuf>,
    /// Only jobs and nodes of this pool; the names of pools are then left out.
    #[arg(long, value_name = "ID")]
    pool: Option<String>,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Answers `trace export`.
pub(crate) fn run(args: &Args) -> Result<Written, CliError> {
    let client = match &args.data_dir {
        Some(dir) => ConnectArgs {
            server: Some(service::server_of(dir)?),
            token_file: Some(dir.join("token")),
            ..args.connect.clone()
        }
        .client()?,
        None => args.connect.client()?,
    };
    let pool = args.pool.as_deref();
    let (jobs, nodes, pools) = service::block_on(async {
        let params = [("state", Some("ended")), ("pool", pool), ("limit", Some("1000"))];
        let jobs: Vec<JobView> = listing::all(&client, "/jobs", &params).await?;
        let nodes: Vec<NodeView> =
            listing::all(&client, "/nodes", &[("pool", pool), ("limit", Some("1000"))]).await?;
        let pools: Vec<Value> = listing::all(&client, "/pools", &[]).await?;
        Ok((jobs, nodes, pools.len()))
    })?;
    // Where there is only one pool its name says nothing, and a replay without a cluster file needs none.
    let named = pool.is_none() && pools > 1;
    let file = args.out.display().to_string();
    write_file(&args.out, args.force, |out| export(jobs, &nodes, named, file, out))
}

/// Writes jobs and nodes as a trace.
fn export(
    mut jobs: Vec<JobView>,
    nodes: &[NodeView],
    named: bool,
    file: String,
    out: &mut dyn Write,
) -> io::Result<Written> {
    jobs.sort_by(|a, b| (a.submitted_at_ms, &a.id).cmp(&(b.submitted_at_ms, &b.id)));
    let began = jobs.first().map_or(0, |job| job.submitted_at_ms);
    let description = Some("what a server has lived through".to_owned());
    let mut writer = Writer::new(out, &Header { description })?;
    for node in nodes {
        writer.node(&facts(node))?;
    }
    let mut dropped: BTreeMap<String, u64> = BTreeMap::new();
    let mut written = 0;
    let mut rows = Rows::default();
    for job in &jobs {
        match submission(&mut rows, job, began, named) {
            Ok(submission) => {
                writer.submission(&submission)?;
                written += 1;
            }
            Err(reason) => *dropped.entry(reason.to_owned()).or_default() += 1,
        }
    }
    let schema = "landfall.trace-export/1";
    let nodes = nodes.len() as u64;
    Ok(Written {
        schema,
        file,
        kind: Kind::Own.name(),
        jobs: written,
        nodes,
        dropped,
        estimates_defaulted: 0,
    })
}

fn facts(node: &NodeView) -> NodeFacts {
    let gpu = |gpu: &landfall_api::node::GpuView| GpuFacts {
        count: 1,
        model: gpu.model.clone(),
        vram_mib: gpu.vram_mib,
    };
    NodeFacts {
        id: node.id.clone(),
        count: None,
        cpu_milli: node.cpu_milli,
        ram_mib: node.ram_mib,
        gpus: node.gpus.iter().map(gpu).collect(),
    }
}

/// A job as it came and ran, or why it is left out.
fn submission(rows: &mut Rows, job: &JobView, began: u64, named: bool) -> Result<Submission, &'static str> {
    let (Some(started), Some(ended)) = (job.started_at_ms, job.ended_at_ms) else {
        return Err("did not run");
    };
    let mut row = job.needs.clone();
    row.insert("id".into(), Value::String(job.id.clone()));
    if !named {
        row.remove("pool");
    }
    let row: JobRow =
        serde_json::from_value(Value::Object(row)).map_err(|_| "needs that no trace can say")?;
    let at = Time::from_millis(i64::try_from(job.submitted_at_ms - began).map_err(|_| "no time")?);
    let job = rows.job(row, at, "job").map_err(|_| "needs that no trace can say")?;
    let run = Some(Millis::new(ended.saturating_sub(started)));
    Ok(Submission { at, run, job, after: Vec::new(), join: Default::default() })
}

#[cfg(test)]
mod tests {
    use landfall_replay::trace::own::Trace;
    use serde_json::json;

    use super::*;

    fn job(id: &str, times: (u64, Option<u64>, Option<u64>), needs: &Value) -> JobView {
        let view = json!({"id": id, "state": "completed", "pool": "default", "needs": needs, "run": {}, "attempt": 1,
            "submitted_at_ms": times.0, "started_at_ms": times.1, "ended_at_ms": times.2, "version": "1"});
        serde_json::from_value(view).unwrap()
    }

    #[test]
    fn what_is_written_can_be_read() {
        let needs = json!({"pool": "default", "tenant": "lab", "cpu_milli": 2000, "gpu_count": 1, "vram_mib": 8192, "exclusive": false});
        let jobs = vec![
            job("2", (5000, Some(6000), Some(9000)), &needs),
            job("1.07", (1000, Some(1000), Some(4000)), &json!({"runtime": "process"})),
            job("3", (7000, None, Some(8000)), &needs),
            job("4", (7000, Some(7000), Some(8000)), &json!({"from_the_future": 1})),
        ];
        let node = json!({"id": "box", "pool": "default", "state": "ready", "approval": "approved", "accepting": true,
            "heard_at_ms": 0, "since_ms": 0, "cpu_milli": 4000, "cpu_committed_milli": 0, "ram_mib": 8192,
            "ram_committed_mib": 0, "gpus": [{"index": 0, "model": "A100", "vram_mib": 81920, "vram_committed_mib": 0,
            "milli_committed": 0}], "runtimes": [], "jobs": [], "karma": 0, "connected": true});
        let nodes: Vec<NodeView> = vec![serde_json::from_value(node).unwrap()];
        let mut text = Vec::new();
        let written = export(jobs, &nodes, false, "f".into(), &mut text).unwrap();
        assert_eq!((written.jobs, written.nodes), (2, 1));
        assert_eq!(written.dropped.values().sum::<u64>(), 2, "{:?}", written.dropped);
        let trace = Trace::read(text.as_slice()).unwrap();
        let ids: Vec<&str> = trace.submissions.iter().map(|submission| submission.job.id.as_str()).collect();
        assert_eq!(ids, ["1.07", "2"]);
        let second = &trace.submissions[1];
        assert_eq!((second.at.as_millis(), second.run.map(Millis::get)), (4000, Some(3000)));
        assert_eq!(second.job.spec.tenant.as_ref().map(|id| id.as_str()), Some("lab"));
        assert_eq!((second.job.spec.gpu_count, second.job.spec.pool.is_none()), (1, true));
        assert_eq!(trace.nodes[0].gpus.len(), 1);
    }
}
