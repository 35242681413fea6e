//! The board: its page is built by npm, and walked through in Debian's Chromium against a live server.

use std::path::{Path, PathBuf};
use std::process::Command;

fn web(root: &Path) -> PathBuf {
    root.join("crates/board/web")
}

fn there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|said| said.status.success())
}

/// What cannot be done without a program is left out, but not by CI.
fn without(what: &str) -> Result<(), String> {
    if std::env::var("CI").as_deref() == Ok("true") {
        return Err(what.to_owned());
    }
    println!("SKIPPED: {what}");
    Ok(())
}

fn run(command: &mut Command, what: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {what}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{what} failed ({status})")) }
}

/// Builds the page, where npm is.
pub(crate) fn page(root: &Path) -> Result<(), String> {
    if !there("npm") {
        return without("npm is not installed, so there is no board");
    }
    run(Command::new("sh").arg(web(root).join("build.sh")), "the build of the page")
}

fn node(root: &Path, script: &str, args: &[&Path]) -> Result<(), String> {
    if !there("npm") || !Path::new("/usr/bin/chromium").exists() {
        return without("npm or chromium is not installed, so nobody walks through the board");
    }
    page(root)?;
    // The same build as that of the tests, which CI has made a moment ago.
    super::tree("test", &["--quiet", "--no-run"], &[])?;
    let binary = super::target(root).join("debug/landfall");
    let mut command = Command::new("node");
    command.arg(web(root).join("test").join(script)).args(args).env("LANDFALL_PROGRAM", binary);
    run(&mut command, script)
}

/// Walks through every page.
pub(crate) fn walk(root: &Path) -> Result<(), String> {
    node(root, "walk.mjs", &[&super::target(root).join("tmp/board")])
}

/// Takes the pictures of the README.
pub(crate) fn screenshots(root: &Path) -> Result<(), String> {
    node(root, "pictures.mjs", &[&root.join("docs/board")])
}
