//! The command line: what may be asked, and who answers.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::answer::{Answer, fail, show};
use crate::commands::service as live;
use crate::commands::service::submit::script::{Script, no_script};
use crate::commands::service::submit::slurm;
use crate::commands::{compare, exit_codes, explain, gpu, plan, policy, rank, replay, scenario, trace};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::grammar;

/// The first page that anybody sees: by who needs it, on two screens.
const HELP: &str = "\
Decides where work runs, and says why.

Usage: landfall [--json] COMMAND

To begin with:
  up                      a server and this machine's agent, here and now
  submit                  submit a command, a script or a file of jobs
  run                     a shell or a command to be at, on a node
  jobs, job               list what waits and runs; show one job or array
  logs                    what a job or an array wrote
  explain                 why a job is where it is, or why not on that node
  top                     queue, nodes and reasons on one live screen

Your jobs:
  wait, retry, arrays     wait for jobs; run again what failed; add elements
  cancel, dags            cancel jobs; those that depend on each other as one
  hold, release           keep jobs from starting; let them start
  suspend, resume         make running jobs save their work and leave; go on
  checkpoint, metric      make running jobs save their work; say how one does
  plan                    what would happen if: a job, a node lost, a policy
  status                  whether the server is there, and how it does

A cluster of your own:
  server, agent           run a server; let it run jobs on this machine
  nodes, node             what there is, and what it is good for
  drain, return, remove   take nodes out of service and back
  approve, disapprove     who may take part
  pools, tenants, token   how work is dispatched, whose it is, who may what
  workloads, providers    named templates of jobs; who sells blocks of capacity
  caps, config            what all pools may draw and move; the settings
  backup, restore, check  keep what a server knows, and look after it
  events, decisions       what happens; what was decided
  alarms, usage, board    what to look at; who used what; the web page
  peers, peer             servers that share work; this one among them
  certificate, hollow     try TLS; try a size with simulated nodes

Policies, and what would have been:
  policy, rank, gpu       policies and terms; nodes for a job; what a GPU is
  replay, compare         a recorded workload in virtual time, under policies
  scenario, trace         situations and recorded workloads as files

Besides: completions, man, exit-codes, help COMMAND

Examples:
  landfall submit --wait -- make test    run something, get its exit code
  landfall submit job.sh                 a script with #SBATCH lines
  landfall explain 12                    why job 12 is where it is
A file name of `-` reads standard input; --json answers programs.
";

/// Decides where work runs, and says why.
#[derive(Debug, Parser)]
#[command(name = "landfall", version, override_help = HELP, max_term_width = 110)]
pub(crate) struct Cli {
    /// Answer in JSON, errors included (docs/reference/json.md).
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

// Deferred: of all commands only the one that is called gets its options made, which is most of the time a short call takes.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Start a server and this machine's agent, on loopback, until Ctrl-C.
    Up(live::up::Args),
    /// Run a server.
    Server(live::server::Args),
    /// Run an agent: let a server run jobs on this machine.
    Agent(live::agent::Args),
    /// Join a server as many simulated nodes, to try a size before it is bought.
    Hollow(live::hollow::Args),
    /// Submit a job, and wait for it if asked.
    Submit(Box<live::submit::Args>),
    /// Run something that you are at, on a node, within a job's limits: a shell if nothing is named.
    Run(Box<live::run::Args>),
    /// List jobs.
    Jobs(live::jobs::Args),
    /// Show a job or an array.
    Job(live::jobs::OneArgs),
    /// Show what a job wrote.
    Logs(live::logs::Args),
    /// Wait for jobs and arrays that were submitted before.
    Wait(live::again::WaitArgs),
    /// Run jobs again that have ended, or what failed of an array.
    Retry(live::again::RetryArgs),
    /// Arrays that take more elements: add, close.
    #[command(subcommand)]
    Arrays(live::arrays::Command),
    /// Jobs that depend on each other, as one: list, show, cancel.
    #[command(subcommand)]
    Dags(live::dags::Command),
    /// Cancel jobs; those that run are stopped.
    Cancel(live::steer::CancelArgs),
    /// Keep jobs from starting.
    #[command(after_help = "Example:\n  landfall hold 12")]
    Hold(live::steer::Args),
    /// Let jobs start that were held back.
    #[command(after_help = "Example:\n  landfall release 12")]
    Release(live::steer::Args),
    /// Ask running jobs to save their work and leave their nodes.
    #[command(after_help = "Example:\n  landfall suspend 9")]
    Suspend(live::steer::Args),
    /// Let suspended jobs go on.
    #[command(after_help = "Example:\n  landfall resume 9 --walltime 2h")]
    Resume(live::steer::ResumeArgs),
    /// Ask running jobs to save their work and go on.
    #[command(after_help = "Example:\n  landfall checkpoint 9")]
    Checkpoint(live::steer::Args),
    /// Say how a service does that scales by a metric of its own.
    Metric(live::steer::MetricArgs),
    /// List nodes.
    Nodes(live::nodes::Args),
    /// Show a node, and what it is good for.
    Node(live::nodes::OneArgs),
    /// Let nodes finish what they have and take nothing new.
    Drain(live::nodes::DrainArgs),
    /// Let nodes take work again.
    #[command(after_help = "Example:\n  landfall return gpu-3")]
    Return(live::nodes::OrderArgs),
    /// Take nodes out for good.
    #[command(after_help = "Example:\n  landfall remove gpu-3")]
    Remove(live::nodes::OrderArgs),
    /// Let nodes take part that wait for approval or were suspended.
    #[command(after_help = "Example:\n  landfall approve gpu-3")]
    Approve(live::nodes::OrderArgs),
    /// Keep nodes from taking part.
    #[command(after_help = "Example:\n  landfall disapprove gpu-3")]
    Disapprove(live::nodes::OrderArgs),
    /// Named templates of jobs: list, show, set, delete.
    #[command(subcommand)]
    Workloads(live::workloads::Command),
    /// Pools of the server: list, show, set, delete.
    #[command(subcommand)]
    Pools(live::pools::Command),
    /// What all pools together may draw and move: show, set.
    #[command(subcommand)]
    Caps(live::caps::Command),
    /// Who sells blocks of capacity, and how: list, set, delete.
    #[command(subcommand)]
    Providers(live::providers::Command),
    /// Other servers that place work with this one: list, show, add, trust, block, accounts, export, import.
    #[command(subcommand)]
    Peers(live::peers::Command),
    /// This server among its peers: id.
    #[command(subcommand)]
    Peer(live::peers::OwnCommand),
    /// Shares, quotas and budgets: list, show, set, delete.
    #[command(subcommand)]
    Tenants(live::tenants::Command),
    /// Say who used what: cores, GPUs and nodes over time.
    Usage(live::usage::Args),
    /// Who may do what: create, list, revoke.
    #[command(subcommand)]
    Token(live::token::Command),
    /// List what was decided, newest first.
    Decisions(live::decisions::Args),
    /// List what people should look at, until it is over.
    Alarms(live::alarms::Args),
    /// Show what happens, as it happens.
    Events(live::events::Args),
    /// Say whether the server is there, and how it does.
    Status(live::status::Args),
    /// Copy the journal of a server into one file while it runs, and what jobs wrote with --logs.
    Backup(live::backup::Args),
    /// Make a data directory from a backup.
    Restore(live::restore::Args),
    /// Say whether everything in a data directory or a backup is as it was written.
    Check(live::check::Args),
    /// Make a self-signed certificate, to try TLS.
    Certificate(live::certificate::Args),
    /// Queue, nodes and reasons on one live screen.
    Top(live::top::Args),
    /// The board, a web page: an address that signs one browser in.
    Board(live::board::Args),
    /// Settings: check the file, show what is in force.
    #[command(subcommand)]
    Config(live::settings::Command),
    /// Rank nodes for a job, or jobs for a node.
    Rank(rank::Args),
    /// Say why a job is where it is, why a node was chosen, or why another was not.
    Explain(explain::Args),
    /// Say what would happen if: a job is submitted, nodes go or come, a policy or quota changes.
    Plan(Box<plan::Args>),
    /// List, show and check policies and the terms they are made of.
    #[command(subcommand)]
    Policy(policy::Command),
    /// Look up what a GPU's name tells: bandwidth, tier, estimated speed.
    Gpu(gpu::Args),
    /// Replay a recorded workload in virtual time and measure what comes of it.
    Replay(Box<replay::Args>),
    /// Replay under several policies and show what differs.
    Compare(Box<compare::Args>),
    /// Scenario files: check one, export what is now on a server.
    #[command(subcommand)]
    Scenario(scenario::Command),
    /// Look at traces of workloads, convert them, make them up.
    #[command(subcommand)]
    Trace(trace::Command),
    /// Say what the exit codes mean.
    #[command(after_help = format!("{}\n\nExample:\n  landfall exit-codes --json", Exit::help()))]
    ExitCodes,
    /// Write a script that completes commands in a shell.
    Completions(live::completions::Args),
    /// Write manual pages.
    Man(live::completions::ManArgs),
}

/// Reads the command line, answers, and tells how the program ends.
pub(crate) fn run() -> Exit {
    let args: Vec<OsString> = grammar::settled(std::env::args_os().collect());
    let cli = match submission(&args).map_or_else(|| Cli::try_parse_from(&args), Ok) {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error, &args, args.iter().any(|arg| arg == "--json")),
    };
    let json = cli.json;
    let cli = match scripted(cli, &args) {
        Ok(Ok(cli)) => cli,
        Ok(Err(error)) => return not_parsed(&error, &args, json),
        Err(error) => return fail(&error, json),
    };
    let outcome = answer(cli.command, json).and_then(|answer| show(answer.as_ref(), json));
    outcome.unwrap_or_else(|error| fail(&error, json))
}

/// A call that submits something, read without making all the other commands first: scripts make hundreds of these a second. What is not
/// understood here is left to the whole command line, which says what is wrong.
fn submission(args: &[OsString]) -> Option<Cli> {
    let [_, name, rest @ ..] = args else { return None };
    if name != "submit" {
        return None;
    }
    let (args, json) = alone(rest.iter().cloned(), false).ok()?;
    Some(Cli { json, command: Command::Submit(args) })
}

/// The arguments of one command, read without the others; says whether `--json` is among them.
fn alone<A: clap::Args>(
    words: impl Iterator<Item = OsString>,
    last_counts: bool,
) -> Result<(A, bool), clap::Error> {
    let json = clap::Arg::new("json").long("json").action(clap::ArgAction::SetTrue);
    let command = clap::Command::new("submit").no_binary_name(true).disable_help_flag(true).arg(json);
    let command = A::augment_args(command).args_override_self(last_counts);
    let matches = command.try_get_matches_from(words)?;
    Ok((A::from_arg_matches(&matches)?, matches.get_flag("json")))
}

/// A command line that names a script, with what the script says put before what the command line says.
fn scripted(cli: Cli, args: &[OsString]) -> Result<Result<Cli, clap::Error>, CliError> {
    let (job, name) = match &cli.command {
        Command::Submit(args) => (&args.job, "submit"),
        Command::Run(args) => (&args.job, "run"),
        Command::Plan(args) => (&args.submit, "plan"),
        _ => return Ok(Ok(cli)),
    };
    if job.script.is_empty() {
        return Ok(Ok(cli));
    }
    let (script, flags) = Script::read(&job.script, &job.skip)?;
    let behind = args.iter().position(|word| word == name).map_or(args.len(), |at| at + 1);
    let words = flags.into_iter().map(OsString::from).chain(args[behind..].iter().cloned());
    let command = match name {
        "submit" => alone::<Box<live::submit::Args>>(words, true).map(|(mut args, _)| {
            args.job.read = Some(script);
            Command::Submit(args)
        }),
        "run" => alone::<Box<live::run::Args>>(words, true).map(|(mut args, _)| {
            args.job.read = Some(script);
            Command::Run(args)
        }),
        _ => alone::<Box<plan::Args>>(words, true).map(|(mut args, _)| {
            args.submit.read = Some(script);
            Command::Plan(args)
        }),
    };
    Ok(command.map(|command| Cli { json: cli.json, command }))
}

fn answer(command: Command, json: bool) -> Result<Box<dyn Answer>, CliError> {
    use live::nodes::Order as NodeOrder;
    use live::steer::Order;
    match command {
        Command::Up(args) => live::up::run(&args, json),
        Command::Server(args) => live::server::run(&args),
        Command::Agent(args) => live::agent::run(&args),
        Command::Hollow(args) => live::hollow::run(&args),
        Command::Submit(args) => live::submit::run(&args, json),
        Command::Run(args) => live::run::run(&args),
        Command::Jobs(args) => live::jobs::list(&args),
        Command::Job(args) => live::jobs::one(&args),
        Command::Logs(args) => live::logs::run(&args, json),
        Command::Wait(args) => live::again::wait_for(&args, json),
        Command::Retry(args) => live::again::retry(&args, json),
        Command::Arrays(command) => live::arrays::run(&command),
        Command::Dags(command) => live::dags::run(&command, json),
        Command::Cancel(args) => live::steer::cancel(&args),
        Command::Hold(args) => live::steer::run(&args, Order::HOLD),
        Command::Release(args) => live::steer::run(&args, Order::RELEASE),
        Command::Suspend(args) => live::steer::run(&args, Order::SUSPEND),
        Command::Resume(args) => live::steer::resume(&args),
        Command::Checkpoint(args) => live::steer::run(&args, Order::CHECKPOINT),
        Command::Metric(args) => live::steer::metric(&args),
        Command::Nodes(args) => live::nodes::list(&args),
        Command::Node(args) => live::nodes::one(&args),
        Command::Drain(args) => live::nodes::drain(&args),
        Command::Return(args) => live::nodes::order(&args, NodeOrder::RETURN),
        Command::Remove(args) => live::nodes::order(&args, NodeOrder::LEAVE),
        Command::Approve(args) => live::nodes::order(&args, NodeOrder::APPROVE),
        Command::Disapprove(args) => live::nodes::order(&args, NodeOrder::SUSPEND),
        Command::Workloads(command) => live::workloads::run(&command),
        Command::Pools(command) => live::pools::run(&command),
        Command::Caps(command) => live::caps::run(&command),
        Command::Providers(command) => live::providers::run(&command),
        Command::Peers(command) => live::peers::run(&command),
        Command::Peer(command) => live::peers::own(&command),
        Command::Tenants(command) => live::tenants::run(&command),
        Command::Usage(args) => live::usage::run(&args),
        Command::Token(command) => live::token::run(&command),
        Command::Decisions(args) => live::decisions::list(&args),
        Command::Alarms(args) => live::alarms::run(&args),
        Command::Events(args) => live::events::run(&args, json),
        Command::Status(args) => live::status::run(&args),
        Command::Backup(args) => live::backup::run(&args),
        Command::Restore(args) => live::restore::run(&args),
        Command::Check(args) => live::check::run(&args),
        Command::Certificate(args) => live::certificate::run(&args),
        Command::Top(args) => live::top::run(&args),
        Command::Board(args) => live::board::run(&args),
        Command::Config(command) => live::settings::run(&command),
        Command::Explain(args) => match &args.live {
            Some(job) => live::explain::run(job, args.node.as_deref(), args.at.as_deref(), &args.connect),
            None => Ok(Box::new(explain::run(&args)?)),
        },
        Command::Plan(args) => match &args.scenario {
            Some(_) => Ok(Box::new(plan::run(&args)?)),
            None => plan::live(&args),
        },
        Command::Completions(args) => live::completions::run(&args, Cli::command()),
        Command::Man(args) => live::completions::man(&args, Cli::command()),
        other => about_files(other),
    }
}

/// Answers what needs no server.
fn about_files(command: Command) -> Result<Box<dyn Answer>, CliError> {
    Ok(match command {
        Command::Rank(args) => Box::new(rank::run(&args)?),
        Command::Policy(command) => policy::run(command)?,
        Command::Gpu(args) => gpu::run(&args),
        Command::Replay(args) => replay::run(&args)?,
        Command::Compare(args) => Box::new(compare::run(&args)?),
        Command::Scenario(scenario::Command::Check(args)) => scenario::check(&args)?,
        Command::Scenario(scenario::Command::Export(args)) => scenario::export(&args)?,
        Command::Trace(command) => trace::run(command)?,
        _ => exit_codes::list(),
    })
}

/// Help and version are answers; anything else is a mistake in the command line.
fn not_parsed(error: &clap::Error, args: &[OsString], json: bool) -> Exit {
    let better =
        below_zero(error, args).or_else(|| no_dashes(error, args)).or_else(|| of_sbatch(error, args));
    if let Some(better) = better {
        return fail(&better, json);
    }
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

/// A number below zero looks like a flag that is not known; what is wrong is the number.
fn below_zero(error: &clap::Error, args: &[OsString]) -> Option<CliError> {
    let Some(ContextValue::String(taken)) = error.get(ContextKind::InvalidArg) else { return None };
    taken.strip_prefix('-')?.parse::<u8>().ok()?;
    let words: Vec<&str> = args.iter().filter_map(|word| word.to_str()).collect();
    let [flag, value] = words.windows(2).find(|pair| pair[1].starts_with(taken.as_str()))? else {
        return None;
    };
    let message = || format!("{flag} {value}: nothing that is asked for is below zero");
    flag.starts_with("--").then(|| usage(message(), "leave the sign out"))
}

/// A command that should stand behind `--`: what looks like a flag of ours is one of its own.
fn no_dashes(error: &clap::Error, args: &[OsString]) -> Option<CliError> {
    let words: Vec<&str> = args.iter().filter_map(|word| word.to_str()).collect();
    let name = words.get(1).filter(|name| ["submit", "run", "plan"].contains(name))?;
    if error.kind() != ErrorKind::UnknownArgument || words.contains(&"--") {
        return None;
    }
    // Options of commands are made when they are called, and this is no call.
    let mut whole = Cli::command();
    whole.build();
    let command = whole.find_subcommand(name)?;
    let takes_value = |flag: &str| {
        let named = |arg: &&clap::Arg| {
            let letter = arg.get_short().is_some_and(|letter| flag == format!("-{letter}"));
            letter
                || flag.strip_prefix("--").is_some_and(|long| {
                    arg.get_long_and_visible_aliases().is_some_and(|all| all.contains(&long))
                })
        };
        command.get_arguments().find(named).is_some_and(|arg| arg.get_action().takes_values())
    };
    let first = (2..words.len()).find(|at| !words[*at].starts_with('-') && !takes_value(words[*at - 1]))?;
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return None };
    let taken = words[first..].iter().any(|word| word.starts_with(wrong.as_str()));
    let said: Vec<String> = words[first..].iter().map(|word| (*word).to_owned()).collect();
    (taken && !Path::new(words[first]).exists()).then(|| no_script(&said))
}

/// A flag of `sbatch` that has another name here.
fn of_sbatch(error: &clap::Error, args: &[OsString]) -> Option<CliError> {
    let named = args.get(1)?.to_str().filter(|name| ["submit", "run", "plan"].contains(name))?;
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let ours = slurm::ours(flag).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let hint = format!("write `{ours}`; in a script #SBATCH lines stand as they are");
    Some(usage(format!("`{flag}` is of sbatch, and `landfall {named}` says it otherwise"), hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_sbatch_are_answered_with_ours() {
        for (line, ours) in [
            ("submit -J x -- true", Some("`--name NAME`")),
            ("submit -n4 -- true", Some("`--cpu 4`")),
            ("submit --gres=gpu:2 -- true", Some("`--gpu 2`")),
            ("submit --wrap x", Some("-- sh -c")),
            ("submit --no-such -- true", None),
            ("jobs -J x", None),
        ] {
            let args: Vec<OsString> =
                std::iter::once("landfall").chain(line.split(' ')).map(OsString::from).collect();
            let said = of_sbatch(&Cli::try_parse_from(&args).unwrap_err(), &args).map(|error| error.text());
            assert_eq!(said.is_some(), ours.is_some(), "{line}: {said:?}");
            assert!(said.is_none_or(|said| said.contains(ours.unwrap_or_default())), "{line}");
        }
    }

    #[test]
    fn a_command_without_dashes_is_told_where_it_stands() {
        for (line, says) in [
            ("submit no-such-program -l", Some("landfall submit -- no-such-program -l")),
            ("submit --cpu 2 --wait no-such-program -n 5", Some("-- no-such-program -n 5")),
            ("submit --no-such", None),
            ("submit -N 2 no-such-program -l", None),
            ("submit -- ls -l", None),
            ("jobs ls -l", None),
        ] {
            let args: Vec<OsString> =
                std::iter::once("landfall").chain(line.split(' ')).map(OsString::from).collect();
            let said = Cli::try_parse_from(&args).err().and_then(|error| no_dashes(&error, &args));
            let hint = said.map(|error| error.text());
            let expected = says.is_none_or(|says| hint.as_ref().is_some_and(|hint| hint.contains(says)));
            assert!(expected && hint.is_some() == says.is_some(), "{line}: {hint:?}");
        }
    }

    #[test]
    fn a_number_below_zero_is_not_taken_for_a_flag() {
        for (line, says) in [
            ("submit --cpu -2 -- true", Some("--cpu -2: ")),
            ("submit --memory -4GiB -- true", Some("--memory -4GiB: ")),
            ("run --gpu -1", Some("--gpu -1: ")),
            ("submit --no-such -- true", None),
            ("jobs -2", None),
        ] {
            let args: Vec<OsString> =
                std::iter::once("landfall").chain(line.split(' ')).map(OsString::from).collect();
            let said = below_zero(&Cli::try_parse_from(&args).unwrap_err(), &args);
            let said = said.map(|error| error.to_string());
            assert_eq!(
                said.as_ref().map(|said| said.starts_with(says.unwrap_or("-"))),
                says.map(|_| true),
                "{line}: {said:?}"
            );
        }
    }

    /// The pages of help below a command, by what is typed to reach them.
    fn pages(command: &clap::Command, path: &str, found: &mut Vec<(String, String)>) {
        let below: Vec<&clap::Command> =
            command.get_subcommands().filter(|below| below.get_name() != "help").collect();
        if below.is_empty() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            found.push((path.to_owned(), help));
        }
        for command in below {
            pages(command, &format!("{path} {}", command.get_name()), found);
        }
    }

    #[test]
    fn every_page_of_help_has_an_example() {
        let mut whole = Cli::command();
        whole.build();
        let mut found = Vec::new();
        pages(&whole, "landfall", &mut found);
        assert!(found.len() > 50, "{}", found.len());
        for (path, help) in found {
            assert!(help.contains(&format!("\n  {path}")), "`{path} --help` has no example: {help}");
        }
    }

    #[test]
    fn the_first_page_names_every_command_on_two_screens() {
        let known = HELP.split([' ', ',', '\n']).collect::<Vec<_>>();
        for command in Cli::command().get_subcommands() {
            assert!(known.contains(&command.get_name()), "`{}` is not on the first page", command.get_name());
        }
        assert!(HELP.lines().count() <= 48, "{} lines", HELP.lines().count());
        assert!(HELP.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn a_submission_is_read_as_the_whole_command_line_reads_it() {
        for line in [
            "submit --hold -- true",
            "submit --cpu 2 --memory 4GiB --array 1-9 --wait --json -- sh -c 'a b' --json",
            "submit --json --name x -- make -j4",
            "submit --",
            "submit --no-such -- true",
            "submit --help",
            "submit -h",
            "--json submit -- true",
            "jobs",
        ] {
            let args: Vec<OsString> =
                std::iter::once("landfall").chain(line.split(' ')).map(OsString::from).collect();
            let Some(quick) = submission(&args) else { continue };
            let whole = Cli::try_parse_from(&args).map_err(|error| error.to_string());
            assert_eq!(whole.map(|cli| format!("{cli:?}")), Ok(format!("{quick:?}")), "{line}");
        }
        let quick =
            |line: &str| submission(&line.split(' ').map(OsString::from).collect::<Vec<_>>()).is_some();
        assert!(quick("landfall submit --json --hold -- true"), "the usual call is quick");
        assert!(!quick("landfall submit --help") && !quick("landfall submit --no-such -- true"));
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_about_the_server_have_examples() {
        let found = crate::reference::leaves();
        for name in [
            "up", "server", "agent", "submit", "jobs", "job", "logs", "nodes", "node", "drain", "events",
            "top",
        ] {
            let (_, command) = found.iter().find(|(path, _)| path == name).unwrap();
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("landfall {name}")), "{name} has no example");
        }
    }
}
