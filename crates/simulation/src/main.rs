//! Draws worlds until the time is over; prints the seeds that fail and the smallest plan of the first. `cargo xtask simulate` runs it.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use landfall_simulation::{Plan, run, shrink, tell};

struct Asked {
    time: Duration,
    first: u64,
    count: u64,
    threads: u64,
}

fn asked() -> Result<Asked, String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut asked = Asked {
        time: Duration::from_secs(60),
        first: now.map_or(1, |now| now.as_secs() * 1_000_000),
        count: u64::MAX,
        threads: 1,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().and_then(|value| value.parse::<u64>().ok());
            value.ok_or_else(|| format!("{word} wants a number"))
        };
        match word.as_str() {
            "--minutes" => asked.time = Duration::from_secs(number()? * 60),
            "--seed" => (asked.first, asked.count) = (number()?, 1),
            "--from" => asked.first = number()?,
            "--seeds" => asked.count = number()?,
            "--jobs" => asked.threads = number()?.max(1),
            other => {
                return Err(format!(
                    "{other}: --minutes M, --seed S, --from S, --seeds N, --jobs N are known"
                ));
            }
        }
    }
    if asked.count != u64::MAX && asked.time == Duration::from_secs(60) {
        asked.time = Duration::MAX;
    }
    Ok(asked)
}

fn main() -> ExitCode {
    let asked = match asked() {
        Ok(asked) => asked,
        Err(message) => {
            eprintln!("simulate: {message}");
            return ExitCode::FAILURE;
        }
    };
    let began = Instant::now();
    let (next, done, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let shrunk = AtomicBool::new(false);
    let work = || {
        while began.elapsed() < asked.time {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= asked.count {
                return;
            }
            let plan = Plan::of(asked.first.wrapping_add(place));
            if let Err(wrong) = run(&plan) {
                failed.fetch_add(1, Ordering::Relaxed);
                println!("seed {}: {wrong}", plan.seed);
                if !shrunk.swap(true, Ordering::Relaxed) {
                    let (small, wrong) = shrink(&plan);
                    println!("smallest: {wrong}\n{small:#?}");
                    tell(&small).1.iter().for_each(|line| println!("{line}"));
                }
            }
            let count = done.fetch_add(1, Ordering::Relaxed) + 1;
            if count.is_multiple_of(1000) {
                let rate = count as f64 / began.elapsed().as_secs_f64();
                println!("{count} worlds, {rate:.1} a second, {} failed", failed.load(Ordering::Relaxed));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..asked.threads {
            scope.spawn(work);
        }
    });
    let (done, failed) = (done.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
    println!(
        "{done} worlds from seed {} in {:.0} s, {failed} failed",
        asked.first,
        began.elapsed().as_secs_f64()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
