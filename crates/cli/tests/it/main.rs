//! Runs the real binary. One file per behaviour; [`tool`] has the helpers.

mod errors;
mod gpu;
mod output;
mod plan;
mod policies;
mod ranking;
mod replay;
mod settings;
mod tool;
mod trace;
