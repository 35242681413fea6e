//! Whole batch logs.

use std::path::Path;
use std::time::Instant;

use landfall_replay::decisions::Decisions;
use landfall_replay::machine::{Estimate, Events, LogPolicy};
use landfall_replay::measures::Measures;
use landfall_replay::run::{JobRun, Run};
use landfall_replay::subject::{Chosen, Log, PolicyKind, Subject};
use landfall_replay::trace::batch::Kept;
use landfall_replay::trace::{open, swf};

use crate::Findings;
use crate::expected::{LEARNERS, LOGS, REFERENCE};

/// Reads a log for a machine of so many processors.
pub(crate) fn read(path: &Path, procs: u32, events: Events) -> Log {
    let source = open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let log = swf::Log::read(source).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Log {
        name: path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        jobs: Kept::of(&log, u64::from(procs)).jobs,
        procs,
        procs_per_node: 1,
        events,
        cycle: None,
        estimate: Estimate::User,
        inputs_sha256: Default::default(),
    }
}

/// Replays a log under a policy by name.
pub(crate) fn replay(log: &Log, policy: &str) -> Run {
    replay_as(log, policy, LogPolicy::named(policy).expect("a policy for logs"))
}

fn replay_as(log: &Log, name: &str, policy: LogPolicy) -> Run {
    let chosen = Chosen { name: name.to_owned(), what: PolicyKind::Log(policy), sha256: None };
    let subject = Subject::Log(log.clone());
    subject.run(&chosen, 0, Decisions::new(None), &mut |_| true).expect("a run")
}

/// Mean bounded slowdown and longest wait in seconds under a policy.
pub(crate) fn mean_and_longest(log: &Log, policy: LogPolicy) -> (f64, f64) {
    let measures = Measures::of(&replay_as(log, "", policy));
    (slowdown(&measures), measures.wait_s.map_or(f64::NAN, |found| found.max))
}

fn slowdown(measures: &Measures) -> f64 {
    measures.bounded_slowdown.map_or(f64::NAN, |found| found.mean)
}

/// EASY and SJBF against the published means, and every wait against the published schedules.
pub(crate) fn published(folder: &Path, findings: &mut Findings) {
    println!("Whole logs, one pass per event (Gaussier et al., SC 2015): mean bounded slowdown");
    println!(
        "{:<10} {:<5} {:<5} {:>12} {:>12}  {:<9} {:>8}",
        "log", "", "est.", "published", "here", "", "s"
    );
    for (at, (name, procs, expected)) in LOGS.into_iter().enumerate() {
        let path = folder.join(format!("swf/easy-schedules/{name}.easy.swf.gz"));
        let mut log = read(&path, procs, Events::Single);
        let estimates = [("user", Estimate::User), ("true", Estimate::True), ("x2", Estimate::Double)];
        for (place, published) in expected.into_iter().enumerate() {
            let policy = if place < 3 { "easy" } else { "sjbf" };
            let (word, estimate) = estimates[place % 3];
            log.estimate = estimate;
            let began = Instant::now();
            let run = replay(&log, policy);
            let took = began.elapsed().as_secs_f64();
            let here = slowdown(&Measures::of(&run));
            let verdict = findings.check(format!("{here:.6}") == format!("{published:.6}"));
            println!(
                "{name:<10} {policy:<5} {word:<5} {published:>12.6} {here:>12.6}  {verdict:<9} {took:>8.3}"
            );
            if place == 0 {
                let waits = run.jobs.iter().map(|job| job.wait_ms().map(|wait| (wait / 1000) as i64));
                let differing = waits.zip(&log.jobs).filter(|(wait, job)| *wait != Some(job.wait)).count();
                let verdict = findings.check(differing == 0);
                println!("{name:<10} waits differing from the published schedule: {differing}  {verdict}");
            }
        }
        log.estimate = Estimate::User;
        for (policy, published) in LEARNERS {
            let (published, published_days) = published[at];
            let began = Instant::now();
            let run = replay(&log, policy);
            let took = began.elapsed().as_secs_f64();
            let measures = Measures::of(&run);
            let here = slowdown(&measures);
            let flow = |job: &JobRun| job.ended.map_or(0, |end| end.since(job.queued).get());
            let days = run.jobs.iter().map(flow).max().unwrap_or(0) as f64 / 86_400_000.0;
            // One of the published days is cut where the others are rounded.
            let good =
                format!("{here:.6}") == format!("{published:.6}") && (days - published_days).abs() < 0.06;
            let verdict = findings.check(good);
            println!(
                "{name:<10} {policy:<14} {published:>9.6} {here:>12.6}  {verdict:<9} {took:>8.3}  longest flow \
                 {published_days} d, here {days:.1} d"
            );
        }
    }
}

/// Figures for one pass per instant.
pub(crate) fn reference(folder: &Path, findings: &mut Findings) {
    println!("Whole logs, one pass per instant: mean bounded slowdown, mean wait, utilisation");
    for (file, procs, policy, expected, decimals, wait, utilisation) in REFERENCE {
        let log = read(&folder.join("swf").join(file), procs, Events::Batch);
        let measures = Measures::of(&replay(&log, policy));
        let here = slowdown(&measures);
        let here_wait = measures.wait_s.map_or(f64::NAN, |found| found.mean);
        let here_used = measures.utilisation.unwrap_or(f64::NAN);
        let wait_decimals = if decimals == 2 { 1 } else { 3 };
        let good = format!("{here:.decimals$}") == format!("{expected:.decimals$}")
            && format!("{here_wait:.wait_decimals$}") == format!("{wait:.wait_decimals$}")
            && (utilisation.is_nan() || format!("{here_used:.6}") == format!("{utilisation:.6}"));
        let verdict = findings.check(good);
        let name = file.rsplit('/').next().unwrap_or(file);
        println!(
            "{name:<30} {policy:<22} {expected:>13.decimals$} {here:>13.decimals$}  wait {here_wait:>13.wait_decimals$}  \
             utilisation {here_used:.6}  {verdict}"
        );
    }
}
