//! Generated files that are checked in: compared by tests, written by `cargo xtask generate`.
//!
//! Tests of the crate that knows the facts call [`page`] or [`parts`]; they compare, and write when `LANDFALL_WRITE_REFERENCE`
//! is set. [`openapi`] tells what a changed API breaks.
#![forbid(unsafe_code)]

pub mod openapi;

use std::fs;
use std::path::{Path, PathBuf};

/// Set by `cargo xtask generate`: tests write what they would otherwise compare.
pub const WRITE: &str = "LANDFALL_WRITE_REFERENCE";

/// The workspace root, two levels above the crate that runs.
pub fn root() -> PathBuf {
    // Asked for when it runs: clones that share a build directory may share this program, built in another of them.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let here = Path::new(&here);
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Whether files shall be written instead of compared.
pub fn writing() -> bool {
    std::env::var_os(WRITE).is_some()
}

/// Compares a whole file with its text, or writes it.
pub fn page(file: &str, text: &str, write: bool) -> Result<(), String> {
    let path = root().join(file);
    if fs::read_to_string(&path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if !write {
        return Err(format!("{file} is out of date; run `cargo xtask generate` and commit it"));
    }
    println!("writing {file}");
    fs::write(&path, text).map_err(|error| format!("{file}: {error}"))
}

/// Compares the generated parts of a file with their texts, or writes them; what people wrote around them stays. A part stands
/// between the lines `<!-- generated: NAME -->` and `<!-- end -->`.
pub fn parts(file: &str, parts: &[(&str, String)]) -> Result<(), String> {
    let text = fs::read_to_string(root().join(file)).map_err(|error| format!("{file}: {error}"))?;
    let made = replaced(&text, parts).map_err(|error| format!("{file}: {error}"))?;
    page(file, &made, writing())
}

fn replaced(text: &str, parts: &[(&str, String)]) -> Result<String, String> {
    parts.iter().try_fold(text.to_owned(), |text, (name, part)| {
        let (begin, end) = (format!("<!-- generated: {name} -->\n"), "<!-- end -->\n");
        let lacks = || format!("there must be a part `{}` that ends with `{}`", begin.trim(), end.trim());
        let (before, rest) = text.split_once(&begin).ok_or_else(lacks)?;
        let (_, after) = rest.split_once(end).ok_or_else(lacks)?;
        Ok(format!("{before}{begin}\n{}\n\n{end}{after}", part.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn only_what_is_marked_changes() {
        let page = "# Page\n\n<!-- generated: a -->\nold\n<!-- end -->\n\nBy hand.\n<!-- generated: b -->\n<!-- end -->\n";
        let new = replaced(page, &[("a", "new\n".into()), ("b", "more".into())]).unwrap();
        assert_eq!(
            new,
            "# Page\n\n<!-- generated: a -->\n\nnew\n\n<!-- end -->\n\nBy hand.\n<!-- generated: b -->\n\nmore\n\n<!-- end -->\n"
        );
        assert_eq!(replaced(&new, &[("a", "new".into())]).unwrap(), new);
        assert!(replaced(page, &[("c", String::new())]).unwrap_err().contains("generated: c"));
    }
}
