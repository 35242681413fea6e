//! GPU packing of the openb traces.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use landfall_policy::builtin;
use landfall_replay::decisions::Decisions;
use landfall_replay::run::Run;
use landfall_replay::subject::{Chosen, Pods, PolicyKind, Subject};
use landfall_replay::trace::{open, openb};

use crate::Findings;
use crate::expected::{DRAWN, PACKING, VARIANTS};

/// The largest difference that counts as the same: half of the last published digit, and a little.
const TOLERANCE: f64 = 0.011;

/// Reads a variant with its arrivals.
pub(crate) fn read(folder: &Path, variant: &str) -> Pods {
    let file = |name: String| {
        let path = folder.join("openb").join(name);
        open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    Pods {
        name: variant.to_owned(),
        nodes: openb::read_nodes(file("openb_node_list_gpu_node.csv".into())).expect("nodes"),
        pods: openb::read_pods(file(format!("openb_pod_list_{variant}.csv"))).expect("pods"),
        arrivals: Some(
            openb::read_arrivals(file(format!("arrivals/arrivals_{variant}.txt.gz"))).expect("arrivals"),
        ),
        ratio: landfall_replay::packing::RATIO,
        exact_scores: false,
        inputs_sha256: Default::default(),
    }
}

/// Packs under a built-in policy.
pub(crate) fn pack(pods: &Subject, policy: &str, seed: u64) -> Run {
    let spec = builtin::spec(policy).expect("a built-in policy").expect("a valid one");
    let chosen = Chosen { name: policy.to_owned(), what: PolicyKind::Spec(Box::new(spec)), sha256: None };
    pods.run(&chosen, seed, Decisions::new(None), &mut |_| true).expect("a run")
}

pub(crate) fn seeds(pods: &Pods) -> Vec<u64> {
    pods.arrivals.iter().flat_map(|arrivals| arrivals.keys().copied()).collect()
}

/// Published curves by variant, policy and seed.
type Curves = BTreeMap<(String, String, u64), BTreeMap<u32, f64>>;

fn curves(folder: &Path) -> Curves {
    let path = folder.join("openb/expected/analysis_allo_discrete.csv.gz");
    let mut text = String::new();
    open(&path).and_then(|mut source| source.read_to_string(&mut text)).expect("published curves");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap_or_default();
    let column = |name: &str| head.iter().position(|found| *found == name).expect("a column");
    let (workload, policy, seed) = (column("workload"), column("sc_policy"), column("seed"));
    let loads: Vec<(usize, u32)> =
        head.iter().enumerate().filter_map(|(at, name)| Some((at, name.parse().ok()?))).collect();
    let row = |cells: Vec<&str>| {
        let variant = cells[workload].trim_start_matches("openb_pod_list_").to_owned();
        let points = loads.iter().filter_map(|(at, load)| Some((*load, cells.get(*at)?.parse().ok()?)));
        Some(((variant, cells[policy].to_owned(), cells[seed].parse().ok()?), points.collect()))
    };
    lines.filter_map(row).collect()
}

/// Whole allocation curves against the published ones.
pub(crate) fn published(folder: &Path, findings: &mut Findings) {
    println!("GPU packing (Weng et al., ATC 2023): largest difference of the allocation curve, in points");
    let curves = curves(folder);
    for variant in ["default"].into_iter().chain(VARIANTS) {
        let pods = read(folder, variant);
        let seeds = seeds(&pods);
        let pods = Subject::Pods(pods);
        for (here, there) in PACKING {
            let mut worst: f64 = 0.0;
            for seed in &seeds {
                let run = pack(&pods, here, *seed);
                let curve = &curves[&(variant.to_owned(), there.to_owned(), *seed)];
                let mine: BTreeMap<u32, f64> =
                    run.curve.iter().map(|point| (point.arrived, point.allocation)).collect();
                for (load, published) in curve {
                    let off = mine.get(load).map_or(f64::INFINITY, |found| (found - published).abs());
                    worst = worst.max(off);
                }
            }
            let verdict = findings.check(worst <= TOLERANCE);
            println!("{variant:<12} {here:<15} {} seeds  {worst:>6.3}  {verdict}", seeds.len());
        }
    }
}

/// Means over ten sequences drawn by our own generator, against the published means over ten others.
pub(crate) fn drawn(folder: &Path, findings: &mut Findings) {
    println!(
        "GPU packing, default, ten sequences of our own: GPU given at 100 % arrived, mean and allowed difference"
    );
    let pods = Subject::Pods(Pods { arrivals: None, ..read(folder, "default") });
    for (policy, published, allowed) in DRAWN {
        let at = |seed: u64| {
            let run = pack(&pods, policy, seed);
            run.curve.iter().find(|point| point.arrived == 100).map_or(f64::NAN, |point| point.allocation)
        };
        let here = (1..=10).map(at).sum::<f64>() / 10.0;
        let verdict = findings.check((here - published).abs() <= allowed);
        println!("{policy:<15} {published:>7.2} {here:>7.2}  ±{allowed}  {verdict}");
    }
}
