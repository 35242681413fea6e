//! Jobs run, end, write, are stopped, run out of time; commands are followed once.

use std::time::Duration;

use landfall_api::agent::{Command, Offered};
use landfall_model::life::{Failure, Report, StartRefusal};

use crate::server::{Agent, Server, fence, is_exit, job, shell, up};

#[tokio::test]
async fn a_job_runs_writes_and_ends() {
    let (server, agent) = up().await;
    let mut start =
        shell("a", "read line; echo \"$line $LANDFALL_JOB_ID $LANDFALL_NODE_ID\"; echo bad >&2; pwd; exit 7");
    start.run.stdin = Some("hello\n".into());
    assert_eq!(server.run(&start).await, 7);
    let output = server.output(&start.fence, "stdout");
    assert!(output.starts_with("hello a n1\n"), "{output}");
    assert!(output.ends_with("/a.1\n"), "a directory of its own: {output}");
    assert_eq!(server.output(&start.fence, "stderr"), "bad\n");
    let kinds: Vec<bool> = server.said().reports.iter().map(|item| item.report == Report::Started).collect();
    assert_eq!(kinds, [true, false], "a beginning and an end, in this order");
    match server.report(&start.fence, is_exit).await {
        Report::Exited { usage, failure: None, .. } => {
            assert!(usage.peak_ram.is_some() && usage.cpu_time.is_some() && !usage.oom);
        }
        other => panic!("{other:?}"),
    }
    let (dir, result) = agent.stop().await;
    result.expect("a good end");
    // The keeper tidies up when it goes, which nobody waits for.
    let left = |name: &str| std::fs::read_dir(dir.path().join(name)).expect("there").count();
    let tidy = || (left("logs"), left("work")) == (0, 0);
    server.until("what was stored is removed", |_| tidy().then_some(())).await;
}

#[tokio::test]
async fn what_cannot_be_executed_is_the_jobs_own_fault() {
    let (server, agent) = up().await;
    let missing = job("missing", &["no-such-program-anywhere"]);
    assert_eq!(server.run(&missing).await, 127);
    assert!(server.output(&missing.fence, "stderr").contains("no-such-program-anywhere: command not found"));
    let text = agent.dir.path().join("text");
    std::fs::write(&text, "hello").expect("written");
    let plain = job("plain", &[text.to_str().expect("text")]);
    assert_eq!(server.run(&plain).await, 126);
    let mut nowhere = job("nowhere", &["true"]);
    nowhere.run.cwd = Some("/no/such/directory".into());
    assert_eq!(server.run(&nowhere).await, 126);
    for (name, runtime, command, kind) in [
        ("strange", "quantum", &["x"][..], StartRefusal::Unsupported),
        ("empty", "process", &[], StartRefusal::Malformed),
    ] {
        let mut start = job(name, command);
        start.runtime = runtime.into();
        server.start_job(&start).await;
        assert_eq!(server.report(&start.fence, |_| true).await, Report::Refused(kind));
        assert!(server.output(&start.fence, "stderr").contains("not started"), "the reason can be read");
    }
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn stops_are_gentle_first_and_firm_then() {
    let (server, agent) = up().await;
    let gentle = shell("gentle", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done");
    let stubborn = shell("stubborn", "trap '' TERM; echo up; while :; do sleep 0.05; done");
    for start in [&gentle, &stubborn] {
        server.start_job(start).await;
        let at = (start.fence.job.as_str().to_owned(), 1, "stdout".to_owned());
        server.until("it is up", |said| said.logs.contains_key(&at).then_some(())).await;
    }
    server.send(Command::Stop { fence: gentle.fence.clone(), grace_ms: 20_000 }).await;
    assert_eq!(server.report(&gentle.fence, |report| *report != Report::Started).await, Report::Stopped);
    assert_eq!(server.output(&gentle.fence, "stdout"), "up\nbye\n");
    server.send(Command::Stop { fence: stubborn.fence.clone(), grace_ms: 100 }).await;
    assert_eq!(server.report(&stubborn.fence, |report| *report != Report::Started).await, Report::Stopped);
    let unknown = fence("never-seen", 4);
    server.send(Command::Stop { fence: unknown.clone(), grace_ms: 0 }).await;
    assert_eq!(server.report(&unknown, |_| true).await, Report::Stopped);
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn what_is_told_ahead_begins_after_an_end_and_not_after_a_stop() {
    let (server, agent) = up().await;
    let element = |index: u32, script: &str, ahead: bool| {
        let mut start = shell(&format!("a.{index}"), script);
        (start.array, start.ahead) = (Some(("a".into(), index)), ahead);
        start
    };
    let go = agent.dir.path().join("go");
    let waits = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let first = element(1, &waits, false);
    let [second, third] = [2, 3].map(|index| element(index, "sleep 600", true));
    for start in [&first, &second, &third] {
        server.start_job(start).await;
    }
    server.report(&first.fence, |report| *report == Report::Started).await;
    std::fs::write(&go, "").expect("written");
    server.report(&first.fence, is_exit).await;
    let order: Vec<(String, bool)> = server
        .said()
        .reports
        .iter()
        .map(|item| (item.fence.job.to_string(), item.report == Report::Started))
        .collect();
    let expected = [("a.1", true), ("a.2", true), ("a.1", false)];
    assert_eq!(
        order,
        expected.map(|(job, began)| (job.to_owned(), began)),
        "the next begins before the last ends"
    );
    server.send(Command::Stop { fence: second.fence.clone(), grace_ms: 0 }).await;
    server.report(&second.fence, |report| *report == Report::Stopped).await;
    server.send(Command::GiveBack { fence: third.fence.clone() }).await;
    let back = server.report(&third.fence, |_| true).await;
    assert_eq!(
        back,
        Report::Refused(StartRefusal::Returned),
        "nobody began in place of one that was stopped"
    );
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn files_of_a_job_with_a_directory_of_its_choice_stay_for_the_next() {
    let (server, agent) = up().await;
    let mut start = shell("a", "true");
    start.run.cwd = Some("/".into());
    assert_eq!(server.run(&start).await, 0);
    // Long enough for the end to be forgotten. Until then they are the job's, and after it the next one's.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let files = std::fs::read_dir(agent.dir.path().join("logs")).expect("there").count();
    assert_eq!(files, 2, "standard output and standard error");
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn what_is_told_ahead_keeps_its_output_and_leaves_nothing() {
    let (server, agent) = up().await;
    let starts: Vec<_> = (1..=60)
        .map(|index: u32| {
            // Some take longer than anybody stays with them.
            let pause = if index % 10 == 5 { "sleep 0.05" } else { "true" };
            let mut start = shell(&format!("a.{index}"), &format!("echo $LANDFALL_JOB_ID; pwd; {pause}"));
            (start.array, start.ahead) = (Some(("a".into(), index)), index > 2);
            start
        })
        .collect();
    for start in &starts {
        server.start_job(start).await;
    }
    for start in &starts {
        server.report(&start.fence, is_exit).await;
        let (job, output) = (start.fence.job.as_str(), server.output(&start.fence, "stdout"));
        assert!(output.starts_with(&format!("{job}\n")), "{job}: {output}");
        assert_eq!(output.lines().count(), 2, "its own words and no other's: {output}");
    }
    let (dir, result) = agent.stop().await;
    result.expect("a good end");
    let left = |name: &str| std::fs::read_dir(dir.path().join(name)).expect("there").count();
    server.until("nothing is left", |_| ((left("logs"), left("work")) == (0, 0)).then_some(())).await;
}

#[tokio::test]
async fn time_limits_and_codes_that_mean_again() {
    let (server, agent) = up().await;
    let mut slow = job("slow", &["sleep", "600"]);
    slow.run.timeout_ms = Some(100);
    server.start_job(&slow).await;
    match server.report(&slow.fence, is_exit).await {
        Report::Exited { code: 143, failure: Some(Failure::Timeout), .. } => {}
        other => panic!("{other:?}"),
    }
    let mut again = shell("again", "exit 75");
    again.run.retry_on = vec![75];
    server.start_job(&again).await;
    match server.report(&again.fence, is_exit).await {
        Report::Exited { code: 75, failure: Some(Failure::Transient), .. } => {}
        other => panic!("{other:?}"),
    }
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn leftovers_of_a_job_end_with_it() {
    let (server, agent) = up().await;
    let start = shell("parent", "sleep 600 & echo $!; exit 0");
    assert_eq!(server.run(&start).await, 0);
    let child: u32 = server.output(&start.fence, "stdout").trim().parse().expect("a process id");
    server.until("the child is gone", |_| gone(child).then_some(())).await;
    agent.stop().await.1.expect("a good end");
}

/// Whether a process is gone, or a zombie that nobody has waited for.
pub(crate) fn gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

#[tokio::test]
async fn nothing_of_the_agents_environment_reaches_a_job() {
    // The test runner's own environment stands for the agent's: it is full of names that jobs must not see.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let (server, agent) = up().await;
    let mut start = shell("env", "env; cat /proc/$PPID/environ | tr '\\0' '\\n'");
    start.run.env.insert("MINE".into(), "yes".into());
    assert_eq!(server.run(&start).await, 0);
    let env = server.output(&start.fence, "stdout");
    assert!(env.contains("MINE=yes\n") && env.contains("LANDFALL_ATTEMPT=1\n"), "{env}");
    assert!(!env.contains("CARGO_") && !env.contains(crate::server::TOKEN), "{env}");
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn fences_are_minded() {
    let (server, agent) = up().await;
    let mut start = shell("f", "echo up; sleep 600");
    start.fence.attempt = 2;
    server.start_job(&start).await;
    server.report(&start.fence, |report| *report == Report::Started).await;
    let mut old = start.clone();
    old.fence.attempt = 1;
    server.start_job(&old).await;
    server.start_job(&start).await;
    server
        .until("the repeated start is answered", |said| {
            let started = said.reports.iter().filter(|item| item.report == Report::Started).count();
            (started == 2).then_some(())
        })
        .await;
    assert!(server.said().reports.iter().all(|item| item.fence.attempt == 2), "the old one is ignored");
    server
        .until("a heartbeat names it", |said| {
            said.heartbeats
                .last()
                .filter(|beat| beat.running == [start.fence.clone()] && beat.accepting)
                .map(|_| ())
        })
        .await;
    server.send(Command::Stop { fence: start.fence.clone(), grace_ms: 0 }).await;
    server.report(&start.fence, |report| *report == Report::Stopped).await;
    server.start_job(&start).await;
    server
        .until("its end is told again", |said| {
            let stopped = said.reports.iter().filter(|item| item.report == Report::Stopped).count();
            (stopped == 2).then_some(())
        })
        .await;
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn checkpoints_are_asked_for_and_waited_for() {
    let (server, agent) = up().await;
    let script =
        "trap 'echo saved > $LANDFALL_CHECKPOINT_DIR/state; touch $LANDFALL_CHECKPOINT_DIR/done' USR1
        test -e $LANDFALL_CHECKPOINT_DIR/state && cat $LANDFALL_CHECKPOINT_DIR/state && exit 0
        echo up; while :; do sleep 0.05; done";
    let start = shell("c", script);
    server.start_job(&start).await;
    server.until("it is up", |said| (!said.logs.is_empty()).then_some(())).await;
    server.send(Command::Checkpoint { fence: start.fence.clone(), within_ms: 60_000, leave: true }).await;
    assert_eq!(server.report(&start.fence, |report| *report != Report::Started).await, Report::Checkpointed);
    let mut second = start.clone();
    second.fence.attempt = 2;
    second.resume = true;
    assert_eq!(server.run(&second).await, 0);
    assert_eq!(server.output(&second.fence, "stdout"), "saved\n", "the next attempt finds what was saved");
    let deaf = shell("deaf", "trap '' USR1; echo up; sleep 600");
    server.start_job(&deaf).await;
    let at = ("deaf".to_owned(), 1, "stdout".to_owned());
    server.until("it is up", |said| said.logs.contains_key(&at).then_some(())).await;
    server.send(Command::Checkpoint { fence: deaf.fence.clone(), within_ms: 150, leave: true }).await;
    server.report(&deaf.fence, |report| *report == Report::CheckpointFailed).await;
    server.send(Command::Stop { fence: deaf.fence.clone(), grace_ms: 0 }).await;
    server.report(&deaf.fence, |report| *report == Report::Stopped).await;
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn too_much_output_is_cut_and_said() {
    let server = Server::start("push").await;
    let agent = Agent::start_with(&server, |config| config.log_bytes_max = 1000);
    let start =
        shell("loud", "i=0; while [ $i -lt 400 ]; do echo 0123456789; i=$((i+1)); done; echo fine >&2");
    assert_eq!(server.run(&start).await, 0);
    let output = server.output(&start.fence, "stdout");
    assert!(output.ends_with("the rest was dropped\n") && output.len() < 1200, "{output}");
    assert_eq!(server.output(&start.fence, "stderr"), "fine\n");
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn self_tests_and_offers_are_answered() {
    let (server, agent) = up().await;
    server.send(Command::Probe).await;
    assert!(server.until("the probe is answered", |said| said.probes.first().copied()).await);
    std::fs::write(agent.dir.path().join("inputs/here"), "x").expect("written");
    let inputs = vec![("here".to_owned(), Some(5)), ("b".to_owned(), Some(200)), ("c".to_owned(), None)];
    server.send(Command::Offer { jobs: vec![Offered { job: "j".into(), inputs }] }).await;
    let entry =
        server.until("fetches are told", |said| said.fetches.first().map(|it| it.entries[0].clone())).await;
    assert_eq!((entry.missing_inputs, entry.missing_bytes), (Some(2), Some(200)));
    agent.stop().await.1.expect("a good end");
}

#[tokio::test]
async fn an_agent_that_the_server_does_not_know_says_what_to_do() {
    let server = Server::start("push").await;
    let agent = Agent::start_with(&server, |config| config.token = Some("wrong".into()));
    let error = agent.end().await.expect_err("it is refused");
    assert!(error.to_string().contains("refuses"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("token")));
}

#[tokio::test]
async fn jobs_end_with_the_agent_if_that_is_wanted() {
    let server = Server::start("push").await;
    let agent = Agent::start_with(&server, |config| config.stop_jobs = true);
    let start = job("s", &["sleep", "600"]);
    server.start_job(&start).await;
    server.report(&start.fence, |report| *report == Report::Started).await;
    agent.stop().await.1.expect("a good end");
    assert_eq!(server.report(&start.fence, |report| *report != Report::Started).await, Report::Stopped);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(
        server.said().heartbeats.iter().any(|beat| !beat.accepting),
        "it said that it takes no more work"
    );
}

#[tokio::test]
async fn a_runtime_may_be_a_template() {
    let server = Server::start("push").await;
    let agent = Agent::start_with(&server, |config| {
        let command = ["sh", "-c", "echo \"$@\"", "{job}", "{cpus}", "[{args}]"].map(str::to_owned).to_vec();
        config.runtimes.insert("echoing".into(), landfall_agent::Template { command });
    });
    let mut start = job("t", &["x", "y", "z"]);
    start.runtime = "echoing".into();
    start.share.cpu_milli = 1500;
    assert_eq!(server.run(&start).await, 0);
    assert_eq!(server.output(&start.fence, "stdout"), "1.5 [y z]\n");
    let runtimes = server.said().registrations[0].heartbeat.performance_estimates.supported_runtimes.clone();
    assert!(["echoing", "process"].iter().all(|name| runtimes.iter().any(|it| it == name)), "{runtimes:?}");
    agent.stop().await.1.expect("a good end");
}
