//! Servers that are killed at any moment: nothing that was acknowledged is lost, and nothing runs twice to its end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use landfall_testkit::Rng;

use crate::stand::Stand;

#[test]
fn fifty_kills_lose_no_acknowledged_job_and_run_none_twice() {
    let seed = std::env::var("LANDFALL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(42);
    println!("LANDFALL_SEED={seed}");
    let mut random = Rng::new(seed);
    let mut stand = Stand::with_agent(&["--cpus", "8"]);
    let runs = stand.path("runs");
    // Each attempt that comes to its end leaves one line.
    let script = format!("sleep 0.0$((LANDFALL_JOB_ID % 10)); echo $LANDFALL_JOB_ID >> {}", runs.display());
    let acknowledged = Arc::new(Mutex::new(Vec::<String>::new()));
    let over = Arc::new(AtomicBool::new(false));
    let submitters: Vec<_> = (0..2)
        .map(|_| {
            let (acknowledged, over, script) = (acknowledged.clone(), over.clone(), script.clone());
            let mut command = stand.command();
            command.args(["--json", "submit", "--cpu", "0.1", "--", "sh", "-c", &script]);
            let program = command.get_program().to_owned();
            let args: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            let env: Vec<_> = command
                .get_envs()
                .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
                .collect();
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let mut command = std::process::Command::new(&program);
                    let output = command.env_clear().args(&args).envs(env.clone()).output().unwrap();
                    // A server that is down acknowledges nothing.
                    if output.status.success() {
                        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                        acknowledged
                            .lock()
                            .unwrap()
                            .push(answer["jobs"][0]["id"].as_str().unwrap().to_owned());
                    }
                }
            })
        })
        .collect();
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(random.below(400)));
        stand.kill_server();
        stand.start_server();
    }
    over.store(true, Ordering::Relaxed);
    submitters.into_iter().for_each(|thread| thread.join().unwrap());
    // Both sides start once more.
    stand.kill_server();
    stand.agent_process("n1").kill();
    stand.start_server();
    stand.agent_unready("n1", &["--cpus", "8"]);
    let acknowledged = acknowledged.lock().unwrap().clone();
    println!("{} submissions were acknowledged", acknowledged.len());
    assert!(acknowledged.len() > 50, "the server was hardly ever up");
    for id in &acknowledged {
        let job = stand.wait_for(id, &["completed", "failed", "cancelled"]);
        assert_eq!(job["state"], "completed", "seed {seed}: {job}");
    }
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    for line in std::fs::read_to_string(&runs).unwrap().lines() {
        *ends.entry(line.to_owned()).or_default() += 1;
    }
    for id in &acknowledged {
        assert_eq!(ends.get(id), Some(&1), "seed {seed}: job {id} came to its end so often");
    }
}
