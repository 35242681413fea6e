//! Tidiness that reviews forget: file sizes, module docs, left-overs, links and lists of documents.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 900;
/// Words that must not stay behind; written so that this file does not contain them.
const LEFT_OVERS: [&str; 4] =
    [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!("), concat!("#[", "ignore")];

pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut wrong = Vec::new();
    for path in files(&root.join("crates/board/web"), "tsx")?
        .into_iter()
        .chain(files(&root.join("crates/board/web"), "ts")?)
    {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let made = name.contains("/gen/");
        if !made && text.lines().count() > LINES_MAX {
            wrong.push(format!("{name}: more than {LINES_MAX} lines; split it"));
        }
    }
    for path in files(&root.join("crates"), "rs")? {
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
    for file in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "LICENSE",
        ".ci/run",
    ] {
        if !root.join(file).exists() {
            wrong.push(format!("{file} is missing"));
        }
    }
    wrong.extend(documents(root)?);
    if wrong.is_empty() { Ok(()) } else { Err(format!("\n  {}", wrong.join("\n  "))) }
}

/// Links that lead nowhere, and crates and pages that the lists of them leave out.
fn documents(root: &Path) -> Result<Vec<String>, String> {
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let mut wrong = Vec::new();
    let mut linked = BTreeSet::new();
    let mut pages = files(&root.join("docs"), "md")?;
    pages.extend(
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
            .map(|name| root.join(name)),
    );
    pages.push(root.join("crates/README.md"));
    for page in &pages {
        // That it is missing is told above.
        let text = fs::read_to_string(page).unwrap_or_default();
        let folder = page.parent().unwrap_or(root);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if link.is_empty() || link.contains("://") {
                continue;
            }
            match folder.join(link).canonicalize() {
                Ok(target) if page.ends_with("README.md") => {
                    linked.insert(target);
                }
                Ok(_) => {}
                Err(_) => wrong.push(format!("{}: the link `{link}` leads nowhere", name(page))),
            }
        }
    }
    let crates = fs::read_dir(root.join("crates")).map_err(|error| format!("crates: {error}"))?;
    let crates = crates.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir());
    for path in crates.chain(files(&root.join("docs"), "md")?) {
        let known = path.canonicalize().is_ok_and(|path| linked.contains(&path));
        if !known && !path.ends_with("docs/README.md") {
            wrong.push(format!("{}: no README.md links to it", name(&path)));
        }
    }
    Ok(wrong)
}

fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| error.to_string())?.path();
            // What npm installs is nobody's to tidy.
            if path.is_dir() && !path.ends_with("node_modules") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
