//! What a peer drops before anybody thinks about it, over a real connection: bytes that no sound peer would send.

use std::time::Duration;

use futures::StreamExt as _;
use landfall_model::Digest;
use landfall_negotiate::wire::{Channel, Envelope, encode};
use landfall_negotiate::{Fence, Message, TaskCancelled, Topic};
use libp2p::gossipsub;
use libp2p::swarm::SwarmEvent;
use tokio::sync::mpsc;

use crate::behaviour::{BehaviourEvent, topic};
use crate::direct::Asked;
use crate::network::{Heard, Network, Order, Settings};
use crate::{Identity, Multiaddr};

async fn network(
    bootstrap: Vec<Multiaddr>,
) -> (Network, Vec<Multiaddr>, mpsc::Receiver<Heard>, mpsc::UnboundedSender<Order>) {
    let dir = tempfile::tempdir().unwrap();
    let identity = Identity::load_or_make(dir.path()).unwrap();
    let listen = vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap()];
    let settings = Settings { listen, bootstrap, ..Settings::default() };
    let (network, addresses, orders, heard) = Network::start(&identity, settings).await.unwrap();
    (network, addresses, heard, orders)
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
    let (good, addresses, mut heard, orders) = network(Vec::new()).await;
    let (mut bad, ..) = network(Vec::new()).await;
    let (there, here) = (*good.swarm.local_peer_id(), *bad.swarm.local_peer_id());
    tokio::spawn(good.run());
    bad.swarm.dial(addresses[0].clone()).unwrap();
    let mut topics = 0;
    while topics < 2 {
        if let SwarmEvent::Behaviour(BehaviourEvent::Gossip(gossipsub::Event::Subscribed { .. })) =
            bad.swarm.select_next_some().await
        {
            topics += 1;
        }
    }

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
    let (answer, list) = tokio::sync::oneshot::channel();
    orders.send(Order::List(answer)).unwrap();
    let standing = list.await.unwrap().into_iter().find(|standing| standing.peer == crate::key::id_of(&here));
    assert!(standing.unwrap().score < -50.0);
}
