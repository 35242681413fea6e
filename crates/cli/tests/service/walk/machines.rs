//! What is known of machines.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{Case, World, walk};
use crate::stand::Stand;

/// Three machines have agents that see a played kernel: `a` is scored, `b` pulls, `c` is planned. The test plays the others.
fn world() -> World {
    let stand = Stand::unstarted("");
    let kernel = stand.path("kernel");
    let policy = include_str!("../../../../policy/policies/fit.toml")
        .replacen("name = \"fit\"", "name = \"walked\"", 1)
        .replace("device_choice = \"best-scored\"", "device_choice = \"link-aware\"")
        .replace("device_memory = \"committed\"", "device_memory = \"in-use\"");
    let policy = policy + "[[terms]]\nname = \"image-local\"\nweight = 1.0\n";
    std::fs::write(stand.path("walked.toml"), policy).unwrap();
    let often =
        "silence = { node_unknown_after_ms = 3000, node_down_after_ms = 60000, requeue_after_ms = 60000 }";
    let seldom = "silence = { node_unknown_after_ms = 3600000, node_down_after_ms = 7200000, requeue_after_ms = 7200000 }";
    let config = format!(
        r#"
[agent]
sysfs = "{kernel}"
procfs = "{kernel}"
memory = "16GiB"
[agent.runtimes.onnx]
command = ["/bin/sh"]
[agent.runtimes.late]
command = ["{late}"]
[[tenants]]
id = "red"
[[tenants]]
id = "blue"
[[blocks]]
id = "lease"
tier = "FLEX"
[[pools]]
id = "own"
dispatch = "push"
policy_file = "walked.toml"
{often}
[[pools]]
id = "farm"
dispatch = "pull"
{often}
[[pools]]
id = "hpc"
dispatch = "batch"
batch = {{ power_cap_w = 100, io_cap = 1000000 }}
{often}
[[pools]]
id = "fit"
dispatch = "push"
policy = "fit"
{seldom}
[[pools]]
id = "pack"
dispatch = "push"
policy = "bin-pack"
{seldom}
[[pools]]
id = "sold"
dispatch = "push"
policy = "bin-pack"
{seldom}
[[pools]]
id = "cuts"
dispatch = "push"
policy = "bin-pack"
{seldom}
[[pools]]
id = "builds"
dispatch = "pull"
pull = {{ liveness_timeout_ms = 0 }}
{seldom}
[[pools]]
id = "twins"
dispatch = "batch"
batch = {{ power_cap_w = 100 }}
{seldom}
"#,
        kernel = kernel.display(),
        late = stand.path("late").display(),
    );
    std::fs::write(stand.path("config.toml"), config).unwrap();
    let mut stand = stand;
    stand.start_server();
    let world = World::new(stand);
    world.puts(&[
        ("meminfo", "MemTotal: 16777216 kB\nMemAvailable: 16000000 kB\n"),
        ("stat", "cpu 0 0 0 1000 0 0 0 0\n"),
        ("sys/kernel/osrelease", "6.8.0\n"),
        ("class/thermal/thermal_zone0/temp", "40000\n"),
    ]);
    let engine = "#!/bin/sh\n[ \"$1\" != images ] || cat $HOME/kernel/images\n";
    world.puts(&[("bin/podman", engine), ("images", "")]);
    executable(&world.stand.path("kernel/bin/podman"));
    let mut world = world;
    for (node, pool) in [("a", "own"), ("b", "farm"), ("c", "hpc")] {
        world.agent(node, pool);
    }
    ["a", "b", "c"].iter().for_each(|node| world.stand.until_ready(node));
    world
}

impl World {
    fn agent(&mut self, node: &str, pool: &str) {
        let programs = self.stand.path("kernel/bin");
        self.stand.agent_with_programs(node, &programs, &["--pool", pool, "--cpus", "4"]);
    }
}

fn executable(program: &std::path::Path) {
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

const CASES: [Case; 30] = [
    ("cores, memory", |world| {
        world.joins("size", "fit", &Value::Null);
        let job =
            world.held(&json!({ "pool": "fit", "runtime": "process", "cpu_milli": 6000, "ram_mib": 20000 }));
        assert_eq!(world.against(&job, "size"), ["cpu_short", "ram_short"]);
        world.beats("size", &json!({ "cpu_milli": 8000, "ram_mib": 32768 }));
        assert!(world.against(&job, "size").is_empty());
    }),
    // Before there are GPUs, which an ONNX job takes as well.
    ("NPU, Neural Engine, Metal", |world| {
        let job =
            world.held(&json!({ "pool": "own", "runtime": "onnx", "model_mib": 1000, "ram_mib": 1000 }));
        let slow = world.term(&job, "a", "speed");
        world.puts(&[("class/accel/accel0/dev", "261:0\n")]);
        world.until("the NPU counts", || world.term(&job, "a", "speed") > slow);
    }),
    ("memory in use", |world| {
        let job =
            world.held(&json!({ "pool": "own", "runtime": "onnx", "model_mib": 1000, "ram_mib": 1000 }));
        let used = || world.verdict(&job, "a")["facts"]["utilisation"].as_f64().unwrap();
        let before = used();
        world.puts(&[("meminfo", "MemTotal: 16777216 kB\nMemAvailable: 2000000 kB\n")]);
        world.until("what others use counts", || used() > 2.0 * before);
    }),
    ("GPUs: model, memory, memory in use", |world| {
        let job =
            world.held(&json!({ "pool": "own", "runtime": "process", "gpu_count": 1, "vram_mib": 20000 }));
        assert_eq!(world.against(&job, "a"), ["gpu_missing"]);
        for card in 0..4 {
            let at = |file: &str| format!("class/drm/card{card}/device/{file}");
            world.puts(&[
                (&at("vendor"), "0x1002\n"),
                (&at("device"), "0x740c\n"),
                (&at("mem_info_vram_used"), "0\n"),
                (&at("mem_info_vram_total"), "8589934592\n"),
            ]);
        }
        world.until("the GPUs are too small", || world.against(&job, "a") == ["vram_short"]);
        for card in 0..4 {
            world.puts(&[(&format!("class/drm/card{card}/device/mem_info_vram_total"), "25753026560\n")]);
        }
        world.until("the GPUs are large enough", || world.against(&job, "a").is_empty());
        for card in 0..4 {
            world.puts(&[(&format!("class/drm/card{card}/device/mem_info_vram_used"), "20000000000\n")]);
        }
        world.until("the GPUs are in use", || world.against(&job, "a") == ["vram_short"]);
    }),
    ("GPUs with fast links", |world| {
        let job =
            world.held(&json!({ "pool": "own", "runtime": "process", "gpu_count": 2, "vram_mib": 1000 }));
        assert_eq!(world.verdict(&job, "a")["gpus"], json!([0, 1]));
        for (card, hive) in [(0, "7"), (1, "8"), (2, "8"), (3, "7")] {
            world.puts(&[(&format!("class/drm/card{card}/device/xgmi_hive_info/xgmi_hive_id"), hive)]);
        }
        world.until("linked GPUs are taken", || world.verdict(&job, "a")["gpus"] == json!([1, 2]));
    }),
    ("slices of GPUs (MIG)", |world| {
        let gpu = |more: Value| {
            super::over(json!({ "index": 0, "model": "NVIDIA A100-SXM4-80GB", "vram_mib": 81920 }), &more)
        };
        let machine = |gpu: &Value| json!({ "heartbeat": { "gpus": [gpu], "cpu_milli": 8000 } });
        let (whole, sliced) = (gpu(json!({})), gpu(json!({ "sliced": true })));
        world.joins("cut", "cuts", &machine(&whole));
        let needs = |slice: &str| json!({ "pool": "cuts", "runtime": "process", "gpu_slice": slice });
        let job = world.held(&needs("2g.20gb"));
        assert_eq!(world.against(&job, "cut"), ["gpu"]);
        world.beats("cut", &machine(&sliced)["heartbeat"]);
        assert_eq!(world.verdict(&job, "cut")["facts"]["slice_start"], 4);
        for slice in ["3g.40gb", "3g.40gb"] {
            let began = world.submits(&needs(slice));
            assert_eq!(world.get(&format!("/jobs/{began}/placement"))["placed"]["nodes"][0]["node"], "cut");
        }
        assert_eq!(world.against(&job, "cut"), ["gpu"], "no two are left side by side");
        assert_eq!(world.get("/nodes/cut")["gpus"][0]["slices"], json!(["3g@4", "3g@0"]));
        // What a driver shows as a slice is one.
        let slice = gpu(json!({ "model": "NVIDIA A100-SXM4-80GB MIG 2g.20gb", "vram_mib": 19968 }));
        world.joins("driver", "cuts", &machine(&slice));
        assert!(world.against(&job, "driver").is_empty());
        let said = world.stand.run(&["submit", "--pool", "cuts", "--gpu", "mig:5g", "--", "true"]);
        crate::stand::refused(&said, &["no slice of a GPU", "1g"]);
        let told = world.stand.json(&[
            "submit",
            "--pool",
            "cuts",
            "--gpu",
            "mig:2g.20gb",
            "--dry-run",
            "--",
            "true",
        ]);
        assert_eq!(told["starts"][0]["nodes"][0]["node"], "driver", "{told}");
    }),
    ("GPU bandwidth", |world| {
        let gpu =
            |more: Value| json!({ "gpus": [super::over(json!({ "index": 0, "vram_mib": 24576 }), &more)] });
        world.joins("speed", "fit", &json!({ "heartbeat": gpu(json!({ "model": "RTX 3090" })) }));
        let job = world.held(&json!({ "pool": "fit", "runtime": "llmcpp", "vram_mib": 20000 }));
        let seen = || {
            let facts = world.verdict(&job, "speed")["facts"].clone();
            facts["bandwidth_gb_s"].as_f64().unwrap_or_else(|| panic!("{facts}"))
        };
        assert!((900.0..1000.0).contains(&seen()), "{}", seen());
        world.beats("speed", &gpu(json!({ "model": "Mystery 1" })));
        assert_eq!(seen(), 960.0, "40 GB/s for each GiB");
        world.beats("speed", &gpu(json!({ "model": "RTX 3090", "bandwidth_gb_s": 77.0 })));
        assert_eq!(seen(), 77.0);
    }),
    ("NUMA domains", |world| {
        let job = world
            .held(&json!({ "pool": "hpc", "runtime": "process", "same_numa": true, "walltime_ms": 60000 }));
        let inside = || world.verdict(&job, "c")["facts"]["locality"].clone();
        assert_eq!(inside(), "unknown");
        world.puts(&[
            ("devices/system/node/node0/cpulist", "0-2\n"),
            ("devices/system/node/node1/cpulist", "3\n"),
        ]);
        world.until("the domains count", || inside().is_number());
        let apart = inside().as_f64();
        std::fs::remove_dir_all(world.stand.path("kernel/devices/system/node/node1")).unwrap();
        world.until("one domain is better than two", || inside().as_f64() > apart);
    }),
    ("runtimes", |world| {
        let job = world.held(&json!({ "pool": "own", "runtime": "late" }));
        assert_eq!(world.against(&job, "a"), ["runtime_missing"]);
        let program = world.stand.path("late");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        executable(&program);
        let images = world.held(&json!({ "pool": "own", "runtime": "process", "image": "alpine" }));
        assert_eq!(world.term(&images, "a", "image-local"), 0.0);
        world.puts(&[("images", "localhost/alpine:latest\n")]);
        drop(world.stand.agent_process("a"));
        world.agent("a", "own");
        world.until("the program is found", || world.against(&job, "a").is_empty());
        // An agent lists them when it starts, and every minute.
        assert_eq!(world.term(&images, "a", "image-local"), 1.0);
    }),
    ("images of containers", |world| {
        let [first, second] = ["boat-1", "boat-2"].map(|node| {
            world.joins(node, "pack", &json!({ "heartbeat": { "images": ["quay.io/team/tool:1"] } }));
            node
        });
        let run = |hold: bool| {
            let request = json!({ "needs": { "pool": "pack", "runtime": "container", "cpu_milli": 1000 }, "hold": hold,
                "run": { "image": "alpine", "command": ["true"] } });
            world.asks("POST", "/jobs", &request)["id"].as_str().unwrap().to_owned()
        };
        let job = run(true);
        assert_eq!([first, second].map(|node| world.term(&job, node, "image-local")), [0.0, 0.0]);
        world.beats(second, &json!({ "images": ["docker.io/library/alpine:latest"] }));
        assert_eq!([first, second].map(|node| world.term(&job, node, "image-local")), [0.0, 1.0]);
        // Where a job of the image has begun, it is there.
        let begun = run(false);
        assert_eq!(world.get(&format!("/jobs/{begun}/placement"))["placed"]["nodes"][0]["node"], first);
        world.reports(first, &begun, &json!("started"));
        assert_eq!(world.term(&job, first, "image-local"), 1.0);
        assert_eq!(world.stand.node(first)["images"].as_array().unwrap().len(), 2);
    }),
    ("CPU use, available memory", |world| {
        let busy = || world.stand.node("b")["cpu_usage_pct"].as_f64();
        let mut ticks = (0, 1000);
        let mut works = |more: u64, rests: u64| {
            ticks = (ticks.0 + more, ticks.1 + rests);
            world.puts(&[("stat", &format!("cpu {} 0 0 {} 0 0 0 0\n", ticks.0, ticks.1))]);
        };
        world.until("it is busy", || {
            works(100, 0);
            busy().is_some_and(|busy| busy > 90.0)
        });
        let job = world.held(&json!({ "pool": "farm", "runtime": "process" }));
        let saturated = |node: &str, job: &str| world.term(job, node, "ResourceSaturationRule");
        world.puts(&[("meminfo", "MemTotal: 16777216 kB\nMemAvailable: 16000000 kB\n")]);
        let memory = || world.verdict(&job, "b")["facts"]["ram_free_mib"].as_u64();
        world.until("memory is free", || memory() == Some(15625));
        world.puts(&[("meminfo", "MemTotal: 16777216 kB\nMemAvailable: 1000000 kB\n")]);
        world.until("memory is short", || memory() == Some(976) && saturated("b", &job) == -1000.0);
        // A little more or less use of the CPU is remembered once a minute; a registration tells all.
        let job = world.held(&json!({ "pool": "builds", "runtime": "process" }));
        for (percent, points) in [(10.0, 0.0), (95.0, -1000.0)] {
            world.joins("busy", "builds", &json!({ "heartbeat": { "cpu_usage_pct": percent } }));
            assert_eq!(saturated("busy", &job), points);
        }
    }),
    ("disk and network speed", |world| {
        world.joins("io", "builds", &Value::Null);
        let runs = vec![json!({ "workload": "disky", "disk_bytes": 1 << 30, "build_time_ms": 1000 }); 5];
        world.asks(
            "PUT",
            "/workloads/disky",
            &json!({ "needs": { "pool": "builds" }, "run": { "command": ["true"] } }),
        );
        world.asks("POST", "/pools/builds/history", &json!(runs));
        let needs = json!({ "needs": { "pool": "builds", "runtime": "process", "network_bound": true }, "workload": "disky",
            "run": { "command": ["true"] }, "hold": true });
        let job = world.asks("POST", "/jobs", &needs)["id"].as_str().unwrap().to_owned();
        let points =
            || (world.term(&job, "io", "DiskAffinityRule"), world.term(&job, "io", "NetworkAffinityRule"));
        assert_eq!(points(), (0.0, 0.0));
        world.beats("io", &json!({ "disk_mb_s": 250.0, "network_mbit_s": 50.0 }));
        assert_eq!(points(), (30.0, 40.0));
    }),
    ("core score", |world| {
        world.joins("core", "builds", &Value::Null);
        let runs = vec![json!({ "workload": "heavy", "cpu_time_ms": 600_000, "build_time_ms": 1000 }); 5];
        world.asks(
            "PUT",
            "/workloads/heavy",
            &json!({ "needs": { "pool": "builds" }, "run": { "command": ["true"] } }),
        );
        world.asks("POST", "/pools/builds/history", &json!(runs));
        let needs = json!({ "needs": { "pool": "builds", "runtime": "process" }, "workload": "heavy",
            "run": { "command": ["true"] }, "hold": true });
        let job = world.asks("POST", "/jobs", &needs)["id"].as_str().unwrap().to_owned();
        assert_eq!(world.term(&job, "core", "ResourceFitRule"), 0.0);
        world.beats("core", &json!({ "cpu_core_score": 1500 }));
        assert_eq!(world.term(&job, "core", "ResourceFitRule"), 75.0);
    }),
    ("heat", |world| {
        let job =
            world.held(&json!({ "pool": "own", "runtime": "onnx", "model_mib": 1000, "ram_mib": 1000 }));
        assert_eq!(world.term(&job, "a", "device-health"), 0.0);
        world.puts(&[("class/thermal/thermal_zone0/temp", "97000\n")]);
        world.until("heat takes points", || world.term(&job, "a", "device-health") < 0.0);
        world.puts(&[("class/thermal/thermal_zone0/temp", "40000\n")]);
        world.until("it cools down", || world.term(&job, "a", "device-health") == 0.0);
    }),
    ("battery, charging", |world| {
        let job =
            world.held(&json!({ "pool": "own", "runtime": "onnx", "model_mib": 1000, "ram_mib": 1000 }));
        let battery = |charge: &str, status: &str| {
            world.puts(&[
                ("class/power_supply/BAT0/type", "Battery\n"),
                ("class/power_supply/BAT0/capacity", charge),
                ("class/power_supply/BAT0/status", status),
            ]);
        };
        battery("5", "Discharging");
        world.until("an empty battery takes points", || world.term(&job, "a", "device-health") < 0.0);
        battery("5", "Charging");
        world.until("it is on the mains", || world.term(&job, "a", "device-health") == 0.0);
    }),
    ("platform", |world| {
        world.joins("phone", "fit", &Value::Null);
        let job = world.held(&json!({ "pool": "fit", "runtime": "container" }));
        assert!(world.against(&job, "phone").is_empty());
        world.joins("phone", "fit", &json!({ "heartbeat": { "platform": "ios" } }));
        assert_eq!(world.against(&job, "phone"), ["platform_mismatch"]);
    }),
    ("warm workloads", |world| {
        for node in ["warm-1", "warm-2"] {
            world.joins(node, "fit", &json!({ "heartbeat": { "cpu_milli": 64000, "ram_mib": 262144 } }));
        }
        let run = json!({ "needs": { "pool": "fit", "runtime": "process", "cpu_milli": 40000 }, "run": { "command": ["true"] } });
        world.asks("PUT", "/workloads/model", &run);
        let goes = || {
            let plan = world.asks("POST", "/placement/dry-run", &json!({ "workload": "model" }));
            plan["starts"][0]["nodes"][0]["node"].as_str().unwrap_or_else(|| panic!("{plan}")).to_owned()
        };
        assert_eq!(goes(), "warm-1");
        world.beats("warm-2", &json!({ "cpu_milli": 64000, "ram_mib": 262144, "cache": ["model"] }));
        assert_eq!(goes(), "warm-2");
    }),
    ("karma, faults, cooldown", |world| {
        let needs = json!({ "pool": "fit", "runtime": "process", "cpu_milli": 40000 });
        let job = world.submits(&needs);
        assert_eq!(world.get(&format!("/jobs/{job}/placement"))["placed"]["nodes"][0]["node"], "warm-1");
        world.reports("warm-1", &job, &json!({ "refused": "failed" }));
        assert_eq!(world.get("/nodes/warm-1")["karma"], -1);
        assert!(world.against(&job, "warm-1").contains(&"cooling_down".to_owned()));
    }),
    ("watts", |world| {
        let needs = json!({ "pool": "hpc", "runtime": "process", "power_w": 50, "walltime_ms": 60000, "exclusive": false });
        assert_eq!(world.would(&needs), Ok("c".to_owned()));
        world.puts(&[("class/powercap/intel-rapl:0/name", "package-0\n")]);
        let mut micro_joules = 0u64;
        world.until("what it draws counts", || {
            micro_joules += 1_000_000_000;
            world.puts(&[("class/powercap/intel-rapl:0/energy_uj", &micro_joules.to_string())]);
            world.would(&needs) == Err("power".to_owned())
        });
        world.until("it draws nothing", || world.would(&needs).is_ok());
    }),
    ("disk traffic", |world| {
        let needs = json!({ "pool": "hpc", "runtime": "process", "io_bytes_s": 500_000, "walltime_ms": 60000, "exclusive": false });
        assert_eq!(world.would(&needs), Ok("c".to_owned()));
        world.puts(&[("block/sda/device/model", "disk\n")]);
        let mut sectors = 0u64;
        world.until("what its disks do counts", || {
            sectors += 1_000_000;
            world.puts(&[("diskstats", &format!("8 0 sda 1 0 {sectors} 0 1 0 0 0\n"))]);
            world.would(&needs) == Err("io".to_owned())
        });
        world.until("its disks rest", || world.would(&needs).is_ok());
    }),
    ("idle and busy watts", |world| {
        world.joins("mains", "twins", &Value::Null);
        let needs = json!({ "pool": "twins", "runtime": "process", "walltime_ms": 60000, "exclusive": false,
            "wait_for_capacity": true });
        assert_eq!(world.would(&needs), Ok("mains".to_owned()));
        let job = world.submits(&needs);
        let notes = || world.get(&format!("/jobs/{job}/explain"))["notes"].to_string();
        world.until("it is said that nobody knows", || notes().contains("power_unknown"));
        world.joins("mains", "twins", &json!({ "power_w": [50, 400] }));
        assert!(!notes().contains("power_unknown"), "{}", notes());
        assert_eq!(world.would(&needs), Err("power".to_owned()));
    }),
    ("fingerprint", |world| {
        for node in ["twin-1", "twin-2"] {
            world.joins(node, "twins", &json!({ "heartbeat": { "fingerprint": "as-built" } }));
        }
        let job =
            world.held(&json!({ "pool": "twins", "runtime": "process", "nodes": 2, "walltime_ms": 60000 }));
        let alike = || world.verdict(&job, "twin-1")["facts"]["largest_conformance_group"].as_u64().unwrap();
        assert_eq!(alike(), 2);
        world.beats("twin-2", &json!({ "fingerprint": "other" }));
        assert_eq!(alike(), 1);
    }),
    ("unified memory", |world| {
        let needs = json!({ "pool": "twins", "runtime": "process", "unified_memory": true,
                "wait_for_capacity": true, "walltime_ms": 60000 });
        let job = world.held(&needs);
        let lacks = || world.against(&job, "twin-1").contains(&"unified_memory".to_owned());
        assert!(lacks());
        world.joins("twin-1", "twins", &json!({ "heartbeat": { "unified_memory": true } }));
        assert!(!lacks());
    }),
    ("drift", |world| {
        let job = world
            .held(&json!({ "pool": "hpc", "runtime": "process", "sensitive": true, "walltime_ms": 60000 }));
        assert!(!world.against(&job, "c").contains(&"fingerprint".to_owned()));
        world.puts(&[("class/dmi/id/bios_version", "2.1.0\n")]);
        world.until("another BIOS is a drift", || {
            world.against(&job, "c").contains(&"fingerprint".to_owned())
        });
        world.stand.run(&["return", "c"]).ok();
        world.until("it is taken as right", || !world.against(&job, "c").contains(&"fingerprint".to_owned()));
    }),
    ("block: tier, end, provider", |world| {
        let gpus = json!([{ "index": 0, "vram_mib": 8192 }]);
        world.joins("leased", "pack", &json!({ "block": "lease", "heartbeat": { "gpus": gpus } }));
        let job = world.held(&json!({ "pool": "pack", "runtime": "process", "gpu_count": 1 }));
        let block = |fields: Value| world.asks("PUT", "/blocks/lease", &fields);
        assert_eq!(world.against(&job, "leased"), ["tier"]);
        block(json!({ "tier": "FAST", "ends_in_ms": 600_000 }));
        assert_eq!(world.against(&job, "leased"), ["expiry"]);
        block(json!({ "tier": "FAST" }));
        let pinned = world.held(&json!({ "pool": "pack", "runtime": "process", "provider": "prime" }));
        assert_eq!(world.against(&pinned, "leased"), ["provider"]);
        block(json!({ "tier": "FAST", "provider": "prime" }));
        assert!(world.against(&pinned, "leased").is_empty());
    }),
    ("how a provider sells", |world| {
        let gpus = json!([{ "index": 0, "vram_mib": 8192 }]);
        for (node, provider) in [("stall-1", "hall"), ("stall-2", "shop")] {
            world.asks("PUT", &format!("/blocks/of-{provider}"), &json!({ "provider": provider }));
            let block = format!("of-{provider}");
            world.joins(node, "sold", &json!({ "block": block, "heartbeat": { "gpus": gpus } }));
        }
        let needs = json!({ "pool": "sold", "runtime": "process", "gpu_count": 1 });
        let job = world.held(&needs);
        assert_eq!(world.term(&job, "stall-2", "provider-affinity"), 0.0);
        assert_eq!(world.would(&needs), Ok("stall-1".to_owned()), "the first of two alike");
        let shape = ["--gpus", "8", "--vram", "80GiB", "--cpus", "64", "--memory", "512GiB"];
        for (provider, class) in [("hall", "bulk"), ("shop", "exact")] {
            let said = ["providers", "set", provider, "--class", class];
            world.stand.run(&[&said[..], &shape].concat()).ok();
        }
        assert_eq!(world.term(&job, "stall-2", "provider-affinity"), 0.1);
        assert_eq!(world.would(&needs), Ok("stall-2".to_owned()), "small jobs suit it");
        world.stand.run(&["providers", "delete", "shop"]).ok();
        assert_eq!(world.would(&needs), Ok("stall-1".to_owned()));
    }),
    ("region, group", |world| {
        world.joins("near", "fit", &json!({ "region": "eu" }));
        world.joins("far", "fit", &json!({ "region": "us" }));
        let job = world.held(&json!({ "pool": "fit", "runtime": "process", "region": "eu" }));
        assert_eq!(world.verdict(&job, "near")["region_tier"], 0);
        let before = world.verdict(&job, "far")["region_tier"].as_u64();
        world.joins("far", "fit", &json!({ "region": "eu" }));
        assert!(world.verdict(&job, "far")["region_tier"].as_u64() < before);
        let job =
            world.held(&json!({ "pool": "twins", "runtime": "process", "nodes": 2, "walltime_ms": 60000 }));
        let groups = || world.verdict(&job, "twin-1")["facts"]["groups"].as_u64().unwrap();
        let before = groups();
        world.joins("twin-1", "twins", &json!({ "group": "rack-1" }));
        world.joins("twin-2", "twins", &json!({ "group": "rack-2" }));
        assert!(groups() > before, "{before} {}", groups());
    }),
    ("architectures, features, eval, fetch", |world| {
        world.joins("worker", "builds", &json!({ "architectures": ["riscv64"] }));
        let job = world.held(
            &json!({ "pool": "builds", "runtime": "process", "architecture": "x86_64", "features": ["kvm"] }),
        );
        let eval = world
            .held(&json!({ "pool": "builds", "runtime": "process", "kind": "eval", "evaluate_task": true }));
        assert_eq!(world.against(&job, "worker"), ["architecture", "feature"]);
        assert_eq!(world.against(&eval, "worker"), ["capability"]);
        let able = json!({ "architectures": ["x86_64"], "features": ["kvm"], "eval": true, "fetch": true });
        world.joins("worker", "builds", &able);
        assert!(world.against(&job, "worker").is_empty() && world.against(&eval, "worker").is_empty());
    }),
    ("tenants that a worker serves", |world| {
        world.joins("shared", "builds", &Value::Null);
        let job = world.held(&json!({ "pool": "builds", "runtime": "process", "tenant": "red" }));
        assert!(world.against(&job, "shared").is_empty());
        world.joins("shared", "builds", &json!({ "tenants": ["blue"] }));
        assert_eq!(world.against(&job, "shared"), ["tenant"]);
    }),
    ("correction of speed", |world| {
        let gpus = json!([{ "index": 0, "model": "RTX 3090", "vram_mib": 24576 }]);
        world.joins("fast", "fit", &json!({ "heartbeat": { "gpus": gpus, "cpu_milli": 8000 } }));
        let needs = json!({ "pool": "fit", "runtime": "llmcpp", "vram_mib": 16000, "cpu_milli": 5000 });
        let job = world.held(&needs);
        assert_eq!(world.verdict(&job, "fast")["facts"]["correction"], 1.0);
        let first = world.submits(&needs);
        world.runs("fast", &first, &json!({ "speed_ratio": 0.5 }));
        assert!(world.verdict(&job, "fast")["facts"]["correction"].as_f64().unwrap() < 1.0);
    }),
];

#[test]
fn every_fact_of_machines_moves_an_answer() {
    walk("Nodes", &CASES, world());
}
