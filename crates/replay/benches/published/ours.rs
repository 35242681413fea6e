//! Our own policies beside the published ones. These are results, not checks: they are reported as they come.

use std::path::Path;

use landfall_replay::machine::{Events, LogPolicy};
use landfall_replay::subject::Subject;

use crate::Findings;
use crate::choose::LONGEST;
use crate::expected::{LOGS, VARIANTS};
use crate::{logs, packing};

/// Our order of batch queues beside the published ones.
pub(crate) fn batch(folder: &Path, findings: &mut Findings) {
    println!(
        "Batch, user estimates, one pass per event: mean bounded slowdown (longest wait against EASY's)"
    );
    println!("{:<30} {:>18} {:>18} {:>18} {:>18}", "log", POLICIES[0], POLICIES[1], POLICIES[2], POLICIES[3]);
    for (name, procs, _) in LOGS {
        let [easy, sjbf, learner, ours] =
            row(&folder.join(format!("swf/easy-schedules/{name}.easy.swf.gz")), procs);
        // The learner buys its mean with waits of weeks; on CEA-Curie that is not yet matched without them.
        let better = ours.0 < easy.0.min(sjbf.0) && ours.1 <= LONGEST * easy.1;
        let word = if findings.check(better) == "same" { "better than easy and sjbf" } else { "NOT BETTER" };
        let than = if ours.0 < learner.0 { "and than easy++" } else { "not than easy++" };
        println!("  {word} {than}");
    }
    println!("Logs that nothing was chosen on: reported, not checked");
    for (file, procs) in ASIDE {
        row(&folder.join("swf").join(file), procs);
        println!();
    }
}

const POLICIES: [&str; 4] = ["easy", "sjbf", "easy++", "landfall-batch"];

/// Logs kept aside.
const ASIDE: [(&str, u32); 5] = [
    ("theta_walltime.swf.gz", 4392),
    ("mira_walltime.swf.gz", 49_152),
    ("NASA-iPSC-1993-3.1-cln.swf.gz", 128),
    ("lublin_256.swf", 256),
    ("lublin_256_new2.swf", 256),
];

/// Prints the figures of a log without ending the line.
fn row(path: &Path, procs: u32) -> [(f64, f64); 4] {
    let log = logs::read(path, procs, Events::Single);
    let measured = POLICIES
        .map(|policy| logs::mean_and_longest(&log, LogPolicy::named(policy).expect("a policy for logs")));
    let cells = measured.map(|(slowdown, wait)| format!("{slowdown:.6} ({:.3})", wait / measured[0].1));
    print!("{:<30} {:>18} {:>18} {:>18} {:>18}", log.name, cells[0], cells[1], cells[2], cells[3]);
    measured
}

/// GPUs asked for, in per cent of those there are, at which the curves are compared.
const LOADS: [u32; 5] = [50, 80, 90, 100, 130];
/// How many points `landfall-pack` may be behind `fgd` anywhere.
const BEHIND: f64 = 0.1;

/// Our packing beside the published ones, on all traces and at several loads.
pub(crate) fn pack(folder: &Path, findings: &mut Findings) {
    println!(
        "Packing, same arrivals: GPU given in per cent, mean over seeds: fgd, landfall-pack (first-fit at 100 % only)"
    );
    print!("{:<12} {:>5} {:>9}", "trace", "seeds", "first-fit");
    LOADS.iter().for_each(|load| print!(" {:>16}", format!("{load} % arrived")));
    println!();
    let mut better = 0;
    for variant in ["default"].into_iter().chain(VARIANTS) {
        let pods = packing::read(folder, variant);
        let seeds = packing::seeds(&pods);
        let pods = Subject::Pods(pods);
        let [first_fit, fgd, ours] = ["first-fit", "fgd", "landfall-pack"].map(|policy| {
            let mut given = [0.0; LOADS.len()];
            for seed in &seeds {
                let run = packing::pack(&pods, policy, *seed);
                for (sum, load) in given.iter_mut().zip(LOADS) {
                    let at = run.curve.iter().find(|point| point.arrived == load);
                    *sum += at.map_or(f64::NAN, |point| point.allocation) / seeds.len() as f64;
                }
            }
            given
        });
        print!("{variant:<12} {:>5} {:>9.2}", seeds.len(), first_fit[3]);
        fgd.iter().zip(ours).for_each(|(fgd, ours)| print!(" {:>16}", format!("{fgd:.2}, {ours:.2}")));
        let wins = ours[3] > first_fit[3].max(fgd[3]);
        let behind = fgd.iter().zip(ours).any(|(fgd, ours)| fgd - ours > BEHIND);
        if variant == "default" {
            findings.check(wins);
        } else {
            better += usize::from(wins);
        }
        findings.check(!behind);
        println!(
            "  {}{}",
            if wins { "better at 100 %" } else { "not better" },
            if behind { ", BEHIND" } else { "" }
        );
    }
    findings.check(better >= 10);
    println!("better than both at 100 % on {better} of {} variants", VARIANTS.len());
}
