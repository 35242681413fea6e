//! Expected failures: what was wrong, where, and what to do. Each has a stable code and an exit code.

use std::io;

use landfall_client::ClientError;
use landfall_model::scenario::{Position, ScenarioError, closest};
use landfall_store::StoreError;
use serde::Serialize;

use crate::exit::Exit;
use crate::render::style::{BAD, DIM};
use crate::render::text::clean;

/// Why a command gives no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The arguments do not go together.
    #[error("{message}")]
    Usage { message: String, hint: String },
    #[error("cannot read {file}: {source}")]
    Read { file: String, source: io::Error },
    #[error("{file} is larger than {} GiB", crate::input::FILE_BYTES_MAX >> 30)]
    TooLarge { file: String },
    /// A file says something that makes no sense.
    #[error("{error}")]
    Invalid {
        file: String,
        /// What is wrong, and where.
        error: ScenarioError,
    },
    /// A file describes a situation in which no engine could stand.
    #[error("{refused}")]
    Unusable { file: String, refused: landfall_engine::Refused },
    #[error("there is no {what} `{name}`")]
    NoSuch {
        what: &'static str,
        name: String,
        /// The file it should be in, if it should be in one.
        file: Option<String>,
        hint: Option<String>,
    },
    #[error("{file} is there already")]
    Exists { file: String },
    #[error("cannot write {file}: {source}")]
    Write { file: String, source: io::Error },
    #[error("cannot write the answer: {0}")]
    Output(#[source] io::Error),
    /// The server gives no answer, or says no.
    #[error(transparent)]
    Service(#[from] ClientError),
    /// Something is wrong with what a file asks for, as the command line or the server found out.
    #[error("{}{source}", .job.as_ref().map(|job| format!("{job}: ")).unwrap_or_default())]
    Asked {
        file: String,
        position: Option<Position>,
        /// Which of its jobs, if it has several.
        job: Option<String>,
        source: Box<CliError>,
    },
    /// Something that should run does not start or stopped.
    #[error("{message}")]
    Failed { message: String, hint: String },
    /// What is stored is not what was written.
    #[error("{message}")]
    Damaged { message: String, hint: String },
    /// Another server has taken the journal over.
    #[error("{message}")]
    Fenced { message: String, hint: String },
}

#[derive(Serialize)]
struct Report<'a> {
    code: &'a str,
    message: String,
    field: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<usize>,
    column: Option<usize>,
    hint: Option<String>,
}

/// A mistake in what was asked for, and what to do about it.
pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> CliError {
    CliError::Usage { message: message.into(), hint: hint.into() }
}

/// Something that should run and does not, and what to do about it.
pub(crate) fn broken(message: impl Into<String>, hint: impl Into<String>) -> CliError {
    CliError::Failed { message: message.into(), hint: hint.into() }
}

/// Why something stored cannot be had.
pub(crate) fn stored(error: &StoreError) -> CliError {
    let (message, hint) = (error.to_string(), error.hint());
    match error {
        StoreError::Damaged { .. } => CliError::Damaged { message, hint },
        _ => CliError::Failed { message, hint },
    }
}

impl CliError {
    /// An error about a name, with a suggestion if a known name is near.
    pub(crate) fn no_such<'a>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let hint = closest(name, known).map(|near| format!("did you mean `{near}`?"));
        Self::NoSuch { what, name: name.to_owned(), file: None, hint }
    }

    pub(crate) fn in_file(mut self, path: &str) -> Self {
        if let Self::NoSuch { file, .. } = &mut self {
            *file = Some(path.to_owned());
        }
        self
    }

    pub(crate) fn or_hint(mut self, text: &str) -> Self {
        if let Self::NoSuch { hint, .. } = &mut self {
            hint.get_or_insert_with(|| text.to_owned());
        }
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage { .. } | Self::Exists { .. } => Exit::Usage,
            Self::Read { .. }
            | Self::TooLarge { .. }
            | Self::Invalid { .. }
            | Self::Unusable { .. }
            | Self::Damaged { .. } => Exit::BadInput,
            Self::Fenced { .. } => Exit::Fenced,
            Self::NoSuch { .. } => Exit::NoSuch,
            Self::Write { .. } | Self::Output(_) => Exit::Output,
            Self::Failed { .. } => Exit::Unreachable,
            Self::Asked { source, .. } => source.exit(),
            Self::Service(error) => match error {
                ClientError::Setup { .. } => Exit::Usage,
                ClientError::Unreachable { .. } | ClientError::Tls { .. } | ClientError::BadAnswer { .. } => {
                    Exit::Unreachable
                }
                ClientError::Forbidden { .. } => Exit::Forbidden,
                ClientError::Refused { status: 404, .. } => Exit::NoSuch,
                // A request may be understood and still name something that is not there.
                ClientError::Refused { error, .. } if error.code.starts_with("unknown_") => Exit::NoSuch,
                ClientError::Refused { status: 500.., .. } => Exit::Unreachable,
                ClientError::Refused { .. } => Exit::Refused,
            },
        }
    }

    fn code(&self) -> &str {
        match self {
            Self::Usage { .. } => "usage",
            Self::Read { .. } => "unreadable_file",
            Self::TooLarge { .. } => "file_too_large",
            Self::Invalid { .. } => "invalid_file",
            Self::Unusable { .. } => "unusable_situation",
            Self::NoSuch { .. } => "not_found",
            Self::Exists { .. } => "file_exists",
            Self::Write { .. } => "unwritable_file",
            Self::Output(_) => "output",
            Self::Failed { .. } => "failed",
            Self::Damaged { .. } => "damaged",
            Self::Fenced { .. } => "fenced",
            Self::Asked { source, .. } => source.code(),
            Self::Service(error) => match error {
                ClientError::Setup { .. } => "usage",
                ClientError::Unreachable { .. } => "unreachable",
                ClientError::Tls { .. } => "tls",
                ClientError::BadAnswer { .. } => "bad_answer",
                ClientError::Forbidden { error, .. } | ClientError::Refused { error, .. } => &error.code,
            },
        }
    }

    fn file(&self) -> Option<&str> {
        match self {
            Self::Read { file, .. }
            | Self::TooLarge { file }
            | Self::Invalid { file, .. }
            | Self::Unusable { file, .. }
            | Self::Exists { file }
            | Self::Asked { file, .. }
            | Self::Write { file, .. } => Some(file),
            Self::NoSuch { file, .. } => file.as_deref(),
            Self::Usage { .. }
            | Self::Output(_)
            | Self::Service(_)
            | Self::Failed { .. }
            | Self::Damaged { .. }
            | Self::Fenced { .. } => None,
        }
    }

    fn position(&self) -> Option<Position> {
        match self {
            Self::Invalid { error, .. } => error.position,
            Self::Asked { position, .. } => *position,
            _ => None,
        }
    }

    /// The field of the request that the server does not like.
    fn field_of_request(&self) -> Option<&str> {
        match self {
            Self::Service(error) => error.api().and_then(|error| error.field.as_deref()),
            Self::Asked { source, .. } => source.field_of_request(),
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint: Option<&str> = match self {
            Self::Usage { hint, .. }
            | Self::Failed { hint, .. }
            | Self::Damaged { hint, .. }
            | Self::Fenced { hint, .. } => Some(hint).filter(|hint| !hint.is_empty()).map(String::as_str),
            Self::Service(error) => return error.hint(),
            Self::Asked { source, .. } => return source.hint(),
            Self::Read { .. } => Some("check the path and its permissions"),
            Self::TooLarge { .. } => Some("give rows that repeat once, with `count`"),
            Self::Invalid { error, .. } => error.hint.as_deref(),
            Self::Unusable { refused, .. } => Some(&refused.hint),
            Self::NoSuch { hint, .. } => hint.as_deref(),
            Self::Exists { .. } => Some("choose another name, or add --force to replace it"),
            Self::Write { .. } => Some("check that the directory exists and may be written to"),
            Self::Output(_) => None,
        };
        hint.map(str::to_owned)
    }

    /// The error for people: what, where, what to do.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{BAD}error{BAD:#}: {}\n", clean(&self.to_string()));
        if let Some(file) = self.file() {
            let place = match self.position() {
                Some(Position { line, column }) => format!("{}:{line}:{column}", clean(file)),
                None => clean(file),
            };
            text += &format!("  {DIM}-->{DIM:#} {place}\n");
        }
        if let Some(field) = self.field_of_request() {
            text += &format!("  {DIM}-->{DIM:#} field {}\n", clean(field));
        }
        if let Some(hint) = self.hint() {
            text += &format!("  hint: {}\n", clean(&hint));
        }
        text
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let (field, message) = match self {
            Self::Invalid { error, .. } if !error.field.is_empty() => {
                (Some(error.field.as_str()), error.message.clone())
            }
            _ => (self.field_of_request(), self.to_string()),
        };
        let position = self.position();
        let report = Report {
            code: self.code(),
            message,
            field,
            file: self.file(),
            line: position.map(|at| at.line),
            column: position.map(|at| at.column),
            hint: self.hint(),
        };
        serde_json::json!({ "error": report })
    }
}

#[cfg(test)]
mod tests {
    use landfall_api::ApiError;

    use super::*;

    #[test]
    fn what_the_server_says_ends_as_the_table_says() {
        let of = |status, code: &str| {
            CliError::Service(ClientError::Refused { status, error: ApiError::new(code, "no") }).exit()
        };
        for (status, code, exit) in [
            (404, "unknown_job", Exit::NoSuch),
            (422, "unknown_pool", Exit::NoSuch),
            (422, "unknown_job", Exit::NoSuch),
            (422, "unknown_workload", Exit::NoSuch),
            (422, "never_fits", Exit::Refused),
            (409, "not_pending", Exit::Refused),
            (400, "bad_request", Exit::Refused),
            (503, "busy", Exit::Unreachable),
        ] {
            assert_eq!(of(status, code), exit, "{status} {code}");
        }
    }
}
