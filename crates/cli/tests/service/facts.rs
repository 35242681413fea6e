//! Facts of machines: what the kernel shows an agent reaches the server, and what was decided can be looked up.

use crate::stand::Stand;

/// Writes files that stand for what a kernel shows.
fn put(stand: &Stand, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = stand.path("sys").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn what_the_kernel_shows_is_seen_and_seen_to_change() {
    let mut stand = Stand::unstarted("");
    let sys = stand.path("sys");
    // Every heartbeat is a chance to see; they come as often as a pool wants to know of a silence.
    let config = format!(
        "[agent]\nsysfs = \"{}\"\nblock = \"lease\"\nregion = \"uk\"\nplatform = \"android\"\n\
         [[blocks]]\nid = \"lease\"\nprovider = \"prime\"\ntier = \"FLEX\"\n\
         [[providers]]\nname = \"prime\"\nclass = \"exact\"\n\
         shape = {{ gpus = 4, vram_mib = \"80GiB\", cpu_milli = \"32 cores\", ram_mib = \"256GiB\" }}\n\
         [[pools]]\nid = \"default\"\ndispatch = \"push\"\npolicy = \"bin-pack\"\n\
         silence = {{ node_unknown_after_ms = 3000 }}\n",
        sys.display()
    );
    std::fs::write(stand.path("config.toml"), config).unwrap();
    put(
        &stand,
        &[
            ("class/thermal/thermal_zone0/temp", "40000\n"),
            ("class/power_supply/BAT0/type", "Battery\n"),
            ("class/power_supply/BAT0/capacity", "41\n"),
            ("class/power_supply/BAT0/status", "Discharging\n"),
            ("class/drm/card0/device/vendor", "0x1002\n"),
            ("class/drm/card0/device/device", "0x744c\n"),
            ("class/drm/card0/device/mem_info_vram_total", "25753026560\n"),
        ],
    );
    stand.start_server();
    stand.agent("n1", &["--cpus", "4"]);
    let node = stand.node("n1");
    assert_eq!(
        (node["thermal"].as_str(), node["battery_pct"].as_i64()),
        (Some("nominal"), Some(41)),
        "{node}"
    );
    assert_eq!(
        (node["block"].as_str(), node["platform"].as_str()),
        (Some("lease"), Some("android")),
        "{node}"
    );
    assert_eq!(
        (&node["gpus"][0]["model"], &node["gpus"][0]["vram_mib"]),
        (&"Navi 31".into(), &24_560.into())
    );
    put(
        &stand,
        &[("class/thermal/thermal_zone0/temp", "97000\n"), ("class/power_supply/BAT0/status", "Full\n")],
    );
    stand.until("the change is seen", || {
        let node = stand.node("n1");
        node["thermal"] == "critical" && node["charging"] == true
    });
    let page = stand.run(&["node", "n1"]).ok();
    assert!(page.contains("heat critical, battery 41 %, charging"), "{page}");
    assert!(page.contains(" of prime, ") && page.contains("lease: "), "its block: {page}");
    assert!(page.contains("GPU memory ") && page.contains("containers at once"), "its estimates: {page}");
    assert_eq!(stand.json(&["node", "n1"])["lease"]["provider"], "prime");
    // Who sells is as the file says again when the server starts, and what was added since stays.
    let sellers = |stand: &Stand| {
        let listed = stand.json(&["providers", "list"])["providers"].clone();
        let sold =
            |row: &serde_json::Value| format!("{} {} {}", row["name"], row["class"], row["shape"]["gpus"]);
        listed.as_array().unwrap().iter().map(sold).collect::<Vec<_>>()
    };
    assert_eq!(sellers(&stand), [r#""prime" "exact" 4"#]);
    stand.run(&["providers", "set", "prime", "--class", "bulk"]).ok();
    let shape = ["--gpus", "8", "--vram", "80GiB", "--cpus", "64", "--memory", "512GiB"];
    stand.run(&[&["providers", "set", "hall", "--class", "bulk"][..], &shape].concat()).ok();
    assert_eq!(sellers(&stand), [r#""hall" "bulk" 8"#, r#""prime" "bulk" 4"#]);
    let kept = stand.run(&["providers", "delete", "prime"]);
    crate::stand::refused(&kept, &["names provider `prime`"]);
    stand.kill_server();
    stand.start_server();
    assert_eq!(sellers(&stand), [r#""hall" "bulk" 8"#, r#""prime" "exact" 4"#]);
    let page = stand.run(&["providers", "list"]).ok();
    assert!(page.contains("8 GPUs of 80 GiB, 64 cores, 512 GiB"), "{page}");
    // The lease serves the other tier only.
    let fast = stand.submit(&["--", "true"]);
    let job = stand.job(&fast);
    assert_eq!(job["state"], "pending", "{job}");
}

#[test]
fn what_the_network_carried_while_a_job_ran_alone_is_seen() {
    let mut stand = Stand::unstarted("");
    let config = format!("[agent]\nsysfs = \"{}\"\n", stand.path("sys").display());
    std::fs::write(stand.path("config.toml"), config).unwrap();
    put(&stand, &[("class/net/eth0/device/vendor", "0x1\n"), ("class/net/eth0/statistics/tx_bytes", "0\n")]);
    stand.start_server();
    stand.agent("n1", &["--cpus", "2"]);
    let gone = stand.path("gone");
    let script = format!("until test -e {}; do sleep 0.1; done", gone.display());
    let mut received = 0u64;
    // A busy machine may look too seldom; then the next run tells.
    let mut told = String::new();
    stand.until("a run tells what it received", || {
        let job = stand.submit(&["--", "sh", "-c", &script]);
        stand.wait_for(&job, &["running"]);
        for _ in 0..40 {
            received += 50_000_000;
            put(&stand, &[("class/net/eth0/statistics/rx_bytes", &format!("{received}\n"))]);
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        std::fs::write(&gone, "").unwrap();
        stand.wait_for(&job, &["completed"]);
        std::fs::remove_file(&gone).unwrap();
        told = stand.run(&["job", &job]).ok();
        stand.job(&job)["usage"]["network_bytes_s"].as_u64().is_some_and(|bytes| bytes > 0)
    });
    assert!(told.contains("/s over the network at most"), "{told}");
}

#[test]
fn what_was_decided_can_be_looked_up_later() {
    let mut stand = Stand::with_agent(&["--cpus", "2"]);
    let done = stand.submit(&["--", "true"]);
    stand.wait_for(&done, &["completed"]);
    let waits = stand.submit(&["--cpu", "64", "--", "true"]);
    stand.run(&["workloads", "set", "small", "--", "true"]).ok();
    stand.run(&["workloads", "set", "wide", "--cpu", "64", "--", "true"]).ok();
    let workloads = stand.json(&["workloads", "list"])["workloads"].clone();
    assert_eq!([0, 1].map(|row| workloads[row]["availability"]["ready"].clone()), [1, 0], "{workloads}");
    let listed = stand.json(&["decisions", "--node", "n1"]);
    assert_eq!(
        (&listed["decisions"][0]["job"], &listed["decisions"][0]["nodes"][0]["node"]),
        (&done.as_str().into(), &"n1".into())
    );
    let chosen = stand.json(&["decisions", "--job", &done]);
    let chosen = &chosen["decisions"][0];
    assert_eq!((&chosen["pool"], &chosen["looked_at"]), (&"default".into(), &1.into()), "{chosen}");
    assert!(chosen["heard_ms"].as_u64().is_some() && chosen["facts"].is_object(), "{chosen}");
    // Nobody was chosen, and why is kept with it.
    let none = stand.json(&["decisions", "--pool", "default", "--none"]);
    let none = &none["decisions"][0];
    assert_eq!((&none["job"], &none["kind"]), (&waits.as_str().into(), &"none".into()), "{none}");
    assert_eq!(none["against"], serde_json::json!([{ "reason": "cpu_short", "candidates": 1 }]), "{none}");
    assert_eq!(stand.json(&["decisions", "--pool", "other"])["decisions"], serde_json::json!([]));
    let full = stand.run(&["decisions", "--job", &waits, "--full"]).ok();
    assert!(full.contains(": nobody") && full.contains("1: nodes have too little CPU (cpu_short)"), "{full}");
    assert_eq!(stand.json(&["decisions", "--node", "n2"])["decisions"], serde_json::json!([]));
    assert_eq!(stand.json(&["decisions", "--job", &done])["decisions"].as_array().unwrap().len(), 1);
    let at = listed["now_ms"].to_string();
    stand.run(&["cancel", &waits]).ok();
    stand.wait_for(&waits, &["cancelled"]);
    let then = stand.json(&["explain", &waits, "--at", &at]);
    assert_eq!(then["explanation"]["state"], "pending", "{then}");
    assert_eq!(then["explanation"]["nodes"][0]["reason"], "cpu_short", "{then}");
    assert_eq!(then["decision"]["against"][0]["reason"], "cpu_short", "{then}");
    // All of it is there after a restart.
    let kept = stand.json(&["decisions", "--until", &at])["decisions"].clone();
    assert!(kept.as_array().is_some_and(|kept| kept.len() >= 2), "{kept}");
    stand.kill_server();
    stand.start_server();
    assert_eq!(stand.json(&["decisions", "--until", &at])["decisions"], kept);
    let before = stand.run(&["explain", &waits, "--at", "400d"]);
    assert!(before.code != 0 && before.err.contains("job"), "{}", before.err);
    let nonsense = stand.run(&["explain", &waits, "--at", "yesterday"]);
    assert!(nonsense.code != 0 && nonsense.err.contains("no instant"), "{}", nonsense.err);
}

#[test]
fn batch_pools_keep_what_a_cycle_looked_at() {
    let config = "[[pools]]\nid = \"default\"\ndispatch = \"batch\"\nbatch = { cycle_ms = 5000 }\n";
    let mut stand = Stand::with_config(config);
    stand.agent("n1", &["--cpus", "2"]);
    let whole = stand.submit(&["--exclusive", "--walltime", "1h", "--", "sleep", "1000"]);
    stand.wait_for(&whole, &["running"]);
    let chosen = stand.json(&["decisions", "--job", &whole]);
    let chosen = &chosen["decisions"][0];
    assert_eq!((&chosen["pool"], &chosen["looked_at"]), (&"default".into(), &1.into()), "{chosen}");
    assert!(chosen["heard_ms"].as_u64().is_some(), "{chosen}");
    assert!(chosen["facts"].as_object().is_some_and(|facts| !facts.is_empty()), "{chosen}");
    let against = chosen["against"].as_array();
    assert!(against.is_none_or(|against| against.is_empty()), "the only node was free: {chosen}");
    // Two alike: the first in line stands for both.
    let waits = stand.submit(&["--exclusive", "--walltime", "1h", "--", "true"]);
    let behind = stand.submit(&["--exclusive", "--walltime", "1h", "--", "true"]);
    let mut none = serde_json::Value::Null;
    stand.until("a cycle has looked at it", || {
        none = stand.json(&["decisions", "--none", "--job", &waits])["decisions"][0].clone();
        !none.is_null()
    });
    assert_eq!(none["against"], serde_json::json!([{ "reason": "node_taken", "candidates": 1 }]), "{none}");
    assert_eq!(none["facts"]["reserved_nodes"], 1, "{none}");
    assert!(none["facts"]["reserved_in_s"].as_f64().is_some_and(|ahead| ahead > 3000.0), "{none}");
    assert_eq!(stand.json(&["decisions", "--none", "--job", &behind])["decisions"], serde_json::json!([]));
    let full = stand.run(&["decisions", "--job", &waits, "--full"]).ok();
    assert!(
        full.contains(": nobody") && full.contains("1: nodes are taken by other work (node_taken)"),
        "{full}"
    );
    let then = stand.json(&["explain", &waits, "--at", "0s"]);
    assert_eq!(then["decision"]["against"][0]["reason"], "node_taken", "{then}");
    // All of it is there after a restart.
    stand.kill_server();
    stand.start_server();
    assert_eq!(
        stand.json(&["decisions", "--none", "--job", &waits])["decisions"].as_array().unwrap().last(),
        Some(&none)
    );
}
