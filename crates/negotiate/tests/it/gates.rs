//! Gates, bounds, bodies, results and what else a single exchange shows.

use std::collections::BTreeMap;

use landfall_model::{Name, Scope, Time};
use landfall_negotiate::{
    Blob, Effect, Failure, Input, JobState, Member, Message, Metric, OfferStatus, Peer, Probe, Profile,
    Reason, Settings, Stage, Submission, TrustTable, Verdict,
};

use super::net::{Event, Net, id};
use super::table::{TRUST, calm, five, five_with, job, machine, submitter, trust, verdict};

/// One arbiter and one node, each with its own trust table.
fn pair(arbiter: TrustTable, node: TrustTable, settings: Settings, probe: Probe) -> Net {
    let mut net = Net::new(1, calm(10));
    net.probe_every = 0;
    net.add("N", settings.clone(), node, Some(probe));
    net.add("arbiter", Settings { runs_work: false, ..settings }, arbiter, None);
    net
}

fn trusting() -> (TrustTable, TrustTable) {
    (trust(&[("N", 1.0)]), trust(&[("arbiter", 1.0)]))
}

fn outcome(net: &mut Net, job: &Submission, until: u64) -> Verdict {
    let digest = net.submit("arbiter", job);
    net.run_until(until);
    assert_eq!(net.broken, None);
    verdict(net, digest)
}

fn declined(verdict: &Verdict) -> Vec<Reason> {
    verdict.declines.keys().copied().collect()
}

#[test]
fn n10_budgets() {
    let queue = Probe { queued: [(Scope::Commons, 6)].into(), ..machine(4, 8192) };
    for (max_cost, wins) in [(Some(12), false), (Some(15), true), (None, true)] {
        let (a, n) = trusting();
        let mut net = pair(a, n, Settings::default(), queue.clone());
        let verdict = outcome(&mut net, &Submission { max_cost, ..job() }, 7000);
        if wins {
            assert_eq!((verdict.state, verdict.price), (JobState::Running, Some(15)));
        } else {
            assert_eq!(declined(&verdict), [Reason::OverBudget]);
            assert_eq!(verdict.state, JobState::Failed(Failure::NoAffordableOffer));
        }
    }
}

#[test]
fn n10_an_offer_over_budget_is_rejected_all_the_same() {
    let mut net = five();
    let digest = net.submit("arbiter", &Submission { max_cost: Some(12), ..job() });
    net.run_until(600);
    let offer = net.log.iter().find_map(|(_, _, effect)| match effect {
        Effect::Send { message: Message::PlacementOffer(offer), .. } => Some(offer.clone()),
        _ => None,
    });
    let mut offer = offer.unwrap();
    (offer.node, offer.cost) = (id("X"), 15);
    let table = trust(&[TRUST.as_slice(), &[("X", 1.0)]].concat());
    let slot = net.slots.get_mut(&id("arbiter")).unwrap();
    slot.peer.as_mut().unwrap().step(Time::from_millis(600), Input::Trust(table));
    net.at(
        700,
        Event::Inject { from: id("X"), to: id("arbiter"), message: Box::new(Message::PlacementOffer(offer)) },
    );
    net.run_until(900);
    let found = verdict(&net, digest).offers.iter().find(|(_, o)| o.node == id("X")).map(|(_, o)| o.status);
    assert_eq!(found, Some(OfferStatus::Rejected(Reason::OverBudget)));
}

#[test]
fn n22_probes_go_stale() {
    for (asked_at, stale) in [(89_490, false), (89_491, true)] {
        let (a, n) = trusting();
        let mut net = pair(a, n, Settings::default(), machine(4, 8192));
        net.run_until(asked_at);
        // Received 10 later, considered 500 after that: the probe of 0 is 90 000 old, or one more.
        let verdict = outcome(&mut net, &job(), asked_at + 600);
        assert_eq!(declined(&verdict) == [Reason::StaleCapacity], stale);
        assert_eq!(verdict.offers.is_empty(), stale);
    }
}

#[test]
fn a_node_that_never_probed_does_not_offer() {
    let mut net = Net::new(1, calm(10));
    net.add("arbiter", submitter(), trust(&[("N", 1.0)]), None);
    net.add("N", Settings::default(), trust(&[("arbiter", 1.0)]), None);
    assert_eq!(declined(&outcome(&mut net, &job(), 900)), [Reason::StaleCapacity]);
}

#[test]
fn n23_scopes_have_slots() {
    for (queued, full) in [(10, false), (20, true)] {
        let near = Member { scope: Scope::Cell, cell: None };
        let table = TrustTable::new([(id("arbiter"), 1.0)].into(), [(id("arbiter"), near)].into()).unwrap();
        let probe = Probe { queued: [(Scope::Cell, queued)].into(), ..machine(8, 16_384) };
        let settings = Settings { scope_budget: true, ..Settings::default() };
        let mut net = pair(trust(&[("N", 1.0)]), table, settings, probe);
        let mut small = job();
        small.profile = Some(Profile { cpu_milli: Some(100), ..Profile::default() });
        let verdict = outcome(&mut net, &small, 900);
        assert_eq!(declined(&verdict), if full { vec![Reason::ScopeFull] } else { vec![] });
    }
}

#[test]
fn n24_shares_follow_the_queue_every_minute() {
    let settings = Settings { scope_adapt: true, ..Settings::default() };
    let (a, n) = trusting();
    let probe = Probe { queued: [(Scope::Local, 8), (Scope::Cell, 2)].into(), ..machine(8, 16_384) };
    let mut net = pair(a, n, settings, probe);
    net.run_until(59_999);
    assert_eq!(net.peer("N").host().share(Scope::Local), 0.30);
    net.run_until(60_000);
    let host = net.peer("N").host();
    for (scope, want) in
        [(Scope::Local, 0.315), (Scope::Cell, 0.235), (Scope::Org, 0.20), (Scope::Commons, 0.10)]
    {
        assert!((host.share(scope) - want).abs() < 1e-6);
    }
}

#[test]
fn n26_trust_gates() {
    for (in_submitter, in_node, declines, rejected) in [
        (0.1, 0.3, None, None),
        (0.09, 1.0, Some(Reason::SubmitterTrust), None),
        (1.0, 0.29, None, Some(Reason::Trust)),
    ] {
        let mut net = pair(
            trust(&[("N", in_node)]),
            trust(&[("arbiter", in_submitter)]),
            Settings::default(),
            machine(4, 8192),
        );
        let verdict = outcome(&mut net, &job(), 1100);
        assert_eq!(declined(&verdict), declines.into_iter().collect::<Vec<_>>());
        let status = verdict.offers.first().map(|(_, offer)| offer.status);
        assert_eq!(status == rejected.map(OfferStatus::Rejected), rejected.is_some() || status.is_none());
        assert_eq!(verdict.state == JobState::Running, declines.is_none() && rejected.is_none());
    }
    let mut peer = Peer::new(id("arbiter"), submitter()).unwrap();
    let stranger = Submission { submitter: id("stranger"), ..job() };
    let (answer, effects) = peer.submit(Time::ZERO, stranger);
    assert_eq!((answer.unwrap_err().reason, effects.len()), (Reason::SubmitterTrust, 0));
}

#[test]
fn only_untrusted_offers_is_a_reason_of_its_own() {
    let mut net =
        pair(trust(&[("N", 0.1)]), trust(&[("arbiter", 1.0)]), Settings::default(), machine(4, 8192));
    assert_eq!(outcome(&mut net, &job(), 7000).state, JobState::Failed(Failure::NoTrustedOffer));
}

#[test]
fn n29_avoiding_beats_preferring() {
    let mut net = five();
    let mut job = job();
    (job.hints.avoid_peers, job.hints.prefer_peers) = (vec![id("A")], vec![id("A")]);
    let verdict = outcome(&mut net, &job, 2000);
    assert_eq!(net.metrics("A", |m| matches!(m, Metric::Declined(Reason::Avoided))), 1);
    assert_eq!(verdict.winner, Some(id("B")));
}

#[test]
fn resubmitting_a_live_job_returns_it_and_a_finished_one_needs_a_new_nonce() {
    let mut peer = Peer::new(id("arbiter"), submitter()).unwrap();
    let (first, _) = peer.submit(Time::ZERO, job());
    let before = peer.clone();
    let (again, effects) = peer.submit(Time::from_millis(5), job());
    assert_eq!((first, effects.len(), &peer), (again, 0, &before));
    peer.step(Time::from_millis(6), Input::Cancel { job: first.unwrap() });
    assert_eq!(peer.submit(Time::from_millis(7), job()).0.unwrap_err().reason, Reason::Finished);
    assert!(peer.submit(Time::from_millis(8), Submission { nonce: 2, ..job() }).0.is_ok());
    let gang = Submission { nodes: 2, ..job() };
    assert_eq!(peer.submit(Time::from_millis(9), gang).0.unwrap_err().reason, Reason::GangUnsupported);
}

#[test]
fn open_negotiations_are_bounded() {
    let settings = Settings { open_negotiations_max: 2, ..submitter() };
    let mut peer = Peer::new(id("arbiter"), settings).unwrap();
    let answers: Vec<bool> =
        (0..3).map(|nonce| peer.submit(Time::ZERO, Submission { nonce, ..job() }).0.is_ok()).collect();
    assert_eq!(answers, [true, true, false]);
}

#[test]
fn a_node_holds_little_for_one_submitter_and_answers_few_requests_of_one_peer() {
    let (a, n) = trusting();
    let mut net = pair(a, n, Settings::default(), machine(64, 131_072));
    for nonce in 0..60 {
        let mut small = Submission { nonce, ..job() };
        small.profile = Some(Profile::minimal());
        net.submit("arbiter", &small);
    }
    net.run_until(900);
    assert_eq!(net.broken, None);
    assert_eq!(net.peer("N").host().ledger().grants().len(), 4);
    assert_eq!(net.metrics("N", |m| matches!(m, Metric::Declined(Reason::RequestsPerPeer))), 10);
    assert_eq!(net.metrics("N", |m| matches!(m, Metric::Declined(Reason::HoldsPerSubmitter))), 46);
}

#[test]
fn a_result_is_charged_once_and_repeated_until_it_is_acknowledged() {
    let (a, n) = trusting();
    let mut net = pair(a, n, Settings::default(), machine(4, 8192));
    net.run_ms = 2;
    let digest = net.submit("arbiter", &job());
    net.at(1031, Event::CutOff { peers: [id("N")].into() });
    net.at(4500, Event::CutOff { peers: [].into() });
    net.run_until(6000);
    assert_eq!(net.broken, None);
    let verdict = verdict(&net, digest);
    assert_eq!((verdict.state, verdict.charge), (JobState::Completed, Some(10)));
    assert!(net.sent("N", |m| matches!(m, Message::TaskResult(_))).len() >= 4);
    assert!(net.peer("N").host().jobs().is_empty());
    assert!(net.slots[&id("N")].durable.runs.is_empty());
}

#[test]
fn a_large_body_is_fetched_and_checked() {
    let (a, n) = trusting();
    let mut net = pair(a, n, Settings::default(), machine(4, 8192));
    let large = Submission { body: Blob::new(vec![7; 100_000]), ..job() };
    let digest = net.submit("arbiter", &large);
    net.run_until(2000);
    assert_eq!(net.did("N", |e| matches!(e, Effect::Start(_))), [1050], "asked at 1030, came at 1050");
    assert_eq!(verdict(&net, digest).state, JobState::Running);
}

#[test]
fn a_body_that_never_comes_fails_the_job_after_half_the_lease() {
    let (a, n) = trusting();
    let mut net = pair(a, n, Settings::default(), machine(4, 8192));
    let digest = net.submit("arbiter", &Submission { body: Blob::new(vec![7; 100_000]), ..job() });
    net.run_until(1029);
    // The arbiter answers requests for bodies with silence from now on, but takes results.
    net.mute.insert(id("arbiter"), 1029);
    let other = Message::Body { bytes: Blob::new(vec![8; 100_000]) };
    net.at(2000, Event::Inject { from: id("arbiter"), to: id("N"), message: Box::new(other) });
    net.run_until(9000);
    assert!(net.did("N", |e| matches!(e, Effect::Start(_))).is_empty(), "other bytes start nothing");
    assert_eq!(net.broken, None);
    assert_eq!(net.sent("N", |m| matches!(m, Message::TaskResult(_)))[0], 1030 + 7500);
    assert_eq!(verdict(&net, digest).state, JobState::Failed(Failure::BodyUnavailable));
    assert_eq!(verdict(&net, digest).charge, Some(0));
}

#[test]
fn the_deadline_ends_a_job_wherever_it_is() {
    let (a, n) = trusting();
    let mut net = pair(a, n, Settings::default(), machine(4, 8192));
    let digest = net.submit("arbiter", &Submission { deadline_ms: Some(3000), ..job() });
    net.at(2500, Event::CutOff { peers: [id("N")].into() });
    net.run_until(3500);
    assert_eq!(net.broken, None);
    assert_eq!(verdict(&net, digest).state, JobState::Failed(Failure::Deadline));
    assert_eq!(
        net.did("N", |e| matches!(e, Effect::Stop { .. })),
        [3010],
        "3000 after it received the request"
    );
    assert!(net.peer("N").host().ledger().grants().is_empty());
}

#[test]
fn a_dry_run_ranks_and_holds_nothing() {
    let mut net = five();
    let digest = net.submit("arbiter", &Submission { dry_run: true, ..job() });
    net.run_until(990);
    assert!(["A", "B", "C", "D"].iter().all(|name| net.peer(name).host().jobs().is_empty()));
    net.run_until(3000);
    assert_eq!(net.broken, None);
    let verdict = verdict(&net, digest);
    let order: Vec<_> = verdict.offers.iter().map(|(_, offer)| offer.node.to_string()).collect();
    assert_eq!((verdict.state, order.join("")), (JobState::Ranked, "ABCD".to_owned()));
    assert!(verdict.offers.iter().all(|(_, offer)| offer.status == OfferStatus::Void));
    assert!(net.sent("arbiter", |m| matches!(m, Message::TaskClaimed(_))).is_empty());
}

#[test]
fn early_close_waits_for_deliberation_and_for_everybody_known() {
    let settings = Settings { early_close: true, ..Settings::default() };
    let mut net = five_with(1, calm(10), &settings);
    net.run_until(100);
    net.submit("arbiter", &job());
    net.run_until(5000);
    assert_eq!(net.broken, None);
    // Asked at 100; the last of A to D answers at 620, which is after deliberation (600).
    assert_eq!(net.sent("arbiter", |m| matches!(m, Message::TaskClaimed(_))), [620]);
}

#[test]
fn each_round_reaches_further() {
    let member = |scope| Member { scope, cell: None };
    let near: BTreeMap<_, _> = [(id("N"), member(Scope::Org))].into();
    let table = TrustTable::new([(id("N"), 1.0)].into(), near).unwrap();
    let own =
        TrustTable::new([(id("arbiter"), 1.0)].into(), [(id("arbiter"), member(Scope::Org))].into()).unwrap();
    let mut net = pair(table, own, Settings::default(), machine(4, 8192));
    let job = Submission { start_scope: Some(Scope::Cell), ..job() };
    let verdict = outcome(&mut net, &job, 3500);
    assert_eq!(declined(&verdict), [Reason::Scope]);
    assert_eq!((verdict.state, verdict.round), (JobState::Running, 2));
}

#[test]
fn a_node_without_the_runtime_declines() {
    let (a, n) = trusting();
    let name = |text: &str| Name::new(text).unwrap();
    let probe = Probe { runtimes: [name("wasm")].into(), ..machine(4, 8192) };
    let mut net = pair(a.clone(), n.clone(), Settings::default(), probe.clone());
    let asks =
        |runtimes: &[&str]| Submission { runtimes: runtimes.iter().map(|r| name(r)).collect(), ..job() };
    assert_eq!(declined(&outcome(&mut net, &asks(&["process"]), 900)), [Reason::RuntimeMissing]);
    let mut net = pair(a, n, Settings::default(), probe);
    assert_eq!(outcome(&mut net, &asks(&["process", "wasm"]), 1500).state, JobState::Running);
}

#[test]
fn a_peer_can_run_its_own_job() {
    let mut net = Net::new(1, calm(10));
    net.add("solo", Settings::default(), trust(&[("solo", 1.0)]), Some(machine(4, 8192)));
    let job = Submission { submitter: id("solo"), ..job() };
    let digest = net.submit("solo", &job);
    net.run_until(1500);
    assert_eq!(net.broken, None);
    assert_eq!(net.peer("solo").jobs()[&digest].progress.state, JobState::Running);
    assert!(matches!(net.peer("solo").host().jobs()[&digest].stage, Stage::Running(_)));
}

#[test]
fn a_node_that_restarts_goes_on_within_its_boot_and_stops_after_another() {
    for (reboot, down_ms, goes_on) in [(false, 2000, true), (true, 2000, false), (false, 12_000, false)] {
        let (a, n) = trusting();
        let mut net = pair(a, n, Settings::default(), machine(4, 8192));
        let digest = net.submit("arbiter", &job());
        net.at(2000, Event::Crash { peer: id("N") });
        net.at(2000 + down_ms, Event::Restart { peer: id("N"), reboot });
        net.run_until(2000 + down_ms + 20);
        assert_eq!(net.broken, None);
        assert_eq!(net.peer("N").host().jobs().contains_key(&digest), goes_on, "{reboot} {down_ms}");
        let renewed = net.sent("N", |m| matches!(m, Message::LeaseRenew(_)));
        assert_eq!(renewed == [2000 + down_ms], goes_on, "it renews at once");
    }
}

#[test]
fn the_whole_peer_survives_its_own_serialisation() {
    let mut net = five();
    net.submit("arbiter", &job());
    net.run_until(2000);
    for slot in net.slots.values() {
        let peer = slot.peer.as_ref().unwrap();
        let value = ciborium::Value::serialized(peer).unwrap();
        assert_eq!(value.deserialized::<Peer>().unwrap(), *peer);
    }
}

/// A policy file of the peers' own judges offers: one filter more, and the work goes elsewhere.
#[test]
fn one_filter_more_decides_among_offers() {
    let winner = |filter: Option<&str>| {
        let mut spec = landfall_policy::builtin::spec("offer-standard").unwrap().unwrap();
        spec.filters.retain(|used| used.name != "peer-avoided" || filter == Some("peer-avoided"));
        let settings = Settings { policy: landfall_policy::policy_file::text(&spec), ..Settings::default() };
        let mut net = five_with(1, calm(10), &settings);
        let mut job = job();
        job.hints.avoid_peers = vec![id("A")];
        let digest = net.submit("arbiter", &job);
        net.run_until(3000);
        verdict(&net, digest).winner.map(|node| node.to_string())
    };
    assert_eq!(winner(None).as_deref(), Some("A"));
    assert_eq!(winner(Some("peer-avoided")).as_deref(), Some("B"));
    let settings = Settings { policy: Some("name = 3".into()), ..Settings::default() };
    assert_eq!(settings.validate().unwrap_err().field, "policy");
}
