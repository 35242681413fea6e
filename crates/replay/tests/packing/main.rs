//! GPU packing through the engine against the rules of packing worked out a second time, on made-up clusters.

mod naive;

use std::collections::BTreeMap;

use landfall_policy::builtin;
use landfall_replay::decisions::Decisions;
use landfall_replay::packing::{Curve, RATIO, Sequence, typical_mix};
use landfall_replay::run::Run;
use landfall_replay::subject::{Chosen, Pods, PolicyKind, Subject};
use landfall_replay::trace::openb::{Arrival, OpenbNode, OpenbPod};
use landfall_replay::trace::random::Random;

const MODELS: [&str; 3] = ["T4", "P100", "G2"];

/// A small cluster and pods with many ties, all from a seed.
fn made_up(seed: u64) -> (Vec<OpenbNode>, Vec<OpenbPod>) {
    let mut random = Random::new(seed);
    let nodes = (0..12).map(|number| OpenbNode {
        name: format!("node-{number:02}"),
        cpu_milli: 8000 * (1 + random.below(3)),
        memory_mib: 65_536,
        gpus: [1, 2, 4, 8][random.below(4) as usize],
        model: Some(MODELS[random.below(3) as usize].to_owned()),
    });
    let nodes = nodes.collect();
    let pods = (0..80).map(|number| {
        let (num_gpu, gpu_milli) = match random.below(10) {
            0 => (0, 0),
            1..5 => (1, 100 * (1 + random.below(9))),
            5..8 => (1, 1000),
            8 => (2, 1000),
            _ => (4, 1000),
        };
        let constrained = num_gpu > 0 && random.chance(0.3);
        OpenbPod {
            name: format!("pod-{number:03}"),
            cpu_milli: 1000 * (1 + random.below(4)),
            memory_mib: 1024 * (1 + random.below(8)),
            num_gpu,
            gpu_milli,
            gpu_spec: if constrained {
                vec![MODELS[random.below(3) as usize].to_owned()]
            } else {
                Vec::new()
            },
            qos: None,
            phase: None,
            created: None,
            deleted: None,
            scheduled: None,
        }
    });
    (nodes, pods.collect())
}

fn packed(nodes: &[OpenbNode], pods: &[OpenbPod], sequence: &Sequence, policy: &str) -> Run {
    let arrival = Arrival { pods: sequence.pods.clone(), nodes: sequence.nodes.clone() };
    let subject = Subject::Pods(Pods {
        name: "made up".into(),
        nodes: nodes.to_vec(),
        pods: pods.to_vec(),
        arrivals: Some(BTreeMap::from([(1, arrival)])),
        ratio: RATIO,
        exact_scores: false,
        inputs_sha256: BTreeMap::new(),
    });
    let spec = builtin::spec(policy).expect("a built-in policy").expect("a valid one");
    let chosen = Chosen { name: policy.to_owned(), what: PolicyKind::Spec(Box::new(spec)), sha256: None };
    subject.run(&chosen, 1, Decisions::new(None), &mut |_| true).expect("a run")
}

#[test]
fn published_policies_place_every_pod_as_the_rules_say() {
    for seed in 0..25 {
        let (nodes, pods) = made_up(seed);
        let sequence = Sequence::drawn(&pods, &nodes, seed, RATIO);
        for policy in ["first-fit", "best-fit", "dot-product", "gpu-packing", "gpu-clustering", "fgd"] {
            let run = packed(&nodes, &pods, &sequence, policy);
            let placed: Vec<bool> = run.jobs.iter().map(|job| job.started.is_some()).collect();
            let given = naive::pack(&nodes, &pods, &sequence, policy);
            let expected: Vec<bool> = given.iter().map(Option::is_some).collect();
            assert_eq!(placed, expected, "{policy}, seed {seed}");
        }
    }
}

#[test]
fn no_policy_gives_a_device_twice() {
    for policy in ["fgd", "landfall-pack", "best-fit"] {
        let (nodes, pods) = made_up(7);
        let sequence = Sequence::drawn(&pods, &nodes, 7, RATIO);
        let run = packed(&nodes, &pods, &sequence, policy);
        let capacity: u64 = nodes.iter().map(|node| u64::from(node.gpus) * 1000).sum();
        let given: u64 = run.jobs.iter().filter(|job| job.started.is_some()).map(|job| job.gpu_milli).sum();
        assert!(given <= capacity, "{policy}: {given} of {capacity}");
        let last = run.curve.last().expect("a curve");
        assert!(
            (last.allocation - 100.0 * given as f64 / capacity as f64).abs() < 0.01,
            "{policy}: {last:?}"
        );
    }
}

#[test]
fn a_drawn_sequence_asks_for_as_much_as_the_ratio_says() {
    let (nodes, pods) = made_up(3);
    let capacity: u64 = nodes.iter().map(|node| u64::from(node.gpus) * 1000).sum();
    for ratio in [0.2, 0.7, 1.3, 4.0] {
        let sequence = Sequence::drawn(&pods, &nodes, 11, ratio);
        let asked: u64 = sequence
            .pods
            .iter()
            .map(|row| &pods[*row as usize])
            .map(|pod| u64::from(pod.num_gpu) * pod.gpu_milli)
            .sum();
        let most = capacity as f64 * ratio;
        // The stop looks at one device of the next pod, so a pod of four may go three GPUs beyond.
        assert!(asked as f64 <= most + 3000.0 && asked as f64 >= most - 4000.0, "{ratio}: {asked} of {most}");
        assert_eq!(sequence, Sequence::drawn(&pods, &nodes, 11, ratio));
        let mut ranks = sequence.nodes.clone();
        ranks.sort_unstable();
        assert_eq!(ranks, (0..nodes.len() as u32).collect::<Vec<_>>());
    }
}

#[test]
fn the_mix_is_the_most_common_kinds_that_make_up_95_percent() {
    let pod = |cpu_milli, gpu_milli| OpenbPod {
        cpu_milli,
        num_gpu: 1,
        gpu_milli,
        gpu_spec: Vec::new(),
        ..made_up(0).1[0].clone()
    };
    // 60 + 30 + 5 of 100 is enough; the larger of the equally common kinds comes first.
    let kinds = [(60, pod(1000, 500)), (30, pod(2000, 1000)), (5, pod(4000, 100)), (5, pod(8000, 100))];
    let pods: Vec<OpenbPod> = kinds.iter().flat_map(|(times, pod)| vec![pod.clone(); *times]).collect();
    let mix = typical_mix(&pods);
    let found: Vec<(u64, f64)> =
        mix.iter().map(|class| (class.cpu_milli.get(), (class.share * 950.0).round() / 10.0)).collect();
    assert_eq!(found, [(1000, 60.0), (2000, 30.0), (8000, 5.0)]);
}

#[test]
fn a_curve_takes_the_mean_of_a_bin_and_neighbours_where_it_is_empty() {
    let mut curve = Curve::default();
    // Of 1000: at 10.4 and 9.6 % arrived both count for 10; nothing arrives at 11.
    curve.note(104, 100, 0.0, 1000);
    curve.note(96, 90, 450.0, 1000);
    curve.note(120, 120, 440.0, 1000);
    let points = curve.points();
    let at = |arrived| points.iter().find(|point| point.arrived == arrived).copied();
    assert_eq!(at(10).map(|point| point.allocation), Some(9.5));
    assert_eq!(at(11).map(|point| point.allocation), Some(10.33));
    assert_eq!(at(12).map(|point| (point.fragmentation_ratio, point.fragmentation)), Some((50.0, 44.0)));
}
