//! What a server asks of peers, and what it offers them: it is a peer of itself, which is all that these need.

use landfall_model::{Dispatch, Pool, PoolId};
use serde_json::{Value, json};

use crate::common::{Server, heartbeat};

/// A server whose only pool negotiates, with short windows.
async fn peer() -> Server {
    Server::start_with(|config| {
        config.pools[0].pool = Pool::new(PoolId::new("default").unwrap(), Dispatch::Negotiate);
        (config.peer.settings.deliberation_ms, config.peer.settings.grace_ms) = (0, 50);
    })
    .await
}

/// Registers a machine with 8 cores and 16 GiB, and what else it says.
async fn machine(server: &Server, id: &str, said: Value) {
    let mut registration = json!({ "heartbeat": heartbeat(1) });
    for (field, value) in said.as_object().unwrap() {
        registration["heartbeat"][field] = value.clone();
    }
    let (status, answer) = server.put(&format!("/nodes/{id}/registration"), registration).await;
    assert_eq!(status, 200, "{answer}");
}

fn job(needs: &Value, placement: &Value) -> Value {
    json!({ "needs": needs, "run": { "command": ["true"] }, "placement": placement })
}

/// What the server itself would offer for a job, or why it would not.
async fn offered(server: &Server, needs: Value, placement: Value) -> Result<Value, Value> {
    let (status, plan) = server.post("/plan", json!({ "submit": job(&needs, &placement) })).await;
    assert_eq!(status, 200, "{plan}");
    let negotiation = &plan["negotiation"];
    match &negotiation["offers"][0] {
        Value::Null => Err(negotiation["declines"][0]["reasons"].clone()),
        offer => Ok(offer.clone()),
    }
}

/// What a refusal says: status, code, field.
async fn refused(server: &Server, needs: Value, placement: Value) -> (u16, String, String) {
    let (status, said) = server.post("/jobs", job(&needs, &placement)).await;
    let text = |field: &str| said[field].as_str().unwrap_or_default().to_owned();
    (status.as_u16(), text("code"), text("field"))
}

fn points(offer: &Value, term: &str) -> f64 {
    let terms = offer["terms"].as_array().unwrap();
    terms.iter().find(|line| line["term"] == term).map_or(0.0, |line| line["points"].as_f64().unwrap())
}

#[tokio::test]
async fn every_wish_has_its_words_and_others_are_refused() {
    let server = peer().await;
    machine(&server, "n1", json!({})).await;
    let cpu = || json!({ "cpu_milli": 1000 });
    for scope in ["cell", "org", "federation", "commons"] {
        offered(&server, cpu(), json!({ "max_scope": scope })).await.unwrap();
    }
    // Nobody is asked.
    let (status, plan) =
        server.post("/plan", json!({ "submit": job(&cpu(), &json!({ "max_scope": "local" })) })).await;
    assert_eq!((status.as_u16(), &plan["negotiation"]), (200, &Value::Null), "{plan}");
    for placement in [
        json!({ "max_scope": "family" }),
        json!({ "start_scope": "near" }),
        json!({ "allowed_scopes": ["local", "near"] }),
        json!({ "preset": "best" }),
        json!({ "negotiate": "sometimes" }),
        json!({ "cell": "" }),
        json!({ "hints": { "prefer": [] } }),
    ] {
        let field = format!("placement.{}", placement.as_object().unwrap().keys().next().unwrap());
        let said = refused(&server, cpu(), placement).await;
        assert_eq!(said, (400, "invalid".into(), field));
    }
    let said = refused(&server, cpu(), json!({ "max_scope": "cell", "start_scope": "org" })).await;
    assert_eq!((said.0, said.1.as_str()), (400, "invalid"));
    // This peer is as near to itself as can be.
    offered(&server, cpu(), json!({ "allowed_scopes": ["local"], "start_scope": "local" })).await.unwrap();
    let why = offered(&server, cpu(), json!({ "allowed_scopes": ["commons"] })).await.unwrap_err();
    assert_eq!(why, json!(["scope"]));
    // Needs that only a request tells have no effect where nobody is asked.
    for needs in [json!({ "storage_mib": 10 }), json!({ "network_mbit_s": 1 }), json!({ "class": 7 })] {
        let field = format!("needs.{}", needs.as_object().unwrap().keys().next().unwrap());
        let said = refused(&server, needs, json!({ "max_scope": "local" })).await;
        assert_eq!(said, (422, "need_ignored".into(), field));
    }
}

#[tokio::test]
async fn the_way_a_job_takes_follows_its_needs_unless_it_is_said() {
    let server = peer().await;
    machine(&server, "n1", json!({})).await;
    for (cpu, negotiate, protocol) in [
        (100, Value::Null, "negotiated"),
        (100, json!("never"), "simple"),
        (0, json!("auto"), "simple"),
        (0, json!("always"), "negotiated"),
    ] {
        let wanted = job(&json!({ "cpu_milli": cpu }), &json!({ "negotiate": negotiate }));
        let (status, said) = server.post("/jobs", wanted).await;
        assert_eq!(status, 201, "{said}");
        let (_, placed) = server.get(&format!("/jobs/{}/placement", said["id"].as_str().unwrap())).await;
        assert_eq!(placed["negotiation"]["protocol"], protocol, "{placed}");
    }
    let said = refused(&server, json!({ "nodes": 2 }), json!({})).await;
    assert_eq!((said.0, said.1.as_str()), (422, "gang_unsupported"));
}

#[tokio::test]
async fn only_what_the_ledger_would_give_is_offered() {
    let server = peer().await;
    let gpus = json!([0, 1, 2].map(|index| json!({ "index": index, "model": "A100", "vram_mib": 40_000 })));
    machine(&server, "n1", json!({ "gpus": gpus })).await;
    machine(&server, "n2", json!({})).await;
    let one = || json!({ "gpu_count": 1 });
    let facts = offered(&server, one(), json!({})).await.unwrap()["facts"].clone();
    assert_eq!((&facts["cpu_milli"], &facts["gpus_free"]), (&json!(16_000), &json!(3)), "{facts}");
    // Half of a device is away, and requests are for whole ones.
    let half = job(&json!({ "gpu_count": 1, "gpu_milli": 500 }), &json!({ "max_scope": "local" }));
    assert_eq!(server.post("/jobs", half).await.0, 201);
    let facts = offered(&server, one(), json!({})).await.unwrap()["facts"].clone();
    assert_eq!(facts["gpus_free"], 2, "{facts}");
    // A machine that somebody took out offers nothing.
    assert_eq!(server.post("/nodes/n1/suspend", json!({})).await.0, 200);
    assert_eq!(offered(&server, one(), json!({})).await.unwrap_err(), json!(["does_not_fit"]));
    let facts = offered(&server, json!({ "cpu_milli": 1 }), json!({})).await.unwrap()["facts"].clone();
    assert_eq!((&facts["cpu_milli"], &facts["gpus"]), (&json!(8000), &json!(0)), "{facts}");
}

#[tokio::test]
async fn devices_are_offered_by_what_they_are_capable_of() {
    let server = peer().await;
    let gpu = |index: u16, capability: Value| json!({ "index": index, "model": "A100", "vram_mib": 40_000, "capability": capability });
    let gpus = json!([gpu(0, json!("sm_75")), gpu(1, json!("sm_86")), gpu(2, Value::Null)]);
    machine(&server, "n1", json!({ "gpus": gpus })).await;
    let (_, node) = server.get("/nodes/n1").await;
    assert_eq!(node["gpus"][1]["capability"], "sm_86", "{node}");
    let need = |count: u32| json!({ "gpu_count": count, "vram_mib": 24_000, "gpu_capability": "sm_80" });
    offered(&server, need(1), json!({})).await.unwrap();
    assert_eq!(offered(&server, need(2), json!({})).await.unwrap_err(), json!(["does_not_fit"]));
    // Whoever wins it gives it such a device.
    let id = server.job(need(1)).await;
    let placed = async {
        loop {
            let (_, list) = server.get("/jobs?state=live").await;
            let hosted = list["items"]
                .as_array()
                .unwrap()
                .iter()
                .find(|job| job["id"] != id.as_str() && job["nodes"][0]["node"] == "n1");
            if let Some(hosted) = hosted {
                return hosted["nodes"][0]["gpus"].clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let gpus = tokio::time::timeout(std::time::Duration::from_secs(60), placed).await.unwrap();
    assert_eq!(gpus, json!([1]));
}

#[tokio::test]
async fn what_a_machine_has_warm_and_runs_beside_counts() {
    let server = peer().await;
    let digest = format!("sha256:{}", "ab".repeat(32));
    let images = json!(["quay.io/lab/tool:1", format!("quay.io/lab/other@{digest}")]);
    machine(&server, "n1", json!({ "cache": ["train"], "images": images })).await;
    let near = |hints: Value| json!({ "preset": "locality", "hints": hints });
    let data = |names: &[&str]| near(json!({ "data": names }));
    let cpu = || json!({ "cpu_milli": 1000 });
    for (names, share) in [
        (&["train"][..], 1.0),
        (&["quay.io/lab/tool:1", "sha256:00"], 0.5),
        (&[digest.as_str()], 1.0),
        (&["elsewhere"], 0.0),
    ] {
        let offer = offered(&server, cpu(), data(names)).await.unwrap();
        assert!((points(&offer, "offer-data") - 0.15 * share).abs() < 1e-9, "{names:?}: {offer}");
    }
    // A job is named by its number, and peers know it by its digest.
    let id = server.job(cpu()).await;
    let running = async {
        while server.get(&format!("/jobs/{id}")).await.1["state"] != "running" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), running).await.unwrap();
    let offer = offered(&server, cpu(), near(json!({ "colocate_with": [id] }))).await.unwrap();
    assert!((points(&offer, "offer-hints") - 0.10).abs() < 1e-9, "{offer}");
    let (status, said) = server.post("/jobs", job(&cpu(), &near(json!({ "colocate_with": ["77"] })))).await;
    assert_eq!((status.as_u16(), &said["field"]), (400, &json!("placement.hints.colocate_with")), "{said}");
    assert!(said["message"].as_str().unwrap().contains("job `77` was not announced"), "{said}");
}

#[tokio::test]
async fn load_of_a_machine_that_no_job_causes_is_not_offered() {
    let server = peer().await;
    machine(&server, "n1", json!({})).await;
    let facts =
        || async { offered(&server, json!({ "cpu_milli": 1 }), json!({})).await.unwrap()["facts"].clone() };
    assert_eq!(facts().await["cpu_free_milli"], 8000);
    let mut beat = heartbeat(2);
    (beat["cpu_usage_pct"], beat["memory_used_mb"]) = (json!(40.0), json!(4096));
    assert_eq!(server.post("/nodes/n1/heartbeat", beat).await.0, 200);
    let said = facts().await;
    // In steps of a twentieth: five of memory are not quite a quarter.
    assert_eq!((&said["cpu_free_milli"], &said["ram_free_mib"]), (&json!(4800), &json!(12_289)), "{said}");
    assert_eq!(said["cpu_milli"], 8000);
    let why = offered(&server, json!({ "cpu_milli": 7000 }), json!({})).await.unwrap_err();
    assert_eq!(why, json!(["does_not_fit"]));
}

#[tokio::test]
async fn disk_and_network_count_where_peers_say_how_much_they_have() {
    let server = peer().await;
    machine(&server, "n1", json!({ "network_mbit_s": 900.0 })).await;
    for (needs, fits) in [
        (json!({ "storage_mib": 1 }), true),
        (json!({ "storage_mib": 10_000_000 }), false),
        (json!({ "network_mbit_s": 800 }), true),
        (json!({ "network_mbit_s": 1000 }), false),
    ] {
        let said = offered(&server, needs.clone(), json!({})).await;
        assert_eq!(said.is_ok(), fits, "{needs}: {said:?}");
        assert!(fits || said == Err(json!(["does_not_fit"])), "{needs}: {said:?}");
    }
    // It runs although no ledger of machines knows of disks.
    let id = server.job(json!({ "storage_mib": 1, "expected_duration_ms": 1000 })).await;
    let running = async {
        while server.get(&format!("/jobs/{id}")).await.1["state"] != "running" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), running).await.unwrap();
}
