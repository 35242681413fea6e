//! Peers that do what they should not: no job runs twice or is lost, it is counted, and `peers show` says why somebody fell.

use landfall_model::NodeId;
use landfall_negotiate::{
    AwardRefuse, Closing, Fence, LeaseRenew, Message, NodeCapacityAnnounce, Phase, PlacementClosed,
    PlacementOffer, Reason,
};
use serde_json::{Value, json};

use crate::peers::{begun, first, id, joined, metric, until_known};
use crate::puppet::Puppet;
use crate::stand::Stand;

/// A server that only submits, an honest peer with a machine, and somebody who is trusted like it.
fn three(settings: &str) -> (Stand, Stand, Puppet) {
    let near = first(&format!("settings = [\"runs_work=false\", \"grace_ms=1000\"{settings}]"));
    let mut honest = joined(&near, "");
    honest.agent("n1", &[]);
    until_known(&near, &id(&honest));
    let bad = Puppet::invited_by(&near);
    (near, honest, bad)
}

/// What a server knows of somebody.
fn shown(stand: &Stand, peer: &NodeId) -> Value {
    stand.json(&["peers", "show", peer.as_str()])
}

/// Waits until a server has counted this about somebody.
fn until_counted(stand: &Stand, peer: &NodeId, field: &str, what: &str) -> Value {
    let mut last = Value::Null;
    stand.until(&format!("`{what}` of {peer} is counted"), || {
        last = shown(stand, peer);
        last[field][what].as_u64().is_some_and(|times| times > 0)
    });
    last
}

/// Waits until somebody stands lower than this with a server.
fn until_below(stand: &Stand, peer: &NodeId, line: f64) {
    stand.until(&format!("{peer} stands below {line}"), || {
        shown(stand, peer)["standing"].as_f64().is_some_and(|standing| standing < line)
    });
}

/// A job that says in a file that it has begun.
fn marking(stand: &Stand, name: &str) -> (std::path::PathBuf, String) {
    let path = stand.path(name);
    let script = format!("echo begun >> {}", path.display());
    (path, script)
}

#[test]
fn whoever_takes_an_award_and_falls_silent_delays_the_job_and_loses_trust() {
    let (near, honest, mut bad) = three(", \"trust_moves=true\"");
    let (marks, script) = marking(&near, "marks");

    // It offers best and never says a word again: the next best runs it.
    let job = near.submit(&["--cpu", "100m", "--lease", "10s", "--", "sh", "-c", &script]);
    let request = bad.asked();
    let fence = bad.win(&request);
    near.wait_for(&job, &["completed"]);
    assert_eq!(begun(&marks), 1);
    let told = shown(&near, &bad.id);
    assert_eq!(told["deeds"], json!({ "silent": 1 }), "{told}");
    assert!((told["trust_moved"].as_f64().unwrap() + 0.05).abs() < 1e-6, "{told}");
    // Its ack comes when the job is somebody else's.
    bad.ack(request.job, fence);
    bad.hear("that its award is void", |message| match message {
        Message::Revoke(revoke) if revoke.job == request.job => Some(()),
        _ => None,
    });

    // It takes the job and is not heard of again: the lease ends, the honest one runs it, and the old result is not wanted.
    near.run(&["peers", "trust", bad.id.as_str(), "0.9"]).ok();
    let job = near.submit(&["--cpu", "100m", "--lease", "10s", "--", "sh", "-c", &script]);
    let request = bad.asked();
    let fence = bad.win(&request);
    bad.ack(request.job, fence);
    bad.placed(request.job);
    near.wait_for(&job, &["completed"]);
    assert_eq!(begun(&marks), 2);
    let result = bad.result(request.job, fence);
    assert!(!bad.report(result), "a result of another fence");
    let told = until_counted(&near, &bad.id, "deeds", "stale_result");
    assert_eq!(told["deeds"]["lease_lost"], 1, "{told}");
    assert_eq!(told["account"]["spent"], 0, "{told}");
    let page = near.run(&["peers", "show", bad.id.as_str()]).ok();
    for words in ["0.9 was set, -0.050 by what it did", "1 runs it was not heard of again"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert_eq!(metric(&near, "landfall_placement_lease_losses_total"), 1.0);
    honest.until("what it earned is booked", || {
        let account = &honest.json(&["peers", "show", &id(&near)])["account"];
        account["sold"] == 2 && account["bought"] == 0
    });
}

#[test]
fn forged_invalid_late_and_doubled_words_win_nothing() {
    let (near, honest, mut bad) = three("");
    let other = NodeId::new(&id(&honest)).unwrap();
    let job = near.submit(&["--cpu", "100m", "--", "true"]);
    let request = bad.asked();
    // What others are asked does not tell who submitted it, nor where.
    let body = request.body.inline.as_ref().unwrap();
    let body: Value = serde_json::from_slice(body.as_slice()).unwrap();
    assert_eq!(
        (&body["run"]["submitted_from"], &body["needs"]["user"]),
        (&Value::Null, &Value::Null),
        "{body}"
    );
    assert!(!body.to_string().contains(near.dir.path().to_str().unwrap()), "{body}");
    let offer = bad.offer(&request);
    let lie = |offer: PlacementOffer| Message::PlacementOffer(Box::new(offer));
    // In another's name, with more free than there is, and with a score that is no number.
    bad.say(lie(PlacementOffer { node: other.clone(), ..offer.clone() }));
    let mut more = offer.clone();
    more.facts.cpu_free += 1;
    bad.say(lie(more));
    bad.say(lie(PlacementOffer { score: f64::NAN, ..offer }));
    near.wait_for(&job, &["completed"]);
    assert_eq!(near.job(&job)["nodes"][0]["node"], other.as_str());
    let offers = near.json(&["explain", &job])["placement"]["offers"].clone();
    let of_bad = offers.as_array().unwrap().iter().find(|offer| offer["peer"] == bad.id.as_str()).unwrap();
    assert_eq!((&of_bad["status"], &of_bad["reason"]), (&json!("rejected"), &json!("invalid")), "{offers}");
    let told = until_counted(&near, &bad.id, "deeds", "forged");
    assert!(told["deeds"]["invalid"].as_u64() >= Some(1), "{told}");
    until_below(&near, &bad.id, -10.0);
    assert!(metric(&near, "landfall_placement_messages_rejected_total") >= 1.0);

    // Too late, and `explain` says who was.
    let job = near.submit(&["--cpu", "100m", "--", "true"]);
    let request = bad.asked();
    near.wait_for(&job, &["running", "completed"]);
    bad.say(lie(bad.offer(&request)));
    let explained = || near.json(&["explain", &job])["placement"]["offers"].clone();
    near.until("the late offer is explained", || {
        explained().as_array().unwrap().iter().any(|offer| offer["status"] == "late")
    });
    assert!(near.run(&["explain", &job]).ok().contains("late"));

    // Twice in one round, and its result twice: it is paid once.
    near.run(&["peers", "trust", bad.id.as_str(), "0.9"]).ok();
    let job = near.submit(&["--cpu", "100m", "--", "true"]);
    let request = bad.asked();
    bad.say(lie(bad.offer(&request)));
    let fence = bad.win(&request);
    bad.ack(request.job, fence);
    bad.placed(request.job);
    // An ack and a result in another's name do not end it.
    let mut forged = bad.result(request.job, fence);
    forged.node = other;
    bad.say(Message::TaskResult(forged));
    let result = bad.result(request.job, fence);
    assert!(bad.report(result.clone()) && bad.report(result.clone()));
    near.wait_for(&job, &["completed"]);
    let other_fence = Fence { attempt: fence.attempt + 1, ..fence };
    assert!(!bad.report(landfall_negotiate::TaskResult { fence: other_fence, ..result }));
    let told = until_counted(&near, &bad.id, "deeds", "repeated");
    assert_eq!((&told["account"]["bought"], &told["account"]["spent"]), (&json!(1), &json!(5)), "{told}");
    assert_eq!(told["deeds"]["kept"], 1, "{told}");
}

#[test]
fn a_false_arbiter_makes_nothing_run_twice_or_without_an_award() {
    let mut node = first("foreign_env = \"MY_*\"");
    node.agent("n1", &[]);
    let own = NodeId::new(&id(&node)).unwrap();
    node.until("its machine is known", || metric(&node, "landfall_agents_connected") == 1.0);
    let mut bad = Puppet::invited_by(&node);
    let (marks, script) = marking(&node, "marks");
    let body = |env: Value| json!({ "run": { "command": ["sh", "-c", script], "env": env } });

    // What the limits for jobs of others forbid is declined.
    let request = bad.request(1, &body(json!({ "LD_PRELOAD": "x" })));
    bad.say_all(Message::PlacementRequest(Box::new(request)));
    let reasons = bad.hear("a decline", |message| match message {
        Message::PlacementDecline(decline) => Some(decline.reasons.clone()),
        _ => None,
    });
    assert_eq!(reasons, [Reason::ForeignEnvironment]);

    let closed = |claim: &landfall_negotiate::TaskClaimed| {
        let (job, fence, winner) = (claim.job, claim.fence, Some(claim.node.clone()));
        Message::PlacementClosed(PlacementClosed { job, fence, outcome: Closing::Placed, winner })
    };
    let offered = |bad: &mut Puppet, job| {
        bad.hear("an offer", |message| match message {
            Message::PlacementOffer(offer) if offer.job == job => Some(()),
            _ => None,
        });
    };
    let acked = |bad: &mut Puppet, job| {
        bad.hear("an ack", |message| match message {
            Message::AwardAck(ack) if ack.job == job => Some(()),
            _ => None,
        });
    };

    // One award for two: the node that hears of both runs nothing.
    let request = bad.request(2, &body(json!({})));
    bad.say_all(Message::PlacementRequest(Box::new(request.clone())));
    offered(&mut bad, request.job);
    let claim = bad.claim(request.job, &own);
    bad.say_all(Message::TaskClaimed(claim.clone()));
    acked(&mut bad, request.job);
    bad.say_all(Message::TaskClaimed(bad.claim(request.job, &bad.id)));
    until_counted(&node, &bad.id, "deeds", "claimed_twice");
    bad.say_all(closed(&claim));

    // An award that is none, for a job that nobody asked about.
    bad.say_all(Message::TaskClaimed(bad.claim(landfall_model::Digest([9; 32]), &own)));

    // A good one runs, and saying all of it again does not run it again.
    let request = bad.request(3, &body(json!({ "MY_X": "1" })));
    bad.say_all(Message::PlacementRequest(Box::new(request.clone())));
    offered(&mut bad, request.job);
    let claim = bad.claim(request.job, &own);
    bad.say_all(Message::TaskClaimed(claim.clone()));
    acked(&mut bad, request.job);
    bad.say_all(closed(&claim));
    let result = bad.hear("the result", |message| match message {
        Message::TaskResult(result) if result.job == request.job => Some(result.clone()),
        _ => None,
    });
    bad.say_all(Message::PlacementRequest(Box::new(request.clone())));
    bad.say_all(Message::TaskClaimed(claim.clone()));
    bad.say_all(closed(&claim));
    // What comes after these is heard after these.
    let ack =
        landfall_negotiate::ResultAck { job: result.job, fence: result.fence, accepted: true, reason: None };
    bad.say_all(Message::ResultAck(ack));
    node.until("what it earned is booked", || shown(&node, &bad.id)["account"]["sold"] == 1);
    assert_eq!(begun(&marks), 1);
    assert_eq!(metric(&node, "landfall_placement_wins_total"), 1.0);

    // It asks for more than one peer may.
    for number in 10..90 {
        bad.say_all(Message::PlacementRequest(Box::new(bad.request(number, &body(json!({}))))));
    }
    until_counted(&node, &bad.id, "deeds", "flooded");
    until_below(&node, &bad.id, -9.0);
}

#[test]
fn whoever_lies_about_capacity_or_floods_falls_until_nobody_listens() {
    let (near, honest, mut bad) = three("");
    let other = NodeId::new(&id(&honest)).unwrap();

    // It has room until it is to give it.
    let job = near.submit(&["--cpu", "100m", "--", "true"]);
    let request = bad.asked();
    let fence = bad.win(&request);
    let (node, reason) = (bad.id.clone(), Reason::Capacity);
    bad.say(Message::AwardRefuse(AwardRefuse { job: request.job, fence, node, reason }));
    near.wait_for(&job, &["completed"]);
    assert_eq!(near.job(&job)["nodes"][0]["node"], other.as_str());
    assert_eq!(shown(&near, &bad.id)["deeds"]["overstated"], 1);

    // It announces more than there can be, and speaks for another.
    let capacity = bad.offer(&request).facts;
    let announce = |node: &NodeId, cpu_free| {
        let mut capacity = capacity.clone();
        capacity.cpu_free = cpu_free;
        let (node, runtimes) = (node.clone(), Vec::new());
        Message::NodeCapacityAnnounce(Box::new(NodeCapacityAnnounce {
            node,
            seq: u64::MAX,
            capacity,
            runtimes,
            updated_at: None,
        }))
    };
    let known = shown(&near, &other)["facts"].clone();
    bad.say_all(announce(&bad.id, 64_001));
    bad.say_all(announce(&other, 64_000));
    until_counted(&near, &bad.id, "deeds", "forged");
    until_counted(&near, &bad.id, "deeds", "invalid");
    assert_eq!(shown(&near, &other)["facts"]["cpu_milli"], known["cpu_milli"]);

    // Noise that is no connection, then more than one peer may say.
    let address = near.json(&["peer", "id"])["addresses"][0].as_str().unwrap().to_owned();
    let port = address.split('/').nth(4).unwrap().to_owned();
    let mut noise = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let _ = std::io::Write::write_all(&mut noise, &[0x5a; 100_000]);
    near.until("it stands so low that nobody listens", || {
        for renewal in 0..100 {
            let renew = LeaseRenew { job: request.job, fence, phase: Phase::Running, renewal };
            bad.say(Message::LeaseRenew(renew));
        }
        shown(&near, &bad.id)["standing"].as_f64().is_some_and(|standing| standing < -120.0)
    });
    until_counted(&near, &bad.id, "dropped", "flood");
    bad.say(Message::AwardAck(landfall_negotiate::AwardAck {
        job: request.job,
        fence,
        node: bad.id.clone(),
    }));
    until_counted(&near, &bad.id, "dropped", "low_standing");
    let page = near.run(&["peers", "show", bad.id.as_str()]).ok();
    for words in [
        "it is not listened to until this is above -80",
        "1 awards it had offered room for and had none",
        "1 messages in another's name",
        "messages beyond what one peer may say",
        "messages while it was not listened to",
    ] {
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains(words), "{words}: {page}");
    }
    // Whoever behaves is served as before.
    let job = near.submit(&["--cpu", "100m", "--", "true"]);
    near.wait_for(&job, &["completed"]);
    assert_eq!(near.job(&job)["nodes"][0]["node"], other.as_str());
}
