//! Our own policies beside the published ones. These are results, not checks: they are reported as they come.

use std::path::Path;

use landfall_replay::machine::{Events, LogPolicy};
use landfall_replay::subject::Subject;

use crate::Findings;
use crate::choose::LONGEST;
use crate::expected::{LOGS, VARIANTS};
use crate::{logs, packing};

/// Batch logs and packing.
pub(crate) fn compared(folder: &Path, findings: &mut Findings) {
    batch(folder, findings);
    println!();
    pack(folder, findings);
}

fn batch(folder: &Path, findings: &mut Findings) {
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

fn pack(folder: &Path, findings: &mut Findings) {
    println!("Packing, same arrivals: GPU given at 100 % arrived, in per cent, mean over seeds");
    println!("{:<12} {:>6} {:>10} {:>10} {:>14}", "trace", "seeds", "first-fit", "fgd", "landfall-pack");
    let mut better = 0;
    for variant in ["default"].into_iter().chain(VARIANTS) {
        let pods = packing::read(folder, variant);
        let seeds = packing::seeds(&pods);
        let pods = Subject::Pods(pods);
        let given = ["first-fit", "fgd", "landfall-pack"].map(|policy| {
            let at = |seed: &u64| {
                let run = packing::pack(&pods, policy, *seed);
                run.curve.iter().find(|point| point.arrived == 100).map_or(f64::NAN, |point| point.allocation)
            };
            seeds.iter().map(at).sum::<f64>() / seeds.len() as f64
        });
        let wins = given[2] > given[0].max(given[1]);
        let word = if wins { "better" } else { "not better" };
        if variant == "default" {
            findings.check(wins);
        } else {
            better += usize::from(wins);
        }
        println!(
            "{variant:<12} {:>6} {:>10.2} {:>10.2} {:>14.2}  {word}",
            seeds.len(),
            given[0],
            given[1],
            given[2]
        );
    }
    findings.check(better >= 10);
    println!("better than both on {better} of {} variants", VARIANTS.len());
}
