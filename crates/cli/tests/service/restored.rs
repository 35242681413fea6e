//! A server that goes on from a backup: nothing is mistaken for what happened since. The agent is played by the test.

use serde_json::{Value, json};

use crate::stand::Stand;

/// An agent of node `n1` that remembers one journal.
struct Played<'a> {
    stand: &'a Stand,
    token: String,
    journal: Option<String>,
}

impl Played<'_> {
    fn says(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let headers: Vec<_> =
            self.journal.iter().map(|journal| ("landfall-journal", journal.as_str())).collect();
        self.stand.says(&self.token, method, &format!("/nodes/n1/{path}"), &headers, Some(body))
    }

    fn registers(&self, start: u64, running: &[Value]) -> Value {
        let heartbeat = heartbeat(start, 1, running);
        let (status, answer) = self.says("PUT", "registration", &json!({ "heartbeat": heartbeat }));
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// What the server answers to one report.
    fn reports(&self, fence: &Value, report: &Value) -> String {
        let (status, answer) =
            self.says("POST", "reports", &json!({ "reports": [{ "fence": fence, "report": report }] }));
        assert_eq!(status, 200, "{answer}");
        answer["answers"][0].as_str().unwrap().to_owned()
    }
}

fn heartbeat(start: u64, seq: u64, running: &[Value]) -> Value {
    json!({ "epoch": start, "seq": seq, "agent_version": "1", "platform": "desktop", "accepting": true,
        "cpu_milli": 8000, "ram_mib": 16384, "running": running, "performance_estimates":
        { "supported_runtimes": ["process"], "max_concurrent_containers": 1, "wasm_memory_limit_mb": 0 } })
}

fn exited() -> Value {
    json!({ "exited": { "code": 0, "failure": null, "usage": {} } })
}

#[test]
fn after_a_restore_no_number_is_given_twice_and_only_what_ran_then_goes_on() {
    let mut stand = Stand::new();
    let secret = |stand: &Stand| std::fs::read_to_string(stand.data().join("token")).unwrap();
    let token = secret(&stand);
    stand.run(&["token", "create", "ci", "--role", "operator"]).ok();
    let old = stand.json(&["status"])["journal"].as_str().unwrap().to_owned();
    let epoch = stand.json(&["status"])["epoch"].clone();
    let fence = |job: &str| json!({ "job": job, "attempt": 1, "epoch": epoch });
    let agent = Played { stand: &stand, token: token.clone(), journal: Some(old.clone()) };
    assert_eq!(agent.registers(1, &[])["journal"], *old);
    for id in ["1", "2"] {
        assert_eq!(stand.submit(&["--", "true"]), id);
        assert_eq!(agent.reports(&fence(id), &json!("started")), "done");
    }
    let piece = json!({ "fence": fence("1"), "stream": "stdout", "offset": 0, "data": "b2xkCg==" });
    assert_eq!(agent.says("POST", "logs", &json!({ "pieces": [piece] })).0, 200);
    assert_eq!(agent.reports(&fence("1"), &exited()), "done");
    let backup = stand.path("backup.db");
    let backup = backup.to_str().unwrap();
    let said = stand.run(&["backup", "--to", backup, "--logs"]).ok();
    assert!(said.contains("backup.db.logs"), "{said}");
    let position = format!("{old}-{}", stand.json(&["status"])["seq"]);
    // What happens from here on is forgotten by the restored server, and remembered by the agent.
    stand.run(&["token", "revoke", "ci"]).ok();
    assert_eq!(stand.submit(&["--", "true"]), "3");
    assert_eq!(agent.reports(&fence("3"), &json!("started")), "done");
    stand.kill_server();
    std::fs::rename(stand.data(), stand.path("before")).unwrap();

    let data = stand.data();
    let made = stand.json(&["restore", backup, "--data-dir", data.to_str().unwrap()]);
    let names: Vec<&str> =
        made["tokens"].as_array().unwrap().iter().map(|token| token["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"ci"), "it was valid then: {made}");
    assert!(!made.to_string().contains("lf_"), "no secret is shown: {made}");
    assert_eq!((&made["next_job"], &made["logs"]), (&json!(1_000_000), &json!(true)));
    stand.start_server();
    let agent = Played { stand: &stand, token, journal: Some(old.clone()) };
    let new = stand.json(&["status"])["journal"].as_str().unwrap().to_owned();
    assert_ne!(new, old);
    assert_eq!(made["journal"], *new);

    // Whatever the agent says of the old journal is refused as a whole.
    for (path, body) in [
        ("heartbeat", heartbeat(1, 2, &[fence("3")])),
        ("reports", json!({ "reports": [{ "fence": fence("2"), "report": exited() }] })),
        ("ask", json!({})),
        ("probe", json!({ "good": true })),
        ("fetches", json!({ "entries": [] })),
        ("logs", json!({ "pieces": [] })),
    ] {
        let (status, answer) = agent.says("POST", path, &body);
        assert_eq!((status, answer["code"].as_str()), (409, Some("other_journal")), "{path}: {answer}");
    }
    assert_eq!(stand.job("2")["state"], "running", "its end was not believed");
    let registered = agent.registers(2, &[fence("2"), fence("3")]);
    assert_eq!((&registered["journal"], &registered["adopted"]), (&json!(new), &json!([fence("2")])));
    let agent = Played { journal: Some(new), ..agent };
    assert_ne!(agent.reports(&fence("3"), &exited()), "done", "nobody knows job 3 here");
    assert_eq!(agent.reports(&fence("2"), &exited()), "done");
    assert_eq!(stand.job("2")["state"], "completed");

    // New jobs have new numbers and nobody's output; that of old ones is there.
    let id = stand.submit(&["--", "true"]);
    assert_eq!(id, "1000000");
    assert_eq!(stand.run(&["logs", &id]).ok(), "");
    assert_eq!(stand.run(&["logs", "1"]).ok(), "old\n");
    let said = stand.run(&["events", "--after", &position]);
    assert_eq!(said.code, 6, "{}", said.err);
    assert!(said.err.contains(&old), "{}", said.err);
    stand.run(&["events", "--after", "0"]).ok();

    // The same with tokens revoked; a directory in use is refused.
    let said = stand.run(&["restore", backup, "--data-dir", data.to_str().unwrap()]);
    assert_eq!(said.code, 2, "{}", said.err);
    let other = stand.path("other");
    let made = stand.json(&["restore", backup, "--data-dir", other.to_str().unwrap(), "--revoke", "ci"]);
    assert_eq!(made["revoked"][0]["name"], "ci");
    assert!(!made["tokens"].to_string().contains("\"ci\""), "{made}");
    let all = stand.path("all");
    let made = stand.json(&["restore", backup, "--data-dir", all.to_str().unwrap(), "--revoke-all"]);
    assert_eq!(made["tokens"], json!([]));
    let said = stand.run(&["restore", backup, "--data-dir", "more", "--revoke", "nobody"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(!stand.path("more").exists(), "nothing is left of a restore that was refused");
}

#[test]
fn a_server_does_not_start_on_a_backup_that_was_put_in_place_by_hand() {
    let mut stand = Stand::new();
    let backup = stand.path("backup.db");
    stand.run(&["backup", "--to", backup.to_str().unwrap()]).ok();
    stand.kill_server();
    let by_hand = stand.path("by-hand");
    std::fs::create_dir(&by_hand).unwrap();
    std::fs::copy(&backup, by_hand.join("journal.db")).unwrap();
    let said = stand.run(&["server", "--listen", "127.0.0.1:0", "--data-dir", by_hand.to_str().unwrap()]);
    assert_eq!(said.code, 7, "{}", said.err);
    assert!(said.err.contains("landfall restore"), "{}", said.err);
}
