//! The command line: what may be asked, and who answers.

use std::ffi::OsString;
use std::io::Write;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::answer::{Answer, fail, show};
use crate::commands::{compare, exit_codes, explain, gpu, plan, policy, rank, replay, scenario, trace};
use crate::error::CliError;
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  landfall rank --scenario lab.toml --job train-7          nodes for a job, best first
  landfall rank --scenario ci.toml --node builder-3        jobs for a node that asks for work
  landfall explain --scenario lab.toml --job train-7       why this node
  landfall explain --scenario lab.toml --job train-7 --node gpu-2
                                                           why that one, or why not
  landfall plan --scenario lab.toml --job train-7          would it start now; if not, when and why
  landfall plan --scenario lab.toml --lose gpu-2           what would happen without a node
  landfall policy show fit > mine.toml                     a start for a policy of your own
  landfall policy check mine.toml
  landfall gpu \"RTX 4090\" --vram 24GiB                     what a GPU is good for
  landfall trace info LOG.swf.gz                           what is in a recorded workload

A file name of `-` reads standard input. Colours appear on a terminal only; NO_COLOR turns them off.";

/// Decides where work runs, and says why.
#[derive(Debug, Parser)]
#[command(name = "landfall", version, after_help = EXAMPLES)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", Exit::help()), max_term_width = 110)]
struct Cli {
    /// Answer in JSON, errors included (docs/reference/json.md).
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Rank nodes for a job, or jobs for a node.
    Rank(rank::Args),
    /// Say why a node was chosen, or why another was not; where a job stands and when it starts.
    Explain(explain::Args),
    /// Say what would happen if: a job is submitted, nodes go or come, a policy or quota changes.
    Plan(plan::Args),
    /// List, show and check policies and the terms they are made of.
    #[command(subcommand)]
    Policy(policy::Command),
    /// Look up what a GPU's name tells: bandwidth, tier, estimated speed.
    Gpu(gpu::Args),
    /// Replay a recorded workload in virtual time and measure what comes of it.
    Replay(Box<replay::Args>),
    /// Replay under several policies and show what differs.
    Compare(Box<compare::Args>),
    /// Work with scenario files.
    #[command(subcommand)]
    Scenario(scenario::Command),
    /// Look at traces of workloads, convert them, make them up.
    #[command(subcommand)]
    Trace(trace::Command),
    /// Say what the exit codes mean.
    #[command(after_help = Exit::help())]
    ExitCodes,
}

/// Reads the command line, answers, and tells how the program ends.
pub(crate) fn run() -> Exit {
    let args: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error, args.iter().any(|arg| arg == "--json")),
    };
    let outcome = answer(cli.command).and_then(|answer| show(answer.as_ref(), cli.json));
    outcome.unwrap_or_else(|error| fail(&error, cli.json))
}

fn answer(command: Command) -> Result<Box<dyn Answer>, CliError> {
    Ok(match command {
        Command::Rank(args) => Box::new(rank::run(&args)?),
        Command::Explain(args) => Box::new(explain::run(&args)?),
        Command::Plan(args) => Box::new(plan::run(&args)?),
        Command::Policy(command) => policy::run(command)?,
        Command::Gpu(args) => gpu::run(&args),
        Command::Replay(args) => replay::run(&args)?,
        Command::Compare(args) => Box::new(compare::run(&args)?),
        Command::Scenario(scenario::Command::Check(args)) => Box::new(scenario::check(&args)?),
        Command::Trace(command) => trace::run(command)?,
        Command::ExitCodes => Box::new(exit_codes::ExitCodes),
    })
}

/// Help and version are answers; anything else is a mistake in the command line.
fn not_parsed(error: &clap::Error, json: bool) -> Exit {
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if json && !is_help {
        let text = error.render().to_string();
        let mut paragraphs = text.trim().split("\n\n").map(str::trim);
        let message = paragraphs.next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message).to_owned();
        let hint = paragraphs.collect::<Vec<_>>().join("; ").replace('\n', " ");
        return fail(&CliError::Usage { message, hint }, true);
    }
    // Nobody listening is no reason to panic.
    let styled = error.render().ansi().to_string();
    let _ = if is_help {
        anstream::stdout().write_all(styled.as_bytes())
    } else {
        anstream::stderr().write_all(styled.as_bytes())
    };
    if is_help { Exit::Done } else { Exit::Usage }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
