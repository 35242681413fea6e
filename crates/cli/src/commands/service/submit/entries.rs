//! One job for each line of a file, or for each element of a list.

use std::path::Path;

use serde_json::Value;

use crate::error::{CliError, usage};
use crate::input::Input;

/// What the elements of an array differ in; nothing if that is not asked for.
pub(crate) fn entries(each_line: Option<&Path>, from_json: Option<&Path>) -> Result<Vec<String>, CliError> {
    match (each_line, from_json) {
        (Some(path), _) => lines(path),
        (None, Some(path)) => elements(path),
        (None, None) => Ok(Vec::new()),
    }
}

fn lines(path: &Path) -> Result<Vec<String>, CliError> {
    let input = Input::read(path)?;
    let lines: Vec<String> =
        input.text.trim_end().lines().map(|line| line.trim_end_matches('\r').to_owned()).collect();
    match lines.iter().position(|line| line.trim().is_empty()) {
        // Left out, it would shift the numbers of all lines behind it.
        Some(at) => Err(usage(format!("line {} of {} is empty", at + 1, input.file), "take it out")),
        None => Ok(lines),
    }
}

fn elements(path: &Path) -> Result<Vec<String>, CliError> {
    let input = Input::read(path)?;
    let wrong = |message: String| {
        usage(format!("{}: {message}", input.file), "write a list such as [1, 2] or [{\"lr\": 0.1}]")
    };
    let list: Vec<Value> = match serde_json::from_str(&input.text) {
        Ok(Value::Array(list)) => list,
        Ok(_) => return Err(wrong("this is no list".to_owned())),
        Err(error) => return Err(wrong(error.to_string())),
    };
    if list.is_empty() {
        return Err(wrong("the list is empty".to_owned()));
    }
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(list.into_iter().map(text).collect())
}
