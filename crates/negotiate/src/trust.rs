//! Whom a peer trusts, and how near others are to it. Each peer keeps its own table; nothing in it comes from others.

use std::collections::BTreeMap;

use landfall_model::{Name, NodeId, Scope};
use serde::{Deserialize, Serialize};

/// How near another peer is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub scope: Scope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<Name>,
}

/// Why a table is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("trust in `{0}` must be 0 to 1")]
pub struct TrustError(pub NodeId);

#[derive(Serialize, Deserialize)]
struct Rows {
    #[serde(default)]
    trust: BTreeMap<NodeId, f64>,
    #[serde(default)]
    members: BTreeMap<NodeId, Member>,
}

/// Trust and membership as one peer sees them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "Rows", into = "Rows")]
pub struct TrustTable {
    trust: BTreeMap<NodeId, f64>,
    members: BTreeMap<NodeId, Member>,
}

impl TryFrom<Rows> for TrustTable {
    type Error = TrustError;
    fn try_from(rows: Rows) -> Result<Self, TrustError> {
        Self::new(rows.trust, rows.members)
    }
}

impl From<TrustTable> for Rows {
    fn from(table: TrustTable) -> Self {
        Self { trust: table.trust, members: table.members }
    }
}

impl TrustTable {
    /// Checks and wraps the rows; NaN and values out of 0..1 are refused.
    pub fn new(trust: BTreeMap<NodeId, f64>, members: BTreeMap<NodeId, Member>) -> Result<Self, TrustError> {
        match trust.iter().find(|(_, value)| !(0.0..=1.0).contains(*value)) {
            Some((id, _)) => Err(TrustError(id.clone())),
            None => Ok(Self { trust, members }),
        }
    }

    /// The same table with another value for one peer, or none.
    pub fn with(mut self, peer: NodeId, value: Option<f64>) -> Result<Self, TrustError> {
        match value {
            Some(value) => self.trust.insert(peer, value),
            None => self.trust.remove(&peer),
        };
        Self::new(self.trust, self.members)
    }

    /// The same table with a peer nearer or farther, or as near as anybody.
    #[must_use]
    pub fn with_member(mut self, peer: NodeId, member: Option<Member>) -> Self {
        match member {
            Some(member) => self.members.insert(peer, member),
            None => self.members.remove(&peer),
        };
        self
    }

    /// Everybody who is named, with the trust in them.
    pub fn entries(&self) -> impl Iterator<Item = (&NodeId, f64)> {
        self.trust.iter().map(|(peer, value)| (peer, *value))
    }

    /// Trust in a peer; unknown is 0.
    pub fn of(&self, peer: &NodeId) -> f64 {
        self.trust.get(peer).copied().unwrap_or(0.0)
    }

    /// The entry for a peer, if there is one.
    pub fn entry(&self, peer: &NodeId) -> Option<f64> {
        self.trust.get(peer).copied()
    }

    /// How near a peer is; unknown is anybody.
    pub fn scope(&self, peer: &NodeId) -> Scope {
        self.members.get(peer).map_or(Scope::Commons, |member| member.scope)
    }

    /// The cell of a peer, if known.
    pub fn cell(&self, peer: &NodeId) -> Option<&Name> {
        self.members.get(peer)?.cell.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_share_is_refused() {
        let id = NodeId::new("a").unwrap();
        for (value, good) in [(0.0, true), (1.0, true), (1.1, false), (-0.1, false), (f64::NAN, false)] {
            let table = TrustTable::new([(id.clone(), value)].into(), BTreeMap::new());
            assert_eq!(table.is_ok(), good, "{value}");
        }
        assert_eq!(TrustTable::default().of(&id), 0.0);
        assert_eq!(TrustTable::default().scope(&id), Scope::Commons);
    }
}
