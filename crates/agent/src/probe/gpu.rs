//! GPUs of this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landfall_api::node::GpuFacts;

use super::drm::Drm;

/// Somebody who knows the GPUs of a machine.
pub trait GpuSource: Send + Sync {
    fn gpus(&self) -> Vec<GpuFacts>;
    fn driver(&self) -> Option<String>;
    /// NUMA domains of the GPUs that have one, one entry each.
    fn numa(&self) -> Vec<u32> {
        Vec::new()
    }
    /// What all of them draw, in watts.
    fn power_w(&self) -> Option<f64> {
        None
    }
}

/// A list that does not change: what somebody recorded, or none at all.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    pub gpus: Vec<GpuFacts>,
    pub driver: Option<String>,
}

impl GpuSource for Recorded {
    fn gpus(&self) -> Vec<GpuFacts> {
        self.gpus.clone()
    }

    fn driver(&self) -> Option<String> {
        self.driver.clone()
    }
}

/// Most links that a device has.
const LINKS_MAX: u32 = 18;
/// What the library says of a device that is partitioned.
const MIG_ON: u32 = 1;
/// PCI devices whose driver prints the desktop part's name: the laptop part of a Quadro RTX 4000.
const QUADRO_RTX_4000_LAPTOP: u32 = 0x1eb6;

/// NVIDIA GPUs through the library of their driver.
struct Nvidia {
    nvml: nvml_wrapper::Nvml,
    sysfs: PathBuf,
    /// Which GPUs share fast links, by index; wires do not change.
    groups: BTreeMap<u32, u16>,
}

impl Nvidia {
    fn new(nvml: nvml_wrapper::Nvml, sysfs: &Path) -> Self {
        let count = nvml.device_count().unwrap_or_default();
        let address = |index: u32| Some(nvml.device_by_index(index).ok()?.pci_info().ok()?.bus_id);
        let addresses: Vec<Option<String>> = (0..count).map(address).collect();
        let mut links = Vec::new();
        for index in 0..count {
            let Ok(device) = nvml.device_by_index(index) else { continue };
            for link in (0..LINKS_MAX).map(|link| device.link_wrapper_for(link)) {
                if !link.is_active().unwrap_or(false) {
                    continue;
                }
                let Ok(remote) = link.remote_pci_info() else { continue };
                // What is no GPU is a switch; whoever is on one reaches all others on it.
                let other = addresses.iter().position(|it| it.as_deref() == Some(&remote.bus_id));
                links.push((index, other.map(|other| other as u32)));
            }
        }
        Self { groups: groups(count, &links), sysfs: sysfs.to_owned(), nvml }
    }

    fn devices(&self) -> impl Iterator<Item = (u32, nvml_wrapper::Device<'_>)> {
        let count = self.nvml.device_count().unwrap_or_default();
        (0..count).filter_map(|index| Some((index, self.nvml.device_by_index(index).ok()?)))
    }
}

/// Groups of devices that reach each other over links; a link to no device leads to a switch, of which there is one.
fn groups(count: u32, links: &[(u32, Option<u32>)]) -> BTreeMap<u32, u16> {
    let switch = count;
    let mut group: Vec<u32> = (0..=count).collect();
    for &(from, to) in links {
        let (a, b) = (group[from as usize], group[to.unwrap_or(switch) as usize]);
        let (low, high) = (a.min(b), a.max(b));
        group.iter_mut().filter(|it| **it == high).for_each(|it| *it = low);
    }
    let linked = |index: &u32| links.iter().any(|(from, to)| from == index || to.as_ref() == Some(index));
    (0..count)
        .filter(linked)
        .filter_map(|index| Some((index, u16::try_from(group[index as usize]).ok()?)))
        .collect()
}

impl GpuSource for Nvidia {
    fn gpus(&self) -> Vec<GpuFacts> {
        let capability = |device: &nvml_wrapper::Device<'_>| {
            let capability = device.cuda_compute_capability().ok()?;
            Some(format!("sm_{}{}", capability.major, capability.minor))
        };
        let of = |(index, device): &(u32, nvml_wrapper::Device<'_>)| {
            let memory = device.memory_info().ok();
            let pci = device.pci_info().ok().map(|pci| pci.pci_device_id >> 16);
            let laptop = pci == Some(QUADRO_RTX_4000_LAPTOP);
            GpuFacts {
                capability: capability(device),
                model: device.name().ok().map(|name| if laptop { name + " Laptop GPU" } else { name }),
                vram_mib: memory.as_ref().map(|memory| memory.total >> 20),
                vram_used_mib: memory.as_ref().map(|memory| memory.used >> 20),
                link_group: self.groups.get(index).copied(),
                ..GpuFacts::default()
            }
        };
        // Of a device that is partitioned there are its slices and nothing else; programs find them by name.
        let slice = |slice: nvml_wrapper::Device<'_>, whole: &nvml_wrapper::Device<'_>| {
            let uuid = slice.uuid().ok();
            GpuFacts { link_group: None, uuid, capability: capability(whole), ..of(&(u32::MAX, slice)) }
        };
        let slices = |device: &nvml_wrapper::Device<'_>| -> Vec<GpuFacts> {
            let on = device.mig_mode().is_ok_and(|mode| mode.current == MIG_ON);
            let count = if on { device.mig_device_count().unwrap_or_default() } else { 0 };
            (0..count)
                .filter_map(|index| device.mig_device_by_index(index).ok())
                .map(|it| slice(it, device))
                .collect()
        };
        let mut gpus: Vec<GpuFacts> = Vec::new();
        for device in self.devices() {
            let slices = slices(&device.1);
            if slices.is_empty() { gpus.push(of(&device)) } else { gpus.extend(slices) }
        }
        for (index, gpu) in (0..).zip(&mut gpus) {
            gpu.index = index;
        }
        gpus
    }

    fn driver(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    fn numa(&self) -> Vec<u32> {
        let domain = |device: nvml_wrapper::Device<'_>| {
            let address = device.pci_info().ok()?.bus_id.to_lowercase();
            // The library writes the domain with eight digits, the kernel with four.
            let address = address.get(address.len().checked_sub(12)?..)?.to_owned();
            super::drm::number(&self.sysfs.join("bus/pci/devices").join(address).join("numa_node"))
        };
        self.devices().filter_map(|(_, device)| domain(device)).collect()
    }

    fn power_w(&self) -> Option<f64> {
        let watts = |device: nvml_wrapper::Device<'_>| Some(f64::from(device.power_usage().ok()?) / 1000.0);
        self.devices().filter_map(|(_, device)| watts(device)).reduce(|a, b| a + b)
    }
}

/// All GPUs that several sources know, one after the other.
struct All(Vec<Box<dyn GpuSource>>);

impl GpuSource for All {
    fn gpus(&self) -> Vec<GpuFacts> {
        let (mut gpus, mut groups) = (Vec::new(), 0);
        for source in &self.0 {
            let (first, first_group) = (gpus.len() as u16, groups);
            for mut gpu in source.gpus() {
                gpu.index += first;
                gpu.link_group = gpu.link_group.map(|group| group + first_group);
                groups = groups.max(gpu.link_group.map_or(0, |group| group + 1));
                gpus.push(gpu);
            }
        }
        gpus
    }

    fn driver(&self) -> Option<String> {
        let drivers: Vec<String> = self.0.iter().filter_map(|source| source.driver()).collect();
        (!drivers.is_empty()).then(|| drivers.join(","))
    }

    fn numa(&self) -> Vec<u32> {
        self.0.iter().flat_map(|source| source.numa()).collect()
    }

    fn power_w(&self) -> Option<f64> {
        self.0.iter().filter_map(|source| source.power_w()).reduce(|a, b| a + b)
    }
}

/// The GPUs of this machine: NVIDIA's through the library of their driver, others through what the kernel shows, and those that were
/// found already.
pub fn of_this_machine(sysfs: &Path, found: Vec<GpuFacts>) -> Box<dyn GpuSource> {
    let mut sources: Vec<Box<dyn GpuSource>> = Vec::new();
    match nvml_wrapper::Nvml::init() {
        Ok(nvml) => sources.push(Box::new(Nvidia::new(nvml, sysfs))),
        Err(error) => tracing::debug!(%error, "no NVIDIA driver"),
    }
    sources.push(Box::new(Drm::new(sysfs)));
    sources.push(Box::new(Recorded { gpus: found, driver: None }));
    Box::new(All(sources))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_make_groups() {
        assert!(groups(2, &[]).is_empty());
        let pairs = [(0, Some(1)), (1, Some(0)), (2, Some(3)), (3, Some(2))];
        assert_eq!(groups(5, &pairs), BTreeMap::from([(0, 0), (1, 0), (2, 2), (3, 2)]));
        let switched = [(0, None), (1, None), (2, None)];
        assert_eq!(groups(4, &switched), BTreeMap::from([(0, 0), (1, 0), (2, 0)]));
    }

    #[test]
    fn a_recorded_list_stays() {
        let gpus = vec![GpuFacts { model: Some("H100".into()), ..GpuFacts::default() }];
        let source = Recorded { gpus: gpus.clone(), driver: Some("550".into()) };
        assert_eq!(source.gpus(), gpus);
        assert_eq!(source.driver().as_deref(), Some("550"));
    }
}
