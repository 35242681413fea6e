//! Containers through a stand-in for podman that keeps to its command line.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use landfall_api::agent::Command;
use landfall_model::life::Report;

use crate::server::{Server, TOKEN, fence, helper, job};

/// Runs "containers" as processes: `run` stays in the foreground and names a process by a file, `stop` and `rm` end it.
const STAND_IN: &str = r#"#!/bin/sh
state=STATE
case "$1" in
info) exit 0 ;;
--version) echo "podman version 5.0" ; exit 0 ;;
run)
    shift
    while [ $# -gt 0 ]; do
        case "$1" in
        --rm|--interactive) shift ;;
        --name) name=$2; shift 2 ;;
        --env) case "$2" in *=*) export "$2" ;; esac; shift 2 ;;
        --*) shift 2 ;;
        *) break ;;
        esac
    done
    image=$1; shift
    [ "$image" = missing ] && { echo "no such image" >&2; exit 125; }
    echo $$ > "$state/$name"
    exec "$@" ;;
stop) echo "stop $3" >> "$state/calls"; kill -TERM "$(cat "$state/$4")" ;;
rm) echo "rm" >> "$state/calls"; kill -KILL "$(cat "$state/$3")" 2>/dev/null ;;
esac
"#;

fn install(dir: &Path) {
    let path = dir.join("podman");
    std::fs::write(&path, STAND_IN.replace("STATE", dir.to_str().expect("text"))).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
}

#[tokio::test]
async fn containers_run_and_stop() {
    let bin = tempfile::tempdir().expect("dir");
    install(bin.path());
    let server = Server::start("push").await;
    let dir = tempfile::tempdir().expect("dir");
    // In a process of its own, because the search path decides which engine is found.
    let mut agent = std::process::Command::new(helper())
        .args(["agent", &server.url])
        .arg(dir.path())
        .env("LANDFALL_TOKEN", TOKEN)
        .env("PATH", format!("{}:/usr/bin:/bin", bin.path().display()))
        .spawn()
        .expect("it starts");
    let mut start = job("c1", &["sh", "-c", "echo \"$MINE $LANDFALL_JOB_ID\"; exit 4"]);
    start.runtime = "container".into();
    start.run.image = Some("alpine".into());
    start.run.env.insert("MINE".into(), "inside".into());
    start.share.cpu_milli = 500;
    assert_eq!(server.run(&start).await, 4);
    assert_eq!(server.output(&start.fence, "stdout"), "inside c1\n");
    let runtimes = server.said().registrations[0].heartbeat.performance_estimates.supported_runtimes.clone();
    assert!(runtimes.iter().any(|name| name == "container"), "{runtimes:?}");

    let mut missing = start.clone();
    missing.fence = fence("c2", 1);
    missing.run.image = Some("missing".into());
    assert_eq!(server.run(&missing).await, 125);
    assert_eq!(server.output(&missing.fence, "stderr"), "no such image\n");

    let mut long = start.clone();
    long.fence = fence("c3", 1);
    long.run.command = ["sh", "-c", "echo up; exec sleep 600"].map(str::to_owned).to_vec();
    server.start_job(&long).await;
    let at = ("c3".to_owned(), 1, "stdout".to_owned());
    server.until("it is up", |said| said.logs.contains_key(&at).then_some(())).await;
    server.send(Command::Stop { fence: long.fence.clone(), grace_ms: 4_500 }).await;
    assert_eq!(server.report(&long.fence, |report| *report != Report::Started).await, Report::Stopped);
    let calls = std::fs::read_to_string(bin.path().join("calls")).expect("called");
    assert!(calls.starts_with("stop 5\n"), "the engine knows the grace: {calls}");
    agent.kill().expect("killed");
    agent.wait().expect("waited");
    let keeper = std::fs::read_to_string(dir.path().join("keeper.lock")).expect("there");
    std::process::Command::new("kill").arg(keeper.trim()).status().expect("it runs");
}
