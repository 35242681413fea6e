//! Cores that a job has to itself.
//!
//! The keeper chooses them and knows who has which, so that an agent that is started anew changes nothing. A thread can be bound to
//! cores, and what it starts is bound likewise from its first instruction on: no shell, no second step. Jobs that were not pinned may
//! run anywhere; only two pinned ones never share a core.
//!
//! Several agents may share a machine and know nothing of each other. So a core that was given out is marked by a socket without a file,
//! which the kernel takes back with the process that holds it: other keepers see the mark and take that core last.

use std::collections::BTreeSet;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// What marks of cores are called.
const MARK: &str = "landfall-core";

/// The cores that this process may use.
#[derive(Debug)]
pub(crate) struct Cores {
    all: Vec<usize>,
    mark: String,
}

/// Cores that one job has.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) cores: Vec<usize>,
    /// Held for as long as the job has them.
    _marks: Vec<UnixListener>,
}

impl Cores {
    pub(crate) fn of_this_process() -> Self {
        let set = sched_getaffinity(None).unwrap_or_default();
        let all = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect();
        Self { all, mark: MARK.to_owned() }
    }

    /// So many cores that no job of this keeper has, or why there are none. Those that other keepers of this machine gave out come last.
    pub(crate) fn choose<'a>(&self, count: u32, taken: impl Iterator<Item = &'a Own>) -> Result<Own, String> {
        let taken: BTreeSet<usize> = taken.flat_map(|own| own.cores.iter().copied()).collect();
        let (mut cores, mut marks, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for core in self.all.iter().copied().filter(|core| !taken.contains(core)) {
            if cores.len() == count as usize {
                break;
            }
            match self.mark(core) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last.push(core),
                // Where there are no such sockets nobody else has marks either.
                marked => {
                    cores.push(core);
                    marks.extend(marked.ok());
                }
            }
        }
        let missing = (count as usize).saturating_sub(cores.len());
        cores.extend(last.into_iter().take(missing));
        if cores.len() < count as usize {
            return Err(format!(
                "it cannot be pinned to {count} cores: this node has {}, and pinned jobs have {} of them",
                self.all.len(),
                taken.len()
            ));
        }
        cores.sort_unstable();
        Ok(Own { cores, _marks: marks })
    }

    fn mark(&self, core: usize) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(format!("{}-{core}", self.mark))?)
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

    fn cores(mark: &str) -> Cores {
        // Whatever runs beside this test has other marks.
        Cores { all: vec![0, 1, 2, 5], mark: format!("{mark}-{}", std::process::id()) }
    }

    #[test]
    fn no_core_is_given_out_twice() {
        let cores = cores("one-keeper");
        let first = cores.choose(2, [].iter()).unwrap();
        assert_eq!(first.cores, [0, 1]);
        assert!(cores.choose(3, std::iter::once(&first)).is_err());
        let second = cores.choose(2, std::iter::once(&first)).unwrap();
        assert_eq!(second.cores, [2, 5]);
        let why = cores.choose(1, [first, second].iter()).unwrap_err();
        assert!(why.contains("this node has 4, and pinned jobs have 4"), "{why}");
    }

    #[test]
    fn keepers_of_one_machine_see_what_the_others_gave_out() {
        let (one, other) = (cores("two-keepers"), cores("two-keepers"));
        let theirs = one.choose(2, [].iter()).unwrap();
        let ours = other.choose(2, [].iter()).unwrap();
        assert_eq!((theirs.cores.as_slice(), ours.cores.as_slice()), (&[0, 1][..], &[2, 5][..]));
        // More than the machine has: rather shared with a stranger than not run.
        assert_eq!(other.choose(1, std::iter::once(&ours)).unwrap().cores, [0]);
        drop(theirs);
        assert_eq!(other.choose(2, std::iter::once(&ours)).unwrap().cores, [0, 1]);
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
