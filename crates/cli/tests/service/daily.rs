//! What people who come from elsewhere reach for: a shell on a node, cores of their own, arrays that grow, times that are said.

use std::io::Write as _;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::stand::{Said, Stand, refused};
use crate::terminal::Terminal;

/// Waits until a job runs that somebody is about to submit.
fn until_runs(stand: &Stand, id: &str) {
    stand.until("it runs", || {
        let shown: Value = serde_json::from_str(&stand.run(&["job", id, "--json"]).out).unwrap_or_default();
        shown["state"] == "running"
    });
}

/// Runs a command with something piped into it.
fn piped(stand: &Stand, args: &[&str], input: &[u8]) -> Said {
    let mut command = stand.command();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    Said::of(child.wait_with_output().unwrap())
}

#[test]
fn a_default_walltime_is_named_wherever_somebody_may_look() {
    let mut stand =
        Stand::with_config("[agent]\nlimits = false\n[[pools]]\nid = 'hpc'\ndispatch = 'batch'\n");
    stand.agent("n1", &["--cpus", "1"]);
    let said = stand.run(&["submit", "--hold", "--memory", "50MiB", "--", "sleep", "300"]);
    assert!(said.err.contains("it may run for 1 h"), "{}", said.err);
    // One thing that should be known does not hide another.
    assert!(said.err.contains("limits of memory are not enforced"), "{}", said.err);
    for look in [&["explain", "1"], &["job", "1"]] {
        let shown = stand.run(look).ok();
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("it may run for 1 h, then it is stopped"), "{shown}");
        assert!(words.contains("names no walltime"), "{shown}");
    }
    // Also while it runs; and what somebody said is not explained to them.
    stand.run(&["release", "1"]).ok();
    stand.wait_for("1", &["running"]);
    assert!(stand.run(&["explain", "1"]).ok().contains("it may run for 1 h"));
    let own = stand.submit(&["--hold", "--walltime", "10m", "--", "true"]);
    assert!(!stand.run(&["explain", &own]).ok().contains("may run for"));
    stand.run(&["cancel", "1"]).ok();
}

#[test]
fn a_backup_promises_what_it_does() {
    let stand = Stand::with_agent(&["--cpus", "1"]);
    stand.run(&["submit", "--wait", "--", "echo", "kept"]).ok();
    let help = stand.run(&["backup", "--help"]).ok();
    assert!(!help.contains("everything that a server keeps"), "{help}");
    let logs = |name: &str| stand.path(name).with_extension("db.logs").exists();
    stand.run(&["backup", "--to", "plain.db"]).ok();
    stand.run(&["backup", "--to", "whole.db", "--logs"]).ok();
    assert_eq!((logs("plain"), logs("whole")), (false, true));
}

#[test]
fn a_job_longer_than_the_time_until_a_window_waits_for_it_to_pass() {
    let mut stand = Stand::with_config(
        "[[pools]]\nid = 'hpc'\ndispatch = 'batch'\nbatch.cycle_on_events = true\nbatch.cycle_ms = 5000\n",
    );
    stand.agent("n1", &["--cpus", "1"]);
    stand.run(&["drain", "n1", "--at", "+30min", "--reason", "new kernel"]).ok();
    let long = stand.submit(&["--walltime", "2h", "--", "true"]);
    let short = stand.submit(&["--walltime", "10m", "--", "true"]);
    stand.wait_for(&short, &["completed"]);
    assert_eq!(stand.job(&long)["state"], "pending");
    let explained = stand.run(&["explain", &long]).ok();
    assert!(
        explained.contains("taken out before it would end") && explained.contains("new kernel"),
        "{explained}"
    );
    assert!(!explained.contains("never"), "{explained}");
    // What no node could ever run is still refused.
    refused(&stand.run(&["submit", "--cpu", "64", "--", "true"]), &["idle, could run"]);
    stand.run(&["return", "n1"]).ok();
    stand.wait_for(&long, &["completed"]);
}

#[test]
fn names_follow_one_grammar() {
    let stand = Stand::with_agent(&["--cpus", "2"]);
    for (said, meant) in [
        (&["pools"][..], &["pools", "list"][..]),
        (&["pool", "default"], &["pools", "show", "default"]),
        (&["tokens"], &["token", "list"]),
        (&["nodes", "list"], &["nodes"]),
        (&["nodes", "show", "n1"], &["node", "n1"]),
        (&["policies"], &["policy", "list"]),
    ] {
        // Below the first line there may be times.
        let first = |args: &[&str]| stand.run(args).ok().lines().next().map(str::to_owned);
        assert_eq!(first(said), first(meant), "{said:?}");
    }
    // Flags and files say things the same way, and zeros before an index mean nothing.
    let file = "array = '1-120'\n[needs]\ncpu = 0.5\nmemory = '64MiB'\n[run]\ncommand = ['true']\n";
    std::fs::write(stand.path("job.toml"), file).unwrap();
    let id = stand.submit(&["--file", "job.toml", "--hold"]);
    assert_eq!(stand.job(&format!("{id}.7"))["id"], format!("{id}.007"));
    assert_eq!(stand.job(&format!("{id}.007"))["needs"]["ram_mib"], 64);
    stand.run(&["submit", "--cpus", "1", "--mem", "64M", "--wait", "--", "true"]).ok();
    // A slip is answered with the nearest name, not with all of them and not with a type.
    std::fs::write(stand.path("slip.toml"), "[needs]\nmemroy = '1G'\n[run]\ncommand = ['true']\n").unwrap();
    let said = stand.run(&["submit", "--file", "slip.toml"]);
    refused(&said, &["memroy", "did you mean `memory`?"]);
    assert!(said.err.len() < 400, "{}", said.err);
    std::fs::write(stand.path("range.toml"), "array = 7.5\n[run]\ncommand = ['true']\n").unwrap();
    let said = stand.run(&["submit", "--file", "range.toml"]);
    refused(&said, &["array"]);
    assert!(!said.err.contains("struct"), "{}", said.err);
    // One code, one meaning.
    assert_eq!(stand.run(&["job", "999"]).code, 10);
}

/// The cores that a running job has on its node.
fn cores(stand: &Stand, id: &str) -> Option<String> {
    stand.job(id)["nodes"][0]["cpus"].as_str().map(str::to_owned)
}

#[test]
fn a_pinned_job_has_cores_of_its_own() {
    let all = std::thread::available_parallelism().unwrap().get();
    let mut stand = Stand::with_agent(&["--cpus", &all.to_string()]);
    let script = "grep Cpus_allowed_list /proc/self/status; echo told $LANDFALL_CPU_LIST; until test -e end-$0; do sleep 0.05; done";
    let begin = |stand: &Stand, name: &str| {
        let id = stand.submit(&["--cpu", "1", "--pin", "--", "sh", "-c", script, name]);
        stand.wait_for(&id, &["running"]);
        stand.until("its cores are known", || cores(stand, &id).is_some());
        let core = cores(stand, &id).unwrap();
        stand.until("it has said which", || stand.run(&["logs", &id]).ok().contains("told"));
        let said = stand.run(&["logs", &id]).ok();
        assert_eq!(said, format!("Cpus_allowed_list:\t{core}\ntold {core}\n"));
        (id, core)
    };
    let (first, one) = begin(&stand, "a");
    assert!(stand.run(&["job", &first]).ok().contains(&format!("n1 cpu {one}")));
    assert!(stand.run(&["explain", &first]).ok().contains(&format!("cores {one} of node n1")));
    // Who was not pinned may run anywhere.
    let free = stand.run(&["submit", "--cpu", "10m", "--wait", "--", "nproc"]).ok();
    assert_eq!(free.trim(), all.to_string());
    if all > 1 {
        let (second, other) = begin(&stand, "b");
        assert_ne!(one, other, "a core was given out twice");
        // An agent that comes back knows who has which, and so does a server.
        drop(stand.agent_process("n1"));
        stand.agent("n1", &["--cpus", &all.to_string()]);
        stand.kill_server();
        stand.start_server();
        stand.until("both are known again", || {
            (cores(&stand, &first).as_ref(), cores(&stand, &second).as_ref()) == (Some(&one), Some(&other))
        });
        // What one job had the next one gets, not what the other has.
        std::fs::write(stand.path("end-a"), "").unwrap();
        let ended = stand.wait_for(&first, &["completed"]);
        assert_eq!(ended["nodes"][0]["cpus"], one.as_str(), "it is known afterwards: {ended}");
        let (_, third) = begin(&stand, "c");
        assert_ne!(third, other, "a core was given out twice");
        std::fs::write(stand.path("end-b"), "").unwrap();
        std::fs::write(stand.path("end-c"), "").unwrap();
    }
    std::fs::write(stand.path("end-a"), "").unwrap();
    refused(&stand.run(&["submit", "--cpu", "0.5", "--pin", "--", "true"]), &["whole cores", "--cpu 2"]);
    refused(&stand.run(&["submit", "--pin", "--image", "alpine", "--", "true"]), &["is for processes"]);
}

#[test]
fn a_node_that_offers_more_cores_than_it_has_says_so_to_pinned_jobs() {
    let stand = Stand::with_agent(&["--cpus", "4096"]);
    let said = stand.run(&["submit", "--wait", "--cpu", "4000", "--pin", "--", "true"]);
    assert_eq!(said.code, 126, "{}", said.err);
    assert!(said.err.contains("cannot be pinned to 4000 cores: this node has"), "{}", said.err);
}

#[test]
fn an_open_array_takes_more_until_it_is_closed() {
    let mut stand = Stand::with_agent(&["--cpus", "4"]);
    let echo = ["--", "sh", "-c", "echo $LANDFALL_ARRAY_INDEX"];
    let id = stand.submit(&[&["--array", "1-3", "--open", "--name", "growing"], &echo[..]].concat());
    stand.until("what it has is done", || stand.array(&id)["completed"] == 3);
    let shown = stand.run(&["jobs", "--name", "growing"]).ok();
    assert!(shown.contains(" open ") && shown.contains("3 completed"), "{shown}");
    // Somebody waits, and nothing that is done ends that.
    let waiting = stand.command().args(["wait", &id]).stderr(Stdio::piped()).spawn().unwrap();
    stand.run(&["arrays", "add", &id, "2"]).ok();
    stand.until("they ran", || stand.array(&id)["completed"] == 5);
    stand.kill_server();
    stand.start_server();
    stand.until_ready("n1");
    let said = stand.run(&["array", "add", &id, "1"]).ok();
    assert!(said.contains("has 1 more, 6 elements in all"), "{said}");
    stand.until("it ran", || stand.array(&id)["completed"] == 6);
    assert_eq!(stand.array(&id)["open"], true);
    refused(&stand.run(&["submit", "--depends-on", &id, "--", "true"]), &["is open", "arrays close"]);
    refused(&stand.run(&["arrays", "add", &id, "2000000"]), &["room for"]);
    let said = stand.run(&["arrays", "close", &id]).ok();
    assert!(said.contains("closed with 6 elements"), "{said}");
    let waited = Said::of(waiting.wait_with_output().unwrap());
    assert_eq!(waited.code, 0, "{}", waited.err);
    assert!(waited.err.contains("6 of 6 completed"), "{}", waited.err);
    refused(&stand.run(&["arrays", "add", &id, "1"]), &["has ended", "another"]);
    assert_eq!(stand.run(&["logs", &format!("{id}.6")]).ok(), "6\n");
    assert_eq!(stand.job(&format!("{id}.6"))["array"]["index"], 6);

    // With entries, more of them; and taking it back closes it.
    std::fs::write(stand.path("first.txt"), "red\ngreen\n").unwrap();
    std::fs::write(stand.path("more.txt"), "blue\n").unwrap();
    let id = stand.submit(&["--each-line", "first.txt", "--open", "--", "echo", "{entry}"]);
    refused(&stand.run(&["arrays", "add", &id, "1"]), &["have entries"]);
    stand.run(&["arrays", "add", &id, "--each-line", "more.txt"]).ok();
    stand.until("all ran", || stand.array(&id)["completed"] == 3);
    assert_eq!(stand.run(&["logs", &format!("{id}.3")]).ok(), "blue\n");
    stand.run(&["cancel", &id]).ok();
    assert_eq!(stand.run(&["wait", &id]).code, 0, "all that came has completed");
    refused(&stand.run(&["submit", "--open", "--", "true"]), &["only an array"]);
}

#[test]
fn what_is_piped_into_a_run_reaches_the_job_and_comes_back() {
    let stand = Stand::with_agent(&["--cpus", "2"]);
    let said = piped(&stand, &["run", "--", "sh", "-c", "cat; echo to-err >&2; exit 7"], b"one\ntwo\n");
    assert_eq!((said.code, said.out.as_str()), (7, "one\ntwo\n"), "{}", said.err);
    assert!(said.err.contains("to-err"), "{}", said.err);
    // Large, and not only text.
    let many: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    let sum = piped(&stand, &["run", "--", "cksum"], &many);
    let whole = piped(&stand, &["run", "--", "wc", "-c"], &many);
    assert_eq!((whole.code, whole.out.trim()), (0, "300000"), "{}", whole.err);
    std::fs::write(stand.path("many"), &many).unwrap();
    let mut plain = std::process::Command::new("sh");
    let plain = plain.args(["-c", "cksum < many"]).current_dir(stand.dir.path()).output().unwrap();
    assert_eq!(sum.out, String::from_utf8(plain.stdout).unwrap());
    assert_eq!(piped(&stand, &["run", "--", "no-such-program"], b"").code, 127);
    // It is a job like any other.
    assert_eq!(stand.run(&["logs", "1", "--stdout"]).ok(), "one\ntwo\n");
    refused(&stand.run(&["run", "--array", "1-2", "--", "true"]), &["several"]);
    refused(
        &piped(&stand, &["run", "--cpu", "2", "--output", "x", "--", "true"], b""),
        &["whoever is at it"],
    );
}

#[test]
fn a_run_in_a_terminal_is_a_terminal_on_the_node() {
    let mut stand = Stand::new();
    // A machine of its own as far as the server is concerned: nothing is shared but the connection.
    stand.agent("n1", &["--cpus", "1"]);
    let mut command = stand.command();
    command.args(["run", "--cpu", "1", "--", "sh"]);
    let mut terminal = Terminal::start(command);
    until_runs(&stand, "1");
    terminal.type_in("echo on=$LANDFALL_NODE_ID; test -t 0 && tty; stty size; echo term=$TERM\n");
    terminal.until_shown("on=n1");
    terminal.until_shown("/dev/pts/");
    terminal.until_shown("24 80");
    terminal.until_shown("term=xterm");
    terminal.resize(40, 132);
    // The shell is told by the kernel when the size has come through.
    terminal.type_in("until test \"$(stty size)\" = '40 132'; do sleep 0.05; done; echo is=$((1+1))large\n");
    terminal.until_shown("is=2large");
    // Ctrl-C is for what runs there, not for the client.
    terminal.type_in("echo begin=$((1+1)); sleep 600\n");
    terminal.until_shown("begin=2");
    terminal.type_in("\x03");
    terminal.type_in("echo code=$?\n");
    terminal.until_shown("code=130");
    terminal.type_in("exit 5\n");
    assert_eq!(terminal.ended(), Some(5));
    let job = stand.job("1");
    assert_eq!((&job["state"], &job["exit_code"]), (&Value::from("failed"), &Value::from(5)), "{job}");
    assert!(stand.run(&["logs", "1"]).ok().contains("is=2large"));
}

#[test]
fn a_job_can_be_interrupted_whoever_started_the_agent() {
    let stand = Stand::new();
    // As a script does that ends with `&`, or `nohup`: what begins there ignores these, and so does all that it starts.
    let mut command = std::process::Command::new("sh");
    let script = "trap '' INT QUIT HUP; exec \"$0\" \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_landfall")]).env_clear();
    for (name, value) in stand.command().get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let (dir, token) = (stand.path("n1"), stand.data().join("token"));
    let (dir, token) = (dir.to_str().unwrap(), token.to_str().unwrap());
    let args = ["agent", "--token-file", token, "--node", "n1", "--data-dir", dir, "--cpus", "1"];
    let _agent = stand.start("n1", command, &args);
    stand.until_ready("n1");
    for (signal, code) in [("INT", 130), ("QUIT", 131), ("HUP", 129)] {
        let script = format!("kill -{signal} $$; echo it is ignored");
        let said = stand.run(&["submit", "--wait", "--", "sh", "-c", &script]);
        assert_eq!((said.code, said.out.as_str()), (code, ""), "{signal}: {}", said.err);
    }
}

#[test]
fn a_run_ends_with_whoever_is_at_it() {
    let stand = Stand::with_agent(&["--cpus", "2"]);
    // Asked to end, the client takes the job along.
    let mut command = stand.command();
    command.args(["run", "--", "sh"]);
    let mut terminal = Terminal::start(command);
    until_runs(&stand, "1");
    terminal.signal(Signal::HUP);
    assert_eq!(terminal.ended(), Some(129));
    stand.wait_for("1", &["cancelled"]);
    // Killed, it is missed.
    let mut command = stand.command();
    command.args(["run", "--hang-up", "2s", "--", "sh"]);
    let mut terminal = Terminal::start(command);
    until_runs(&stand, "2");
    terminal.type_in("echo at=$((40+2))\n");
    terminal.until_shown("at=42");
    terminal.signal(Signal::KILL);
    terminal.ended();
    let job = stand.wait_for("2", &["completed", "failed", "cancelled"]);
    assert_eq!(job["state"], "failed", "{job}");
    let said = stand.run(&["logs", "2"]);
    assert!(said.err.contains("hung up"), "{} {}", said.out, said.err);
}

#[test]
fn a_run_goes_on_when_agent_and_server_are_started_anew() {
    let mut stand = Stand::with_agent(&["--cpus", "1"]);
    let mut command = stand.command();
    command.args(["run", "--", "sh"]);
    let mut terminal = Terminal::start(command);
    until_runs(&stand, "1");
    terminal.type_in("x=40\n");
    terminal.until_shown("x=40");
    drop(stand.agent_process("n1"));
    stand.agent("n1", &["--cpus", "1"]);
    stand.kill_server();
    stand.start_server();
    stand.until_ready("n1");
    terminal.type_in("echo is=$((x+2)); exit\n");
    terminal.until_shown("is=42");
    assert_eq!(terminal.ended(), Some(0));
}

#[test]
fn on_a_small_screen_an_array_is_one_row_and_a_question_is_read_to_its_end() {
    let stand = Stand::with_agent(&["--cpus", "1"]);
    let first = stand.submit(&["--name", "first", "--", "sleep", "300"]);
    stand.wait_for(&first, &["running"]);
    stand.submit(&["--array", "1-50", "--name", "sweep", "--", "true"]);
    for _ in 0..10 {
        stand.submit(&["--", "true"]);
    }
    let mut terminal = Terminal::of(&stand, &["top"]);
    terminal.until_shown("jobs (12)");
    let screen = terminal.until_screen("a page of jobs is shown", |lines| {
        lines.iter().filter(|line| line.contains(" pending ")).count() >= 9
    });
    let rows: Vec<&str> = screen.iter().filter_map(|line| line.strip_prefix('│')).collect();
    let ids: Vec<u64> = rows.iter().filter_map(|row| row.split(' ').next()?.parse().ok()).collect();
    assert!(ids[0] == 1 && ids.is_sorted(), "who waits longest comes first:\n{}", screen.join("\n"));
    let sweeps: Vec<_> = rows.iter().filter(|row| row.contains("sweep")).collect();
    assert!(sweeps.len() == 1 && sweeps[0].contains("50 waiting"), "{}", screen.join("\n"));
    terminal.type_in("c");
    terminal.until_shown("cancels,");
    terminal.type_in("nq");
    assert_eq!(terminal.ended(), Some(0));
    assert_eq!(stand.job(&first)["state"], "running");
    stand.run(&["cancel", "--all", "--yes"]).ok();
}

#[test]
fn who_waits_at_a_terminal_sees_how_far_it_is_and_at_the_end_what_failed() {
    let stand = Stand::with_agent(&["--cpus", "4"]);
    let begins = |screen: &[String], words: &str| screen.iter().any(|line| line.starts_with(words));
    // One job: where it stands, until what it writes takes that place.
    let mut terminal =
        Terminal::of(&stand, &["submit", "--wait", "--hold", "--", "sh", "-c", "echo at work; exit 3"]);
    terminal.until_screen("it is held", |lines| lines.iter().any(|line| line.contains(" job 1 pending: ")));
    stand.run(&["release", "1"]).ok();
    assert_eq!(terminal.ended(), Some(3));
    let screen = terminal.until_screen("its end is said", |lines| begins(lines, "job 1 failed: exit code 3"));
    let text = screen.join("\n");
    assert_eq!(text.trim_end(), "submitted 1\nat work\njob 1 failed: exit code 3");

    // An array: how many of how many, on a line that is gone at the end.
    let script = "case $LANDFALL_ARRAY_INDEX in 4) echo no input 4 >&2; exit 9;; 5) until test -e go; do sleep 0.05; done;; esac";
    let mut terminal = Terminal::of(
        &stand,
        &["submit", "--wait", "--array", "1-6", "--name", "sweep", "--", "sh", "-c", script],
    );
    let far = " array 2: 4 of 6 completed, 1 running, 1 failed (";
    terminal.until_screen("it says how far it is", |lines| lines.iter().any(|line| line.contains(far)));
    std::fs::write(stand.path("go"), "").unwrap();
    assert_eq!(terminal.ended(), Some(9));
    let retry = "landfall retry 2 --failed";
    let screen = terminal.until_screen("all is said", |lines| lines.concat().contains(retry));
    assert_eq!(screen[..3], ["submitted 2", "job 2.4 (sweep) failed: exit code 9", "  | no input 4"]);
    assert!(screen[3].starts_with("array 2: 5 of 6 completed, 1 failed; "), "{}", screen.join("\n"));
    assert!(!screen.concat().contains("running"), "{}", screen.join("\n"));

    // A pipeline.
    let file = "[[jobs]]\nkey = 'fetch'\nrun.command = ['sh', '-c', 'until test -e more; do sleep 0.05; done']\n\
                [[jobs]]\nkey = 'build'\nname = 'build'\ndepends_on = [{ on = 'fetch' }]\nrun.command = ['sh', '-c', 'echo no header; exit 4']\n\
                [[jobs]]\nkey = 'report'\ndepends_on = [{ on = 'build' }]\nrun.command = ['true']\n";
    std::fs::write(stand.path("dag.toml"), file).unwrap();
    let mut terminal = Terminal::of(&stand, &["submit", "--wait", "--file", "dag.toml"]);
    let far = " 0 of 3 ended: 2 pending, 1 running (";
    terminal.until_screen("it says how far it is", |lines| lines.iter().any(|line| line.contains(far)));
    std::fs::write(stand.path("more"), "").unwrap();
    assert_eq!(terminal.ended(), Some(4));
    let screen = terminal.until_screen("all is said", |lines| lines.concat().contains("landfall dags retry"));
    let text = screen.join("\n");
    for words in ["(build) failed: exit code 4\n  | no header\n", " cancelled: "] {
        assert!(text.contains(words), "no `{words}` in:\n{text}");
    }
    assert!(!text.contains(" of 3 ended"), "{text}");

    // Whoever has seen enough goes, and the line with them.
    let mut terminal = Terminal::of(&stand, &["submit", "--wait", "--hold", "--", "true"]);
    terminal.until_screen("it is held", |lines| lines.iter().any(|line| line.contains(" pending: ")));
    terminal.signal(Signal::INT);
    assert_eq!(terminal.ended(), Some(130));
    let screen = terminal.until_screen("all is said", |lines| lines.concat().contains("the job goes on"));
    assert!(!screen.concat().contains(" pending: "), "{}", screen.join("\n"));
}

#[test]
fn a_job_of_which_a_part_ran_out_of_memory_ends_as_a_whole() {
    let stand = Stand::with_agent(&["--cpus", "1"]);
    if stand.node("n1")["limits"]["memory"] != true {
        eprintln!("SKIPPED: limits of memory are not enforced on this machine");
        return;
    }
    // `tail` keeps all it reads; the shell above it would go on.
    let script = "head -c 300000000 /dev/zero | tail; echo survived; sleep 600";
    let id = stand.submit(&["--memory", "64MiB", "--", "sh", "-c", script]);
    let job = stand.wait_for(&id, &["completed", "failed", "cancelled"]);
    assert_eq!((job["state"].as_str(), job["usage"]["oom"].as_bool()), (Some("failed"), Some(true)), "{job}");
    assert!(stand.run(&["job", &id]).ok().contains("killed for memory"));
}
