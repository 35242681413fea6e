//! Tokens: who may do what.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the bearer of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything, tokens included.
    Admin,
    /// Everything but tokens: pools, tenants, nodes, everybody's jobs.
    Operator,
    /// Submit jobs of one tenant, see and steer those; see nodes and policies.
    Submitter,
    /// Speak for one node.
    Agent,
}

/// A token as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// What it is called, to tell tokens apart.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// What its bearer may do.
    pub role: Role,
    /// The tenant of a submitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The node of an agent. `*` lets one token register any node, for fleets that are set up by machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// When it stops working, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// Most CPU that the node of an agent counts for, whatever it says, in thousandths of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_cpu_milli: Option<u64>,
    /// Most memory that it counts for, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_ram_mib: Option<u64>,
}

/// A token as it is listed: never the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// Its id, by which it is revoked.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// What its bearer may do.
    pub role: Role,
    /// The tenant of a submitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The node of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// When it was made.
    pub created_at_ms: u64,
    /// When it stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// Most CPU that the node of an agent counts for, in thousandths of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cpu_milli: Option<u64>,
    /// Most memory that it counts for, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ram_mib: Option<u64>,
}

/// A token just made; the secret is shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// What it is.
    #[serde(flatten)]
    pub token: TokenView,
    /// The secret to send as `Authorization: Bearer …`.
    pub secret: String,
}
