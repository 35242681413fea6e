//! Placeholders: `{name}` in names of files and in commands, filled in when a job starts.

use std::collections::BTreeMap;

use serde_json::Value;

/// What names of files may hold.
pub const IN_FILES: [&str; 7] = ["job", "array", "index", "name", "node", "rank", "attempt"];

/// Widest number that zeros are put before.
const WIDTH_MAX: usize = 20;

/// Fills every `{name}` for which there is a value; `{name:4}` puts zeros before a number of fewer than 4 digits. What is in no such
/// form, or has no value, stays as it is.
pub fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        filled.push_str(&rest[..open]);
        rest = &rest[open..];
        let found = rest.find('}').and_then(|close| {
            let (name, width) = parts(&rest[1..close])?;
            Some((close, value(name)?, width))
        });
        if let Some((close, value, width)) = found {
            let number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let width = if number { width } else { 0 };
            filled.push_str(&format!("{value:0>width$}"));
            rest = &rest[close + 1..];
        } else {
            filled.push('{');
            rest = &rest[1..];
        }
    }
    filled.push_str(rest);
    filled
}

/// The name and the width of a placeholder.
fn parts(inside: &str) -> Option<(&str, usize)> {
    let (name, width) = inside.split_once(':').unwrap_or((inside, "0"));
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let width = width.parse().ok().filter(|width| *width <= WIDTH_MAX)?;
    (!name.is_empty() && name.bytes().all(fine)).then_some((name, width))
}

/// The names of all placeholders.
pub fn names(text: &str) -> Vec<&str> {
    let opened = text.match_indices('{').map(|(at, _)| &text[at + 1..]);
    opened.filter_map(|rest| parts(&rest[..rest.find('}')?]).map(|(name, _)| name)).collect()
}

/// Checks the name of a file that a job writes to.
///
/// # Errors
/// If it has a placeholder that nobody fills.
pub fn check_file(path: &str) -> Result<(), String> {
    if path.is_empty() || path.contains('\0') {
        return Err("a file needs a name".to_owned());
    }
    match names(path).into_iter().find(|name| !IN_FILES.contains(name)) {
        Some(name) => {
            Err(format!("{{{name}}} stands for nothing here; there are {{{}}}", IN_FILES.join("}, {")))
        }
        None => Ok(()),
    }
}

/// What the first line of a script says: the program that runs it, and one argument for that program.
pub fn interpreter(script: &str) -> Option<(&str, Option<&str>)> {
    let line = script.lines().next()?.strip_prefix("#!")?.trim();
    let (program, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let argument = Some(argument.trim()).filter(|argument| !argument.is_empty());
    (program.starts_with('/')).then_some((program, argument))
}

/// Whether each element of an array writes to a file of its own.
pub fn is_of_one_element(path: &str) -> bool {
    path == "/dev/null" || names(path).iter().any(|name| matches!(*name, "job" | "index"))
}

/// The value of `{entry}` and `{entry.FIELD}` for an element: its entry, or a field of one that is an object in JSON.
pub fn of_entry(entry: &str, name: &str) -> Option<String> {
    let field = match name.strip_prefix("entry")? {
        "" => return Some(entry.to_owned()),
        field => field.strip_prefix('.')?,
    };
    let fields: BTreeMap<String, Value> = serde_json::from_str(entry).ok()?;
    Some(match fields.get(field)? {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_the_rest_stays() {
        let value = |name: &str| match name {
            "job" => Some("12.007".to_owned()),
            "index" => Some("7".to_owned()),
            _ => None,
        };
        for (text, filled) in [
            ("out/{job}.txt", "out/12.007.txt"),
            ("{index:4}-{index}", "0007-7"),
            ("{job:9}", "12.007"),
            ("awk '{print $1}' {unknown} {} { {job", "awk '{print $1}' {unknown} {} { {job"),
            ("{index:99999999999}", "{index:99999999999}"),
            ("{{index}}", "{7}"),
        ] {
            assert_eq!(fill(text, value), filled, "{text}");
        }
    }

    #[test]
    fn slips_in_names_of_files_are_named() {
        assert_eq!(check_file("a/{job}-{index:3}.out"), Ok(()));
        assert!(check_file("{jbo}.out").unwrap_err().starts_with("{jbo} stands for nothing"));
        assert!(check_file("").is_err());
        assert!(is_of_one_element("{array}_{index:4}") && is_of_one_element("{job}"));
        assert!(!is_of_one_element("{array}.out") && !is_of_one_element("x"));
    }

    #[test]
    fn scripts_say_what_runs_them() {
        assert_eq!(interpreter("#!/bin/sh\necho"), Some(("/bin/sh", None)));
        assert_eq!(interpreter("#! /usr/bin/env python3\r\n"), Some(("/usr/bin/env", Some("python3"))));
        assert_eq!(interpreter("#!/bin/bash -l -e\n"), Some(("/bin/bash", Some("-l -e"))));
        assert_eq!((interpreter("echo"), interpreter("#!sh"), interpreter("")), (None, None, None));
    }

    #[test]
    fn entries_are_text_or_fields() {
        assert_eq!(of_entry("a b", "entry").as_deref(), Some("a b"));
        let object = r#"{"lr": 0.1, "name": "x y", "deep": {"a": 1}}"#;
        assert_eq!(of_entry(object, "entry.lr").as_deref(), Some("0.1"));
        assert_eq!(of_entry(object, "entry.name").as_deref(), Some("x y"));
        assert_eq!(of_entry(object, "entry.deep").as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(
            (of_entry(object, "entry.none"), of_entry("a", "entry.lr"), of_entry("a", "job")),
            (None, None, None)
        );
    }
}
