//! `landfall trace export`: what a running server has lived through, as a trace that can be replayed.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use landfall_api::answer::{EventView, StatusView};
use landfall_api::fleet::{PoolView, TenantView};
use landfall_api::job::JobView;
use landfall_api::node::NodeView;
use landfall_client::{Client, ClientError, with_query};
use landfall_engine::Event;
use landfall_model::scenario::{JobRow, NodeRow, Rows};
use landfall_model::{Millis, Node, Pool, PoolId, Tenant, Time};
use landfall_replay::trace::Kind;
use landfall_replay::trace::journal::{KINDS, Recorded, Recorder};
use landfall_replay::trace::own::{Header, Setting, Submission, Writer};
use serde_json::{Value, json};

use super::convert::Written;
use super::files::write_file;
use crate::commands::service::listing;
use crate::error::{CliError, usage};
use crate::service::{self, ConnectArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Everything that the journal tells: pools with their settings and policies, tenants, blocks, nodes with groups and \
fingerprints, jobs and arrays with what they need and wait for, how long each ran, and what happened to nodes and jobs \
meanwhile. Times begin at the first submission. `landfall replay FILE` then makes the same decisions again, and with --policy \
others. Jobs that had not ended are cancelled at the end of the trace. What the journal does not tell is counted by reason.

Examples:
  landfall trace export --out week.jsonl.gz
  landfall trace export --data-dir /var/lib/landfall --out week.jsonl && landfall replay week.jsonl
  landfall trace export --pool default --out one.jsonl && landfall replay one.jsonl --policy fit")]
pub(crate) struct Args {
    /// The trace to write; a name that ends in .gz is compressed.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Ask the server that runs on this data directory.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["server", "token_file"])]
    data_dir: Option<PathBuf>,
    /// Only jobs and nodes of this pool.
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
    let only = match &args.pool {
        Some(pool) => Some(PoolId::new(pool).map_err(|error| usage(error.to_string(), "name a pool"))?),
        None => None,
    };
    let (recorded, dropped) = service::block_on(async { Ok(record(&client, only).await?) })?;
    let file = args.out.display().to_string();
    write_file(&args.out, args.force, |out| write(&recorded, out))?;
    let Recorded { jobs, nodes, left_out, .. } = recorded;
    let (schema, kind) = ("landfall.trace-export/1", Kind::Own.name());
    Ok(Written { schema, file, kind, jobs, nodes, dropped, estimates_defaulted: 0, left_out })
}

pub(super) fn write(recorded: &Recorded, out: &mut dyn Write) -> io::Result<()> {
    let description = Some("what a server has lived through".to_owned());
    let mut writer = Writer::new(out, &Header { description })?;
    recorded.records.iter().try_for_each(|record| writer.record(record))
}

/// Reads the journal from its oldest event on, and what is there without one.
async fn record(
    client: &Client,
    only: Option<PoolId>,
) -> Result<(Recorded, BTreeMap<String, u64>), ClientError> {
    let status: StatusView = client.get("/status").await?;
    let mut recorder = Recorder::new(only.clone());
    let after = status.oldest.saturating_sub(1);
    let mut until = Time::ZERO;
    let (from, kinds) = (after.to_string(), KINDS.join(","));
    let params = [("after", Some(from.as_str())), ("follow", Some("false")), ("kinds", Some(&kinds))];
    let mut events = client.stream_events(&with_query("/events", &params)).await?;
    while let Some(told) = events.next().await? {
        let Ok(view) = serde_json::from_str::<EventView>(&told.data) else { continue };
        let (seq, at, kind) = (view.seq, Time::from_millis(view.at_ms), view.kind.clone());
        until = until.max(at);
        match event_of(view) {
            Some(event) => recorder.take(seq, at, event),
            None => recorder.leave_out(format!("events `{kind}` that this program does not understand")),
        }
    }
    as_it_is_now(client, &mut recorder).await?;
    let mut dropped = BTreeMap::new();
    if after > 0 {
        let pool = only.as_ref().map(PoolId::as_str);
        let params = [("state", Some("ended")), ("pool", pool), ("limit", Some("1000"))];
        let jobs: Vec<JobView> = listing::all(client, "/jobs", &params).await?;
        from_archive(&mut recorder, &jobs, &mut dropped);
    }
    Ok((recorder.finish(until), dropped))
}

/// The event that the stream tells of; `None` if it is of another version.
fn event_of(view: EventView) -> Option<Event> {
    let payload = match view.event {
        // What is no object by itself is wrapped into one.
        Value::Object(mut map) if map.len() == 1 && map.contains_key("value") => map.remove("value")?,
        other => other,
    };
    serde_json::from_value(json!({ view.kind: payload })).ok()
}

/// Pools, tenants and nodes of which the events tell nothing are brought as they are now.
async fn as_it_is_now(client: &Client, recorder: &mut Recorder) -> Result<(), ClientError> {
    let pools: Vec<PoolView> = listing::all(client, "/pools", &[]).await?;
    let tenants: Vec<TenantView> = listing::all(client, "/tenants", &[]).await?;
    let nodes: Vec<NodeView> = listing::all(client, "/nodes", &[("limit", Some("1000"))]).await?;
    for view in pools {
        let known = PoolId::new(&view.id).is_ok_and(|id| recorder.knows_pool(&id));
        if let Some(pool) = serde_json::from_value::<Pool>(view.pool).ok().filter(|_| !known) {
            let policy = view.policy_text.map(Arc::from);
            recorder.leave_out("pools whose changes are not told: as they are now");
            recorder.was_set(Setting::Pool { pool: Box::new(pool), policy });
        }
    }
    for view in tenants {
        if let Ok(tenant) = serde_json::from_value::<Tenant>(view.tenant)
            && !recorder.knows_tenant(&tenant.id)
        {
            recorder.leave_out("tenants whose changes are not told: as they are now");
            recorder.was_set(Setting::Tenant(Box::new(tenant)));
        }
    }
    for view in nodes {
        match node_of(&view).filter(|node| !recorder.knows_node(&node.id)) {
            Some(node) => {
                recorder.leave_out(
                    "nodes whose joining is not told: as they are now, without group and fingerprint",
                );
                recorder.was_there(node);
            }
            None => continue,
        }
    }
    Ok(())
}

/// A node by what the server shows of it.
fn node_of(view: &NodeView) -> Option<Node> {
    let gpu = |gpu: &landfall_api::node::GpuView| json!({"index": gpu.index, "model": gpu.model, "vram_mib": gpu.vram_mib});
    let row = json!({
        "id": view.id, "pool": view.pool, "region": view.region, "accepting": view.accepting,
        "supported_runtimes": view.runtimes, "cpu_milli": view.cpu_milli, "ram_mib": view.ram_mib,
        "gpus": view.gpus.iter().map(gpu).collect::<Vec<_>>(),
    });
    let row: NodeRow = serde_json::from_value(row).ok()?;
    Rows::default().nodes(row, Time::ZERO, "node").ok()?.pop()
}

/// Ended jobs of which the events tell nothing any more.
fn from_archive(recorder: &mut Recorder, jobs: &[JobView], dropped: &mut BTreeMap<String, u64>) {
    let mut rows = Rows::default();
    for job in jobs.iter().filter(|job| !recorder.knows_job(&job.id)).collect::<Vec<_>>() {
        match submission(&mut rows, job) {
            Ok(submission) => {
                recorder.leave_out(
                    "jobs known from the archive only: without dependencies, elements as jobs of their own",
                );
                recorder.was_submitted(submission);
            }
            Err(reason) => *dropped.entry(reason.to_owned()).or_default() += 1,
        }
    }
}

/// A job as it came and ran, or why it is left out.
fn submission(rows: &mut Rows, job: &JobView) -> Result<Submission, &'static str> {
    let (Some(started), Some(ended)) = (job.started_at_ms, job.ended_at_ms) else {
        return Err("did not run");
    };
    let mut row = job.needs.clone();
    row.insert("id".into(), Value::String(job.id.clone()));
    row.insert("pool".into(), Value::String(job.pool.clone()));
    let row: JobRow =
        serde_json::from_value(Value::Object(row)).map_err(|_| "needs that no trace can say")?;
    let at = Time::from_millis(i64::try_from(job.submitted_at_ms).map_err(|_| "no time")?);
    let made = rows.job(row, at, "job").map_err(|_| "needs that no trace can say")?;
    let mut submission = Submission::new(at, Some(Millis::new(ended.saturating_sub(started))), made);
    submission.runs.last.exit = job.exit_code.unwrap_or_default();
    Ok(submission)
}

#[cfg(test)]
mod tests {
    use landfall_replay::trace::own::Trace;

    use super::*;

    fn job(id: &str, times: (u64, Option<u64>, Option<u64>), needs: &Value) -> JobView {
        let view = json!({"id": id, "state": "completed", "pool": "default", "needs": needs, "run": {}, "attempt": 1,
            "submitted_at_ms": times.0, "started_at_ms": times.1, "ended_at_ms": times.2, "version": "1"});
        serde_json::from_value(view).unwrap()
    }

    #[test]
    fn what_only_the_archive_knows_is_brought_and_said() {
        let needs = json!({"pool": "default", "tenant": "lab", "cpu_milli": 2000, "gpu_count": 1, "vram_mib": 8192, "exclusive": false});
        let jobs = [
            job("2", (5000, Some(6000), Some(9000)), &needs),
            job("1.07", (1000, Some(1000), Some(4000)), &json!({"runtime": "process"})),
            job("3", (7000, None, Some(8000)), &needs),
            job("4", (7000, Some(7000), Some(8000)), &json!({"from_the_future": 1})),
        ];
        let node = json!({"id": "box", "pool": "default", "state": "ready", "approval": "approved", "accepting": true,
            "heard_at_ms": 0, "since_ms": 0, "cpu_milli": 4000, "cpu_committed_milli": 0, "ram_mib": 8192,
            "ram_committed_mib": 0, "gpus": [{"index": 0, "model": "A100", "vram_mib": 81920, "vram_committed_mib": 0,
            "milli_committed": 0}], "runtimes": [], "jobs": [], "karma": 0, "connected": true});
        let mut recorder = Recorder::new(None);
        recorder.was_there(node_of(&serde_json::from_value(node).unwrap()).unwrap());
        let mut dropped = BTreeMap::new();
        from_archive(&mut recorder, &jobs, &mut dropped);
        let recorded = recorder.finish(Time::from_secs(10));
        assert_eq!((recorded.jobs, recorded.nodes), (2, 1));
        assert_eq!(dropped.values().sum::<u64>(), 2, "{dropped:?}");
        assert_eq!(recorded.left_out.values().sum::<u64>(), 2, "{:?}", recorded.left_out);
        let mut text = Vec::new();
        write(&recorded, &mut text).unwrap();
        let trace = Trace::read(text.as_slice()).unwrap();
        let ids: Vec<&str> = trace.submissions.iter().map(|submission| submission.job.id.as_str()).collect();
        assert_eq!(ids, ["2", "1.07"]);
        let second = &trace.submissions[0];
        assert_eq!((second.at.as_millis(), second.run().map(Millis::get)), (4000, Some(3000)));
        assert_eq!(second.job.spec.tenant.as_ref().map(|id| id.as_str()), Some("lab"));
        assert_eq!(trace.nodes[0].gpus.len(), 1);
    }
}
