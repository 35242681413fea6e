//! Ten sequences without backfilling.

use std::path::Path;

use landfall_replay::machine::{Estimate, Events, FCFS, LogPolicy, Score, Sequence, jobs_by_number};
use landfall_replay::subject::{Chosen, Log, PolicyKind, SequenceMeans};
use landfall_replay::trace::{open, swf};

use crate::Findings;
use crate::expected::{SEQUENCE_LOGS, SEQUENCES};

/// FCFS, SJF and F1 against the published means.
pub(crate) fn published(folder: &Path, findings: &mut Findings) {
    println!("Ten sequences of 1024 jobs, no backfilling (RLScheduler, SC 2020): mean bounded slowdown");
    let parts = SEQUENCES.map(|start| Sequence { start, count: 1024 });
    let policies =
        [("FCFS", FCFS), ("SJF", LogPolicy::Committed(Score::Sjf)), ("F1", LogPolicy::Committed(Score::F1))];
    for (file, procs, expected) in SEQUENCE_LOGS {
        let path = folder.join("swf").join(file);
        let read = open(&path).map_err(|error| error.to_string());
        let read = read.and_then(|source| swf::Log::read(source).map_err(|error| error.to_string()));
        let read = read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let log = Log {
            name: file.to_owned(),
            jobs: jobs_by_number(&read),
            procs,
            procs_per_node: 1,
            events: Events::Batch,
            cycle: None,
            estimate: Estimate::User,
            inputs_sha256: Default::default(),
        };
        for ((name, policy), published) in policies.into_iter().zip(expected) {
            let chosen = Chosen { name: name.to_owned(), what: PolicyKind::Log(policy), sha256: None };
            let means = log.sequences(&chosen, &parts).expect("sequences within the log");
            let here = SequenceMeans::mean(&means.slowdowns);
            let verdict = findings.check(format!("{here:.2}") == format!("{published:.2}"));
            println!("{file:<30} {name:<5} {published:>10.2} {here:>10.2}  {verdict}");
        }
    }
}
