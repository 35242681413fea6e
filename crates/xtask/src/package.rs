//! `cargo xtask package`: a Debian package, and a directory from which a container is built.
//!
//! What goes into them lies in `deploy`. The binary is built with optimisations, unless another one is given.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const DESCRIPTION: &str = "scheduler that decides where work runs, and says why\n \
    Server, agent and command line in one binary: places jobs on a shared, mixed\n \
    fleet of machines, runs them, and explains every decision.\n";

/// What was asked for.
struct Asked {
    what: String,
    binary: PathBuf,
    out: PathBuf,
    /// How the Debian package is compressed, in the words of `dpkg-deb -Z`.
    compression: String,
}

pub(crate) fn make(root: &Path, options: &[&str]) -> Result<(), String> {
    let asked = asked(root, options)?;
    fs::create_dir_all(&asked.out).map_err(|error| format!("{}: {error}", asked.out.display()))?;
    let made = match asked.what.as_str() {
        "deb" => vec![deb(root, &asked)?],
        "container" => vec![container(root, &asked)?],
        _ => vec![deb(root, &asked)?, container(root, &asked)?],
    };
    made.iter().for_each(|path| println!("{}", path.display()));
    Ok(())
}

fn asked(root: &Path, options: &[&str]) -> Result<Asked, String> {
    let (what, options) = match options {
        [what @ ("deb" | "container"), rest @ ..] => (*what, rest),
        rest => ("all", rest),
    };
    let (mut binary, mut out, mut compression) = (None, super::target(root).join("package"), "xz".to_owned());
    for option in options.chunks(2) {
        match option {
            ["--binary", path] => binary = Some(PathBuf::from(path)),
            ["--out", path] => out = PathBuf::from(path),
            ["--compression", how] => compression = (*how).to_owned(),
            _ => {
                let usage = "[deb|container] [--binary FILE] [--out DIR] [--compression xz|none]";
                return Err(format!("`{}` makes no sense: {usage}", option.join(" ")));
            }
        }
    }
    let binary = match binary {
        Some(binary) => binary,
        None => {
            super::cargo(&["build", "--release", "--package", "landfall-cli", "--package", "landfall-wasm"])?;
            super::target(root).join("release/landfall")
        }
    };
    Ok(Asked { what: what.to_owned(), binary, out, compression })
}

fn put(text: impl AsRef<[u8]>, at: PathBuf, mode: u32) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", at.display());
    if let Some(dir) = at.parent() {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    fs::write(&at, text).map_err(failed)?;
    fs::set_permissions(&at, fs::Permissions::from_mode(mode)).map_err(failed)
}

fn copy(from: &Path, to: PathBuf, mode: u32) -> Result<(), String> {
    let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
    put(bytes, to, mode)
}

/// What a program says.
fn said(program: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} {} failed: {complaint}", program.display(), args.join(" ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The C library that a binary needs: the highest version that one of its symbols names.
fn libc_of(binary: &[u8]) -> String {
    const MARK: &[u8] = b"GLIBC_2.";
    let minors =
        binary.windows(MARK.len() + 3).filter(|window| window.starts_with(MARK)).filter_map(|window| {
            let digits: String = window[MARK.len()..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .map(|&byte| char::from(byte))
                .collect();
            digits.parse::<u32>().ok()
        });
    minors.max().map_or_else(|| "libc6".to_owned(), |minor| format!("libc6 (>= 2.{minor})"))
}

fn deb(root: &Path, asked: &Asked) -> Result<PathBuf, String> {
    let Asked { binary, out, compression, .. } = asked;
    let deploy = root.join("deploy");
    let tree = out.join("deb");
    let _ = fs::remove_dir_all(&tree);
    let at = |path: &str| tree.join(path);
    copy(binary, at("usr/bin/landfall"), 0o755)?;
    let wasm = binary.with_file_name("landfall-wasm");
    if wasm.exists() {
        copy(&wasm, at("usr/bin/landfall-wasm"), 0o755)?;
    }
    for unit in ["landfall-server.service", "landfall-agent.service"] {
        copy(&deploy.join(unit), at(&format!("usr/lib/systemd/system/{unit}")), 0o644)?;
    }
    copy(&deploy.join("config.toml"), at("etc/landfall/config.toml"), 0o640)?;
    copy(&deploy.join("logrotate"), at("etc/logrotate.d/landfall"), 0o644)?;
    copy(&root.join("LICENSE"), at("usr/share/doc/landfall/copyright"), 0o644)?;
    let completions = said(binary, &["completions", "bash"])?;
    put(completions, at("usr/share/bash-completion/completions/landfall"), 0o644)?;
    let man = at("usr/share/man/man1");
    fs::create_dir_all(&man).map_err(|error| format!("{}: {error}", man.display()))?;
    said(binary, &["man", "--out", &man.display().to_string()])?;
    for script in ["postinst", "prerm", "postrm"] {
        copy(&deploy.join(script), at(&format!("DEBIAN/{script}")), 0o755)?;
    }
    put("/etc/landfall/config.toml\n/etc/logrotate.d/landfall\n", at("DEBIAN/conffiles"), 0o644)?;

    let version = said(binary, &["--version"])?;
    let version = version.split_whitespace().nth(1).unwrap_or("0").to_owned();
    let arch = said(Path::new("dpkg"), &["--print-architecture"])?.trim().to_owned();
    let libc = libc_of(&fs::read(binary).map_err(|error| format!("{}: {error}", binary.display()))?);
    let control = format!(
        "Package: landfall\nVersion: {version}\nArchitecture: {arch}\nMaintainer: Landfall <landfall@localhost>\n\
         Section: admin\nPriority: optional\nDepends: {libc}, passwd\nSuggests: logrotate\nDescription: {DESCRIPTION}"
    );
    put(control, at("DEBIAN/control"), 0o644)?;
    let package = out.join(format!("landfall_{version}_{arch}.deb"));
    let (tree, file) = (tree.display().to_string(), package.display().to_string());
    let how = format!("-Z{compression}");
    said(Path::new("dpkg-deb"), &["--build", "--root-owner-group", &how, &tree, &file])?;
    Ok(package)
}

fn container(root: &Path, asked: &Asked) -> Result<PathBuf, String> {
    let dir = asked.out.join("container");
    let _ = fs::remove_dir_all(&dir);
    copy(&asked.binary, dir.join("landfall"), 0o755)?;
    copy(&root.join("deploy/Containerfile"), dir.join("Containerfile"), 0o644)?;
    Ok(dir)
}
