//! The pages under `docs/examples` are sessions with the real binary: each `$ landfall …` line of a `console` block is
//! run in that directory and must print what the page shows.
//!
//! `LANDFALL_BLESS=1 cargo test -p landfall-cli --test examples` writes what is printed now into the pages.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// How wide the pages are, whatever terminal the tests run in.
const COLUMNS: &str = "110";

fn examples() -> PathBuf {
    PathBuf::from("../../docs/examples")
}

/// The files of the directory with this extension, sorted.
fn files(extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(examples()).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

#[test]
fn pages_show_what_the_binary_prints() {
    let bless = std::env::var_os("LANDFALL_BLESS").is_some();
    let pages = files("md");
    assert!(pages.len() >= 3, "the pages are not where they should be: {pages:?}");
    for page in pages {
        let shown = std::fs::read_to_string(&page).unwrap();
        let (printed, commands) = replay(&shown);
        assert!(commands > 0, "{} shows no command", page.display());
        if bless {
            std::fs::write(&page, printed).unwrap();
        } else if let Some((at, (was, is))) =
            shown.lines().zip(printed.lines()).enumerate().find(|(_, (was, is))| was != is)
        {
            panic!(
                "{}:{} is out of date; LANDFALL_BLESS=1 renews it\n  shown:   {was}\n  printed: {is}",
                page.display(),
                at + 1
            );
        } else {
            assert_eq!(shown.len(), printed.len(), "{}: a session ends differently", page.display());
        }
    }
}

#[test]
fn every_file_beside_the_pages_is_used_by_one() {
    let pages: String = files("md").iter().map(|page| std::fs::read_to_string(page).unwrap()).collect();
    for file in files("toml") {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(pages.contains(&name), "no page mentions {name}");
    }
}

/// The page with its sessions run again, and how many commands there were.
fn replay(page: &str) -> (String, usize) {
    let (mut text, mut commands, mut in_session) = (String::new(), 0, false);
    for line in page.lines() {
        if line.starts_with("```") {
            in_session = line == "```console";
        } else if in_session {
            // What a session showed is replaced by what its commands print now.
            let Some(command) = line.strip_prefix("$ ") else { continue };
            commands += 1;
            writeln!(text, "{line}").unwrap();
            text += &run(command);
            continue;
        }
        writeln!(text, "{line}").unwrap();
    }
    (text, commands)
}

/// What a command prints: its exit code unless that is 0, standard output, then standard error.
fn run(command: &str) -> String {
    let words = words(command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["cat", file] => std::fs::read_to_string(examples().join(file)).unwrap(),
        ["landfall", ref args @ ..] => {
            let mut landfall = Command::new(env!("CARGO_BIN_EXE_landfall"));
            landfall.args(args).current_dir(examples()).stdin(Stdio::null());
            landfall.env("COLUMNS", COLUMNS).env("NO_COLOR", "1").env_remove("CLICOLOR_FORCE");
            let output = landfall.output().unwrap();
            let code = output.status.code().expect("it ends by itself");
            let code = if code == 0 { String::new() } else { format!("? {code}\n") };
            let text = |bytes| String::from_utf8(bytes).unwrap();
            code + &text(output.stdout) + &text(output.stderr)
        }
        _ => panic!("only `landfall` and `cat FILE` can be run, not `{command}`"),
    }
}

/// Splits at spaces outside double quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
