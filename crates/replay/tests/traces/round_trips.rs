//! What is written reads back equal.

use landfall_model::{NodeId, Time};
use landfall_replay::trace::convert::{Shape, from_generated, from_swf, generated_log, to_swf};
use landfall_replay::trace::generate::{Gpus, Settings, generate};
use landfall_replay::trace::own::{Change, Contents, Header, NodeChange, Reader, Trace, Writer};
use landfall_replay::trace::swf::{Log, SwfJob};
use proptest::prelude::*;

prop_compose! {
    fn a_job()(
        fields in prop::array::uniform17(prop_oneof![Just(-1), 0..100_000_i64, any::<i64>()]),
        cpu in prop_oneof![Just(-1.0), 0.0..1e9, any::<f64>().prop_filter("finite", |x| x.is_finite())],
    ) -> SwfJob {
        let [number, submit, wait, run, allocated, memory, requested, estimate, requested_memory, status, user, group,
            executable, queue, partition, preceding, think] = fields;
        SwfJob { number, submit, wait, run, allocated, cpu, memory, requested, estimate, requested_memory, status, user,
            group, executable, queue, partition, preceding, think }
    }
}

proptest! {
    #[test]
    fn logs(
        comments in prop::collection::vec("[^\r\n]{0,30}", 0..4),
        jobs in prop::collection::vec(a_job(), 0..20),
    ) {
        let log = Log { comments, jobs };
        let mut written = Vec::new();
        log.write(&mut written).unwrap();
        prop_assert_eq!(Log::read(written.as_slice()).unwrap(), log);
    }

    #[test]
    fn workloads_in_both_kinds(seed: u64, jobs in 1..200_usize, procs in 1..500_u64, load in 0.1..2.0, gpus: bool) {
        let gpus = gpus.then_some(Gpus { total: 24, per_node: 4, vram_mib: 40_960 });
        let settings = Settings { gpus, ..Settings::new(jobs, procs, load, seed) };
        let made = generate(&settings).unwrap();
        let mut own = Vec::new();
        let converted = from_generated(&settings, &made, Shape::default(), &mut own).unwrap();
        prop_assert_eq!((converted.jobs as usize, converted.dropped.len()), (jobs, 0));
        let trace = Trace::read(own.as_slice()).unwrap();
        prop_assert_eq!(trace.submissions.len(), jobs);
        for (submission, job) in trace.submissions.iter().zip(&made) {
            prop_assert_eq!(submission.at, Time::from_secs(job.submit));
            prop_assert_eq!(submission.run().map(|run| run.get()), Some(job.run as u64 * 1000));
            prop_assert!(submission.job.spec.nodes.max as usize <= trace.nodes.len());
        }
        // Written again line by line, the submissions are the same.
        let mut writer = Writer::new(Vec::new(), &trace.header).unwrap();
        for submission in &trace.submissions {
            writer.submission(submission).unwrap();
        }
        let again = Trace::read(writer.into_inner().as_slice()).unwrap();
        prop_assert_eq!(&again.submissions, &trace.submissions);
        // The log says the same as the trace, where there are no GPUs.
        let log = generated_log(&settings, &made);
        let mut from_log = Vec::new();
        let converted = from_swf(&log, procs, Shape::default(), &Header::default(), &mut from_log).unwrap();
        prop_assert_eq!(converted.jobs as usize, jobs);
        if gpus.is_none() {
            let via_log = Trace::read(from_log.as_slice()).unwrap();
            prop_assert_eq!(&via_log.submissions, &trace.submissions);
            let (back, _) = to_swf(&via_log, Shape::default());
            let key = |job: &SwfJob| (job.number, job.submit, job.run, job.requested, job.estimate, job.user);
            prop_assert_eq!(
                back.jobs.iter().map(key).collect::<Vec<_>>(),
                log.jobs.iter().map(key).collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn changes_of_nodes() {
    let mut writer = Writer::new(Vec::new(), &Header { description: Some("two\nlines".into()) }).unwrap();
    let changes = [Change::Down, Change::Up, Change::Drain].map(|to| NodeChange {
        at: Time::from_millis(7),
        node: NodeId::new("n \"1\"").unwrap(),
        to,
    });
    for change in &changes {
        writer.change(change).unwrap();
    }
    let mut text = writer.into_inner();
    text.extend_from_slice(b"{\"node\":{\"id\":\"n \\\"1\\\"\"}}\n");
    let trace = Trace::read(text.as_slice()).unwrap();
    assert_eq!(trace.changes, changes);
    assert_eq!(trace.header.description.as_deref(), Some("two\nlines"));
}

/// A line of every kind, with every field that a line may have.
const EVERYTHING: &str = r#"{"format":"landfall.trace","version":2}
{"pool":{"id":"push"}}
{"pool":{"id":"hpc","dispatch":"batch","policy":"mine","baseline":"f1","batch":{"cycle_ms":6000}},"at_ms":-5,"policy_file":"POLICY"}
{"tenant":{"id":"lab","share":0.5,"max_nodes":3.0,"gpu_hours":10.0}}
{"block":{"id":"b","end_at_ms":5000,"tier":"FLEX"},"at_ms":-4}
{"node":{"id":"a","pool":"push","cpu_milli":4000,"ram_mib":8192}}
{"node":{"id":"n","count":2,"pool":"hpc","block":"b","group":"rack1","fingerprint":"f1","cpu_milli":4000,"ram_mib":8192},"at_ms":-3}
{"at_ms":0,"run_ms":500,"start_ms":12,"stop_ms":3,"exit":1,"retried":[{"run_ms":100,"exit":2}],"job":{"id":"1","pool":"push","tenant":"lab"}}
{"at_ms":1,"job":{"id":"2","pool":"hpc","cpu_milli":1000},"array":{"first":1,"last":9,"step":2},"after":[{"on":"1","kind":"any"}],"join":"any","held":true,"not_before_ms":900}
{"at_ms":1,"job":{"id":"3","pool":"hpc"},"with":"2","after":[{"on":"2.3","kind":"success"}]}
{"element":"2.3","run_ms":70,"start_ms":5}
{"at_ms":5,"change":{"node":"n-1","to":"out"}}
{"at_ms":6,"change":{"node":"n-0","says":{"accepting":false,"fingerprint":"f2"}}}
{"at_ms":7,"order":{"job":"2.5","to":"cancel"}}
{"at_ms":8,"order":{"job":"3","to":{"walltime_ms":5000}}}
{"cycles":{"pool":"hpc","at_ms":[1,1001]}}
"#;

fn everything() -> String {
    let policy = landfall_policy::builtin::spec("balanced").unwrap().unwrap();
    let text = landfall_policy::policy_file::text(&policy).unwrap();
    EVERYTHING.replace("\"POLICY\"", &serde_json::to_string(&text).unwrap())
}

#[test]
fn every_kind_of_line() {
    let text = everything();
    let read = Trace::read(text.as_bytes()).unwrap();
    let mut reader = Reader::new(text.as_bytes()).unwrap();
    let mut writer = Writer::new(Vec::new(), reader.header()).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        writer.record(&record).unwrap();
    }
    let written = writer.into_inner();
    let again = Trace::read(written.as_slice()).unwrap();
    assert_eq!(again, read, "{}", String::from_utf8_lossy(&written));
    let contents = Contents::of(&read);
    let pools: Vec<_> = contents.pools.iter().map(|pool| (pool.id.as_str(), pool.nodes, pool.jobs)).collect();
    assert_eq!(pools, [("hpc", 2, 6), ("push", 1, 1)]);
    assert_eq!((contents.tenants, contents.blocks, contents.groups, contents.fingerprints), (1, 1, 1, 1));
    assert_eq!((contents.arrays, contents.elements, contents.dependencies), (1, 5, 2));
    assert_eq!((contents.facts, contents.orders, contents.cycles, contents.joins), (1, 2, 2, 2));
}

#[test]
fn lines_that_do_not_go_together_are_named() {
    let text = everything();
    let line = |number: usize| text.lines().nth(number - 1).unwrap().to_owned();
    for (number, from, to, field, said) in [
        (8, "\"pool\":\"push\"", "\"pool\":\"posh\"", "job.pool", "there is no pool `posh` in the trace"),
        (8, "\"pool\":\"push\",", "", "job.pool", "no pool is named, and the trace has several: hpc, push"),
        (7, "\"pool\":\"hpc\"", "\"pool\":\"x\"", "node.pool", "there is no pool `x` in the trace"),
        (9, "\"on\":\"1\"", "\"on\":\"7\"", "after", "there is no job `7` in the trace"),
        (10, "\"with\":\"2\"", "\"with\":\"9\"", "with", "there is no job `9` in the trace"),
        (11, "2.3", "2.4", "element", "no array of the trace has an element `2.4`"),
        (12, "n-1", "n-7", "change.node", "there is no node `n-7` in the trace"),
        (14, "2.5", "2.6", "order.job", "there is no job `2.6` in the trace"),
        (16, "hpc", "gone", "cycles.pool", "there is no pool `gone` in the trace"),
    ] {
        let wrong = line(number).replace(from, to);
        assert_ne!(wrong, line(number), "{from}");
        let error = match Trace::read(text.replace(&line(number), &wrong).as_bytes()) {
            Err(landfall_replay::trace::TraceError::Invalid(error)) => *error,
            other => panic!("{other:?}"),
        };
        let found = (error.position.unwrap().line, error.field.as_str(), error.message.as_str());
        assert_eq!(found, (number, field, said));
        assert!(error.hint.is_some(), "{error}");
    }
}
