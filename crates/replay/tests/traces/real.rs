//! Real logs, where they are: the counts that published comparisons state.

use std::path::PathBuf;

use landfall_replay::trace::batch::Kept;
use landfall_replay::trace::convert::{Shape, from_muri, from_openb};
use landfall_replay::trace::own::{Header, Trace};
use landfall_replay::trace::swf::Log;
use landfall_replay::trace::{muri, open, openb};

/// The folder of real traces, if there is one; says so if not.
fn folder() -> Option<PathBuf> {
    let default = "../../../shared/traces";
    let folder = std::env::var_os("LANDFALL_TRACES").map_or_else(|| PathBuf::from(default), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("not checked: no real traces in {} (set LANDFALL_TRACES)", folder.display());
    None
}

/// File, processors, jobs in the file, jobs kept.
const LOGS: [(&str, u64, usize, usize); 11] = [
    ("KTH-SP2-1996-2.1-cln.swf.gz", 100, 28_476, 28_467),
    ("SDSC-SP2-1998-4.2-cln.swf.gz", 128, 59_715, 53_999),
    ("NASA-iPSC-1993-3.1-cln.swf.gz", 128, 18_239, 18_066),
    ("lublin_256.swf", 256, 10_000, 10_000),
    ("lublin_256_new2.swf", 256, 10_000, 10_000),
    ("theta_walltime.swf.gz", 4392, 23_387, 23_387),
    ("mira_walltime.swf.gz", 49_152, 22_508, 22_508),
    ("easy-schedules/KTH-SP2.easy.swf.gz", 100, 28_481, 28_481),
    ("easy-schedules/SDSC-SP2.easy.swf.gz", 128, 54_006, 54_006),
    ("easy-schedules/SDSC-BLUE.easy.swf.gz", 1152, 232_542, 232_542),
    ("easy-schedules/CEA-curie.easy.swf.gz", 80_640, 295_540, 295_540),
];

#[test]
fn logs_have_the_jobs_that_comparisons_count() {
    let Some(folder) = folder() else { return };
    for (name, procs, jobs, kept) in LOGS {
        let log = Log::read(open(&folder.join("swf").join(name)).unwrap()).unwrap();
        assert_eq!(log.jobs.len(), jobs, "{name}");
        assert_eq!(log.processors(), Some(procs), "{name}");
        let chosen = Kept::of(&log, procs);
        assert_eq!(chosen.jobs.len(), kept, "{name}: {:?}", chosen.dropped);
        assert_eq!(chosen.dropped.total() as usize, jobs - kept, "{name}");
        let without_estimates = name.starts_with("NASA") || name.starts_with("lublin");
        assert_eq!(chosen.estimates_defaulted > 0, without_estimates, "{name}");
        let mut written = Vec::new();
        log.write(&mut written).unwrap();
        assert_eq!(Log::read(written.as_slice()).unwrap(), log, "{name} written and read again");
    }
}

#[test]
fn openb_lists_have_the_rows_that_the_publication_counts() {
    let Some(folder) = folder() else { return };
    let folder = folder.join("openb");
    let source = |name: &str| open(&folder.join(name)).unwrap();
    let nodes = openb::read_nodes(source("openb_node_list_gpu_node.csv")).unwrap();
    assert_eq!(nodes.len(), 1213);
    assert_eq!(nodes.iter().map(|node| node.gpus).sum::<u32>(), 6212);
    assert_eq!(nodes.iter().map(|node| node.cpu_milli).sum::<u64>(), 107_018_000);
    assert_eq!(nodes.iter().map(|node| node.memory_mib).sum::<u64>(), 503_828_480);
    for (name, rows, multi) in [("default", 8152, 75), ("multigpu40", 8746, 669), ("gpuspec33", 8152, 75)] {
        let pods = openb::read_pods(source(&format!("openb_pod_list_{name}.csv"))).unwrap();
        assert_eq!(pods.len(), rows, "{name}");
        assert_eq!(pods.iter().filter(|pod| pod.num_gpu > 1).count(), multi, "{name}");
        let mut own = Vec::new();
        let converted = from_openb(&nodes, &pods, &Header::default(), &mut own).unwrap();
        assert_eq!((converted.jobs as usize, converted.dropped.len()), (rows, 0), "{name}");
        let trace = Trace::read(own.as_slice()).unwrap();
        assert_eq!((trace.nodes.len(), trace.submissions.len()), (1213, rows), "{name}");
    }
    let arrivals = openb::read_arrivals(source("arrivals/arrivals_default.txt.gz")).unwrap();
    assert_eq!(arrivals.keys().copied().collect::<Vec<_>>(), (42..=51).collect::<Vec<_>>());
    assert_eq!((arrivals[&42].pods.len(), arrivals[&42].nodes.len()), (10_866, 1213));
    for name in ["allo", "frag", "frag_ratio"] {
        let curves =
            openb::read_expected(source(&format!("expected/analysis_{name}_discrete.csv.gz"))).unwrap();
        assert_eq!(curves.len(), 900, "{name}");
        assert!(curves.iter().all(|curve| curve.values.len() == 131), "{name}");
    }
}

#[test]
fn muri_traces_have_their_rows() {
    let Some(folder) = folder() else { return };
    for (number, rows) in [(1, 1494), (2, 5755), (3, 992), (4, 2638)] {
        let jobs =
            muri::read(open(&folder.join(format!("dl/muri_philly_trace{number}.csv"))).unwrap()).unwrap();
        assert_eq!(jobs.len(), rows, "{number}");
        let mut own = Vec::new();
        let converted = from_muri(&jobs, Shape::default(), &Header::default(), &mut own).unwrap();
        assert_eq!((converted.jobs as usize, converted.dropped.len()), (rows, 0), "{number}");
        assert_eq!(Trace::read(own.as_slice()).unwrap().submissions.len(), rows, "{number}");
    }
}
