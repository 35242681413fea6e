//! Real logs, where they are: the counts that published comparisons state.

use std::path::PathBuf;

use landfall_replay::trace::batch::Kept;
use landfall_replay::trace::open;
use landfall_replay::trace::swf::Log;

/// The folder of real traces, if there is one; says so if not.
fn folder() -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces");
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
