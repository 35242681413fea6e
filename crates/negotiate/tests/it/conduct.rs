//! What peers do to each other is remembered, and moves trust only if that is wanted.

use landfall_negotiate::{
    Closing, Deed, Fence, Input, Message, Metric, PlacementClosed, Reason, Settings, Stage, TaskClaimed,
};

use super::net::{Event, Net, id};
use super::table::{calm, five, five_with, job, verdict};

fn deeds(net: &Net, by: &str, of: &str) -> Vec<(Deed, u64)> {
    let known = net.peer(by).conduct().get(&id(of));
    known
        .map(|conduct| conduct.deeds.iter().map(|(deed, times)| (*deed, *times)).collect())
        .unwrap_or_default()
}

#[test]
fn a_silent_winner_is_remembered_and_loses_trust_only_if_wanted() {
    for (moves, trust) in [(false, 0.9), (true, 0.85)] {
        let settings = Settings { trust_moves: moves, ..Settings::default() };
        let mut net = five_with(1, calm(10), &settings);
        net.mute.insert(id("A"), 900);
        let digest = net.submit("arbiter", &job());
        net.run_until(3000);
        assert_eq!(deeds(&net, "arbiter", "A"), [(Deed::Silent, 1)]);
        assert!((net.peer("arbiter").trust_in(&id("A")) - trust).abs() < 1e-9);
        assert_eq!(verdict(&net, digest).winner, Some(id("B")));
        // What somebody says anew counts from there.
        let table = net.peer("arbiter").trust().clone().with(id("A"), Some(0.6)).unwrap();
        let now = net.slots[&id("arbiter")].local(net.now);
        let arbiter = net.slots.get_mut(&id("arbiter")).unwrap().peer.as_mut().unwrap();
        arbiter.step(now, Input::Trust(table));
        assert_eq!(arbiter.trust_in(&id("A")), 0.6);
    }
}

#[test]
fn a_kept_promise_is_remembered_over_a_restart_and_paid_on_both_sides() {
    let mut net = five();
    net.run_ms = 1000;
    net.submit("arbiter", &job());
    net.run_until(10_000);
    assert_eq!(deeds(&net, "arbiter", "A"), [(Deed::Kept, 1)]);
    let paid = |effect: &landfall_negotiate::Effect| match effect {
        landfall_negotiate::Effect::Journal(landfall_negotiate::Entry::Accepted { charge, .. }) => {
            Some(*charge)
        }
        landfall_negotiate::Effect::Journal(landfall_negotiate::Entry::Earned { charge, .. }) => {
            Some(*charge)
        }
        _ => None,
    };
    let booked: Vec<u64> = net.log.iter().filter_map(|(_, _, effect)| paid(effect)).collect();
    assert_eq!(booked, [10, 10], "once by each");
    net.at(net.now, Event::Crash { peer: id("arbiter") });
    net.at(net.now + 10, Event::Restart { peer: id("arbiter"), reboot: false });
    net.run_until(11_000);
    assert_eq!(deeds(&net, "arbiter", "A"), [(Deed::Kept, 1)]);
}

#[test]
fn one_award_for_two_is_run_by_neither() {
    let mut net = five();
    let digest = net.submit("arbiter", &job());
    net.run_until(1015);
    let held = |net: &Net| net.peer("A").host().jobs().get(&digest).map(|job| job.stage.clone());
    assert!(matches!(held(&net), Some(Stage::Reserved { .. })));
    let fence = Fence { epoch: 1, attempt: 1 };
    let second = TaskClaimed { job: digest, fence, node: id("B"), price: 10, lease_ms: 15_000 };
    for to in ["A", "B"] {
        let message = Box::new(Message::TaskClaimed(second.clone()));
        net.at(1016, Event::Inject { from: id("arbiter"), to: id(to), message });
    }
    net.run_until(1016);
    assert_eq!((held(&net), deeds(&net, "A", "arbiter")), (None, vec![(Deed::ClaimedTwice, 1)]));
    assert!(matches!(net.peer("B").host().jobs()[&digest].stage, Stage::Offered));
    // Not even the closing starts it.
    let closed = PlacementClosed { job: digest, fence, outcome: Closing::Placed, winner: Some(id("A")) };
    let message = Box::new(Message::PlacementClosed(closed));
    net.at(1017, Event::Inject { from: id("arbiter"), to: id("A"), message });
    net.run_until(1100);
    assert_eq!(net.tally[0], 0, "nothing was started");
}

#[test]
fn a_request_that_the_node_will_not_have_is_declined_with_its_reasons() {
    let mut net = five();
    let digest = net.submit("arbiter", &job());
    net.run_until(5);
    let request = net.log.iter().find_map(|(_, _, effect)| match effect {
        landfall_negotiate::Effect::Broadcast { message: Message::PlacementRequest(request) } => {
            Some(request.clone())
        }
        _ => None,
    });
    let reasons = vec![Reason::ForeignEnvironment];
    let now = net.slots[&id("A")].local(net.now);
    let node = net.slots.get_mut(&id("A")).unwrap().peer.as_mut().unwrap();
    let effects =
        node.step(now, Input::Unwilling { from: id("arbiter"), request: request.unwrap(), reasons });
    let declined = Metric::Declined(Reason::ForeignEnvironment);
    assert!(effects.contains(&landfall_negotiate::Effect::Metric(declined)), "{effects:?}");
    // The copy that comes by the usual way changes nothing.
    net.run_until(3000);
    assert_eq!(verdict(&net, digest).winner, Some(id("B")));
}
