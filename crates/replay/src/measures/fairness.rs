//! Fairness between tenants: Jain's index, and who got furthest from its share.

use serde::Serialize;

use super::number;

/// Jain's index of what tenants got for their shares, as pairs (delivered, share): 1 if all got alike for their share,
/// 1/k if one of k got everything. Tenants without a share do not count; nothing if nobody counts or nobody got anything.
pub fn jain(tenants: &[(f64, f64)]) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for (delivered, share) in tenants.iter().filter(|(_, share)| *share > 0.0) {
        let x = delivered / share;
        count += 1.0;
        sum += x;
        squares += x * x;
    }
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

/// The tenant that got furthest from its share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Deviation {
    /// How far, without sign.
    #[serde(serialize_with = "number::six")]
    pub value: f64,
    /// How far: above zero if it got more than its share.
    #[serde(serialize_with = "number::six")]
    pub signed: f64,
    pub tenant: String,
}

impl Deviation {
    /// The largest of these signed deviations by tenant. Equally far: who got more than its share, then the lower name.
    pub fn largest<'a>(tenants: impl Iterator<Item = (&'a str, f64)>) -> Option<Self> {
        // Shares of two tenants that miss by the same amount differ in the last bits; that must not decide.
        let rank = |signed: f64| ((signed.abs() * 1e9).round() as u64, signed > 0.0);
        let (tenant, signed) = tenants.max_by(|a, b| rank(a.1).cmp(&rank(b.1)).then_with(|| b.0.cmp(a.0)))?;
        Some(Self { value: signed.abs(), signed, tenant: tenant.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_looks_at_what_was_got_for_the_share() {
        // B47, last part.
        assert!((jain(&[(300.0, 0.75), (300.0, 0.25)]).unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(jain(&[(5.0, 0.0), (0.0, 0.5)]), None, "nothing delivered to those with a share");
        assert_eq!(jain(&[(5.0, 0.0)]), None, "nobody has a share");
        assert_eq!(jain(&[(5.0, 0.0), (2.0, 0.5)]), Some(1.0), "who has no share does not count");
    }

    #[test]
    fn equally_far_means_the_one_that_got_more() {
        let found = Deviation::largest([("a", -0.25), ("b", 0.25), ("c", 0.25)].into_iter()).unwrap();
        assert_eq!((found.tenant.as_str(), found.value, found.signed), ("b", 0.25, 0.25));
        let found = Deviation::largest([("a", -0.3), ("b", 0.25)].into_iter()).unwrap();
        assert_eq!((found.tenant.as_str(), found.value, found.signed), ("a", 0.3, -0.3));
        assert_eq!(Deviation::largest(std::iter::empty()), None);
    }
}
