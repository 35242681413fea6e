//! Who is on the same network: peers say by mDNS where they listen, so that those on one LAN find each other without an address.
//!
//! The name of the service is this program's own, so nobody is called who speaks something else. Whoever is found is called like
//! somebody whom others told of: noise shows whether the id is true, and being found earns no trust.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId};
use mdns_sd::{
    IfKind, IfPredicate, Receiver, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo, TryRecvError,
};

use crate::others::ip_of;

const SERVICE: &str = "_landfall._tcp.local.";
/// Names ignore case and ids do not, so the id stands beside the name.
const ID: &str = "id";
/// How often whoever was found and is not connected is called.
const CALL_EVERY: Duration = Duration::from_secs(30);
/// Peers remembered; a network of more has somebody whom they all know.
const FOUND_MAX: usize = 256;

pub(crate) struct Near {
    me: PeerId,
    daemon: ServiceDaemon,
    news: Receiver<ServiceEvent>,
    found: BTreeMap<String, (PeerId, BTreeSet<Multiaddr>)>,
    call_again: Instant,
}

impl Near {
    /// Says on the networks of these addresses that a peer listens at a port, and listens for others.
    pub(crate) fn start(me: PeerId, listen: &[Multiaddr], port: u16) -> Result<Self, mdns_sd::Error> {
        let places: Vec<IpAddr> = listen.iter().filter_map(ip_of).collect();
        let networks = IfPredicate::new(move |network| {
            let own = network.ip();
            let is_any = |place: &IpAddr| place.is_unspecified() && place.is_ipv4() == own.is_ipv4();
            places.iter().any(|place| *place == own || (is_any(place) && !own.is_loopback()))
        });
        let daemon = ServiceDaemon::new()?;
        daemon.disable_interface(IfKind::All)?;
        daemon.enable_interface(IfKind::Predicate(networks))?;
        let name = me.to_string();
        let host = format!("landfall-{}.local.", name.to_lowercase());
        let service = ServiceInfo::new(SERVICE, &name, &host, (), port, &[(ID, &name)][..])?;
        daemon.register(service.enable_addr_auto())?;
        let news = daemon.browse(SERVICE)?;
        Ok(Self { me, daemon, news, found: BTreeMap::new(), call_again: Instant::now() })
    }

    /// Whom to call now: everybody who was found, when there is somebody new and every now and then.
    pub(crate) fn look(&mut self, now: Instant) -> BTreeMap<PeerId, BTreeSet<Multiaddr>> {
        let mut is_time = now >= self.call_again;
        loop {
            match self.news.try_recv() {
                Ok(ServiceEvent::ServiceResolved(service)) => {
                    let there = place_of(&service).filter(|(peer, _)| *peer != self.me);
                    let is_kept = self.found.len() < FOUND_MAX || self.found.contains_key(&service.fullname);
                    if let Some(there) = there.filter(|_| is_kept) {
                        is_time |= self.found.insert(service.fullname.clone(), there.clone()) != Some(there);
                    }
                }
                Ok(ServiceEvent::ServiceRemoved(_, name)) => {
                    self.found.remove(&name);
                }
                Ok(_) => {}
                Err(TryRecvError::Empty) => break,
                // It stops when more is said than was taken.
                Err(TryRecvError::Disconnected) => {
                    if is_time && let Ok(news) = self.daemon.browse(SERVICE) {
                        self.news = news;
                    }
                    break;
                }
            }
        }
        if !is_time {
            return BTreeMap::new();
        }
        self.call_again = now + CALL_EVERY;
        self.found.values().cloned().collect()
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        // It says good-bye; whoever misses that forgets the place after two minutes.
        let _ = self.daemon.shutdown();
    }
}

/// Who said that it listens, and where.
fn place_of(service: &ResolvedService) -> Option<(PeerId, BTreeSet<Multiaddr>)> {
    let peer: PeerId = service.get_property_val_str(ID)?.parse().ok()?;
    let places = service.get_addresses().iter().map(mdns_sd::ScopedIp::to_ip_addr);
    let places = places
        .map(|ip| Multiaddr::from(ip).with(Protocol::Tcp(service.get_port())).with(Protocol::P2p(peer)));
    Some((peer, places.collect()))
}
