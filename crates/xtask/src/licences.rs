//! Licence sanity: every dependency must offer a licence that goes with Apache-2.0.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Licences that may be linked into an Apache-2.0 program.
const ALLOWED: [&str; 13] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    // For data: a list of certificates.
    "CDLA-Permissive-2.0",
];

pub(crate) fn check(root: &Path) -> Result<(), String> {
    // The tree, not the metadata: those name what a feature that nobody turned on would bring.
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--workspace",
            "--locked",
            "--target",
            "all",
            "--prefix",
            "none",
            "--format",
            "{p}\t{l}",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo tree: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty());
    let packages: BTreeSet<(&str, &str)> = lines.filter_map(|line| line.split_once('\t')).collect();
    let wrong: Vec<String> = packages
        .iter()
        .filter(|(_, licence)| !acceptable(licence))
        .map(|(package, licence)| format!("{package} ({licence})"))
        .collect();
    let (shipped, npm) = of_npm(root)?;
    println!("{} packages, and {shipped} of npm in the board", packages.len());
    let wrong: Vec<String> = wrong.into_iter().chain(npm).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("licences to look at: {}", wrong.join(", "))) }
}

/// How many packages of npm are part of the board's page, and those with a licence to look at. What only builds and tests it is not passed on.
fn of_npm(root: &Path) -> Result<(usize, Vec<String>), String> {
    let file = root.join("crates/board/web/package-lock.json");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let lock: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    if text.contains("\"resolved\"") {
        return Err("package-lock.json names a registry; `.npmrc` says how it is written without".into());
    }
    let packages = lock["packages"].as_object().ok_or("package-lock.json names no packages")?;
    let shipped: Vec<_> =
        packages.iter().filter(|(name, package)| !name.is_empty() && package["dev"] != true).collect();
    let wrong = shipped.iter().filter(|(_, package)| !package["license"].as_str().is_some_and(acceptable));
    let wrong = wrong.map(|(name, package)| format!("{name} ({})", package["license"])).collect();
    Ok((shipped.len(), wrong))
}

/// Whether a licence expression can be met: some alternative of `OR` consists of allowed licences only.
fn acceptable(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    plain
        .split(" OR ")
        .any(|alternative| alternative.split(" AND ").all(|licence| ALLOWED.contains(&licence.trim())))
}

#[cfg(test)]
mod tests {
    use super::acceptable;

    #[test]
    fn one_good_alternative_is_enough_and_all_parts_of_it_must_be_good() {
        assert!(acceptable("MIT OR Apache-2.0"));
        assert!(acceptable("MIT/Apache-2.0"));
        assert!(acceptable("GPL-3.0 OR MIT"));
        assert!(acceptable("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!acceptable("GPL-3.0"));
        assert!(!acceptable("MIT AND GPL-3.0"));
    }
}
