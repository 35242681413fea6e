//! Growing and shrinking a reactive job, one node at a time.
//!
//! State machine of one job: every sample makes the job want *up*, want *down* or neither. A wish that was there at every
//! sample of a window becomes a step, if the bounds and the cool-down of its direction allow. The engine proposes the
//! step to the ledger and reports back: [`Reactive::committed`] restarts both windows and one cool-down,
//! [`Reactive::rejected`] counts towards a pause. Below its fewest nodes a job asks at every cycle instead
//! ([`Reactive::cycle`]), without window or pause.
//!
//! Kept per job: when each wish began, when each direction last moved, and the changes of direction of the last hour.

use std::collections::VecDeque;

use landfall_model::{Millis, NodeId, Time};
use serde::{Deserialize, Serialize};

/// Samples missing in a row that raise an alert.
const MISSING_ALERT: u32 = 3;
/// Rejected steps up in a row after which there is a pause.
const REJECTED_LIMIT: u32 = 3;
/// How long that pause is.
const REJECTED_PAUSE: Millis = Millis::secs(360);
/// More changes of direction than this in [`FLAPPING_WINDOW`] raise an alert.
const FLAPPING_LIMIT: usize = 5;
const FLAPPING_WINDOW: Millis = Millis::secs(3600);

/// What makes a job want more or fewer nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleRule {
    /// A metric of the job's own: up above the target, down below half of it.
    Target(f64),
    /// How busy its nodes are: up from 0.80 or with a queue, down to 0.20 without one.
    Utilisation,
}

/// How a reactive job is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReactiveSettings {
    pub rule: ScaleRule,
    /// Time from one sample to the next.
    #[serde(default = "sample_interval")]
    pub interval_ms: Millis,
    /// How long it must want up.
    #[serde(default = "window_up")]
    pub window_up_ms: Millis,
    /// How long it must want down.
    #[serde(default = "window_down")]
    pub window_down_ms: Millis,
    /// Time from one step up to the next.
    #[serde(default = "cooldown")]
    pub cooldown_up_ms: Millis,
    /// Time from one step down to the next.
    #[serde(default = "cooldown")]
    pub cooldown_down_ms: Millis,
}

fn sample_interval() -> Millis {
    Millis::secs(60)
}

fn window_up() -> Millis {
    Millis::secs(120)
}

fn window_down() -> Millis {
    Millis::secs(300)
}

fn cooldown() -> Millis {
    Millis::secs(180)
}

impl ReactiveSettings {
    /// The usual settings with this rule.
    pub fn new(rule: ScaleRule) -> Self {
        Self {
            rule,
            interval_ms: sample_interval(),
            window_up_ms: window_up(),
            window_down_ms: window_down(),
            cooldown_up_ms: cooldown(),
            cooldown_down_ms: cooldown(),
        }
    }
}

/// One measurement of a job.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// The metric, or how busy its nodes are from 0 to 1; `None` if it did not arrive.
    pub value: Option<f64>,
    /// Requests that wait, where the rule looks at them.
    #[serde(default)]
    pub queue: u64,
}

/// How many nodes a job has and may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    pub nodes: u32,
    /// The fewest it runs on.
    pub min: u32,
    /// The most it may have.
    pub max: u32,
    /// Nodes that its tenant's quota still allows beyond those it has.
    pub headroom: u32,
}

/// Which way a job moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// One node more.
    Up,
    /// One node fewer.
    Down,
}

/// Why a job stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// It wants neither.
    Steady,
    /// The metric did not arrive.
    Missing,
    /// It has not wanted it for long enough.
    Window,
    /// It moved that way too lately.
    Cooldown,
    /// It has all it may have, or as few as it can have.
    Bound,
    /// The tenant's quota is used up.
    Quota,
    /// Too many steps were rejected.
    Pause,
}

/// What a job does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Propose one node more or fewer.
    Move(Direction),
    /// Nothing, for this reason.
    Hold(Hold),
}

/// What people should look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScaleAlert {
    /// The metric did not arrive several times in a row.
    MetricMissing,
    /// The job keeps changing direction.
    Flapping,
    /// The job runs on fewer nodes than it needs.
    BelowMin,
}

/// Where the scaling of one job stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reactive {
    wants_up_since: Option<Time>,
    wants_down_since: Option<Time>,
    last_up: Option<Time>,
    last_down: Option<Time>,
    last: Option<Direction>,
    missing: u32,
    rejected: u32,
    /// The same before the last step up that was committed.
    #[serde(default)]
    rejected_before: u32,
    paused_until: Option<Time>,
    below_min: bool,
    /// When the direction changed, within the last hour.
    turns: VecDeque<Time>,
    flapping: bool,
}

impl Reactive {
    /// Takes a sample and says what to do, and what people should look at.
    pub fn sample(
        &mut self,
        settings: &ReactiveSettings,
        sample: Sample,
        bounds: Bounds,
        now: Time,
    ) -> (Step, Option<ScaleAlert>) {
        let Some(value) = sample.value.filter(|value| value.is_finite()) else {
            self.restart_windows();
            self.missing = self.missing.saturating_add(1);
            let alert = (self.missing == MISSING_ALERT).then_some(ScaleAlert::MetricMissing);
            return (Step::Hold(Hold::Missing), alert);
        };
        self.missing = 0;
        let (up, down) = wishes(settings.rule, value, sample.queue);
        self.wants_up_since = up.then(|| self.wants_up_since.unwrap_or(now));
        self.wants_down_since = down.then(|| self.wants_down_since.unwrap_or(now));
        let step = match (self.wants_up_since, self.wants_down_since) {
            (Some(since), _) => self.may_grow(settings, since, bounds, now),
            (None, Some(since)) => self.may_shrink(settings, since, bounds, now),
            (None, None) => Err(Hold::Steady),
        };
        (step.map_or_else(Step::Hold, Step::Move), None)
    }

    /// Asks for a node at a cycle of the pool if the job is below its fewest nodes.
    pub fn cycle(&mut self, bounds: Bounds) -> (Option<Direction>, Option<ScaleAlert>) {
        let below = bounds.nodes < bounds.min;
        let entered = below && !self.below_min;
        self.below_min = below;
        (below.then_some(Direction::Up), entered.then_some(ScaleAlert::BelowMin))
    }

    /// Notes that the ledger committed a step.
    pub fn committed(&mut self, direction: Direction, now: Time) -> Option<ScaleAlert> {
        self.restart_windows();
        match direction {
            Direction::Up => {
                self.last_up = Some(now);
                (self.rejected_before, self.rejected, self.paused_until) = (self.rejected, 0, None);
            }
            Direction::Down => self.last_down = Some(now),
        }
        if self.last.replace(direction).is_some_and(|last| last != direction) {
            self.turns.push_back(now);
        }
        while self.turns.front().is_some_and(|&at| now.since(at) >= FLAPPING_WINDOW) {
            self.turns.pop_front();
        }
        let flapping = self.turns.len() > FLAPPING_LIMIT;
        let begins = flapping && !self.flapping;
        self.flapping = flapping;
        begins.then_some(ScaleAlert::Flapping)
    }

    /// Notes that the ledger rejected a step. Tries below the fewest nodes are repeated at every cycle and do not count.
    pub fn rejected(&mut self, direction: Direction, now: Time) {
        if direction == Direction::Down || self.below_min {
            return;
        }
        self.rejected = self.rejected.saturating_add(1);
        if self.rejected >= REJECTED_LIMIT {
            self.rejected = 0;
            self.paused_until = Some(now + REJECTED_PAUSE);
        }
    }

    /// Notes that the node of the last step up never began: as if the step had been rejected.
    pub fn undone(&mut self, now: Time) {
        self.rejected = self.rejected_before;
        self.rejected(Direction::Up, now);
    }

    fn restart_windows(&mut self) {
        (self.wants_up_since, self.wants_down_since) = (None, None);
    }

    fn may_grow(
        &self,
        settings: &ReactiveSettings,
        since: Time,
        bounds: Bounds,
        now: Time,
    ) -> Result<Direction, Hold> {
        match () {
            () if bounds.nodes >= bounds.max => Err(Hold::Bound),
            () if now.since(since) < settings.window_up_ms => Err(Hold::Window),
            () if cools(self.last_up, settings.cooldown_up_ms, now) => Err(Hold::Cooldown),
            () if bounds.headroom == 0 => Err(Hold::Quota),
            () if self.paused_until.is_some_and(|until| now < until) => Err(Hold::Pause),
            () => Ok(Direction::Up),
        }
    }

    fn may_shrink(
        &self,
        settings: &ReactiveSettings,
        since: Time,
        bounds: Bounds,
        now: Time,
    ) -> Result<Direction, Hold> {
        match () {
            () if bounds.nodes <= bounds.min => Err(Hold::Bound),
            () if now.since(since) < settings.window_down_ms => Err(Hold::Window),
            () if cools(self.last_down, settings.cooldown_down_ms, now) => Err(Hold::Cooldown),
            () => Ok(Direction::Down),
        }
    }
}

fn cools(last: Option<Time>, cooldown: Millis, now: Time) -> bool {
    last.is_some_and(|at| now.since(at) < cooldown)
}

/// Whether a sample makes a job want up, or down.
fn wishes(rule: ScaleRule, value: f64, queue: u64) -> (bool, bool) {
    match rule {
        ScaleRule::Target(target) => (value > target, value < 0.5 * target),
        ScaleRule::Utilisation => (value >= 0.80 || queue > 0, value <= 0.20 && queue == 0),
    }
}

/// A node that a job may give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldNode<'a> {
    pub id: &'a NodeId,
    /// Whether it is on loan.
    pub borrowed: bool,
    /// A number for its topology group.
    pub group: u32,
}

/// The node a job gives up: a borrowed one first, then one whose loss lowers the span, then the highest id.
pub fn node_to_give_up<'a>(nodes: &[HeldNode<'a>]) -> Option<&'a NodeId> {
    let alone = |node: &HeldNode<'_>| nodes.iter().filter(|other| other.group == node.group).count() == 1;
    nodes.iter().max_by_key(|node| (node.borrowed, alone(node), node.id)).map(|node| node.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { nodes: 3, min: 1, max: 9, headroom: 9 };
    const UP: Step = Step::Move(Direction::Up);
    const DOWN: Step = Step::Move(Direction::Down);

    fn target() -> ReactiveSettings {
        ReactiveSettings::new(ScaleRule::Target(100.0))
    }

    fn value(value: f64) -> Sample {
        Sample { value: Some(value), queue: 0 }
    }

    fn at(secs: i64) -> Time {
        Time::from_secs(secs)
    }

    /// Feeds one sample per minute and commits every step; says when and where it moved.
    fn run(
        settings: &ReactiveSettings,
        nodes: u32,
        samples: impl IntoIterator<Item = Sample>,
    ) -> Vec<(i64, Direction)> {
        let mut job = Reactive::default();
        let mut moves = Vec::new();
        let mut bounds = Bounds { nodes, ..BOUNDS };
        for (minute, sample) in samples.into_iter().enumerate() {
            let now = at(60 * minute as i64);
            if let (Step::Move(direction), _) = job.sample(settings, sample, bounds, now) {
                job.committed(direction, now);
                bounds.nodes = if direction == Direction::Up { bounds.nodes + 1 } else { bounds.nodes - 1 };
                moves.push((60 * minute as i64, direction));
            }
        }
        moves
    }

    #[test]
    fn b35_steps_of_a_target() {
        let settings = target();
        let first = |nodes, metric, minutes| run(&settings, nodes, vec![value(metric); minutes]);
        assert_eq!(first(1, 120.0, 7), [(120, Direction::Up), (300, Direction::Up)]);
        assert_eq!(first(3, 100.0, 60), []);
        assert_eq!(first(3, 50.0, 60), [], "equality: neither");
        assert_eq!(
            first(3, 40.0, 30),
            [(300, Direction::Down), (660, Direction::Down)],
            "then it is at its fewest"
        );
    }

    #[test]
    fn utilisation_looks_at_the_queue() {
        let wants = |value, queue| wishes(ScaleRule::Utilisation, value, queue);
        assert_eq!(wants(0.80, 0), (true, false));
        assert_eq!(wants(0.79, 0), (false, false));
        assert_eq!(wants(0.79, 1), (true, false));
        assert_eq!(wants(0.20, 0), (false, true));
        assert_eq!(wants(0.21, 0), (false, false));
        assert_eq!(wants(0.0, 3), (true, false));
    }

    #[test]
    fn a_window_is_true_at_every_sample() {
        let high = value(120.0);
        let broken = [high, high, value(100.0), high, high, high];
        assert_eq!(run(&target(), 3, broken), [(300, Direction::Up)]);
        let missing = [high, high, Sample::default(), high, high, high];
        assert_eq!(run(&target(), 3, missing), [(300, Direction::Up)], "a missing sample restarts it");
        let nan = [high, high, value(f64::NAN), high, high, high];
        assert_eq!(run(&target(), 3, nan), [(300, Direction::Up)], "no number is a missing sample");
    }

    #[test]
    fn cooldowns_are_separate() {
        let settings = ReactiveSettings {
            window_up_ms: Millis::ZERO,
            window_down_ms: Millis::ZERO,
            cooldown_down_ms: Millis::secs(240),
            ..target()
        };
        let mut samples = vec![value(120.0), value(40.0)];
        samples.extend([value(120.0); 2]);
        samples.extend([value(40.0); 2]);
        let want = [(0, Direction::Up), (60, Direction::Down), (180, Direction::Up), (300, Direction::Down)];
        assert_eq!(run(&settings, 3, samples), want);
    }

    #[test]
    fn bounds_and_quota_hold() {
        let mut job = Reactive::default();
        let mut step = |metric: f64, bounds| {
            job.sample(&target(), value(metric), bounds, at(0));
            job.sample(&target(), value(metric), bounds, at(600)).0
        };
        assert_eq!(step(120.0, BOUNDS), UP);
        assert_eq!(step(120.0, Bounds { nodes: 9, ..BOUNDS }), Step::Hold(Hold::Bound));
        assert_eq!(step(120.0, Bounds { headroom: 0, ..BOUNDS }), Step::Hold(Hold::Quota));
        assert_eq!(step(40.0, BOUNDS), DOWN);
        assert_eq!(step(40.0, Bounds { nodes: 1, ..BOUNDS }), Step::Hold(Hold::Bound));
        assert_eq!(step(70.0, BOUNDS), Step::Hold(Hold::Steady));
    }

    #[test]
    fn three_missing_samples_raise_one_alert() {
        let mut job = Reactive::default();
        let alerts = |job: &mut Reactive, samples: &[Sample]| {
            samples.iter().map(|&sample| job.sample(&target(), sample, BOUNDS, at(0)).1).collect::<Vec<_>>()
        };
        let none = Sample::default();
        let missing = Some(ScaleAlert::MetricMissing);
        assert_eq!(alerts(&mut job, &[none; 4]), [None, None, missing, None]);
        assert_eq!(alerts(&mut job, &[value(1.0), none, none, none]), [None, None, None, missing]);
    }

    #[test]
    fn three_rejections_pause_for_six_minutes() {
        let mut job = Reactive::default();
        let mut step = |secs: i64, reject: bool| {
            let step = job.sample(&target(), value(120.0), BOUNDS, at(secs)).0;
            if reject && step == UP {
                job.rejected(Direction::Up, at(secs));
            }
            step
        };
        assert_eq!(step(0, true), Step::Hold(Hold::Window));
        assert_eq!([120, 180, 240].map(|secs| step(secs, true)), [UP; 3], "a rejection restarts nothing");
        assert_eq!([300, 599].map(|secs| step(secs, true)), [Step::Hold(Hold::Pause); 2]);
        assert_eq!([600, 660].map(|secs| step(secs, true)), [UP; 2]);
        assert_eq!(step(720, false), UP);
        job.committed(Direction::Up, at(720));
        job.rejected(Direction::Down, at(720));
        assert_eq!((job.rejected, job.paused_until), (0, None), "a commit ends the row");
        job.undone(at(730));
        assert_eq!(job.paused_until, Some(at(730) + REJECTED_PAUSE), "unless its node never begins");
    }

    #[test]
    fn more_than_five_turns_an_hour_are_flapping() {
        let mut job = Reactive::default();
        let mut alerts = Vec::new();
        for step in 0..9 {
            let direction = if step % 2 == 0 { Direction::Up } else { Direction::Down };
            alerts.push(job.committed(direction, at(300 * step)));
        }
        let want: Vec<_> = (0..9).map(|step| (step == 6).then_some(ScaleAlert::Flapping)).collect();
        assert_eq!(alerts, want, "the sixth change of direction, once");
        assert_eq!(job.committed(Direction::Down, at(9000)), None);
        assert!(!job.flapping, "an hour later it is forgotten");
        for step in 0..9 {
            assert_eq!(job.committed(Direction::Down, at(9000 + step)), None, "no change of direction");
        }
    }

    #[test]
    fn below_its_fewest_nodes_it_asks_at_every_cycle() {
        let mut job = Reactive::default();
        let low = Bounds { nodes: 1, min: 2, ..BOUNDS };
        assert_eq!(job.cycle(low), (Some(Direction::Up), Some(ScaleAlert::BelowMin)));
        for _ in 0..9 {
            job.rejected(Direction::Up, at(0));
            assert_eq!(job.cycle(low), (Some(Direction::Up), None), "no pause, no second alert");
        }
        job.committed(Direction::Up, at(5));
        assert_eq!(job.cycle(Bounds { nodes: 2, ..low }), (None, None));
        assert_eq!(job.cycle(low), (Some(Direction::Up), Some(ScaleAlert::BelowMin)), "a new loss");
    }

    #[test]
    fn borrowed_then_lonely_then_highest() {
        let ids = ["a", "b", "c", "d"].map(|id| NodeId::new(id).unwrap());
        let give = |rows: [(bool, u32); 4]| {
            let held: Vec<_> = ids
                .iter()
                .zip(rows)
                .map(|(id, (borrowed, group))| HeldNode { id, borrowed, group })
                .collect();
            node_to_give_up(&held).map(|id| id.as_str().to_owned()).unwrap()
        };
        assert_eq!(give([(true, 1), (false, 2), (true, 1), (false, 3)]), "c");
        assert_eq!(give([(false, 1), (false, 2), (false, 1), (false, 1)]), "b");
        assert_eq!(give([(false, 1); 4]), "d");
        assert_eq!(node_to_give_up(&[]), None);
    }
}
