//! Synthetic workloads for people without traces: seeded, with the habits of real users.
//!
//! Jobs are drawn in three steps. First who and what: users come by Zipf popularity and have a few programs each, with
//! their own usual size and run time, so that history predicts. Then how long, and what the user claims: run times are
//! log-normal around the program's own with a share of early failures, estimates are round numbers well above, and a few
//! jobs are stopped at theirs. Last when: arrivals follow day and week and come in bursts, stretched so that the work
//! asked for is the wanted share of the machine.

mod arrivals;
mod habits;

use super::random::Random;
use habits::Population;

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub jobs: usize,
    /// Processors of the machine.
    pub procs: u64,
    /// Work asked for, as a share of what the machine could do until the last submission.
    pub load: f64,
    pub seed: u64,
    pub users: usize,
    /// Share of jobs on one processor.
    pub serial: f64,
    /// GPUs of the machine and of each node, if it has any; the load is then that of the GPUs.
    pub gpus: Option<Gpus>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gpus {
    pub total: u64,
    pub per_node: u32,
    pub vram_mib: u64,
}

impl Settings {
    /// Settings that only leave size, load and seed open.
    pub fn new(jobs: usize, procs: u64, load: f64, seed: u64) -> Self {
        Self { jobs, procs, load, seed, users: 40, serial: 0.25, gpus: None }
    }

    /// Refuses what makes no workload; says which setting and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let range =
            |name, value: f64, min: f64, max: f64| match value.is_finite() && (min..=max).contains(&value) {
                true => Ok(()),
                false => Err((name, format!("{value} is out of range: {min} to {max}"))),
            };
        range("jobs", self.jobs as f64, 1.0, 10_000_000.0)?;
        range("procs", self.procs as f64, 1.0, 100_000_000.0)?;
        range("load", self.load, 0.01, 10.0)?;
        range("users", self.users as f64, 1.0, 100_000.0)?;
        range("serial", self.serial, 0.0, 1.0)?;
        if let Some(gpus) = &self.gpus {
            range("gpus", gpus.total as f64, 1.0, 10_000_000.0)?;
            range("gpus_per_node", f64::from(gpus.per_node), 1.0, 64.0)?;
            range("vram", gpus.vram_mib as f64, 1024.0, 1_048_576.0)?;
        }
        Ok(())
    }
}

/// GPUs that a job asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuNeed {
    pub count: u64,
    /// Compute of each in thousandths; below 1000 the one device is shared.
    pub milli: u64,
    pub vram_mib: u64,
}

/// A job that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generated {
    /// Its number, from 1 in the order of submission.
    pub number: i64,
    /// When it is submitted, in seconds.
    pub submit: i64,
    /// How long it runs, in seconds; never longer than `estimate`.
    pub run: i64,
    pub procs: u64,
    /// How long its user says it will run, in seconds.
    pub estimate: i64,
    /// Its user, from 1.
    pub user: i64,
    /// The user's group, from 1.
    pub group: i64,
    /// Its program, from 1; programs belong to users.
    pub executable: i64,
    /// Whether it was stopped at its estimate.
    pub killed: bool,
    pub memory_mib: u64,
    /// GPUs, if it asks for any.
    pub gpus: Option<GpuNeed>,
}

impl Generated {
    /// What counts towards the load: GPU time in thousandths where the machine has GPUs, else processor time.
    fn work(&self, has_gpus: bool) -> f64 {
        let width = match (has_gpus, self.gpus) {
            (false, _) => self.procs as f64,
            (true, Some(gpus)) => (gpus.count * gpus.milli) as f64,
            (true, None) => 0.0,
        };
        width * self.run as f64
    }
}

/// Makes a workload. The same settings give the same jobs, everywhere.
///
/// # Errors
/// If a setting is out of range: which, and why.
pub fn generate(settings: &Settings) -> Result<Vec<Generated>, (&'static str, String)> {
    settings.check()?;
    let random = Random::new(settings.seed);
    let mut population = Population::new(settings, random.fork(1));
    let mut jobs: Vec<Generated> = (0..settings.jobs).map(|_| population.job()).collect();
    let has_gpus = settings.gpus.is_some();
    let work: f64 = jobs.iter().map(|job| job.work(has_gpus)).sum();
    let capacity = settings.gpus.map_or(settings.procs as f64, |gpus| gpus.total as f64 * 1000.0);
    let span = (work / (capacity * settings.load)).max(1.0);
    let times = arrivals::times(settings.jobs, span, random.fork(2));
    for ((job, submit), number) in jobs.iter_mut().zip(times).zip(1..) {
        (job.submit, job.number) = (submit, number);
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn make(seed: u64, gpus: bool) -> Vec<Generated> {
        let gpus = gpus.then_some(Gpus { total: 64, per_node: 8, vram_mib: 81_920 });
        generate(&Settings { gpus, ..Settings::new(4000, 128, 0.8, seed) }).unwrap()
    }

    #[test]
    fn the_same_seed_makes_the_same_jobs_and_another_makes_others() {
        assert_eq!(make(7, false), make(7, false));
        assert_ne!(make(7, false), make(8, false));
    }

    #[test]
    fn the_load_is_what_was_asked_for() {
        for (gpus, capacity) in [(false, 128.0), (true, 64_000.0)] {
            let jobs = make(3, gpus);
            let work: f64 = jobs.iter().map(|job| job.work(gpus)).sum();
            let span = (jobs[jobs.len() - 1].submit - jobs[0].submit) as f64;
            let load = work / (capacity * span);
            assert!((load - 0.8).abs() < 0.01, "{load}");
        }
    }

    #[test]
    fn jobs_are_sound_and_in_order() {
        for seed in 0..5 {
            for gpus in [false, true] {
                let jobs = make(seed, gpus);
                assert!(jobs.windows(2).all(|pair| pair[0].submit <= pair[1].submit));
                for job in &jobs {
                    assert!(job.run >= 1 && job.run <= job.estimate, "{job:?}");
                    assert!((1..=128).contains(&job.procs), "{job:?}");
                    assert_eq!(job.killed, job.killed && job.run == job.estimate, "{job:?}");
                    if let Some(need) = job.gpus {
                        assert!(
                            need.count >= 1 && need.count <= 64 && (1..=1000).contains(&need.milli),
                            "{job:?}"
                        );
                        assert!(need.milli == 1000 || need.count == 1, "{job:?}");
                        assert!(need.count <= 8 || need.count.is_multiple_of(8), "{job:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn users_behave_like_users() {
        let jobs = make(1, false);
        let share =
            |of: &dyn Fn(&Generated) -> bool| jobs.iter().filter(|job| of(job)).count() as f64 / 4000.0;
        assert!((0.2..0.5).contains(&share(&|job| job.procs == 1)), "serial");
        assert!(share(&|job| job.procs.is_power_of_two()) > 0.6, "powers of two");
        assert!(share(&|job| job.estimate % 300 == 0) > 0.99, "round estimates");
        assert!((0.01..0.15).contains(&share(&|job| job.killed)), "killed");
        assert!(share(&|job| job.estimate >= 2 * job.run) > 0.3, "overestimates");
        let users: BTreeSet<i64> = jobs.iter().map(|job| job.user).collect();
        assert!(users.len() > 20, "{}", users.len());
        let mut by_user = vec![0; 41];
        jobs.iter().for_each(|job| by_user[job.user as usize] += 1);
        by_user.sort_unstable();
        assert!(by_user[40] > 5 * by_user[20], "{by_user:?}");
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let wrong = |settings: Settings| generate(&settings).unwrap_err().0;
        let good = Settings::new(10, 10, 0.8, 1);
        assert_eq!(wrong(Settings { jobs: 0, ..good }), "jobs");
        assert_eq!(wrong(Settings { load: f64::NAN, ..good }), "load");
        assert_eq!(wrong(Settings { procs: 0, ..good }), "procs");
        assert_eq!(wrong(Settings { serial: 1.5, ..good }), "serial");
        assert_eq!(wrong(Settings { users: 0, ..good }), "users");
    }
}
