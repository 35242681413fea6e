//! What a peer drops before anybody thinks about it, over a real connection: bytes that no sound peer would send.

use std::time::Duration;

use futures::StreamExt as _;
use landfall_model::Digest;
use landfall_negotiate::wire::{Channel, Envelope, encode};
use landfall_negotiate::{Fence, Message, TaskCancelled, Topic};
use libp2p::swarm::SwarmEvent;
use libp2p::{PeerId, gossipsub};
use tokio::sync::mpsc;

use crate::behaviour::{BehaviourEvent, topic};
use crate::direct::Asked;
use crate::network::{Heard, Network, Order, Settings};
use crate::{Identity, Multiaddr};

type Started = (Network, Vec<Multiaddr>, mpsc::Receiver<Heard>, mpsc::UnboundedSender<Order>);

fn somebody() -> Identity {
    Identity::load_or_make(tempfile::tempdir().unwrap().path()).unwrap()
}

async fn network(identity: &Identity, mdns: bool) -> Started {
    let listen = vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap()];
    let settings = Settings { listen, mdns, ..Settings::default() };
    let (network, addresses, orders, heard) = Network::start(identity, settings).await.unwrap();
    (network, addresses, heard, orders)
}

/// Drives a network by hand until others have said so many times that they listen to a topic.
async fn subscribed(network: &mut Network, times: usize) {
    for _ in 0..times {
        while !matches!(
            network.swarm.select_next_some().await,
            SwarmEvent::Behaviour(BehaviourEvent::Gossip(gossipsub::Event::Subscribed { .. }))
        ) {}
    }
}

/// Waits for something while one of the two networks is driven by hand.
async fn until<T>(
    bad: &mut Network,
    heard: &mut mpsc::Receiver<Heard>,
    mut wanted: impl FnMut(&Heard) -> Option<T>,
) -> T {
    loop {
        tokio::select! {
            _ = bad.swarm.select_next_some() => {}
            one = heard.recv() => {
                if let Some(found) = wanted(&one.unwrap()) {
                    return found;
                }
            }
        }
    }
}

#[tokio::test]
async fn what_is_no_message_is_dropped_counted_and_costs_standing() {
    let (good, addresses, mut heard, orders) = network(&somebody(), false).await;
    let (mut bad, ..) = network(&somebody(), false).await;
    let (there, here) = (*good.swarm.local_peer_id(), *bad.swarm.local_peer_id());
    tokio::spawn(good.run());
    bad.swarm.dial(addresses[0].clone()).unwrap();
    subscribed(&mut bad, 2).await;

    let sound = Message::TaskCancelled(TaskCancelled {
        job: Digest([1; 32]),
        fence: Fence::default(),
        reason: landfall_negotiate::Reason::Requested,
    });
    let encoded = encode(&Envelope::to_all(sound), Channel::Gossip).unwrap();
    // Cut short, with something behind it, of no kind at all; on a topic and directly.
    let bad_bytes = [encoded[..encoded.len() - 1].to_vec(), [&encoded[..], &[0]].concat(), vec![0xff; 64]];
    for bytes in &bad_bytes {
        bad.swarm.behaviour_mut().gossip.publish(topic(Topic::Placement), bytes.clone()).unwrap();
        bad.swarm.behaviour_mut().direct.send_request(&there, Asked::Message(bytes.clone()));
    }
    let mut dropped = 0;
    while dropped < 6 {
        let found = until(&mut bad, &mut heard, |heard| match heard {
            Heard::Dropped { from, reason, count } => Some((from.clone(), *reason, *count)),
            _ => None,
        });
        let (from, reason, count) = tokio::time::timeout(Duration::from_secs(60), found).await.unwrap();
        assert_eq!((from, reason), (crate::key::id_of(&here), "malformed"));
        dropped += count;
    }
    assert!(score(&orders, &here).await < -50.0);
}

async fn score(orders: &mpsc::UnboundedSender<Order>, of: &PeerId) -> f64 {
    let (answer, list) = tokio::sync::oneshot::channel();
    orders.send(Order::List(answer)).unwrap();
    let peer = crate::key::id_of(of);
    list.await.unwrap().into_iter().find(|standing| standing.peer == peer).unwrap().score
}

#[tokio::test]
async fn whoever_starts_anew_does_not_lose_standing_for_what_it_cannot_know() {
    let (one, addresses, _heard, orders) = network(&somebody(), false).await;
    tokio::spawn(one.run());
    let identity = somebody();
    let (mut other, ..) = network(&identity, false).await;
    let here = *other.swarm.local_peer_id();
    other.swarm.dial(addresses[0].clone()).unwrap();
    subscribed(&mut other, 2).await;
    // Both are in both meshes by now; leaving them means to stay out for ten seconds.
    for of in [Topic::Placement, Topic::Capacity] {
        assert!(other.swarm.behaviour_mut().gossip.unsubscribe(&topic(of)));
    }
    for _ in 0..20 {
        let _ = tokio::time::timeout(Duration::from_millis(20), other.swarm.select_next_some()).await;
    }
    drop(other);
    let (mut again, ..) = network(&identity, false).await;
    again.swarm.dial(addresses[0].clone()).unwrap();
    subscribed(&mut again, 2).await;
    let mut least: f64 = 0.0;
    for _ in 0..20 {
        let _ = tokio::time::timeout(Duration::from_millis(20), again.swarm.select_next_some()).await;
        least = least.min(score(&orders, &here).await);
    }
    assert_eq!(least, 0.0);
}

#[tokio::test]
async fn peers_of_one_network_find_each_other_without_an_address() {
    let (one, _, mut heard, _orders) = network(&somebody(), true).await;
    let (other, _, _heard, _others) = network(&somebody(), true).await;
    let there = crate::key::id_of(other.swarm.local_peer_id());
    tokio::spawn(one.run());
    tokio::spawn(other.run());
    // Somebody else may test beside this.
    let found =
        async { while !matches!(heard.recv().await, Some(Heard::Connected(peer)) if peer == there) {} };
    tokio::time::timeout(Duration::from_secs(60), found).await.unwrap();
}

#[tokio::test]
async fn a_name_is_called_at_the_address_that_it_stands_for() {
    let (one, addresses, _heard, _orders) = network(&somebody(), false).await;
    let (other, _, mut heard, orders) = network(&somebody(), false).await;
    let there = *one.swarm.local_peer_id();
    let port = crate::port_of(&addresses[0]).unwrap();
    tokio::spawn(one.run());
    tokio::spawn(other.run());
    orders.send(Order::Add(format!("/dns4/localhost/tcp/{port}/p2p/{there}").parse().unwrap())).unwrap();
    let there = crate::key::id_of(&there);
    let found =
        async { while !matches!(heard.recv().await, Some(Heard::Connected(peer)) if peer == there) {} };
    tokio::time::timeout(Duration::from_secs(60), found).await.unwrap();
}

#[test]
fn an_address_at_which_nobody_can_be_called_is_known_as_such() {
    let peer = PeerId::random();
    let named = format!("/dns4/lab.example/tcp/1/p2p/{peer}");
    for good in
        ["/ip4/10.0.0.2/tcp/7879", "/ip6/::1/tcp/1", &format!("/ip4/10.0.0.2/tcp/1/p2p/{peer}"), &named]
    {
        assert!(crate::is_callable(&good.parse().unwrap()), "{good}");
    }
    for bad in [
        "/ip4/10.0.0.2",
        "/ip4/10.0.0.2/udp/1/quic-v1",
        "/dns4/lab.example/tcp/1",
        "/tcp/1",
        &format!("{named}/p2p-circuit"),
    ] {
        assert!(!crate::is_callable(&bad.parse().unwrap()), "{bad}");
    }
}
