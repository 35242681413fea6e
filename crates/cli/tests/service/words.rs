//! What the command line says and how it ends when something is not as expected.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::stand::Stand;

/// A command that runs beside the test, its output in files.
struct Beside {
    dir: PathBuf,
    child: Child,
}

impl Beside {
    fn start(stand: &Stand, mut command: Command) -> Self {
        let dir = stand.path("beside");
        std::fs::create_dir(&dir).unwrap();
        let file = |kind: &str| File::create(dir.join(kind)).unwrap();
        let child = command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err")).spawn().unwrap();
        Self { dir, child }
    }

    fn said(&self, kind: &str) -> String {
        std::fs::read_to_string(self.dir.join(kind)).unwrap()
    }

    fn until(&self, stand: &Stand, kind: &str, words: &str) {
        stand.until(&format!("it says {words}"), || self.said(kind).contains(words));
    }

    fn end(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process does something of its own when it is interrupted.
fn catches_interrupts(pid: &str) -> bool {
    const INTERRUPT: u64 = 1 << 1;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & INTERRUPT != 0)
}

#[test]
fn exit_codes_are_those_of_the_table() {
    let stand = Stand::new();
    for (args, code, words) in [
        (&["submit", "--pool", "nowhere", "--", "true"][..], 10, "there is no pool `nowhere`"),
        (&["submit", "--depends-on", "99", "--", "true"], 10, "there is no job `99`"),
        (&["submit", "--workload", "none"], 10, "there is no workload `none`"),
        (&["plan", "--pool", "nowhere", "--", "true"], 10, "there is no pool `nowhere`"),
        (&["explain", "99"], 10, "there is no job `99`"),
        (&["jobs", "--state", "foo"], 2, "possible values: live, ended, pending"),
        (&["submit", "--timeout", "0s", "--", "true"], 2, "a time-out of 0 leaves no time to run"),
        (&["backup", "--to", "/nowhere/at/all.db"], 5, "cannot write /nowhere/at/all.db"),
        (&["server", "--listen", "0.0.0.0:0"], 7, "--allow-insecure"),
        (&["token", "revoke", "nobody"], 10, "there is no token `nobody`"),
    ] {
        let said = stand.run(args);
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
        assert_eq!(said.code, code, "{args:?}: {}", said.err);
    }
}

#[test]
fn what_is_not_there_is_said_where_nothing_is_listed() {
    let stand = Stand::new();
    for (flag, what) in [("--pool", "pool"), ("--tenant", "tenant"), ("--array", "array"), ("--node", "node")]
    {
        let said = stand.run(&["jobs", flag, "nowhere"]);
        assert!(said.err.contains(&format!("there is no {what} `nowhere`")), "{flag}: {}", said.err);
        assert_eq!(said.ok(), "no jobs\n");
    }
    assert_eq!(stand.run(&["jobs", "--pool", "default"]).err, "");
    assert!(!stand.run(&["jobs", "--help"]).ok().contains('\\'));
}

#[test]
fn mistakes_in_a_file_of_jobs_have_a_line_and_a_job() {
    let stand = Stand::new();
    let text = "[[jobs]]\nkey = \"first\"\nrun.command = [\"true\"]\n\n[[jobs]]\nkey = \"second\"\n\
                run.command = [\"true\"]\nneeds.pool = \"nowhere\"\n";
    std::fs::write(stand.path("jobs.toml"), text).unwrap();
    let said = stand.run(&["submit", "--file", "jobs.toml"]);
    assert_eq!(said.code, 10, "{}", said.err);
    for words in ["job 2 (`second`): there is no pool `nowhere`", "jobs.toml:8:14"] {
        assert!(said.err.contains(words), "{words}: {}", said.err);
    }
    let said = stand.run(&["--json", "submit", "--file", "jobs.toml"]);
    let error: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (error["error"]["line"].as_u64(), error["error"]["file"].as_str()),
        (Some(8), Some("jobs.toml"))
    );
    std::fs::write(
        stand.path("empty.toml"),
        "[[jobs]]\nrun.command = [\"true\"]\n\n[[jobs]]\nname = \"idle\"\n",
    )
    .unwrap();
    let said = stand.run(&["submit", "--file", "empty.toml"]);
    assert!(said.err.contains("job 2 (`idle`): there is nothing to run"), "{}", said.err);
    assert!(said.err.contains("empty.toml:4:"), "{}", said.err);
}

#[test]
fn orders_and_explanations_speak_in_words() {
    let stand = Stand::with_agent(&["--cpus", "4"]);
    let held = stand.submit(&["--hold", "--", "true"]);
    let shown = stand.run(&["explain", &held]).ok();
    assert!(shown.contains("it is held back [user_hold]") && !shown.contains("stale_job"), "{shown}");
    assert!(shown.contains("cannot be told: it is held back"), "{shown}");
    let said = stand.run(&["hold", &held]).ok();
    assert!(said.contains("nothing changed: it was so before"), "{said}");
    // It hears that it shall end, and does not.
    let script = "trap '' TERM; echo ready; while true; do sleep 0.1; done";
    let stubborn = stand.submit(&["--", "sh", "-c", script]);
    stand.until("it runs", || stand.run(&["logs", &stubborn]).out.contains("ready"));
    let said = stand.run(&["cancel", &stubborn]).ok();
    assert!(said.contains("stopping; killed in 30 s if it does not end"), "{said}");
    assert_eq!(stand.run(&["cancel", &held]).ok(), format!("job {held}: cancelled\n"));
    let said = stand.run(&["submit", "--runtime", "foo", "--", "true"]);
    assert!(said.err.contains("can ever run it: needs the runtime `foo`"), "{}", said.err);
    said.ok();
    let array = stand.submit(&["--array", "7-1000", "--hold", "--", "true"]);
    assert_eq!(stand.run(&["logs", &array]).ok(), "", "nothing has run");
    stand.run(&["cancel", &array]).ok();
    assert_eq!(
        stand.run(&["logs", "-f", &array]).ok(),
        "",
        "who follows an array that is over waits for nothing"
    );
}

#[test]
fn whoever_follows_a_log_goes_on_when_the_server_is_back() {
    let mut stand = Stand::with_agent(&[]);
    let go = stand.path("go");
    let script = format!("echo one; until test -e {}; do sleep 0.1; done; echo two", go.display());
    let id = stand.submit(&["--", "sh", "-c", &script]);
    stand.until("it runs", || stand.run(&["logs", &id]).out.contains("one"));
    let mut command = stand.command();
    command.args(["logs", "-f", &id]);
    let mut logs = Beside::start(&stand, command);
    logs.until(&stand, "out", "one");
    stand.kill_server();
    logs.until(&stand, "err", "the server does not answer; trying again");
    stand.start_server();
    std::fs::write(&go, "").unwrap();
    let code = logs.end();
    assert_eq!(code, Some(0), "{}", logs.said("err"));
    assert_eq!(logs.said("out"), "one\ntwo\n");
    assert!(logs.said("err").contains("the server answers again"), "{}", logs.said("err"));
}

#[test]
fn whoever_waits_finds_the_server_at_its_new_address() {
    let mut stand = Stand::new();
    let mut command = stand.command();
    command.env_remove("LANDFALL_SERVER").args(["--json", "submit", "--wait", "--hold", "--", "true"]);
    let mut waiting = Beside::start(&stand, command);
    stand.until("it is there", || stand.run(&["job", "1"]).code == 0);
    stand.kill_server();
    waiting.until(&stand, "err", "the server does not answer; trying again");
    stand.start_server_elsewhere();
    let shown = stand.command().env_remove("LANDFALL_SERVER").args(["config", "show"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let line = shown.lines().find(|line| line.starts_with("client.server ")).unwrap();
    assert!(line.contains("http://127.0.0.1:") && line.contains("/url"), "{line}");
    stand.run(&["cancel", "1"]).ok();
    assert_eq!(waiting.end(), Some(1), "{}", waiting.said("err"));
    let answer: serde_json::Value = serde_json::from_str(&waiting.said("out")).unwrap();
    assert_eq!((&answer["ids"][0], &answer["jobs"][0]["state"]), (&"1".into(), &"cancelled".into()));
}

#[test]
fn whoever_stops_waiting_still_knows_the_job() {
    let stand = Stand::new();
    let mut command = stand.command();
    command.args(["--json", "submit", "--wait", "--hold", "--", "true"]);
    let mut waiting = Beside::start(&stand, command);
    stand.until("it is there", || stand.run(&["job", "1"]).code == 0);
    let pid = waiting.child.id().to_string();
    stand.until("it listens to Ctrl-C", || catches_interrupts(&pid));
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(waiting.end(), Some(130), "{}", waiting.said("err"));
    let answer: serde_json::Value = serde_json::from_str(&waiting.said("out")).unwrap();
    assert_eq!((&answer["ids"][0], &answer["interrupted"]), (&"1".into(), &true.into()), "{answer}");
}
