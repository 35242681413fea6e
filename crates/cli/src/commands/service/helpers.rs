//! The hidden commands that agents start: `keeper --dir DIR` and `wasm-run …`.

use std::path::Path;
use std::process::ExitCode;

/// Answers a hidden command; `None` if this is none. They have forms of their own, so they are looked for before all others.
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
        "wasm-run" => {
            let words: Result<Vec<String>, _> = args.map(|word| word.into_string()).collect();
            Some(match words {
                Ok(words) => landfall_agent::wasm_main(&words),
                Err(_) => {
                    eprintln!("landfall: wasm-run: arguments are UTF-8 text");
                    ExitCode::from(2)
                }
            })
        }
        _ => None,
    }
}
