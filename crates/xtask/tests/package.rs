//! The Debian package holds what a machine needs: it unpacks, its binary runs, its units and settings are sound.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(program: impl AsRef<Path>, args: &[&str]) -> Output {
    let program = program.as_ref();
    Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

#[track_caller]
fn ok(output: Output) -> String {
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", said(&output.stdout), said(&output.stderr));
    said(&output.stdout)
}

/// The binary that the tests of the whole tree build.
fn landfall() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.ancestors().nth(2).unwrap().join("landfall")
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn the_package_unpacks_into_something_that_runs() {
    if !landfall().exists() || !has("dpkg-deb") {
        // Only where the whole tree is tested, on a system with packages of this kind.
        eprintln!("SKIPPED: there is no {} or no dpkg-deb", landfall().display());
        return;
    }
    let dir = std::env::temp_dir().join(format!("landfall-package-{}", std::process::id()));
    let at = |path: &str| dir.join(path).display().to_string();
    let binary = landfall().display().to_string();
    let made = ok(run(
        env!("CARGO_BIN_EXE_landfall-xtask"),
        &["package", "--binary", &binary, "--out", &at("out"), "--compression", "none"],
    ));
    let made: Vec<&str> = made.lines().collect();
    let [package, container] = made.as_slice() else { panic!("{made:?}") };
    assert!(
        Path::new(container).join("Containerfile").exists() && Path::new(container).join("landfall").exists()
    );

    let control = ok(run("dpkg-deb", &["--field", package]));
    let version = ok(run(&binary, &["--version"]));
    let version = version.split_whitespace().nth(1).unwrap();
    for line in
        [format!("Version: {version}"), "Depends: libc6 (>= 2.".into(), "Description: scheduler".into()]
    {
        assert!(control.contains(&line), "no `{line}` in {control}");
    }
    ok(run("dpkg-deb", &["--extract", package, &at("root")]));
    ok(run("dpkg-deb", &["--control", package, &at("control")]));
    for script in ["postinst", "prerm", "postrm"] {
        ok(run("sh", &["-n", &at(&format!("control/{script}"))]));
    }
    assert_eq!(ok(run(at("root/usr/bin/landfall"), &["--version"])).split_whitespace().nth(1), Some(version));
    for file in [
        "usr/share/man/man1/landfall.1",
        "usr/share/bash-completion/completions/landfall",
        "etc/logrotate.d/landfall",
        "usr/share/doc/landfall/copyright",
    ] {
        assert!(dir.join("root").join(file).exists(), "{file} is missing");
    }
    // The settings that come with it are those of a server that starts.
    let config = at("root/etc/landfall/config.toml");
    let checked = Command::new(at("root/usr/bin/landfall"))
        .env_clear()
        .env("HOME", &dir)
        .args(["config", "check", "--config", &config])
        .output()
        .unwrap();
    assert!(ok(checked).contains("valid"));
    if has("systemd-analyze") {
        for unit in ["landfall-server.service", "landfall-agent.service"] {
            let unit = at(&format!("root/usr/lib/systemd/system/{unit}"));
            // The unit names the binary where it will be.
            let text = std::fs::read_to_string(&unit).unwrap().replace("/usr/bin/landfall", &binary);
            std::fs::write(&unit, text).unwrap();
            let checked = run("systemd-analyze", &["verify", "--man=no", &unit]);
            let complaint = String::from_utf8_lossy(&checked.stderr).into_owned();
            let about_it: Vec<&str> = complaint.lines().filter(|line| line.contains("landfall-")).collect();
            assert!(about_it.is_empty(), "{complaint}");
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
