//! `landfall trace`: what is in a trace, one kind of trace from another, workloads made up.

mod convert;
mod export;
pub(crate) mod files;
mod generate;
mod info;
pub(crate) mod stretch;

use crate::answer::Answer;
use crate::error::CliError;

pub(crate) use convert::Written;
pub(crate) use info::Info;

/// Commands about traces.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Say what is in a trace: jobs, time span, load, sizes, users, and what would be left out.
    Info(info::Args),
    /// Write a trace as another kind.
    Convert(convert::Args),
    /// Write what a running server has lived through as a trace.
    Export(export::Args),
    /// Make a workload up, with the habits of real users.
    Generate(generate::Args),
}

pub(crate) fn run(command: Command) -> Result<Box<dyn Answer>, CliError> {
    Ok(match command {
        Command::Info(args) => Box::new(info::run(&args)?),
        Command::Convert(args) => Box::new(convert::run(&args)?),
        Command::Export(args) => Box::new(export::run(&args)?),
        Command::Generate(args) => Box::new(generate::run(&args)?),
    })
}
