//! Alarms: what people should look at, until it is over.
//!
//! *Life of an alarm.* It is raised by the engine ([`Alert`]) or by the driver, once per kind and subject; raised again it counts, and
//! whoever had acknowledged it is asked to look again. It ends when what it is about is over, which is looked up in the state every few
//! seconds: a node that has its usual configuration again, a job that no longer waits. One that has to be over by some time and is not
//! is followed by another. All of them are one record, written with the commit of the round in which something changed, so a restart
//! finds them.

use landfall_api::ApiError;
use landfall_api::alarm::AlarmView;
use landfall_engine::State;
use landfall_engine::effect::Alert;
use landfall_engine::record::JobState;
use landfall_engine::state::PoolState;
use landfall_model::{Dispatch, Millis, Node, PoolId, Time};
use landfall_store::{Store, StoreError, Table};

use super::core::Core;
use super::facts::reads_price;
use super::handle::Failure;
use super::nodes::Nodes;

/// Key of the record.
const RECORD: &str = "alarms";
/// Most alarms at a time; the oldest give way.
const MOST: usize = 1000;
/// An alarm whose end cannot be seen is over when it has not come again for so long.
const FADES: Millis = Millis::secs(15 * 60);
/// A node that drifted should be put right within that.
const DRIFT_LASTS: Millis = Millis::secs(24 * 3600);
/// The same if sensitive work was on it.
const SENSITIVE_DRIFT_LASTS: Millis = Millis::secs(4 * 3600);
/// What an alarm is about that is about the whole cluster.
const CLUSTER: &str = "cluster";

#[derive(Debug, Default)]
pub(super) struct Alarms {
    /// By number.
    open: Vec<AlarmView>,
    last: u64,
}

/// What an alarm is about, and in which words.
struct Raised {
    kind: &'static str,
    subject: String,
    message: String,
    help: &'static str,
    /// How long it may last before people are told once more.
    lasts: Option<Millis>,
}

impl Raised {
    /// A node is still not what it should be, long after people were told.
    fn overdue(drift: &AlarmView, now: Time) -> Self {
        let since = Millis::new((now.as_millis() as u64).saturating_sub(drift.since_ms));
        Self {
            kind: "drift_overdue",
            subject: drift.subject.clone(),
            message: format!("node {} is not configured as its pool expects, for {since} now", drift.subject),
            help: "bring it back to its usual configuration, or accept the new one with `landfall return`",
            lasts: None,
        }
    }

    /// Nobody says any more what energy costs, where that counts.
    fn stale_price(pools: &[&PoolId]) -> Self {
        let pools: Vec<&str> = pools.iter().map(|pool| pool.as_str()).collect();
        Self {
            kind: "stale_energy_price",
            subject: CLUSTER.to_owned(),
            message: format!(
                "nobody has told the price of energy for an hour; it counts as unknown in {}",
                pools.join(", ")
            ),
            help: "look at what sends it, or at `server.energy_price_file`",
            lasts: None,
        }
    }

    /// A pool has a limit on watts, and nothing tells what its nodes draw.
    fn blind_cap(pool: &PoolId) -> Self {
        Self {
            kind: "power_unknown",
            subject: pool.to_string(),
            message: format!(
                "pool {pool} has a power cap, and no node tells what it draws: what jobs declare is all that counts"
            ),
            help: "set `agent.power_idle` and `agent.power_busy`, or let agents read what their machines draw",
            lasts: None,
        }
    }
}

impl From<&Alert> for Raised {
    fn from(alert: &Alert) -> Self {
        use landfall_engine::ScaleAlert;
        let raised = |kind, subject: &str, message: String, help| Self {
            kind,
            subject: subject.to_owned(),
            message,
            help,
            lasts: None,
        };
        match alert {
            Alert::ProposalStarved(job) => raised(
                "proposal_starved",
                job.as_str(),
                format!("job {job} was chosen ten times and never got its place"),
                "`landfall explain` says what refused it",
            ),
            Alert::QuarantinePaused(pool) => raised(
                "quarantine_paused",
                pool.as_str(),
                format!("many nodes of pool {pool} failed in a short time, so no more are taken out"),
                "look at the jobs first: they are the likelier fault",
            ),
            Alert::RequeueLimited { pool, waiting } => raised(
                "requeue_limited",
                pool.as_str(),
                format!(
                    "many nodes of pool {pool} fell silent at once; {waiting} of them keep their jobs for now"
                ),
                "look at the network between them and the server",
            ),
            Alert::ConformanceDrift(node) => raised(
                "conformance_drift",
                node.as_str(),
                format!("node {node} is no longer configured as its pool expects"),
                "`landfall node` shows its fingerprint; bring it back, or accept it with `landfall approve`",
            ),
            Alert::Scaling { job, alert } => {
                let (kind, message, help) = match alert {
                    ScaleAlert::MetricMissing => (
                        "metric_missing",
                        format!("service {job} has not told its metric three times in a row"),
                        "it should write a number to $LANDFALL_METRIC_FILE, or have it sent by `landfall metric`",
                    ),
                    ScaleAlert::Flapping => (
                        "flapping",
                        format!("service {job} keeps growing and shrinking"),
                        "choose another target, or longer windows (`batch.scale_up_after_ms`)",
                    ),
                    ScaleAlert::BelowMin => (
                        "below_min",
                        format!("service {job} runs on fewer nodes than it needs"),
                        "add nodes, or make room",
                    ),
                };
                raised(kind, job.as_str(), message, help)
            }
        }
    }
}

impl Alarms {
    pub(super) fn load(store: &mut dyn Store) -> Result<Self, StoreError> {
        let Some(text) = store.get(Table::Meta, RECORD)? else { return Ok(Self::default()) };
        let open: Vec<AlarmView> = serde_json::from_slice(&text)
            .map_err(|error| super::core::unreadable(Table::Meta, RECORD, error))?;
        Ok(Self { last: open.iter().map(|alarm| alarm.id).max().unwrap_or_default(), open })
    }

    /// All that are open, oldest first.
    pub(super) fn open(&self) -> &[AlarmView] {
        &self.open
    }

    fn raise(&mut self, raised: Raised, now: Time) {
        let at = now.as_millis() as u64;
        let known =
            self.open.iter_mut().find(|alarm| alarm.kind == raised.kind && alarm.subject == raised.subject);
        if let Some(alarm) = known {
            alarm.message = raised.message;
            (alarm.last_ms, alarm.count, alarm.acknowledged_by) = (at, alarm.count + 1, None);
            return;
        }
        if self.open.len() >= MOST {
            self.open.remove(0);
        }
        self.last += 1;
        self.open.push(AlarmView {
            id: self.last,
            kind: raised.kind.to_owned(),
            subject: raised.subject,
            message: raised.message,
            help: raised.help.to_owned(),
            since_ms: at,
            last_ms: at,
            count: 1,
            due_ms: raised.lasts.map(|span| at.saturating_add(span.get())),
            acknowledged_by: None,
        });
    }

    fn is_open(&self, kind: &str, subject: &str) -> bool {
        self.open.iter().any(|alarm| alarm.kind == kind && alarm.subject == subject)
    }

    /// What should be over by now, and is not; each once.
    fn overdue(&self, now: Time) -> Vec<Raised> {
        let due = |alarm: &&AlarmView| alarm.due_ms.is_some_and(|due| due <= now.as_millis() as u64);
        let told = |raised: &Raised| !self.is_open(raised.kind, &raised.subject);
        self.open.iter().filter(due).map(|alarm| Raised::overdue(alarm, now)).filter(told).collect()
    }

    /// Drops what is over, and says whether anything was.
    fn end(&mut self, state: &State, nodes: &Nodes, now: Time) -> bool {
        let before = self.open.len();
        self.open.retain(|alarm| !is_over(alarm, state, nodes, now));
        self.open.len() != before
    }
}

fn is_over(alarm: &AlarmView, state: &State, nodes: &Nodes, now: Time) -> bool {
    let faded = || now.as_millis() as u64 >= alarm.last_ms + FADES.get();
    let job = || state.jobs.get(alarm.subject.as_str());
    match alarm.kind.as_str() {
        "proposal_starved" => job().is_none_or(|record| record.state != JobState::Pending),
        "metric_missing" | "flapping" | "below_min" => {
            job().is_none_or(|record| record.state != JobState::Running) || faded()
        }
        "conformance_drift" | "drift_overdue" => {
            let node = landfall_model::NodeId::new(&alarm.subject).ok();
            node.and_then(|node| state.node(&node).map(|(node, _)| node.drifted)) != Some(true)
        }
        "doubted_figures" => {
            let node = landfall_model::NodeId::new(&alarm.subject).ok();
            node.is_none_or(|node| nodes.doubted(&node).is_empty())
        }
        "stale_energy_price" => {
            let known = |pool: &PoolState| pool.world.energy_price.is_some() || !reads_price(pool);
            state.pools.values().all(known)
        }
        "power_unknown" => {
            let pool = PoolId::new(&alarm.subject).ok().and_then(|pool| state.pools.get(&pool));
            pool.is_none_or(|pool| !is_blind(state, pool, nodes))
        }
        _ => faded(),
    }
}

/// Whether a batch pool has a cap on watts and nothing is known of what any of its nodes draws, which shows in the second heartbeat at the
/// earliest.
fn is_blind(state: &State, pool: &PoolState, nodes: &Nodes) -> bool {
    let told = |node: &Node| {
        let measured = nodes.facts(&node.id).is_some_and(|facts| facts.heartbeat.power_w.is_some());
        measured || node.power.is_some() || !nodes.has_spoken(&node.id, 3)
    };
    let capped = pool.pool.batch.power_cap_w.or(state.caps.power_w).is_some();
    let mut present = pool.present().peekable();
    capped && pool.pool.dispatch == Dispatch::Batch && present.peek().is_some() && !present.any(told)
}

impl Core {
    /// Tells people what the engine wants them to know.
    pub(super) fn alert(&mut self, alert: &Alert) {
        let mut raised: Raised = alert.into();
        if let Alert::ConformanceDrift(node) = alert {
            let state = self.engine.state();
            let mut held = state.node(node).into_iter().flat_map(|(node, _)| &node.placements);
            let sensitive =
                held.any(|held| state.job(&held.job).is_some_and(|record| record.job.spec.sensitive));
            raised.lasts = Some(if sensitive { SENSITIVE_DRIFT_LASTS } else { DRIFT_LASTS });
        }
        self.raise(raised);
    }

    /// Nobody says any more what energy costs.
    pub(super) fn alert_stale_price(&mut self) {
        let pools = &self.engine.state().pools;
        let reads = pools.iter().filter(|(_, pool)| reads_price(pool)).map(|(id, _)| id);
        let reads: Vec<&PoolId> = reads.collect();
        if !reads.is_empty() {
            self.raise(Raised::stale_price(&reads));
        }
    }

    /// A node tells figures that cannot be true, or is larger than its token allows.
    pub(super) fn alert_doubted(&mut self, node: &landfall_model::NodeId, fields: &str) {
        self.raise(Raised {
            kind: "doubted_figures",
            subject: node.to_string(),
            message: format!(
                "node {node} tells figures that do not count, since they cannot be true or are not allowed: {fields}"
            ),
            help: "look at its sensors and drivers, and at the settings of its agent",
            lasts: None,
        });
    }

    fn raise(&mut self, raised: Raised) {
        tracing::warn!(
            kind = raised.kind,
            subject = raised.subject,
            hint = raised.help,
            "{}",
            raised.message
        );
        self.alarms.raise(raised, self.now);
        self.keep_alarms();
    }

    fn keep_alarms(&mut self) {
        let open = std::mem::take(&mut self.alarms.open);
        self.put(Table::Meta, RECORD, &open);
        self.alarms.open = open;
    }

    /// Ends what is over, and tells what lasts too long or has begun without anybody saying so.
    pub(super) fn look_after_alarms(&mut self) {
        let state = self.engine.state();
        let ended = self.alarms.end(state, &self.nodes, self.now);
        let mut news = self.alarms.overdue(self.now);
        for (id, pool) in &state.pools {
            let blind = is_blind(state, pool, &self.nodes);
            if blind && !self.alarms.is_open("power_unknown", id.as_str()) {
                news.push(Raised::blind_cap(id));
            }
        }
        if ended {
            self.keep_alarms();
        }
        news.into_iter().for_each(|raised| self.raise(raised));
    }

    /// Somebody has seen an alarm.
    pub(super) fn acknowledge(&mut self, id: u64, by: String) -> Result<AlarmView, Failure> {
        let Some(alarm) = self.alarms.open.iter_mut().find(|alarm| alarm.id == id) else {
            let error = ApiError::new("unknown_alarm", format!("there is no alarm {id}"));
            return Err(Failure::refused(
                404,
                error.hint("it may be over; `landfall alarms` lists those that are not"),
            ));
        };
        alarm.acknowledged_by = Some(by);
        let seen = alarm.clone();
        self.keep_alarms();
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use landfall_model::JobId;

    use super::*;

    fn raise(alarms: &mut Alarms, alert: &Alert, secs: i64) {
        alarms.raise(alert.into(), Time::from_millis(secs * 1000));
    }

    #[test]
    fn the_same_again_counts_and_wants_to_be_seen_again() {
        let mut alarms = Alarms::default();
        let paused = Alert::QuarantinePaused(PoolId::new("p").unwrap());
        raise(&mut alarms, &paused, 1);
        alarms.open[0].acknowledged_by = Some("ann".into());
        raise(&mut alarms, &paused, 2);
        raise(&mut alarms, &Alert::QuarantinePaused(PoolId::new("q").unwrap()), 3);
        let told: Vec<_> =
            alarms.open.iter().map(|a| (a.id, a.subject.as_str(), a.count, a.since_ms, a.last_ms)).collect();
        assert_eq!(told, [(1, "p", 2, 1000, 2000), (2, "q", 1, 3000, 3000)]);
        assert_eq!(alarms.open[0].acknowledged_by, None);
    }

    #[test]
    fn what_is_over_is_no_longer_listed() {
        let mut alarms = Alarms::default();
        raise(&mut alarms, &Alert::ProposalStarved(JobId::new("gone").unwrap()), 0);
        raise(&mut alarms, &Alert::QuarantinePaused(PoolId::new("p").unwrap()), 0);
        let (state, nodes) = (State::default(), Nodes::default());
        assert!(alarms.end(&state, &nodes, Time::from_millis(1000)));
        assert_eq!(alarms.open.len(), 1, "a pool's alarm fades, a job's ends with the job");
        assert!(!alarms.end(&state, &nodes, Time::from_millis(1000)));
        assert!(alarms.end(&state, &nodes, Time::from_millis(15 * 60 * 1000)));
        assert!(alarms.open.is_empty());
    }

    #[test]
    fn a_drift_that_lasts_is_told_once_more_and_sooner_after_sensitive_work() {
        let node = landfall_model::NodeId::new("n").unwrap();
        for (lasts, hours) in [(DRIFT_LASTS, 24), (SENSITIVE_DRIFT_LASTS, 4)] {
            let mut alarms = Alarms::default();
            let drift = Raised { lasts: Some(lasts), ..(&Alert::ConformanceDrift(node.clone())).into() };
            alarms.raise(drift, Time::from_millis(0));
            raise(&mut alarms, &Alert::ConformanceDrift(node.clone()), 3600);
            let at = |secs: i64| Time::from_secs(hours * 3600 + secs);
            assert!(alarms.overdue(at(-1)).is_empty(), "{hours} h from when it was first seen");
            let told: Vec<Raised> = alarms.overdue(at(0));
            assert_eq!((told.len(), told[0].kind, told[0].subject.as_str()), (1, "drift_overdue", "n"));
            told.into_iter().for_each(|raised| alarms.raise(raised, at(0)));
            assert!(alarms.overdue(at(10)).is_empty(), "once");
            assert!(alarms.end(&State::default(), &Nodes::default(), at(20)), "over with the drift");
            assert!(alarms.open.is_empty());
        }
    }

    #[test]
    fn a_stale_price_is_an_alarm_until_there_is_one() {
        use landfall_engine::Event;
        let pool = |policy: &str| {
            let mut pool = landfall_model::Pool::new(PoolId::new(policy).unwrap(), Dispatch::Batch);
            pool.policy = Some(landfall_model::Name::new(policy).unwrap());
            Event::PoolSet { pool: Box::new(pool), policy: None }
        };
        let (mut state, nodes, now) = (State::default(), Nodes::default(), Time::from_millis(0));
        let mut alarms = Alarms::default();
        for policy in ["balanced", "service"] {
            state.apply(now, &pool(policy));
        }
        let reads: Vec<&PoolId> =
            state.pools.iter().filter(|(_, pool)| reads_price(pool)).map(|(id, _)| id).collect();
        assert_eq!(
            reads.iter().map(|id| id.as_str()).collect::<Vec<_>>(),
            ["service"],
            "a weight of 0 is none"
        );
        alarms.raise(Raised::stale_price(&reads), now);
        assert!(!alarms.end(&state, &nodes, now));
        state.apply(now, &Event::EnergyPrice(Some(0.5)));
        assert!(alarms.end(&state, &nodes, now) && alarms.open.is_empty());
    }

    #[test]
    fn the_oldest_give_way_when_there_are_too_many() {
        let mut alarms = Alarms::default();
        for number in 0..=MOST {
            raise(&mut alarms, &Alert::QuarantinePaused(PoolId::new(&format!("p{number}")).unwrap()), 0);
        }
        assert_eq!((alarms.open.len(), alarms.open[0].subject.as_str()), (MOST, "p1"));
    }
}
