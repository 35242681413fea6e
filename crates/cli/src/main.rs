//! The one binary: `landfall`.
//!
//! It reads files, asks `landfall-policy` and shows the answer as a table for people or JSON for programs. It decides
//! nothing: what a ranking says is what the policy crate said. Start at [`cli`] for the commands and at [`answer`] for
//! how a result becomes output.
#![forbid(unsafe_code)]

mod answer;
mod cli;
mod commands;
mod error;
mod exit;
mod findings;
mod input;
mod render;
mod selection;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run().into()
}
