//! Negotiated pools: the peer of this process, with its timers among those of the engine.
//!
//! A peer is a state machine of its own ([`landfall_negotiate`]); what it is told are facts, so the journal stores its
//! inputs, and telling it the same again gives the same peer.

use landfall_model::{Dispatch, NodeId, PoolId};

use super::unknown;
use crate::effect::{Answer, Effect, Refused};
use crate::engine::Engine;
use crate::event::Event;
use crate::timers::Timer;
use landfall_negotiate::{self as negotiate, Peer, Settings};

impl Engine {
    pub(crate) fn set_peer(&mut self, pool: PoolId, id: NodeId, settings: Settings) -> Answer {
        let Some(state) = self.state.pools.get(&pool) else {
            return Answer::Refused(unknown("pool", pool.as_str()));
        };
        if state.pool.dispatch != Dispatch::Negotiate {
            let message = format!("pool `{pool}` does not negotiate");
            return Answer::Refused(Refused::new("not_negotiate", message, "set dispatch = \"negotiate\""));
        }
        // What the pool's own policy file says goes for offers too.
        let policy = settings.policy.or_else(|| state.policy.as_deref().map(str::to_owned));
        match Peer::new(id, Settings { policy, ..settings }) {
            Ok(peer) => {
                self.emit(Event::PeerSet { pool, peer: Box::new(peer) });
                Answer::Done
            }
            Err(error) => {
                Answer::Refused(Refused::new("out_of_range", error.to_string(), "change the setting"))
            }
        }
    }

    pub(crate) fn tell_peer(&mut self, pool: PoolId, input: Box<negotiate::Input>) -> Answer {
        if !self.state.peers.contains_key(&pool) {
            return Answer::Refused(Refused::new(
                "no_peer",
                format!("pool `{pool}` has no peer"),
                "set up the peer of the pool first",
            ));
        }
        if let negotiate::Input::Submit(submission) = &*input
            && let Err(refusal) = submission.validate()
        {
            let hint = "change the field, or use another pool";
            return Answer::Refused(Refused::new(refusal.reason.as_str(), refusal.to_string(), hint));
        }
        self.emit(Event::PeerTold { pool, input });
        Answer::Done
    }

    /// A timer of a peer is due.
    pub(crate) fn peer_due(&mut self, pool: &PoolId) {
        loop {
            let due = self.state.peers.get(pool).and_then(|peer| {
                peer.timers().iter().filter(|(_, at)| *at <= self.now).map(|(id, at)| (at, id.clone())).min()
            });
            let Some((_, id)) = due else { break };
            self.emit(Event::PeerTold {
                pool: pool.clone(),
                input: Box::new(negotiate::Input::Timer { id }),
            });
        }
        self.set_peer_timer(pool);
    }

    pub(crate) fn set_peer_timer(&mut self, pool: &PoolId) {
        let at = self.state.peers.get(pool).and_then(|peer| peer.timers().iter().map(|(_, at)| at).min());
        self.timers.set(Timer::Peer(pool.clone()), at);
    }

    /// Hands on what a peer wants done; its timers are the engine's business.
    pub(crate) fn peer_wants(&mut self, pool: &PoolId, effects: Vec<negotiate::Effect>) {
        for effect in effects {
            match effect {
                negotiate::Effect::SetTimer { .. } | negotiate::Effect::ClearTimer { .. } => {}
                effect => self.want(Effect::Peer { pool: pool.clone(), effect: Box::new(effect) }),
            }
        }
        self.set_peer_timer(pool);
    }
}
