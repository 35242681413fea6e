//! A wall clock that jumps, with libfaketime (Debian package `faketime`): the server's, while it runs and while it is away.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::stand::Stand;

const DAY: i64 = 86_400;

/// Walltimes are enforced in batch pools.
const POOLS: &str = "[[pools]]\nid = \"default\"\n[[pools]]\nid = \"batch\"\ndispatch = \"batch\"\n";

/// A server whose wall clock the test can set, unless that cannot be had here.
struct Faked(Stand);

/// The variables that let a server have the clock of a file, unless that cannot be had here.
pub(crate) fn faked_by(file: &Path) -> Option<String> {
    let library = library()?;
    Some(format!(
        "LD_PRELOAD={}\nFAKETIME_TIMESTAMP_FILE={}\nFAKETIME_NO_CACHE=1\nFAKETIME_DONT_FAKE_MONOTONIC=1\nNO_FAKE_STAT=1\n",
        library.display(),
        file.display()
    ))
}

/// Sets the clock of a file so many seconds ahead. The file is never seen half written.
pub(crate) fn set(file: &Path, ahead: i64) {
    let draft = file.with_extension("new");
    std::fs::write(&draft, format!("{ahead:+}\n")).unwrap();
    std::fs::rename(draft, file).unwrap();
}

fn library() -> Option<PathBuf> {
    let dirs = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut found = dirs.map(|dir| dir.path().join("faketime/libfaketimeMT.so.1"));
    let library = found.find(|path| path.exists());
    if library.is_none() {
        let text = "libfaketime is missing: install the Debian package `faketime` (`cargo xtask packages`)";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{text}");
        eprintln!("SKIPPED, {text}");
    }
    library
}

impl Faked {
    /// The clock is so many seconds ahead when the server starts for the first time.
    fn new(config: &str, ahead: i64) -> Option<Self> {
        let stand = Stand::unstarted(&format!("{config}{POOLS}"));
        std::fs::write(stand.path("server.env"), faked_by(&stand.path("faketime"))?).unwrap();
        let mut faked = Self(stand);
        faked.set(ahead);
        faked.0.start_server();
        faked.0.agent("n1", &["--cpus", "4"]);
        faked.0.agent("n2", &["--cpus", "4", "--pool", "batch"]);
        Some(faked)
    }

    /// Sets the server's wall clock so many seconds ahead of the true one.
    fn set(&self, ahead: i64) {
        set(&self.0.path("faketime"), ahead);
    }

    /// Sets it and waits until the server has noticed.
    fn jump(&self, ahead: i64) {
        let jumps = self.0.json(&["status"])["clock"]["jumps"].as_u64().unwrap();
        self.set(ahead);
        self.0.until("the jump is noticed", || {
            self.0.json(&["status"])["clock"]["jumps"].as_u64().unwrap() > jumps
        });
    }

    fn restart(&mut self) {
        self.0.kill_server();
        self.0.start_server();
    }

    /// A job that runs until the test says so.
    fn patient(&self, name: &str) -> String {
        let file = self.0.path(name);
        let script = format!("while ! test -e {}; do sleep 0.05; done", file.display());
        let id = self.0.submit(&["--pool", "default", "--cpu", "1", "--", "sh", "-c", &script]);
        self.0.wait_for(&id, &["running"]);
        id
    }

    #[track_caller]
    fn new_jobs_run_and_walltimes_are_enforced(&self) {
        let long = self.0.submit(&["--pool", "batch", "--cpu", "1", "--walltime", "1s", "--", "sleep", "60"]);
        let quick = self.0.submit(&["--pool", "default", "--cpu", "1", "--", "true"]);
        assert_eq!(self.0.wait_for(&quick, &["completed", "failed"])["state"], "completed");
        let job = self.0.wait_for(&long, &["completed", "failed", "cancelled"]);
        assert_eq!(job["reason"], "walltime", "{job}");
    }

    #[track_caller]
    fn is_well(&self, running: &str) {
        assert_eq!(self.0.node("n1")["state"], "ready");
        let job = self.0.job(running);
        assert_eq!((&job["state"], &job["attempt"]), (&"running".into(), &1.into()), "{job}");
    }
}

/// Time for rounds of the driver in which a wrong clock could do harm.
fn rounds() {
    std::thread::sleep(Duration::from_millis(1500));
}

#[test]
fn a_day_ahead_for_a_moment_harms_nobody() {
    let Some(faked) = Faked::new("", 0) else { return };
    let patient = faked.patient("go");
    faked.jump(DAY);
    rounds();
    faked.is_well(&patient);
    let status = faked.0.json(&["status"]);
    let ahead = status["clock"]["ahead_ms"].as_i64().unwrap();
    assert!((DAY * 1000 - 60_000..=DAY * 1000).contains(&ahead), "{status}");
    let page = faked.0.run(&["status"]).ok();
    assert!(page.contains("ahead of the server's time"), "{page}");
    faked.new_jobs_run_and_walltimes_are_enforced();
    faked.jump(0);
    rounds();
    faked.is_well(&patient);
    faked.new_jobs_run_and_walltimes_are_enforced();
    let events = faked.0.run(&["events", "--after", "0"]).ok();
    assert_eq!(events.matches("clock_jumped").count(), 2, "{events}");
    let metrics = faked.0.metrics();
    assert!(metrics.contains("landfall_clock_jumps_total 2"), "{metrics}");
    assert!(metrics.contains("landfall_clock_offset_seconds "), "{metrics}");
    std::fs::write(faked.0.path("go"), "").unwrap();
    assert_eq!(faked.0.wait_for(&patient, &["completed"])["attempt"], 1);
}

#[test]
fn forty_days_ahead_erase_nothing_and_a_restart_in_the_middle_heals() {
    // Ended jobs are looked up on disk, where retention would erase them.
    let config = "[server]\nclean_every = \"100ms\"\nended_in_memory = 0\n";
    let Some(mut faked) = Faked::new(config, 0) else { return };
    let ended = faked.0.submit(&["--pool", "default", "--", "echo", "kept"]);
    faked.0.wait_for(&ended, &["completed"]);
    faked.0.until("its log is there", || faked.0.run(&["logs", &ended]).out.contains("kept"));
    let patient = faked.patient("go");
    faked.jump(40 * DAY);
    rounds();
    let is_kept = |faked: &Faked| {
        assert_eq!(faked.0.job(&ended)["state"], "completed");
        assert!(faked.0.run(&["logs", &ended]).ok().contains("kept"));
    };
    is_kept(&faked);
    faked.restart();
    rounds();
    is_kept(&faked);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let said = faked.0.json(&["status"])["now_ms"].as_u64().unwrap();
    assert!(said.abs_diff(now) < 600_000, "the server's time is {said}, not {now}");
    faked.is_well(&patient);
    faked.new_jobs_run_and_walltimes_are_enforced();
    faked.set(0);
    faked.restart();
    rounds();
    is_kept(&faked);
    faked.is_well(&patient);
    faked.new_jobs_run_and_walltimes_are_enforced();
}

#[test]
fn a_journal_that_is_ahead_of_the_clock_heals() {
    let Some(mut faked) = Faked::new("", 40 * DAY) else { return };
    let patient = faked.patient("go");
    faked.0.kill_server();
    faked.set(0);
    faked.0.start_server();
    rounds();
    faked.is_well(&patient);
    faked.new_jobs_run_and_walltimes_are_enforced();
    let first = faked.0.json(&["status"]);
    assert!(first["clock"]["ahead_ms"].as_i64().unwrap() < -39 * DAY * 1000, "{first}");
    rounds();
    let then = faked.0.json(&["status"]);
    let moved = |field: &str| then[field].as_i64().unwrap() - first[field].as_i64().unwrap();
    assert!(moved("now_ms") > 0, "time goes on: {first} {then}");
    let closer = then["clock"]["ahead_ms"].as_i64() > first["clock"]["ahead_ms"].as_i64();
    assert!(closer, "and is led back: {first} {then}");
}

/// The command line and the server have clocks a day apart.
#[test]
fn spans_are_counted_from_the_servers_time() {
    let Some(faked) = Faked::new("", DAY) else { return };
    let stand = &faked.0;
    let now = || stand.json(&["status"])["now_ms"].as_u64().unwrap();
    let hour = 3_600_000;
    let began = now();
    let soon = |what: &str, at: &serde_json::Value, span: u64| {
        let at = at.as_u64().unwrap_or_else(|| panic!("{what}: {at}"));
        assert!((began + span..=now() + span).contains(&at), "{what}: {at}, it was {began}");
    };
    // It would wait, which is the answer 1.
    let plan =
        stand.run(&["submit", "--json", "--dry-run", "--not-before", "+1h", "--", "true"]).ends_with(1);
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    soon("--not-before", &plan["submitted"][0]["not_before_ms"], hour);
    stand.run(&["drain", "n1", "--at", "+8h"]).ok();
    soon("--at", &stand.json(&["node", "n1"])["maintenance_at_ms"], 8 * hour);
    let token = stand.json(&["token", "create", "guest", "--role", "operator", "--expires", "7h"]);
    soon("--expires", &token["expires_at_ms"], 7 * hour);
    let since = stand.json(&["usage", "--since", "1h"])["since_ms"].as_u64().unwrap();
    assert!((began - hour..=now() - hour).contains(&since), "{since}, it was {began}");
}
