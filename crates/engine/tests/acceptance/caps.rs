//! What all pools together may draw and move (batch scheduling, 1.2: caps of a pool and of the cluster; both must hold).

use landfall_engine::Input;
use landfall_engine::record::JobState;
use landfall_model::{Caps, Dispatch, PoolId};

use crate::support::{Cluster, pool};

/// A batch pool of one node that draws 100 W when idle.
fn cluster() -> Cluster {
    let node = |id: &str| {
        format!(
            r#"nodes = [{{ id = "{id}", cpu_milli = 4000, ram_mib = "8GiB", supported_runtimes = ["process"], power = {{ idle_w = 100, busy_w = 300 }} }}]"#
        )
    };
    let batch = |id: &str| {
        pool(Dispatch::Batch, |pool| {
            pool.id = PoolId::new(id).unwrap();
            pool.heartbeats = false;
        })
    };
    let mut cluster = Cluster::new(batch("p"), &node("n"));
    cluster.add_pool(batch("q"), &node("m"));
    cluster
}

fn job(id: &str, pool: &str, more: &str) -> String {
    format!(
        r#"jobs = [{{ id = "{id}", pool = "{pool}", runtime = "process", cpu_milli = 1000, exclusive = false, walltime_ms = 60000{more} }}]"#
    )
}

fn state_of(cluster: &Cluster, jobs: &[&str]) -> Vec<bool> {
    jobs.iter().map(|job| cluster.state(job) != JobState::Pending).collect()
}

#[test]
fn jobs_of_one_pool_wait_for_what_another_draws_and_moves() {
    for (caps, more) in [
        // Both nodes idle draw 200 W; a job adds 200 W.
        (Caps { power_w: Some(599), io_bytes_s: None }, ""),
        (Caps { power_w: None, io_bytes_s: Some(1999) }, ", io_bytes_s = 1000"),
    ] {
        let mut cluster = cluster();
        cluster.done(Input::SetCaps(caps));
        cluster.at(0.0);
        cluster.submit(&job("a", "p", more));
        cluster.run_until(5.0);
        cluster.start("a");
        cluster.submit(&job("b", "q", more));
        cluster.run_until(20.0);
        assert_eq!(state_of(&cluster, &["a", "b"]), [true, false], "{caps:?}");
        cluster.exit("a", 0);
        cluster.run_until(30.0);
        assert_ne!(cluster.state("b"), JobState::Pending, "{caps:?}: what ended is given back");
    }
}

#[test]
fn what_just_fits_runs_and_a_lower_cap_stops_nothing() {
    let mut cluster = cluster();
    cluster.done(Input::SetCaps(Caps { power_w: Some(600), io_bytes_s: Some(2000) }));
    cluster.at(0.0);
    ["a", "b"]
        .iter()
        .zip(["p", "q"])
        .for_each(|(id, pool)| cluster.submit(&job(id, pool, ", io_bytes_s = 1000")));
    cluster.run_until(5.0);
    assert_eq!(state_of(&cluster, &["a", "b"]), [true, true]);
    cluster.start("a");
    cluster.start("b");
    cluster.done(Input::SetCaps(Caps { power_w: Some(1), io_bytes_s: Some(1) }));
    cluster.run_until(15.0);
    assert_eq!(state_of(&cluster, &["a", "b"]), [true, true]);
    let mut rebuilt = landfall_engine::State::default();
    cluster.events.iter().for_each(|(at, event)| drop(rebuilt.apply(*at, event)));
    assert_eq!(rebuilt.caps, cluster.engine.state().caps);
}
