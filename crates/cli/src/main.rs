//! The one binary: `landfall`.
//!
//! It reads files, asks `landfall-policy` or a running server and shows the answer as a table for people or JSON for
//! programs. It decides nothing: what a ranking says is what the policy crate said. Start at [`cli`] for the commands, at
//! [`answer`] for how a result becomes output, and at [`service`] for how a server is reached.
#![forbid(unsafe_code)]

mod answer;
mod cli;
mod commands;
mod config;
mod error;
mod exit;
mod findings;
mod grammar;
mod input;
#[cfg(test)]
mod reference;
mod render;
mod reply;
mod selection;
mod service;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::service::helpers::forward().unwrap_or_else(|| cli::run().into())
}
