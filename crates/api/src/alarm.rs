//! What people should look at.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that people should look at. It stays until what it is about is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlarmView {
    /// Its number.
    pub id: u64,
    /// What kind of thing it is, for programs.
    #[schema(example = "conformance_drift")]
    pub kind: String,
    /// The job, node or pool that it is about.
    pub subject: String,
    /// What is the matter, for people.
    pub message: String,
    /// What to do about it.
    pub help: String,
    /// When it was first seen.
    pub since_ms: u64,
    /// When it was last seen.
    pub last_ms: u64,
    /// How often it was seen.
    pub count: u64,
    /// When people are told once more, if it is not over by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<u64>,
    /// Who has seen it; nobody if it came again since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_by: Option<String>,
}
