//! The hidden helpers of the agent as a program of their own, for tests of this crate.
//!
//! In the one binary `landfall` the command line forwards to the same two functions.

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
        Some("wasm-run") => landfall_agent::wasm_main(&args[1..]),
        _ => {
            eprintln!("usage: landfall-agent-helper keeper --dir DIR | wasm-run OPTIONS MODULE [ARGS]");
            ExitCode::from(2)
        }
    }
}
