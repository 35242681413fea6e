//! Cores that a job has to itself.
//!
//! The keeper chooses them and knows who has which, so that an agent that is started anew changes nothing. A thread can be bound to
//! cores, and what it starts is bound likewise from its first instruction on: no shell, no second step. Jobs that were not pinned may
//! run anywhere; only two pinned ones never share a core.

use std::collections::BTreeSet;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that this process may use.
#[derive(Debug)]
pub(crate) struct Cores {
    all: Vec<usize>,
}

impl Cores {
    pub(crate) fn of_this_process() -> Self {
        let set = sched_getaffinity(None).unwrap_or_default();
        Self { all: (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect() }
    }

    /// So many cores that nobody has, or why there are none.
    pub(crate) fn choose<'a>(
        &self,
        count: u32,
        taken: impl Iterator<Item = &'a Vec<usize>>,
    ) -> Result<Vec<usize>, String> {
        let taken: BTreeSet<usize> = taken.flatten().copied().collect();
        let free = self.all.iter().copied().filter(|core| !taken.contains(core));
        let chosen: Vec<usize> = free.take(count as usize).collect();
        if chosen.len() < count as usize {
            return Err(format!(
                "it cannot be pinned to {count} cores: this node has {}, and pinned jobs have {} of them",
                self.all.len(),
                taken.len()
            ));
        }
        Ok(chosen)
    }

    /// Does something while this thread is bound to cores: what it starts then stays bound.
    pub(crate) fn within<T>(&self, chosen: &[usize], work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if chosen.is_empty() {
            return work();
        }
        sched_setaffinity(None, &set_of(chosen))?;
        let done = work();
        sched_setaffinity(None, &set_of(&self.all))?;
        done
    }
}

fn set_of(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    set
}

/// Cores as the kernel lists them: `0-2,5`.
pub(crate) fn listed(cores: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => parts.push((core, core)),
        }
    }
    let text = |&(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_core_is_given_out_twice() {
        let cores = Cores { all: vec![0, 1, 2, 5] };
        let first = cores.choose(2, [].iter()).unwrap();
        assert_eq!(first, [0, 1]);
        let second = cores.choose(2, [first.clone()].iter()).unwrap();
        assert_eq!(second, [2, 5]);
        let why = cores.choose(1, [first.clone(), second].iter()).unwrap_err();
        assert!(why.contains("this node has 4, and pinned jobs have 4"), "{why}");
        assert!(cores.choose(3, [first].iter()).is_err());
    }

    #[test]
    fn cores_are_listed_as_the_kernel_lists_them() {
        assert_eq!(listed(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(listed(&[3]), "3");
    }

    #[test]
    fn a_thread_comes_back_from_its_cores() {
        let cores = Cores::of_this_process();
        let one = &cores.all[..1];
        let inside = cores.within(one, || Ok(Cores::of_this_process().all)).unwrap();
        assert_eq!(inside, one);
        assert_eq!(Cores::of_this_process().all, cores.all);
    }
}
