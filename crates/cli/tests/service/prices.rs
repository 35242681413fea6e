//! What jobs cost: limits of a job, surges, budgets of tenants, and sums.

use serde_json::Value;

use crate::stand::{Stand, refused};

/// A server whose jobs cost half of 1 on machines without a GPU, and a machine that runs one at a time.
fn stand(price: &str) -> Stand {
    let mut stand = Stand::unstarted("");
    let sys = stand.path("sys");
    std::fs::create_dir_all(&sys).unwrap();
    let config = format!(
        "[agent]\nsysfs = \"{}\"\n[[pools]]\nid = \"default\"\ndispatch = \"push\"\nprice = {{ base = 1.0{price} }}\n",
        sys.display()
    );
    std::fs::write(stand.path("config.toml"), config).unwrap();
    stand.start_server();
    stand.agent("n1", &["--cpus", "1"]);
    stand
}

fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let rows = rows.as_array().unwrap().iter();
    rows.clone().find(|row| row["name"] == name || row["id"] == name).unwrap()
}

#[test]
fn tenants_have_budgets_and_see_what_they_spent() {
    let mut stand = stand("");
    stand.run(&["tenants", "set", "lab", "--budget", "1.7"]).ok();
    let array = stand.submit(&["--tenant", "lab", "--array", "1-2", "--", "true"]);
    for element in [format!("{array}.1"), format!("{array}.2")] {
        assert_eq!(stand.wait_for(&element, &["completed"])["price"], 0.5);
    }
    let last = stand.submit(&["--tenant", "lab", "--max-price", "0.5", "--", "sleep", "1000"]);
    stand.wait_for(&last, &["running"]);
    let page = stand.run(&["explain", &last]).ok();
    assert!(page.contains("costs       0.5"), "{page}");
    // What is refused says how much of how much is spent, and what to do.
    let over = stand.run(&["submit", "--tenant", "lab", "--", "true"]);
    refused(
        &over,
        &[
            "tenant `lab` has spent 1.5 of its budget of 1.7 in the last 90 days",
            "costs 0.5 at least",
            "--budget",
        ],
    );
    let planned = |args: &[&str]| -> Value {
        let said = stand.run(&[&["--json", "submit", "--dry-run"], args].concat());
        serde_json::from_str(&said.out).unwrap()
    };
    assert_eq!(planned(&["--tenant", "lab", "--", "true"])["refused"]["code"], "budget");
    let free = planned(&["--cpu", "0", "--", "true"]);
    assert_eq!(
        (&free["refused"], &free["starts"][0]["price"]),
        (&Value::Null, &0.5.into()),
        "others may: {free}"
    );
    let check = |stand: &Stand| {
        let tenants = stand.json(&["tenants", "list"]);
        let usage = &row(&tenants["tenants"], "lab")["usage"];
        assert_eq!((usage["spent"].as_f64(), usage["budget"].as_f64()), (Some(1.5), Some(1.7)), "{usage}");
        let used = stand.json(&["usage"]);
        assert_eq!(row(&used["rows"], "lab")["price"], 1.5, "{used}");
    };
    check(&stand);
    let page = stand.run(&["tenants", "list"]).ok();
    assert!(page.contains("1.5 of 1.7"), "{page}");
    let metrics = stand.metrics();
    assert!(metrics.contains("landfall_tenant_spent{tenant=\"lab\"} 1.5"), "{metrics}");
    assert!(metrics.contains("landfall_tenant_budget{tenant=\"lab\"} 1.7"), "{metrics}");
    stand.kill_server();
    stand.start_server();
    check(&stand);
    stand.run(&["tenants", "set", "lab", "--budget", "2"]).ok();
    stand.run(&["cancel", &last]).ok();
    let more = stand.submit(&["--tenant", "lab", "--", "true"]);
    assert_eq!(stand.wait_for(&more, &["completed"])["price"], 0.5);
    let wrong = stand.run(&["tenants", "set", "lab", "--budget", "-1"]);
    refused(&wrong, &["is no price: write a number of 0"]);
}

#[test]
fn a_job_waits_until_it_costs_no_more_than_it_may() {
    let stand = stand(", surge = true, surge_every_ms = 1000");
    // What no node can be cheap enough for is told at once.
    let dear = stand.run(&["submit", "--strict", "--max-price", "0.4", "--", "true"]);
    refused(&dear, &["may cost 0.4 at most; the only node costs more than it may"]);
    let running = stand.submit(&["--", "sleep", "1000"]);
    stand.wait_for(&running, &["running"]);
    let waiting: Vec<String> = (0..3).map(|_| stand.submit(&["--", "sleep", "1000"])).collect();
    let surging = || stand.json(&["pool", "default"])["surging"] == true;
    stand.until("prices are raised", surging);
    assert!(stand.metrics().contains("landfall_surging{pool=\"default\"} 1"));
    let careful = stand.submit(&["--need", "priority=1", "--max-price", "0.5", "--", "true"]);
    stand.run(&["cancel", &running]).ok();
    // Others are dearer now, and go before it.
    let raised = stand.wait_for(&waiting[0], &["running"]);
    assert_eq!(raised["price"], 0.625, "{raised}");
    let why = stand.json(&["explain", &careful]);
    let reasons = why["explanation"]["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|why| why["reason"] == "max_price"), "{why}");
    let page = stand.run(&["explain", &careful]).ok();
    assert!(page.contains("may cost 0.5 at most"), "{page}");
    for job in &waiting {
        stand.run(&["cancel", job]).ok();
    }
    let placed = stand.wait_for(&careful, &["completed"]);
    assert_eq!(placed["price"], 0.5, "{placed}");
    assert!(!surging());
}
