//! How long to wait before the next try.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Waits that double up to a bound. Agents that lose the same server at the same moment must not all come back at the
/// same moment, so each one's waits are stretched differently, by its name.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    name: String,
    tries: u32,
}

impl Backoff {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), tries: 0 }
    }

    /// How long to wait now.
    pub(crate) fn next(&mut self) -> Duration {
        let doubled = FIRST.saturating_mul(1 << self.tries.min(10)).min(LONGEST);
        let digest = Sha256::digest(format!("{}:{}", self.name, self.tries));
        self.tries = self.tries.saturating_add(1);
        // From three quarters to five quarters.
        doubled.mul_f64(0.75 + f64::from(digest[0]) / 510.0)
    }

    /// Begins anew, after something worked.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_differ_by_name() {
        let waits = |name: &str| {
            let mut backoff = Backoff::new(name);
            (0..12).map(|_| backoff.next()).collect::<Vec<_>>()
        };
        let (a, b) = (waits("a"), waits("b"));
        assert_eq!(a, waits("a"), "no dice");
        assert_ne!(a, b);
        assert!(a[0] >= Duration::from_millis(75) && a[0] <= Duration::from_millis(125));
        assert!(a[11] >= Duration::from_millis(3750) && a[11] <= Duration::from_millis(6250));
        let mut backoff = Backoff::new("a");
        for _ in 0..5 {
            let _ = backoff.next();
        }
        backoff.reset();
        assert_eq!(backoff.next(), a[0]);
    }
}
