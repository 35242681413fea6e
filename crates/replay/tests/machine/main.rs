//! Batch logs on machines of alike processors: tables of the specs, and schedules worked out a second time, plainly.

mod against_naive;
mod learned;
mod naive;
mod naive_learned;
mod sequences;
mod tables;
