//! The keeper, and an agent with the usual settings, as a program of their own for tests of this
//! crate. In the one binary `landfall` the command line forwards to the same functions.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("keeper") if args.len() == 3 && args[1] == "--dir" => {
            match landfall_agent::keeper_main(std::path::Path::new(&args[2])) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("{error}");
                    ExitCode::FAILURE
                }
            }
        }
        Some("agent") if args.len() == 3 => agent(&args[1], &args[2]),
        _ => {
            eprintln!("usage: landfall-agent-helper keeper --dir DIR | agent SERVER DIR");
            ExitCode::from(2)
        }
    }
}

/// An agent that tests can kill.
fn agent(server: &str, dir: &str) -> ExitCode {
    let mut config = landfall_agent::Config::new(server, dir);
    config.token = std::env::var("LANDFALL_TOKEN").ok();
    config.node_id = "n1".to_owned();
    config.core_score = Some(100);
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return ExitCode::FAILURE };
    match runtime.block_on(landfall_agent::run(config, tokio_util::sync::CancellationToken::new())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
