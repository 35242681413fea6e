//! Properties of the indexes: whatever happens, they choose what the plain scorer chooses, with the same verdict.

use landfall_model::{JobId, Millis, Placement, Tier};
use landfall_policy::index::{JobIndex, NodeIndex};
use landfall_policy::rules::snapshot::Backlog;
use landfall_policy::spec::When;
use landfall_policy::view::Pass;
use landfall_policy::{Policy, builtin, policy_file};

use landfall_testkit::Rng;

use crate::fleet::{Fleet, queue};

fn policies() -> Vec<Policy> {
    builtin::ALL.iter().map(|(name, _)| builtin::policy(name).expect("listed").expect("sound")).collect()
}

/// Steps × seeds: more than ten thousand decisions per policy and property.
const STEPS: usize = 60;
const SEEDS: u64 = 170;

#[test]
fn the_node_index_chooses_like_the_plain_scorer_for_every_built_in() {
    for policy in policies() {
        for seed in 0..SEEDS {
            nodes_for_jobs(&policy, seed, 1 + (seed as usize * 7) % 40);
        }
    }
}

fn nodes_for_jobs(policy: &Policy, seed: u64, nodes: usize) {
    let mut rng = Rng::new(seed ^ 0xabcd);
    let mut fleet = Fleet::new(seed, nodes, 8);
    let mut index = NodeIndex::new(nodes);
    let mut running: Vec<(usize, JobId)> = Vec::new();
    for step in 0..STEPS {
        let job = fleet.job(&mut rng, step);
        let pass = Pass::of_parts(fleet.now, &fleet.world, &fleet.nodes, Backlog::default());
        let plain = policy.best_node(&pass, &fleet.tie_ranks, &job);
        let fast = index.best(policy, &pass, &fleet.tie_ranks, &job);
        assert_eq!(fast, plain, "policy {} seed {seed} step {step}", policy.name());
        let beside = policy.looked_at(&pass, &fleet.tie_ranks, &job, 3);
        let looked = index.looked_at(policy, &pass, &fleet.tie_ranks, &job, 3);
        assert_eq!(looked.runners_up, beside.runners_up, "policy {} seed {seed} step {step}", policy.name());
        if !policy.reads_clock() {
            // A node that can never do keeps the reason for which it was closed, though another may come first by now.
            let closed = |looked: &landfall_policy::Looked| looked.against.values().sum::<u32>();
            assert_eq!(closed(&looked), closed(&beside), "policy {} seed {seed} step {step}", policy.name());
        }
        if let Some(best) = plain {
            let devices = &best.verdict.gpus;
            let placement = Placement::of(job.id.clone(), &job.spec, devices);
            if fleet.nodes[best.slot].place(placement).is_ok() {
                index.load_changed(best.slot);
                running.push((best.slot, job.id));
            }
        }
        if rng.one_in(3) && !running.is_empty() {
            let (slot, id) = running.swap_remove(rng.index(running.len()));
            fleet.nodes[slot].remove(&id);
            index.load_changed(slot);
        }
        if rng.one_in(5) {
            let slot = rng.index(nodes);
            fleet.nodes[slot].heartbeat_at = Some(fleet.now);
            fleet.nodes[slot].karma += 1;
            fleet.nodes[slot].runtimes.insert(crate::fleet::name(rng.choose(&[
                "container",
                "llmcpp",
                "wasm",
            ])));
            index.node_changed(slot);
        }
        if rng.one_in(6) {
            // A device is kept for a job that is still to come, or for nobody.
            let slot = rng.index(nodes);
            let kept_for = JobId::new(&format!("job-{}", step + rng.index(4))).unwrap();
            if fleet.nodes[slot].hold_device(0, (!rng.one_in(3)).then_some(kept_for)).is_ok() {
                index.node_changed(slot);
            }
        }
        if rng.one_in(20) {
            fleet.world.mix.rotate_left(1);
            fleet.world.mix.truncate(5);
            index.world_changed();
        }
        fleet.now = fleet.now + Millis::new(rng.choose(&[0, 0, 1, 700, 15_000, 400_000]));
    }
}

#[test]
fn new_classes_on_nodes_that_are_alike_are_judged_as_if_each_node_was_looked_at() {
    for policy in policies() {
        for seed in 0..SEEDS / 4 {
            let mut rng = Rng::new(seed ^ 0xa11c);
            let mut fleet = Fleet::new(seed, 24, 40);
            // Three machines, eight of each, as they were bought.
            for slot in 3..fleet.nodes.len() {
                let id = fleet.nodes[slot].id.clone();
                fleet.nodes[slot] = fleet.nodes[slot % 3].clone();
                fleet.nodes[slot].id = id;
            }
            let mut index = NodeIndex::new(fleet.nodes.len());
            for step in 0..STEPS {
                let job = fleet.job(&mut rng, step);
                let pass = Pass::of_parts(fleet.now, &fleet.world, &fleet.nodes, Backlog::default());
                let plain = policy.best_node(&pass, &fleet.tie_ranks, &job);
                let fast = index.best(&policy, &pass, &fleet.tie_ranks, &job);
                assert_eq!(fast, plain, "policy {} seed {seed} step {step}", policy.name());
                let slot = if rng.one_in(3) {
                    // What others hold together may be the same though their jobs differ.
                    rng.index(fleet.nodes.len())
                } else {
                    plain.map_or(0, |best| best.slot)
                };
                if crate::fleet::place_anywhere(&mut fleet.nodes[slot], job.id.clone(), &job.spec) {
                    index.load_changed(slot);
                }
            }
        }
    }
}

#[test]
fn the_job_index_chooses_like_the_plain_scorer_for_every_built_in() {
    for policy in policies() {
        for seed in 0..SEEDS {
            jobs_for_nodes(&policy, seed, 1 + (seed as usize * 11) % 60);
        }
    }
}

fn jobs_for_nodes(policy: &Policy, seed: u64, count: usize) {
    let mut rng = Rng::new(seed ^ 0x1234);
    let mut fleet = Fleet::new(seed, 6, 5);
    let mut jobs = queue(&mut fleet, seed, count);
    jobs.sort_by(|a, b| a.id.cmp(&b.id));
    let mut index = JobIndex::new(policy);
    for job in &jobs {
        index.insert(job.clone(), &fleet.world);
    }
    if seed.is_multiple_of(3) {
        // The second node keeps a device for a waiting job, if it has one.
        let _ = fleet.nodes[1].hold_device(0, Some(jobs[rng.index(jobs.len())].id.clone()));
    }
    for step in 0..STEPS {
        let node = &fleet.nodes[rng.index(fleet.nodes.len())];
        let pass = Pass::of_parts(fleet.now, &fleet.world, &fleet.nodes, Backlog::of(&jobs));
        let plain = policy.best_job(&pass, &jobs, node);
        let fast = index.best(policy, fleet.now, &fleet.world, &fleet.nodes, node);
        let what = format!("policy {} seed {seed} step {step}", policy.name());
        assert_eq!(fast.is_some(), plain.is_some(), "{what}");
        if let (Some(fast), Some(plain)) = (fast, plain) {
            assert_eq!(fast.job, jobs[plain.slot].id, "{what}");
            assert_eq!(fast.verdict, plain.verdict, "{what}");
            assert_eq!(fast.runner_up, plain.runner_up.map(|slot| jobs[slot].id.clone()), "{what}");
            if rng.one_in(2) {
                index.remove(&fast.job);
                jobs.remove(plain.slot);
            }
        }
        if rng.one_in(3) {
            let mut job = fleet.job(&mut rng, 1000 + step);
            job.ready_at = fleet.now;
            job.queued_at = fleet.now;
            job.retry_at = rng.one_in(4).then(|| fleet.now + Millis::secs(30));
            index.insert(job.clone(), &fleet.world);
            let at = jobs.partition_point(|other| other.id < job.id);
            jobs.insert(at, job);
        }
        fleet.now = fleet.now + Millis::new(rng.choose(&[0, 1, 400, 5000, 100_000, 4_000_000]));
    }
}

#[test]
fn the_indexes_cover_the_policies_they_were_made_for() {
    for policy in policies() {
        let push = [
            "fit",
            "bin-pack",
            "fgd",
            "landfall-pack",
            "first-fit",
            "best-fit",
            "dot-product",
            "gpu-packing",
            "gpu-clustering",
            "random",
        ];
        let offer = ["offer-standard", "offer-locality", "offer-scope"];
        if push.contains(&policy.name()) || offer.contains(&policy.name()) {
            assert!(NodeIndex::covers(&policy), "{}", policy.name());
        } else {
            assert!(JobIndex::covers(&policy), "{}", policy.name());
        }
    }
}

#[test]
fn nodes_made_of_other_gpus_move_the_weights_of_the_mix() {
    let policy = builtin::policy("landfall-pack").unwrap().unwrap();
    let mut placed = 0;
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed ^ 0x77);
        let mut fleet = Fleet::new(seed, 24, 8);
        let models: Vec<_> =
            fleet.nodes.iter().flat_map(|node| &node.gpus).map(|gpu| gpu.model.clone()).collect();
        if models.is_empty() {
            continue;
        }
        for class in fleet.world.mix.iter_mut().step_by(2) {
            class.gpu_models =
                models[rng.index(models.len())].iter().map(|model| model.name.clone()).collect();
        }
        let mut index = NodeIndex::new(24);
        for step in 0..STEPS {
            let job = fleet.job(&mut rng, step);
            let pass = Pass::of_parts(fleet.now, &fleet.world, &fleet.nodes, Backlog::default());
            let plain = policy.best_node(&pass, &fleet.tie_ranks, &job);
            // A pass of its own, or the index would find the weights that the plain scorer left there.
            let pass = Pass::of_parts(fleet.now, &fleet.world, &fleet.nodes, Backlog::default());
            let fast = index.best(&policy, &pass, &fleet.tie_ranks, &job);
            assert_eq!(fast, plain, "seed {seed} step {step}");
            if let Some(best) = plain {
                let placement = Placement::of(job.id.clone(), &job.spec, &best.verdict.gpus);
                if fleet.nodes[best.slot].place(placement).is_ok() {
                    index.load_changed(best.slot);
                    placed += 1;
                }
            }
            if rng.one_in(4) {
                let (slot, model) = (rng.index(24), models[rng.index(models.len())].clone());
                fleet.nodes[slot].gpus.iter_mut().for_each(|gpu| gpu.model.clone_from(&model));
                index.node_changed(slot);
            }
        }
    }
    assert!(placed > 1000, "only {placed} jobs were placed");
}

/// A policy with rows of its own, drawn from a seed.
fn following(base: &str, rng: &mut Rng) -> Policy {
    let mut spec = builtin::spec(base).expect("listed").expect("sound");
    let terms: Vec<String> = spec.terms.iter().map(|term| term.name.clone()).collect();
    let mut row = |from: f64, below: Option<f64>| {
        let factors = terms.iter().map(|term| (term.clone(), rng.choose(&[0.01, 0.25, 1.0, 3.0, 50.0])));
        When { utilisation_min: from, utilisation_below: below, factors: factors.collect() }
    };
    spec.when = vec![row(0.5, None), row(0.1, Some(0.3))];
    Policy::compile(spec).expect("sound")
}

#[test]
fn the_node_index_follows_weights_that_follow_the_cluster() {
    for base in ["fit", "bin-pack", "fgd", "landfall-pack"] {
        let (mut changes, mut placed) = (0, 0);
        for seed in 0..SEEDS {
            let mut rng = Rng::new(seed ^ 0x5eed);
            let policy = following(base, &mut rng);
            let mut fleet = Fleet::new(seed, 12, 8);
            let mut index = NodeIndex::new(12);
            let mut running: Vec<(usize, JobId)> = Vec::new();
            let mut rows = [None; 2];
            for step in 0..STEPS {
                if rng.one_in(3) {
                    // A cycle begins: only now is it asked which rows are in force, and one index serves both tiers.
                    let now = [Tier::Fast, Tier::Flex].map(|tier| policy.row(&fleet.nodes, tier));
                    if now != rows {
                        rows = now;
                        index = NodeIndex::new(12);
                        changes += 1;
                    }
                }
                let job = fleet.job(&mut rng, step);
                let policy = policy.in_row(rows[usize::from(job.spec.tier == Tier::Flex)]);
                let pass = Pass::of_parts(fleet.now, &fleet.world, &fleet.nodes, Backlog::default());
                let plain = policy.best_node(&pass, &fleet.tie_ranks, &job);
                let pass = Pass::of_parts(fleet.now, &fleet.world, &fleet.nodes, Backlog::default());
                let fast = index.best(policy, &pass, &fleet.tie_ranks, &job);
                assert_eq!(fast, plain, "{base} seed {seed} step {step}");
                if let Some(best) = plain {
                    let placement = Placement::of(job.id.clone(), &job.spec, &best.verdict.gpus);
                    if fleet.nodes[best.slot].place(placement).is_ok() {
                        index.load_changed(best.slot);
                        running.push((best.slot, job.id));
                        placed += 1;
                    }
                }
                if rng.one_in(3) && !running.is_empty() {
                    let (slot, id) = running.swap_remove(rng.index(running.len()));
                    fleet.nodes[slot].remove(&id);
                    index.load_changed(slot);
                }
                fleet.now = fleet.now + Millis::new(rng.choose(&[0, 1, 700, 15_000]));
            }
        }
        assert!(changes > 100 && placed > 500, "{base}: {changes} changes, {placed} placed");
    }
}

#[test]
fn a_policy_that_the_index_does_not_cover_is_answered_all_the_same() {
    // A positive weight on a term that rises with the clock could lift a node without any change.
    let text = builtin::text("bin-pack").unwrap().replace("w_expiry = -0.3", "w_expiry = 0.3");
    let policy = policy_file::load(&text).unwrap();
    assert!(!NodeIndex::covers(&policy));
    nodes_for_jobs(&policy, 5, 20);
}

#[test]
fn time_alone_opens_and_closes_nodes() {
    let policy = builtin::policy("fit").unwrap().unwrap();
    let mut fleet = Fleet::new(3, 30, 4);
    for node in &mut fleet.nodes {
        node.cooldown_until = Some(fleet.now + Millis::secs(10));
        node.heartbeat_at = Some(fleet.now);
        node.accepting = true;
        node.runtimes = ["container", "llmcpp", "wasm", "onnx", "diffusers"].map(crate::fleet::name).into();
    }
    let mut index = NodeIndex::new(30);
    let mut rng = Rng::new(1);
    let job = fleet.job(&mut rng, 0);
    let mut ask = |seconds: u64| {
        let now = fleet.now + Millis::secs(seconds);
        let pass = Pass::of_parts(now, &fleet.world, &fleet.nodes, Backlog::default());
        let fast = index.best(&policy, &pass, &fleet.tie_ranks, &job);
        assert_eq!(fast, policy.best_node(&pass, &fleet.tie_ranks, &job), "after {seconds} s");
        fast.is_some()
    };
    assert_eq!([0, 9, 10, 30, 31].map(&mut ask), [false, false, true, true, false]);
}
