//! Every row of docs/reference/facts.md on a live server: the fact is changed in the world, and an answer of the server changes with
//! it. A row without a case fails, and so does a case without a row.

mod machines;
mod pools;

use std::cell::Cell;

use serde_json::{Value, json};

use crate::stand::Stand;

const PAGE: &str = include_str!("../../../../../docs/reference/facts.md");

/// How a fact is changed and seen to count.
type Case = (&'static str, fn(&mut World));

/// The rows of a section's table, without its head.
fn rows(section: &str) -> Vec<Vec<&'static str>> {
    let below = PAGE.split("\n## ").find(|part| part.starts_with(section)).expect("the section is there");
    let lines = below.lines().filter(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// Walks a section of the page.
fn walk(section: &str, cases: &[Case], mut world: World) {
    let rows = rows(section);
    for row in &rows {
        assert_eq!(row.len(), 5, "{row:?}");
        assert!(!row.iter().any(|cell| cell.is_empty()), "a row says everything: {row:?}");
        assert!(cases.iter().any(|(fact, _)| fact == &row[0]), "no case changes `{}`", row[0]);
    }
    // What one row finds must not hide what others would.
    let mut failed = Vec::new();
    for (fact, case) in cases {
        assert!(rows.iter().any(|row| row[0] == *fact), "the page does not know `{fact}`");
        println!("{fact}");
        let walked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&mut world)));
        failed.extend(walked.is_err().then_some(*fact));
    }
    assert!(failed.is_empty(), "not so: {failed:?}");
}

#[test]
fn what_is_not_measured_says_why() {
    let rows = rows("Not measured");
    assert!(!rows.is_empty());
    for row in rows {
        assert!(row.len() == 2 && row[1].split_whitespace().count() >= 4, "{row:?}");
    }
}

#[test]
fn every_term_and_filter_reads_what_is_known() {
    use landfall_policy::catalogue;
    let known: Vec<&str> = ["Nodes", "Pools and jobs"].into_iter().flat_map(rows).map(|row| row[0]).collect();
    let beside = ["the job", "the ledger", "settings", "silence", "offers"];
    let terms = catalogue::terms().map(|info| info.name).collect();
    let filters = catalogue::filters().map(|info| info.name).collect();
    let sections: [(&str, Vec<&str>); 2] = [("What terms read", terms), ("What filters read", filters)];
    for (section, names) in sections {
        let rows = rows(section);
        for name in &names {
            assert!(
                rows.iter().any(|row| row[0] == format!("`{name}`")),
                "{name} reads nothing that the page knows"
            );
        }
        assert_eq!(rows.len(), names.len(), "{section}: some of these are there twice, or are gone");
        for row in &rows {
            for fact in row[1].split("; ") {
                assert!(beside.contains(&fact) || known.contains(&fact), "{}: {fact}", row[0]);
            }
        }
    }
}

/// A server, and machines that the test plays: they speak as agents do.
struct World {
    stand: Stand,
    token: String,
    said: Cell<u64>,
}

/// Lays fields of one object over another, deep.
fn over(mut base: Value, changes: &Value) -> Value {
    if let (Some(base), Some(changes)) = (base.as_object_mut(), changes.as_object()) {
        for (key, change) in changes {
            let known = base.remove(key).filter(|known| known.is_object() && change.is_object());
            base.insert(key.clone(), known.map_or_else(|| change.clone(), |known| over(known, change)));
        }
    }
    base
}

impl World {
    fn new(stand: Stand) -> Self {
        let token = std::fs::read_to_string(stand.data().join("token")).unwrap();
        Self { stand, token, said: Cell::new(0) }
    }

    /// Asks the API, which must agree.
    #[track_caller]
    fn asks(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.stand.says(&self.token, method, path, &[], Some(body));
        assert!((200..300).contains(&status), "{method} {path} {body}: {status} {answer}");
        answer
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        self.stand.get(&self.token, path)
    }

    fn heartbeat(&self, changes: &Value) -> Value {
        self.said.set(self.said.get() + 1);
        let runtimes = ["process", "container", "llmcpp", "onnx"];
        let usual = json!({ "epoch": 1, "seq": self.said.get(), "agent_version": "1", "platform": "desktop",
            "accepting": true, "cpu_milli": 4000, "ram_mib": 16384,
            "performance_estimates": { "supported_runtimes": runtimes } });
        over(usual, changes)
    }

    /// A machine registers; what it says of itself beside the usual stands under `heartbeat`.
    #[track_caller]
    fn joins(&self, node: &str, pool: &str, says: &Value) {
        let beat = self.heartbeat(&says["heartbeat"]);
        let registration = over(json!({ "pool": pool }), says);
        let registration = over(registration, &json!({ "heartbeat": beat }));
        self.asks("PUT", &format!("/nodes/{node}/registration"), &registration);
    }

    /// A machine sends a heartbeat.
    #[track_caller]
    fn beats(&self, node: &str, says: &Value) {
        let heard = self.asks("POST", &format!("/nodes/{node}/heartbeat"), &self.heartbeat(says));
        assert_eq!(heard["status"], "ok", "{heard}");
    }

    fn request(needs: &Value) -> Value {
        let run = match needs["runtime"].as_str() {
            Some("llmcpp") => json!({ "command": ["true"], "model": "/m.gguf" }),
            Some("container") => json!({ "command": ["true"], "image": "alpine" }),
            _ => json!({ "command": ["true"] }),
        };
        json!({ "needs": needs, "run": run })
    }

    #[track_caller]
    fn submits(&self, needs: &Value) -> String {
        self.asks("POST", "/jobs", &Self::request(needs))["id"].as_str().unwrap().to_owned()
    }

    /// A job that is only asked about.
    #[track_caller]
    fn held(&self, needs: &Value) -> String {
        let request = over(Self::request(needs), &json!({ "hold": true }));
        self.asks("POST", "/jobs", &request)["id"].as_str().unwrap().to_owned()
    }

    /// What the policy says of a job on a node.
    #[track_caller]
    fn verdict(&self, job: &str, node: &str) -> Value {
        self.get(&format!("/jobs/{job}/explain?node={node}"))["verdict"].clone()
    }

    /// Why a job may not run on a node.
    #[track_caller]
    fn against(&self, job: &str, node: &str) -> Vec<String> {
        let verdict = self.verdict(job, node);
        let refusals = verdict["refusals"].as_array().unwrap();
        refusals.iter().map(|refusal| refusal["reason"].as_str().unwrap().to_owned()).collect()
    }

    /// What a term says of a job on a node.
    #[track_caller]
    fn term(&self, job: &str, node: &str, term: &str) -> f64 {
        let verdict = self.verdict(job, node);
        let found = verdict["terms"].as_array().unwrap().iter().find(|found| found["term"] == term);
        found.and_then(|found| found["raw"].as_f64()).unwrap_or_else(|| panic!("no {term} in {verdict}"))
    }

    /// Where a job would start, or why it would wait.
    #[track_caller]
    fn would(&self, needs: &Value) -> Result<String, String> {
        let plan = self.asks("POST", "/placement/dry-run", &Self::request(needs));
        match plan["starts"][0]["nodes"][0]["node"].as_str() {
            Some(node) => Ok(node.to_owned()),
            None => {
                let why = plan["waiting"][0]["explanation"]["reason"].as_str();
                Err(why.unwrap_or_else(|| panic!("neither starts nor waits: {plan}")).to_owned())
            }
        }
    }

    /// A machine reports about the present attempt of a job.
    #[track_caller]
    fn reports(&self, node: &str, job: &str, report: &Value) {
        let placed = self.get(&format!("/jobs/{job}/placement"))["placed"].clone();
        let body = json!({ "reports": [{ "fence": placed["fence"], "report": report }] });
        let answer = self.asks("POST", &format!("/nodes/{node}/reports"), &body);
        assert_eq!(answer["answers"][0], "done", "{answer}");
    }

    /// A job runs from its start to a good end.
    #[track_caller]
    fn runs(&self, node: &str, job: &str, usage: &Value) {
        self.reports(node, job, &json!("started"));
        self.reports(node, job, &json!({ "exited": { "code": 0, "failure": null, "usage": usage } }));
    }

    /// Writes files below the directory that stands for `/sys` and `/proc`.
    fn puts(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = self.stand.path("kernel").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    #[track_caller]
    fn until(&self, what: &str, so: impl FnMut() -> bool) {
        self.stand.until(what, so);
    }
}
