//! What a machine draws, how hot it is, what its disks do: as far as the kernel tells.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::drm::{entries, line, number};

/// Where no trip points are known, degrees Celsius from which on a machine is warm, hot and too hot.
const USUAL: [f64; 3] = [75.0, 85.0, 95.0];
/// So many degrees below the point where it slows down, a machine is warm.
const WARM_BELOW: f64 = 10.0;

/// How warm the warmest part of the machine is: `nominal`, `fair`, `serious` or `critical`; `None` where nothing tells.
pub fn thermal(sysfs: &Path) -> Option<&'static str> {
    const WORDS: [&str; 4] = ["nominal", "fair", "serious", "critical"];
    let zones = entries(&sysfs.join("class/thermal"));
    let zone = |path: &&PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("thermal_zone"))
    };
    zones.iter().filter(zone).filter_map(|zone| warmth(zone)).max().map(|level| WORDS[level])
}

/// 0 to 3 of one zone.
fn warmth(zone: &Path) -> Option<usize> {
    let degrees = |path: &Path| number::<i64>(path).map(|milli| milli as f64 / 1000.0);
    let now = degrees(&zone.join("temp")).filter(|now| (-40.0..=200.0).contains(now))?;
    let mut points = [None; 2];
    for trip in 0.. {
        let Some(kind) = line(&zone.join(format!("trip_point_{trip}_type"))) else { break };
        let at = degrees(&zone.join(format!("trip_point_{trip}_temp"))).filter(|at| *at > 0.0);
        let place = match kind.as_str() {
            "passive" | "hot" => 0,
            "critical" => 1,
            _ => continue,
        };
        let lowest = |known: f64, at: f64| known.min(at);
        points[place] = points[place].into_iter().chain(at).reduce(lowest);
    }
    let limits = match points {
        [None, None] => USUAL,
        [slows, stops] => {
            let slows = slows.or(stops.map(|stops| stops - WARM_BELOW)).unwrap_or(USUAL[1]);
            [slows - WARM_BELOW, slows, stops.unwrap_or(f64::INFINITY)]
        }
    };
    Some(limits.iter().filter(|limit| now >= **limit).count())
}

/// A counter that only grows, and what it grew by in a second.
#[derive(Debug, Default)]
pub struct Rate(Option<(Instant, u64)>);

impl Rate {
    /// How much a second since the last look; `None` at the first, or when the counter began anew.
    pub fn since_last(&mut self, now: Instant, count: Option<u64>) -> Option<f64> {
        let (last, count) = (self.0.take(), count?);
        self.0 = Some((now, count));
        let (then, before) = last?;
        let seconds = now.duration_since(then).as_secs_f64();
        (seconds > 0.0).then_some(())?;
        Some(count.checked_sub(before)? as f64 / seconds)
    }
}

/// Energy that the processors' packages have used, in microjoules, where it may be read (RAPL).
pub fn package_energy_uj(sysfs: &Path) -> Option<u64> {
    let package = |path: &PathBuf| line(&path.join("name")).is_some_and(|name| name.starts_with("package"));
    let zones = entries(&sysfs.join("class/powercap"));
    zones
        .iter()
        .filter(|path| package(path))
        .filter_map(|path| number::<u64>(&path.join("energy_uj")))
        .reduce(u64::saturating_add)
}

/// Bytes that disks have read and written, without partitions and what lies upon them.
pub fn disk_bytes(procfs: &Path, sysfs: &Path) -> Option<u64> {
    const SECTOR: u64 = 512;
    let text = std::fs::read_to_string(procfs.join("diskstats")).ok()?;
    let disk = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (name, read, written) = (fields.get(2)?, fields.get(5)?, fields.get(9)?);
        // Only what has a device beneath it is a disk.
        sysfs.join("block").join(name).join("device").exists().then_some(())?;
        Some(SECTOR * (read.parse::<u64>().ok()? + written.parse::<u64>().ok()?))
    };
    text.lines().filter_map(disk).reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::put;
    use std::time::Duration;

    #[test]
    fn the_warmest_zone_counts_against_its_own_trip_points() {
        let dir = tempfile::tempdir().expect("dir");
        let root = dir.path();
        assert_eq!(thermal(root), None, "nothing tells");
        put(
            root,
            &[
                ("class/thermal/cooling_device0/type", "Fan\n"),
                ("class/thermal/thermal_zone0/temp", "40000\n"),
                ("class/thermal/thermal_zone1/temp", "60000\n"),
                ("class/thermal/thermal_zone1/trip_point_0_type", "passive\n"),
                ("class/thermal/thermal_zone1/trip_point_0_temp", "80000\n"),
                ("class/thermal/thermal_zone1/trip_point_1_type", "critical\n"),
                ("class/thermal/thermal_zone1/trip_point_1_temp", "90000\n"),
            ],
        );
        for (milli, word) in [
            (60_000, "nominal"),
            (70_000, "fair"),
            (80_000, "serious"),
            (90_000, "critical"),
            (-300_000, "nominal"),
        ] {
            put(root, &[("class/thermal/thermal_zone1/temp", &milli.to_string())]);
            assert_eq!(thermal(root), Some(word), "{milli}");
        }
        put(root, &[("class/thermal/thermal_zone0/temp", "86000\n")]);
        assert_eq!(thermal(root), Some("serious"), "without trip points the usual ones count");
    }

    #[test]
    fn rates_come_from_two_looks() {
        let mut rate = Rate::default();
        let begin = Instant::now();
        assert_eq!(rate.since_last(begin, Some(1_000_000)), None);
        assert_eq!(rate.since_last(begin + Duration::from_secs(2), Some(51_000_000)), Some(25_000_000.0));
        assert_eq!(rate.since_last(begin + Duration::from_secs(3), Some(1)), None, "it began anew");
        assert_eq!(rate.since_last(begin + Duration::from_secs(4), None), None);
        assert_eq!(rate.since_last(begin + Duration::from_secs(5), Some(1)), None);
    }

    #[test]
    fn packages_and_disks_are_summed() {
        let dir = tempfile::tempdir().expect("dir");
        let root = dir.path();
        assert_eq!((package_energy_uj(root), disk_bytes(root, root)), (None, None));
        put(
            root,
            &[
                ("class/powercap/intel-rapl:0/name", "package-0\n"),
                ("class/powercap/intel-rapl:0/energy_uj", "100\n"),
                ("class/powercap/intel-rapl:0:0/name", "core\n"),
                ("class/powercap/intel-rapl:0:0/energy_uj", "90\n"),
                ("class/powercap/intel-rapl:1/name", "package-1\n"),
                ("class/powercap/intel-rapl:1/energy_uj", "11\n"),
                ("block/sda/device/model", "x\n"),
                ("block/dm-0/size", "1\n"),
                (
                    "diskstats",
                    "8 0 sda 1 0 10 0 1 0 20 0\n8 1 sda1 1 0 10 0 1 0 20 0\n253 0 dm-0 1 0 10 0 1 0 20 0\n",
                ),
            ],
        );
        assert_eq!(package_energy_uj(root), Some(111));
        assert_eq!(disk_bytes(root, root), Some(30 * 512));
    }
}
