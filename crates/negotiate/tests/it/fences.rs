//! Older fences are ignored everywhere, one exchange at a time.

use landfall_model::{Digest, Time};
use landfall_negotiate::{
    AwardAck, Effect, Fence, JobState, LeaseGrant, Message, OfferStatus, Stage, TaskClaimed, TaskOutcome,
    TaskResult,
};

use super::net::{Event, Net, id};
use super::table::{five, job, verdict};

fn inject(net: &mut Net, at: u64, from: &str, to: &str, message: Message) {
    net.at(at, Event::Inject { from: id(from), to: id(to), message: Box::new(message) });
}

fn fence(attempt: u32) -> Fence {
    Fence { epoch: 1, attempt }
}

fn self_stop_of(net: &Net, digest: Digest) -> Time {
    match &net.peer("A").host().jobs()[&digest].stage {
        Stage::Running(run) => run.self_stop_at,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_late_grant_counts_from_the_renewal_it_answers() {
    let mut net = five();
    let digest = net.submit("arbiter", &job());
    net.run_until(1500);
    // The arbiter hears A, but its grants are lost from now on.
    net.mute.insert(id("arbiter"), 1500);
    net.run_until(10_500);
    let sent: Vec<u64> = net
        .log
        .iter()
        .filter_map(|(_, by, effect)| match effect {
            Effect::Send { message: Message::LeaseRenew(renew), .. } if *by == id("A") => Some(renew.renewal),
            _ => None,
        })
        .collect();
    assert_eq!(net.sent("A", |m| matches!(m, Message::LeaseRenew(_))), [4030, 7030, 10_030]);
    assert_eq!(self_stop_of(&net, digest), Time::from_millis(11_010), "first ack + 2L/3");
    let grant = |renewal| Message::LeaseGrant(LeaseGrant { job: digest, fence: fence(1), renewal });
    inject(&mut net, 10_600, "arbiter", "A", grant(sent[0]));
    net.run_until(10_600);
    assert_eq!(self_stop_of(&net, digest), Time::from_millis(14_030), "not from the last one sent");
    inject(&mut net, 10_700, "arbiter", "A", grant(sent[2]));
    inject(&mut net, 10_800, "arbiter", "A", grant(sent[1]));
    net.run_until(10_800);
    assert_eq!(self_stop_of(&net, digest), Time::from_millis(20_030), "and never back");
}

#[test]
fn an_older_claim_is_not_taken() {
    let mut net = five();
    let digest = net.submit("arbiter", &job());
    net.run_until(900);
    let claim = |node: &str, attempt| {
        let (node, fence) = (id(node), fence(attempt));
        Message::TaskClaimed(TaskClaimed { job: digest, fence, node, price: 10, lease_ms: 15_000 })
    };
    inject(&mut net, 910, "arbiter", "B", claim("C", 6));
    inject(&mut net, 911, "arbiter", "B", claim("B", 5));
    net.run_until(912);
    assert_eq!(net.peer("B").host().jobs()[&digest].stage, Stage::Offered, "it keeps its hold");
    inject(&mut net, 913, "E", "B", claim("B", 9));
    net.run_until(914);
    assert_eq!(net.peer("B").host().jobs()[&digest].stage, Stage::Offered, "only the arbiter may award");
    inject(&mut net, 915, "arbiter", "B", claim("B", 7));
    net.run_until(916);
    assert_eq!(net.peer("B").host().jobs()[&digest].stage.fence(), Some(fence(7)));
}

#[test]
fn an_ack_with_an_older_fence_commits_nothing() {
    let mut net = five();
    net.mute.insert(id("A"), 600);
    net.mute.insert(id("B"), 600);
    let digest = net.submit("arbiter", &job());
    let ack = |attempt, node: &str| {
        Message::AwardAck(AwardAck { job: digest, fence: fence(attempt), node: id(node) })
    };
    // B has attempt 2 from 1500 on.
    inject(&mut net, 1505, "B", "arbiter", ack(1, "B"));
    inject(&mut net, 1506, "A", "arbiter", ack(2, "A"));
    inject(&mut net, 1507, "A", "arbiter", ack(2, "B"));
    net.run_until(1508);
    assert_eq!(verdict(&net, digest).state, JobState::Awarded);
    assert_eq!(net.sent("arbiter", |m| matches!(m, Message::Revoke(_))), [1505, 1506]);
    inject(&mut net, 1509, "B", "arbiter", ack(2, "B"));
    net.run_until(1509);
    assert_eq!(verdict(&net, digest).state, JobState::Running);
}

#[test]
fn an_award_does_not_survive_a_restart_of_the_arbiter() {
    let mut net = five();
    let digest = net.submit("arbiter", &job());
    net.at(1005, Event::Crash { peer: id("arbiter") });
    net.at(1005, Event::Restart { peer: id("arbiter"), reboot: false });
    net.run_until(1015);
    let now = verdict(&net, digest);
    assert_eq!((now.state, now.fence, now.round), (JobState::Open, Fence { epoch: 2, attempt: 2 }, 2));
    assert!(now.offers.iter().all(|(_, offer)| offer.status == OfferStatus::Void));
    net.run_until(1020);
    assert_eq!(net.sent("arbiter", |m| matches!(m, Message::Revoke(_))), [1020], "the ack of attempt 1");
    net.run_until(5000);
    assert_eq!(net.broken, None);
    assert_eq!(verdict(&net, digest).state, JobState::Running);
}

#[test]
fn a_result_with_an_older_fence_is_not_accepted() {
    let mut net = five();
    let digest = net.submit("arbiter", &job());
    net.run_until(2000);
    let result = |attempt, node: &str| {
        Message::TaskResult(TaskResult {
            job: digest,
            fence: fence(attempt),
            node: id(node),
            outcome: TaskOutcome::Success,
            reason: None,
            fuel_used: 500,
            run_ms: 1,
            output: None,
        })
    };
    inject(&mut net, 2001, "A", "arbiter", result(0, "A"));
    inject(&mut net, 2002, "B", "arbiter", result(1, "B"));
    inject(&mut net, 2003, "B", "arbiter", result(1, "A"));
    net.run_until(2003);
    assert_eq!(verdict(&net, digest).state, JobState::Running);
    inject(&mut net, 2004, "A", "arbiter", result(1, "A"));
    inject(&mut net, 2005, "A", "arbiter", result(1, "A"));
    net.run_until(2005);
    assert_eq!((verdict(&net, digest).state, verdict(&net, digest).charge), (JobState::Completed, Some(5)));
    assert_eq!(net.broken, None, "accepted once");
}
