//! What cycles of batch pools looked at, for whoever keeps decisions.

use landfall_engine::Input;
use landfall_engine::input::NodeOrder;
use landfall_engine::notes::Note;
use landfall_model::reason::Reason;
use landfall_model::{Dispatch, Tenant, TenantId};

use crate::support::{Cluster, job_id, node_id, pool};

impl Cluster {
    /// Runs up to an instant and gives what was noted about a job.
    fn noted(&mut self, until: f64, job: &str) -> Vec<Note> {
        self.run_until(until);
        let notes = self.engine.take_notes();
        notes.into_iter().filter(|note| note.job == Some(job_id(job))).collect()
    }
}

fn against(note: &Note) -> Vec<(Reason, u32)> {
    note.beside.against.iter().map(|against| (against.reason, against.candidates)).collect()
}

#[test]
fn every_node_is_counted_once_under_what_stands_first_against_it() {
    let nodes = r#"nodes = [
        { id = "small", count = 3, cpu_milli = 2000, ram_mib = "8GiB" },
        { id = "large", count = 2, cpu_milli = 8000, ram_mib = "8GiB" },
        { id = "away", cpu_milli = 8000, ram_mib = "8GiB" },
    ]"#;
    let batch = pool(Dispatch::Batch, |pool| pool.heartbeats = false);
    let mut cluster = Cluster::new(batch, nodes);
    cluster.engine.keep_notes();
    cluster.at(0.0).done(Input::Order { node: node_id("away"), order: NodeOrder::Drain });
    cluster.submit(r#"jobs = [{ id = "a", cpu_milli = 8000 }]"#);
    let notes = cluster.noted(1.0, "a");
    let [note] = &notes[..] else { panic!("{notes:?}") };
    assert!(note.placed && note.is_news);
    assert_eq!(note.beside.looked_at, 6);
    assert_eq!(
        against(note),
        [(Reason::Cpu, 3), (Reason::NodeState, 1)],
        "two were free, and one of them was taken"
    );
    assert!(!note.beside.facts.is_empty() && note.beside.heard_ms.is_some());
    let next: Vec<&str> = note.beside.runners_up.iter().map(|next| next.candidate.as_str()).collect();
    assert!(next.len() <= 1 && next.iter().all(|next| *next == "another set"), "{next:?}");

    cluster.start("a");

    // What is taken, what is kept for another one, and what stands against a job whatever the nodes.
    let mut tenant = Tenant::new(TenantId::new("t").unwrap());
    tenant.quota.max_nodes = Some(1.0);
    cluster.done(Input::SetTenant(Box::new(tenant)));
    cluster.submit(
        r#"jobs = [
            { id = "gang", cpu_milli = 8000, nodes = 2, class = 9, may_preempt = false },
            { id = "late", cpu_milli = 8000, walltime_ms = "20h" },
            { id = "q", cpu_milli = 1000, tenant = "t" },
            { id = "r", cpu_milli = 1000, tenant = "t" },
        ]"#,
    );
    cluster.run_until(20.0);
    let notes = cluster.engine.take_notes();
    let of = |job: &str| notes.iter().find(|note| note.job == Some(job_id(job))).unwrap();
    assert_eq!(
        against(of("gang")),
        [(Reason::Cpu, 3), (Reason::NodeState, 1), (Reason::NodeTaken, 1), (Reason::Nodes, 1)]
    );
    assert!(of("gang").beside.facts.get("reserved_in_s").is_some(), "{:?}", of("gang"));
    assert_eq!(
        against(of("late")),
        [(Reason::Cpu, 3), (Reason::NodeState, 1), (Reason::NodeTaken, 1), (Reason::Reserved, 1)]
    );
    assert!(of("q").placed, "a small node does");
    cluster.start("q");
    assert_eq!(against(of("r")), [(Reason::QuotaNodes, 6)]);

    // The same is not told again for a while, and something else is.
    assert!(cluster.noted(60.0, "gang").is_empty());
    cluster.exit("a", 0);
    let notes = cluster.noted(80.0, "gang");
    assert!(notes.iter().any(|note| note.placed), "{notes:?}");
}
