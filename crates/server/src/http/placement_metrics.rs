//! What peers count: the metrics of negotiated placement, under the names that the protocol gives them.

use landfall_negotiate::{Deed, Metric, Role};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;

/// Counters of a peer, since the start of the process.
#[derive(Debug)]
pub(crate) struct Placement {
    requests: Counter,
    offers_sent: Counter,
    offers_received: Counters,
    score: Family<Labels, Histogram, fn() -> Histogram>,
    duration: Histogram,
    wins: Counter,
    losses: Counter,
    declines: Counters,
    failures: Counters,
    rejected: Counters,
    lease_losses: Counter,
    deeds: Counters,
    messages: Counters,
}

fn score_buckets() -> Histogram {
    Histogram::new((1..=10).map(|tenth| f64::from(tenth) / 10.0))
}

impl Placement {
    /// All at zero, under their names.
    pub(crate) fn new(registry: &mut Registry) -> (Self, Vec<&'static str>) {
        macro_rules! register {
            ($($field:ident = $value:expr, $name:literal, $help:literal;)*) => {
                $(let $field = $value; registry.register($name, $help, $field.clone());)*
                (Self { $($field,)* }, vec![$($name,)*])
            };
        }
        register! {
            requests = Counter::default(), "placement_requests_received",
                "requests of peers seen by this node, each round once";
            offers_sent = Counter::default(), "placement_offers_sent", "offers that this node sent";
            offers_received = Counters::default(), "placement_offers_received",
                "offers that this arbiter received: `accepted`, `rejected`, `late`, `duplicate`";
            score = Family::new_with_constructor(score_buckets as fn() -> Histogram), "placement_score",
                "scores of offers: by the `node` that sent it, by the `arbiter` that accepted it";
            duration = Histogram::new([0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0]),
                "placement_duration_seconds", "from the first request of a job to the commit";
            wins = Counter::default(), "placement_wins", "jobs that this node won";
            losses = Counter::default(), "placement_losses", "jobs for which this node had offered and another won";
            declines = Counters::default(), "placement_declines", "requests that this node did not offer for, by reason";
            failures = Counters::default(), "placement_failures", "jobs of this arbiter that failed, by reason";
            rejected = Counters::default(), "placement_messages_rejected",
                "messages of peers that were dropped, by reason";
            lease_losses = Counter::default(), "placement_lease_losses", "leases that this arbiter saw lost";
            messages = Counters::default(), "placement_messages",
                "messages of the protocol that left for peers or came from them, by `direction`; one to all counts once";
            deeds = Counters::default(), "placement_deeds",
                "what other peers did: `kept` promises, and what counts against them, by `deed`";
        }
    }

    /// Counts one observation of the peer.
    pub(crate) fn count(&self, metric: &Metric) {
        let with = |name, word: String| vec![(name, word)];
        match metric {
            Metric::RequestReceived => drop(self.requests.inc()),
            Metric::OfferSent => drop(self.offers_sent.inc()),
            Metric::OfferReceived(result) => {
                self.offers_received.get_or_create(&with("result", super::status::word(result))).inc();
            }
            Metric::Score { role, score } => {
                let role = if *role == Role::Node { "node" } else { "arbiter" };
                self.score.get_or_create(&with("role", role.to_owned())).observe(*score);
            }
            Metric::DurationMs(ms) => self.duration.observe(*ms as f64 / 1000.0),
            Metric::Win => drop(self.wins.inc()),
            Metric::Loss => drop(self.losses.inc()),
            Metric::Declined(reason) => {
                self.declines.get_or_create(&with("reason", reason.to_string())).inc();
            }
            Metric::Failed(reason) => {
                self.failures.get_or_create(&with("reason", reason.to_string())).inc();
            }
            Metric::MessageRejected(reason) => self.dropped(reason.as_str(), 1),
            Metric::LeaseLost => drop(self.lease_losses.inc()),
        }
    }

    /// Counts one message of the protocol.
    pub(crate) fn message(&self, direction: &str) {
        self.messages.get_or_create(&vec![("direction", direction.to_owned())]).inc();
    }

    /// Counts what another peer did.
    pub(crate) fn deed(&self, deed: Deed) {
        self.deeds.get_or_create(&vec![("deed", deed.as_str().to_owned())]).inc();
    }

    /// Counts what was dropped before the peer saw it.
    pub(crate) fn dropped(&self, reason: &str, count: u64) {
        self.rejected.get_or_create(&vec![("reason", reason.to_owned())]).inc_by(count);
    }
}
