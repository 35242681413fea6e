//! The constants of `landfall-batch`: chosen on all logs, and for each log on the others, which is what it is worth on a
//! log that nobody has looked at.

use std::path::Path;
use std::thread;

use landfall_engine::counted::learned::Settings;
use landfall_model::Millis;
use landfall_replay::machine::{Events, LogPolicy, Planning};
use landfall_replay::subject::Log;

use crate::expected::LOGS;
use crate::{Findings, logs};

/// The longest wait may be so much of EASY's.
pub(crate) const LONGEST: f64 = 1.1;

/// Everything that is tried.
fn candidates() -> Vec<Settings> {
    let mut all = Vec::new();
    let hours = |hours: u64| Millis::secs(3600 * hours);
    for promises in [2, 3] {
        for patience in [12, 16, 18, 20, 22, 24] {
            for grace in [30, 60, 90, 120, 150] {
                for limit in [30, 36, 42, 48, 54, 60, 72] {
                    let (patience, limit) = (hours(patience), hours(limit));
                    let grace = Millis::secs(60 * grace);
                    all.push(Settings { patience, promises, grace, limit, ..Settings::USUAL });
                }
            }
        }
    }
    all
}

/// Slowdown against EASY++'s and longest wait against EASY's, by candidate.
fn tried(log: &Log, candidates: &[Settings]) -> Vec<(f64, f64)> {
    let named = |name| logs::mean_and_longest(log, LogPolicy::named(name).expect("a policy for logs"));
    let (learner, (_, longest)) = (named("easy++").0, named("easy"));
    let one = |settings: &Settings| {
        let policy = LogPolicy::Planned(Planning::Learned(*settings));
        let (slowdown, wait) = logs::mean_and_longest(log, policy);
        (slowdown / learner, wait / longest)
    };
    candidates.iter().map(one).collect()
}

/// The candidate with the smallest slowdown, in the geometric mean over logs, among those whose longest wait is small
/// enough on each; if there is none, the one that is least above.
fn best(logs: &[&Vec<(f64, f64)>]) -> usize {
    let value = |at: usize| {
        let waits = logs.iter().map(|log| log[at].1).fold(0.0, f64::max);
        let product: f64 = logs.iter().map(|log| log[at].0).product();
        if waits <= LONGEST { (0.0, product) } else { (waits, product) }
    };
    let order = |one: &usize, two: &usize| {
        let (one, two) = (value(*one), value(*two));
        one.0.total_cmp(&two.0).then(one.1.total_cmp(&two.1))
    };
    (0..logs[0].len()).min_by(order).unwrap_or(0)
}

fn in_words(settings: &Settings) -> String {
    let minutes = |span: Millis| span.get() / 60_000;
    let hours = |span: Millis| minutes(span) / 60;
    let Settings { patience, promises, grace, limit, .. } = *settings;
    format!(
        "{promises} promises after {} h, grace {} min until {} h",
        hours(patience),
        minutes(grace),
        hours(limit)
    )
}

/// Leaves out each log in turn.
pub(crate) fn left_out(folder: &Path, findings: &mut Findings) {
    let candidates = candidates();
    println!(
        "landfall-batch, {} sets of constants: slowdown against EASY++'s (longest wait against EASY's)",
        candidates.len()
    );
    let tables: Vec<Vec<(f64, f64)>> = thread::scope(|scope| {
        let of = |name: &str, procs| {
            let path = folder.join(format!("swf/easy-schedules/{name}.easy.swf.gz"));
            tried(&logs::read(&path, procs, Events::Single), &candidates)
        };
        let runs = LOGS.map(|(name, procs, _)| scope.spawn(move || of(name, procs)));
        runs.map(|run| run.join().expect("a table")).into()
    });
    let all: Vec<_> = tables.iter().collect();
    let chosen = best(&all);
    let cell = |(slowdown, wait): (f64, f64)| format!("{slowdown:.3} ({wait:.3})");
    println!("{:<10} {:>15} {:>15}  constants chosen on the other three", "log", "all four", "left out");
    for (at, (name, ..)) in LOGS.iter().enumerate() {
        let others: Vec<_> =
            (0..tables.len()).filter(|other| *other != at).map(|other| &tables[other]).collect();
        let without = best(&others);
        println!(
            "{name:<10} {:>15} {:>15}  {}",
            cell(tables[at][chosen]),
            cell(tables[at][without]),
            in_words(&candidates[without])
        );
    }
    let usual = findings.check(candidates[chosen] == Settings::USUAL);
    println!("on all four: {}; the built-in ones: {usual}", in_words(&candidates[chosen]));
}
