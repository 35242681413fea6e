//! GPUs of this machine.

use landfall_api::node::GpuFacts;

/// Somebody who knows the GPUs of a machine.
pub trait GpuSource: Send + Sync {
    fn gpus(&self) -> Vec<GpuFacts>;
    fn driver(&self) -> Option<String>;
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

/// NVIDIA GPUs through the library of their driver.
struct Nvidia(nvml_wrapper::Nvml);

impl GpuSource for Nvidia {
    fn gpus(&self) -> Vec<GpuFacts> {
        let count = self.0.device_count().unwrap_or_default();
        let of = |index: u32| {
            let device = self.0.device_by_index(index).ok()?;
            let memory = device.memory_info().ok();
            Some(GpuFacts {
                index: u16::try_from(index).ok()?,
                model: device.name().ok(),
                vram_mib: memory.as_ref().map(|memory| memory.total >> 20),
                vram_used_mib: memory.as_ref().map(|memory| memory.used >> 20),
                bandwidth_gb_s: None,
                link_group: None,
            })
        };
        (0..count).filter_map(of).collect()
    }

    fn driver(&self) -> Option<String> {
        self.0.sys_driver_version().ok()
    }
}

/// The GPUs of this machine; none where there is no driver.
pub fn of_this_machine() -> Box<dyn GpuSource> {
    match nvml_wrapper::Nvml::init() {
        Ok(nvml) => Box::new(Nvidia(nvml)),
        Err(error) => {
            tracing::debug!(%error, "no NVIDIA driver");
            Box::<Recorded>::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_list_stays() {
        let gpus = vec![GpuFacts { model: Some("H100".into()), ..GpuFacts::default() }];
        let source = Recorded { gpus: gpus.clone(), driver: Some("550".into()) };
        assert_eq!(source.gpus(), gpus);
        assert_eq!(source.driver().as_deref(), Some("550"));
    }
}
