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

/// Podman with a store of its own, on machines where it may do little.
struct Podman {
    dir: PathBuf,
}

impl Podman {
    fn run(&self, args: &[&str]) -> Output {
        let at = |name: &str| self.dir.join(name).display().to_string();
        let mut command = Command::new("podman");
        command.args(["--root", &at("store"), "--runroot", &at("run"), "--storage-driver", "vfs"]);
        if has("runc") {
            command.args(["--runtime", "runc"]);
        }
        command.args(["--cgroup-manager", "cgroupfs"]).args(args).output().unwrap()
    }
}

/// A system that fits on a palm: a shell and the libraries that the binary needs.
fn base(binary: &str, busybox: &str, tree: &Path) {
    for dir in ["bin", "usr/bin", "var/lib", "tmp"] {
        std::fs::create_dir_all(tree.join(dir)).unwrap();
    }
    std::fs::copy(busybox, tree.join("bin/busybox")).unwrap();
    for name in ["sh", "mkdir", "chown", "chmod"] {
        std::os::unix::fs::symlink("busybox", tree.join("bin").join(name)).unwrap();
    }
    for word in ok(run("ldd", &[binary])).split_whitespace().filter(|word| word.starts_with('/')) {
        let to = tree.join(word.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(word, to).unwrap();
    }
}

#[test]
fn the_container_is_built_and_its_server_answers() {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
    let (true, true, Some(busybox)) = (landfall().exists(), has("podman"), busybox) else {
        eprintln!("SKIPPED: there is no {}, no podman or no static busybox", landfall().display());
        return;
    };
    let dir = std::env::temp_dir().join(format!("landfall-container-{}", std::process::id()));
    let at = |path: &str| dir.join(path).display().to_string();
    std::fs::create_dir_all(&dir).unwrap();
    // What is only for debuggers would be copied time and again.
    let (whole, binary) = (landfall().display().to_string(), at("landfall"));
    if !Command::new("strip").args(["-o", &binary, &whole]).status().is_ok_and(|status| status.success()) {
        std::fs::copy(&whole, &binary).unwrap();
    }
    let made = ok(run(
        env!("CARGO_BIN_EXE_landfall-xtask"),
        &["package", "container", "--binary", &binary, "--out", &at("out")],
    ));
    base(&binary, busybox, &dir.join("base"));
    ok(run("tar", &["-C", &at("base"), "-cf", &at("base.tar"), "."]));
    let podman = Podman { dir: dir.clone() };
    let imported = podman.run(&["import", &at("base.tar"), "landfall-base"]);
    if !imported.status.success() {
        eprintln!("SKIPPED: podman keeps no images here: {}", String::from_utf8_lossy(&imported.stderr));
        return;
    }
    let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096", "--network", "none"];
    let build =
        ["build", "--layers=false", "--build-arg", "BASE=localhost/landfall-base", "-t", "landfall-test"];
    ok(podman.run(&[&build[..], &limits, &[made.trim()]].concat()));
    let said = podman.run(&[&["run", "--rm"], &limits[..], &["landfall-test", "--version"]].concat());
    if !said.status.success() {
        eprintln!("SKIPPED: podman runs no containers here: {}", String::from_utf8_lossy(&said.stderr));
        return;
    }
    assert_eq!(ok(said), ok(run(&whole, &["--version"])));
    // As it stands: a server, as a user that may do nothing else, that answers and ends in order.
    let server = ok(podman.run(&[&["run", "-d"], &limits[..], &["landfall-test"]].concat()));
    let server = server.trim();
    let began = std::time::Instant::now();
    let status = loop {
        let status = podman.run(&["exec", server, "landfall", "status"]);
        if status.status.success() || began.elapsed().as_secs() > 120 {
            break ok(status);
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert!(status.contains("you are     local (admin)"), "{status}");
    let user = ok(podman.run(&["exec", server, "/bin/busybox", "id", "-u"]));
    assert_eq!(user.trim(), "65532");
    ok(podman.run(&["stop", "-t", "30", server]));
    let code = ok(podman.run(&["inspect", server, "--format", "{{.State.ExitCode}}"]));
    assert_eq!(code.trim(), "0", "{:?}", podman.run(&["logs", server]));
    ok(podman.run(&["rm", server]));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn logs_in_files_are_rotated() {
    if !has("logrotate") {
        eprintln!("SKIPPED: there is no logrotate");
        return;
    }
    let dir = std::env::temp_dir().join(format!("landfall-rotate-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let rules = std::fs::read_to_string("../../deploy/logrotate").unwrap();
    let rules = rules.replace("/var/log/landfall", dir.to_str().unwrap());
    let (file, log) = (dir.join("rules"), dir.join("server.log"));
    std::fs::write(&file, rules).unwrap();
    std::fs::write(&log, "a line\n").unwrap();
    let (file, state) = (file.display().to_string(), dir.join("state").display().to_string());
    ok(run("logrotate", &["--force", "--state", &state, &file]));
    // The server has the file open, so it is emptied, not moved.
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "");
    assert_eq!(std::fs::read_to_string(dir.join("server.log.1")).unwrap(), "a line\n");
    std::fs::remove_dir_all(&dir).unwrap();
}
