//! When work is saved by itself, and what a pool with staging waits for: formulas with their table cases.

use landfall_engine::checkpoint::{Candidate, Decision, decide, weigh};
use landfall_engine::staging::{Gate, gate, near_fraction};
use landfall_model::{Bytes, CheckpointSettings, Input, Millis, Name, Warmth};

fn job(nodes: u64, backlog: f64) -> Candidate {
    Candidate {
        nodes,
        gpus_per_node: 4,
        since_saved: Millis::secs(7200),
        class: 5,
        higher_waiting: 0,
        backlog,
        sensitive: false,
    }
}

#[test]
fn b36_cost_and_value() {
    let usual = CheckpointSettings::default();
    let risky = CheckpointSettings { loss_probability: 0.5, ..usual };
    let cases = [
        (usual, job(2, 0.0), 147.2, 57.6, false),
        (usual, job(4, 0.8), 550.4, 307.2, false),
        (risky, job(2, 0.0), 147.2, 28_800.0, true),
    ];
    for (settings, job, cost, value, saves) in cases {
        let weighed = weigh(&settings, &job);
        assert!((weighed.cost - cost).abs() < 1e-6 && (weighed.value - value).abs() < 1e-6, "{weighed:?}");
        assert_eq!(decide(&settings, &job).saves(), saves);
    }
}

#[test]
fn bounds_in_time_and_missing_storage() {
    let risky = CheckpointSettings { loss_probability: 0.5, ..CheckpointSettings::default() };
    let after = |secs, sensitive| {
        decide(&risky, &Candidate { since_saved: Millis::secs(secs), sensitive, ..job(2, 0.0) })
    };
    assert_eq!(after(299, false), Decision::TooSoon);
    assert_eq!(after(300, false), Decision::Worth);
    assert_eq!(after(599, true), Decision::TooSoon);
    assert_eq!(after(3600, true), Decision::Overdue);
    let idle = CheckpointSettings { loss_probability: 0.0, ..CheckpointSettings::default() };
    let late = Candidate { since_saved: Millis::secs(6 * 3600), ..job(2, 0.0) };
    assert_eq!(decide(&idle, &late), Decision::Overdue);
    let away = CheckpointSettings { storage_gib_s: 0.0, ..idle };
    assert_eq!(decide(&away, &late), Decision::NoStorage);
}

#[test]
fn b46_the_gate_of_a_staging_pool() {
    let gates = [Some(0.79), Some(0.80), Some(0.95), None].map(|near| gate(true, near, false));
    assert_eq!(gates, [Gate::Wait, Gate::StallExpected, Gate::Start, Gate::Start]);
    assert_eq!(gate(false, Some(0.0), false), Gate::Start, "no stager, no gate");
    assert_eq!(gate(true, Some(0.79), true), Gate::StagingFailed);
    assert_eq!(gate(true, Some(0.94), true), Gate::StallExpected);
    assert_eq!(gate(true, Some(0.1 * 9.5), false), Gate::Start, "compared in billionths");
}

#[test]
fn only_known_sizes_count() {
    let input = |bytes: Option<u64>, tier| Input {
        digest: Name::new("d").unwrap(),
        bytes: bytes.map(Bytes::new),
        tier,
    };
    let (hot, cold) = (Warmth::Hot, Warmth::Cold);
    assert_eq!(near_fraction(None), None);
    assert_eq!(near_fraction(Some(&[])), None);
    assert_eq!(near_fraction(Some(&[input(None, hot)])), None);
    assert_eq!(near_fraction(Some(&[input(Some(0), cold)])), Some(1.0));
    let mixed = [input(Some(3), hot), input(Some(1), cold), input(None, cold)];
    assert_eq!(near_fraction(Some(&mixed)), Some(0.75));
}
