//! Filter `pull-tenant`: the node serves the job's tenant.

use landfall_model::{Name, TenantId};

use crate::filter::{About, FilterInfo};
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::view::View;

pub(crate) const INFO: FilterInfo = FilterInfo {
    name: "pull-tenant",
    description: "Admits jobs of tenants that the node serves; a node without tenant registrations serves all.",
    reasons: &[Reason::TenantNotServed],
    about: About::Registration,
    ..FilterInfo::of(|_| Ok(Box::new(check)))
};

fn check(view: &View<'_>) -> Option<Refusal> {
    let served = &view.node.tenants;
    let tenant = view.spec.tenant.as_ref();
    // A node kept for some tenants is not for jobs that belong to nobody.
    if served.is_empty() || tenant.is_some_and(|tenant| served.contains(tenant)) {
        return None;
    }
    let (needed, remedy) = match tenant {
        Some(tenant) => (names(view, [tenant]), view.say(|| format!("register tenant {tenant} on the node"))),
        None => (Quantity::word("a node for all tenants"), "submit the job for a tenant of the node".into()),
    };
    Some(
        Refusal::never(Reason::TenantNotServed, needed, names(view, served), Wake::RegistrationChange)
            .remedy(remedy),
    )
}

fn names<'a>(view: &View<'_>, tenants: impl IntoIterator<Item = &'a TenantId>) -> Quantity {
    let tenants = tenants.into_iter().filter(|_| view.explains);
    Quantity::Names(tenants.filter_map(|tenant| Name::new(tenant.as_str()).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{admits, refusal, told};

    #[test]
    fn a_node_without_registrations_serves_all() {
        assert!(admits(&INFO, "tenant = 'a'", ""));
        assert!(admits(&INFO, "", ""));
    }

    #[test]
    fn a_node_with_registrations_serves_those_alone() {
        let node = "tenants = ['a', 'b']";
        assert!(admits(&INFO, "tenant = 'b'", node));
        let got = refusal(&INFO, "tenant = 'c'", node);
        assert_eq!(told(&got), "TenantNotServed Never RegistrationChange: c, not a, b");
        assert_eq!(got.remedy, "register tenant c on the node");
    }

    #[test]
    fn a_job_of_nobody_stays_off_registered_nodes() {
        assert_eq!(refusal(&INFO, "", "tenants = ['a']").reason, Reason::TenantNotServed);
    }
}
