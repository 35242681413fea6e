//! From award to placement: what the peer of a pool is awarded is held in the pool's own ledger until its job is there.

use landfall_engine::life::hosted_id;
use landfall_engine::record::JobState;
use landfall_engine::{Effect, Input};
use landfall_model::{Digest, Dispatch, Name, PoolId, Scope, Time};
use landfall_negotiate::{
    self as negotiate, Blob, BodyRef, Closing, Fence, Message, PlacementClosed, PlacementRequest, Probe,
    Profile, Reason, Revoke, TaskClaimed, TrustTable,
};
use landfall_testkit::invariants;

use crate::support::{Cluster, job_id, node_id, pool};

const JOB: Digest = Digest([7; 32]);
const FENCE: Fence = Fence { epoch: 1, attempt: 1 };

fn tell(cluster: &mut Cluster, input: negotiate::Input) {
    cluster.done(Input::Peer { pool: PoolId::new("p").unwrap(), input: Box::new(input) });
    assert_eq!(invariants::holds_live(&cluster.engine), Ok(()));
}

fn hear(cluster: &mut Cluster, message: Message) {
    tell(cluster, negotiate::Input::Message { from: node_id("arbiter"), message });
}

/// What the peer said last, to its arbiter alone.
fn said(cluster: &Cluster) -> Vec<Message> {
    let of = |effect: &Effect| match effect {
        Effect::Peer { effect, .. } => match &**effect {
            negotiate::Effect::Send { message, .. } => Some(message.clone()),
            _ => None,
        },
        _ => None,
    };
    cluster.effects().iter().filter_map(of).collect()
}

/// A peer with one machine of two cores, of which another one wants one and a half, and has an offer for that.
fn offered() -> Cluster {
    let mut cluster = Cluster::new(
        pool(Dispatch::Negotiate, |_| {}),
        r#"nodes = [{ id = "n", cpu_milli = 2000, ram_mib = 4096, supported_runtimes = ["process"] }]"#,
    );
    let (pool, settings) = (PoolId::new("p").unwrap(), Box::new(negotiate::Settings::default()));
    cluster.at(0.0).done(Input::SetPeer { pool, id: node_id("me"), settings });
    let trust = TrustTable::default().with(node_id("arbiter"), Some(1.0)).unwrap();
    tell(&mut cluster, negotiate::Input::Trust(trust));
    let process = Name::new("process").unwrap();
    let probe =
        Probe { cpu_total: 2000, memory_total: 4096, runtimes: [process.clone()].into(), ..Probe::default() };
    tell(&mut cluster, negotiate::Input::Capacity(Box::new(probe)));
    let body = Blob::new(b"{}".to_vec());
    let request = PlacementRequest {
        job: JOB,
        epoch: 1,
        round: 1,
        submitter: node_id("arbiter"),
        profile: Some(Profile { cpu_milli: Some(1500), memory_mib: Some(1024), ..Profile::default() }),
        runtimes: vec![process],
        hints: Default::default(),
        max_cost: None,
        fuel_limit: 10_000,
        class: 5,
        deadline_ms: None,
        deliberation_ms: 100,
        lease_ms: 15_000,
        max_scope: Scope::Commons,
        allowed_scopes: Vec::new(),
        body: BodyRef { digest: body.digest(), bytes: body.len() as u64, inline: Some(body) },
        dry_run: false,
        want_declines: true,
        requested_at: None,
    };
    hear(&mut cluster, Message::PlacementRequest(Box::new(request)));
    cluster.now = Time::from_millis(100);
    cluster.tick();
    assert!(matches!(said(&cluster)[..], [Message::PlacementOffer(_)]), "{:?}", cluster.effects());
    cluster
}

fn claim() -> Message {
    Message::TaskClaimed(TaskClaimed {
        job: JOB,
        fence: FENCE,
        node: node_id("me"),
        price: 10,
        lease_ms: 15_000,
    })
}

fn own_job(id: &str) -> String {
    format!(r#"jobs = [{{ id = "{id}", cpu_milli = 1000, ram_mib = 512, runtime = "process" }}]"#)
}

fn committed(cluster: &Cluster) -> u64 {
    cluster.engine.state().node(&node_id("n")).unwrap().0.cpu_committed.get()
}

#[test]
fn an_award_is_a_hold_and_then_a_placement_and_own_jobs_come_after_it() {
    let mut cluster = offered();
    hear(&mut cluster, claim());
    assert!(matches!(said(&cluster)[..], [Message::AwardAck(_)]), "{:?}", cluster.effects());
    assert_eq!(committed(&cluster), 1500);

    // An own job that comes between award and start has to wait.
    cluster.submit(&own_job("own"));
    cluster.tick();
    assert_eq!(cluster.state("own"), JobState::Pending);

    let winner = Some(node_id("me"));
    hear(
        &mut cluster,
        Message::PlacementClosed(PlacementClosed {
            job: JOB,
            fence: FENCE,
            outcome: Closing::Placed,
            winner,
        }),
    );
    let hosted = hosted_id(&JOB, 1);
    cluster.submit(&format!(
        r#"jobs = [{{ id = "{hosted}", cpu_milli = 1500, ram_mib = 1024, runtime = "process" }}]"#
    ));
    assert_eq!(cluster.nodes_of(hosted.as_str()), ["n"]);
    assert_eq!((cluster.state("own"), committed(&cluster)), (JobState::Pending, 1500));
    assert!(cluster.engine.state().holds.is_empty());
    let mut rebuilt = landfall_engine::State::default();
    cluster.events.iter().for_each(|(at, event)| drop(rebuilt.apply(*at, event)));
    assert_eq!(rebuilt.hash(), cluster.engine.state().hash());
}

#[test]
fn what_is_held_for_an_award_is_given_back_with_it() {
    // Taken back by the arbiter, given up because it never confirmed, and lost with another start of the peer.
    const NEWER: Fence = Fence { attempt: 2, ..FENCE };
    let revoked = |cluster: &mut Cluster| hear(cluster, Message::Revoke(Revoke { job: JOB, fence: NEWER }));
    let unconfirmed = |cluster: &mut Cluster| cluster.run_until(3.0);
    let restarted =
        |cluster: &mut Cluster| cluster.done(Input::StartPeer { pool: PoolId::new("p").unwrap(), boot: 1 });
    for end in [revoked as fn(&mut Cluster), unconfirmed, restarted] {
        let mut cluster = offered();
        hear(&mut cluster, claim());
        cluster.submit(&own_job("own"));
        end(&mut cluster);
        cluster.tick();
        assert!(cluster.engine.state().holds.is_empty());
        assert_eq!((committed(&cluster), cluster.nodes_of("own")), (1000, vec!["n".to_owned()]));
    }
}

#[test]
fn an_award_without_room_is_refused_and_never_acknowledged() {
    let mut cluster = offered();
    // It takes the room, and the peer has not been told yet.
    cluster.submit(&own_job("own"));
    hear(&mut cluster, claim());
    match &said(&cluster)[..] {
        [Message::AwardRefuse(refuse)] => assert_eq!(refuse.reason, Reason::Capacity),
        _ => panic!("{:?}", cluster.effects()),
    }
    assert_eq!(committed(&cluster), 1000);
    assert!(cluster.engine.state().peers.values().all(|peer| peer.host().jobs().is_empty()));
    assert!(cluster.engine.state().job(&job_id("own")).is_some());
}
