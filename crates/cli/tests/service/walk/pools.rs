//! What is known of pools and jobs. All machines are played.

use serde_json::{Value, json};

use super::{Case, World, over, walk};
use crate::stand::Stand;

fn world() -> World {
    let stand = Stand::unstarted("");
    let policy = include_str!("../../../../policy/policies/resource-aware.toml")
        .replace("name = \"resource-aware\"", "name = \"fair\"")
        .replace("name = \"FairShareRule\"\nenabled = false", "name = \"FairShareRule\"");
    std::fs::write(stand.path("fair.toml"), policy).unwrap();
    let packs = include_str!("../../../../policy/policies/bin-pack.toml");
    let lent = packs.replace("predict_durations = false", "predict_durations = true");
    std::fs::write(stand.path("lent.toml"), lent).unwrap();
    let steps = format!("{packs}\n[[when]]\nutilisation_min = 0.5\nfactors = {{ gpu-utilisation = 0.25 }}\n");
    std::fs::write(stand.path("steps.toml"), steps).unwrap();
    let seldom = "silence = { node_unknown_after_ms = 3600000, node_down_after_ms = 7200000, requeue_after_ms = 7200000 }";
    let pull = "pull = { liveness_timeout_ms = 0, instance_metrics_interval_ms = 1000 }";
    let scale = "scale_interval_ms = 1000, scale_up_after_ms = 1000, scale_cooldown_ms = 1000";
    let pool = |id: &str, dispatch: &str, more: &str| {
        format!("[[pools]]\nid = '{id}'\ndispatch = '{dispatch}'\n{seldom}\n{more}\n")
    };
    let config = [
        "[[tenants]]\nid = 'red'\n".to_owned(),
        pool("builds", "pull", &format!("policy_file = 'fair.toml'\n{pull}")),
        pool("waits", "pull", pull),
        pool("wires", "pull", pull),
        pool("natives", "pull", ""),
        pool("hpc", "batch", &format!("batch = {{ {scale} }}")),
        pool("caps", "batch", "batch = { power_cap_w = 100, io_cap = 1000000 }"),
        pool("keen", "batch", "batch = { learn = 'times' }"),
        pool("regions", "push", ""),
        pool("lent", "push", "policy_file = 'lent.toml'"),
        pool("steps", "push", "policy_file = 'steps.toml'"),
        pool("mixed", "push", "policy = 'landfall-pack'"),
        pool("priced", "push", "price = { base = 10 }"),
    ];
    std::fs::write(stand.path("config.toml"), config.concat()).unwrap();
    let mut stand = stand;
    stand.start_server();
    World::new(stand)
}

impl World {
    /// A job of a workload that is only asked about.
    fn held_of(&self, workload: &str, pool: &str) -> String {
        let run = json!({ "command": ["true"] });
        self.asks(
            "PUT",
            &format!("/workloads/{workload}"),
            &json!({ "needs": { "pool": pool }, "run": run }),
        );
        let needs = json!({ "pool": pool, "runtime": "process" });
        let request = json!({ "workload": workload, "needs": needs, "run": run, "hold": true });
        self.asks("POST", "/jobs", &request)["id"].as_str().unwrap().to_owned()
    }

    /// A worker asks for a build and gets that one.
    #[track_caller]
    fn takes(&self, worker: &str, job: &str) {
        let got = self.asks("POST", &format!("/nodes/{worker}/ask"), &json!({ "kind": "build", "slots": 1 }));
        assert_eq!(got["granted"][0]["job"], job, "{got}");
    }

    fn placed(&self, job: &str) -> Value {
        self.get(&format!("/jobs/{job}/placement"))["placed"].clone()
    }

    /// A job of a batch pool begins.
    fn begins(&self, needs: &Value, node: &str) -> String {
        let job = self.submits(needs);
        self.until("it is placed", || self.placed(&job).is_object());
        self.reports(node, &job, &json!("started"));
        job
    }

    fn set_pool(&self, id: &str, settings: &Value) {
        let pool = self.get(&format!("/pools/{id}"))["pool"].clone();
        self.asks("PUT", &format!("/pools/{id}"), &json!({ "pool": over(pool, settings) }));
    }
}

const EXITED: fn(Value) -> Value =
    |usage| json!({ "exited": { "code": 0, "failure": null, "usage": usage } });

const CASES: [Case; 20] = [
    ("finished runs from before", |world| {
        world.joins(
            "w",
            "builds",
            &json!({ "max_concurrent": 1, "eval": true, "architectures": ["x86_64"],
            "heartbeat": { "cpu_core_score": 1000 } }),
        );
        let job = world.held_of("kernel", "builds");
        let samples = || world.verdict(&job, "w")["facts"]["history_samples"].clone();
        assert_eq!(samples(), 0);
        let runs = vec![json!({ "workload": "kernel", "cpu_time_ms": 120_000, "build_time_ms": 1000 }); 5];
        world.asks("POST", "/pools/builds/history", &json!(runs));
        assert_eq!(samples(), 5);
    }),
    ("trailing means of pull pools", |world| {
        let heavy = world.held_of("kernel", "builds");
        assert_eq!(world.term(&heavy, "w", "ResourceFitRule"), 50.0, "above the minute that is usual");
        let job = world.submits(&json!({ "pool": "builds", "runtime": "process" }));
        world.takes("w", &job);
        world.runs("w", &job, &json!({ "cpu_time": 10_000_000 }));
        world.until("much is usual here", || world.term(&heavy, "w", "ResourceFitRule") == 0.0);
    }),
    ("network use of a run", |world| {
        world.joins("wire", "wires", &json!({ "heartbeat": { "network_mbit_s": 50.0 } }));
        let fetches = world.held(&json!({ "pool": "wires", "runtime": "process", "network_bound": true }));
        let points = || world.term(&fetches, "wire", "NetworkAffinityRule");
        assert_eq!(points(), 40.0, "100 Mbit/s are usual while nobody knows");
        // What no network carries is left out.
        for (bytes, counts) in [(u64::MAX, 40.0), (6_250_000, 80.0), (18_750_000, 40.0)] {
            let job = world.submits(&json!({ "pool": "wires", "runtime": "process" }));
            world.takes("wire", &job);
            world.reports("wire", &job, &json!("started"));
            let fence = world.placed(&job)["fence"].clone();
            let report = json!({ "exited": { "code": 0, "failure": null, "usage": {} } });
            let item = json!({ "fence": fence, "report": report, "network_bytes_s": bytes });
            world.asks("POST", "/nodes/wire/reports", &json!({ "reports": [item] }));
            world.until("the mean is made anew", || points() == counts);
        }
    }),
    ("mean wait", |world| {
        world.joins("waiter", "waits", &json!({ "eval": true, "architectures": ["x86_64"] }));
        let eval = json!({ "pool": "waits", "runtime": "process", "kind": "eval", "evaluate_task": true });
        let waits = world.submits(&eval);
        let per_second = || {
            let waited = world.verdict(&waits, "waiter")["facts"]["waited_s"].as_f64().unwrap();
            (waited >= 1.0).then(|| world.term(&waits, "waiter", "WaitTimeRule") / waited)
        };
        world.until("a minute is usual", || per_second().is_some_and(|points| points < 5.0));
        let job = world.submits(&json!({ "pool": "waits", "runtime": "process" }));
        world.takes("waiter", &job);
        world.until("a second is usual", || per_second().is_some_and(|points| points > 20.0));
    }),
    ("inputs that a worker lacks", |world| {
        world.joins("bare", "waits", &json!({ "architectures": ["x86_64"] }));
        let inputs = json!([{ "digest": "d", "bytes": 10 }]);
        let job = world.submits(&json!({ "pool": "waits", "runtime": "process", "inputs": inputs }));
        let points = || world.term(&job, "bare", "MissingPathsRule");
        assert_eq!(points(), 0.0);
        let none = json!({ "job": job, "missing_inputs": 0, "missing_bytes": 0 });
        world.asks("POST", "/nodes/bare/fetches", &json!({ "entries": [none] }));
        assert_eq!(points(), 200.0);
        world.asks("POST", &format!("/jobs/{job}/cancel"), &json!({}));
    }),
    ("work shares", |world| {
        let eval = json!({ "pool": "builds", "runtime": "process", "kind": "eval", "evaluate_task": true, "tenant": "red" });
        let next = world.held(&eval);
        assert_eq!(world.term(&next, "w", "FairShareRule"), 0.0);
        let job = world.submits(&json!({ "pool": "builds", "runtime": "process", "tenant": "red" }));
        world.takes("w", &job);
        world.until("red has all of a full farm", || world.term(&next, "w", "FairShareRule") < 0.0);
        world.runs("w", &job, &json!({}));
        world.until("nobody has", || world.term(&next, "w", "FairShareRule") == 0.0);
    }),
    ("dependents", |world| {
        let job = world.held_of("kernel", "builds");
        assert_eq!(world.term(&job, "w", "DependencyCountRule"), 0.0);
        let after = json!({ "needs": { "pool": "builds" }, "depends_on": [{ "on": job }], "run": { "command": ["true"] } });
        world.asks("POST", "/jobs", &after);
        assert!(world.term(&job, "w", "DependencyCountRule") > 0.0);
    }),
    ("architecture of a job", |world| {
        world.joins("native", "natives", &json!({ "architectures": ["riscv64"] }));
        let needs = json!({ "pool": "natives", "runtime": "process" });
        let job = world.held(&needs);
        assert!(world.against(&job, "native").is_empty(), "what most nodes have");
        world.set_pool("natives", &json!({ "pull": { "architecture": "sparc" } }));
        let job = world.held(&needs);
        assert_eq!(world.against(&job, "native"), ["architecture"]);
    }),
    ("metric of a service", |world| {
        for node in ["s-1", "s-2"] {
            world.joins(node, "hpc", &Value::Null);
        }
        let needs = json!({ "pool": "hpc", "runtime": "process", "lifecycle": "reactive", "nodes": { "min": 1, "max": 2 },
            "scale_target_milli": 10_000 });
        let job = world.submits(&needs);
        world.until("it is placed", || world.placed(&job).is_object());
        let node = world.placed(&job)["nodes"][0]["node"].as_str().unwrap().to_owned();
        world.reports(&node, &job, &json!("started"));
        world.until("it has grown", || {
            world.beats(
                &node,
                &json!({ "metrics": [{ "job": job, "value": 50.0, "queue": 3 }],
                "running": [world.placed(&job)["fence"]] }),
            );
            world.placed(&job)["nodes"].as_array().is_some_and(|nodes| nodes.len() == 2)
        });
    }),
    ("price of energy", |world| {
        world.joins("meter", "caps", &Value::Null);
        let job = world.held(&json!({ "pool": "caps", "runtime": "process", "walltime_ms": 60000 }));
        let price = || world.verdict(&job, "meter")["facts"]["energy_price"].clone();
        assert_eq!(price(), "unknown");
        world.asks("PUT", "/energy-price", &json!({ "price": 0.8 }));
        assert_eq!(price(), 0.8);
    }),
    ("power and disk traffic of a pool", |world| {
        let job = |more: Value| {
            let needs =
                json!({ "pool": "caps", "runtime": "process", "exclusive": false, "walltime_ms": 60000 });
            over(needs, &more)
        };
        let (draws, moves) = (job(json!({ "power_w": 50 })), job(json!({ "io_bytes_s": 500_000 })));
        assert!(world.would(&draws).is_ok() && world.would(&moves).is_ok());
        world.beats("meter", &json!({ "power_w": 90.0, "io_bytes_s": 900_000 }));
        world.until("both caps bind", || {
            world.would(&draws) == Err("power".to_owned()) && world.would(&moves) == Err("io".to_owned())
        });
        world.beats("meter", &json!({ "power_w": 10.0, "io_bytes_s": 10_000 }));
        world.until("both fit again", || world.would(&draws).is_ok() && world.would(&moves).is_ok());
        let caps = |power: Value, io: Value| {
            world.asks("PUT", "/caps", &json!({ "power_w": power, "io_bytes_s": io }))
        };
        caps(json!(59), json!(509_999));
        world.until("the caps of the cluster bind", || {
            world.would(&draws) == Err("power".to_owned()) && world.would(&moves) == Err("io".to_owned())
        });
        caps(json!(60), Value::Null);
        world.until("what just fits", || world.would(&draws).is_ok() && world.would(&moves).is_ok());
        caps(Value::Null, Value::Null);
    }),
    ("run times", |world| {
        world.joins("k", "keen", &Value::Null);
        let needs = json!({ "pool": "keen", "runtime": "process", "walltime_ms": 3_600_000, "user": "ann", "series": "step" });
        let behind = || {
            let runs = world.begins(&needs, "k");
            let waits = world.submits(&needs);
            let estimate = world.get(&format!("/jobs/{waits}/estimate"));
            world.reports("k", &runs, &EXITED(json!({})));
            world.until("the next is placed", || world.placed(&waits).is_object());
            world.runs("k", &waits, &json!({}));
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            let likely = estimate["likely_start_ms"].as_u64().unwrap_or_else(|| panic!("{estimate}"));
            likely.saturating_sub(since.as_millis() as u64)
        };
        assert!(behind() > 3_000_000, "an hour was asked");
        assert!(behind() < 1_000_000, "and next to nothing used");
    }),
    ("durations of a workload", |world| {
        world.asks("PUT", "/blocks/lease", &json!({ "ends_in_ms": 900_000 }));
        world.joins("leased", "lent", &json!({ "block": "lease" }));
        world.joins("owned", "lent", &json!({ "heartbeat": { "cpu_milli": 1000 } }));
        let job = world.held_of("quick", "lent");
        assert_eq!(world.against(&job, "leased"), ["expiry"], "nobody says how long: an hour");
        for _ in 0..5 {
            let run = json!({ "workload": "quick", "run": { "command": ["true"] } });
            let run = world.asks("POST", "/jobs", &run)["id"].as_str().unwrap().to_owned();
            world.runs("owned", &run, &json!({}));
        }
        assert!(world.against(&job, "leased").is_empty());
        assert!(
            world.verdict(&job, "leased")["facts"]["predicted_s"].as_f64().is_some_and(|took| took < 300.0)
        );
    }),
    ("how full a tier is", |world| {
        world.joins("full", "steps", &json!({ "heartbeat": { "cpu_milli": 4000 } }));
        let job = world.held(&json!({ "pool": "steps", "runtime": "process" }));
        let weight = || {
            let verdict = world.verdict(&job, "full");
            let terms = verdict["terms"].as_array().unwrap().clone();
            let term = terms.iter().find(|term| term["term"] == "gpu-utilisation").unwrap().clone();
            (term["weight"].as_f64(), verdict["facts"]["weights_row"].as_u64())
        };
        assert_eq!(weight(), (Some(1.0), None));
        let taken = world.submits(&json!({ "pool": "steps", "runtime": "process", "cpu_milli": 3000 }));
        assert_eq!(weight(), (Some(0.25), Some(1)));
        // What is decided then keeps what it was weighed by.
        let next = world.submits(&json!({ "pool": "steps", "runtime": "process", "cpu_milli": 500 }));
        let kept = world.stand.json(&["decisions", "--job", &next]);
        assert_eq!(kept["decisions"][0]["facts"]["weights_row"], 1, "{kept}");
        world.runs("full", &taken, &json!({}));
        world.runs("full", &next, &json!({}));
        assert_eq!(weight(), (Some(1.0), None));
    }),
    ("adjacent regions", |world| {
        world.joins("here", "regions", &json!({ "region": "eu" }));
        world.joins("there", "regions", &json!({ "region": "uk" }));
        let job = world.held(&json!({ "pool": "regions", "runtime": "process", "region": "eu" }));
        let tier = || world.verdict(&job, "there")["region_tier"].as_u64().unwrap();
        let before = tier();
        world.set_pool("regions", &json!({ "push": { "regions": { "eu": { "adjacent": ["uk"] } } } }));
        assert!(tier() < before, "{before}");
    }),
    ("work of a workload", |world| {
        world.joins("mill", "regions", &json!({ "region": "us" }));
        let job = world.held_of("grind", "regions");
        for (wall, correction) in [(100_000, 1.0), (25_000, 1.6)] {
            let needs = json!({ "pool": "regions", "runtime": "process", "region": "us" });
            let request = over(World::request(&needs), &json!({ "workload": "grind" }));
            let run = world.asks("POST", "/jobs", &request)["id"].as_str().unwrap().to_owned();
            world.runs("mill", &run, &json!({ "wall": wall }));
            assert_eq!(world.verdict(&job, "mill")["facts"]["correction"], correction);
        }
    }),
    ("expected mix", |world| {
        let gpus: Vec<Value> =
            (0..4).map(|index| json!({ "index": index, "model": "H100", "vram_mib": 81_920 })).collect();
        world.joins("m", "mixed", &json!({ "heartbeat": { "gpus": gpus, "cpu_milli": 64_000 } }));
        let job =
            world.held(&json!({ "pool": "mixed", "runtime": "process", "gpu_count": 1, "cpu_milli": 8000 }));
        let room = || world.verdict(&job, "m")["facts"]["room_gpus_before"].clone();
        let before = room();
        for _ in 0..30 {
            world
                .held(&json!({ "pool": "mixed", "runtime": "process", "gpu_count": 4, "cpu_milli": 40_000 }));
        }
        world.until("large jobs are expected", || room() != before);
    }),
    ("price of a job", |world| {
        world.joins("shop", "priced", &Value::Null);
        let price = || {
            let job = world.submits(&json!({ "pool": "priced", "runtime": "process" }));
            let shown = world.get(&format!("/jobs/{job}"));
            shown["price"].as_f64().unwrap_or_else(|| panic!("{shown}"))
        };
        let before = price();
        world.set_pool("priced", &json!({ "price": { "base": 20 } }));
        assert_eq!(price(), 2.0 * before);
    }),
    ("whether prices are raised (`price.surge`)", |world| {
        let raises = json!({ "price": { "base": 20, "surge": true, "surge_every_ms": 1000 } });
        world.set_pool("priced", &raises);
        let surging = || world.get("/pools/priced")["surging"] == true;
        assert!(!surging());
        let wide = json!({ "pool": "priced", "runtime": "process", "cpu_milli": 4000 });
        let waiting: Vec<String> = (0..5).map(|_| world.submits(&wide)).collect();
        world.until("prices are raised", surging);
        for job in waiting {
            world.asks("POST", &format!("/jobs/{job}/cancel"), &json!({}));
        }
        world.until("prices are what they were", || !surging());
    }),
    ("what a tenant has spent", |world| {
        world.stand.run(&["tenants", "set", "lab", "--budget", "1000"]).ok();
        let spent = || world.get("/tenants/lab")["usage"]["spent"].as_f64().unwrap_or_default();
        assert_eq!(spent(), 0.0);
        world.submits(&json!({ "pool": "priced", "runtime": "process", "tenant": "lab" }));
        world.until("its job has a price", || spent() > 0.0);
    }),
];

#[test]
fn every_fact_of_pools_and_jobs_moves_an_answer() {
    walk("Pools and jobs", &CASES, world());
}
