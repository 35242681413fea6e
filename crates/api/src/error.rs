//! The one shape of errors.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request was not followed. Every answer with a status of 400 or above has this shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize, ToSchema)]
#[error("{message}")]
pub struct ApiError {
    /// A stable name for programs.
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The field at fault, such as `needs.cpu_milli`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl ApiError {
    /// An error with a code and a message.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), hint: None, field: None }
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says which field is at fault.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}
