//! The machine as a whole: what goes into registrations and heartbeats.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use landfall_api::node::{DomainFacts, GpuFacts, Heartbeat};
use landfall_model::fingerprint::Inputs;
use landfall_model::life::Fence;

use super::drm::{entries, line};
use super::engines;
use super::estimate;
use super::ewma::Ewma;
use super::gpu::GpuSource;
use super::live::{Battery, CpuTicks, Memory};
use super::net::{self, NetworkUse};
use super::power::{self, Rate};
use crate::config::Config;
use crate::runtime::container::Engine;
use crate::runtime::llm::Llama;
use crate::runtime::template::Template;

/// Programs of this machine that can run jobs. They come and go, so they are looked for again from time to time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Programs {
    /// A container engine that answers.
    pub engine: Option<Engine>,
    pub llama: Option<Llama>,
    pub wasm: Option<PathBuf>,
    /// Runtimes of templates whose programs are there.
    pub templates: BTreeMap<String, Template>,
}

impl Programs {
    pub async fn probe(config: &Config) -> Self {
        let search = std::env::var("PATH").unwrap_or_default();
        let there = |template: &Template| {
            template.command.first().is_some_and(|program| engines::find(program, &search).is_some())
        };
        Self {
            engine: engines::container_engine(&search).await,
            llama: engines::llama(&search),
            wasm: engines::wasm(config.program().ok().as_deref(), &search),
            templates: config
                .runtimes
                .iter()
                .filter(|(_, template)| there(template))
                .map(|(name, template)| (name.clone(), template.clone()))
                .collect(),
        }
    }

    /// Images that the container engine has.
    pub async fn images(&self) -> Option<Vec<String>> {
        engines::images(self.engine.as_ref()?).await
    }
}

/// What does not change while the agent runs, what was probed last, and smoothed figures.
pub struct Machine {
    pub cpu_milli: u64,
    pub ram_mib: u64,
    /// Speed of one core.
    pub core_score: Option<u32>,
    pub programs: Programs,
    /// Disk speed of recent jobs.
    pub disk: Ewma,
    /// Network speed of recent transfers.
    pub network: Ewma,
    /// What goes over the network while jobs run.
    pub network_use: NetworkUse,
    gpus: Box<dyn GpuSource>,
    ticks: Option<CpuTicks>,
    sysfs: PathBuf,
    procfs: PathBuf,
    platform: String,
    accelerators: Vec<String>,
    sliced: Vec<u16>,
    energy: Rate,
    traffic: Rate,
    /// Images that its container engine has, if that tells.
    images: Option<Vec<String>>,
    /// Whether the server knows them. It is told again when they change, since a list is long and seldom another.
    images_told: bool,
}

impl Machine {
    /// Looks at the machine. What the configuration says comes before what is found.
    pub async fn probe(config: &Config, gpus: Box<dyn GpuSource>) -> Self {
        let programs = Programs::probe(config).await;
        let images = programs.images().await;
        let found = std::thread::available_parallelism().map_or(1, usize::from) as u64 * 1000;
        Self {
            cpu_milli: config.cpus.map_or(found, |cpus| (cpus * 1000.0).round() as u64).max(1),
            ram_mib: config
                .ram_mib
                .or_else(|| Memory::read(&config.procfs).map(|memory| memory.total_mib))
                .unwrap_or_default(),
            core_score: config.core_score,
            programs,
            disk: Ewma::default(),
            network: Ewma::default(),
            network_use: NetworkUse::default(),
            gpus,
            ticks: CpuTicks::read(&config.procfs),
            sysfs: config.sysfs.clone(),
            procfs: config.procfs.clone(),
            platform: config.platform.clone().unwrap_or_else(|| platform().to_owned()),
            accelerators: config.accelerators.clone(),
            sliced: config.sliced_gpus.clone(),
            energy: Rate::default(),
            traffic: Rate::default(),
            images,
            images_told: false,
        }
    }

    /// Takes over which images there are.
    pub fn set_images(&mut self, images: Option<Vec<String>>) {
        self.images_told &= self.images == images;
        self.images = images;
    }

    /// The next heartbeat tells everything.
    pub fn tell_all(&mut self) {
        self.images_told = false;
    }

    /// Looks at what the network carries while these run.
    pub fn look_at_network(&mut self, now: Instant, running: &[Fence]) {
        let carried = if running.is_empty() { None } else { net::carried(&self.sysfs) };
        self.network_use.look(now, running, carried);
    }

    pub fn gpus(&self) -> Vec<GpuFacts> {
        let mut gpus = self.gpus.gpus();
        gpus.iter_mut().for_each(|gpu| gpu.sliced = self.sliced.contains(&gpu.index));
        gpus
    }

    /// What can be run here.
    pub fn runtimes(&self) -> Vec<String> {
        let mut names: Vec<String> = vec!["process".into()];
        names.extend(self.programs.wasm.is_some().then(|| "wasm".to_owned()));
        names.extend(self.programs.engine.is_some().then(|| "container".to_owned()));
        names.extend(self.programs.llama.is_some().then(|| "llmcpp".to_owned()));
        names.extend(
            self.programs.templates.keys().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>(),
        );
        names.sort_unstable();
        names
    }

    /// A heartbeat with everything that the machine itself tells; the caller adds what it knows about jobs.
    pub fn heartbeat(&mut self) -> Heartbeat {
        let now = CpuTicks::read(&self.procfs);
        let usage = now.zip(self.ticks).and_then(|(now, earlier)| now.percent_since(earlier));
        self.ticks = now;
        let memory = Memory::read(&self.procfs);
        let battery = Battery::read(&self.sysfs.join("class/power_supply"));
        let gpus = self.gpus();
        let has = |name: &str| self.accelerators.iter().any(|it| it == name);
        let apple = cfg!(all(target_vendor = "apple", target_arch = "aarch64"));
        let (neural_engine, metal_gpu) = (apple || has("neural_engine"), apple || has("metal"));
        let unified_memory = apple || has("unified_memory");
        let npu = has("npu") || !entries(&self.sysfs.join("class/accel")).is_empty();
        let power_w = self.power_w();
        let io = power::disk_bytes(&self.procfs, &self.sysfs);
        let images = if std::mem::replace(&mut self.images_told, true) { None } else { self.images.clone() };
        let io_bytes_s = self.traffic.since_last(Instant::now(), io).map(|rate| rate as u64);
        Heartbeat {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            images,
            platform: self.platform.clone(),
            memory_domains: self.memory_domains(),
            thermal: power::thermal(&self.sysfs).map(str::to_owned),
            neural_engine,
            npu,
            metal_gpu,
            unified_memory,
            power_w,
            io_bytes_s,
            cpu_milli: self.cpu_milli,
            ram_mib: self.ram_mib,
            memory_used_mb: memory.map(|memory| memory.total_mib.saturating_sub(memory.available_mib)),
            ram_free_mib: memory.map(|memory| memory.available_mib),
            cpu_usage_pct: usage,
            battery_pct: battery.map(|battery| battery.charge_pct),
            charging: battery.map(|battery| battery.charging),
            disk_mb_s: self.disk.value(),
            network_mbit_s: self.network.value(),
            cpu_core_score: self.core_score,
            performance_estimates: estimate::estimates(self.cpu_milli, self.ram_mib, &gpus, self.runtimes()),
            fingerprint: Some(self.fingerprint()),
            gpus,
            ..Heartbeat::default()
        }
    }

    /// What the processors and the GPUs draw; `None` where neither tells.
    fn power_w(&mut self) -> Option<f64> {
        let energy = power::package_energy_uj(&self.sysfs);
        let processors = self.energy.since_last(Instant::now(), energy).map(|micro| micro / 1e6);
        let watts = processors.into_iter().chain(self.gpus.power_w()).reduce(|a, b| a + b)?;
        Some((watts * 10.0).round() / 10.0)
    }

    /// Processors and GPUs that share memory.
    fn memory_domains(&self) -> Vec<DomainFacts> {
        let gpus = self.gpus.numa();
        let domain = |path: PathBuf| {
            let number: u32 = path.file_name()?.to_str()?.strip_prefix("node")?.parse().ok()?;
            let cpus = count_of(&line(&path.join("cpulist")).unwrap_or_default())?;
            let here = gpus.iter().filter(|domain| **domain == number).count();
            Some(DomainFacts { cpus, gpus: here as u32 })
        };
        entries(&self.sysfs.join("devices/system/node")).into_iter().filter_map(domain).collect()
    }

    /// One word for the software and firmware that decide whether two machines behave alike.
    fn fingerprint(&self) -> String {
        let read = |path: &str| line(&self.sysfs.join(path));
        let bios: Vec<String> = ["bios_vendor", "bios_version", "bios_date"]
            .iter()
            .filter_map(|file| read(&format!("class/dmi/id/{file}")))
            .collect();
        let cards = entries(&self.sysfs.join("class/infiniband"));
        let firmware: Vec<String> = cards.iter().filter_map(|card| line(&card.join("fw_ver"))).collect();
        let params = line(&self.procfs.join("cmdline")).unwrap_or_default();
        // What differs from machine to machine says nothing about how they behave.
        let own = ["BOOT_IMAGE=", "initrd=", "root=", "resume=", "ip=", "BOOTIF=", "hostname="];
        let params: Vec<&str> = params
            .split_ascii_whitespace()
            .filter(|param| !own.iter().any(|prefix| param.starts_with(prefix)))
            .collect();
        let kernel = line(&self.procfs.join("sys/kernel/osrelease"));
        let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
        Inputs {
            gpu_driver: self.gpus.driver().as_deref().unwrap_or("none"),
            nic_firmware: &or_none(firmware.join(",")),
            bios: &or_none(bios.join(" ")),
            bmc: "none",
            kernel: kernel.as_deref().unwrap_or("none"),
            kernel_params: &params,
            image: "none",
        }
        .hash()
    }
}

/// What this program runs on.
fn platform() -> &'static str {
    match std::env::consts::OS {
        "ios" => "ios",
        "android" => "android",
        _ => "desktop",
    }
}

/// How many numbers a list such as `0-3,8` has.
fn count_of(list: &str) -> Option<u32> {
    list.split(',').filter(|part| !part.is_empty()).try_fold(0u32, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::gpu::Recorded;
    use crate::probe::tests::put;

    #[tokio::test]
    async fn a_heartbeat_tells_what_the_machine_is() {
        let mut config = Config::new("http://localhost", "/nowhere");
        config.cpus = Some(2.5);
        config.ram_mib = Some(4096);
        let missing = Template { command: vec!["/no/such/program".into()] };
        let there = Template { command: vec!["/bin/sh".into()] };
        config.runtimes = [("missing".to_owned(), missing), ("shell".to_owned(), there)].into();
        let gpu = GpuFacts { model: Some("RTX 3090".into()), vram_mib: Some(24_576), ..GpuFacts::default() };
        let gpus = Recorded { gpus: vec![gpu], driver: Some("1".into()) };
        let mut machine = Machine::probe(&config, Box::new(gpus)).await;
        let beat = machine.heartbeat();
        assert_eq!((beat.cpu_milli, beat.ram_mib), (2500, 4096));
        assert_eq!(beat.performance_estimates.estimated_llm_tok_s, Some(114.0));
        let runtimes = &beat.performance_estimates.supported_runtimes;
        assert!(["process", "shell"].iter().all(|name| runtimes.iter().any(|it| it == name)), "{runtimes:?}");
        assert!(!runtimes.iter().any(|name| name == "missing"));
        assert!(beat.ram_free_mib.is_some_and(|mib| mib > 0));
        assert_eq!(beat.fingerprint.as_deref().map(str::len), Some(64));
    }

    #[tokio::test]
    async fn facts_are_fresh_in_every_heartbeat() {
        let dir = tempfile::tempdir().expect("dir");
        let root = dir.path();
        let mut config = Config::new("http://localhost", "/nowhere");
        (config.sysfs, config.procfs) = (root.into(), root.into());
        config.platform = Some("android".into());
        config.accelerators = vec!["neural_engine".into()];
        let mut machine = Machine::probe(&config, Box::<Recorded>::default()).await;
        let bare = machine.heartbeat();
        assert_eq!((bare.thermal, bare.battery_pct, bare.charging, bare.power_w), (None, None, None, None));
        assert_eq!((bare.platform.as_str(), bare.neural_engine, bare.npu), ("android", true, false));
        put(
            root,
            &[
                ("class/thermal/thermal_zone0/temp", "97000\n"),
                ("class/power_supply/BAT0/type", "Battery\n"),
                ("class/power_supply/BAT0/capacity", "41\n"),
                ("class/power_supply/BAT0/status", "Discharging\n"),
                ("class/accel/accel0/dev", "261:0\n"),
                ("devices/system/node/node0/cpulist", "0-3,8\n"),
                ("devices/system/node/node1/cpulist", "4-7\n"),
                ("devices/system/node/possible", "0-1\n"),
            ],
        );
        let beat = machine.heartbeat();
        assert_eq!(beat.thermal.as_deref(), Some("critical"));
        assert_eq!((beat.battery_pct, beat.charging, beat.npu), (Some(41), Some(false), true));
        let domains: Vec<_> = beat.memory_domains.iter().map(|domain| (domain.cpus, domain.gpus)).collect();
        assert_eq!(domains, [(5, 0), (4, 0)]);
        put(root, &[("class/power_supply/BAT0/status", "Charging\n")]);
        assert_eq!(machine.heartbeat().charging, Some(true));
    }

    #[tokio::test]
    async fn fingerprints_follow_firmware_and_kernel_and_not_settings() {
        let dir = tempfile::tempdir().expect("dir");
        let root = dir.path();
        let mut config = Config::new("http://localhost", "/nowhere");
        (config.sysfs, config.procfs) = (root.into(), root.into());
        let mut machine = Machine::probe(&config, Box::<Recorded>::default()).await;
        config.ram_mib = Some(77);
        let mut other = Machine::probe(&config, Box::<Recorded>::default()).await;
        let mut seen = vec![machine.fingerprint()];
        assert_eq!(other.heartbeat().fingerprint, machine.heartbeat().fingerprint, "settings do not count");
        for (path, text) in [
            ("class/dmi/id/bios_version", "2.1.0\n"),
            ("class/infiniband/mlx5_0/fw_ver", "28.39.1002\n"),
            ("sys/kernel/osrelease", "6.8.0-31\n"),
            ("cmdline", "BOOT_IMAGE=/a root=UUID=1 quiet iommu=pt\n"),
        ] {
            put(root, &[(path, text)]);
            let now = machine.fingerprint();
            assert!(!seen.contains(&now), "{path}");
            seen.push(now);
        }
        put(root, &[("cmdline", "iommu=pt BOOT_IMAGE=/b quiet root=UUID=2\n")]);
        assert_eq!(seen.last(), Some(&machine.fingerprint()), "order and own disks do not count");
    }
}
