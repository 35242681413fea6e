//! GPUs of AMD and Intel, as the kernel shows them below `/sys/class/drm`.

use std::path::{Path, PathBuf};

use landfall_api::node::GpuFacts;

use super::gpu::GpuSource;

const AMD: u32 = 0x1002;
const INTEL: u32 = 0x8086;

/// What PCI devices are called whose driver tells no product. Several products share one of AMD's.
const NAMES: [(u32, u32, &str); 32] = [
    (AMD, 0x740c, "AMD Instinct MI250X (MCM)"),
    (AMD, 0x740f, "AMD Instinct MI210"),
    (AMD, 0x738c, "AMD Instinct MI100"),
    (AMD, 0x74a1, "AMD Instinct MI300X"),
    (AMD, 0x74a0, "AMD Instinct MI300A"),
    (AMD, 0x74a2, "AMD Instinct MI308X"),
    (AMD, 0x74a5, "AMD Instinct MI325X"),
    (AMD, 0x66a1, "Vega 20"),
    (AMD, 0x66af, "Vega 20"),
    (AMD, 0x687f, "Vega 10"),
    (AMD, 0x67df, "Ellesmere"),
    (AMD, 0x731f, "Navi 10"),
    (AMD, 0x7340, "Navi 14"),
    (AMD, 0x73bf, "Navi 21"),
    (AMD, 0x73a5, "Navi 21"),
    (AMD, 0x73df, "Navi 22"),
    (AMD, 0x73ff, "Navi 23"),
    (AMD, 0x743f, "Navi 24"),
    (AMD, 0x744c, "Navi 31"),
    (AMD, 0x7448, "Navi 31"),
    (AMD, 0x747e, "Navi 32"),
    (AMD, 0x7480, "Navi 33"),
    (AMD, 0x7550, "Navi 48"),
    (AMD, 0x7590, "Navi 44"),
    (INTEL, 0x56a0, "Intel(R) Arc(TM) A770 Graphics"),
    (INTEL, 0x56a1, "Intel(R) Arc(TM) A750 Graphics"),
    (INTEL, 0x56a5, "Intel(R) Arc(TM) A380 Graphics"),
    (INTEL, 0x56a6, "Intel(R) Arc(TM) A310 Graphics"),
    (INTEL, 0xe20b, "Intel(R) Arc(TM) B580 Graphics"),
    (INTEL, 0xe20c, "Intel(R) Arc(TM) B570 Graphics"),
    (INTEL, 0x56c0, "Intel(R) Data Center GPU Flex 170"),
    (INTEL, 0x0bd5, "Intel(R) Data Center GPU Max 1550"),
];

/// A file with one line.
pub(super) fn line(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// A file with one number, as `0x` and hexadecimal digits or in decimals.
pub(super) fn number<T: TryFrom<i64>>(path: &Path) -> Option<T> {
    let text = line(path)?;
    let number = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    T::try_from(number?).ok()
}

/// The entries of a directory, by name.
pub(super) fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

pub(super) struct Drm {
    /// `/sys`, or what stands for it.
    sysfs: PathBuf,
}

impl Drm {
    pub(super) fn new(sysfs: &Path) -> Self {
        Self { sysfs: sysfs.to_owned() }
    }

    /// Directories of devices with memory of their own; a processor's graphics have none.
    fn devices(&self) -> Vec<PathBuf> {
        let card = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.strip_prefix("card").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        let mut cards: Vec<PathBuf> =
            entries(&self.sysfs.join("class/drm")).into_iter().filter(card).collect();
        // card10 comes after card2.
        cards.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        cards
            .into_iter()
            .map(|card| card.join("device"))
            .filter(|device| vram_bytes(device).is_some())
            .collect()
    }
}

fn vram_bytes(device: &Path) -> Option<u64> {
    let bytes: u64 = match number::<u32>(&device.join("vendor"))? {
        AMD => number(&device.join("mem_info_vram_total"))?,
        INTEL => number(&device.join("tile0/physical_vram_size_bytes"))
            .or_else(|| number(&device.join("lmem_total_bytes")))?,
        _ => return None,
    };
    (bytes > 0).then_some(bytes)
}

fn model(device: &Path) -> Option<String> {
    let ids = (number::<u32>(&device.join("vendor"))?, number::<u32>(&device.join("device"))?);
    let known = || NAMES.iter().find(|(vendor, id, _)| (*vendor, *id) == ids).map(|it| it.2.to_owned());
    let unknown = || {
        let vendor = if ids.0 == AMD { "AMD" } else { "Intel" };
        format!("{vendor} GPU {:04x}", ids.1)
    };
    Some(line(&device.join("product_name")).or_else(known).unwrap_or_else(unknown))
}

impl GpuSource for Drm {
    fn gpus(&self) -> Vec<GpuFacts> {
        let devices = self.devices();
        let hive = |device: &PathBuf| line(&device.join("xgmi_hive_info/xgmi_hive_id"));
        let mut hives: Vec<String> = devices.iter().filter_map(hive).collect();
        hives.sort_unstable();
        hives.dedup();
        let of = |(index, device): (usize, &PathBuf)| {
            let group = hive(device).and_then(|hive| hives.iter().position(|it| *it == hive));
            GpuFacts {
                index: index as u16,
                model: model(device),
                vram_mib: vram_bytes(device).map(|bytes| bytes >> 20),
                vram_used_mib: number::<u64>(&device.join("mem_info_vram_used")).map(|bytes| bytes >> 20),
                bandwidth_gb_s: None,
                link_group: group.and_then(|group| u16::try_from(group).ok()),
                ..GpuFacts::default()
            }
        };
        devices.iter().enumerate().map(of).collect()
    }

    fn driver(&self) -> Option<String> {
        let version = |device: &PathBuf| {
            let module = std::fs::read_link(device.join("driver")).ok()?;
            let name = module.file_name()?.to_str()?.to_owned();
            let version = line(&self.sysfs.join("module").join(&name).join("version"));
            Some(version.map_or(name.clone(), |version| format!("{name} {version}")))
        };
        self.devices().iter().find_map(version)
    }

    fn numa(&self) -> Vec<u32> {
        self.devices().iter().filter_map(|device| number(&device.join("numa_node"))).collect()
    }

    fn power_w(&self) -> Option<f64> {
        let watts = |device: &PathBuf| {
            entries(&device.join("hwmon")).iter().find_map(|hwmon| {
                let micro = ["power1_average", "power1_input"];
                micro.iter().find_map(|file| number::<u64>(&hwmon.join(file))).map(|micro| micro as f64 / 1e6)
            })
        };
        self.devices().iter().filter_map(watts).reduce(|a, b| a + b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::put;

    #[test]
    fn cards_with_memory_of_their_own_are_found() {
        let dir = tempfile::tempdir().expect("dir");
        put(
            dir.path(),
            &[
                ("class/drm/card0/device/vendor", "0x8086\n"),
                ("class/drm/card0/device/device", "0xa780\n"),
                ("class/drm/card1/device/vendor", "0x1002\n"),
                ("class/drm/card1/device/device", "0x744c\n"),
                ("class/drm/card1/device/mem_info_vram_total", "25753026560\n"),
                ("class/drm/card1/device/mem_info_vram_used", "1073741824\n"),
                ("class/drm/card1/device/numa_node", "1\n"),
                ("class/drm/card1/device/hwmon/hwmon3/power1_average", "250500000\n"),
                ("class/drm/card1-DP-1/status", "connected\n"),
                ("class/drm/card2/device/vendor", "0x1002\n"),
                ("class/drm/card2/device/device", "0x740c\n"),
                ("class/drm/card2/device/product_name", "AMD INSTINCT MI250X (MCM) OAM AC MBA\n"),
                ("class/drm/card2/device/mem_info_vram_total", "68702699520\n"),
                ("class/drm/card2/device/xgmi_hive_info/xgmi_hive_id", "77\n"),
                ("class/drm/card3/device/vendor", "0x10de\n"),
                ("class/drm/card4/device/vendor", "0x8086\n"),
                ("class/drm/card4/device/device", "0xe20b\n"),
                ("class/drm/card4/device/tile0/physical_vram_size_bytes", "12884901888\n"),
                ("class/drm/card4/device/numa_node", "-1\n"),
                ("class/drm/renderD128/device/vendor", "0x1002\n"),
            ],
        );
        let drm = Drm::new(dir.path());
        let gpus = drm.gpus();
        let told: Vec<_> = gpus
            .iter()
            .map(|gpu| (gpu.index, gpu.model.as_deref().unwrap_or("?"), gpu.vram_mib, gpu.link_group))
            .collect();
        assert_eq!(
            told,
            [
                (0, "Navi 31", Some(24_560), None),
                (1, "AMD INSTINCT MI250X (MCM) OAM AC MBA", Some(65_520), Some(0)),
                (2, "Intel(R) Arc(TM) B580 Graphics", Some(12_288), None),
            ]
        );
        assert_eq!(gpus[0].vram_used_mib, Some(1024));
        assert_eq!(drm.numa(), [1], "-1 is no domain");
        assert_eq!(drm.power_w(), Some(250.5));
        assert!(Drm::new(Path::new("/nowhere")).gpus().is_empty());
    }

    #[test]
    fn every_name_is_one_that_the_table_knows() {
        for (_, id, name) in NAMES {
            assert!(landfall_model::gpu_table::lookup(name).is_some(), "{id:04x} {name}");
        }
    }
}
