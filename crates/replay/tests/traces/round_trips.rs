//! What is written reads back equal.

use landfall_model::{NodeId, Time};
use landfall_replay::trace::convert::{Shape, from_generated, from_swf, generated_log, to_swf};
use landfall_replay::trace::generate::{Gpus, Settings, generate};
use landfall_replay::trace::own::{Change, Header, NodeChange, Trace, Writer};
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
            prop_assert_eq!(submission.run.map(|run| run.get()), Some(job.run as u64 * 1000));
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
