//! Who submits what: users, their programs, sizes, run times and estimates.

use super::{Generated, GpuNeed, Settings};
use crate::trace::random::{Random, zipf};

/// How unequal users are.
const USER_ZIPF: f64 = 1.1;
/// Most programs of one user.
const PROGRAMS_MAX: u64 = 6;
/// Share of jobs that come from the user of the job before.
const SAME_USER: f64 = 0.4;
const GROUP_USERS: usize = 8;
/// Share of jobs that end early: a wrong input, a test.
const EARLY: f64 = 0.12;
/// Share of jobs whose user guessed too low.
const TOO_LOW: f64 = 0.05;
/// Share of parallel jobs whose size is a power of two.
const POWER_OF_TWO: f64 = 0.75;
/// Share of jobs that ask for GPUs on a machine that has them.
const GPU_JOBS: f64 = 0.85;
const RUN_MAX: f64 = 4.0 * 86_400.0;

/// Times that people ask for, in seconds.
const ROUND: [i64; 24] = [
    300, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 10_800, 14_400, 18_000, 21_600, 28_800, 36_000,
    43_200, 54_000, 64_800, 86_400, 129_600, 172_800, 259_200, 345_600, 691_200,
];

/// A program of a user: what its jobs are usually like.
struct Program {
    executable: i64,
    /// Logarithm to base 2 of the usual size.
    size: f64,
    /// Whether it knows no parallelism.
    serial: bool,
    run: f64,
    /// What the user always asks for, if it is always the same.
    favourite: Option<i64>,
    memory_mib: u64,
    gpus: GpuHabit,
}

/// What a program usually wants of GPUs.
enum GpuHabit {
    None,
    Shared(u64),
    Whole(u64),
}

struct User {
    programs: Vec<Program>,
    popularity: Vec<f64>,
}

pub(super) struct Population<'a> {
    settings: &'a Settings,
    random: Random,
    users: Vec<User>,
    popularity: Vec<f64>,
    last: usize,
}

impl<'a> Population<'a> {
    pub(super) fn new(settings: &'a Settings, mut random: Random) -> Self {
        let mut executable = 0;
        let users = (0..settings.users)
            .map(|_| {
                let count = 1 + random.below(PROGRAMS_MAX) as usize;
                let programs = (0..count).map(|_| {
                    executable += 1;
                    program(settings, executable, &mut random)
                });
                User { programs: programs.collect(), popularity: zipf(count, 1.0) }
            })
            .collect();
        Self { settings, random, users, popularity: zipf(settings.users, USER_ZIPF), last: 0 }
    }

    /// The next job, without number and submit time.
    pub(super) fn job(&mut self) -> Generated {
        let random = &mut self.random;
        if !random.chance(SAME_USER) {
            self.last = random.weighted(&self.popularity);
        }
        let user = &self.users[self.last];
        let program = &user.programs[random.weighted(&user.popularity)];
        let procs = size(program, self.settings.procs, random);
        let wanted = if random.chance(EARLY) {
            random.log_normal(25.0, 1.0)
        } else {
            random.log_normal(program.run, 0.7)
        };
        let wanted = wanted.clamp(1.0, RUN_MAX) as i64;
        let estimate = estimate(wanted, program.favourite, random);
        Generated {
            number: 0,
            submit: 0,
            run: wanted.min(estimate),
            procs,
            estimate,
            user: self.last as i64 + 1,
            group: (self.last / GROUP_USERS) as i64 + 1,
            executable: program.executable,
            killed: wanted > estimate,
            memory_mib: program.memory_mib,
            gpus: gpu_need(program, self.settings, random),
        }
    }
}

fn program(settings: &Settings, executable: i64, random: &mut Random) -> Program {
    let widest = libm::log2(settings.procs as f64);
    // Two kinds of work: short and long, as logs show two humps.
    let run =
        if random.chance(0.45) { random.log_normal(400.0, 1.2) } else { random.log_normal(9000.0, 1.1) };
    let gpus = match settings.gpus {
        Some(gpus) if random.chance(GPU_JOBS) => {
            let node = u64::from(gpus.per_node);
            match random.unit() {
                kind if kind < 0.35 => GpuHabit::Shared(100 * (1 + random.below(9))),
                kind if kind < 0.80 => GpuHabit::Whole(1),
                kind if kind < 0.95 => GpuHabit::Whole((1 << (1 + random.below(3))).min(node)),
                _ => GpuHabit::Whole(node * (1 + random.below(4))),
            }
        }
        _ => GpuHabit::None,
    };
    Program {
        executable,
        size: (widest * 0.4 + 1.3 * random.normal()).clamp(1.0, widest.max(1.0)),
        serial: random.chance(settings.serial),
        run: run.clamp(20.0, RUN_MAX / 2.0),
        favourite: random.chance(0.5).then(|| above((run * (1.5 + 4.0 * random.unit())) as i64)),
        memory_mib: 512 << random.below(5),
        gpus,
    }
}

fn size(program: &Program, procs: u64, random: &mut Random) -> u64 {
    if program.serial {
        return 1;
    }
    let exponent = (program.size + 0.6 * random.normal()).max(0.5);
    let size = if random.chance(POWER_OF_TWO) {
        libm::exp2(libm::round(exponent)) as u64
    } else {
        libm::round(libm::exp2(exponent)) as u64
    };
    size.clamp(1, procs)
}

/// The smallest round time that is not below; beyond the list, whole days.
fn above(seconds: i64) -> i64 {
    let day = 86_400;
    ROUND.into_iter().find(|&round| round >= seconds).unwrap_or((seconds + day - 1) / day * day)
}

/// What the user asks for: mostly far too much, sometimes too little, nearly always a round number.
fn estimate(run: i64, favourite: Option<i64>, random: &mut Random) -> i64 {
    if random.chance(TOO_LOW) && run > 600 {
        let below = ROUND.into_iter().rev().find(|&round| round < run);
        return below.unwrap_or(ROUND[0]);
    }
    if let Some(favourite) = favourite.filter(|&favourite| favourite >= run) {
        return favourite;
    }
    // The true share of the estimate that is used is near uniform in real logs.
    let used = 0.05 + 0.95 * random.unit();
    above((run as f64 / used) as i64 + 1)
}

fn gpu_need(program: &Program, settings: &Settings, random: &mut Random) -> Option<GpuNeed> {
    let gpus = settings.gpus?;
    match program.gpus {
        GpuHabit::None => None,
        GpuHabit::Shared(milli) => Some(GpuNeed { count: 1, milli, vram_mib: gpus.vram_mib * milli / 1000 }),
        GpuHabit::Whole(count) => {
            // More than a node's devices come in whole nodes.
            let node = u64::from(gpus.per_node);
            let most = if gpus.total >= node { gpus.total / node * node } else { gpus.total };
            let share = 0.4 + 0.6 * random.unit();
            let vram_mib = (gpus.vram_mib as f64 * share) as u64;
            Some(GpuNeed { count: count.min(most), milli: 1000, vram_mib })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_times_are_never_below() {
        assert_eq!(above(1), 300);
        assert_eq!(above(300), 300);
        assert_eq!(above(301), 600);
        assert_eq!(above(691_201), 9 * 86_400);
        assert!(ROUND.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn tiny_machines_have_jobs_too() {
        let settings = Settings::new(100, 1, 0.5, 1);
        let mut population = Population::new(&settings, Random::new(1));
        assert!((0..100).all(|_| population.job().procs == 1));
    }
}
