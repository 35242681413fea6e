//! The only clock of the server: engine time.
//!
//! Engine time is what walltimes, leases, silence of nodes and retention are counted in. It follows the clock that the
//! kernel counts from boot, which nobody can set and which goes on while the machine sleeps, and leans towards the wall
//! clock, which anybody can set. Each look at the clocks is one step of this machine:
//!
//! ```text
//!  start ── same boot as the last start ──► engine = anchor + ticks ─┐
//!    │                                                               ├─► not before the last event of the journal ─► follow
//!    └───── another boot or machine ──────► engine = wall ───────────┘
//!
//!  follow, with t = ticks since the last look, w = what the wall clock did meanwhile:
//!    jump    if |w - t| is a second or more        counted, journalled, told to people
//!    engine += t + lean                            lean = what is missing to the wall clock, at most a tenth of t
//! ```
//!
//! So engine time never stands still, never goes back, and a deadline is late or early by a tenth at most, whatever is done
//! to the wall clock: a day ahead for four seconds moves it by 0.4 s. A wall clock that stays away is followed by six
//! seconds a minute. A journal whose time is ahead goes on from there and is led back the same way.
//!
//! After a start on the same boot the anchor (engine time when the ticks began) tells how long the server was away, whatever
//! the wall clock says. On another boot nobody can tell a long outage from a wrong clock: time is taken from the wall clock, and if it
//! went on by more than a day, nothing is erased for a day ([`Clock::surely_past`]), so that people can look. The anchor
//! remembers that, so that starting once more does not end it.
//!
//! [ADR 19](../../../docs/adr/0019-time-that-cannot-be-broken.md) argues it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use landfall_model::Time;
use serde::{Deserialize, Serialize};

/// A wall clock that does so much more or less than the ticks has jumped. Daemons that keep time step from 0.1 s on.
const JUMP: i128 = 1_000_000_000;
/// Engine time leans towards the wall clock by one part in so many.
const LEAN: i128 = 10;
/// Nothing is erased for so long after a start whose time cannot be believed.
const REST: Duration = Duration::from_secs(86_400);
/// Two looks at one clock that are further apart than this say nothing about the look at the other between them.
const APART: Duration = Duration::from_millis(50);

/// What the clocks of the machine say at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Since boot, or since some other moment that does not move.
    pub ticks: Duration,
    /// Nanoseconds since 1970 by the wall clock.
    pub wall: i128,
}

/// The wall clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jump {
    /// How far it jumped, in milliseconds; negative if back.
    pub by_ms: i64,
    /// How far it is ahead of engine time since then, in milliseconds.
    pub ahead_ms: i64,
}

/// What ties engine time to the ticks of one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Which boot of which machine; empty where nobody can tell.
    pub boot: String,
    /// Engine time when the ticks began, in milliseconds since 1970.
    pub zero_ms: i64,
    /// Nothing is erased before engine time is this.
    #[serde(default)]
    pub rests_until_ms: i64,
}

/// Engine time as a machine without a clock of its own; see the head of this module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    last: Reading,
    /// Nanoseconds since 1970.
    engine: i128,
    /// Nothing is erased before engine time is this.
    rests_until: i128,
}

impl Machine {
    /// Begins behind the last stored instant, from the anchor of the start before, if the ticks are still those of `boot`.
    pub fn start(first: Reading, stored: Time, anchor: Option<&Anchor>, boot: &str) -> Self {
        let zero_ms =
            anchor.filter(|anchor| anchor.boot == boot && !boot.is_empty()).map(|known| known.zero_ms);
        let stored = nanos(stored.as_millis());
        let told = match zero_ms {
            Some(zero) => nanos(zero) + ticks(first.ticks),
            None => first.wall,
        };
        let gap = told - stored;
        let doubtful = zero_ms.is_none() && stored > 0 && gap > ticks(REST);
        let still_rests = nanos(anchor.map_or(0, |anchor| anchor.rests_until_ms));
        let rests_until = if doubtful { told + ticks(REST) } else { still_rests };
        Self { last: first, engine: told.max(stored), rests_until }
    }

    /// One look at the clocks.
    pub fn read(&mut self, reading: Reading) -> Option<Jump> {
        // Two threads may look in one order and come here in the other.
        let passed = reading.ticks.checked_sub(self.last.ticks)?;
        let passed = ticks(passed);
        let jumped = reading.wall - self.last.wall - passed;
        self.last = reading;
        self.engine += passed;
        let most = passed / LEAN;
        self.engine += self.ahead().clamp(-most, most);
        (jumped.abs() >= JUMP).then(|| Jump { by_ms: millis(jumped), ahead_ms: millis(self.ahead()) })
    }

    pub fn now(&self) -> Time {
        Time::from_millis(millis(self.engine))
    }

    /// How far the wall clock is ahead of engine time, in nanoseconds.
    fn ahead(&self) -> i128 {
        self.last.wall - self.engine
    }

    /// The same if it is worth a word.
    fn difference(&self) -> Option<i64> {
        Some(self.ahead()).filter(|ahead| ahead.abs() >= JUMP).map(millis)
    }

    fn anchor(&self, boot: &str) -> Anchor {
        Anchor {
            boot: boot.to_owned(),
            zero_ms: millis(self.engine - ticks(self.last.ticks)),
            rests_until_ms: millis(self.rests_until),
        }
    }

    fn surely_past(&self) -> Option<Time> {
        let earlier = Time::from_millis(millis(self.engine.min(self.last.wall)));
        (self.engine >= self.rests_until).then_some(earlier)
    }
}

fn nanos(millis: i64) -> i128 {
    i128::from(millis) * 1_000_000
}

fn ticks(span: Duration) -> i128 {
    i128::try_from(span.as_nanos()).unwrap_or(i128::MAX)
}

fn millis(nanos: i128) -> i64 {
    i64::try_from(nanos.div_euclid(1_000_000)).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

type Source = Box<dyn FnMut() -> Reading + Send>;

struct Held {
    source: Source,
    machine: Machine,
    jumps: u64,
    /// Jumps that nobody has written down yet.
    unsaid: Vec<Jump>,
}

/// Engine time for everybody in the process.
pub struct Clock {
    boot: String,
    held: Mutex<Held>,
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

/// How engine time stands to the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// How far the wall clock is ahead, in milliseconds.
    pub ahead_ms: i64,
    /// Jumps since the start.
    pub jumps: u64,
    /// Whether nothing is erased because nobody can tell how long the server was away.
    pub rests: bool,
}

impl Clock {
    /// The clocks of this machine, going on behind the last stored instant.
    pub fn start(stored: Time, anchor: Option<&Anchor>) -> Self {
        let began = Instant::now();
        Self::with(boot(), Box::new(move || look(began)), stored, anchor)
    }

    /// Clocks from elsewhere, for tests in virtual time; `boot` names where the ticks began.
    pub fn with(boot: String, mut source: Source, stored: Time, anchor: Option<&Anchor>) -> Self {
        let machine = Machine::start(source(), stored, anchor, &boot);
        // What it was while nobody looked is told like a jump that somebody saw.
        let found = machine.difference().map(|ahead| Jump { by_ms: ahead, ahead_ms: ahead });
        let held = Held { source, machine, jumps: 0, unsaid: found.into_iter().collect() };
        Self { boot, held: Mutex::new(held) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = (held.source)();
        if let Some(jump) = held.machine.read(reading) {
            held.jumps += 1;
            held.unsaid.push(jump);
        }
        held
    }

    /// Engine time. It never goes back.
    pub fn now(&self) -> Time {
        self.held().machine.now()
    }

    /// What the kernel counted since boot.
    pub fn ticks(&self) -> Duration {
        self.held().machine.last.ticks
    }

    /// Engine time, the ticks it was made of, and the jumps that nobody has written down yet.
    pub fn round(&self) -> (Time, Duration, Vec<Jump>) {
        let mut held = self.held();
        (held.machine.now(), held.machine.last.ticks, std::mem::take(&mut held.unsaid))
    }

    pub fn standing(&self) -> Standing {
        let held = self.held();
        let rests = held.machine.surely_past().is_none();
        Standing { ahead_ms: millis(held.machine.ahead()), jumps: held.jumps, rests }
    }

    /// An instant that has passed by every clock there is; what is older than the retention before it may be erased. `None`
    /// while that cannot be told.
    pub fn surely_past(&self) -> Option<Time> {
        self.held().machine.surely_past()
    }

    /// What the next start has to know.
    pub fn anchor(&self) -> Anchor {
        self.held().machine.anchor(&self.boot)
    }
}

/// Looks at both clocks. A thread that was set aside between the looks would see a jump that was none, so it looks again.
fn look(began: Instant) -> Reading {
    loop {
        let before = since_boot(began);
        let wall = SystemTime::now();
        let ticks = since_boot(began);
        if ticks.saturating_sub(before) <= APART {
            let wall = match wall.duration_since(UNIX_EPOCH) {
                Ok(since) => i128::try_from(since.as_nanos()).unwrap_or(i128::MAX),
                Err(before) => -i128::try_from(before.duration().as_nanos()).unwrap_or(i128::MAX),
            };
            return Reading { ticks, wall };
        }
    }
}

#[cfg(target_os = "linux")]
fn since_boot(_began: Instant) -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(target_os = "linux")]
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Elsewhere the ticks begin with the process, so no start can go on with those of another.
#[cfg(not(target_os = "linux"))]
fn since_boot(began: Instant) -> Duration {
    began.elapsed()
}

#[cfg(not(target_os = "linux"))]
fn boot() -> String {
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i128 = 1_000_000_000;
    const DAY_MS: i64 = 86_400_000;
    /// Some instant by the wall clock.
    const NOON: i64 = 1_800_000_000_000;

    fn at(ticks_ms: u64, wall_ms: i64) -> Reading {
        Reading { ticks: Duration::from_millis(ticks_ms), wall: nanos(wall_ms) }
    }

    fn engine(machine: &Machine) -> i64 {
        machine.now().as_millis()
    }

    #[test]
    fn a_day_ahead_for_four_seconds_moves_nothing() {
        let mut machine = Machine::start(at(5_000, NOON), Time::ZERO, None, "boot");
        for second in 1..=4 {
            let jump = machine.read(at(5_000 + second * 1000, NOON + DAY_MS + second as i64 * 1000));
            assert_eq!(jump.is_some(), second == 1);
            assert!(jump.is_none_or(|jump| jump.by_ms == DAY_MS));
        }
        assert_eq!(engine(&machine), NOON + 4_400);
        assert_eq!(machine.surely_past(), Some(Time::from_millis(NOON + 4_400)));
        assert_eq!(machine.read(at(10_000, NOON + 5_000)).map(|jump| jump.by_ms), Some(-DAY_MS));
        for second in 6..=20 {
            assert_eq!(machine.read(at(5_000 + second * 1000, NOON + second as i64 * 1000)), None);
        }
        assert_eq!(engine(&machine), NOON + 20_000, "and it is the wall clock's again");
    }

    #[test]
    fn a_journal_that_is_ahead_goes_on_and_is_led_back() {
        let stored = Time::from_millis(NOON + 40 * DAY_MS);
        let mut machine = Machine::start(at(0, NOON), stored, None, "boot");
        assert_eq!(engine(&machine), stored.as_millis());
        machine.read(at(100_000, NOON + 100_000));
        assert_eq!(engine(&machine), stored.as_millis() + 90_000, "nine tenths of the time that passed");
        let past = machine.surely_past().unwrap();
        assert_eq!(past.as_millis(), NOON + 100_000, "retention believes the earlier one");
    }

    #[test]
    fn a_start_on_the_same_boot_does_not_believe_the_wall_clock() {
        let mut machine = Machine::start(at(1_000, NOON), Time::ZERO, None, "boot");
        machine.read(at(2_000, NOON + 1_000));
        let (anchor, stored) = (machine.anchor("boot"), machine.now());
        for wrong in [-40 * DAY_MS, 0, 40 * DAY_MS] {
            // The server is away for a minute.
            let again = Machine::start(at(62_000, NOON + 61_000 + wrong), stored, Some(&anchor), "boot");
            assert_eq!(engine(&again), NOON + 61_000, "{wrong}");
            assert_eq!(again.difference(), Some(wrong).filter(|wrong| *wrong != 0));
            let erasable = again.surely_past().unwrap().as_millis();
            assert!(erasable <= NOON + 61_000, "{wrong}");
        }
    }

    #[test]
    fn a_start_on_another_boot_believes_the_wall_clock_but_erases_nothing_for_a_day() {
        let stored = Time::from_millis(NOON);
        let mut soon = Machine::start(at(0, NOON + 3_600_000), stored, None, "boot");
        assert_eq!(engine(&soon), NOON + 3_600_000);
        soon.read(at(1, NOON + 3_600_001));
        assert!(soon.surely_past().is_some(), "an hour of outage is nothing");
        let mut late = Machine::start(at(0, NOON + 40 * DAY_MS), stored, None, "boot");
        assert_eq!(engine(&late), NOON + 40 * DAY_MS);
        assert_eq!(late.surely_past(), None);
        late.read(at(60_000, NOON + 40 * DAY_MS + 60_000));
        // Starting once more does not end it, on this boot or on the next.
        let (anchor, stored) = (late.anchor("boot"), late.now());
        for boot in ["boot", "next", ""] {
            let mut again =
                Machine::start(at(90_000, NOON + 40 * DAY_MS + 90_000), stored, Some(&anchor), boot);
            assert_eq!((engine(&again), again.surely_past()), (NOON + 40 * DAY_MS + 90_000, None), "{boot}");
            again.read(at(86_400_000, NOON + 41 * DAY_MS));
            assert!(again.surely_past().is_some(), "{boot}");
        }
        let new = Machine::start(at(0, NOON), Time::ZERO, None, "boot");
        assert!(new.surely_past().is_some(), "a new journal has nothing to lose");
    }

    #[test]
    fn sleep_is_time_that_passed_and_no_jump() {
        let mut machine = Machine::start(at(1_000, NOON), Time::ZERO, None, "boot");
        let night = 8 * 3_600_000;
        assert_eq!(machine.read(at(1_000 + night, NOON + night as i64)), None);
        assert_eq!(engine(&machine), NOON + night as i64);
    }

    #[test]
    fn everybody_hears_of_a_jump_once() {
        let mut looks =
            [at(0, NOON), at(1, NOON + 1), at(2, NOON + DAY_MS), at(3, NOON + DAY_MS + 1)].into_iter();
        let source = Box::new(move || looks.next().unwrap_or(at(3, NOON + DAY_MS + 1)));
        let clock = Clock::with("boot".into(), source, Time::ZERO, None);
        assert_eq!(clock.now().as_millis(), NOON + 1);
        assert_eq!(clock.now().as_millis(), NOON + 2, "whoever looks may find it");
        let (_, _, jumps) = clock.round();
        assert_eq!(jumps.len(), 1);
        assert_eq!(clock.round().2, []);
        assert_eq!(clock.standing().jumps, 1);
        let anchor = clock.anchor();
        assert_eq!((anchor.boot.as_str(), anchor.zero_ms), ("boot", NOON));
    }

    /// Spans between looks, and what was done to the wall clock meanwhile.
    fn life() -> impl Strategy<Value = Vec<(u64, i64)>> {
        let step = prop_oneof![
            6 => Just(0i64),
            2 => -900i64..900,
            1 => -100 * DAY_MS..100 * DAY_MS,
        ];
        proptest::collection::vec((0u64..5_000, step), 1..200)
    }

    proptest! {
        #[test]
        fn engine_time_keeps_its_pace_whatever_is_done_to_the_wall_clock(
            life in life(), ahead in -100 * DAY_MS..100 * DAY_MS, stops in proptest::collection::vec(any::<bool>(), 200),
        ) {
            let (mut ticks_ms, mut wall_ms) = (7_000u64, NOON);
            let stored = Time::from_millis(NOON + ahead);
            let mut machine = Machine::start(at(ticks_ms, wall_ms), stored, None, "boot");
            prop_assert!(machine.now() >= stored);
            for ((span, step), stop) in life.into_iter().zip(stops) {
                let before = machine.engine;
                ticks_ms += span;
                wall_ms += span as i64 + step;
                let jump = if stop {
                    // Killed and started again: the last event may be older than the last look.
                    let anchor = machine.anchor("boot");
                    machine = Machine::start(at(ticks_ms, wall_ms), stored, Some(&anchor), "boot");
                    None
                } else {
                    let jump = machine.read(at(ticks_ms, wall_ms));
                    prop_assert_eq!(jump.map(|jump| jump.by_ms), Some(step).filter(|step| step.abs() >= 1000));
                    jump
                };
                let (moved, passed) = (machine.engine - before, nanos(span as i64));
                // The anchor is kept in milliseconds.
                prop_assert!(moved >= passed - passed / 10 - 1_000_000 && moved <= passed + passed / 10 + 1_000_000);
                prop_assert!(stop || moved >= 0);
                prop_assert!(jump.is_none_or(|jump| jump.ahead_ms == millis(machine.ahead())));
                prop_assert!(machine.surely_past().is_none_or(|past| past <= machine.now()));
            }
        }

        #[test]
        fn a_wall_clock_that_is_left_alone_is_reached(away in -3_600i64..3_600) {
            let mut machine = Machine::start(at(0, NOON), Time::ZERO, None, "boot");
            let mut apart = SECOND * i128::from(away.abs());
            let mut reading = at(0, NOON + away * 1000);
            while apart > 0 {
                reading.ticks += Duration::from_secs(60);
                reading.wall += 60 * SECOND;
                machine.read(reading);
                let left = machine.ahead().abs();
                prop_assert_eq!(left, (apart - 6 * SECOND).max(0));
                apart = left;
            }
        }
    }
}
