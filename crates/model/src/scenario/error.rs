//! Errors of files that people write: what, where, and what to do.

use std::fmt;

use serde::de::DeserializeOwned;

use super::locate::{locate, place};
use super::tree::{Tree, Wrong};

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Toml,
    Json,
}

/// A place in a file, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    /// The position of a byte offset.
    pub fn of(text: &str, offset: usize) -> Self {
        let mut end = offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.bytes().filter(|&b| b == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioError {
    /// The field at fault, as a path such as `nodes[2].gpus[0].vram_mib`; empty for the file as a whole.
    pub field: String,
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where it is, if that can be told.
    pub position: Option<Position>,
}

impl ScenarioError {
    /// An error at a field.
    pub fn at(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), hint: None, position: None }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds "did you mean" if one of the known names is near.
    #[must_use]
    pub fn did_you_mean<'a>(self, wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match closest(wrong, known) {
            Some(name) => self.hint(format!("did you mean `{name}`?")),
            None => self,
        }
    }

    /// Finds the field in the text.
    #[must_use]
    pub fn located(mut self, text: &str, format: Format) -> Self {
        if self.position.is_none() {
            self.position = locate(text, format, &self.field);
        }
        self
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ScenarioError {}

/// The known name nearest to a wrong one, if it is near enough to be a slip.
pub fn closest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Comparing is quadratic in the length, and nobody mistypes a kilobyte.
    if wrong.len() > 100 {
        return None;
    }
    let score = |name: &str| strsim::damerau_levenshtein(&wrong.to_lowercase(), &name.to_lowercase());
    let (name, distance) =
        known.into_iter().map(|name| (name, score(name))).min_by_key(|&(name, d)| (d, name))?;
    let contained = wrong.len() >= 3 && (name.contains(wrong) || wrong.contains(name));
    (distance <= wrong.chars().count() / 3 || contained).then_some(name)
}

/// Decodes a file into rows; errors carry field, position and hint.
pub fn decode<T: DeserializeOwned>(text: &str, format: Format) -> Result<T, ScenarioError> {
    T::deserialize(tree(text, format)?).map_err(|wrong| wrong_at(&wrong, text, format))
}

fn tree(text: &str, format: Format) -> Result<Tree, ScenarioError> {
    match format {
        Format::Toml => {
            let table = toml::de::DeTable::parse(text).map_err(|error| {
                let mut found = from_message("", error.message());
                found.position = error.span().map(|span| Position::of(text, span.start));
                found
            })?;
            Tree::of_toml(table.into_inner()).map_err(|wrong| wrong_at(&wrong, text, format))
        }
        Format::Json => serde_json::from_str(text).map_err(|error| {
            let mut found = from_message("", &error.to_string());
            found.position = Some(Position { line: error.line(), column: error.column() });
            found
        }),
    }
}

fn wrong_at(wrong: &Wrong, text: &str, format: Format) -> ScenarioError {
    let mut found = from_message(&wrong.path(), &wrong.message);
    // What is missing in the file as a whole is missing from its beginning on.
    let beginning = Position { line: 1, column: 1 };
    found.position = place(text, format, &found.field, wrong.name).or(Some(beginning));
    found
}

/// Names that a hint lists.
const LISTED_MAX: usize = 16;

/// What a reader says is wrong at a path, for people. Reads the names out of serde's "unknown field" and "unknown variant"
/// messages to build a hint.
pub fn from_message(path: &str, message: &str) -> ScenarioError {
    let message = &plain_words(message.split(" at line ").next().unwrap_or_default());
    let error = ScenarioError::at(path, message.trim_end());
    let what = match message {
        _ if message.starts_with("unknown field") => "field",
        _ if message.starts_with("unknown variant") => "value",
        _ if message.ends_with("is set by the server") => return error.hint("leave it out"),
        _ => return error,
    };
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let [wrong, known @ ..] = quoted.as_slice() else { return error };
    let short = ScenarioError::at(path, format!("unknown {what} `{wrong}`"));
    if known.is_empty() {
        return short;
    }
    match closest(wrong, known.iter().copied()) {
        Some(name) => short.hint(format!("did you mean `{name}`?")),
        None if known.len() <= LISTED_MAX => short.hint(format!("known {what}s: {}", known.join(", "))),
        None => short.hint(format!("docs/reference/scenario.md lists the {} {what}s there are", known.len())),
    }
}

/// A message without names of types, which only mean something to those who wrote them.
fn plain_words(message: &str) -> String {
    match message.split_once("expected struct ") {
        Some((before, name)) => {
            let rest = name.trim_start_matches(|next: char| next.is_ascii_alphanumeric() || next == '_');
            format!("{before}expected a table of fields{rest}")
        }
        None => match message.rsplit_once(", expected ") {
            Some((before, kind @ ("u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64"))) => {
                // What is a whole number is too small or too large.
                let range = match kind {
                    "u8" => format!(" of 0 to {}", u8::MAX),
                    "u16" => format!(" of 0 to {}", u16::MAX),
                    "u32" => format!(" of 0 to {}", u32::MAX),
                    "i32" => format!(" of {} to {}", i32::MIN, i32::MAX),
                    "i64" => String::new(),
                    _ => " of 0 or more".to_owned(),
                };
                let range = if before.starts_with("invalid value: integer") { range } else { String::new() };
                format!("{before}, expected a whole number{range}")
            }
            Some((before, "f32" | "f64")) => format!("{before}, expected a number"),
            _ => message.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_noise_is_not() {
        let known = ["cpu_milli", "ram_mib", "gpus"];
        assert_eq!(closest("cpu_mili", known), Some("cpu_milli"));
        assert_eq!(closest("gpu", known), Some("gpus"));
        assert_eq!(closest("zzzzzz", known), None);
        assert_eq!(closest("", known), None);
    }

    #[test]
    fn types_have_words_of_people() {
        for (said, words) in [
            (
                "invalid type: string \"x\", expected u32",
                "invalid type: string \"x\", expected a whole number",
            ),
            (
                "invalid value: integer `70000`, expected u16",
                "invalid value: integer `70000`, expected a whole number of 0 to 65535",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "invalid value: integer `-1`, expected a whole number of 0 or more",
            ),
            ("invalid type: string \"x\", expected f64", "invalid type: string \"x\", expected a number"),
        ] {
            assert_eq!(from_message("field", said).message, words);
        }
    }

    #[test]
    fn positions_count_from_one() {
        assert_eq!(Position::of("a\nbc", 3), Position { line: 2, column: 2 });
        assert_eq!(Position::of("ä", 1), Position { line: 1, column: 1 });
        assert_eq!(Position::of("", 10), Position { line: 1, column: 1 });
    }
}
