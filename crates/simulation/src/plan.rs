//! What a world is made of, all drawn from its seed before it begins. A plan is a list of things, so a failing one can be made
//! smaller by leaving some of them out.

use std::time::Duration;

use landfall_testkit::Rng;

/// Faults happen and jobs come within so many milliseconds; then everything heals.
pub const TROUBLE_MS: u64 = 90_000;

/// A job that a client submits.
#[derive(Debug, Clone)]
pub struct JobPlan {
    /// Names it, whatever id it gets.
    pub token: String,
    pub at: Duration,
    pub tenant: usize,
    /// How long it runs.
    pub ms: u64,
    pub code: i32,
    /// It has no retries.
    pub once: bool,
    /// Its node stops it when the server is silent.
    pub stop: bool,
    /// It can save its work, and is asked to leave and come back.
    pub saves: bool,
    /// It is submitted with an idempotency key, and again until that is answered.
    pub keyed: bool,
    /// So long after it was acknowledged it is cancelled.
    pub cancel_after: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The server is killed and away for a while.
    KillServer {
        away: Duration,
    },
    /// The server ends in peace and begins again.
    CloseServer {
        away: Duration,
    },
    /// The server's machine loses power in the middle of a write, so many writes from now.
    CutPower {
        writes: u64,
        away: Duration,
    },
    /// Writes fail for a while; what failed may be stored or not.
    DiskFails {
        lasts: Duration,
        stored: bool,
    },
    /// There is no room for a while.
    DiskFull {
        lasts: Duration,
    },
    /// The server is started anew with room for a few more pages, for a while.
    LittleRoom {
        lasts: Duration,
    },
    /// Every write takes long for a while.
    SlowDisk {
        lasts: Duration,
    },
    /// The server ends in peace; one bit of its database flips in a copy, which has to be noticed or harmless.
    FlipBit,
    /// The server's clock is set.
    SetClock {
        by_ms: i64,
    },
    Backup,
    /// The server is killed, and its last backup restored.
    Restore {
        away: Duration,
    },
    KillAgent {
        node: usize,
        pause: Duration,
    },
    KillKeeper {
        node: usize,
    },
    /// A machine loses power.
    Crash {
        node: usize,
        pause: Duration,
        clock_ms: i64,
    },
    /// A node and the server cannot reach each other.
    Partition {
        node: usize,
        lasts: Duration,
    },
    /// All connections of a node break.
    Reset {
        node: usize,
    },
}

impl Trouble {
    /// Whether what runs may run again because of it.
    pub fn loses_runs(&self) -> bool {
        matches!(
            self,
            Self::Restore { .. } | Self::KillKeeper { .. } | Self::Crash { .. } | Self::Partition { .. }
        )
    }
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    /// Nothing in it may make a job run twice.
    pub calm: bool,
    pub nodes: usize,
    pub pull: bool,
    /// Pauses on the nodes are up to so many milliseconds.
    pub slowness_ms: u64,
    /// Messages take up to so many milliseconds.
    pub delay_ms: u64,
    /// So many of a thousand requests are lost, and answers.
    pub lost_permille: u64,
    /// Commands come out of order and twice.
    pub disorder: bool,
    pub snapshot_every: u64,
    pub ended_in_memory: usize,
    pub jobs: Vec<JobPlan>,
    pub troubles: Vec<(Duration, Trouble)>,
}

impl Plan {
    /// The plan of a seed. Three of ten worlds are calm: nothing in them may make a job run twice.
    pub fn of(seed: u64) -> Self {
        let mut random = Rng::new(seed);
        let calm = random.chance(30);
        let nodes = random.within(1, 4) as usize;
        let jobs = (0..random.within(3, 16)).map(|number| job(&mut random, number)).collect();
        let count = random.within(0, 8);
        let mut troubles: Vec<(Duration, Trouble)> = Vec::new();
        while (troubles.len() as u64) < count {
            let at = Duration::from_millis(random.below(TROUBLE_MS));
            let trouble = trouble(&mut random, nodes);
            if !(calm && trouble.loses_runs()) {
                troubles.push((at, trouble));
            }
        }
        troubles.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            calm,
            nodes,
            pull: random.chance(20),
            slowness_ms: random.choose(&[2, 20, 400]),
            delay_ms: random.choose(&[1, 10, 100, 500]),
            lost_permille: if calm { 0 } else { random.choose(&[0, 0, 5, 20]) },
            disorder: !calm && random.chance(20),
            snapshot_every: random.choose(&[20, 100, 10_000]),
            ended_in_memory: random.choose(&[0, 3, 1000]),
            jobs,
            troubles,
        }
    }
}

fn job(random: &mut Rng, number: u64) -> JobPlan {
    let once = random.chance(30);
    JobPlan {
        token: format!("t{number}"),
        at: Duration::from_millis(random.below(TROUBLE_MS * 2 / 3)),
        tenant: random.index(2),
        ms: random.choose(&[0, 5, 300, 3000, 20_000]),
        code: if random.chance(25) { 3 } else { 0 },
        once,
        stop: random.chance(25),
        saves: !once && random.chance(20),
        keyed: random.chance(85),
        cancel_after: random.chance(12).then(|| Duration::from_millis(random.below(20_000))),
    }
}

fn trouble(random: &mut Rng, nodes: usize) -> Trouble {
    let node = random.index(nodes);
    let away = Duration::from_millis(random.choose(&[10, 500, 3000, 40_000]));
    let lasts = Duration::from_millis(random.choose(&[500, 4000, 12_000, 45_000]));
    let clock_ms = random.choose(&[-86_400_000, -5_000, 5_000, 86_400_000, 40 * 86_400_000]);
    match random.below(20) {
        0..3 => Trouble::KillServer { away },
        3 => Trouble::CloseServer { away },
        4..6 => Trouble::CutPower { writes: random.within(1, 6), away },
        6 => Trouble::DiskFails { lasts: lasts.min(Duration::from_secs(5)), stored: random.chance(50) },
        7 => Trouble::DiskFull { lasts },
        8 => Trouble::LittleRoom { lasts },
        9 => Trouble::SlowDisk { lasts },
        10 => Trouble::FlipBit,
        11 => Trouble::SetClock { by_ms: clock_ms },
        12 => Trouble::Backup,
        13 => Trouble::Restore { away },
        14..16 => Trouble::KillAgent { node, pause: Duration::from_millis(random.choose(&[5, 500, 2500])) },
        16 => Trouble::KillKeeper { node },
        17 => Trouble::Crash { node, pause: away, clock_ms },
        18 => Trouble::Partition { node, lasts },
        _ => Trouble::Reset { node },
    }
}
