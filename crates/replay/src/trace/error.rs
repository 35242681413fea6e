//! Why a trace cannot be read: the system failed, or the file says something that makes no sense.

use std::io;

use landfall_model::scenario::{Position, ScenarioError};

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("cannot read the trace: {0}")]
    Read(#[from] io::Error),
    /// The content: which field, where, what was found, what to do.
    #[error("{at}{0}", at = line_of(.0))]
    Invalid(Box<ScenarioError>),
}

fn line_of(error: &ScenarioError) -> String {
    error.position.map_or_else(String::new, |at| format!("line {}: ", at.line))
}

impl TraceError {
    /// An error about a whole line.
    pub(crate) fn line(line: usize, message: impl Into<String>) -> ScenarioError {
        Self::field(line, 1, "", message)
    }

    /// An error about one field of a line.
    pub(crate) fn field(
        line: usize,
        column: usize,
        field: &str,
        message: impl Into<String>,
    ) -> ScenarioError {
        let mut error = ScenarioError::at(field, message);
        error.position = Some(Position { line, column });
        error
    }
}

impl From<ScenarioError> for TraceError {
    fn from(error: ScenarioError) -> Self {
        Self::Invalid(Box::new(error))
    }
}

/// A piece of a damaged file for an error message: short, and readable whatever it is.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const LENGTH_MAX: usize = 40;
    let text = String::from_utf8_lossy(bytes);
    let mut short: String = text.chars().take(LENGTH_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
