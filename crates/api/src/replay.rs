//! What would have been: stretches of the server's own journal under other policies, and reports that were made elsewhere.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A stretch of the journal, and the policies under which it is replayed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRequest {
    /// Where it begins, in milliseconds since 1970.
    pub since_ms: u64,
    /// Where it ends; now if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// The pool; the only one if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// One or two policies: names of policies that come with the server, or `own` for what the pool had. One is compared with `own`.
    #[schema(min_items = 1, max_items = 2)]
    pub policies: Vec<String>,
}

/// A report that was made elsewhere by `landfall compare` or `landfall replay`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenReport {
    /// What it is called here; its file name, for instance.
    #[schema(max_length = 200)]
    pub name: String,
    /// The text of `report.html`.
    pub html: String,
}

/// A replay or a report that was opened.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct ReplayView {
    /// Its number.
    pub id: u64,
    /// `running`, `done`, `failed`, `cancelled`, or `opened` for a report that was made elsewhere.
    pub state: String,
    /// What it is called, if it was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How far it is, from 0 to 1; absent while the journal is being read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Where the stretch begins, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Where it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// The pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The policies that are compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// Who asked for it.
    pub by: String,
    /// When.
    pub began_at_ms: u64,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// What went wrong, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
