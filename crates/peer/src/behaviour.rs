//! What a peer speaks, put together.

use std::time::Duration;

use landfall_negotiate::Topic;
use landfall_negotiate::wire::MESSAGE_BYTES_MAX;
use libp2p::gossipsub::{
    self, IdentTopic, MessageAuthenticity, PeerScoreParams, PeerScoreThresholds, TopicScoreParams,
    ValidationMode,
};
use libp2p::identity::Keypair;
use libp2p::request_response::{self, ProtocolSupport};
use libp2p::swarm::NetworkBehaviour;
use libp2p::{allow_block_list, identify, ping};

use crate::direct;

/// What libp2p adds to a message on a topic: author, number, topic, signature, key.
const GOSSIP_OVERHEAD: usize = 1024;
/// An answer to a direct request must come within this span.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Direct requests of one peer that may be open at once.
const STREAMS_MAX: usize = 256;
/// How often a round trip is measured, and how long an answer may take before the line counts as dead.
const PING_EVERY: Duration = Duration::from_secs(10);
const PONG_WITHIN: Duration = Duration::from_secs(15);

#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    pub(crate) gossip: gossipsub::Behaviour,
    pub(crate) direct: request_response::Behaviour<direct::Codec>,
    pub(crate) identify: identify::Behaviour,
    pub(crate) ping: ping::Behaviour,
    pub(crate) blocked: allow_block_list::Behaviour<allow_block_list::BlockedPeers>,
}

pub(crate) fn topic(of: Topic) -> IdentTopic {
    IdentTopic::new(of.as_str())
}

pub(crate) const TOPICS: [Topic; 2] = [Topic::Placement, Topic::Capacity];

impl Behaviour {
    pub(crate) fn new(key: &Keypair) -> Result<Self, String> {
        let config = gossipsub::ConfigBuilder::default()
            .validation_mode(ValidationMode::Strict)
            // Nothing is handed on before it was looked at.
            .validate_messages()
            .max_transmit_size(MESSAGE_BYTES_MAX + GOSSIP_OVERHEAD)
            .build()
            .map_err(|error| error.to_string())?;
        let mut gossip = gossipsub::Behaviour::new(MessageAuthenticity::Signed(key.clone()), config)?;
        gossip.with_peer_score(scores(), PeerScoreThresholds::default())?;
        for of in TOPICS {
            gossip.subscribe(&topic(of)).map_err(|error| error.to_string())?;
        }
        let config = request_response::Config::default()
            .with_request_timeout(ANSWER_WITHIN)
            .with_max_concurrent_streams(STREAMS_MAX);
        let direct = request_response::Behaviour::new([(direct::PROTOCOL, ProtocolSupport::Full)], config);
        let identify = identify::Config::new("/landfall/1".to_owned(), key.public());
        Ok(Self {
            gossip,
            direct,
            identify: identify::Behaviour::new(identify),
            ping: ping::Behaviour::new(
                ping::Config::new().with_interval(PING_EVERY).with_timeout(PONG_WITHIN),
            ),
            blocked: allow_block_list::Behaviour::default(),
        })
    }
}

/// Whoever hands on bad messages loses standing. A quiet peer does not, nor do several behind one address.
fn scores() -> PeerScoreParams {
    let topic_score = TopicScoreParams {
        time_in_mesh_weight: 0.0,
        first_message_deliveries_weight: 0.0,
        mesh_message_deliveries_weight: 0.0,
        mesh_failure_penalty_weight: 0.0,
        invalid_message_deliveries_weight: -4.0,
        invalid_message_deliveries_decay: 0.97,
        ..TopicScoreParams::default()
    };
    let topics = TOPICS.map(|of| (topic(of).hash(), topic_score.clone()));
    PeerScoreParams {
        topics: topics.into(),
        ip_colocation_factor_weight: 0.0,
        // A process that starts anew does not know who told its predecessor to stay out of a mesh for a while, and asks once per topic:
        // that counts up to four. A flood of such requests counts for hundreds, and squared.
        behaviour_penalty_threshold: 10.0,
        // What the rest of this program thinks of a peer counts as it is.
        app_specific_weight: 1.0,
        ..PeerScoreParams::default()
    }
}
