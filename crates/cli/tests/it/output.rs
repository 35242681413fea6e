//! Where output goes and what it looks like there.

use std::io::Read as _;
use std::process::Stdio;

use crate::tool::{Dir, Ran, SCENARIO};

const RANK: [&str; 7] = ["rank", "--scenario", "s.toml", "--policy-file", "p.toml", "--job", "build"];

#[test]
fn colours_appear_only_where_they_are_wanted() {
    let dir = Dir::with_files();
    let run =
        |env: &[(&str, &str)]| Ran::of(dir.command(&RANK).envs(env.iter().copied()).output().unwrap()).stdout;
    assert!(!run(&[]).contains('\u{1b}'), "a pipe is no terminal");
    assert!(run(&[("CLICOLOR_FORCE", "1")]).contains('\u{1b}'));
    assert!(!run(&[("NO_COLOR", "1")]).contains('\u{1b}'));
    assert!(!run(&[("CLICOLOR", "0")]).contains('\u{1b}'));
}

#[test]
fn narrow_pages_show_what_gives_most_and_say_so() {
    let dir = Dir::with_files();
    let run = |columns: &str| Ran::of(dir.command(&RANK).env("COLUMNS", columns).output().unwrap()).stdout;
    assert!(run("120").contains("PathsRule"));
    let narrow = run("24");
    assert!(narrow.contains("0 of 1 terms shown"), "{narrow}");
}

#[test]
fn a_closed_pipe_is_no_error() {
    // More than any pipe holds, so that the writer must notice.
    let scenario = SCENARIO.replace("id = \"docs\"", "id = \"docs\"\ncount = 5000");
    let dir = Dir::with_files().file("s.toml", scenario);
    let ask = ["rank", "--scenario", "s.toml", "--policy-file", "p.toml", "--node", "near"];
    for form in [["--json"].as_slice(), &["--limit", "all"]] {
        let args = [&ask, form].concat();
        let mut child = dir.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{form:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let dir = Dir::with_files();
    for args in [RANK.as_slice(), &[&RANK[..], &["--json"]].concat()] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output =
            dir.command(args).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output();
        let ran = Ran::of(output.unwrap());
        assert_eq!(ran.code, 5);
        assert!(ran.stderr.contains("cannot write the answer"), "{}", ran.stderr);
    }
}

#[test]
fn help_has_examples_and_exit_codes() {
    let dir = Dir::new();
    for args in [["help", "exit-codes"].as_slice(), &["exit-codes"]] {
        let ran = dir.run(args);
        assert_eq!(ran.code, 0, "{args:?}");
        for meaning in ["an input file cannot be read or is invalid", " 5  every offer was too dear"] {
            assert!(ran.stdout.contains(meaning), "{}", ran.stdout);
        }
    }
    let first = dir.run(&["--help"]).stdout;
    assert!(first.contains("Examples:") && first.contains("exit-codes"), "{first}");
    assert!(dir.run(&["rank", "--help"]).stdout.contains("Examples:"));
    assert!(dir.run(&["--version"]).stdout.starts_with("landfall 0."));
}

#[test]
fn many_copies_of_a_node_are_no_trouble() {
    let scenario = SCENARIO
        .replace("id = \"far 🚀\"", "id = \"far 🚀\"\ncount = 20000")
        .replace("node = \"far 🚀\"", "node = \"far 🚀-00000\"");
    let ran = Dir::with_files().file("s.toml", scenario).run(&RANK);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("… and 19981 more"), "{}", ran.stdout);
}
