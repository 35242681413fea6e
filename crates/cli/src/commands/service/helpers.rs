//! The hidden commands that agents start: `keeper --dir DIR`, and what stands beside jobs that somebody is at.

use std::path::Path;
use std::process::ExitCode;

use landfall_agent::attend;

/// Answers a hidden command; `None` if this is none. They have a form of their own, so they are looked for before all others.
pub(crate) fn forward() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    match args.next()?.to_str()? {
        "keeper" => {
            let dir = args.next().filter(|flag| flag == "--dir").and_then(|_| args.next());
            let Some(dir) = dir else {
                eprintln!("landfall: keeper: agents start this; it needs --dir DIR");
                return Some(ExitCode::from(2));
            };
            Some(match landfall_agent::keeper_main(Path::new(&dir)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("landfall: keeper: {error}");
                    ExitCode::FAILURE
                }
            })
        }
        attend::ATTEND => std::process::exit(attend::attend(args)),
        attend::IN_TERMINAL => std::process::exit(attend::in_terminal(args)),
        _ => None,
    }
}
