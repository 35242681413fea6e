//! Factor 3, `fair_share`: how far the tenant is below its share, which stretches while the pool is idle.

use crate::score::clamp01;
use crate::term::{Family, Reads, Term, TermInfo};
use crate::verdict::{Fact, Facts};
use crate::view::View;

/// What a tenant without an agreed share gets: neither favoured nor held back.
const UNKNOWN: f64 = 0.5;

/// From this utilisation on nobody goes beyond the own share.
const BUSY: f64 = 0.8;

pub(crate) const INFO: TermInfo = TermInfo {
    name: "fair_share",
    range: (0.0, Some(1.0)),
    description: "Prefers jobs of tenants that use less than their share of the pool.",
    reads: Reads { fleet: true, ..Reads::PAIR },
    ..TermInfo::of(Family::Batch, |_| Ok(Box::new(FairShare)))
};

struct FairShare;

/// The share that counts now: the agreed one, stretched by the burst as far as the pool is idle. `None` without one.
fn effective_share(view: &View<'_>) -> Option<f64> {
    let tenant = view.pass.tenant(view.spec).filter(|tenant| tenant.share > 0.0)?;
    // Who may not go beyond the own share need not ask how busy the pool is.
    if tenant.burst == 1.0 {
        return Some(tenant.share);
    }
    let idle = (BUSY - view.pass.utilisation()).max(0.0) / BUSY;
    Some(tenant.share * (1.0 + (tenant.burst - 1.0) * idle))
}

impl Term for FairShare {
    fn score(&self, view: &View<'_>) -> f64 {
        let (Some(share), Some(tenant)) = (effective_share(view), view.pass.tenant(view.spec)) else {
            return UNKNOWN;
        };
        clamp01((share - tenant.usage) / share)
    }

    fn explain(&self, view: &View<'_>, facts: &mut Facts) {
        let (Some(share), Some(tenant)) = (effective_share(view), view.pass.tenant(view.spec)) else {
            return facts.note("share", Fact::word("none agreed"));
        };
        facts.note("share", Fact::Number(tenant.share));
        facts.note("effective_share", Fact::Number(share));
        facts.note("usage", Fact::Number(tenant.usage));
        facts.note("utilisation", Fact::Number(view.pass.utilisation()));
    }
}

#[cfg(test)]
mod tests {
    use super::INFO;
    use crate::terms::batch::testing::{close, queue};

    /// `busy` of ten nodes are taken.
    fn of(tenant: &str, busy: usize) -> f64 {
        let mut scenario = format!(
            r#"tenants = [{{ id = "t", {tenant} }}]
            jobs = [{{ id = "j", tenant = "t" }}]"#
        );
        for node in 0..10 {
            let placements = if node < busy { r#"[{ job = "x", exclusive = true }]"# } else { "[]" };
            scenario += &format!("\n[[nodes]]\nid = \"n{node}\"\nplacements = {placements}");
        }
        queue(&INFO, "", &scenario)
    }

    #[test]
    fn b2_the_share_stretches_while_the_pool_is_idle() {
        let burst = "share = 0.3, usage = 0.3, burst = 1.5";
        close(of(burst, 0), 0.333_333);
        close(of(burst, 2), 0.272_727);
        close(of(burst, 9), 0.0);
        close(of("share = 0.3, usage = 0.3", 0), 0.0);
    }

    #[test]
    fn b3_without_burst() {
        close(of("share = 0.4, usage = 0.1", 0), 0.75);
        close(of("share = 0.5, usage = 0.7", 0), 0.0);
        close(of("share = 0.5, usage = 0", 0), 1.0);
        close(of("usage = 0.7", 0), 0.5);
    }

    #[test]
    fn an_unknown_tenant_is_neither_favoured_nor_held_back() {
        let scenario = |tenant: &str| {
            format!(
                r#"nodes = [{{ id = "n" }}]
            jobs = [{{ id = "j"{tenant} }}]"#
            )
        };
        assert_eq!(queue(&INFO, "", &scenario("")), 0.5);
        assert_eq!(queue(&INFO, "", &scenario(r#", tenant = "nobody""#)), 0.5);
    }
}
