//! How many jobs that do nothing go through an agent in a second. The figure is printed, not asserted: machines are noisy.

use std::time::Instant;

use crate::server::{Agent, Server, is_exit, job};

const JOBS: usize = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_do_nothing() {
    for (dispatch, max_concurrent) in [("push", 2), ("pull", 2), ("pull", 8)] {
        let server = Server::start(dispatch).await;
        let agent = Agent::start_with(&server, |config| config.max_concurrent = max_concurrent);
        let jobs: Vec<_> = (0..JOBS).map(|index| job(&format!("t{index}"), &["true"])).collect();
        server.until("the agent listens", |said| said.lines.as_ref().map(|_| ())).await;
        let began = Instant::now();
        if dispatch == "push" {
            for start in &jobs {
                server.start_job(start).await;
            }
        } else {
            server.said().work = jobs;
            server.send(landfall_api::agent::Command::Work).await;
        }
        server
            .until("all jobs ended", |said| {
                let ended = said.reports.iter().filter(|item| is_exit(&item.report)).count();
                (ended == JOBS).then_some(())
            })
            .await;
        let seconds = began.elapsed().as_secs_f64();
        let requests = server.said().requests;
        println!(
            "{dispatch}, {max_concurrent} slots: {JOBS} jobs in {seconds:.2} s, {:.0} per second, {requests} requests with reports",
            JOBS as f64 / seconds
        );
        agent.stop().await.1.expect("a good end");
    }
}
