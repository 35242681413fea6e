//! How busy workers are, by what they can do.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use utoipa::ToSchema;

/// A worker, as far as its load is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Worker {
    /// Jobs it takes at once.
    pub(crate) max_concurrent: u64,
    /// Can evaluate.
    pub(crate) eval: bool,
    /// Can fetch.
    pub(crate) fetch: bool,
    /// Can build.
    pub(crate) build: bool,
    pub(crate) architectures: BTreeSet<String>,
    pub(crate) features: BTreeSet<String>,
}

/// A job that has a worker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Running {
    /// It is an eval that evaluates.
    pub(crate) eval: bool,
    /// It is an eval that fetches.
    pub(crate) fetch: bool,
    /// It is a build.
    pub(crate) build: bool,
    /// Its architecture, if it is a build that is not `builtin`.
    pub(crate) architecture: Option<String>,
    pub(crate) features: BTreeSet<String>,
}

/// One row: what is used of what there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Row {
    /// The capability, architecture or feature.
    pub(crate) key: String,
    /// Jobs that use it now.
    pub(crate) in_flight: u64,
    /// Jobs that able nodes take at once.
    pub(crate) capacity: u64,
    /// Able nodes.
    pub(crate) nodes: u64,
}

/// The load of all workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Load {
    /// Always eval, fetch, build.
    pub(crate) by_capability: Vec<Row>,
    /// By architecture.
    pub(crate) by_architecture: Vec<Row>,
    /// By feature.
    pub(crate) by_feature: Vec<Row>,
}

/// Adds up what runs and what could.
pub(crate) fn load(workers: &[Worker], running: &[Running]) -> Load {
    let row = |key: &str, in_flight: usize, able: &dyn Fn(&Worker) -> bool| {
        let able: Vec<&Worker> = workers.iter().filter(|worker| able(worker)).collect();
        Row {
            key: key.to_owned(),
            in_flight: in_flight as u64,
            capacity: able.iter().map(|worker| worker.max_concurrent).sum(),
            nodes: able.len() as u64,
        }
    };
    let count = |does: &dyn Fn(&Running) -> bool| running.iter().filter(|job| does(job)).count();
    let by_capability = vec![
        row("eval", count(&|job| job.eval), &|worker| worker.eval),
        row("fetch", count(&|job| job.fetch), &|worker| worker.fetch),
        row("build", count(&|job| job.build), &|worker| worker.build),
    ];
    let mut architectures: BTreeMap<&str, usize> = BTreeMap::new();
    let mut features: BTreeMap<&str, usize> = BTreeMap::new();
    for worker in workers {
        worker.architectures.iter().for_each(|name| _ = architectures.entry(name).or_default());
        worker.features.iter().for_each(|name| _ = features.entry(name).or_default());
    }
    for job in running.iter().filter(|job| job.build) {
        job.architecture.iter().for_each(|name| *architectures.entry(name).or_default() += 1);
        job.features.iter().for_each(|name| *features.entry(name).or_default() += 1);
    }
    let by_architecture = architectures
        .iter()
        .map(|(key, used)| row(key, *used, &|worker| worker.build && worker.architectures.contains(*key)));
    let by_feature = features
        .iter()
        .map(|(key, used)| row(key, *used, &|worker| worker.build && worker.features.contains(*key)));
    Load { by_architecture: by_architecture.collect(), by_feature: by_feature.collect(), by_capability }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn build(architecture: Option<&str>, features: &[&str]) -> Running {
        let architecture = architecture.map(str::to_owned);
        Running { build: true, architecture, features: names(features), ..Running::default() }
    }

    #[test]
    fn p42_load_by_capability_architecture_and_feature() {
        let a = Worker {
            max_concurrent: 8,
            eval: true,
            fetch: true,
            build: true,
            architectures: names(&["x86_64"]),
            features: names(&["kvm"]),
        };
        let b = Worker {
            max_concurrent: 4,
            build: true,
            architectures: names(&["aarch64"]),
            ..Worker::default()
        };
        let mut running = vec![build(Some("x86_64"), &["kvm"]); 3];
        running.extend(vec![build(Some("x86_64"), &[]); 3]);
        running.extend(vec![build(Some("aarch64"), &[]); 2]);
        running.push(Running { eval: true, ..Running::default() });
        running.push(Running { fetch: true, ..Running::default() });
        let load = load(&[a, b], &running);
        let rows = |rows: &[Row]| -> Vec<(String, u64, u64)> {
            rows.iter().map(|row| (row.key.clone(), row.in_flight, row.capacity)).collect()
        };
        let row = |key: &str, in_flight, capacity| (key.to_owned(), in_flight, capacity);
        assert_eq!(rows(&load.by_capability), [row("eval", 1, 8), row("fetch", 1, 8), row("build", 8, 12)]);
        assert_eq!(rows(&load.by_architecture), [row("aarch64", 2, 4), row("x86_64", 6, 8)]);
        assert_eq!(rows(&load.by_feature), [row("kvm", 3, 8)]);
    }

    #[test]
    fn builtin_jobs_make_no_row_and_unserved_ones_do() {
        let load = load(&[], &[build(None, &[]), build(Some("riscv64"), &[])]);
        let row = Row { key: "riscv64".into(), in_flight: 1, capacity: 0, nodes: 0 };
        assert_eq!(load.by_architecture, [row]);
        assert_eq!(load.by_capability[2].in_flight, 2);
    }
}
