//! Our own policies beside the published ones. These are results, not checks: they are reported as they come.

use std::path::Path;

use landfall_replay::machine::Events;
use landfall_replay::measures::Measures;
use landfall_replay::subject::Subject;

use crate::Findings;
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
    println!("{:<10} {:>20} {:>20} {:>20}", "log", "easy", "sjbf", "landfall-batch");
    for (name, procs, _) in LOGS {
        let path = folder.join(format!("swf/easy-schedules/{name}.easy.swf.gz"));
        let log = logs::read(&path, procs, Events::Single);
        let measured = ["easy", "sjbf", "landfall-batch"].map(|policy| {
            let measures = Measures::of(&logs::replay(&log, policy));
            let slowdown = measures.bounded_slowdown.map_or(f64::NAN, |found| found.mean);
            (slowdown, measures.wait_s.map_or(f64::NAN, |found| found.max))
        });
        let longest = measured[0].1;
        let cells = measured.map(|(slowdown, wait)| format!("{slowdown:.6} ({:.3})", wait / longest));
        let ours = measured[2];
        let better = ours.0 < measured[0].0.min(measured[1].0) && ours.1 <= 1.1 * longest;
        let word = if findings.check(better) == "same" { "better" } else { "NOT BETTER" };
        println!("{name:<10} {:>20} {:>20} {:>20}  {word}", cells[0], cells[1], cells[2]);
    }
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
