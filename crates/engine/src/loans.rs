//! Lending between pools: how much, to whom, and who may not borrow.

use landfall_model::{Checkpoint, JobSpec, LoanSettings};

/// Why a job may not run on borrowed nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayNotBorrow {
    /// It must run on its own pool's nodes.
    Sensitive,
    Critical,
    /// It may not be stopped when the nodes go back.
    NotPreemptible,
    /// It starts at once or not at all.
    Immediate,
    /// Too much would be lost when the nodes go back.
    NoCheckpoint,
}

/// Whether a job may run on borrowed nodes.
pub fn may_borrow(spec: &JobSpec) -> Result<(), MayNotBorrow> {
    if spec.sensitive {
        Err(MayNotBorrow::Sensitive)
    } else if spec.class >= 10 {
        Err(MayNotBorrow::Critical)
    } else if !spec.preemptible {
        Err(MayNotBorrow::NotPreemptible)
    } else if spec.immediate {
        Err(MayNotBorrow::Immediate)
    } else if spec.checkpoint == Checkpoint::None && spec.class >= 7 {
        Err(MayNotBorrow::NoCheckpoint)
    } else {
        Ok(())
    }
}

/// How many nodes a pool lends: of those that are idle, up to its fraction of all, less what it has lent.
pub fn lendable(settings: &LoanSettings, home: u64, idle: u64, lent: u64) -> u64 {
    if !settings.lend {
        return 0;
    }
    let most = (home as f64 * settings.lend_max_fraction).floor() as u64;
    idle.min(most.saturating_sub(lent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b34_a_pool_lends_a_fifth_of_its_nodes() {
        let usual = LoanSettings::default();
        for (home, idle, asked, granted) in
            [(10, 10, 2, true), (10, 10, 3, false), (200, 50, 20, true), (200, 50, 45, false)]
        {
            assert_eq!(asked <= lendable(&usual, home, idle, 0), granted, "{home} {idle} {asked}");
        }
        assert_eq!(lendable(&usual, 200, 50, 30), 10, "what is lent counts");
        assert_eq!(lendable(&usual, 200, 3, 0), 3, "only idle nodes");
        assert_eq!(lendable(&LoanSettings { lend: false, ..usual }, 200, 50, 0), 0);
    }

    #[test]
    fn who_may_not_borrow() {
        let with = |change: &dyn Fn(&mut JobSpec)| {
            let mut spec = JobSpec::empty();
            change(&mut spec);
            may_borrow(&spec)
        };
        assert_eq!(with(&|_| {}), Ok(()));
        assert_eq!(with(&|spec| spec.sensitive = true), Err(MayNotBorrow::Sensitive));
        assert_eq!(with(&|spec| spec.class = 10), Err(MayNotBorrow::Critical));
        assert_eq!(with(&|spec| spec.preemptible = false), Err(MayNotBorrow::NotPreemptible));
        assert_eq!(with(&|spec| spec.immediate = true), Err(MayNotBorrow::Immediate));
        assert_eq!(with(&|spec| spec.class = 7), Err(MayNotBorrow::NoCheckpoint));
        assert_eq!(with(&|spec| (spec.class, spec.checkpoint) = (7, Checkpoint::Manual)), Ok(()));
    }
}
