//! Jobs that peers place: submitting them, and hearing what becomes of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use landfall_api::job::{JobRequest, Needs, PlacementRequest, Submitted};
use landfall_api::peer::{DeclineView, NegotiationView, OfferView};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::client::Client;
use crate::error::ClientError;
use crate::path::segment;

/// From one look at a negotiation to the next.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What happened to a job that peers place.
#[derive(Debug, Clone, PartialEq)]
pub enum PlacementEvent {
    /// Everybody was asked for offers.
    Asked { round: u32 },
    /// An offer came, or its status is another than before.
    Offer(Box<OfferView>),
    /// A peer made no offer.
    Declined(DeclineView),
    /// It is somebody's, for so many credits per 1000 fuel; more than once if a lease was lost.
    Placed { peer: String, price: Option<u64> },
    /// `completed`, `failed` or `cancelled`; nothing comes after that.
    Ended { state: String, reason: Option<String> },
}

/// What happens to a job while peers place it, oldest first.
#[derive(Debug)]
pub struct PlacementEvents {
    client: Client,
    path: String,
    told: Told,
    news: VecDeque<PlacementEvent>,
}

/// What was told before.
#[derive(Debug, Default)]
struct Told {
    round: u32,
    /// The status of each offer, by round and peer.
    offers: BTreeMap<(u32, String), String>,
    declines: BTreeSet<(u32, String)>,
    award: Option<(u32, String)>,
    ended: bool,
}

impl Told {
    /// What of this is news.
    fn news(&mut self, now: NegotiationView) -> Vec<PlacementEvent> {
        let mut news = Vec::new();
        if now.round > self.round {
            self.round = now.round;
            news.push(PlacementEvent::Asked { round: now.round });
        }
        for decline in now.declines {
            if self.declines.insert((decline.round, decline.peer.clone())) {
                news.push(PlacementEvent::Declined(decline));
            }
        }
        for offer in now.offers {
            let before = self.offers.insert((offer.round, offer.peer.clone()), offer.status.clone());
            if before.as_ref() != Some(&offer.status) {
                news.push(PlacementEvent::Offer(Box::new(offer)));
            }
        }
        let over = matches!(now.state.as_str(), "completed" | "failed" | "cancelled");
        let award = now.winner.filter(|_| over || now.state == "running").map(|peer| (now.attempt, peer));
        if let Some((attempt, peer)) = award.filter(|award| self.award.as_ref() != Some(award)) {
            self.award = Some((attempt, peer.clone()));
            news.push(PlacementEvent::Placed { peer, price: now.price });
        }
        if over && !std::mem::replace(&mut self.ended, true) {
            news.push(PlacementEvent::Ended { state: now.state, reason: now.reason });
        }
        news
    }
}

impl PlacementEvents {
    /// The next event; `None` after the end, and for a job that peers do not place.
    pub async fn next(&mut self) -> Result<Option<PlacementEvent>, ClientError> {
        #[derive(Deserialize)]
        struct Look {
            negotiation: Option<NegotiationView>,
        }
        loop {
            if let Some(event) = self.news.pop_front() {
                return Ok(Some(event));
            }
            if self.told.ended {
                return Ok(None);
            }
            match self.client.get::<Look>(&self.path).await {
                Ok(Look { negotiation: Some(now) }) => self.news.extend(self.told.news(now)),
                Ok(Look { negotiation: None }) => return Ok(None),
                Err(error) if error.may_pass() => {}
                Err(error) => return Err(error),
            }
            if self.news.is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
}

impl Client {
    /// Submits a job to a pool that negotiates, and gives its id. The profile comes before what the job says it needs.
    ///
    /// ```no_run
    /// use landfall_client::{Client, PlacementEvent, Settings};
    /// use serde_json::{Map, from_value, json};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::new(&Settings::new("http://127.0.0.1:7878").token("lf_secret"))?;
    /// let job = from_value(json!({ "run": { "command": ["make", "test"] } }))?;
    /// let profile = from_value(json!({ "cpu": 2, "memory": "4GiB" }))?;
    /// let hints = Map::from_iter([("prefer_regions".to_owned(), json!(["eu"]))]);
    /// let id = client.submit_with_placement(job, profile, hints, Some(20)).await?;
    /// let mut events = client.placement_events(&id);
    /// while let Some(event) = events.next().await? {
    ///     if let PlacementEvent::Placed { peer, .. } = event {
    ///         println!("{peer} runs it");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn submit_with_placement(
        &self,
        mut job: JobRequest,
        profile: Needs,
        hints: Map<String, Value>,
        max_cost: Option<u64>,
    ) -> Result<String, ClientError> {
        job.needs = profile.or(job.needs);
        let wishes = job.placement.take().unwrap_or_default();
        let max_cost = max_cost.or(wishes.max_cost);
        let hints = if hints.is_empty() { wishes.hints } else { hints };
        job.placement = Some(PlacementRequest { hints, max_cost, ..wishes });
        let submitted: Submitted = self.post("/jobs", &job).await?;
        Ok(submitted.id)
    }

    /// What happens to a job while peers place it.
    pub fn placement_events(&self, job: &str) -> PlacementEvents {
        PlacementEvents {
            client: self.clone(),
            path: format!("/jobs/{}/placement", segment(job)),
            told: Told::default(),
            news: VecDeque::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(fields: Value) -> NegotiationView {
        let mut all = serde_json::json!({ "digest": "d", "protocol": "negotiated", "round": 1, "epoch": 1,
            "attempt": 0, "offers": [], "declines": [] });
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn each_thing_is_told_once() {
        let mut told = Told::default();
        let decline = serde_json::json!([{ "round": 1, "peer": "b", "reasons": ["trust"] }]);
        let open = view(serde_json::json!({ "state": "open", "declines": decline }));
        assert_eq!(told.news(open.clone()).len(), 2);
        assert_eq!(told.news(open), []);
        let running =
            view(serde_json::json!({ "state": "running", "attempt": 1, "winner": "a", "declines": decline }));
        let placed = PlacementEvent::Placed { peer: "a".into(), price: None };
        assert_eq!((told.news(running.clone()), told.news(running)), (vec![placed], vec![]));
        let over = view(serde_json::json!({ "state": "completed", "attempt": 1, "winner": "a" }));
        let ended = PlacementEvent::Ended { state: "completed".into(), reason: None };
        assert_eq!((told.news(over.clone()), told.news(over)), (vec![ended], vec![]));
    }
}
