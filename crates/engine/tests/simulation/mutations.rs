//! Planted faults: each must be noticed, by the check that is there for it, within a few worlds.

use std::cell::Cell;

use landfall_engine::Engine;
use landfall_engine::mutation::Fault;
use landfall_engine::solver::Mutation;

use crate::world::Size;

/// What is planted in every engine of this thread.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Planted {
    fault: Option<Fault>,
    solver: Option<Mutation>,
}

impl Planted {
    pub(crate) fn plant(self, engine: &mut Engine) {
        engine.fault = self.fault;
        engine.solver_mutation = self.solver;
    }
}

thread_local! {
    static PLANTED: Cell<Planted> = const { Cell::new(Planted { fault: None, solver: None }) };
}

pub(crate) fn planted() -> Planted {
    PLANTED.get()
}

/// The first world that notices; anything but the named checks would be a fault of another kind.
fn noticed(plant: Planted, size: Size, within: u64, names: &[&str]) {
    PLANTED.set(plant);
    for seed in 0..within {
        if let Err(found) = crate::run(size, seed) {
            assert!(names.contains(&found.name), "seed {seed}: {found}");
            println!("{plant:?}: {} with seed {seed}", found.name);
            PLANTED.set(Planted::default());
            assert_eq!(crate::run(size, seed).err(), None, "seed {seed} without the fault");
            return;
        }
    }
    panic!("{plant:?}: nobody noticed in {within} worlds");
}

#[test]
fn a_device_given_twice_is_noticed() {
    let plant = Planted { fault: Some(Fault::AwardTaken), ..Planted::default() };
    noticed(
        plant,
        crate::SMALL,
        200,
        &["no_device_given_twice", "use_within_capacity", "exclusive_nodes_alone"],
    );
}

#[test]
fn a_job_placed_twice_is_noticed() {
    let plant = Planted { fault: Some(Fault::AwardPlaced), ..Planted::default() };
    noticed(plant, crate::TINY, 50, &["no_job_placed_twice"]);
}

#[test]
fn a_leaked_hold_is_noticed() {
    let plant = Planted { fault: Some(Fault::LeakedHold), ..Planted::default() };
    noticed(plant, crate::SMALL, 100, &["holds_live", "released_holds_end", "deadlines_have_timers"]);
}

#[test]
fn backfill_over_a_reservation_is_noticed() {
    let plant = Planted { solver: Some(Mutation::BackfillIgnoresReservation), ..Planted::default() };
    noticed(plant, crate::PROMPT, 100, &["reservation_not_delayed"]);
}
