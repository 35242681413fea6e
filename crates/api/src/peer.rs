//! Peers: servers that place work among themselves, and what became of a negotiation.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The peer that a server is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OwnPeer {
    /// Its id, which is its key.
    pub id: String,
    /// The pool that negotiates.
    pub pool: String,
    /// Where others reach it.
    pub addresses: Vec<String>,
    /// An address that also shows that whoever uses it was invited; for those who may manage the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation: Option<String>,
    /// How often it has started.
    pub epoch: u64,
}

/// What a peer said it has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct PeerFacts {
    /// Milli-cores that are free.
    pub cpu_free_milli: u64,
    /// Milli-cores in all.
    pub cpu_milli: u64,
    /// MiB of memory that are free.
    pub ram_free_mib: u64,
    /// MiB of memory in all.
    pub ram_mib: u64,
    /// Devices that nothing uses.
    pub gpus_free: u32,
    /// Devices in all.
    pub gpus: u32,
    /// Jobs that run there.
    pub running: u64,
    /// Jobs that wait there.
    pub queued: u64,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
}

/// Another peer, as this one knows it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct PeerView {
    /// Its id.
    pub id: String,
    /// Trust in it that somebody set, 0 to 1; absent if nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<f64>,
    /// How far what it did has moved that; absent if it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_moved: Option<f64>,
    /// How near it is: `cell`, `org`, `federation`, `commons`.
    pub scope: String,
    /// Whether there is a connection to it.
    pub connected: bool,
    /// Where it was last reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The last round trip in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Its standing; below 0 it has sent or handed on what it should not, below -80 it is not listened to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<f64>,
    /// What it last said it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<PeerFacts>,
    /// Whether nothing is exchanged with it.
    pub blocked: bool,
    /// What somebody noted about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Messages of it that were dropped since the start, by reason.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub dropped: std::collections::BTreeMap<String, u64>,
    /// What it did that counts for or against it: `kept`, `silent`, `overstated`, `lease_lost`, `forged`, `invalid`, `stale_result`,
    /// `repeated`, `claimed_twice`, `flooded`.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub deeds: std::collections::BTreeMap<String, u64>,
    /// Jobs it ran for this server, and jobs this server ran for it.
    pub account: Account,
}

/// What two peers owe each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Account {
    /// Jobs it ran for this server.
    pub bought: u64,
    /// Credits due for them.
    pub spent: u64,
    /// Jobs this server ran for it.
    pub sold: u64,
    /// Credits due for those.
    pub earned: u64,
}

/// What changes about a peer; what is left out stays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PeerRequest {
    /// Trust in it, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<f64>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Whether nothing is exchanged with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<bool>,
    /// How near it is: `cell`, `org`, `federation`, `commons`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// A peer to be in touch with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddPeer {
    /// Its address, such as `/ip4/10.0.0.2/tcp/7879/p2p/12D3KooW…`.
    pub address: String,
}

/// What one term gave an offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OfferTerm {
    /// Its name.
    pub term: String,
    /// Its value.
    pub raw: f64,
    /// What it added to the score.
    pub points: f64,
}

/// An offer of a peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OfferView {
    /// The round it belongs to.
    pub round: u32,
    /// Who made it.
    pub peer: String,
    /// `standing`, `awarded`, `won`, `lost`, `late`, `rejected`, `failed`, `void`.
    pub status: String,
    /// Why it was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The arbiter's score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// What each term gave.
    pub terms: Vec<OfferTerm>,
    /// Price in credits per 1000 fuel.
    pub cost: u64,
    /// Delay until the job would start.
    pub start_delay_ms: u64,
    /// What it said it has.
    pub facts: PeerFacts,
}

/// A peer that made no offer, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeclineView {
    /// The round it belongs to.
    pub round: u32,
    /// Who declined.
    pub peer: String,
    /// All its reasons.
    pub reasons: Vec<String>,
}

/// Where the negotiation of a job stands, and every offer of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NegotiationView {
    /// The job; none for a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// What peers call it.
    pub digest: String,
    /// `negotiated`, or `simple` where the first offer is taken.
    pub protocol: String,
    /// `open`, `waiting`, `awarded`, `running`, `completed`, `failed`, `cancelled`, `ranked`.
    pub state: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The present round.
    pub round: u32,
    /// The present award: start of the arbiter, then attempt.
    pub epoch: u64,
    /// Counts awards.
    pub attempt: u32,
    /// Who has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winner: Option<String>,
    /// For how much, in credits per 1000 fuel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<u64>,
    /// What is due for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<u64>,
    /// Offers, best first within a round.
    pub offers: Vec<OfferView>,
    /// Who declined.
    pub declines: Vec<DeclineView>,
}
