//! Simulation under faults: safety after every event, then the network heals and everything must end well.

use landfall_negotiate::{Blob, Probe, Profile, Settings, Stage, Submission};
use std::collections::BTreeMap;

use landfall_model::{Digest, Time};

use super::net::{Event, Faults, Net, id};
use super::table::{calm, trust};

const NAMES: [&str; 5] = ["p0", "p1", "p2", "p3", "p4"];
const HEAL_AT: u64 = 40_000;
/// By then every job is done: leases run out, rounds and pauses pass, runs finish.
const END_AT: u64 = HEAL_AT + 150_000;

/// A network of peers that are all arbiter and node, with jobs, crashes and partitions drawn from a seed.
fn troubled(seed: u64) -> Net {
    let mut net = Net::new(seed, Faults::default());
    net.faults = Faults {
        delay_min: 1,
        delay_spread: net.rng.below(400),
        loss_pct: net.rng.below(25),
        dup_pct: 1 + net.rng.below(15),
        garbage_pct: 3,
        no_room_pct: net.rng.below(10),
        cut_off: [].into(),
    };
    net.keep_log = false;
    net.stop_spread = 1900;
    // Some runs end before a lease could be lost, others outlast several.
    net.run_ms = if net.rng.chance(40) { 6000 } else { 40_000 };
    let rows: Vec<(&str, f64)> =
        NAMES.iter().map(|name| (*name, 0.2 + net.rng.below(9) as f64 / 10.0)).collect();
    let rows: Vec<(&str, f64)> = rows.into_iter().map(|(name, trust)| (name, trust.min(1.0))).collect();
    for name in NAMES {
        let settings = Settings { lease_ms: 10_000 + net.rng.below(6) * 1000, ..Settings::default() };
        let probe = Probe {
            cpu_total: 1000 * (2 + net.rng.below(6)),
            memory_total: 8192,
            storage_total: 1000,
            ..Probe::default()
        };
        // Clocks start anywhere and run up to a twentieth fast or slow.
        let (offset, rate) = (net.rng.below(1_000_000) as i64, 950_000 + net.rng.below(100_001) as i64);
        net.add_with_clock(name, settings, trust(&rows), Some(probe), offset, rate);
    }
    for nonce in 0..4 {
        let arbiter = NAMES[net.rng.below(5) as usize];
        let profile = Profile { cpu_milli: Some(500 + net.rng.below(2500)), ..Profile::default() };
        let bytes = if net.rng.chance(30) { 40_000 } else { 10 };
        let submission = Submission {
            profile: if net.rng.chance(80) { Some(profile) } else { None },
            max_cost: Some(10),
            class: net.rng.below(11) as u8,
            body: Blob::new(vec![1; bytes]),
            ..Submission::new(id(NAMES[0]), nonce)
        };
        let at = net.rng.below(25_000);
        let job = submission.digest().unwrap();
        net.at(at, Event::Submit { peer: id(arbiter), submission: Box::new(submission) });
        if net.rng.chance(10) {
            let at = at + net.rng.below(15_000);
            net.at(at, Event::Cancel { peer: id(arbiter), job });
        }
    }
    for _ in 0..net.rng.below(4) {
        let (peer, at) = (id(NAMES[net.rng.below(5) as usize]), net.rng.below(HEAL_AT));
        let (reboot, down) = (net.rng.chance(30), net.rng.below(15_000));
        net.at(at, Event::Crash { peer: peer.clone() });
        net.at((at + down).min(HEAL_AT), Event::Restart { peer, reboot });
    }
    for _ in 0..net.rng.below(4) {
        let apart = NAMES.iter().filter(|_| net.rng.chance(40)).map(|name| id(name)).collect();
        let at = net.rng.below(HEAL_AT);
        net.at(at, Event::CutOff { peers: apart });
        let end = at + net.rng.below(30_000);
        net.at(end, Event::CutOff { peers: [].into() });
    }
    net.at(HEAL_AT, Event::Calm { faults: Faults { delay_spread: 40, ..calm(1) } });
    net
}

/// What is wrong with a run, if anything.
fn trouble(net: &mut Net) -> Option<(&'static str, String)> {
    net.run_until(HEAL_AT);
    let rounds_of = |net: &Net| -> BTreeMap<Digest, u32> {
        let peers = net.slots.values().filter_map(|slot| slot.peer.as_ref());
        peers.flat_map(|peer| peer.jobs()).map(|(job, known)| (*job, known.progress.round)).collect()
    };
    let rounds_before = rounds_of(net);
    net.run_until(HEAL_AT + 60_000);
    if let Some(broken) = net.broken.clone() {
        return Some(broken);
    }
    for slot in net.slots.values() {
        let peer = slot.peer.as_ref().unwrap();
        for (job, known) in peer.jobs() {
            let progress = &known.progress;
            if progress.state.is_negotiating() {
                return Some(("settles", format!("job {job} is still {:?}", progress.state)));
            }
            let rounds = progress.round - rounds_before.get(job).copied().unwrap_or(0);
            // What was being negotiated ends within its rounds; a lease that was lost in the faults may end after
            // them, and then the rounds count afresh.
            if rounds > 2 * peer.settings().rounds_max {
                return Some(("rounds", format!("job {job} took {rounds} rounds after the faults")));
            }
        }
    }
    net.run_until(END_AT);
    if let Some(broken) = net.broken.clone() {
        return Some(broken);
    }
    for slot in net.slots.values() {
        let peer = slot.peer.as_ref().unwrap();
        if let Some((job, known)) = peer.jobs().iter().find(|(_, known)| known.progress.state.is_live()) {
            return Some(("ends", format!("job {job} never ends: {:?}", known.progress.state)));
        }
        if !peer.host().ledger().grants().is_empty() {
            return Some((
                "releases",
                format!("{} holds on to {:?}", peer.id(), peer.host().ledger().grants()),
            ));
        }
        let left = peer.host().jobs().values().find(|hosted| hosted.stage != Stage::Expired);
        if let Some(hosted) = left {
            return Some(("forgets", format!("{} still has {:?}", peer.id(), hosted.stage)));
        }
        assert!(slot.local(net.now) > Time::ZERO);
    }
    None
}

/// Runs one seed to its end; what is wrong names the seed and the step.
fn sound(seed: u64) -> Net {
    let mut net = troubled(seed);
    if let Some((name, what)) = trouble(&mut net) {
        panic!("seed {seed}, step {}, at {} ms: {name}: {what}", net.steps, net.now);
    }
    net
}

/// As many seeds as wanted, none if nobody wants any: `LANDFALL_SEED=0 LANDFALL_SEEDS=200000`, with `-- as_many_seeds --nocapture`.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test may be told how much to do")]
fn as_many_seeds_as_asked() {
    let number = |name| std::env::var(name).map_or(0, |text| text.parse::<u64>().unwrap());
    let (from, seeds) = (number("LANDFALL_SEED"), number("LANDFALL_SEEDS"));
    let (mut steps, mut tally) = (0, [0; 4]);
    for seed in from..from + seeds {
        let net = sound(seed);
        steps += net.steps;
        tally.iter_mut().zip(net.tally).for_each(|(sum, count)| *sum += count);
        if (seed - from + 1) % 1000 == 0 {
            println!(
                "{} seeds, {steps} steps; started, stopped, accepted, leases lost: {tally:?}",
                seed - from + 1
            );
        }
    }
}

#[test]
fn three_thousand_seeds_of_faults() {
    let (mut steps, mut undecodable, mut tally) = (0, 0, [0; 4]);
    for seed in 0..3000 {
        let net = sound(seed);
        steps += net.steps;
        undecodable += net.undecodable;
        tally.iter_mut().zip(net.tally).for_each(|(sum, count)| *sum += count);
    }
    println!("{steps} steps; started, stopped, accepted, leases lost: {tally:?}");
    assert!(steps > 500_000, "only {steps} steps: nothing much happened");
    let [started, stopped, accepted, lost] = tally;
    assert!(started > 6000 && stopped > 500 && accepted > 5000 && lost > 300, "{tally:?}");
    assert!(undecodable > 1000, "damaged messages were tried");
}

#[cfg(feature = "mutations")]
mod planted {
    use super::*;
    use landfall_negotiate::Mutation;

    /// The invariants that find a planted bug within some seeds.
    fn found(mutation: Mutation, seeds: u64) -> Vec<&'static str> {
        let mut names = Vec::new();
        for seed in 0..seeds {
            let mut net = troubled(seed);
            net.private_claims = mutation == Mutation::DoubleAward;
            for slot in net.slots.values_mut() {
                slot.peer.as_mut().unwrap().mutation = mutation;
            }
            if let Some((name, _)) = trouble(&mut net) {
                names.push(name);
            }
        }
        names
    }

    #[test]
    fn a_double_award_breaks_one_live_fence() {
        assert!(found(Mutation::DoubleAward, 300).contains(&"one_live_fence"));
    }

    #[test]
    fn a_leaked_hold_breaks_every_hold_ends() {
        assert!(found(Mutation::LeakedHold, 5).contains(&"every_hold_ends"));
    }

    #[test]
    fn no_bug_breaks_nothing() {
        assert_eq!(found(Mutation::None, 50), [""; 0]);
    }
}
