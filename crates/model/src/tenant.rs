//! Who owns jobs, shares, quotas and budgets.

use serde::{Deserialize, Serialize};

use crate::{MilliCpu, Price, TenantId};

/// What a tenant may use over the budget window, and what it has used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// GPU-hours granted, if limited.
    pub gpu_hours: Option<f64>,
    pub gpu_hours_used: f64,
    /// Node-hours granted, if limited.
    pub node_hours: Option<f64>,
    pub node_hours_used: f64,
    /// What its jobs may cost, if limited; beyond that none is started.
    #[serde(default)]
    pub money: Option<Price>,
    /// What they had cost before the ledger knew the tenant.
    #[serde(default)]
    pub money_used: Price,
}

impl Budget {
    /// The larger of the used fractions of hours; `None` without any such budget. A budget of zero is exhausted. Money is no part of
    /// it: prices never change the order of jobs.
    pub fn used_fraction(&self) -> Option<f64> {
        let fraction = |used: f64, budget: Option<f64>| {
            budget.map(|budget| if budget > 0.0 { used / budget } else { f64::MAX })
        };
        let gpu = fraction(self.gpu_hours_used, self.gpu_hours);
        let node = fraction(self.node_hours_used, self.node_hours);
        [gpu, node].into_iter().flatten().reduce(f64::max)
    }
}

/// What a tenant may hold at once, whatever its share.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Quota {
    /// Node units at once, if limited.
    pub max_nodes: Option<f64>,
    /// CPU that its jobs ask for at once, if limited.
    #[serde(default)]
    pub max_cpu_milli: Option<MilliCpu>,
    /// GPUs at once, if limited.
    pub max_gpus: Option<u64>,
    /// Jobs that have not ended, if limited.
    pub max_jobs: Option<u64>,
    /// GPU-hours over the budget window, if limited.
    pub gpu_hours_cap: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tenant {
    pub id: TenantId,
    /// Target share of the pool, 0 to 1; 0 means no share was agreed.
    pub share: f64,
    /// Share of the pool in use.
    pub usage: f64,
    /// How far above its share a tenant may go while the pool is idle; 1 means not at all.
    pub burst: f64,
    /// Share of the work running in a pull pool, if known.
    pub work_share: Option<f64>,
    pub budget: Budget,
    pub quota: Quota,
}

impl Tenant {
    /// A tenant without share, usage or budget.
    pub fn new(id: TenantId) -> Self {
        Self {
            id,
            share: 0.0,
            usage: 0.0,
            burst: 1.0,
            work_share: None,
            budget: Budget::default(),
            quota: Quota::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_used_fraction_counts() {
        // Case B38: 10 h on 2 nodes of 4 GPUs, budget 1000 GPU-h and 100 node-h.
        let budget = Budget {
            gpu_hours: Some(1000.0),
            gpu_hours_used: 80.0,
            node_hours: Some(100.0),
            node_hours_used: 20.0,
            money: Some(Price::ZERO),
            money_used: Price::ZERO,
        };
        assert_eq!(budget.used_fraction(), Some(0.2));
        assert_eq!(Budget::default().used_fraction(), None);
        assert!(Budget { gpu_hours: Some(0.0), ..Budget::default() }.used_fraction() > Some(1.2));
    }
}
