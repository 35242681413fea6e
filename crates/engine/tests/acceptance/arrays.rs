//! Arrays that are kept as one record: what is accepted, what people do to them, and what others wait for.

use std::collections::BTreeMap;

use landfall_engine::array::{Array, ArrayTally, WINDOW_HIGH, element_id, parse_element_id};
use landfall_engine::dag::{Edge, EdgeKind, Join};
use landfall_engine::input::Submission;
use landfall_engine::record::JobState;
use landfall_engine::{Answer, Engine, Event, Input, State, codec};
use landfall_model::reason::Reason;
use landfall_model::{Dispatch, Indices, JobId, Millis, PoolId, Time};
use landfall_testkit::invariants::check_all;

use crate::support::{Cluster, job_id, node_id, pool};

const FOUR: &str = r#"
    now_ms = 0
    [[nodes]]
    id = "n1"
    cpu_milli = 4000
    ram_mib = 8192
    [[tenants]]
    id = "t"
    share = 1.0
"#;

fn template(id: &str) -> Submission {
    let text =
        format!("now_ms = 0\n[[jobs]]\nid = \"{id}\"\ncpu_milli = 1000\nexclusive = false\ntenant = \"t\"");
    Cluster::jobs(&text).remove(0)
}

fn array(id: &str, first: u32, last: u32, step: u32) -> Input {
    changed(id, first, last, step, |_| {})
}

fn changed(id: &str, first: u32, last: u32, step: u32, change: impl FnOnce(&mut Submission)) -> Input {
    let mut submission = template(id);
    change(&mut submission);
    Input::SubmitArray { submission: Box::new(submission), indices: Indices::range(first, last, step) }
}

fn after(on: &str, kind: EdgeKind) -> Edge {
    Edge { on: job_id(on), kind }
}

fn push() -> Cluster {
    Cluster::new(pool(Dispatch::Push, |pool| pool.heartbeats = false), FOUR)
}

impl Cluster {
    fn array(&self, id: &str) -> &Array {
        &self.engine.state().folded[&job_id(id)]
    }

    fn tally(&self, id: &str) -> ArrayTally {
        self.array(id).tally()
    }

    /// Every step must leave a state that its events give again, with every invariant true.
    fn sound(&self) {
        check_all(&self.engine).unwrap();
        let mut state = State::default();
        for (at, event) in &self.events {
            state.apply(*at, event);
        }
        assert_eq!(state.hash(), self.engine.state().hash());
    }

    fn run_all(&mut self, code: i32) {
        loop {
            let placed: Vec<String> = self
                .engine
                .state()
                .jobs
                .values()
                .filter(|record| record.state == JobState::Staging)
                .map(|record| record.job.id.to_string())
                .collect();
            if placed.is_empty() {
                return;
            }
            for job in placed {
                self.start(&job);
                self.exit(&job, code);
            }
        }
    }
}

#[test]
fn a_million_elements_are_one_event_and_a_small_snapshot() {
    let mut cluster = push();
    cluster.done(array("a", 1, 1_000_000, 1));
    let events = cluster.last.as_ref().unwrap().events.len();
    assert_eq!(events, 2 + 4, "submitted, unfolded, and one commit for each of four cores");
    assert_eq!(cluster.tally("a").folded, 1_000_000 - WINDOW_HIGH);
    assert_eq!(cluster.engine.state().jobs.len(), WINDOW_HIGH as usize);
    assert_eq!(cluster.engine.waiting_in(&PoolId::new("p").unwrap()), 1_000_000 - 4);
    assert_eq!(cluster.engine.state().tenants.values().next().unwrap().jobs, 1_000_000);
    assert_eq!(cluster.nodes_of("a.0000001"), ["n1"]);

    let mut held = push();
    held.done(changed("a", 1, 1_000_000, 1, |array| array.user_hold = true));
    let folded = &held.engine.state().folded;
    let [with, without] = [folded.clone(), BTreeMap::new()].map(|folded| {
        let mut bytes = Vec::new();
        codec::write_state(&mut bytes, &State { folded, ..State::default() }).unwrap();
        bytes.len()
    });
    assert!(with - without < 1000, "{} bytes: {folded:?}", with - without);
    let (mut bytes, event) = (Vec::new(), &held.events.last().unwrap().1);
    codec::write_event(&mut bytes, 0, event).unwrap();
    assert!(bytes.len() < 500, "{} bytes: {event:?}", bytes.len());
    cluster.sound();
    held.sound();
}

#[test]
fn what_is_wrong_with_an_array_is_said() {
    let cases = [
        (array("a", 2, 1, 1), "bad_array"),
        (array("a", 1, 2, 0), "bad_array"),
        (array("a", 0, 10_000_000, 1), "bad_array"),
        (array(&"x".repeat(252), 1, 100_000, 1), "bad_id"),
        (array("one", 1, 2, 1), "duplicate_job"),
        (array("b", 1, 9, 1), "duplicate_job"),
        (changed("a", 1, 2, 1, |new| new.pool = PoolId::new("x").ok()), "unknown_pool"),
        (changed("a", 1, 2, 1, |new| new.edges = vec![after("x", EdgeKind::Any)]), "unknown_dependency"),
        (changed("a", 1, 2, 1, |new| new.edges = vec![after("a", EdgeKind::Any)]), "cycle"),
        (changed("a", 1, 2, 1, |new| new.edges = vec![after("one", EdgeKind::Mutex)]), "mutex_on_array"),
        (changed("a", 1, 2, 1, |new| new.edges = vec![after("c", EdgeKind::Corresponding)]), "array_shape"),
        (array("c.2", 1, 2, 1), "duplicate_job"),
        (Input::Submit(vec![template("c")]), "duplicate_job"),
        (Input::Submit(vec![template("c.3")]), "duplicate_job"),
        (Input::Suspend(job_id("c")), "is_array"),
        (Input::Checkpoint(job_id("c")), "is_array"),
        (Input::SetWalltime { job: job_id("c"), walltime: Millis::secs(1) }, "is_array"),
        (Input::Forget(job_id("c")), "not_ended"),
        (Input::Cancel(job_id("c.4")), "unknown_job"),
        (Input::Cancel(job_id("c.01")), "unknown_job"),
    ];
    let mut cluster = push();
    cluster.done(Input::Submit(vec![template("one")]));
    cluster.done(Input::Submit(vec![template("b.5")]));
    cluster.done(array("c", 1, 3, 1));
    for (input, code) in cases {
        assert_eq!(cluster.refused(input), code);
    }
    assert_eq!(cluster.step(array("c", 1, 3, 1)), Answer::Ignored("submitted_before".into()));
    cluster.sound();
}

#[test]
fn quota_counts_all_elements() {
    let mut cluster = push();
    let mut tenant = cluster.engine.state().tenants.values().next().unwrap().tenant.clone();
    tenant.quota.max_jobs = Some(100);
    cluster.done(Input::SetTenant(Box::new(tenant)));
    assert_eq!(cluster.refused(array("a", 1, 101, 1)), "max_jobs");
    cluster.done(array("a", 1, 100, 1));
    assert_eq!(cluster.refused(Input::Submit(vec![template("one")])), "max_jobs");
    cluster.done(Input::Cancel(job_id("a.100")));
    cluster.done(Input::Submit(vec![template("one")]));
    cluster.sound();
}

#[test]
fn indices_go_in_steps_and_ids_in_their_order() {
    let mut cluster = push();
    cluster.done(array("a", 5, 20, 5));
    let ids: Vec<&str> = cluster.engine.state().jobs.keys().map(JobId::as_str).collect();
    assert_eq!(ids, ["a.05", "a.10", "a.15", "a.20"]);
    assert_eq!(element_id(&job_id("a"), 5, 20).unwrap(), job_id("a.05"));
    assert_eq!(parse_element_id(&job_id("a.05")), Some(("a", 5)));
    assert!(cluster.engine.state().element_of(&job_id("a.06")).is_none());
}

#[test]
fn a_list_of_indices_is_one_array_with_its_limit() {
    let listed = |id: &str, change: fn(&mut Submission)| {
        let mut submission = template(id);
        change(&mut submission);
        Input::SubmitArray { submission: Box::new(submission), indices: "1,2,9,40-41".parse().unwrap() }
    };
    let mut cluster = push();
    cluster.done(listed("a", |array| std::sync::Arc::make_mut(&mut array.job.spec).at_once = Some(2)));
    cluster.done(listed("b", |array| array.edges = vec![after("a", EdgeKind::Corresponding)]));
    let ids = |cluster: &Cluster| -> Vec<String> {
        cluster.engine.state().jobs.keys().map(ToString::to_string).collect()
    };
    assert_eq!(ids(&cluster), ["a.01", "a.02"], "two at once");
    assert_eq!(cluster.refused(Input::Cancel(job_id("a.03"))), "unknown_job");
    assert_eq!(
        cluster
            .refused(changed("c", 1, 4, 1, |array| array.edges = vec![after("a", EdgeKind::Corresponding)])),
        "array_shape"
    );
    assert_eq!(cluster.refused(listed("d", |array| array.open = true)), "bad_array");
    cluster.done(Input::Cancel(job_id("a.40")));
    cluster.sound();
    cluster.run_all(0);
    cluster.sound();
    assert_eq!((cluster.tally("a").completed, cluster.tally("a").cancelled), (4, 1));
    assert_eq!((cluster.tally("b").completed, cluster.tally("b").cancelled), (4, 1));
}

#[test]
fn what_waits_of_an_array_is_taken_back_and_the_rest_goes_on() {
    let mut cluster = push();
    cluster.done(array("a", 1, 1_000_000, 1));
    cluster.done(Input::CancelWaiting(job_id("a")));
    assert_eq!(cluster.tally("a").cancelled, 1_000_000 - 4, "four run");
    assert_eq!(cluster.engine.waiting_in(&PoolId::new("p").unwrap()), 0);
    assert_eq!(cluster.refused(Input::CancelWaiting(job_id("b"))), "unknown");
    cluster.run_all(0);
    assert_eq!(cluster.tally("a").completed, 4);
    assert_eq!(cluster.step(Input::CancelWaiting(job_id("a"))), Answer::Ignored("ended".into()));
    cluster.sound();
}

#[test]
fn a_cancelled_array_ends_with_one_event_for_what_is_folded() {
    let mut cluster = push();
    cluster.done(array("a", 1, 1_000_000, 1));
    cluster.done(Input::Cancel(job_id("a.0900000")));
    assert_eq!(cluster.tally("a").cancelled, 1);
    assert_eq!(cluster.state("a.0900000"), JobState::Cancelled);
    assert_eq!(cluster.step(Input::Cancel(job_id("a.0900000"))), Answer::Ignored("ended".into()));
    cluster.done(Input::Cancel(job_id("a")));
    let dropped = cluster.last.as_ref().unwrap().events.iter();
    assert_eq!(dropped.filter(|event| matches!(event, Event::FoldedDropped { .. })).count(), 1);
    assert_eq!(cluster.state("a.0000001"), JobState::Stopping);
    assert_eq!((cluster.tally("a").folded, cluster.tally("a").unfolded), (0, 4));
    cluster.run_until(100.0);
    assert!(cluster.array("a").is_over());
    assert_eq!(cluster.tally("a").cancelled, 1_000_000);
    assert_eq!(cluster.step(Input::Cancel(job_id("a"))), Answer::Ignored("ended".into()));
    cluster.sound();
}

#[test]
fn a_held_array_waits_and_so_does_a_held_element() {
    let mut cluster = push();
    cluster.done(changed("a", 1, 5000, 1, |array| array.user_hold = true));
    assert_eq!(cluster.engine.state().jobs.len(), 0);
    assert_eq!(
        cluster.engine.explain(&job_id("a.0007")).unwrap().reason.map(Reason::name),
        Some("user_hold")
    );
    assert_eq!(cluster.engine.estimate(&job_id("a")).unwrap().reason, "user_hold");
    cluster.done(Input::UserHold { job: job_id("a.4000"), held: false });
    assert_eq!(cluster.nodes_of("a.4000"), ["n1"], "one element is let go");
    cluster.done(Input::UserHold { job: job_id("a"), held: false });
    assert_eq!(cluster.engine.state().jobs.len(), 1 + WINDOW_HIGH as usize);
    cluster.done(Input::UserHold { job: job_id("a.3999"), held: true });
    cluster.done(Input::UserHold { job: job_id("a"), held: true });
    assert_eq!(cluster.array("a").fresh, 0);
    cluster.sound();
    cluster.done(Input::UserHold { job: job_id("a"), held: false });
    cluster.run_all(0);
    assert!(cluster.array("a").is_over());
    assert_eq!(cluster.tally("a").completed, 5000);
    cluster.sound();
}

#[test]
fn an_array_waits_for_its_time() {
    let mut cluster = push();
    cluster.done(changed("a", 1, 10, 1, |array| array.not_before = Some(Time::from_secs(60))));
    assert_eq!(cluster.engine.state().jobs.len(), 0);
    assert_eq!(cluster.engine.estimate(&job_id("a.05")).unwrap().planned_start, Some(Time::from_secs(60)));
    let mut again = Engine::of(cluster.engine.state().clone());
    assert_eq!(again.next_wake(), cluster.engine.next_wake());
    again.step(Time::from_secs(60), Input::Tick);
    cluster.run_until(60.0);
    assert_eq!(again.state(), cluster.engine.state());
    assert_eq!(cluster.engine.state().jobs.len(), 10);
    cluster.sound();
}

#[test]
fn others_wait_for_an_array_and_an_array_for_others() {
    // (what the elements exit with, whether a job that waits for success, failure, any end may start)
    let cases = [(0, [true, false, true]), (1, [false, true, true])];
    for (code, starts) in cases {
        let mut cluster = push();
        cluster.done(array("a", 1, 2000, 1));
        let kinds = [("s", EdgeKind::Success), ("f", EdgeKind::Failure), ("e", EdgeKind::Any)];
        for (id, kind) in kinds {
            let mut job = template(id);
            job.edges = vec![after("a", kind)];
            cluster.done(Input::Submit(vec![job]));
        }
        cluster.done(changed("b", 1, 3000, 1, |array| array.edges = vec![after("a", EdgeKind::Success)]));
        cluster.done(changed("c", 1, 3000, 1, |array| array.edges = vec![after("b", EdgeKind::Any)]));
        assert_eq!(
            cluster.engine.explain(&job_id("b.0007")).unwrap().reason.map(Reason::name),
            Some("dependency")
        );
        cluster.sound();
        let mut one = template("one");
        one.edges = vec![after("b.2999", EdgeKind::Any)];
        cluster.done(Input::Submit(vec![one]));
        // All but the last run; then nothing that waits for the end of all has started.
        while cluster.array("a").left() > 1 {
            let placed =
                cluster.engine.state().jobs.values().find(|record| record.state == JobState::Staging);
            let job = placed.unwrap().job.id.to_string();
            cluster.start(&job);
            cluster.exit(&job, code);
        }
        assert_eq!(cluster.state("e"), JobState::Pending);
        let last = cluster.engine.state().jobs.values().find(|record| record.state == JobState::Staging);
        let last = last.unwrap().job.id.to_string();
        cluster.start(&last);
        cluster.exit(&last, code);
        for ((id, _), starts) in kinds.iter().zip(starts) {
            let record = cluster.record(id);
            let eligible = record.job.waits_for.is_none() && record.state != JobState::Cancelled;
            assert_eq!(eligible, starts, "{id} after exits with {code}: {:?}", record.state);
        }
        assert_eq!(cluster.array("b").is_over(), code == 1);
        assert_eq!(cluster.record("one").job.waits_for.is_some(), code == 0);
        cluster.sound();
        cluster.run_all(0);
        assert!(cluster.array("c").is_over(), "{:?}", cluster.tally("c"));
        assert_eq!(cluster.tally("c").completed, 3000);
        assert_eq!(cluster.state("one"), JobState::Completed);
        cluster.sound();
    }
}

#[test]
fn arrays_follow_each_other_element_by_element() {
    let mut cluster = push();
    cluster.done(array("a", 1, 3000, 1));
    let follow = |array: &mut Submission| array.edges = vec![after("a", EdgeKind::Corresponding)];
    cluster.done(changed("b", 10, 30_000, 10, follow));
    cluster.done(changed("c", 1, 3000, 1, |array| {
        array.edges = vec![after("a", EdgeKind::Corresponding), after("b", EdgeKind::Corresponding)];
    }));
    let any = |array: &mut Submission| {
        follow(array);
        array.join = Join::Any;
    };
    assert_eq!(cluster.refused(changed("d", 1, 3000, 1, any)), "array_shape");
    let held = Input::UserHold { job: job_id("b.00050"), held: true };
    assert_eq!(cluster.refused(held), "waits_for_element");
    cluster.start("a.0003");
    cluster.exit("a.0003", 0);
    cluster.start("a.0002");
    cluster.exit("a.0002", 1);
    assert_eq!(cluster.state("b.00030"), JobState::Pending);
    assert_eq!((cluster.tally("b").cancelled, cluster.tally("c").cancelled), (1, 1));
    let why = cluster.engine.explain(&job_id("c.0007")).unwrap();
    assert_eq!(why.reason.map(Reason::name), Some("dependency"));
    cluster.sound();
    cluster.run_all(0);
    for id in ["b", "c"] {
        let tally = cluster.tally(id);
        assert_eq!((tally.completed, tally.cancelled, tally.total), (2999, 1, 3000), "{id}");
    }
    cluster.sound();
}

#[test]
fn forgetting_elements_keeps_the_tally() {
    let mut cluster = push();
    cluster.done(array("a", 1, 2000, 1));
    cluster.run_all(0);
    assert!(cluster.array("a").is_over());
    for index in 1..=1999 {
        cluster.done(Input::Forget(element_id(&job_id("a"), index, 2000).unwrap()));
    }
    assert_eq!((cluster.array("a").records, cluster.tally("a").completed), (1, 2000));
    assert_eq!(cluster.engine.explain(&job_id("a.0001")), None, "it was forgotten");
    assert_eq!(cluster.engine.explain(&job_id("a")).unwrap().state, JobState::Completed);
    let mut job = template("one");
    job.edges = vec![after("a", EdgeKind::Success), after("a.0001", EdgeKind::Success)];
    cluster.done(Input::Submit(vec![job]));
    assert_eq!(cluster.state("one"), JobState::Staging);
    cluster.sound();
    cluster.done(Input::Forget(job_id("a")));
    assert!(cluster.engine.state().folded.is_empty());
    assert_eq!(cluster.engine.state().jobs.len(), 1);
    cluster.done(array("a", 1, 5, 1));
    cluster.sound();
}

#[test]
fn an_element_that_waits_folded_is_answered_for() {
    for dispatch in [Dispatch::Push, Dispatch::Pull, Dispatch::Batch] {
        let mut cluster = Cluster::new(pool(dispatch, |pool| pool.heartbeats = false), FOUR);
        cluster.done(array("a", 1, 100_000, 1));
        if dispatch == Dispatch::Batch {
            cluster.run_until(0.5);
            assert_eq!(cluster.nodes_of("a.000004"), ["n1"]);
        }
        for id in ["a", "a.090000", "a.000500"] {
            let id = job_id(id);
            let why = cluster.engine.explain(&id).unwrap();
            assert!(why.reason.is_some(), "{dispatch:?} {id}: {why:?}");
            assert_eq!(why.job, id);
            let estimate = cluster.engine.estimate(&id).unwrap();
            assert!(!estimate.reason.is_empty());
            assert!(cluster.engine.why_not(&id, &node_id("n1")).is_some());
        }
        let why = cluster.engine.explain(&job_id("a.090000")).unwrap();
        if let Some(place) = why.queue {
            assert!((89_000..=90_000).contains(&place.position), "{dispatch:?}: {place:?}");
            assert!((99_000..=100_000).contains(&place.of), "{dispatch:?}: {place:?}");
        }
        assert_eq!(why.array.unwrap().total, 100_000);
        assert_eq!(cluster.engine.explain(&job_id("a.100001")), None);
        cluster.sound();
    }
}

#[test]
fn an_array_that_must_start_at_once_leaves_nothing_behind() {
    let mut cluster = Cluster::new(pool(Dispatch::Batch, |pool| pool.heartbeats = false), FOUR);
    let immediate = |array: &mut Submission| {
        std::sync::Arc::make_mut(&mut array.job.spec).immediate = true;
    };
    cluster.done(changed("a", 1, 5000, 1, immediate));
    cluster.run_until(0.5);
    let tally = cluster.tally("a");
    assert_eq!((tally.folded, tally.unfolded, tally.cancelled), (0, 4, 4996));
    cluster.sound();
}

#[test]
fn specs_are_shared_again_after_reading_a_state() {
    let mut cluster = push();
    cluster.done(array("a", 1, 100, 1));
    cluster.done(Input::Submit(vec![template("one")]));
    let mut bytes = Vec::new();
    codec::write_state(&mut bytes, cluster.engine.state()).unwrap();
    let state = codec::read_state(&mut bytes.as_slice()).unwrap();
    assert_eq!(state.hash(), cluster.engine.state().hash());
    let engine = Engine::of(state);
    let spec = &engine.state().folded[&job_id("a")].job.spec;
    let others = engine.state().jobs.values();
    assert!(others.clone().count() == 101);
    assert!(others.into_iter().all(|record| std::sync::Arc::ptr_eq(spec, &record.job.spec)));
}

fn with(change: impl FnOnce(&mut landfall_model::JobSpec)) -> impl FnOnce(&mut Submission) {
    |array| change(std::sync::Arc::make_mut(&mut array.job.spec))
}

#[test]
fn no_more_elements_are_on_their_way_than_may_run_at_once() {
    for dispatch in [Dispatch::Push, Dispatch::Batch] {
        let mut cluster = Cluster::new(pool(dispatch, |pool| pool.heartbeats = false), FOUR);
        cluster.done(changed("a", 1, 20, 1, with(|spec| spec.at_once = Some(2))));
        for second in 1..1000 {
            cluster.run_until(f64::from(second));
            assert!(cluster.tally("a").unfolded <= 2, "{dispatch:?}: {:?}", cluster.tally("a"));
            let staged =
                cluster.engine.state().jobs.values().filter(|record| record.state == JobState::Staging);
            let staged: Vec<String> = staged.map(|record| record.job.id.to_string()).collect();
            staged.iter().for_each(|job| cluster.start(job));
            if staged.len() == 2 && cluster.tally("a").folded > 0 {
                let reason = cluster.engine.explain(&job_id("a.20")).unwrap().reasons[0].reason;
                assert_eq!(reason, Reason::ArrayLimit, "{dispatch:?}");
            }
            staged.iter().for_each(|job| cluster.exit(job, 0));
            cluster.sound();
            if cluster.array("a").is_over() {
                break;
            }
        }
        assert_eq!(cluster.tally("a").completed, 20, "{dispatch:?}");
    }
}

#[test]
fn an_array_of_which_too_many_elements_fail_is_cancelled() {
    let mut cluster = push();
    cluster.done(changed(
        "a",
        1,
        5000,
        1,
        with(|spec| (spec.max_fails, spec.requeue) = (Some(1), landfall_model::Requeue::Never)),
    ));
    for job in ["a.0001", "a.0002", "a.0003", "a.0004"] {
        cluster.start(job);
    }
    cluster.exit("a.0001", 1);
    assert_eq!(cluster.tally("a").cancelled, 0, "one may fail");
    cluster.exit("a.0003", 1);
    let tally = cluster.tally("a");
    assert_eq!((tally.failed, tally.folded), (2, 0));
    assert_eq!((cluster.state("a.0002"), cluster.state("a.0004")), (JobState::Stopping, JobState::Stopping));
    cluster.sound();
    // Also the one that had just been placed where the first had failed.
    for job in ["a.0002", "a.0004", "a.0005"] {
        cluster.report(job, "n1", landfall_engine::input::Report::Stopped);
        assert_eq!(cluster.state(job), JobState::Cancelled);
    }
    let tally = cluster.tally("a");
    assert_eq!((tally.failed, tally.cancelled, tally.unfolded), (2, 4998, 0));
    assert!(cluster.array("a").is_over());
    cluster.sound();
}

#[test]
fn an_open_array_takes_elements_until_it_is_closed() {
    let open = |array: &mut Submission| array.open = true;
    let more = |array: &str, count: u32| Input::ExtendArray { array: job_id(array), count };
    let mut cluster = push();
    cluster.done(changed("a", 1, 5, 2, open));
    assert_eq!(cluster.nodes_of("a.0000003"), ["n1"], "ids have room for a million");
    cluster.run_all(0);
    assert_eq!((cluster.tally("a").completed, cluster.array("a").is_over()), (3, false));
    assert_eq!(cluster.refused(Input::Forget(job_id("a"))), "not_ended");
    cluster.done(more("a", 2));
    assert_eq!((cluster.tally("a").total, cluster.array("a").shape.indices.last), (5, 9));
    assert_eq!(cluster.engine.state().tenants.values().next().unwrap().jobs, 2);
    cluster.run_all(0);
    assert_eq!(cluster.state("a.0000009"), JobState::Completed);
    assert_eq!((cluster.array("a").is_over(), cluster.array("a").ended_at), (false, None));
    assert_eq!(cluster.refused(more("a", 0)), "bad_array");
    assert_eq!(cluster.refused(more("a", 1_000_000)), "bad_array");
    assert_eq!(cluster.refused(more("nobody", 1)), "unknown_job");
    cluster.done(Input::CloseArray(job_id("a")));
    assert!(cluster.array("a").is_over() && cluster.array("a").ended_at.is_some());
    assert_eq!(cluster.refused(more("a", 1)), "array_closed");
    assert_eq!(cluster.step(Input::CloseArray(job_id("a"))), Answer::Ignored("closed".into()));
    cluster.sound();
    cluster.done(Input::Forget(job_id("a")));

    // One that is closed while elements run ends with the last of them.
    cluster.done(changed("b", 1, 6, 1, open));
    cluster.done(Input::CloseArray(job_id("b")));
    assert!(!cluster.array("b").is_over());
    cluster.run_all(0);
    assert!(cluster.array("b").is_over());
    // Taking it back, and too many failures, close it.
    cluster.done(changed("c", 1, 9, 1, open));
    cluster.done(Input::Cancel(job_id("c")));
    assert!(!cluster.array("c").open);
    let few = |array: &mut Submission| {
        open(array);
        std::sync::Arc::make_mut(&mut array.job.spec).max_fails = Some(0);
    };
    for node in cluster.nodes_of("c.0000001") {
        for element in 1..=4 {
            cluster.report(&format!("c.000000{element}"), &node, landfall_engine::input::Report::Stopped);
        }
    }
    cluster.done(changed("d", 1, 1, 1, few));
    cluster.run_all(1);
    assert!(cluster.array("d").is_over(), "{:?}", cluster.tally("d"));
    // Nobody follows one element by element, and it follows nobody.
    cluster.done(changed("e", 1, 3, 1, open));
    let follows = |new: &mut Submission| new.edges = vec![after("e", EdgeKind::Corresponding)];
    assert_eq!(cluster.refused(changed("f", 1, 3, 1, follows)), "array_shape");
    assert_eq!(cluster.refused(changed("g", 4_294_000_000, 4_294_000_001, 1, open)), "bad_array");
    cluster.sound();
}
