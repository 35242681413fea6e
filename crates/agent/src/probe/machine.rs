//! The machine as a whole: what goes into registrations and heartbeats.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landfall_api::node::{GpuFacts, Heartbeat};
use sha2::{Digest as _, Sha256};

use super::engines;
use super::estimate;
use super::ewma::Ewma;
use super::gpu::GpuSource;
use super::live::{Battery, CpuTicks, Memory};
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
    gpus: Box<dyn GpuSource>,
    ticks: Option<CpuTicks>,
}

impl Machine {
    /// Looks at the machine. What the configuration says comes before what is found.
    pub async fn probe(config: &Config, gpus: Box<dyn GpuSource>) -> Self {
        let found = std::thread::available_parallelism().map_or(1, usize::from) as u64 * 1000;
        Self {
            cpu_milli: config.cpus.map_or(found, |cpus| (cpus * 1000.0).round() as u64).max(1),
            ram_mib: config
                .ram_mib
                .or_else(|| Memory::read().map(|memory| memory.total_mib))
                .unwrap_or_default(),
            core_score: config.core_score,
            programs: Programs::probe(config).await,
            disk: Ewma::default(),
            network: Ewma::default(),
            gpus,
            ticks: CpuTicks::read(),
        }
    }

    pub fn gpus(&self) -> Vec<GpuFacts> {
        self.gpus.gpus()
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
        let now = CpuTicks::read();
        let usage = now.zip(self.ticks).and_then(|(now, earlier)| now.percent_since(earlier));
        self.ticks = now;
        let memory = Memory::read();
        let battery = Battery::read(Path::new("/sys/class/power_supply"));
        let gpus = self.gpus();
        Heartbeat {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            platform: "desktop".to_owned(),
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
            fingerprint: Some(self.fingerprint(&gpus)),
            gpus,
            ..Heartbeat::default()
        }
    }

    /// One word for everything that decides whether two machines behave alike.
    fn fingerprint(&self, gpus: &[GpuFacts]) -> String {
        let kernel = rustix::system::uname();
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu =
            cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|it| it.1));
        let models: Vec<&str> = gpus.iter().filter_map(|gpu| gpu.model.as_deref()).collect();
        fingerprint(&[
            ("kernel", &kernel.release().to_string_lossy()),
            ("architecture", std::env::consts::ARCH),
            ("cpu", cpu.unwrap_or("none")),
            ("ram_mib", &self.ram_mib.to_string()),
            ("gpus", &models.join(",")),
            ("gpu_driver", self.gpus.driver().as_deref().unwrap_or("none")),
            ("engine", self.programs.engine.as_ref().map_or("none", |engine| &engine.version)),
        ])
    }
}

fn fingerprint(facts: &[(&str, &str)]) -> String {
    let mut hasher = Sha256::new();
    for (name, value) in facts {
        hasher.update(format!("{name}={value}\n"));
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::gpu::Recorded;

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

    #[test]
    fn fingerprints_tell_machines_apart() {
        assert_eq!(fingerprint(&[("a", "1")]), fingerprint(&[("a", "1")]));
        assert_ne!(fingerprint(&[("a", "1")]), fingerprint(&[("a", "2")]));
    }
}
