//! What an operator meets in the first days: each test is something that went wrong for one.

use std::path::Path;

use crate::stand::{Said, Stand, refused};

#[test]
fn what_is_no_longer_needed_is_deleted_and_stays_so() {
    let mut stand = Stand::with_config(
        "[[pools]]\nid = 'default'\ndispatch = 'push'\n[[tenants]]\nid = 'lab'\nshare = 0.5\n",
    );
    stand.run(&["pools", "set", "old", "--dispatch", "batch"]).ok();
    stand.run(&["tenants", "set", "guests"]).ok();
    stand.agent("n1", &["--cpus", "2", "--pool", "old"]);
    let waits = stand.submit(&["--pool", "old", "--tenant", "guests", "--hold", "--", "true"]);
    let token = stand.json(&["token", "create", "eve", "--role", "submitter", "--tenant", "guests"]);

    // What is in use stays, and it is said what to do.
    let delete_pool = || stand.run(&["pools", "delete", "old"]);
    let delete_tenant = || stand.run(&["tenants", "delete", "guests"]);
    refused(&delete_pool(), &["has jobs that wait or run", "landfall jobs --pool old"]);
    let has_token = delete_tenant();
    refused(&has_token, &["has tokens", "landfall token revoke"]);
    stand.run(&["token", "revoke", token["id"].as_str().unwrap()]).ok();
    refused(&delete_tenant(), &["has jobs that wait or run", "landfall jobs --tenant guests"]);
    stand.run(&["cancel", &waits]).ok();
    refused(&delete_pool(), &["has node `n1`", "landfall remove n1"]);
    // What the settings file names would be back.
    refused(&stand.run(&["pools", "delete", "default"]), &["config.toml names pool `default`", "next start"]);
    refused(&stand.run(&["tenants", "delete", "lab"]), &["config.toml names tenant `lab`", "next start"]);
    for (what, near) in [("pools", "pool `odl`"), ("tenants", "tenant `odl`")] {
        let said = stand.run(&[what, "delete", "odl"]);
        refused(&said, &["there is no", near]);
        assert_eq!(said.code, 10);
    }

    drop(stand.agent_process("n1"));
    stand.run(&["remove", "n1"]).ok();
    assert_eq!(stand.run(&["pools", "delete", "old"]).ok(), "deleted old\n");
    assert_eq!(stand.run(&["tenants", "delete", "guests"]).ok(), "deleted guests\n");
    refused(&stand.run(&["submit", "--pool", "old", "--", "true"]), &["there is no pool `old`"]);
    // What ended there is still known.
    assert_eq!(stand.job(&waits)["pool"], "old");
    assert!(stand.run(&["jobs", "--all"]).ok().contains("cancelled"));
    for _ in 0..2 {
        let pools = stand.json(&["pools", "list"]);
        assert_eq!(pools["pools"].as_array().unwrap().len(), 1, "{pools}");
        assert_eq!(stand.json(&["tenants", "list"])["tenants"].as_array().unwrap().len(), 1);
        assert_eq!(stand.job(&waits)["state"], "cancelled");
        stand.kill_server();
        stand.start_server();
    }
    refused(&stand.run(&["explain", &waits]), &["is cancelled", "landfall job"]);
    // Once the file no longer names it, it can go as well; the last pool cannot.
    stand.end_server();
    std::fs::write(stand.path("config.toml"), "").unwrap();
    stand.start_server();
    stand.run(&["tenants", "delete", "lab"]).ok();
    refused(&stand.run(&["pools", "delete", "default"]), &["the only one", "pools set"]);
}

#[test]
fn a_policy_for_another_way_to_dispatch_is_refused() {
    let stand = Stand::with_config(
        "[[pools]]\nid = 'default'\ndispatch = 'push'\n[[pools]]\nid = 'odd'\ndispatch = 'batch'\npolicy = 'fit'\n",
    );
    // One that the file names does not keep the server from starting, and is said everywhere.
    let words = "policy `fit` is made for push pools, and pool `odd` is a batch pool";
    assert!(stand.log("server").contains(words), "{}", stand.log("server"));
    assert!(stand.run(&["pools", "show", "odd"]).err.contains(words));
    let checked = stand.run(&["config", "check"]);
    assert!(checked.err.contains(words), "{}", checked.err);
    checked.ok();
    for (pool, policy, made_for) in [
        ("default", "balanced", "batch pools"),
        ("odd", "bin-pack", "push pools"),
        ("odd", "simple", "pull pools"),
    ] {
        let said = stand.run(&["pools", "set", pool, "--policy", policy]);
        refused(&said, &[&format!("policy `{policy}` is made for {made_for}"), "landfall policy list"]);
    }
    std::fs::write(stand.path("mine.toml"), stand.run(&["policy", "show", "fit"]).ok()).unwrap();
    let said = stand.run(&["pools", "set", "odd", "--policy-file", "mine.toml"]);
    refused(&said, &["is made for push pools"]);
    stand.run(&["pools", "set", "default", "--policy-file", "mine.toml"]).ok();
    stand.run(&["pools", "set", "odd", "--policy", "hpc-batch"]).ok();
}

#[test]
fn limits_bind_or_it_is_said_that_they_do_not() {
    let mut stand = Stand::new();
    stand.agent("bound", &["--cpus", "2"]);
    let node = stand.node("bound");
    let how = node["limits"]["how"].as_str().unwrap().to_owned();
    assert!(stand.run(&["node", "bound"]).ok().contains("limits"));
    if node["limits"]["memory"] == true {
        // 50 MiB asked, 200 MiB taken, in the job itself and in what it starts.
        let takes = "head -c 200000000 /dev/zero | tail -c 200000000 > /dev/null";
        for script in [format!("exec sh -c '{takes}'"), takes.to_owned()] {
            let said = stand.run(&["submit", "--wait", "--memory", "50MiB", "--", "sh", "-c", &script]);
            let job = stand.json(&["jobs", "--all", "--limit", "1"])["jobs"][0].clone();
            assert_ne!(said.code, 0, "{how}: {job}");
            assert_eq!(job["usage"]["oom"], true, "{job}");
            assert!(job["usage"]["peak_ram_mib"].as_u64() <= Some(50), "{job}");
        }
        let fits = stand.run(&["submit", "--wait", "--memory", "400MiB", "--", "sh", "-c", takes]);
        assert_eq!((fits.code, fits.err.contains("not enforced")), (0, false), "{}", fits.err);
        // Nothing is left behind.
        let below = how.split(" and ").filter_map(|part| part.split_whitespace().last());
        for group in below.map(Path::new).filter(|path| path.is_absolute()) {
            let left: Vec<_> = std::fs::read_dir(group)
                .into_iter()
                .flatten()
                .flatten()
                .flat_map(|keeper| std::fs::read_dir(keeper.path()).into_iter().flatten().flatten())
                .filter(|entry| {
                    entry.path().is_dir() && entry.file_name().to_string_lossy().starts_with("1.")
                })
                .collect();
            assert!(left.is_empty(), "{left:?}");
        }
    } else {
        eprintln!("this machine has no control groups to try: {how}");
    }
    drop(stand.agent_process("bound"));
    stand.run(&["remove", "bound"]).ok();

    // An owner who wants none, as on a machine that has none.
    std::fs::write(stand.path("config.toml"), "[agent]\nlimits = false\n").unwrap();
    stand.agent("free", &["--cpus", "2"]);
    assert!(stand.run(&["node", "free"]).ok().contains("not enforced: agent.limits = false"));
    assert!(stand.run(&["nodes"]).ok().contains("limits are not enforced"));
    let status = stand.run(&["status"]).ok();
    assert!(status.contains("node free lets jobs take more memory than they asked for"), "{status}");
    let said = stand.run(&["submit", "--wait", "--memory", "50MiB", "--", "true"]);
    assert!(said.err.contains("limits of memory are not enforced on node `free`"), "{}", said.err);
    said.ok();
    assert!(!stand.run(&["submit", "--wait", "--", "true"]).err.contains("enforced"));
}

#[test]
fn who_uses_what_is_told_in_figures_for_people() {
    let stand = Stand::with_agent(&["--cpus", "4"]);
    stand.run(&["tenants", "set", "vision", "--share", "0.5", "--max-cpus", "2"]).ok();
    stand.run(&["tenants", "set", "speech"]).ok();
    // Nobody asked for a quota, so there is none.
    let listed = stand.run(&["tenants", "list"]).ok();
    let line = |listed: &str, of: &str| listed.lines().find(|line| line.starts_with(of)).unwrap().to_owned();
    assert!(
        line(&listed, "speech").ends_with("anything") && line(&listed, "vision").ends_with("2 cores"),
        "{listed}"
    );
    let wide = stand.run(&["submit", "--tenant", "vision", "--cpu", "3", "--", "true"]);
    refused(&wide, &["may hold 2 cores, and this job needs 3"]);
    let runs = stand.submit(&["--tenant", "vision", "--cpu", "2", "--", "sleep", "300"]);
    stand.wait_for(&runs, &["running"]);
    let waits = stand.submit(&["--tenant", "vision", "--cpu", "1", "--", "true"]);
    let explained = stand.run(&["explain", &waits]).ok();
    assert!(explained.contains("holds 2 of 2 cores, and this job needs 1 [quota_cpus]"), "{explained}");
    stand.run(&["submit", "--wait", "--tenant", "speech", "--", "true"]).ok();
    let listed = stand.run(&["tenants", "list"]).ok();
    let vision = line(&listed, "vision");
    assert_eq!(
        vision.split_whitespace().take(5).collect::<Vec<_>>(),
        ["vision", "0.5", "2", "0.5", "2"],
        "{listed}"
    );
    assert!(stand.run(&["jobs"]).ok().contains("tenant"), "there is a column");
    // More room, and the rest runs.
    stand.run(&["tenants", "set", "vision", "--max-cpus", "3"]).ok();
    stand.wait_for(&waits, &["completed"]);

    let used = stand.json(&["usage"]);
    let names: Vec<&str> =
        used["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["vision", "speech"], "{used}");
    assert_eq!((used["rows"][0]["jobs"].as_u64(), used["rows"][0]["running"].as_u64()), (Some(2), Some(1)));
    assert!(used["rows"][0]["core_hours"].as_f64() > Some(0.0), "{used}");
    for (by, word) in [("pool", "default"), ("user", "local"), ("tenant", "vision")] {
        let page = stand.run(&["usage", "--by", by, "--since", "1h"]).ok();
        assert!(page.contains(word) && page.contains("under 0.01"), "{page}");
    }
    let none = stand.json(&["usage", "--since", "1ms"]);
    assert_eq!(none["rows"].as_array().unwrap().len(), 1, "only what runs now: {none}");
    refused(&stand.run(&["usage", "--by", "colour"]), &["possible values"]);
    stand.run(&["cancel", &runs]).ok();
}

#[test]
fn a_node_that_goes_says_why_and_when() {
    let mut stand = Stand::with_config(
        "[[pools]]\nid = 'default'\ndispatch = 'push'\n[[pools]]\nid = 'hpc'\ndispatch = 'batch'\n",
    );
    stand.agent("n1", &["--pool", "default", "--cpus", "2"]);
    stand.agent("b1", &["--pool", "hpc", "--cpus", "2"]);
    stand.run(&["drain", "n1", "--reason", "new kernel"]).ok();
    let waits = stand.submit(&["--pool", "default", "--", "true"]);
    for page in [&["nodes"][..], &["node", "n1"], &["explain", &waits]] {
        let shown = stand.run(page).ok();
        assert!(shown.contains("new kernel"), "{page:?}: {shown}");
    }
    // A server that is started anew still knows.
    stand.kill_server();
    stand.start_server();
    stand.until_ready("b1");
    assert_eq!(stand.node("n1")["why"], "new kernel");
    stand.run(&["return", "n1"]).ok();
    stand.wait_for(&waits, &["completed"]);
    assert_eq!(stand.node("n1")["why"], serde_json::Value::Null);

    // A window that begins in two minutes: what ends before may start, in push as in batch.
    stand.run(&["drain", "n1", "b1", "--at", "+2m", "--reason", "rewiring"]).ok();
    for (pool, node) in [("default", "n1"), ("hpc", "b1")] {
        assert_eq!(stand.node(node)["state"], "ready");
        stand.run(&["submit", "--wait", "--pool", pool, "--walltime", "10s", "--", "true"]).ok();
        // With no other node in sight a batch pool refuses it, unless it says that it waits.
        let long = ["--pool", pool, "--walltime", "1h", "--need", "wait_for_capacity=true", "--", "true"];
        let long = stand.submit(&long);
        let explained = stand.run(&["explain", &long]).ok();
        assert!(explained.contains("rewiring"), "{explained}");
        assert!(pool == "hpc" || explained.contains("taken out before it would end"), "{explained}");
        assert_eq!(stand.job(&long)["state"], "pending");
    }
    // The instant comes, and the node drains by itself.
    stand.run(&["drain", "n1", "--at", "+1s"]).ok();
    stand.until("it drains", || stand.node("n1")["state"] == "drained");
    stand.run(&["return", "n1", "b1"]).ok();
    stand.until("all have run", || stand.json(&["jobs"])["jobs"].as_array().unwrap().is_empty());
    refused(&stand.run(&["drain", "n1", "--at", "tonight"]), &["`tonight` is no instant", "+8h"]);
    // A date will do, for nodes and for jobs.
    stand.run(&["drain", "n1", "--at", "2099-01-02T03:04Z"]).ok();
    assert_eq!(stand.node("n1")["maintenance_at_ms"], 4_071_006_240_000_u64);
    let dated = stand.submit(&["--pool", "default", "--not-before", "2099-01-02", "--", "true"]);
    assert_eq!(stand.job(&dated)["reason"], "not_before");
    stand.run(&["return", "n1"]).ok();
}

#[test]
fn what_is_now_can_be_taken_home() {
    let mut stand = Stand::with_config(
        "[[pools]]\nid = 'default'\ndispatch = 'push'\n[[pools]]\nid = 'hpc'\ndispatch = 'batch'\n[[tenants]]\nid = 'lab'\nshare = 0.5\n",
    );
    for node in ["n1", "n2"] {
        stand.agent(node, &["--pool", "default", "--cpus", "2"]);
    }
    stand.agent("b1", &["--pool", "hpc", "--cpus", "4"]);
    // A policy is read back, one weight is changed, and the copy is in force.
    let before = stand.run(&["pools", "policy", "hpc"]).ok();
    assert!(before.contains("name = \"balanced\""), "{before}");
    refused(&stand.run(&["pools", "set", "hpc", "--weight", "wiat=0.4"]), &["no term `wiat`"]);
    stand.run(&["pools", "set", "hpc", "--weight", "wait=0.4"]).ok();
    let after = stand.run(&["pools", "policy", "hpc"]).ok();
    let weight = |text: &str| {
        let at = text.find("name = \"wait\"").unwrap();
        text[at..].lines().next().unwrap().to_owned() + text[at..].lines().nth(1).unwrap()
    };
    assert!(weight(&after).contains("0.4") && !weight(&before).contains("0.4"), "{after}");

    let whole = ["--pool", "hpc", "--tenant", "lab", "--cpu", "4", "--walltime"];
    let runs = stand.submit(&[&whole[..], &["2h", "--", "sleep", "300"]].concat());
    stand.wait_for(&runs, &["running"]);
    let waits = stand.submit(&[&whole[..], &["30m", "--", "true"]].concat());
    let fills: Vec<String> =
        (0..2).map(|_| stand.submit(&["--pool", "default", "--cpu", "2", "--", "sleep", "300"])).collect();
    fills.iter().for_each(|id| drop(stand.wait_for(id, &["running"])));
    let busy = stand.submit(&["--pool", "default", "--cpu", "1", "--", "true"]);
    let held = stand.submit(&["--pool", "default", "--hold", "--array", "1-3", "--", "true"]);

    stand.run(&["scenario", "export", "--out", "now.toml"]).ok();
    refused(&stand.run(&["scenario", "export", "--out", "now.toml"]), &["now.toml"]);
    refused(&stand.run(&["scenario", "export", "--pool", "nowhere"]), &["no pool `nowhere`"]);
    let checked = stand.json(&["scenario", "check", "now.toml"]);
    let counts = &checked["counts"];
    assert_eq!((counts["nodes"].as_u64(), counts["jobs"].as_u64()), (Some(3), Some(8)), "{checked}");

    // The same questions have the same answers.
    let parsed = |said: &Said| -> serde_json::Value {
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}{}", said.out, said.err))
    };
    for job in [&waits, &busy] {
        let live = stand.json(&["explain", job]);
        // One that waits ends with 1.
        let home = parsed(&stand.run(&["--json", "explain", "--scenario", "now.toml", "--job", job]));
        let home = &home["standing"]["explanation"];
        for field in ["state", "reason", "policy", "queue"] {
            assert_eq!(home[field], live["explanation"][field], "{field} of {job}:\n{home}\n{live}");
        }
    }
    let kept = format!("{held}.2");
    let home = parsed(&stand.run(&["--json", "explain", "--scenario", "now.toml", "--job", &kept]));
    assert_eq!(
        home["standing"]["explanation"]["state"], "pending",
        "what somebody holds back stays back: {home}"
    );
    let ranked = |more: &[&str]| {
        let mut args = vec!["rank", "--job", busy.as_str()];
        args.extend(more);
        let said = stand.run(&[&["--json"], args.as_slice()].concat());
        let ranked = parsed(&said);
        (said.code, ranked["policy"].clone(), ranked["winner"].clone(), ranked["refused"].clone())
    };
    assert_eq!(ranked(&[]), ranked(&["--scenario", "now.toml"]));
    // Another policy, on the server and at home, without a change to either.
    let mine = stand.run(&["policy", "show", "bin-pack"]).ok();
    std::fs::write(stand.path("mine.toml"), mine).unwrap();
    for more in [&["--policy-file", "mine.toml"][..], &["--policy", "first-fit"]] {
        let mut live = vec!["plan", "--pool", "default"];
        live.extend(more);
        let mut home = live.clone();
        home.extend(["--scenario", "now.toml"]);
        let (live, home) = (stand.json(&live), stand.json(&home));
        assert_eq!((&live["change"], &live["starts"]), (&home["change"], &home["starts"]), "{live}\n{home}");
    }
    refused(&stand.run(&["plan", "--policy", "balanced", "--pool", "default"]), &["made for batch pools"]);
    refused(&stand.run(&["plan", "--policy-file", "mine.toml"]), &["several pools"]);
    let more = stand.json(&["plan", "--quota", "lab:cpus=64"]);
    assert_eq!(more["change"], "tenant lab may have 64 cpus", "{more}");
    refused(&stand.run(&["plan", "--quota", "lba=3"]), &["no tenant `lba`"]);
    assert_eq!(stand.run(&["pools", "policy", "default"]).ok(), stand.run(&["policy", "show", "fit"]).ok());
}
