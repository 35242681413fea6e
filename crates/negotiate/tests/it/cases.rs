//! Acceptance cases of the protocol, with their exact instants.

use landfall_model::Digest;
use landfall_negotiate::wire::canonical;
use landfall_negotiate::{
    AwardAck, Closing, Effect, Failure, Fence, JobState, Message, Metric, OfferStatus, Phase, PlacementOffer,
    Reason, Received, Settings, Stage, Submission,
};

use super::net::{Event, Net, id};
use super::table::{calm, five, five_with, job, machine, submitter, trust, verdict};

fn status(net: &Net, digest: Digest, node: &str) -> OfferStatus {
    let offers = verdict(net, digest).offers;
    offers.iter().rev().find(|(_, offer)| offer.node == id(node)).map(|(_, offer)| offer.status).unwrap()
}

fn claims(net: &Net) -> Vec<(u64, String, u32)> {
    let claims = net.log.iter().filter_map(|(at, _, effect)| match effect {
        Effect::Broadcast { message: Message::TaskClaimed(claim) } => {
            Some((*at, claim.node.to_string(), claim.fence.attempt))
        }
        _ => None,
    });
    claims.collect()
}

fn closings(net: &Net) -> Vec<(u64, Closing)> {
    let closings = net.log.iter().filter_map(|(at, _, effect)| match effect {
        Effect::Broadcast { message: Message::PlacementClosed(closed) } => Some((*at, closed.outcome)),
        _ => None,
    });
    closings.collect()
}

fn requests(net: &Net) -> Vec<u64> {
    net.sent("arbiter", |m| matches!(m, Message::PlacementRequest(_) | Message::TaskSubmitted(_)))
}

fn durations(net: &Net) -> Vec<u64> {
    let found = net.log.iter().filter_map(|(_, _, effect)| match effect {
        Effect::Metric(Metric::DurationMs(ms)) => Some(*ms),
        _ => None,
    });
    found.collect()
}

fn wins(net: &Net) -> Vec<&'static str> {
    ["A", "B", "C", "D", "E"]
        .into_iter()
        .filter(|name| net.metrics(name, |m| matches!(m, Metric::Win)) == 1)
        .collect()
}

fn losses(net: &Net) -> Vec<&'static str> {
    ["A", "B", "C", "D", "E"]
        .into_iter()
        .filter(|name| net.metrics(name, |m| matches!(m, Metric::Loss)) == 1)
        .collect()
}

fn sound(net: &Net) {
    assert_eq!(net.broken, None);
}

#[test]
fn n15_five_nodes_without_faults() {
    let mut net = five();
    let digest = net.submit("arbiter", &job());
    net.run_until(3000);
    sound(&net);
    for (name, score) in [("A", 0.86), ("B", 0.78), ("C", 0.70), ("D", 0.62625)] {
        let offers = verdict(&net, digest).offers;
        let offer = &offers.iter().find(|(_, offer)| offer.node == id(name)).unwrap().1;
        assert!((offer.score.unwrap() - score).abs() < 1e-6, "{name}: {:?}", offer.score);
        assert_eq!(net.sent(name, |m| matches!(m, Message::PlacementOffer(_))), [510]);
        assert_eq!(offer.received_at.as_millis(), 520);
    }
    assert_eq!(net.metrics("", |m| matches!(m, Metric::RequestReceived)), 5);
    assert_eq!(net.metrics("", |m| matches!(m, Metric::OfferSent)), 4);
    assert_eq!(net.metrics("", |m| matches!(m, Metric::OfferReceived(Received::Accepted))), 4);
    assert_eq!(net.metrics("E", |m| matches!(m, Metric::Declined(Reason::SelfTrust))), 1);
    assert_eq!(verdict(&net, digest).declines, [(Reason::SelfTrust, 1)].into());
    assert_eq!(claims(&net), [(1000, "A".to_owned(), 1)]);
    assert_eq!(closings(&net), [(1020, Closing::Placed)]);
    assert_eq!(net.did("A", |e| matches!(e, Effect::Start(_))), [1030]);
    for name in ["B", "C", "D"] {
        assert_eq!(net.did(name, |e| matches!(e, Effect::Metric(Metric::Loss))), [1030]);
        assert!(net.peer(name).host().ledger().grants().is_empty());
    }
    assert_eq!((wins(&net), losses(&net), durations(&net)), (vec!["A"], vec!["B", "C", "D"], vec![1020]));
    assert_eq!(verdict(&net, digest).price, Some(10));
}

#[test]
fn an_offer_of_an_untrusted_node_is_rejected_all_the_same() {
    let mut net = five();
    let digest = net.submit("arbiter", &job());
    net.run_until(515);
    let offer = offer_of(&net, "B");
    net.at(
        530,
        Event::Inject {
            from: id("E"),
            to: id("arbiter"),
            message: Box::new(Message::PlacementOffer(Box::new(PlacementOffer { node: id("E"), ..offer }))),
        },
    );
    net.run_until(2000);
    assert_eq!(status(&net, digest, "E"), OfferStatus::Rejected(Reason::Trust));
    assert_eq!(wins(&net), ["A"]);
}

fn offer_of(net: &Net, name: &str) -> PlacementOffer {
    let by = id(name);
    let found = net.log.iter().find_map(|(_, peer, effect)| match effect {
        Effect::Send { message: Message::PlacementOffer(offer), .. } if *peer == by => {
            Some((**offer).clone())
        }
        _ => None,
    });
    found.unwrap()
}

#[test]
fn n16_a_silent_winner() {
    let mut net = five();
    net.mute.insert(id("A"), 600);
    let digest = net.submit("arbiter", &job());
    let ack = AwardAck { job: digest, fence: Fence { epoch: 1, attempt: 1 }, node: id("A") };
    net.at(
        1600,
        Event::Inject { from: id("A"), to: id("arbiter"), message: Box::new(Message::AwardAck(ack)) },
    );
    net.run_until(4000);
    sound(&net);
    assert_eq!(claims(&net), [(1000, "A".to_owned(), 1), (1500, "B".to_owned(), 2)]);
    assert_eq!((closings(&net), durations(&net)), (vec![(1520, Closing::Placed)], vec![1520]));
    assert_eq!((wins(&net), losses(&net)), (vec!["B"], vec!["C", "D"]));
    assert_eq!(status(&net, digest, "A"), OfferStatus::Failed);
    assert_eq!(status(&net, digest, "B"), OfferStatus::Won);
    assert_eq!(net.sent("arbiter", |m| matches!(m, Message::Revoke(_))), [1600]);
    assert!(net.peer("A").host().jobs().is_empty());
}

#[test]
fn n17_three_silent_winners() {
    let mut net = five();
    for name in ["A", "B", "C"] {
        net.mute.insert(id(name), 600);
    }
    net.submit("arbiter", &job());
    net.run_until(3600);
    sound(&net);
    let times: Vec<u64> = claims(&net).iter().map(|(at, ..)| *at).collect();
    assert_eq!(times, [1000, 1500, 2000]);
    assert_eq!(closings(&net), [(2500, Closing::NoOffer)]);
    assert_eq!(requests(&net), [0, 3500]);
}

#[test]
fn n18_no_peers() {
    let mut net = Net::new(1, calm(10));
    net.add("arbiter", submitter(), trust(&[]), None);
    let digest = net.submit("arbiter", &job());
    net.run_until(5999);
    assert!(verdict(&net, digest).state.is_live());
    net.run_until(10_000);
    sound(&net);
    assert_eq!(requests(&net), [0, 2000, 5000]);
    assert_eq!(verdict(&net, digest).state, JobState::Failed(Failure::NoOffers));
    assert_eq!(
        net.did("arbiter", |e| matches!(e, Effect::Metric(Metric::Failed(Failure::NoOffers)))),
        [6000]
    );
}

#[test]
fn n19_the_winner_is_cut_off() {
    let mut net = five();
    net.stop_spread = 2000;
    net.probe_every = 30_000;
    let digest = net.submit("arbiter", &job());
    net.at(5000, Event::CutOff { peers: [id("A")].into() });
    net.run_until(25_000);
    sound(&net);
    assert_eq!(net.sent("A", |m| matches!(m, Message::LeaseRenew(_)))[0], 4030);
    assert_eq!(net.did("A", |e| matches!(e, Effect::Stop { .. })), [14_030]);
    assert_eq!(requests(&net), [0, 19_040]);
    assert_eq!(wins(&net), ["A", "B"]);
    let attempts: Vec<u32> = claims(&net).iter().map(|(.., attempt)| *attempt).collect();
    assert_eq!(attempts, [1, 3], "the lost lease made attempt 1 void");
    assert_eq!(net.metrics("arbiter", |m| matches!(m, Metric::LeaseLost)), 1);
    assert_eq!(verdict(&net, digest).state, JobState::Running);
}

#[test]
fn n20_offers_that_cannot_win() {
    let mut net = five();
    net.mute.insert(id("D"), 400);
    let digest = net.submit("arbiter", &job());
    net.run_until(900);
    let (a, d) = (offer_of(&net, "A"), offer_of(&net, "D"));
    let inject = |net: &mut Net, at, from: &str, offer: PlacementOffer| {
        let message = Box::new(Message::PlacementOffer(Box::new(offer)));
        net.at(at, Event::Inject { from: id(from), to: id("arbiter"), message });
    };
    inject(&mut net, 1001, "D", d);
    inject(&mut net, 910, "A", PlacementOffer { cost: 1, ..a.clone() });
    inject(&mut net, 911, "E", PlacementOffer { cost: 1, ..a.clone() });
    let mut lies = PlacementOffer { node: id("X"), ..a.clone() };
    lies.facts.cpu_free = lies.facts.cpu_total + 1;
    inject(&mut net, 912, "X", lies);
    inject(&mut net, 913, "Y", PlacementOffer { node: id("Y"), score: f64::NAN, ..a.clone() });
    inject(&mut net, 914, "Z", PlacementOffer { node: id("Z"), round: 7, ..a });
    net.run_until(3000);
    sound(&net);
    assert_eq!(status(&net, digest, "D"), OfferStatus::Late);
    assert_eq!(status(&net, digest, "X"), OfferStatus::Rejected(Reason::Invalid));
    assert_eq!(status(&net, digest, "Y"), OfferStatus::Rejected(Reason::Invalid));
    let of_a = verdict(&net, digest).offers.iter().filter(|(_, o)| o.node == id("A")).count();
    assert_eq!((of_a, verdict(&net, digest).price), (1, Some(10)), "the first stands");
    assert_eq!(net.metrics("arbiter", |m| matches!(m, Metric::OfferReceived(Received::Duplicate))), 1);
    assert_eq!(net.metrics("arbiter", |m| matches!(m, Metric::OfferReceived(Received::Late))), 1);
    assert_eq!(net.metrics("arbiter", |m| matches!(m, Metric::OfferReceived(Received::Rejected))), 3);
    assert_eq!(net.metrics("arbiter", |m| matches!(m, Metric::MessageRejected(Reason::Forged))), 1);
    let to_d = net.did(
        "arbiter",
        |e| matches!(e, Effect::Send { to, message: Message::PlacementClosed(_) } if *to == id("D")),
    );
    assert_eq!(to_d, [1001]);
}

#[test]
fn a_nan_survives_the_wire_so_that_the_arbiter_can_call_it_invalid() {
    use landfall_negotiate::wire::{Channel, Envelope, decode, encode};
    let mut net = five();
    net.submit("arbiter", &job());
    net.run_until(600);
    let offer = PlacementOffer { score: f64::NAN, ..offer_of(&net, "A") };
    let bytes = encode(&Envelope::to_all(Message::PlacementOffer(Box::new(offer))), Channel::Gossip).unwrap();
    let Message::PlacementOffer(read) = decode(&bytes, Channel::Gossip).unwrap().message else { panic!() };
    assert!(read.score.is_nan());
}

#[test]
fn n21_the_higher_class_goes_first() {
    for order in [[5, 8], [8, 5]] {
        let mut net = Net::new(1, calm(10));
        net.add("arbiter", submitter(), trust(&[("N", 1.0)]), None);
        net.add("N", Settings::default(), trust(&[("arbiter", 1.0)]), Some(machine(4, 8192)));
        let jobs = order.map(|class| {
            let mut job = Submission { class, nonce: class.into(), ..job() };
            job.profile.as_mut().unwrap().cpu_milli = Some(3000);
            (class, net.submit("arbiter", &job))
        });
        net.run_until(900);
        sound(&net);
        for (class, digest) in jobs {
            let verdict = verdict(&net, digest);
            if class == 8 {
                assert_eq!((verdict.offers.len(), verdict.declines.len()), (1, 0));
            } else {
                assert!(verdict.offers.is_empty());
                assert_eq!(verdict.declines, [(Reason::DoesNotFit, 1)].into());
            }
        }
    }
}

#[test]
fn n25_the_simple_path() {
    let mut net = Net::new(1, calm(10));
    net.add("arbiter", submitter(), trust(&[("N", 1.0)]), None);
    net.add("N", Settings::default(), trust(&[("arbiter", 1.0)]), Some(machine(4, 8192)));
    let digest = net.submit("arbiter", &Submission { profile: None, ..job() });
    net.run_until(1000);
    sound(&net);
    let offer = verdict(&net, digest).offers[0].1.clone();
    assert_eq!((offer.received_at.as_millis(), offer.status), (20, OfferStatus::Won));
    assert_eq!(claims(&net), [(20, "N".to_owned(), 1)]);
    assert_eq!((closings(&net), durations(&net)), (vec![(40, Closing::Placed)], vec![40]));
    assert_eq!(net.peer("N").host().ledger().grants()[&digest].cpu_milli, 100);
}

#[test]
fn the_simple_path_ranks_offers_of_one_instant_and_calls_silence_a_round() {
    let mut net = five();
    net.submit("arbiter", &Submission { profile: None, ..job() });
    net.run_until(500);
    assert_eq!(claims(&net), [(20, "A".to_owned(), 1)], "all four came at 20; the best of them");
    let mut net = Net::new(1, calm(10));
    net.add("arbiter", submitter(), trust(&[]), None);
    net.submit("arbiter", &Submission { profile: None, ..job() });
    net.run_until(10_000);
    assert_eq!(requests(&net), [0, 2000, 5000]);
}

#[test]
fn n27_cancel_while_deliberating() {
    let mut net = five();
    let digest = net.submit("arbiter", &job());
    net.at(700, Event::Cancel { peer: id("arbiter"), job: digest });
    net.run_until(709);
    assert_eq!(net.peer("A").host().ledger().grants().len(), 1);
    net.run_until(710);
    for name in ["A", "B", "C", "D"] {
        assert!(net.peer(name).host().ledger().grants().is_empty());
        assert_eq!(status(&net, digest, name), OfferStatus::Void);
    }
    net.run_until(5000);
    sound(&net);
    assert_eq!(verdict(&net, digest).state, JobState::Cancelled);
    assert!(claims(&net).is_empty());
    assert_eq!(closings(&net), [(700, Closing::Cancelled)]);
}

#[test]
fn n28_the_arbiter_restarts_while_the_job_runs() {
    let mut net = five();
    // Three earlier starts.
    for at in [1, 2, 3] {
        net.at(at, Event::Crash { peer: id("arbiter") });
        net.at(at, Event::Restart { peer: id("arbiter"), reboot: false });
    }
    net.run_until(10);
    let digest = net.submit("arbiter", &job());
    net.run_until(2000);
    let fence = |net: &Net| net.peer("A").host().jobs()[&digest].stage.fence().unwrap();
    assert_eq!(fence(&net), Fence { epoch: 4, attempt: 1 });
    net.at(2500, Event::Crash { peer: id("arbiter") });
    net.at(3000, Event::Restart { peer: id("arbiter"), reboot: true });
    net.run_until(5000);
    assert_eq!(fence(&net), Fence { epoch: 5, attempt: 1 });
    net.run_until(60_000);
    sound(&net);
    assert_eq!(verdict(&net, digest).state, JobState::Running);
    assert!(
        matches!(&net.peer("A").host().jobs()[&digest].stage, Stage::Running(run) if run.phase == Phase::Running)
    );
    assert_eq!(net.did("A", |e| matches!(e, Effect::Start(_) | Effect::Stop { .. })).len(), 1);
}

#[test]
fn n30_the_same_seed_gives_the_same_bytes() {
    let effects = |seed: u64| {
        let faults = super::net::Faults { delay_spread: 400, loss_pct: 10, dup_pct: 10, ..calm(1) };
        let mut net = five_with(seed, faults, &Settings::default());
        (0..4).for_each(|nonce| {
            net.submit("arbiter", &Submission { nonce, ..job() });
        });
        net.run_until(60_000);
        net.log
            .iter()
            .map(|(at, by, effect)| (*at, by.clone(), canonical(effect).unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(effects(7), effects(7));
    assert_ne!(effects(7), effects(8));
}

#[test]
fn five_nodes_over_a_thousand_seeds_of_delay() {
    for seed in 0..1000 {
        let faults = super::net::Faults { delay_spread: 240, ..calm(1) };
        let mut net = five_with(seed, faults, &Settings::default());
        let digest = net.submit("arbiter", &job());
        net.run_until(2500);
        assert_eq!(net.broken, None, "seed {seed}");
        let offers = net.metrics("arbiter", |m| matches!(m, Metric::OfferReceived(Received::Accepted)));
        assert_eq!(offers, 4, "seed {seed}");
        assert_eq!(wins(&net), ["A"], "seed {seed}");
        assert_eq!(losses(&net), ["B", "C", "D"], "seed {seed}");
        assert_eq!(verdict(&net, digest).state, JobState::Running, "seed {seed}");
    }
}
