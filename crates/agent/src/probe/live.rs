//! What changes from one moment to the next: load and memory of the whole machine, battery.

use std::path::Path;

/// CPU time since the machine began, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTicks {
    busy: u64,
    all: u64,
}

impl CpuTicks {
    /// Reads `stat` below `/proc`.
    pub fn read(procfs: &Path) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(procfs.join("stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user, nice, system, idle, iowait, irq, softirq, steal; what guests use is in user already.
        let ticks: Vec<u64> =
            line.split_ascii_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let all = ticks.iter().sum();
        let idle: u64 = ticks.get(3)? + ticks.get(4).copied().unwrap_or_default();
        Some(Self { busy: all - idle, all })
    }

    /// How busy the CPUs were since an earlier sample, to a tenth of a percent.
    pub fn percent_since(self, earlier: Self) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|all| *all > 0)?;
        let busy = self.busy.checked_sub(earlier.busy)?;
        Some((busy as f64 / all as f64 * 1000.0).round() / 10.0)
    }
}

/// Memory of the machine in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    pub total_mib: u64,
    /// What programs could get.
    pub available_mib: u64,
}

impl Memory {
    /// Reads `meminfo` below `/proc`.
    pub fn read(procfs: &Path) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(procfs.join("meminfo")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let kib = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()
        };
        Some(Self { total_mib: kib("MemTotal")? / 1024, available_mib: kib("MemAvailable")? / 1024 })
    }
}

/// Charge and whether it charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Battery {
    pub charge_pct: u8,
    /// Whether it charges or is full.
    pub charging: bool,
}

impl Battery {
    /// Looks below `/sys/class/power_supply`; `None` without battery.
    pub fn read(root: &Path) -> Option<Self> {
        let supplies = std::fs::read_dir(root).ok()?;
        let text =
            |path: std::path::PathBuf| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        supplies.flatten().find_map(|supply| {
            let at = supply.path();
            let battery =
                text(at.join("type"))? == "Battery" && text(at.join("scope")).is_none_or(|it| it != "Device");
            let charge_pct = text(at.join("capacity"))?.parse::<u8>().ok()?.min(100);
            let charging = text(at.join("status")).is_some_and(|status| status != "Discharging");
            battery.then_some(Self { charge_pct, charging })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_what_was_not_idle() {
        let earlier = CpuTicks::parse("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1\n").expect("read");
        let later = CpuTicks::parse("cpu  150 0 125 775 150 0 0 0 0 0\n").expect("read");
        assert_eq!(later.percent_since(earlier), Some(37.5));
        assert_eq!(later.percent_since(later), None, "no time went by");
        assert_eq!(earlier.percent_since(later), None, "time never goes back");
        assert_eq!(CpuTicks::parse("nothing"), None);
    }

    #[test]
    fn available_memory_counts() {
        let text = "MemTotal:       16384000 kB\nMemFree:          1000 kB\nMemAvailable:    8192000 kB\n";
        assert_eq!(Memory::parse(text), Some(Memory { total_mib: 16_000, available_mib: 8_000 }));
        assert!(Memory::read(Path::new("/proc")).is_some_and(|memory| memory.total_mib > 0));
    }

    #[test]
    fn batteries_of_mice_do_not_count() {
        let dir = tempfile::tempdir().expect("dir");
        assert_eq!(Battery::read(dir.path()), None);
        let put = |name: &str, files: &[(&str, &str)]| {
            std::fs::create_dir(dir.path().join(name)).expect("made");
            for (file, text) in files {
                std::fs::write(dir.path().join(name).join(file), text).expect("written");
            }
        };
        put(
            "mouse",
            &[("type", "Battery\n"), ("scope", "Device\n"), ("capacity", "9"), ("status", "Discharging")],
        );
        put("AC", &[("type", "Mains\n")]);
        assert_eq!(Battery::read(dir.path()), None);
        put("BAT0", &[("type", "Battery\n"), ("capacity", "55\n"), ("status", "Discharging\n")]);
        assert_eq!(Battery::read(dir.path()), Some(Battery { charge_pct: 55, charging: false }));
    }
}
