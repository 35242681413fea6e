//! Readers and writers of traces: what is written reads back, damage is no panic, real logs give the known counts.

#[path = "traces/real.rs"]
mod real;
