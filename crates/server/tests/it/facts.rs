//! What nodes tell reaches decisions: each fact is changed in the world and a live server decides otherwise.

use landfall_model::{Dispatch, Pool, PoolId};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::common::{Server, answer, heartbeat, registration};

fn with(mut value: Value, path: &[&str], to: Value) -> Value {
    let mut place = &mut value;
    for step in path {
        place = &mut place[*step];
    }
    *place = to;
    value
}

impl Server {
    async fn register(&self, id: &str, registration: Value) {
        let (status, said) = self.put(&format!("/nodes/{id}/registration"), registration).await;
        assert_eq!(status, 200, "{said}");
    }

    async fn beat(&self, id: &str, beat: Value) {
        let (status, said) = self.post(&format!("/nodes/{id}/heartbeat"), beat).await;
        assert_eq!((status.as_u16(), said["status"].as_str()), (200, Some("ok")), "{said}");
    }

    async fn seen(&self, id: &str) -> Value {
        let (status, node) = self.get(&format!("/nodes/{id}")).await;
        assert_eq!(status, 200, "{node}");
        node
    }

    /// Where a job is, if it is anywhere.
    async fn node_of(&self, job: &str) -> Option<String> {
        let (_, job) = self.get(&format!("/jobs/{job}")).await;
        job["nodes"][0]["node"].as_str().map(str::to_owned)
    }
}

fn pool(dispatch: Dispatch) -> Pool {
    Pool::new(PoolId::new("default").unwrap(), dispatch)
}

#[tokio::test]
async fn a_block_reaches_its_nodes_and_what_ends_it_ends_their_work() {
    let server = Server::start_with(|config| {
        config.pools[0].pool.policy = Some(landfall_model::Name::new("bin-pack").unwrap());
    })
    .await;
    let of_block = |block: &str| with(registration(), &["block"], json!(block));
    let (status, said) = server.put("/nodes/n1/registration", of_block("lease")).await;
    assert_eq!((status.as_u16(), said["code"].as_str()), (422, Some("unknown_block")), "{said}");
    assert_eq!(said["field"], "block");
    for (fields, field, hint) in [
        (json!({ "provider": "prime", "teir": "FLEX" }), "block.teir", "did you mean `tier`?"),
        (json!({ "provider": "prime", "colour": "red" }), "block.colour", "a block has id, provider"),
        (json!({ "provider": "prime", "start_at": 9, "end_at_ms": 5 }), "block.end_at", "give an end"),
        (json!({ "provider": "prime", "end_at": 9, "ends_in_ms": 5 }), "block.ends_in_ms", "one of the two"),
    ] {
        let (status, said) = server.put("/blocks/lease", fields).await;
        assert_eq!((status.as_u16(), said["field"].as_str()), (422, Some(field)), "{said}");
        assert!(said["hint"].as_str().is_some_and(|said| said.contains(hint)), "{said}");
    }
    let (status, said) = server.put("/blocks/lease", json!({ "provider": "prime", "tier": "FLEX" })).await;
    assert_eq!(status, 200, "{said}");
    server.register("n1", of_block("lease")).await;
    assert_eq!(server.seen("n1").await["block"], "lease");
    let (_, snapshot) = server.get("/capacity_snapshot?tier=FLEX").await;
    assert_eq!(snapshot["nodes"][0]["id"], "n1", "{snapshot}");

    // A job of the other tier and one of another provider do not go there; one that fits does.
    let fast = server.job(json!({ "tier": "FAST", "cpu_milli": 1000 })).await;
    let other = server.job(json!({ "tier": "FLEX", "provider": "sfcompute", "cpu_milli": 1000 })).await;
    let fits = server.job(json!({ "tier": "FLEX", "cpu_milli": 1000, "provider": "prime" })).await;
    assert_eq!(server.node_of(&fits).await.as_deref(), Some("n1"));
    assert_eq!((server.node_of(&fast).await, server.node_of(&other).await), (None, None));
    // A block that is about to end takes nothing that would outlast it.
    let soon = json!({ "provider": "prime", "tier": "FLEX", "ends_in_ms": 60_000 });
    assert_eq!(server.put("/blocks/lease", soon).await.0, 200);
    let long =
        server.job(json!({ "tier": "FLEX", "cpu_milli": 1000, "expected_duration_ms": 7_200_000 })).await;
    assert_eq!(server.node_of(&long).await, None);
}

#[tokio::test]
async fn providers_are_as_they_were_said_to_be_and_jobs_may_name_them() {
    let server = Server::start().await;
    assert_eq!(server.get("/providers").await.1, json!([]), "nobody is assumed");
    let named = json!({ "provider": "hall", "gpu_count": 9 });
    let submits = || server.post("/jobs", json!({ "needs": named, "run": { "command": ["true"] } }));
    assert_eq!(submits().await.1["field"], "needs.provider");
    let shape = json!({ "gpus": 8, "vram_mib": "80GiB", "cpu_milli": "64 cores", "ram_mib": "512GiB" });
    for (fields, field) in [
        (json!({ "class": "bulk" }), "provider"),
        (json!({ "class": "large", "shape": shape }), "provider.class"),
        (json!({ "class": "bulk", "shape": shape, "colour": "red" }), "provider.colour"),
        (json!({ "class": "bulk", "shape": { "gpus": -1 } }), "provider.shape.gpus"),
        (json!({ "class": "bulk", "shape": shape, "name": "other" }), "provider.name"),
    ] {
        let (status, said) = server.put("/providers/hall", fields).await;
        assert_eq!((status.as_u16(), said["field"].as_str()), (422, Some(field)), "{said}");
    }
    assert_eq!(server.get("/providers").await.1, json!([]), "nothing is half done");
    let (status, said) = server.put("/providers/hall", json!({ "class": "bulk", "shape": shape })).await;
    assert_eq!((status.as_u16(), &said["enabled"]), (200, &json!(true)), "{said}");
    // What is not named stays, inside the shape too.
    let (_, said) = server.put("/providers/hall", json!({ "shape": { "gpus": 4 }, "enabled": false })).await;
    assert_eq!((&said["shape"]["gpus"], &said["shape"]["cpu_milli"]), (&json!(4), &json!(64_000)), "{said}");
    assert_eq!(server.get("/providers").await.1, json!([said]));
    assert_eq!(submits().await.0, 201);
    // One that sells exact sizes delivers no more than it has.
    server.put("/providers/hall", json!({ "class": "exact" })).await;
    assert_eq!(submits().await.1["field"], "needs.provider");
    for status in [200, 404] {
        let request = server.request(Method::DELETE, "/providers/hall", &server.admin);
        assert_eq!(answer(request).await.0, status);
    }
}

#[tokio::test]
async fn a_node_is_no_larger_than_its_token_allows() {
    let server = Server::start().await;
    let wrong = json!({ "name": "x", "role": "operator", "max_cpu_milli": 1 });
    assert_eq!(server.post("/tokens", wrong).await.1["field"], "max_cpu_milli");
    let nothing = json!({ "name": "x", "role": "agent", "node": "n1", "max_ram_mib": 0 });
    assert_eq!(server.post("/tokens", nothing).await.1["field"], "max_ram_mib");
    let asked =
        json!({ "name": "guest", "role": "agent", "node": "n1", "max_cpu_milli": 1000, "max_ram_mib": 2048 });
    let (status, token) = server.post("/tokens", asked).await;
    assert_eq!((status.as_u16(), &token["max_cpu_milli"]), (201, &json!(1000)), "{token}");
    let secret = token["secret"].as_str().unwrap();
    let sized = |mut beat: Value, cpu_milli: u64, ram_mib: u64| {
        (beat["cpu_milli"], beat["ram_mib"]) = (json!(cpu_milli), json!(ram_mib));
        beat
    };
    let said = with(registration(), &["heartbeat"], sized(heartbeat(1), 64_000, 4096));
    let request = server.request(Method::PUT, "/nodes/n1/registration", secret).json(&said);
    assert_eq!(answer(request).await.0, 200);
    let size = |node: &Value| (node["cpu_milli"].as_u64(), node["ram_mib"].as_u64());
    let node = server.seen("n1").await;
    assert_eq!(size(&node), (Some(1000), Some(2048)), "{node}");
    assert_eq!(node["doubted"].as_array().map(Vec::len), Some(2), "{node}");
    assert_eq!(server.get("/alarms").await.1["items"][0]["kind"], "doubted_figures");
    // No larger in a heartbeat either; one that is smaller is believed.
    for (seq, cpu_milli, counts) in [(2, 32_000, 1000), (3, 500, 500)] {
        let request = server.request(Method::POST, "/nodes/n1/heartbeat", secret);
        assert_eq!(answer(request.json(&sized(heartbeat(seq), cpu_milli, 1024))).await.0, 200);
        assert_eq!(size(&server.seen("n1").await), (Some(counts), Some(1024)));
    }
    assert_eq!(server.seen("n1").await.get("doubted"), None);
}

#[tokio::test]
async fn heartbeats_bring_fresh_facts_and_what_they_leave_out_is_unknown() {
    let server = Server::start().await;
    server.node("n1").await;
    let told = json!({ "thermal": "serious", "battery_pct": 15, "charging": false, "cpu_usage_pct": 50.0,
        "memory_used_mb": 100, "cache": ["w"], "power_w": 120.5 });
    let mut beat = heartbeat(2);
    for (field, value) in told.as_object().unwrap() {
        beat[field] = value.clone();
    }
    server.beat("n1", beat).await;
    let node = server.seen("n1").await;
    for (field, value) in told.as_object().unwrap().iter().filter(|(field, _)| *field != "memory_used_mb") {
        assert_eq!(&node[field], value, "{field}: {node}");
    }
    server.beat("n1", heartbeat(3)).await;
    let node = server.seen("n1").await;
    for field in ["thermal", "battery_pct", "charging", "cpu_usage_pct", "power_w"] {
        assert_eq!(node.get(field), None, "{field}: {node}");
    }
    assert_eq!(node["cache"], json!(["w"]), "a heartbeat that does not speak of it leaves it");
    server.beat("n1", with(heartbeat(4), &["cache"], json!([]))).await;
    assert_eq!(server.seen("n1").await.get("cache"), None, "one that does replaces it");
}

#[tokio::test]
async fn absurd_figures_count_as_unknown_and_cost_a_node_nothing_else() {
    let server = Server::start().await;
    server.node("n1").await;
    let mut seq = 1;
    for (field, absurd) in [
        ("cpu_usage_pct", json!(-5)),
        ("cpu_usage_pct", json!(1e18)),
        ("cpu_usage_pct", json!("NaN")),
        ("ram_free_mib", json!(-1)),
        ("ram_free_mib", json!(1_000_000_000_000_000_000_u64)),
        ("ram_free_mib", json!(1.5)),
        ("memory_used_mb", json!(-7)),
        ("disk_mb_s", json!(-0.1)),
        ("network_mbit_s", json!(1e18)),
        ("battery_pct", json!(101)),
        ("battery_pct", json!(-1)),
        ("thermal", json!("volcanic")),
        ("power_w", json!(1e18)),
        ("active_jobs", json!(-3)),
        ("cpu_milli", json!(-1000)),
        ("ram_mib", json!(1_000_000_000_000_000_000_u64)),
    ] {
        seq += 1;
        let beat = with(with(heartbeat(seq), &["network_mbit_s"], json!(10.0)), &[field], absurd.clone());
        server.beat("n1", beat).await;
        let node = server.seen("n1").await;
        assert_eq!(node["doubted"], json!([field]), "{absurd}: {node}");
        assert_eq!((&node["cpu_milli"], &node["ram_mib"]), (&json!(8000), &json!(16384)), "{field} {absurd}");
        if field != "network_mbit_s" {
            assert_eq!(node["network_mbit_s"], json!(10.0), "the others count: {field}");
        }
        if !matches!(field, "cpu_milli" | "ram_mib") {
            assert_eq!(node.get(field), None, "{field} {absurd}");
        }
    }
    let mut gpus = heartbeat(seq + 1);
    gpus["gpus"] = json!([{ "index": 0, "model": "RTX 3090", "vram_mib": -1, "bandwidth_gb_s": 1e18 }]);
    server.beat("n1", gpus).await;
    let node = server.seen("n1").await;
    assert_eq!(node["doubted"], json!(["gpus[0].bandwidth_gb_s", "gpus[0].vram_mib"]), "{node}");
    assert_eq!(
        (node["gpus"][0]["model"].as_str(), node["gpus"][0].get("vram_mib")),
        (Some("RTX 3090"), None)
    );
    server.beat("n1", heartbeat(seq + 2)).await;
    assert_eq!(server.seen("n1").await.get("doubted"), None, "it is sane again");
    let none = with(registration(), &["heartbeat", "cpu_milli"], json!(-1));
    let (status, said) = server.put("/nodes/n2/registration", none).await;
    assert_eq!((status.as_u16(), said["field"].as_str()), (400, Some("heartbeat.cpu_milli")), "{said}");
}

#[tokio::test]
async fn a_drift_stays_until_it_is_undone_or_acknowledged() {
    let server = Server::start().await;
    let printed = |seq, print: &str| with(heartbeat(seq), &["fingerprint"], json!(print));
    server.register("n1", with(registration(), &["heartbeat"], printed(1, "as-built"))).await;
    assert_eq!(server.seen("n1").await.get("drifted"), None);
    for seq in 2..5 {
        server.beat("n1", printed(seq, "other")).await;
        assert_eq!(server.seen("n1").await["drifted"], json!(true), "heartbeat {seq}");
    }
    // Neither a heartbeat that does not speak of it nor an agent that begins anew makes it right.
    server.beat("n1", heartbeat(5)).await;
    assert_eq!(server.seen("n1").await["drifted"], json!(true));
    server.register("n1", with(registration(), &["heartbeat"], printed(6, "other"))).await;
    assert_eq!(server.seen("n1").await["drifted"], json!(true));
    server.beat("n1", printed(7, "as-built")).await;
    assert_eq!(server.seen("n1").await.get("drifted"), None, "it is what it was");
    server.beat("n1", printed(8, "newer")).await;
    let (status, said) = server.post("/nodes/n1/return", json!({})).await;
    assert_eq!(status, 200, "{said}");
    server.beat("n1", printed(9, "newer")).await;
    let node = server.seen("n1").await;
    assert_eq!((node.get("drifted"), node["fingerprint"].as_str()), (None, Some("newer")));
}

#[tokio::test]
async fn a_drift_is_due_sooner_under_sensitive_work_and_a_cap_without_figures_is_an_alarm() {
    let server = Server::start_with(|config| config.pools[0].pool = pool(Dispatch::Batch)).await;
    let printed = |seq, print: &str| with(heartbeat(seq), &["fingerprint"], json!(print));
    let alarms = async || server.get("/alarms").await.1["items"].as_array().unwrap().clone();
    assert_eq!(server.put("/caps", json!({ "power_w": 40000 })).await.0, 200);
    for node in ["n1", "n2"] {
        server.register(node, with(registration(), &["heartbeat"], printed(1, "as-built"))).await;
    }
    let job = server.job(json!({ "sensitive": true, "runtime": "process", "walltime_ms": 60000 })).await;
    let held = loop {
        match server.node_of(&job).await {
            Some(node) => break node,
            None => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    };
    for node in ["n1", "n2"] {
        server.beat(node, printed(2, "other")).await;
        let drift = alarms().await.into_iter().find(|alarm| alarm["subject"] == node).unwrap();
        let lasts = drift["due_ms"].as_u64().unwrap() - drift["since_ms"].as_u64().unwrap();
        let hours = if node == held { 4 } else { 24 };
        assert_eq!(lasts, hours * 3_600_000, "{drift}");
        server.beat(node, printed(3, "other")).await;
    }
    let blind = async || alarms().await.iter().any(|alarm| alarm["kind"] == "power_unknown");
    let mut tries = 0;
    while !blind().await {
        tries += 1;
        assert!(tries < 300, "nobody says that the cap knows nothing");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_hold_becomes_a_placement_and_all_holds_in_the_way_are_named() {
    // In a pull pool jobs wait until somebody asks, or somebody else places them.
    let server = Server::start_with(|config| config.pools[0].pool = pool(Dispatch::Pull)).await;
    let mut machine = registration();
    machine["heartbeat"]["gpus"] =
        json!([0, 1, 2].map(|index| json!({ "index": index, "model": "RTX 3090", "vram_mib": 24_576 })));
    server.register("n1", machine).await;
    let reserve = |job: &str, gpus: Value| {
        let request = json!({ "job_id": job, "node_id": "n1", "gpu_indices": gpus });
        server.post("/reserve", request)
    };
    let mut holds = Vec::new();
    let mut jobs = Vec::new();
    for index in [0, 1] {
        let job = server.job(json!({ "gpu_count": 1 })).await;
        let (status, hold) = reserve(&job, json!([index])).await;
        assert_eq!(status, 200, "{hold}");
        holds.push(hold["id"].as_str().unwrap().to_owned());
        jobs.push(job);
    }
    let both = server.job(json!({ "gpu_count": 2 })).await;
    let (status, refused) = reserve(&both, json!([0, 1])).await;
    assert!(status.is_client_error(), "{refused}");
    let message = refused["message"].as_str().unwrap();
    for (hold, job) in holds.iter().zip(&jobs) {
        assert!(message.contains(&format!("hold {hold} ")) && message.contains(job.as_str()), "{message}");
    }
    let place = |hold: &str| server.post("!/place", json!({ "reservation_id": hold }));
    let (status, fence) = place(&holds[0]).await;
    assert_eq!((status.as_u16(), fence["job"].as_str()), (200, Some(jobs[0].as_str())), "{fence}");
    assert_eq!(server.node_of(&jobs[0]).await.as_deref(), Some("n1"));
    assert_eq!(place(&holds[0]).await.0, 404, "it is used up");
    assert_eq!(place("nonsense").await.0, 404);
}

#[tokio::test]
async fn energy_has_a_price_for_as_long_as_somebody_says_so() {
    let server = Server::start_with(|config| config.pools[0].pool = pool(Dispatch::Batch)).await;
    assert_eq!(server.get("/energy-price").await.1, json!({}));
    let (status, said) = server.put("/energy-price", json!({ "price": 0.8 })).await;
    assert_eq!((status.as_u16(), &said), (200, &json!({ "price": 0.8 })));
    assert_eq!(server.get("/energy-price").await.1, json!({ "price": 0.8 }));
    for (bad, code) in [(json!({ "price": -1 }), 422), (json!({ "prize": 1 }), 400)] {
        assert_eq!(server.put("/energy-price", bad).await.0.as_u16(), code);
    }
    assert_eq!(server.put("/energy-price", json!({})).await.0, 200);
    assert_eq!(server.get("/energy-price").await.1, json!({}));
}

#[tokio::test]
async fn the_cluster_has_caps_that_are_set_one_by_one() {
    let server = Server::start().await;
    let now = json!({ "drawn_w": 0, "moved_bytes_s": 0 });
    assert_eq!(server.get("/caps").await.1, now);
    let both = json!({ "power_w": 40000, "io_bytes_s": 5000, "drawn_w": 0, "moved_bytes_s": 0 });
    assert_eq!(server.put("/caps", json!({ "power_w": 40000 })).await.0, 200);
    assert_eq!(server.put("/caps", json!({ "io_bytes_s": 5000 })).await.1, both, "what is left out stays");
    for bad in [json!({ "power_w": -1 }), json!({ "power_w": 0.5 }), json!({ "watts": 5 })] {
        let (status, said) = server.put("/caps", bad).await;
        assert_eq!(status.as_u16(), 422, "{said}");
        assert!(said["field"].as_str().unwrap().starts_with("caps"), "{said}");
    }
    assert_eq!(server.get("/caps").await.1, both, "nothing half done");
    assert_eq!(server.put("/caps", json!({ "power_w": null, "io_bytes_s": null })).await.1, now);
}

#[tokio::test]
async fn a_file_or_an_address_tells_the_price_of_energy() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("price");
    std::fs::write(&file, "0.25\n").unwrap();
    let web = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/now", web.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut asker, _) = web.accept().await.unwrap();
        let mut asked = vec![0; 4096];
        let read = asker.read(&mut asked).await.unwrap();
        assert!(asked[..read].starts_with(b"GET /now HTTP/1.1"));
        asker.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n0.75\n").await.unwrap();
    });
    for (from, price) in [(file, 0.25), (address.into(), 0.75)] {
        let server = Server::start_with(|config| config.energy_price_file = Some(from)).await;
        let mut tries = 0;
        while server.get("/energy-price").await.1 != json!({ "price": price }) {
            tries += 1;
            assert!(tries < 200, "the price {price} never came");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn in_a_pull_pool_architecture_and_dependents_come_from_the_pool_and_the_dag() {
    let server = Server::start_with(|config| config.pools[0].pool = pool(Dispatch::Pull)).await;
    let mut worker = registration();
    (worker["architectures"], worker["max_concurrent"]) = (json!(["riscv64"]), json!(1));
    server.register("w1", worker).await;
    let plain = server.job(json!({})).await;
    let builtin = server.job(json!({ "architecture": "builtin" })).await;
    let (_, shown) = server.get(&format!("/jobs/{plain}")).await;
    assert_eq!(shown["needs"]["architecture"], "riscv64", "{shown}");
    let (_, shown) = server.get(&format!("/jobs/{builtin}")).await;
    assert_eq!(shown["needs"]["architecture"].as_str().unwrap_or("builtin"), "builtin", "{shown}");
    // Of two equal jobs the worker gets the one that others wait for.
    let after = |on: &str| json!({ "depends_on": [{ "on": on }], "run": { "command": ["true"] } });
    let waited_for = server.job(json!({})).await;
    for _ in 0..3 {
        assert_eq!(server.post("/jobs", after(&waited_for)).await.0, 201);
    }
    let (status, got) = server.post("/nodes/w1/ask", json!({ "kind": "build", "slots": 1 })).await;
    assert_eq!(
        (status.as_u16(), got["granted"][0]["job"].as_str()),
        (200, Some(waited_for.as_str())),
        "{got}"
    );
    // Who was passed over is kept with the decision, with points of its own.
    let message = async |path: String| server.get(&format!("!/board/jobs/{path}")).await.1["message"].clone();
    let made = message("decisions".into()).await[0].clone();
    assert_eq!((&made["winner"], &made["node_id"]), (&json!(waited_for), &json!("w1")), "{made}");
    let candidates = made["candidates"].as_array().unwrap();
    assert_eq!((candidates.len(), &candidates[0]["won"]), (3, &json!(true)), "{made}");
    let lost = candidates.iter().find(|candidate| candidate["job_id"] == plain.as_str()).unwrap();
    let one = message(lost["id"].as_str().unwrap().to_owned()).await;
    assert_eq!((&one["won"], one["passed_over"].as_array().unwrap().len()), (&json!(false), 2), "{one}");
    assert!(one["score_breakdown"]["rules"]["BuiltinDeprioritizeRule"].is_number(), "{one}");
    assert!(
        one["instance_context"].is_object() && one["node_context"]["architectures"][0] == "riscv64",
        "{one}"
    );
    let (_, kept) = server.get(&format!("/decisions?job={waited_for}")).await;
    let kept = &kept["items"][0];
    assert_eq!((&kept["looked_at"], kept["runners_up"].as_array().unwrap().len()), (&json!(3), 2), "{kept}");
}

#[tokio::test]
async fn where_a_worker_gets_nothing_the_reasons_are_kept_and_rings_are_as_long_as_the_pool_says() {
    let server = Server::start_with(|config| {
        let pool = &mut config.pools[0].pool;
        *pool = self::pool(Dispatch::Pull);
        pool.pull.ring_decisions = 2;
    })
    .await;
    let mut worker = registration();
    (worker["architectures"], worker["max_concurrent"]) = (json!(["riscv64"]), json!(9));
    server.register("w1", worker).await;
    let ask = async || server.post("/nodes/w1/ask", json!({ "kind": "build", "slots": 1 })).await.1;
    server.job(json!({ "architecture": "sparc" })).await;
    for _ in 0..3 {
        let got = ask().await;
        assert_eq!(got["granted"], json!([]), "{got}");
    }
    let (_, kept) = server.get("/decisions?node=w1&chose=nobody").await;
    assert_eq!(kept["items"].as_array().unwrap().len(), 1, "the same is not said three times: {kept}");
    let kept = &kept["items"][0];
    assert_eq!((&kept["asked"], &kept["looked_at"]), (&json!("w1"), &json!(1)), "{kept}");
    assert_eq!(kept["against"], json!([{ "reason": "architecture", "candidates": 1 }]), "{kept}");
    for _ in 0..3 {
        server.job(json!({})).await;
        let got = ask().await;
        assert_eq!(got["granted"].as_array().unwrap().len(), 1, "{got}");
    }
    let ring = server.get("!/board/jobs/decisions").await.1["message"].clone();
    assert_eq!(ring.as_array().unwrap().len(), 2, "{ring}");
}

#[tokio::test]
async fn presets_and_regions_are_settings_of_a_pool() {
    let server = Server::start().await;
    let put = |id: &'static str, pool: Value| server.put(id, json!({ "pool": pool }));
    let (status, said) = put("/pools/farm", json!({ "dispatch": "pull", "preset": "upstream" })).await;
    assert_eq!((status.as_u16(), said["pool"]["preset"].as_str()), (200, Some("upstream")), "{said}");
    assert_eq!(put("/pools/farm", json!({ "dispatch": "pull", "preset": "downstream" })).await.0, 422);
    let (status, said) = put("/pools/push", json!({ "dispatch": "push", "preset": "upstream" })).await;
    assert!(status.is_client_error() && said["message"].as_str().unwrap().contains("pull pools"), "{said}");
    // Upstream vetoes what has not been measured, whatever its total; documented only holds it back.
    let regions = json!({ "dispatch": "push", "push": { "regions": { "eu": { "adjacent": ["uk"] } } } });
    assert_eq!(put("/pools/default", regions).await.0, 200);
    for (node, region) in [("a", "us"), ("b", "uk")] {
        server.register(node, with(registration(), &["region"], json!(region))).await;
    }
    let job = server.job(json!({ "region": "eu", "pool": "default", "runtime": "process" })).await;
    assert_eq!(server.node_of(&job).await.as_deref(), Some("b"), "the adjacent region comes first");
}

#[tokio::test]
async fn what_nodes_could_run_is_told_though_they_take_no_work_now() {
    let server = Server::start().await;
    let needs = json!({ "cpu_milli": 2000, "region": "eu", "runtime": "process" });
    let template = json!({ "needs": needs, "run": { "command": ["true"] } });
    assert_eq!(server.put("/workloads/w", template).await.0, 200);
    for (node, region, cores) in [("near", "eu", 2000), ("far", "us", 8000), ("gone", "eu", 8000)] {
        let registration = with(registration(), &["region"], json!(region));
        server.register(node, with(registration, &["heartbeat", "cpu_milli"], json!(cores))).await;
    }
    let left = server.post("/nodes/gone/leave", json!({})).await;
    assert_eq!(left.0, 200, "{}", left.1);
    assert_eq!(server.get("/nodes/gone/workloads").await.0, 404);
    let could_run = async |node: &str| server.get(&format!("/nodes/{node}/workloads")).await.1;
    let before = could_run("far").await;
    assert_eq!((&before["dispatchable"], before.get("reasons")), (&json!(true), None), "{before}");
    // Regions say where a job would rather run, not how well a node would do; who left for good does not count.
    let (_, now) = server.get("/workloads/w/availability").await;
    assert_eq!((&now["ready"], &now["filtered"]), (&json!(2), &json!({})), "{now}");
    assert_eq!(now["best_score"], before["workloads"][0]["composite"], "{now} {before}");
    assert_ne!(now["best_score"], could_run("near").await["workloads"][0]["composite"], "{now}");
    assert_eq!(server.post("/nodes/far/drain", json!({})).await.0, 200);
    let drained = could_run("far").await;
    assert_eq!((&drained["dispatchable"], &drained["reasons"]), (&json!(false), &json!(["node_state"])));
    assert_eq!(drained["workloads"], before["workloads"]);
    let (_, now) = server.get("/workloads/w/availability").await;
    assert_eq!((&now["ready"], &now["filtered"]), (&json!(1), &json!({ "node_state": 1 })), "{now}");
}

#[tokio::test]
async fn what_is_usual_in_a_pull_pool_is_that_of_its_rules_and_of_builds() {
    let server = Server::start_with(|config| {
        let pool = &mut config.pools[0].pool;
        *pool = self::pool(Dispatch::Pull);
        pool.preset = Some(landfall_model::PullPreset::Upstream);
        pool.pull.instance_metrics_interval_ms = landfall_model::Millis::secs(1);
    })
    .await;
    let mut worker = registration();
    (worker["architectures"], worker["max_concurrent"]) = (json!(["riscv64"]), json!(1000));
    worker["eval"] = json!(true);
    server.register("w1", worker).await;
    let ask = async |kind: &str| {
        let got = server.post("/nodes/w1/ask", json!({ "kind": kind, "slots": 1 })).await.1;
        assert_eq!(got["granted"].as_array().unwrap().len(), 1, "{got}");
    };
    let eval = json!({ "kind": "eval", "evaluate_task": true, "direct_inputs": 7 });
    for _ in 0..3 {
        server.job(eval.clone()).await;
        ask("eval").await;
    }
    server.job(eval).await;
    let mut builds = 0;
    loop {
        let job = server.job(json!({ "architecture": "riscv64", "direct_inputs": 7, "dependents": 2 })).await;
        ask("build").await;
        builds += 1;
        let decision = server.get(&format!("!/board/jobs/{job}")).await.1["message"].clone();
        let context = &decision["job_context"];
        assert_eq!(
            (&context["missing_inputs"], &context["missing_bytes"]),
            (&json!(0), &json!(0)),
            "{decision}"
        );
        assert!(context.as_object().unwrap().contains_key("tenant_work_share"), "{context}");
        let usual = &decision["instance_context"];
        if usual["dependency_count"]["h1"].is_null() {
            assert!(builds < 900, "{usual}");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        }
        assert_eq!((&usual["dependency_count"]["h1"], &usual["pending_builds"]), (&json!(7.0), &json!(0)));
        assert!(
            usual["active_builds"].as_u64().is_some_and(|active| active > 0 && active < builds),
            "{usual}"
        );
        let page = server.get("!/metrics").await.1.to_string();
        assert!(page.contains("landfall_cycle_duration_seconds_count{pool="), "{page}");
        return;
    }
}
