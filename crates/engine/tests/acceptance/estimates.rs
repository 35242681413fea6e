//! What a waiting job is told, held against when it really starts (batch-scheduling.md §19).

use landfall_engine::input::Report;
use landfall_engine::record::JobState;
use landfall_model::answer::{CountsOn, Estimate};
use landfall_model::{Backfill, Dispatch, JobId, Pool, QueueOrder, Time};
use landfall_testkit::Rng;

use crate::around::{submit_to, two_pools};
use crate::support::{Cluster, job_id, pool};

fn told(cluster: &Cluster, job: &str) -> Estimate {
    cluster.engine.estimate(&job_id(job)).unwrap()
}

/// Seconds at which a job is planned to start, and what that counts on.
fn planned(cluster: &Cluster, job: &str) -> (i64, Vec<CountsOn>) {
    let told = told(cluster, job);
    (told.planned_start.unwrap().as_millis() / 1000, told.counts_on)
}

/// Seconds go by: jobs start at once, save for as long as they said, and run for their whole walltime.
fn live(cluster: &mut Cluster, until: i64) {
    let first = cluster.now.as_millis() / 1000 + 1;
    for at in first..=until {
        let now = Time::from_secs(at);
        cluster.run_until(at as f64 - 0.001);
        cluster.at(at as f64);
        let runs = cluster.engine.state().jobs.values().filter_map(|record| {
            let run = record.run.as_ref()?;
            let saves = record.job.spec.checkpoint_minutes.map_or(300.0, |minutes| minutes.as_f64() * 60.0);
            let saved =
                run.saving.as_ref().is_some_and(|saving| now.since(saving.asked_at).as_f64() >= saves * 1e3);
            Some((record.job.id.to_string(), run.ends_at.is_some_and(|end| end <= now), saved))
        });
        let runs: Vec<(String, bool, bool)> = runs.collect();
        for (job, ends, saved) in runs {
            if ends {
                cluster.exit(&job, 0);
            } else if saved {
                cluster.nodes_of(&job).iter().for_each(|node| {
                    cluster.report(&job, node, Report::Checkpointed);
                });
            }
        }
        cluster.tick();
        if at % 10 == 0 {
            cluster.heartbeats();
        }
        let staging = cluster.engine.state().jobs.values().filter(|record| record.state == JobState::Staging);
        let staging: Vec<JobId> = staging.map(|record| record.job.id.clone()).collect();
        staging.iter().for_each(|job| cluster.start(job.as_str()));
    }
}

/// When a job got its nodes, in seconds.
fn started(cluster: &Cluster, job: &str) -> i64 {
    cluster.record(job).past().first_started_at.unwrap().as_millis() / 1000
}

fn batch(scenario: &str) -> Cluster {
    Cluster::new(pool(Dispatch::Batch, |_| {}), scenario)
}

#[test]
fn urgent_work_is_told_when_it_may_stop_others() {
    for (saves, gone) in [("", 630), (r#", checkpoint = "auto", checkpoint_minutes = 2"#, 720)] {
        let mut cluster = batch(r#"nodes = [{ id = "n", count = 2 }]"#);
        let low = format!(r#"jobs = [{{ id = "low", nodes = 2, class = 2, walltime_ms = "2h"{saves} }}]"#);
        cluster.running("low", &low);
        live(&mut cluster, 60);
        cluster.submit(
            r#"jobs = [{ id = "high", nodes = 2, class = 9 }, { id = "mild", nodes = 2, class = 2 }]"#,
        );
        live(&mut cluster, 66);
        assert_eq!(planned(&cluster, "high"), (gone, vec![CountsOn::Preemption]));
        let said = "counts on low being stopped for it, which may be once it has run for 10 min";
        assert_eq!(told(&cluster, "high").reason, said);
        assert!(planned(&cluster, "mild").0 > 4000, "it may not stop anybody");
        live(&mut cluster, gone + 1);
        assert_eq!(started(&cluster, "high"), gone);
    }
}

#[test]
fn four_jobs_a_cycle_have_others_stopped_and_the_rest_is_told_later() {
    let mut cluster = batch(r#"nodes = [{ id = "n", count = 6 }]"#);
    for (class, at) in [(2, 20), (9, 31)] {
        for job in 0..6 {
            let job = format!(r#"{{ id = "c{class}-{job}", class = {class}, walltime_ms = "2h" }}"#);
            cluster.submit(&format!("jobs = [{job}]"));
        }
        live(&mut cluster, at);
    }
    let told: Vec<i64> = (0..6).map(|job| planned(&cluster, &format!("c9-{job}")).0).collect();
    live(&mut cluster, 700);
    let real: Vec<i64> = (0..6).map(|job| started(&cluster, &format!("c9-{job}"))).collect();
    assert_eq!(told, real);
    assert_eq!(real, [635, 635, 635, 635, 640, 640]);
}

#[test]
fn the_owner_of_lent_nodes_is_told_when_they_come_back() {
    let mut cluster = two_pools();
    let wide = r#"jobs = [{ id = "wide", nodes = 6, class = 3, walltime_ms = "1h" }]"#;
    submit_to(cluster.at(0.0), "p", wide);
    cluster.run_until(0.0);
    cluster.start("wide");
    live(&mut cluster, 60);
    submit_to(&mut cluster, "q", r#"jobs = [{ id = "home", nodes = 4, class = 3 }]"#);
    live(&mut cluster, 66);
    assert_eq!(planned(&cluster, "home"), (690, vec![CountsOn::Reclaim]));
    // The notice has been given: what is counted on now is that they leave.
    live(&mut cluster, 620);
    assert_eq!(planned(&cluster, "home"), (690, vec![CountsOn::Hold]));
    live(&mut cluster, 691);
    assert_eq!(started(&cluster, "home"), 690);
}

#[test]
fn jobs_behind_a_quota_are_told_one_after_the_other() {
    for limit in ["max_nodes = 1.0", "max_gpus = 2", "max_cpu_milli = 1000"] {
        let nodes = r#"nodes = [{ id = "n", count = 3, cpu_milli = 4000, gpus = [{ count = 2, vram_mib = "8GiB" }] }]"#;
        let mut cluster = batch(&format!("tenants = [{{ id = \"t\", {limit} }}]\n{nodes}"));
        let job = |id| {
            let asks = r#"gpu_count = 2, cpu_milli = 1000, walltime_ms = "10min""#;
            format!(r#"{{ id = "{id}", tenant = "t", {asks} }}"#)
        };
        cluster.running("a", &format!("jobs = [{}]", job("a")));
        cluster.submit(&format!("jobs = [{}, {}]", job("b"), job("c")));
        live(&mut cluster, 6);
        let quota = vec![CountsOn::Walltimes, CountsOn::Quota];
        assert_eq!(planned(&cluster, "b"), (600, quota.clone()), "{limit}");
        assert_eq!(planned(&cluster, "c"), (1200, quota), "{limit}");
        assert_eq!(told(&cluster, "c").reason, "counts on b giving back quota");
        live(&mut cluster, 1201);
        assert_eq!((started(&cluster, "b"), started(&cluster, "c")), (600, 1200));
    }
}

#[test]
fn a_job_that_others_are_being_stopped_for_is_told_when_they_are_gone() {
    for (saves, gone) in [("", 731), (r#", checkpoint = "auto", checkpoint_minutes = 2"#, 821)] {
        let mut cluster = batch(r#"nodes = [{ id = "n" }]"#);
        cluster
            .running("low", &format!(r#"jobs = [{{ id = "low", class = 2, walltime_ms = "10h"{saves} }}]"#));
        live(&mut cluster, 701);
        cluster.submit(
            r#"jobs = [{ id = "high", class = 8, walltime_ms = "10min" }, { id = "next", class = 8 }]"#,
        );
        live(&mut cluster, 709);
        assert_eq!(planned(&cluster, "high"), (gone, vec![CountsOn::Hold]));
        assert_eq!(told(&cluster, "high").reason, "counts on low leaving the nodes that are kept for it");
        assert_eq!(planned(&cluster, "next").0, gone + 600, "and the one behind it");
        live(&mut cluster, gone + 606);
        assert_eq!(started(&cluster, "high"), gone);
        assert!((gone + 600..=gone + 605).contains(&started(&cluster, "next")));
    }
}

#[test]
fn whoever_outlives_what_was_expected_is_taken_to_need_as_long_again() {
    let pool = pool(Dispatch::Push, |pool| pool.heartbeats = false);
    let mut cluster = Cluster::new(pool, r#"nodes = [{ id = "a", cpu_milli = 4000 }]"#);
    for quick in ["q0", "q1", "q2"] {
        cluster.submit(&format!(r#"jobs = [{{ id = "{quick}", cpu_milli = 1000 }}]"#));
        cluster.start(quick);
        cluster.run_until(cluster.now.as_millis() as f64 / 1000.0 + 0.01);
        cluster.exit(quick, 0);
    }
    cluster.at(1.0).submit(r#"jobs = [{ id = "long", cpu_milli = 4000 }]"#);
    cluster.start("long");
    cluster.submit(r#"jobs = [{ id = "next", cpu_milli = 1000 }]"#);
    for at in [11, 31] {
        cluster.run_until(f64::from(at));
        cluster.tick();
        assert_eq!(planned(&cluster, "next").0, i64::from(at + (at - 1)), "the others took 10 ms");
    }
}

/// Where nobody comes later and all run for their whole walltime, whatever counts on nothing else comes true.
#[test]
fn an_estimate_that_counts_on_nothing_uncertain_is_when_the_job_starts() {
    let mut held = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let settings = |pool: &mut Pool| {
            pool.batch.backfill = rng.choose(&[Backfill::Conservative, Backfill::Strict]);
            (pool.batch.order, pool.batch.preemption) = (QueueOrder::Fifo, false);
        };
        let mut cluster = Cluster::new(
            pool(Dispatch::Batch, settings),
            &format!(r#"nodes = [{{ id = "n", count = {} }}]"#, 4),
        );
        for job in 0..12 {
            let (nodes, secs) = (rng.within(1, 4), rng.within(3, 40) * 7);
            cluster.submit(&format!(
                r#"jobs = [{{ id = "j{job:02}", nodes = {nodes}, walltime_ms = "{secs}s" }}]"#
            ));
        }
        live(&mut cluster, 20 + seed as i64);
        let waiting: Vec<String> = (0..12)
            .map(|job| format!("j{job:02}"))
            .filter(|job| cluster.state(job) == JobState::Pending)
            .collect();
        let all: Vec<Estimate> = waiting.iter().map(|job| told(&cluster, job)).collect();
        live(&mut cluster, 4000);
        for (job, told) in waiting.iter().zip(all).filter(|(_, told)| !told.is_conditional()) {
            let (said, real) = (told.planned_start.unwrap().as_millis() / 1000, started(&cluster, job));
            assert!(
                (said..=said + 5).contains(&real),
                "seed {seed}: {job} was told {said}, started at {real}"
            );
            held += 1;
        }
    }
    assert!(held > 300, "{held}");
}
