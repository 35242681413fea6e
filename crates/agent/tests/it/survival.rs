//! What survives whom: jobs the agent, results the server's absence, and nothing the keeper, but in order.

use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::Duration;

use landfall_api::agent::Command;
use landfall_model::life::Report;

use crate::basics::gone;
use crate::server::{Agent, Said, Server, TOKEN, helper, shell, up};

/// An agent in a process of its own, to be killed. It goes with the test, also with one that fails.
struct Killed(Child);

impl Killed {
    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.kill();
    }
}

fn agent(server: &Server, dir: &Path) -> Killed {
    let child = Process::new(helper())
        .args(["agent", &server.url])
        .arg(dir)
        .env("LANDFALL_TOKEN", TOKEN)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    Killed(child.expect("it starts"))
}

fn keeper_pid(dir: &Path) -> u32 {
    std::fs::read_to_string(dir.join("keeper.lock")).expect("there").trim().parse().expect("a process id")
}

fn kill(pid: u32) {
    let status = Process::new("kill").args(["-9", &pid.to_string()]).status().expect("it runs");
    assert!(status.success());
}

#[tokio::test]
async fn jobs_survive_a_killed_agent_and_their_ends_arrive() {
    let server = Server::start("push").await;
    let dir = tempfile::tempdir().expect("dir");
    let mut first = agent(&server, dir.path());
    let go = dir.path().join("go");
    let wait =
        format!("echo before; while ! test -e {}; do sleep 0.02; done; echo after; exit 5", go.display());
    let runs = shell("runs-on", &wait);
    let ends = shell("ends-alone", &wait.replace("/go;", "/end;"));
    for start in [&runs, &ends] {
        server.start_job(start).await;
        server.report(&start.fence, |report| *report == Report::Started).await;
    }
    first.kill();
    // One job ends while there is no agent, the other one when there is one again.
    std::fs::write(dir.path().join("end"), "").expect("written");
    server
        .until("it wrote its end", |_| {
            let journal = std::fs::read_to_string(dir.path().join("keeper.journal")).unwrap_or_default();
            journal.contains("\"ended\"").then_some(())
        })
        .await;
    let registered = server.said().registrations.len();
    let mut second = agent(&server, dir.path());
    assert_eq!(server.exit_code(&ends.fence).await, 5);
    let named = server.named_after(registered).await;
    assert!(named.contains(&runs.fence), "{named:?}");
    std::fs::write(&go, "").expect("written");
    assert_eq!(server.exit_code(&runs.fence).await, 5);
    for start in [&runs, &ends] {
        assert_eq!(server.output(&start.fence, "stdout"), "before\nafter\n");
    }
    let environ = std::fs::read(format!("/proc/{}/environ", keeper_pid(dir.path()))).expect("it lives");
    assert!(!String::from_utf8_lossy(&environ).contains(TOKEN), "the keeper knows no token");
    second.kill();
    kill(keeper_pid(dir.path()));
}

#[tokio::test]
async fn jobs_of_a_killed_keeper_are_ended_and_no_longer_named() {
    let (server, agent) = up().await;
    let start = shell("orphan", "echo $$; exec sleep 600");
    server.start_job(&start).await;
    let at = ("orphan".to_owned(), 1, "stdout".to_owned());
    let pid = server.until("it is up", |said| said.logs.get(&at).cloned()).await;
    let pid: u32 = String::from_utf8_lossy(&pid).trim().parse().expect("a process id");
    kill(keeper_pid(agent.dir.path()));
    server.report(&start.fence, |report| *report == Report::Stopped).await;
    server
        .until("it is named no longer", |said| {
            said.heartbeats.last().filter(|beat| beat.running.is_empty()).map(|_| ())
        })
        .await;
    assert!(server.output(&start.fence, "stderr").contains("this attempt is lost"));
    server.until("the orphan is gone", |_| gone(pid).then_some(())).await;
    // Work goes on with another keeper.
    let mut next = start.clone();
    next.fence.attempt = 2;
    next.run.command = vec!["true".into()];
    assert_eq!(server.run(&next).await, 0);
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn reports_wait_for_a_server_that_does_not_answer() {
    let (server, agent) = up().await;
    let start = shell("patient", "exit 9");
    server.until("the agent is there", |said| said.lines.as_ref().map(|_| said.deaf = true)).await;
    server.start_job(&start).await;
    server.until("it tried in vain", |said| (said.requests >= 2).then_some(())).await;
    server
        .until("it is still named", |said| {
            said.heartbeats
                .last()
                .filter(|beat| beat.running == [start.fence.clone()] && beat.active_jobs == 0)
                .map(|_| ())
        })
        .await;
    server.said().deaf = false;
    assert_eq!(server.exit_code(&start.fence).await, 9);
    server
        .until("it is named no longer", |said| {
            said.heartbeats.last().filter(|beat| beat.running.is_empty()).map(|_| ())
        })
        .await;
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn jobs_go_on_when_the_agent_ends_in_order_and_the_next_one_takes_over() {
    let (server, agent) = up().await;
    let start = shell("long", "echo up; sleep 600");
    server.start_job(&start).await;
    server.report(&start.fence, |report| *report == Report::Started).await;
    let (dir, result) = agent.stop().await;
    result.expect("a good end");
    let registered = server.said().registrations.len();
    server.said().lines = None;
    let mut next = self::agent(&server, dir.path());
    let named = server.named_after(registered).await;
    assert_eq!(named, std::slice::from_ref(&start.fence));
    server.send(Command::Stop { fence: start.fence.clone(), grace_ms: 0 }).await;
    server.report(&start.fence, |report| *report == Report::Stopped).await;
    next.kill();
    kill(keeper_pid(dir.path()));
}

#[tokio::test]
async fn what_a_job_leaves_running_ends_with_it_and_only_with_it() {
    let (server, agent) = up().await;
    // Both processes leave the group of their job, as daemons do; the second job goes on.
    let over = shell("over", "setsid sleep 300 & echo $!");
    let go = agent.dir.path().join("go");
    let daemon = format!("setsid sleep 300 & echo $!; while ! test -e {}; do sleep 0.02; done", go.display());
    let runs = shell("runs", &format!("sh -c '{daemon}'"));
    server.start_job(&runs).await;
    let written = |job: &str| (job.to_owned(), 1, "stdout".to_owned());
    let pid = |said: &mut Said, job: &str| -> Option<u32> {
        std::str::from_utf8(said.logs.get(&written(job))?).ok()?.trim().parse().ok()
    };
    let kept = server.until("the daemon is there", |said| pid(said, "runs")).await;
    assert_eq!(server.run(&over).await, 0);
    let left = server.until("the other one was", |said| pid(said, "over")).await;
    server.until("it is gone", |_| gone(left).then_some(())).await;
    assert!(!gone(kept), "its job still runs");
    std::fs::write(&go, "").expect("written");
    assert_eq!(server.exit_code(&runs.fence).await, 0);
    server.until("it is gone as well", |_| gone(kept).then_some(())).await;
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn ends_arrive_also_when_the_server_cannot_keep_output() {
    let server = Server::start("push").await;
    server.said().log_disk_full = true;
    let agent = Agent::start_with(&server, |config| config.log_patience = Duration::from_secs(1));
    let writes = shell("writes", "echo much; exit 3");
    assert_eq!(server.run(&writes).await, 3);
    server.said().log_disk_full = false;
    let later = shell("later", "echo again");
    assert_eq!(server.run(&later).await, 0);
    assert_eq!(server.output(&later.fence, "stdout"), "again\n");
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn output_that_the_server_could_not_keep_for_a_moment_arrives() {
    let server = Server::start("push").await;
    server.said().log_disk_full = true;
    let agent = Agent::start(&server);
    let writes = shell("writes", "echo much; exit 3");
    server.start_job(&writes).await;
    server.until("it was refused again and again", |said| (said.logs_refused >= 5).then_some(())).await;
    server.said().log_disk_full = false;
    assert_eq!(server.exit_code(&writes.fence).await, 3);
    assert_eq!(server.output(&writes.fence, "stdout"), "much\n");
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn a_job_that_writes_without_end_does_not_fill_the_disk_of_its_node() {
    let server = Server::start("push").await;
    let agent = Agent::start_with(&server, |config| {
        config.log_bytes_max = 1000;
        config.log_patience = Duration::from_secs(1);
    });
    server.said().log_disk_full = true;
    let go = agent.dir.path().join("go");
    let written = agent.dir.path().join("written");
    let script = format!(
        "head -c 20000000 /dev/zero; touch {}; while ! test -e {}; do sleep 0.02; done",
        written.display(),
        go.display()
    );
    let writes = shell("writes", &script);
    server.start_job(&writes).await;
    let path = agent.dir.path().join("logs").join("writes.1.out");
    let size = || std::fs::metadata(&path).map_or(0, |meta| meta.len());
    server.until("it has written", |_| written.exists().then_some(())).await;
    server.until("what nobody will read is cut off", |_| (size() < 5_000_000).then_some(())).await;
    std::fs::write(&go, "").expect("written");
    assert_eq!(server.exit_code(&writes.fence).await, 0);
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn the_next_keeper_ends_what_the_journal_does_not_know() {
    let server = Server::start("push").await;
    let dir = tempfile::tempdir().expect("dir");
    let mut first = agent(&server, dir.path());
    // A process in a group and a session of its own: nothing but its environment tells whose it is.
    let daemon = shell("daemon", "setsid sleep 300 & echo $!; sleep 300");
    server.start_job(&daemon).await;
    let written = ("daemon".to_owned(), 1, "stdout".to_owned());
    let left = server.until("the daemon is there", |said| {
        std::str::from_utf8(said.logs.get(&written)?).ok()?.trim().parse::<u32>().ok()
    });
    let left = left.await;
    first.kill();
    kill(keeper_pid(dir.path()));
    assert!(!gone(left), "it does not care");
    let _second = agent(&server, dir.path());
    server.until("it is gone", |_| gone(left).then_some(())).await;
}
