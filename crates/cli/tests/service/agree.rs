//! What a live server answers is what the engine says on the same state.

use landfall_engine::Engine;
use landfall_engine::answers::Change;
use landfall_model::{JobId, Time};
use landfall_store::Store as _;
use landfall_store::sqlite::Sqlite;
use serde_json::Value;

use crate::stand::Stand;

/// The parts of an answer that do not depend on the instant at which it was asked for.
fn timeless(mut value: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("now_ms");
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut value);
    value
}

#[test]
fn explain_estimate_and_plan_of_a_live_server_agree_with_the_engine() {
    let config =
        "[[pools]]\nid = \"push\"\ndispatch = \"push\"\n[[pools]]\nid = \"batch\"\ndispatch = \"batch\"\n";
    let mut stand = Stand::with_config(config);
    stand.agent("p1", &["--pool", "push", "--cpus", "2"]);
    stand.agent("b1", &["--pool", "batch", "--cpus", "2"]);
    let mut ids = Vec::new();
    for pool in ["push", "batch"] {
        for cpu in ["2", "2", "1"] {
            ids.push(stand.submit(&[
                "--pool",
                pool,
                "--cpu",
                cpu,
                "--walltime",
                "10m",
                "--",
                "sleep",
                "300",
            ]));
        }
    }
    stand.until("two jobs run", || ids.iter().filter(|id| stand.job(id)["state"] == "running").count() == 2);
    let token = std::fs::read_to_string(stand.data().join("token")).unwrap();
    let live: Vec<(Value, Value)> = ids
        .iter()
        .map(|id| {
            (
                stand.get(&token, &format!("/jobs/{id}/explain")),
                stand.get(&token, &format!("/jobs/{id}/estimate")),
            )
        })
        .collect();
    let planned = stand.post(&token, "/plan", &serde_json::json!({ "cancel": ids[0] }));
    // No more heartbeats, so that the state on disk is the one that was asked about.
    stand.agent_process("p1").kill();
    stand.agent_process("b1").kill();
    stand.kill_server();
    let mut store = Sqlite::open(&stand.data()).unwrap();
    let engine = Engine::of(store.load().unwrap().state);
    for (id, (explained, estimated)) in ids.iter().zip(live) {
        let id = JobId::new(id).unwrap();
        let own = as_read(&engine.explain(&id).unwrap());
        assert_eq!(timeless(explained), timeless(own), "explain {id}");
        let own = as_read(&engine.estimate(&id).unwrap());
        assert_eq!(timeless(estimated), timeless(own), "estimate {id}");
    }
    // A plan begins when it is asked for, which may be long after the last event.
    let asked_at = Time::from_millis(planned["now_ms"].as_i64().unwrap());
    let own = engine.at(asked_at).plan(Change::Cancel(JobId::new(&ids[0]).unwrap()));
    let mut planned = planned;
    // What would be submitted is what the server adds.
    assert_eq!(planned.as_object_mut().unwrap().remove("submitted"), Some(serde_json::json!([])));
    assert_eq!(timeless(planned), timeless(as_read(&own)), "plan");
}

/// A value as whoever reads it over the line has it: the last digit of a figure may be another one.
fn as_read(value: &impl serde::Serialize) -> Value {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}
