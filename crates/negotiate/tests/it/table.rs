//! The five nodes of the specification.

use std::collections::BTreeMap;

use landfall_model::{Digest, Scope};
use landfall_negotiate::{Blob, Probe, Profile, Settings, Submission, TrustTable, Verdict};

use super::net::{Faults, Net, id};

pub(crate) const TRUST: [(&str, f64); 6] =
    [("A", 0.9), ("B", 0.7), ("C", 0.5), ("D", 0.8), ("E", 0.2), ("arbiter", 1.0)];

pub(crate) fn trust(rows: &[(&str, f64)]) -> TrustTable {
    TrustTable::new(rows.iter().map(|(name, trust)| (id(name), *trust)).collect(), BTreeMap::new()).unwrap()
}

pub(crate) fn machine(cores: u64, mib: u64) -> Probe {
    Probe { cpu_total: cores * 1000, memory_total: mib, storage_total: 100_000, ..Probe::default() }
}

pub(crate) fn submitter() -> Settings {
    Settings { runs_work: false, ..Settings::default() }
}

pub(crate) fn job() -> Submission {
    let profile = Profile { cpu_milli: Some(2000), memory_mib: Some(4096), ..Profile::default() };
    Submission {
        profile: Some(profile),
        max_cost: Some(1000),
        body: Blob::new(b"echo".to_vec()),
        ..Submission::new(id("arbiter"), 1)
    }
}

pub(crate) fn calm(delay: u64) -> Faults {
    Faults { delay_min: delay, ..Faults::default() }
}

pub(crate) fn five_with(seed: u64, faults: Faults, settings: &Settings) -> Net {
    let mut net = Net::new(seed, faults);
    net.probe_every = 0;
    net.add("arbiter", Settings { runs_work: false, ..settings.clone() }, trust(&TRUST), None);
    let busy = Probe {
        cpu_measured: 2500,
        memory_measured: 5120,
        running: 5,
        queued: [(Scope::Commons, 5)].into(),
        ..machine(8, 16_384)
    };
    let probes = [
        ("A", machine(8, 16_384)),
        ("B", machine(4, 8192)),
        ("C", machine(2, 4096)),
        ("D", busy),
        ("E", machine(16, 32_768)),
    ];
    for (name, probe) in probes {
        net.add(name, settings.clone(), trust(&TRUST), Some(probe));
    }
    net
}

pub(crate) fn five() -> Net {
    five_with(1, calm(10), &Settings::default())
}

pub(crate) fn verdict(net: &Net, job: Digest) -> Verdict {
    net.peer("arbiter").verdict(&job).unwrap()
}
