//! What goes over the network while a job has the machine to itself.
//!
//! The kernel counts what network cards carry, not for whom, and what it counts for a group of processes leaves the network out. So
//! nothing is known of jobs that run beside others, and what runs outside of jobs counts as the job's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use landfall_model::JobId;
use landfall_model::life::Fence;

use super::drm::{entries, number};
use super::power::Rate;

/// What was seen of an attempt.
#[derive(Debug, Default)]
struct Seen {
    /// Whether another one ran at the same time.
    shared: bool,
    /// Most bytes a second in one direction.
    most: Option<u64>,
    /// Looks since it was last seen to run. Its end may come a little later.
    gone: u32,
}

/// Most that the network carried in a second while an attempt had the machine to itself.
#[derive(Debug, Default)]
pub struct NetworkUse {
    received: Rate,
    sent: Rate,
    runs: BTreeMap<(JobId, u32), Seen>,
}

impl NetworkUse {
    /// Looks at what runs now, and what the cards have carried so far in either direction.
    pub fn look(&mut self, now: Instant, running: &[Fence], carried: Option<(u64, u64)>) {
        let (received, sent) = carried.unzip();
        let rates = [self.received.since_last(now, received), self.sent.since_last(now, sent)];
        let rate = rates.into_iter().flatten().map(|rate| rate as u64).max();
        self.runs.values_mut().for_each(|seen| seen.gone += 1);
        for fence in running {
            let seen = self.runs.entry((fence.job.clone(), fence.attempt)).or_default();
            seen.shared |= running.len() > 1;
            // What went on before it began is not its own.
            if seen.gone == 1 {
                seen.most = seen.most.max(rate);
            }
            seen.gone = 0;
        }
        self.runs.retain(|_, seen| seen.gone < 60);
    }

    /// An attempt is over: the most that it can have used, if that can be told.
    pub fn over(&mut self, fence: &Fence) -> Option<u64> {
        self.runs.remove(&(fence.job.clone(), fence.attempt)).filter(|seen| !seen.shared)?.most
    }
}

/// Bytes that network cards have received and sent; bridges, tunnels and the loop within the machine would count twice.
pub fn carried(sysfs: &Path) -> Option<(u64, u64)> {
    let card = |path: &std::path::PathBuf| {
        path.join("device").exists().then_some(())?;
        let count = |name: &str| number::<u64>(&path.join("statistics").join(name));
        Some((count("rx_bytes")?, count("tx_bytes")?))
    };
    let add = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
    entries(&sysfs.join("class/net")).iter().filter_map(card).reduce(add)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::probe::tests::put;

    fn fence(job: &str) -> Fence {
        Fence { job: JobId::new(job).expect("an id"), attempt: 1, epoch: 1 }
    }

    #[test]
    fn only_cards_count_and_all_of_them() {
        let dir = tempfile::tempdir().expect("dir");
        assert_eq!(carried(dir.path()), None, "nothing tells");
        for (card, real) in [("eth0", true), ("eth1", true), ("lo", false), ("docker0", false)] {
            let at = |file: &str| format!("class/net/{card}/{file}");
            put(dir.path(), &[(&at("statistics/rx_bytes"), "100\n"), (&at("statistics/tx_bytes"), "7\n")]);
            if real {
                put(dir.path(), &[(&at("device/vendor"), "0x1\n")]);
            }
        }
        assert_eq!(carried(dir.path()), Some((200, 14)));
    }

    #[test]
    fn a_job_alone_is_measured_and_others_are_not() {
        let mut network = NetworkUse::default();
        let start = Instant::now();
        let mut second = 0;
        let mut look = |network: &mut NetworkUse, running: &[&str], received: u64, sent: u64| {
            second += 1;
            let running: Vec<Fence> = running.iter().map(|job| fence(job)).collect();
            network.look(start + Duration::from_secs(second), &running, Some((received, sent)));
        };
        look(&mut network, &[], 0, 0);
        look(&mut network, &["a"], 1000, 0);
        look(&mut network, &["a"], 1300, 500);
        look(&mut network, &["a"], 1400, 600);
        assert_eq!(
            network.over(&fence("a")),
            Some(500),
            "the larger direction, and nothing from before it began"
        );
        assert_eq!(network.over(&fence("a")), None);
        look(&mut network, &["b"], 1400, 600);
        look(&mut network, &["b", "c"], 9000, 600);
        look(&mut network, &["b"], 9000, 600);
        look(&mut network, &["b"], 10_000, 600);
        // An end is told a little after the job is seen no more.
        look(&mut network, &[], 20_000, 600);
        assert_eq!(
            (network.over(&fence("b")), network.over(&fence("c"))),
            (None, None),
            "they had it together"
        );
        look(&mut network, &["d"], 20_000, 600);
        assert_eq!(network.over(&fence("d")), None, "too short to see anything");
        look(&mut network, &["e"], 20_000, 600);
        look(&mut network, &["e"], 20_000, 600);
        assert_eq!(network.over(&fence("e")), Some(0), "nothing is a figure too");
        // A counter that began anew tells nothing for a second.
        look(&mut network, &["f"], 20_000, 600);
        look(&mut network, &["f"], 5, 600);
        look(&mut network, &["f"], 25, 600);
        assert_eq!(network.over(&fence("f")), Some(20));
    }
}
