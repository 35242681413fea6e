//! Who else is there: peers tell each other whom they are in touch with, so that whoever knows one soon knows many.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};

/// Lines that are looked for; beyond, others are reached by gossip.
pub(crate) const LINES_WANTED: usize = 64;
/// Addresses told at once, and believed at once.
const TOLD_MAX: usize = 64;
/// Addresses kept of one peer.
const KEPT_MAX: usize = 4;

/// Where the peers that are in touch listen.
#[derive(Debug, Default)]
pub(crate) struct Others {
    listen: BTreeMap<PeerId, Vec<Multiaddr>>,
}

pub(crate) fn ip_of(address: &Multiaddr) -> Option<IpAddr> {
    address.iter().find_map(|part| match part {
        Protocol::Ip4(ip) => Some(IpAddr::V4(ip)),
        Protocol::Ip6(ip) => Some(IpAddr::V6(ip)),
        _ => None,
    })
}

pub(crate) fn is_loopback(address: &Multiaddr) -> bool {
    ip_of(address).is_some_and(|ip| ip.is_loopback())
}

pub(crate) fn is_unspecified(address: &Multiaddr) -> bool {
    ip_of(address).is_some_and(|ip| ip.is_unspecified())
}

impl Others {
    /// A peer says where it listens.
    pub(crate) fn learn(&mut self, peer: PeerId, listens: Vec<Multiaddr>) {
        self.listen.insert(peer, listens.into_iter().take(KEPT_MAX).collect());
    }

    pub(crate) fn forget(&mut self, peer: &PeerId) {
        self.listen.remove(peer);
    }

    /// What somebody is told who is reached at an address: nothing of itself, and nothing of this machine if it is on another one.
    pub(crate) fn told_to(&self, asker: &PeerId, at: Option<&Multiaddr>) -> Vec<String> {
        let near = at.is_some_and(is_loopback);
        let others = self.listen.iter().filter(|(peer, _)| *peer != asker);
        let places = others.flat_map(|(peer, places)| places.iter().map(move |place| (peer, place)));
        let useful = places.filter(|(_, place)| near || !is_loopback(place));
        useful.take(TOLD_MAX).map(|(peer, place)| with_peer(place, *peer).to_string()).collect()
    }
}

fn with_peer(place: &Multiaddr, peer: PeerId) -> Multiaddr {
    let bare: Multiaddr = place.iter().filter(|part| !matches!(part, Protocol::P2p(_))).collect();
    bare.with(Protocol::P2p(peer))
}

/// Peers that somebody told of, and where they are; what is no address of a peer is left out.
pub(crate) fn named(told: &[String]) -> BTreeMap<PeerId, BTreeSet<Multiaddr>> {
    let mut found: BTreeMap<PeerId, BTreeSet<Multiaddr>> = BTreeMap::new();
    for address in told.iter().take(TOLD_MAX).filter_map(|text| text.parse::<Multiaddr>().ok()) {
        let peer = address.iter().find_map(|part| match part {
            Protocol::P2p(peer) => Some(peer),
            _ => None,
        });
        if let Some(peer) = peer {
            found.entry(peer).or_default().insert(address);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_of_use_to_whoever_asks() {
        let (one, two, asker) = (PeerId::random(), PeerId::random(), PeerId::random());
        let mut others = Others::default();
        let place = |text: &str| text.parse::<Multiaddr>().unwrap();
        others.learn(one, vec![place("/ip4/127.0.0.1/tcp/1"), place("/ip4/10.0.0.1/tcp/1")]);
        others.learn(two, vec![place("/ip4/127.0.0.1/tcp/2")]);
        others.learn(asker, vec![place("/ip4/10.0.0.9/tcp/9")]);
        let far = others.told_to(&asker, Some(&place("/ip4/10.0.0.9/tcp/9")));
        assert_eq!(far, [format!("/ip4/10.0.0.1/tcp/1/p2p/{one}")]);
        assert_eq!(others.told_to(&asker, Some(&place("/ip4/127.0.0.1/tcp/9"))).len(), 3);
        let found = named(&[far[0].clone(), "nonsense".into(), "/ip4/10.0.0.3/tcp/3".into()]);
        assert_eq!(found.keys().collect::<Vec<_>>(), [&one]);
        others.forget(&one);
        assert_eq!(others.told_to(&asker, None), [""; 0]);
    }
}
