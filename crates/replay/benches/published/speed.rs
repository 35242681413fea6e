//! How long the named runs take on one thread, and how much memory: each in a process of its own.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use landfall_replay::machine::Events;
use landfall_replay::subject::Subject;

use crate::{Findings, logs, packing};

/// What is measured, and how long a single-purpose C program takes on such a machine, where there is one.
const RUNS: [(&str, &str, Option<f64>); 3] = [
    ("curie", "CEA-Curie, 295,540 jobs, easy", Some(1.6)),
    ("openb", "openb default, 10,866 pods on 1,213 nodes, fgd", Some(0.5)),
    ("openb-landfall-pack", "openb default, 10,866 pods on 1,213 nodes, landfall-pack", None),
];

/// Runs each alone and prints both sides.
pub(crate) fn measured(folder: &Path, findings: &mut Findings) {
    println!("Speed, one thread, reading included; beside a single-purpose C program");
    let Ok(program) = std::env::current_exe() else { return };
    for (what, title, reference) in RUNS {
        let child = Command::new(&program).arg(format!("alone-{what}")).arg(folder).output();
        let text =
            child.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let mut words = text.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        let (Some(seconds), Some(mib)) = (words.next(), words.next()) else {
            findings.check(false);
            println!("{title}: did not run");
            continue;
        };
        let beside = reference
            .map(|reference| format!(" against {reference} s ({:.2} times)", seconds / reference))
            .unwrap_or_default();
        println!("{title}: {seconds:.2} s{beside}, peak {mib:.0} MiB");
    }
}

/// One of the runs, and nothing else in the process: prints seconds and MiB.
pub(crate) fn alone(what: &str, folder: &Path) {
    let began = Instant::now();
    if what == "curie" {
        let path = folder.join("swf/easy-schedules/CEA-curie.easy.swf.gz");
        let run = logs::replay(&logs::read(&path, 80_640, Events::Single), "easy");
        assert_eq!(run.jobs.len(), 295_540);
    } else {
        let pods = Subject::Pods(packing::read(folder, "default"));
        let policy = what.strip_prefix("openb-").unwrap_or("fgd");
        assert!(!packing::pack(&pods, policy, 42).curve.is_empty());
    }
    println!("{} {}", began.elapsed().as_secs_f64(), peak_mib());
}

/// The most memory this process has had, as the kernel tells.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
