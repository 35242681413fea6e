//! The first hour of somebody who comes from elsewhere: each test is something that went wrong for one.
//!
//! What was found, by its number in the list of findings, and the test that fails where it is not mended:
//!
//! All of them were run with the binary of 6d82925, from before. Each failed there, many because the command or flag does not exist, others with what was
//! seen then (an array that is left out of `jobs`, `--storage 500TiB` that is accepted, a start "in 129599 s", a help that says `backup` copies
//! "everything that a server keeps"); those about 4 (walltime), 5, 11 and 16 (`top`, late ends) waited for what did not come until they
//! were ended after 45 s.
//!
//! | finding | test |
//! |---|---|
//! | 1 results are deleted | `jobs_run_where_they_were_submitted_and_their_results_stay`, `what_a_job_leaves_in_a_fresh_directory_is_kept_and_found` |
//! | 2 examples fail | `help::examples_about_a_cluster_run_as_they_are_written` and the others there |
//! | 3 waiting arrays are invisible | `arrays_that_wait_are_seen_everywhere` |
//! | 4 needs are ignored | `every_need_counts_or_is_refused`, `a_walltime_binds_in_every_pool` |
//! | 5 a setting stops a pool | `cycles_that_follow_events_follow_them_on_a_live_server` |
//! | 6 live changes vanish | `the_settings_file_wins_at_every_start_and_everybody_is_told` |
//! | 7 impossible looks like busy | `the_impossible_does_not_look_busy` |
//! | 8 estimates of push pools | `estimates_of_a_push_pool_go_by_what_jobs_took` |
//! | 9 `--wait` says nothing, or all of it twice | `a_wait_says_what_changed_once_and_what_failed_at_the_end`, `daily::who_waits_at_a_terminal_sees_…` |
//! | 10 no retry, no list of indices, no output of an array | `what_failed_is_run_again_and_what_was_submitted_is_waited_for` |
//! | 11 a twin takes a node down | `a_mistyped_twin_takes_no_node_down` |
//! | 12 limits that do not bind are not said | `operators::limits_bind_or_it_is_said_that_they_do_not`, `the_first_page_says_that_limits_do_not_bind` |
//! | 13 walltime, backups, who uses what | `daily::a_default_walltime_is_named_wherever_somebody_may_look`, `daily::a_backup_promises_what_it_does`, `operators::who_uses_what_is_told_in_figures_for_people` |
//! | 14 slips make things, `config check` | `slips_make_nothing`, `a_checked_configuration_starts`, `operators::what_is_no_longer_needed_is_deleted_and_stays_so`, `operators::a_policy_for_another_way_to_dispatch_is_refused` |
//! | 15 names | `scripts::many_jobs_come_from_the_lines_of_a_file`, `daily::names_follow_one_grammar`, `words::exit_codes_are_those_of_the_table` |
//! | 16 `top`, retries, plans, late ends | `daily::on_a_small_screen_…`, `scripts::failures_are_tried_again_after_a_pause_…`, `a_plan_about_needs_alone_is_about_them`, `an_end_that_is_told_late_counts_with_the_time_it_took`, `replay::a_broken_bound_ends_with_four` |

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::stand::{Said, Stand, refused};
use crate::terminal::Terminal;

/// Runs a command in a directory, as somebody who stands there.
fn run_in(stand: &Stand, dir: &Path, args: &[&str]) -> Said {
    Said::of(stand.command().args(args).current_dir(dir).stdin(Stdio::null()).output().unwrap())
}

fn program(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn jobs_run_where_they_were_submitted_and_their_results_stay() {
    let stand = Stand::with_agent(&["--cpus", "4"]);
    let here = stand.path("my work");
    std::fs::create_dir_all(here.join("sub")).unwrap();
    program(&here.join("simulate"), "echo $LANDFALL_ARRAY_INDEX > result-$LANDFALL_ARRAY_INDEX.txt; pwd");
    run_in(&stand, &here, &["submit", "--wait", "--array", "1-3", "--", "./simulate"]).ok();
    for index in 1..=3 {
        let found = std::fs::read_to_string(here.join(format!("result-{index}.txt"))).unwrap();
        assert_eq!(found.trim(), index.to_string());
    }
    // A directory is named as whoever names it sees it.
    let inside = here.canonicalize().unwrap();
    for (cwd, at) in [(".", inside.clone()), ("sub", inside.join("sub")), ("./sub/..", inside.join("sub/.."))]
    {
        let said = run_in(&stand, &here, &["submit", "--wait", "--cwd", cwd, "--", "pwd", "-P"]).ok();
        assert_eq!(Path::new(said.trim()), at.canonicalize().unwrap(), "{cwd}");
    }
    let missing = run_in(&stand, &here, &["submit", "--wait", "--cwd", "nowhere", "--", "true"]);
    refused(&missing, &["nowhere does not exist on this node"]);
}

#[test]
fn what_a_job_leaves_in_a_fresh_directory_is_kept_and_found() {
    let mut stand = Stand::new();
    stand.agent("n1", &["--cpus", "2"]);
    std::fs::write(
        stand.path("job.toml"),
        "[run]\ncommand = ['sh', '-c', 'mkdir out; echo 42 > out/answer']\n[run.submitted_from]\nhost = 'elsewhere'\nuid = 1\ndir = '/nowhere'\n",
    )
    .unwrap();
    let id = stand.submit(&["--file", "job.toml"]);
    let job = stand.wait_for(&id, &["completed", "failed"]);
    let files = job["files"].as_str().unwrap_or_else(|| panic!("says no place: {job}"));
    assert_eq!(std::fs::read_to_string(Path::new(files).join("out/answer")).unwrap(), "42\n");
    assert!(stand.run(&["job", &id]).ok().contains(files));
    // Elements of arrays, too, and what leaves nothing says nothing.
    let array = stand.submit(&["--file", "job.toml", "--array", "1-2"]);
    stand.until("the array is over", || stand.array(&array)["completed"] == 2);
    let element = stand.job(&format!("{array}.2"));
    assert!(Path::new(element["files"].as_str().unwrap()).join("out/answer").exists(), "{element}");
    let clean = stand.submit(&["--file", "job.toml", "--", "true"]);
    assert_eq!(stand.wait_for(&clean, &["completed"])["files"], Value::Null);
    // Agents come and go; it stays until its time is over.
    drop(stand.agent_process("n1"));
    stand.agent("n1", &["--cpus", "2"]);
    assert!(Path::new(files).join("out/answer").exists());
    drop(stand.agent_process("n1"));
    std::fs::write(stand.path("config.toml"), "[agent]\nkeep_files = '1s'\n").unwrap();
    stand.agent("n1", &["--cpus", "2"]);
    stand.until("it is gone", || !Path::new(files).exists());
}

#[test]
fn arrays_that_wait_are_seen_everywhere() {
    let stand = Stand::with_agent(&["--cpus", "2"]);
    let blocker = stand.submit(&["--hold", "--name", "first", "--", "true"]);
    let on = format!("{blocker}:success");
    for (name, how) in
        [("held", &["--hold"][..]), ("after", &["--depends-on", &on]), ("later", &["--not-before", "+1h"])]
    {
        let mut args = vec!["--array", "1-200", "--name", name];
        args.extend(how);
        args.extend(["--", "true"]);
        let id = stand.submit(&args);
        for list in [
            &["jobs"][..],
            &["jobs", "--all"],
            &["jobs", "--name", name],
            &["jobs", "--state", "pending"],
            &["jobs", "--array", &id],
        ] {
            let shown = stand.run(list).ok();
            let line = shown.lines().find(|line| line.trim_start().starts_with(&format!("{id} ")));
            let line = line.unwrap_or_else(|| panic!("{list:?} leaves array {id} out:\n{shown}"));
            assert!(line.contains(name) && line.contains("200 waiting"), "{line}");
        }
    }
    let mut top = Terminal::of(&stand, &["top"]);
    let screen = top.until_screen("an array is a row", |lines| {
        lines.iter().filter(|line| line.contains("200 waiting")).count() == 3
    });
    let rows = screen.iter().filter_map(|line| line.strip_prefix('│')?.split(' ').next()?.parse().ok());
    let rows: Vec<u64> = rows.collect();
    assert!(rows.len() == 4 && rows.is_sorted(), "who waits longest comes first:\n{}", screen.join("\n"));
    top.type_in("q");
    assert_eq!(top.ended(), Some(0));
    assert_eq!(stand.json(&["status"])["jobs"]["pending"], 601);
    let shown = stand.run(&["jobs", "--name", "held"]).ok();
    assert!(shown.contains("held back"), "no reason: {shown}");
    let held = stand.json(&["jobs", "--name", "held"])["arrays"][0]["id"].as_str().unwrap().to_owned();
    stand.run(&["cancel", &held]).ok();
    let shown = stand.run(&["jobs", "--all", "--name", "held"]).ok();
    assert!(shown.contains("200 cancelled"), "one that was cancelled never was: {shown}");
    let left = stand.json(&["jobs"]);
    assert!(left["arrays"].as_array().unwrap().iter().all(|array| array["id"] != held.as_str()), "{left}");
    // What keeps an array back is not said of a job with the same needs.
    let fills = stand.submit(&["--cpu", "2", "--", "sleep", "300"]);
    stand.wait_for(&fills, &["running"]);
    let waits = stand.submit(&["--name", "plain", "--", "true"]);
    stand.submit(&["--hold", "--array", "1-9", "--", "true"]);
    let shown = stand.run(&["jobs"]).ok();
    let line = shown.lines().find(|line| line.trim_start().starts_with(&format!("{waits} "))).unwrap();
    assert!(line.contains("0 cores free") && shown.contains("9 waiting: it is held back"), "{shown}");
    stand.run(&["cancel", &fills]).ok();
}

#[test]
fn the_first_page_says_that_limits_do_not_bind() {
    let stand = Stand::unstarted("[agent]\nlimits = false\n");
    let ready = stand.path("ready");
    let mut command = stand.command();
    command.env_remove("LANDFALL_SERVER");
    let args = ["up", "--cpus", "1", "--port", "0", "--stop-jobs", "--ready-file", ready.to_str().unwrap()];
    let _up = stand.start("up", command, &args);
    stand.until("it is up", || stand.log("up").contains("Ctrl-C ends"));
    let said = stand.log("up");
    let line = said.lines().find(|line| line.trim_start().starts_with("ATTENTION"));
    assert!(
        line.is_some_and(|line| line.contains("limits are not enforced: agent.limits = false")),
        "{said}"
    );
}

#[test]
fn every_need_counts_or_is_refused() {
    let mut stand = Stand::with_config(
        "[[pools]]\nid = 'default'\ndispatch = 'push'\n[[pools]]\nid = 'hpc'\ndispatch = 'batch'\n",
    );
    std::fs::write(stand.path("config.toml"), "[agent]\nregion = 'eu'\nfeatures = ['nvme']\n").unwrap();
    stand.agent("n1", &["--cpus", "2", "--pool", "default"]);
    stand.agent("n2", &["--cpus", "2", "--pool", "hpc"]);
    let submit = |args: &[&str]| {
        let mut all = vec!["submit"];
        all.extend(args);
        all.extend(["--", "true"]);
        stand.run(&all)
    };
    refused(&submit(&["--storage", "500TiB"]), &["storage_mib", "disk"]);
    refused(&submit(&["--region", "mars"]), &["region `mars`", "there is eu"]);
    refused(&submit(&["--class", "7"]), &["class", "push", "priority"]);
    refused(&submit(&["--exclusive"]), &["exclusive"]);
    // Nodes say how much memory their GPUs have, not what they are capable of.
    refused(&submit(&["--gpu", "1:24GiB:sm_80"]), &["gpu_capability", "gpu_models"]);
    for (need, pool) in [
        ("same_numa=true", "default"),
        ("lifecycle=reactive", "default"),
        ("scale_target_milli=5", "default"),
        ("inputs=[{\"digest\": \"d\", \"bytes\": 1}]", "default"),
        ("prefer_local=true", "hpc"),
        ("max_cost=5", "hpc"),
        ("hints={\"prefer_regions\": [\"eu\"]}", "default"),
    ] {
        let field = need.split('=').next().unwrap();
        refused(&submit(&["--pool", pool, "--need", need]), &[field, "has no effect in pool"]);
    }
    refused(&submit(&["--pool", "hpc", "--priority", "3"]), &["priority", "batch", "class"]);
    refused(&submit(&["--pool", "hpc", "--region", "eu"]), &["region", "batch"]);
    for good in [&["--region", "eu"][..], &["--priority", "3"], &["--need", "features=[\"nvme\"]"]] {
        let mut args = good.to_vec();
        args.extend(["--", "true"]);
        let id = stand.submit(&args);
        assert_eq!(stand.wait_for(&id, &["completed", "failed"])["state"], "completed", "{good:?}");
    }
    // What no node has waits, and says so.
    let other = if std::env::consts::ARCH == "aarch64" { "amd64" } else { "arm64" };
    let architecture = format!("architecture={other}");
    for impossible in ["features=[\"avx512\"]", architecture.as_str()] {
        let said = submit(&["--need", impossible]);
        assert!(said.err.contains("can ever run it"), "{impossible}: {}", said.err);
    }
    let own = format!("architecture={}", std::env::consts::ARCH);
    stand.run(&["submit", "--wait", "--need", &own, "--", "true"]).ok();
}

#[test]
fn a_walltime_binds_in_every_pool() {
    let mut stand = Stand::with_config(
        "[[pools]]\nid = 'push'\ndispatch = 'push'\n[[pools]]\nid = 'pull'\ndispatch = 'pull'\npolicy = 'simple'\n[[pools]]\nid = 'batch'\ndispatch = 'batch'\n",
    );
    let mut ids = Vec::new();
    for pool in ["push", "pull", "batch"] {
        stand.agent(&format!("{pool}-1"), &["--pool", pool, "--cpus", "2"]);
        ids.push(stand.submit(&["--pool", pool, "--walltime", "1s", "--", "sleep", "300"]));
    }
    for id in ids {
        let job = stand.wait_for(&id, &["completed", "failed", "cancelled"]);
        assert_eq!(job["state"], "failed", "{job}");
        let said = stand.run(&["job", &id]).ok();
        assert!(said.contains("longer") || said.contains("walltime") || said.contains("time"), "{said}");
    }
}

#[test]
fn cycles_that_follow_events_follow_them_on_a_live_server() {
    let mut stand = Stand::with_config("[[pools]]\nid = 'hpc'\ndispatch = 'batch'\n");
    stand.agent("n1", &["--cpus", "1"]);
    stand
        .run(&["pools", "set", "hpc", "--set", "batch.cycle_on_events=true", "--set", "batch.cycle_ms=30000"])
        .ok();
    // One after the other on one core: each starts because the one before has ended.
    let ids: Vec<String> = (0..3).map(|_| stand.submit(&["--walltime", "1m", "--", "true"])).collect();
    for id in ids {
        assert_eq!(stand.wait_for(&id, &["completed", "failed"])["state"], "completed");
    }
}

#[test]
fn the_settings_file_wins_at_every_start_and_everybody_is_told() {
    let config = "[[pools]]\nid = 'default'\ndispatch = 'push'\n[[pools]]\nid = 'hpc'\ndispatch = 'batch'\n[[tenants]]\nid = 'lab'\nshare = 0.5\n";
    let mut stand = Stand::with_config(config);
    assert!(stand.run(&["pools", "show", "hpc"]).ok().contains("as the settings file says"));
    let said = stand.run(&["pools", "set", "hpc", "--set", "batch.depth=7"]);
    assert!(said.err.contains("config.toml") && said.err.contains("next start"), "{}", said.err);
    let said = stand.run(&["tenants", "set", "lab", "--share", "0.4"]);
    assert!(said.err.contains("config.toml") && said.err.contains("next start"), "{}", said.err);
    let shown = stand.run(&["pools", "show", "hpc"]).ok();
    assert!(shown.contains("changed live") && shown.contains("batch.depth                  7"), "{shown}");
    let shown = stand.run(&["config", "show"]).ok();
    assert!(
        shown.contains("hpc (changed live") && shown.contains("default (as the settings file says)"),
        "{shown}"
    );
    assert!(shown.contains("lab (changed live") && shown.contains("wins at every start"), "{shown}");
    stand.run(&["pools", "set", "own", "--dispatch", "batch", "--set", "batch.depth=9"]).ok();
    stand.end_server();
    stand.start_server();
    let shown = stand.run(&["pools", "show", "hpc"]).ok();
    assert!(
        shown.contains("as the settings file says") && shown.contains("batch.depth                  1"),
        "{shown}"
    );
    let own = stand.run(&["pools", "show", "own"]).ok();
    assert!(own.contains("batch.depth                  9"), "what the file does not name stays: {own}");
}

#[test]
fn the_impossible_does_not_look_busy() {
    let mut stand = Stand::with_config(
        "[[pools]]\nid = 'default'\ndispatch = 'push'\n[[pools]]\nid = 'ci'\ndispatch = 'pull'\n[[pools]]\nid = 'hpc'\ndispatch = 'batch'\n",
    );
    for pool in ["default", "ci", "hpc"] {
        stand.agent(&format!("{pool}-1"), &["--pool", pool, "--cpus", "2"]);
    }
    for pool in ["default", "hpc"] {
        let mut args = vec!["submit", "--pool", pool, "--cpu", "64"];
        if pool == "hpc" {
            // Otherwise a batch pool refuses at once.
            args.extend(["--need", "wait_for_capacity=true"]);
        }
        let strict: Vec<&str> = args.iter().copied().chain(["--strict", "--", "true"]).collect();
        refused(&stand.run(&strict), &["can ever run it"]);
        args.extend(["--", "true"]);
        let said = stand.run(&args);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.err.contains("no node of pool") && said.err.contains("can ever run it"), "{}", said.err);
    }
    // A batch pool that refuses at once says what is missing, and so does a list where workers pull.
    refused(
        &stand.run(&["submit", "--pool", "hpc", "--cpu", "64", "--", "true"]),
        &["idle, could run", "needs 64 cores"],
    );
    refused(
        &stand.run(&["submit", "--pool", "hpc", "--nodes", "2", "--", "true"]),
        &["needs 2 nodes; 1 of the pool"],
    );
    assert_eq!(stand.json(&["jobs"])["jobs"].as_array().unwrap().len(), 2, "what was refused is not there");
    let pulled = stand.submit(&["--pool", "ci", "--cpu", "64", "--", "true"]);
    let shown = stand.run(&["jobs", "--pool", "ci"]).ok();
    assert!(shown.contains("can never start here: needs 64 cores"), "{shown}");
    stand.run(&["cancel", &pulled]).ok();
    let shown = stand.run(&["jobs", "--pool", "default"]).ok();
    assert!(shown.contains("can never start here: needs 64 cores"), "{shown}");
    assert!(stand.run(&["job", "1"]).ok().contains("can never start here"));
    for id in ["1", "2"] {
        let explained = stand.run(&["explain", id]).ok();
        assert!(explained.contains("never") && explained.contains("busy or not"), "{explained}");
    }
    // Busy is not impossible.
    let blocker = stand.submit(&["--pool", "default", "--cpu", "2", "--", "sleep", "300"]);
    stand.wait_for(&blocker, &["running"]);
    let said = stand.run(&["submit", "--pool", "default", "--cpu", "2", "--strict", "--", "true"]);
    assert_eq!((said.code, said.err.contains("ever")), (0, false), "{}", said.err);
    let explained = stand.run(&["explain", "5"]).ok();
    assert!(!explained.contains("busy or not") && !explained.contains("at most 0"), "{explained}");
    stand.run(&["cancel", &blocker]).ok();
}

#[test]
fn estimates_of_a_push_pool_go_by_what_jobs_took() {
    let stand = Stand::with_agent(&["--cpus", "1"]);
    let array = stand.submit(&["--array", "1-40", "--", "sleep", "0.2"]);
    stand.until("some have ended", || stand.array(&array)["completed"].as_u64() >= Some(3));
    let last = stand.json(&["job", &format!("{array}.40")]);
    let now = last["now_ms"].as_u64().unwrap();
    // It may be about to start by now; while it waits its start is minutes away at most, not a day.
    if let Some(start) = last["estimate"]["planned_start_ms"].as_u64() {
        assert!(start < now + 600_000, "in {} s: {last}", (start - now) / 1000);
    } else {
        assert_ne!(last["state"], "pending", "{last}");
    }
    let timed = stand.submit(&["--timeout", "30s", "--", "sleep", "20"]);
    let next = stand.submit(&["--cpu", "1", "--name", "next", "--", "true"]);
    stand.run(&["cancel", &array]).ok();
    stand.wait_for(&timed, &["running"]);
    let waits = stand.json(&["job", &next]);
    let (start, now) = (waits["estimate"]["planned_start_ms"].as_u64(), waits["now_ms"].as_u64().unwrap());
    assert!(start.is_some_and(|start| start <= now + 31_000), "{waits}");
}

#[test]
fn a_wait_says_what_changed_once_and_what_failed_at_the_end() {
    let stand = Stand::with_agent(&["--cpus", "4"]);
    let script = "echo working on $LANDFALL_ARRAY_INDEX; test $LANDFALL_ARRAY_INDEX -ne 3 || { echo bad luck >&2; exit 7; }";
    let said = stand.run(&["submit", "--wait", "--array", "1-4", "--", "sh", "-c", script]);
    assert_eq!(said.code, 7, "{}", said.err);
    for words in [
        "job 1.3 failed: exit code 7",
        "  | bad luck",
        "3 of 4 completed, 1 failed",
        "landfall retry 1 --failed",
    ] {
        assert!(said.err.contains(words), "no `{words}` in: {}", said.err);
    }
    let file = "[[jobs]]\nkey = 'a'\nname = 'prepare'\nrun.command = ['sleep', '1']\n[[jobs]]\nkey = 'b'\nname = 'boom'\ndepends_on = [{ on = 'a' }]\nrun.command = ['sh', '-c', 'echo so long >&2; exit 3']\n";
    std::fs::write(stand.path("pipeline.toml"), file).unwrap();
    let said = stand.run(&["submit", "--file", "pipeline.toml", "--wait"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(
        said.err.contains("(boom) failed: exit code 3") && said.err.contains("  | so long"),
        "{}",
        said.err
    );
    // A reason whose words change with every look, such as how long it still waits, is said once.
    let later = stand.run(&["submit", "--wait", "--not-before", "+2s", "--", "true"]);
    assert_eq!(later.err.matches("its time comes in").count(), 1, "{}", later.err);
    let mut lines: Vec<&str> = said.err.lines().collect();
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all, "something was said twice: {}", said.err);
}

#[test]
fn what_failed_is_run_again_and_what_was_submitted_is_waited_for() {
    let stand = Stand::with_agent(&["--cpus", "4"]);
    let here = stand.path("here");
    std::fs::create_dir(&here).unwrap();
    let script = "echo out $LANDFALL_ARRAY_INDEX; case $LANDFALL_ARRAY_INDEX in 7|8|57) test -e fixed;; esac";
    let submitted = run_in(
        &stand,
        &here,
        &["submit", "--quiet", "--array", "1-60", "--name", "sweep", "--", "sh", "-c", script],
    );
    let id = submitted.ok().trim().to_owned();
    assert_eq!(stand.run(&["wait", &id]).code, 1);
    let array = stand.array(&id);
    assert_eq!((array["completed"].as_u64(), array["failed"].as_u64()), (Some(57), Some(3)), "{array}");
    std::fs::write(here.join("fixed"), "").unwrap();
    let again = stand.run(&["retry", &id, "--failed", "--quiet", "--wait"]);
    assert_eq!(again.code, 0, "{}", again.err);
    let jobs = stand.json(&["jobs", "--all"]);
    let retried = jobs["arrays"].as_array().unwrap().iter().find(|array| array["id"] != id.as_str()).unwrap();
    assert_eq!((retried["total"].as_u64(), retried["completed"].as_u64()), (Some(3), Some(3)), "{retried}");
    assert_eq!(retried["name"], "sweep");
    let retried = retried["id"].as_str().unwrap();
    assert_eq!(
        stand.run(&["logs", retried]).ok(),
        format!("{retried}.07: out 7\n{retried}.08: out 8\n{retried}.57: out 57\n")
    );
    // The same by hand, with a limit.
    let listed =
        run_in(&stand, &here, &["submit", "--wait", "--array", "57,7-8%2", "--", "sh", "-c", script]);
    assert_eq!(listed.code, 0, "{}", listed.err);
    assert!(listed.err.contains("3 of 3 completed"), "{}", listed.err);
    assert!(stand.run(&["job", retried]).ok().contains("indices     7-8,57"));
    // A single job, with what it ran.
    let one = stand.submit(&["--name", "once", "--", "sh", "-c", "echo again; exit 5"]);
    assert_eq!(stand.run(&["wait", &one]).code, 5);
    let again = stand.run(&["retry", &one, "--wait"]);
    assert_eq!((again.code, again.out.as_str()), (5, "again\n"), "{}", again.err);
    refused(&stand.run(&["retry", &id, "--failed", "nothing"]), &["nothing"]);
    // All output of an array, in files; asked for again it is the same.
    for _ in 0..2 {
        stand.run(&["logs", &id, "--out", "results"]).ok();
        let nine = stand.path("results").join(format!("{id}.09.out"));
        assert_eq!(std::fs::read_to_string(nine).unwrap(), "out 9\n");
    }
    // Programs are told whose piece it is.
    let pieces = stand.run(&["--json", "logs", retried]).ok();
    let of: Vec<Value> = pieces.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of: Vec<&str> = of.iter().map(|piece| piece["job"].as_str().unwrap()).collect();
    assert_eq!(of, [format!("{retried}.07"), format!("{retried}.08"), format!("{retried}.57")]);
    // A line that comes in several pieces is one line.
    let long = "head -c 300000 /dev/zero | tr '\\0' x; sleep 0.3; echo; printf unended";
    let wide = stand.submit(&["--array", "3", "--", "sh", "-c", long]);
    assert_eq!(stand.run(&["wait", &wide]).code, 0);
    let shown = stand.run(&["logs", &wide]).ok();
    let (name, lengths): (String, Vec<usize>) =
        (format!("{wide}.3: "), shown.lines().map(str::len).collect());
    assert_eq!(lengths, [name.len() + 300_000, name.len() + 7]);
    // As it is written: all of it, in any order, and it ends by itself.
    let slow = stand.submit(&["--array", "1-6", "--cpu", "2", "--", "sh", "-c", "echo a; sleep 0.2; echo b"]);
    let followed = stand.run(&["logs", "-f", &slow]).ok();
    let mut lines: Vec<&str> = followed.lines().collect();
    lines.sort_unstable();
    let whole: Vec<String> =
        (1..=6).flat_map(|at| [format!("{slow}.{at}: a"), format!("{slow}.{at}: b")]).collect();
    assert_eq!(lines, whole);
    // This time with pauses between tries.
    let patient = stand.json(&["retry", &one, "--retries", "2", "--retry-delay", "10ms"]);
    let patient = patient["id"].as_str().unwrap();
    assert_eq!(stand.run(&["wait", patient]).code, 5);
    assert_eq!(stand.job(patient)["attempt"], 3);
}

#[test]
fn a_mistyped_twin_takes_no_node_down() {
    let mut stand = Stand::with_config(
        "[[pools]]\nid = 'default'\ndispatch = 'push'\n[[pools]]\nid = 'other'\ndispatch = 'push'\n",
    );
    stand.agent("n1", &["--cpus", "2", "--pool", "default"]);
    let first = stand.submit(&["--pool", "default", "--", "sleep", "300"]);
    stand.wait_for(&first, &["running"]);
    stand.agent_in("twin", "n1", &["--cpus", "2", "--pool", "other"]);
    stand.until("the twin is refused", || stand.log("twin").contains("belongs to pool"));
    let mut twin = stand.agent_process("twin");
    twin.signal("TERM");
    stand.until("the twin has ended", || twin.ended().is_some());
    // What the real one says still counts, also much later than a node may be silent.
    let before = stand.node("n1")["heard_at_ms"].as_u64().unwrap();
    stand.until("it is heard", || stand.node("n1")["heard_at_ms"].as_u64().unwrap() > before + 7000);
    let node = stand.node("n1");
    assert_eq!((node["state"].as_str(), node["connected"].as_bool()), (Some("ready"), Some(true)), "{node}");
    assert_eq!(stand.job(&first)["attempt"], 1);
    let next = stand.submit(&["--pool", "default", "--", "true"]);
    stand.wait_for(&next, &["completed"]);
    stand.run(&["cancel", &first]).ok();
}

#[test]
fn slips_make_nothing() {
    let stand = Stand::with_agent(&["--cpus", "2"]);
    stand.run(&["tenants", "set", "vision", "--share", "0.5"]).ok();
    refused(
        &stand.run(&["pools", "set", "nopool", "--set", "batch.depth=3"]),
        &["no pool `nopool`", "--dispatch"],
    );
    refused(&stand.run(&["pools", "set", "defualt", "--policy", "simple"]), &["did you mean `default`?"]);
    let slip = stand.run(&["pools", "set", "default", "--set", "batch.cycle_m=3"]);
    refused(&slip, &["unknown field `cycle_m`", "did you mean `cycle_ms`?"]);
    assert!(slip.err.len() < 300, "{}", slip.err);
    let word = stand.run(&["pools", "set", "default", "--set", "batch.depth=x"]);
    refused(&word, &["pool.batch.depth", "expected a whole number"]);
    refused(&stand.run(&["tenants", "set", "visoin", "--share", "0.2"]), &["did you mean `vision`?"]);
    refused(
        &stand.run(&["token", "create", "ana", "--role", "submitter", "--tenant", "visoin"]),
        &["no tenant `visoin`", "vision"],
    );
    refused(&stand.run(&["submit", "--tenant", "ghost", "--", "true"]), &["no tenant `ghost`"]);
    assert_eq!(stand.json(&["pools", "list"])["pools"].as_array().unwrap().len(), 1);
    assert_eq!(stand.json(&["tenants", "list"])["tenants"].as_array().unwrap().len(), 1);
    assert_eq!(stand.run(&["jobs"]).ok(), "no jobs\n");
    stand.run(&["submit", "--wait", "--tenant", "vision", "--", "true"]).ok();
    let more = stand.run(&["tenants", "set", "speech", "--share", "0.7"]);
    assert!(more.err.contains("add up to 1.20, more than there is"), "{}", more.err);
}

#[test]
fn a_checked_configuration_starts() {
    let stand = Stand::unstarted("");
    let check = |config: &str| {
        std::fs::write(stand.path("config.toml"), config).unwrap();
        stand.run(&["config", "check"])
    };
    check("[server]\nlisten = '127.0.0.1:0'\n").ok();
    refused(&check("[server]\ntls_cert = 'none.pem'\ntls_key = 'none.key'\n"), &["none.pem"]);
    refused(&check("[server]\nlisten = '0.0.0.0:7878'\n"), &["0.0.0.0:7878"]);
    check("[server]\nlisten = '0.0.0.0:7878'\nallow_insecure = true\n").ok();
    refused(&check("[[tenants]]\nid = 'a'\nshare = 1.2\n"), &["share"]);
    // What an agent would refuse to start with.
    refused(&check("[agent]\nhours = ['22 to 6']\n"), &["agent.hours", "22-6"]);
    refused(&check("[agent]\npower_idle = 50\n"), &["agent.power_busy"]);
    refused(&check("[agent]\ntoken_file = 'none.token'\n"), &["none.token"]);
    check("[agent]\nhours = ['22-6']\nlimits = false\n").ok();
    std::fs::write(stand.path("plain"), "").unwrap();
    let plain = format!("[server]\ndata_dir = '{}'\n", stand.path("plain").display());
    std::fs::write(stand.path("config.toml"), plain).unwrap();
    let said = stand.command().env_remove("LANDFALL_DATA_DIR").args(["config", "check"]).output().unwrap();
    refused(&Said::of(said), &["plain is no directory"]);
    let said = check("[[tenants]]\nid = 'a'\nshare = 0.7\n[[tenants]]\nid = 'b'\nshare = 0.5\n");
    assert!(said.err.contains("add up to 1.20"), "{}", said.err);
}

#[test]
fn a_plan_about_needs_alone_is_about_them() {
    let stand = Stand::with_agent(&["--cpus", "2"]);
    let said = stand.run(&["plan", "--cpu", "64"]);
    assert_eq!(said.code, 1, "{}", said.out);
    assert!(said.out.contains("needs 64 cores") && said.out.contains("never "), "{}", said.out);
    assert!(stand.run(&["plan", "--cpu", "2"]).ok().contains("starts now"));
}

#[test]
fn an_end_that_is_told_late_counts_with_the_time_it_took() {
    let mut stand = Stand::with_agent(&["--cpus", "2"]);
    let id = stand.submit(&["--", "sh", "-c", "sleep 1; touch ended"]);
    stand.wait_for(&id, &["running"]);
    drop(stand.agent_process("n1"));
    // The keeper goes on, and the agent comes back long after the job has ended.
    stand.until("it has ended", || stand.path("ended").exists());
    std::thread::sleep(std::time::Duration::from_secs(2));
    stand.agent("n1", &["--cpus", "2"]);
    let job = stand.wait_for(&id, &["completed", "failed"]);
    let seen = job["ended_at_ms"].as_u64().unwrap() - job["started_at_ms"].as_u64().unwrap();
    let ran = job["usage"]["wall_ms"].as_u64().unwrap_or_else(|| panic!("says no time: {job}"));
    assert!(ran >= 800 && ran + 1500 <= seen, "it ran {ran} ms, and its end was seen after {seen} ms");
    let said = stand.run(&["job", &id]).ok();
    let ended = said.lines().find(|line| line.trim_start().starts_with("ended")).unwrap();
    assert!(!ended.contains(&format!("after {}", seen / 1000)), "{ended}");
}
