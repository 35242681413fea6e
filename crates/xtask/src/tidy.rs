//! Tidiness that reviews forget: file sizes, module docs, left-overs.

use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 900;
/// Words that must not stay behind; written so that this file does not contain them.
const LEFT_OVERS: [&str; 4] =
    [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!("), concat!("#[", "ignore")];

pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut wrong = Vec::new();
    for path in sources(&root.join("crates"))? {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if text.lines().count() > LINES_MAX {
            wrong.push(format!("{name}: more than {LINES_MAX} lines; split it"));
        }
        if !text.starts_with("//!") {
            wrong.push(format!("{name}: begins without a `//!` line that says what it is for"));
        }
        for word in LEFT_OVERS {
            if text.contains(word) {
                wrong.push(format!("{name}: contains `{word}`"));
            }
        }
    }
    for file in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", ".ci/run"] {
        if !root.join(file).exists() {
            wrong.push(format!("{file} is missing"));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("\n  {}", wrong.join("\n  "))) }
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
