//! What an agent is told when it starts.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::AgentError;
use crate::runtime::template::Template;

/// Bytes of output that are kept of an attempt and stream.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// As long as it may take to notice that something is missing.
const KEEP_FILES: Duration = Duration::from_secs(7 * 24 * 3600);
/// A disk that is full for a moment loses nothing; one that stays full does not hold up the ends of jobs for ever.
const LOG_PATIENCE: Duration = Duration::from_secs(60);

/// When a machine takes work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepting {
    /// Hours of the day (UTC) in which it does, from the first to before the second; always if empty.
    pub hours: Vec<(u8, u8)>,
    /// Memory that must be available.
    pub ram_free_mib_min: u64,
    /// Whether it must not run on battery.
    pub mains_only: bool,
}

impl Accepting {
    /// Whether work is taken at this hour with this much memory and power.
    pub fn allows(&self, hour: u8, ram_free_mib: Option<u64>, on_battery: bool) -> bool {
        let within = |(from, to): &(u8, u8)| {
            if from <= to { (*from..*to).contains(&hour) } else { hour >= *from || hour < *to }
        };
        (self.hours.is_empty() || self.hours.iter().any(within))
            && ram_free_mib.is_none_or(|mib| mib >= self.ram_free_mib_min)
            && !(self.mains_only && on_battery)
    }
}

#[derive(Clone, PartialEq)]
pub struct Config {
    /// Address of the server, such as `http://127.0.0.1:7878`.
    pub server: String,
    pub token: Option<String>,
    /// Certificates of authorities to trust, in PEM.
    pub ca_file: Option<PathBuf>,
    /// What the node is called; the name of the machine if left as it is.
    pub node_id: String,
    pub pool: Option<String>,
    pub region: Option<String>,
    pub block: Option<String>,
    pub group: Option<String>,
    /// Tenants it serves; all if empty.
    pub tenants: Vec<String>,
    /// Features, for pull pools.
    pub features: Vec<String>,
    /// CPU architectures it runs natively.
    pub architectures: Vec<String>,
    /// Whether it evaluates, in pull pools.
    pub eval: bool,
    /// Whether it fetches, in pull pools.
    pub fetch: bool,
    /// Jobs at once in pull pools.
    pub max_concurrent: u32,
    /// CPU cores, if not all of them.
    pub cpus: Option<f64>,
    /// Memory in MiB, if not all of it.
    pub ram_mib: Option<u64>,
    /// What kind of machine it is, if not what this program was built for.
    pub platform: Option<String>,
    /// Accelerators that jobs can use beside GPUs: `npu`, `neural_engine`, `metal`; and `unified_memory`.
    pub accelerators: Vec<String>,
    /// Indices of GPUs that are given out in slices.
    pub sliced_gpus: Vec<u16>,
    /// Where the kernel shows devices, usually `/sys`.
    pub sysfs: PathBuf,
    /// Where the kernel shows processes, usually `/proc`.
    pub procfs: PathBuf,
    /// Idle and busy watts, if known.
    pub power_w: Option<(u64, u64)>,
    /// Speed of one core, if it shall not be measured.
    pub core_score: Option<u32>,
    /// Where logs, checkpoints and what must survive lie.
    pub data_dir: PathBuf,
    pub runtimes: BTreeMap<String, Template>,
    pub accepting: Accepting,
    /// Bytes of output kept of each attempt and stream.
    pub log_bytes_max: u64,
    /// How long the server may have no place for output before the output is dropped. The ends of the jobs wait for that.
    pub log_patience: Duration,
    /// Variables of the machine that jobs get besides the usual ones.
    pub pass_env: Vec<String>,
    /// Whether jobs are stopped when the agent is; otherwise they go on and the next agent takes them over.
    pub stop_jobs: bool,
    /// How long what jobs left in their fresh directories is kept.
    pub keep_files: Duration,
    /// Whether jobs are kept within the CPU and memory they asked for, where the machine can.
    pub limits: bool,
    /// The program with the hidden command `keeper`, which `landfall-wasm` lies beside; this program if left out.
    pub helper: Option<PathBuf>,
}

impl Config {
    pub fn new(server: impl Into<String>, data_dir: impl Into<PathBuf>) -> Self {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self {
            server: server.into(),
            token: None,
            ca_file: None,
            node_id: if name.is_empty() { "node".to_owned() } else { name },
            pool: None,
            region: None,
            block: None,
            group: None,
            tenants: Vec::new(),
            features: Vec::new(),
            architectures: vec![std::env::consts::ARCH.to_owned()],
            eval: false,
            fetch: false,
            max_concurrent: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
            cpus: None,
            ram_mib: None,
            platform: None,
            accelerators: Vec::new(),
            sliced_gpus: Vec::new(),
            sysfs: "/sys".into(),
            procfs: "/proc".into(),
            power_w: None,
            core_score: None,
            data_dir: data_dir.into(),
            runtimes: BTreeMap::new(),
            accepting: Accepting::default(),
            log_bytes_max: LOG_BYTES_MAX,
            log_patience: LOG_PATIENCE,
            pass_env: Vec::new(),
            stop_jobs: false,
            keep_files: KEEP_FILES,
            limits: true,
            helper: None,
        }
    }

    pub(crate) fn program(&self) -> std::io::Result<PathBuf> {
        self.helper.clone().map_or_else(std::env::current_exe, Ok)
    }

    /// Says what makes no sense.
    pub fn check(&self) -> Result<(), AgentError> {
        let wrong = |field: &'static str, message: String| AgentError::Config { field, message };
        landfall_model::NodeId::new(&self.node_id).map_err(|error| wrong("node_id", error.to_string()))?;
        if self.node_id.contains(['/', '?', '#', '%', ' ']) {
            return Err(wrong("node_id", "must not contain / ? # % or spaces".to_owned()));
        }
        if self.cpus.is_some_and(|cpus| !cpus.is_finite() || cpus <= 0.0 || cpus > 1e6) {
            return Err(wrong("cpus", "must be a number of cores above zero".to_owned()));
        }
        const PLATFORMS: [&str; 4] = ["desktop", "ios", "android", "browser"];
        if self.platform.as_ref().is_some_and(|platform| !PLATFORMS.contains(&platform.as_str())) {
            return Err(wrong("platform", format!("must be one of {}", PLATFORMS.join(", "))));
        }
        const ACCELERATORS: [&str; 4] = ["npu", "neural_engine", "metal", "unified_memory"];
        if self.accelerators.iter().any(|name| !ACCELERATORS.contains(&name.as_str())) {
            return Err(wrong("accelerators", format!("there are {}", ACCELERATORS.join(", "))));
        }
        if self.power_w.is_some_and(|(idle, busy)| busy < idle || busy > 1_000_000) {
            return Err(wrong(
                "power_busy",
                "must be at least agent.power_idle and no more than 1 MW".to_owned(),
            ));
        }
        if self.max_concurrent == 0 {
            return Err(wrong("max_concurrent", "must be at least 1".to_owned()));
        }
        if self.accepting.hours.iter().any(|(from, to)| *from > 24 || *to > 24) {
            return Err(wrong("accepting.hours", "hours go from 0 to 24".to_owned()));
        }
        for (name, template) in &self.runtimes {
            template.check().map_err(|error| wrong("runtimes", format!("{name}: {error}")))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Config {
    /// Without the token: settings end up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("server", &self.server)
            .field("token", &self.token.as_ref().map(|_| "(set)"))
            .field("node_id", &self.node_id)
            .field("pool", &self.pool)
            .field("data_dir", &self.data_dir)
            .field("max_concurrent", &self.max_concurrent)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        let good = Config::new("http://localhost", "/d");
        assert!(good.check().is_ok());
        let with = |change: fn(&mut Config)| {
            let mut config = good.clone();
            change(&mut config);
            config.check().map_err(|error| error.to_string())
        };
        assert!(with(|it| it.node_id = "a/b".into()).is_err_and(|text| text.contains("node_id")));
        assert!(with(|it| it.node_id = String::new()).is_err());
        assert!(with(|it| it.cpus = Some(f64::NAN)).is_err_and(|text| text.contains("cpus")));
        assert!(with(|it| it.cpus = Some(0.5)).is_ok());
        assert!(with(|it| it.max_concurrent = 0).is_err());
        assert!(with(|it| it.accepting.hours = vec![(8, 30)]).is_err());
        assert!(
            with(|it| {
                it.runtimes.insert("x".into(), Template { command: vec!["a".into(), "{b}".into()] });
            })
            .is_err_and(|text| text.contains("{b}"))
        );
    }

    #[test]
    fn work_is_taken_when_the_owner_says() {
        let night = Accepting { hours: vec![(22, 6)], ram_free_mib_min: 100, mains_only: true };
        assert!(night.allows(23, Some(100), false) && night.allows(5, None, false));
        assert!(!night.allows(6, None, false) && !night.allows(21, None, false));
        assert!(!night.allows(23, Some(99), false) && !night.allows(23, None, true));
        assert!(Accepting::default().allows(12, Some(0), true));
    }

    #[test]
    fn the_token_does_not_show() {
        let mut config = Config::new("http://localhost", "/d");
        config.token = Some("hunter2".into());
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
