//! Keepers that are killed under load: what they noted as ended is not run again, and what must run once does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use landfall_testkit::Rng;
use serde_json::Value;

use crate::stand::{Stand, signal};

/// Attempts that a journal of a keeper notes as ended by themselves.
pub(crate) fn noted_ends(journal: &str) -> BTreeSet<(String, u64)> {
    let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ends = lines.filter_map(|line| line.get("ended").cloned()).filter(|end| end.get("cause").is_none());
    ends.map(|end| {
        (end["fence"]["job"].as_str().unwrap().to_owned(), end["fence"]["attempt"].as_u64().unwrap())
    })
    .collect()
}

/// Sends a signal to the keeper of an agent's directory. It may be between two keepers; then nobody takes it, least of all
/// a stranger who has the process id by now.
pub(crate) fn signal_keeper(dir: &Path, name: &str) -> bool {
    let pid = std::fs::read_to_string(dir.join("keeper.lock")).unwrap_or_default();
    let line = std::fs::read(Path::new("/proc").join(pid.trim()).join("cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    line.contains(" keeper ") && line.contains(dir.to_str().unwrap()) && signal(&pid, name)
}

#[test]
fn killed_keepers_run_nothing_again_that_ended_and_nothing_twice_that_runs_once() {
    let seed = std::env::var("LANDFALL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    println!("LANDFALL_SEED={seed}");
    let mut random = Rng::new(seed);
    // Under `fit` a node that lost a job would rest for a minute.
    let mut stand = Stand::with_config("[[pools]]\nid = \"default\"\npolicy = \"bin-pack\"\n");
    stand.agent("n1", &["--cpus", "8"]);
    let runs = stand.path("runs");
    let script = format!(
        "echo begin $LANDFALL_JOB_ID $LANDFALL_ATTEMPT >> {0}; sleep 0.0$((LANDFALL_ARRAY_INDEX % 10)); \
         echo end $LANDFALL_JOB_ID $LANDFALL_ATTEMPT >> {0}",
        runs.display()
    );
    let submit = |retries: &str| {
        stand.submit(&["--array", "0-299", "--cpu", "0.2", "--retries", retries, "--", "sh", "-c", &script])
    };
    let (once, often) = (submit("0"), submit("20"));
    let journal = stand.path("n1").join("keeper.journal");
    let mut noted = BTreeSet::new();
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(100 + random.below(250)));
        // Read after the kill, and before the next keeper writes it anew.
        signal_keeper(&stand.path("n1"), "KILL");
        noted.extend(noted_ends(&std::fs::read_to_string(&journal).unwrap_or_default()));
    }
    let tally = |id: &str, state: &str| stand.array(id)[state].as_u64().unwrap();
    stand.until("all have ended", || {
        tally(&once, "completed") + tally(&once, "failed") == 300 && tally(&often, "completed") == 300
    });
    let (mut begins, mut ends) = (BTreeMap::<String, Vec<u64>>::new(), BTreeMap::<String, Vec<u64>>::new());
    for line in std::fs::read_to_string(&runs).unwrap().lines() {
        let [what, job, attempt] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let of = if what == "begin" { &mut begins } else { &mut ends };
        of.entry(job.to_owned()).or_default().push(attempt.parse().unwrap());
    }
    for (job, attempts) in &begins {
        assert!(!job.starts_with(&format!("{once}.")) || attempts.len() == 1, "{job} ran in {attempts:?}");
    }
    for (job, attempt) in &noted {
        let last = begins.get(job).into_iter().flatten().max();
        assert!(
            last.is_none_or(|last| last <= attempt),
            "{job} had ended in attempt {attempt}, then {last:?}"
        );
    }
    let ended = ends.keys().filter(|job| job.starts_with(&format!("{often}."))).count();
    assert_eq!(ended, 300, "all that may run again came to an end");
    assert!(tally(&once, "failed") > 0, "no keeper was killed while a job ran");
    let lost = stand.json(&["jobs", "--array", &once, "--state", "failed"]);
    assert_eq!(lost["jobs"][0]["reason"], "node_lost", "{lost}");
}
