//! Readers and writers of traces: what is written reads back, damage is no panic, real logs give the known counts.

#[path = "traces/damage.rs"]
mod damage;
#[path = "traces/real.rs"]
mod real;
#[path = "traces/round_trips.rs"]
mod round_trips;
