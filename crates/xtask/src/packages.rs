//! Programs and libraries of the system that tests need and cargo cannot bring.

use std::path::Path;
use std::process::{Command, Stdio};

/// Debian packages, with a file of each (`*` is one directory), and what is skipped without it.
const PACKAGES: [(&str, &str, &str); 8] = [
    ("faketime", "/usr/lib/*/faketime/libfaketimeMT.so.1", "tests in which the wall clock jumps"),
    ("chromium", "/usr/bin/chromium", "the walk through the board"),
    ("npm", "/usr/bin/npm", "the board itself"),
    ("prometheus", "/usr/bin/promtool", "alert rules, and dashboards against a live server"),
    ("podman", "/usr/bin/podman", "the container"),
    ("runc", "/usr/sbin/runc", "the container"),
    ("busybox-static", "/usr/bin/busybox", "the container"),
    ("logrotate", "/usr/sbin/logrotate", "rotation of logs"),
];

/// Installs what is missing, where that may be done. With `CI=true` it is an error if it may not.
pub(crate) fn install(_root: &Path) -> Result<(), String> {
    let missing: Vec<_> = PACKAGES.iter().filter(|(_, file, _)| !exists(file)).collect();
    let names: Vec<&str> = missing.iter().map(|(name, _, _)| *name).collect();
    if names.is_empty() {
        return Ok(());
    }
    let apt = |args: &[&str]| {
        let root = Command::new("id").arg("-u").output().is_ok_and(|said| said.stdout == b"0\n");
        let (program, before): (_, &[&str]) =
            if root { ("apt-get", &[]) } else { ("sudo", &["-n", "apt-get"]) };
        let mut command = Command::new(program);
        command.args(before).args(args).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let install = [&["install", "-y", "--no-install-recommends"], &names[..]].concat();
    // The list of packages may be old or empty.
    if apt(&install) || (apt(&["update"]) && apt(&install)) {
        println!("installed {}", names.join(", "));
        return Ok(());
    }
    let skipped = missing.iter().map(|(name, _, what)| format!("without `{name}`: {what}"));
    let text = format!(
        "cannot install Debian packages here ({}); as root: apt-get install {}",
        skipped.collect::<Vec<_>>().join("; "),
        names.join(" ")
    );
    if std::env::var("CI").as_deref() == Ok("true") {
        return Err(text);
    }
    println!("SKIPPED: {text}");
    Ok(())
}

fn exists(file: &str) -> bool {
    let Some((dir, rest)) = file.split_once("/*/") else { return Path::new(file).exists() };
    std::fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| entry.path().join(rest).exists())
}
