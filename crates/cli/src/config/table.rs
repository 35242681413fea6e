//! Every setting, once.

use std::net::SocketAddr;

use landfall_model::{Bytes, MilliCpu, Millis};

/// What a setting looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any words.
    Text,
    /// Words that are not shown.
    Secret,
    /// A file or directory.
    Path,
    /// `http://…` or `https://…`.
    Url,
    /// `HOST:PORT`.
    Address,
    /// A number.
    Whole,
    /// An amount of bytes such as `16MiB`.
    Size,
    /// A span such as `30d`.
    Span,
    /// Cores such as `4` or `500m`.
    Cores,
    /// `true` or `false`.
    Switch,
    /// Names between commas.
    List,
}

#[derive(Debug)]
pub(crate) struct Setting {
    /// Its name in the file.
    pub(crate) key: &'static str,
    /// Its name in the environment.
    pub(crate) env: &'static str,
    pub(crate) kind: Kind,
    /// What it is if nobody says anything, for people.
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
}

/// A row for each: names in the file and in the environment, kind, what it is if nobody says anything, and help.
macro_rules! settings {
    ($($key:literal, $env:literal, $kind:ident, $default:literal, $help:literal;)*) => {
        &[$(Setting { key: $key, env: $env, kind: Kind::$kind, default: $default, help: $help }),*]
    };
}

pub(crate) const SETTINGS: &[Setting] = settings! {
    "client.server", "LANDFALL_SERVER", Url, "what `landfall up` wrote, else http://127.0.0.1:7878",
        "where the server is";
    "client.token", "LANDFALL_TOKEN", Secret, "none", "the secret of a token";
    "client.token_file", "LANDFALL_TOKEN_FILE", Path, "what `landfall up` wrote",
        "a file with the secret of a token";
    "client.ca_file", "LANDFALL_CA_FILE", Path, "the system's",
        "certificates of authorities to trust instead of the system's, PEM";
    "server.data_dir", "LANDFALL_DATA_DIR", Path, "$XDG_DATA_HOME/landfall",
        "where the server keeps everything";
    "server.listen", "LANDFALL_LISTEN", Address, "127.0.0.1:7878", "where the server listens";
    "server.tls_cert", "LANDFALL_TLS_CERT", Path, "none", "the server's certificate, PEM";
    "server.tls_key", "LANDFALL_TLS_KEY", Path, "none", "the key of the certificate, PEM";
    "server.allow_insecure", "LANDFALL_ALLOW_INSECURE", Switch, "false",
        "listen beyond this machine without TLS";
    "server.allow_hollow", "LANDFALL_ALLOW_HOLLOW", Switch, "false",
        "let simulated nodes join (`landfall hollow`), for trying a size";
    "server.board", "LANDFALL_BOARD", Switch, "true", "serve the board, a web page, at `/`";
    "server.scoring_policy", "LANDFALL_SCORING_POLICY", Text, "resource-aware",
        "the policy of pull pools that name none";
    "server.energy_price_file", "LANDFALL_ENERGY_PRICE_FILE", Path, "none",
        "a file or an http(s) address with the price of energy (0 is free, 1 is dear), read every minute";
    "server.body_limit", "LANDFALL_BODY_LIMIT", Size, "16MiB", "largest request";
    "server.queue_limit", "LANDFALL_QUEUE_LIMIT", Whole, "4096",
        "requests that may wait for the engine; more are turned away";
    "server.ended_in_memory", "LANDFALL_ENDED_IN_MEMORY", Whole, "10000",
        "ended jobs kept in memory; older ones are read from disk";
    "server.retention", "LANDFALL_RETENTION", Span, "30d",
        "how long ended jobs, their logs and the journal are kept";
    "server.clean_every", "LANDFALL_CLEAN_EVERY", Span, "1m", "how often what is older than that is dropped";
    "server.snapshot_every", "LANDFALL_SNAPSHOT_EVERY", Whole, "500000",
        "events from one snapshot to the next";
    "server.log_limit", "LANDFALL_LOG_LIMIT", Size, "16MiB", "most that is kept of one stream of one attempt";
    "server.shutdown_grace", "LANDFALL_SHUTDOWN_GRACE", Span, "5s",
        "time that running requests get at the end";
    "peer.listen", "LANDFALL_PEER_LISTEN", Address, "any free port of 127.0.0.1",
        "where a server whose pool negotiates listens for peers";
    "peer.mdns", "LANDFALL_PEER_MDNS", Switch, "true if it listens beyond this machine",
        "whether peers of one LAN find each other by themselves";
    "peer.bootstrap", "LANDFALL_PEER_BOOTSTRAP", List, "none",
        "addresses of peers to be in touch with, or an invitation of one";
    "peer.trust", "LANDFALL_PEER_TRUST", List, "none", "trust in peers from the start, such as ID=0.8";
    "peer.foreign_runtimes", "LANDFALL_PEER_FOREIGN_RUNTIMES", List, "all that the pool has",
        "runtimes that jobs of other peers may use";
    "peer.foreign_env", "LANDFALL_PEER_FOREIGN_ENV", List, "*",
        "variables that jobs of other peers may set: names, or MY_* for all that begin so";
    "peer.foreign_network", "LANDFALL_PEER_FOREIGN_NETWORK", Switch, "true",
        "whether jobs of other peers may use the network; if not, containers are cut off and processes declined";
    "peer.foreign_walltime", "LANDFALL_PEER_FOREIGN_WALLTIME", Span, "24h",
        "how long jobs of other peers may run";
    "peer.measured_load", "LANDFALL_PEER_MEASURED_LOAD", Switch, "true",
        "whether load of a machine that no job here causes lowers what it offers to peers";
    "peer.settings", "LANDFALL_PEER_SETTINGS", List, "as in docs/guides/peers.md",
        "how it negotiates, such as deliberation_ms=300,base_price=12";
    "agent.server", "LANDFALL_AGENT_SERVER", Url, "client.server", "the server that the agent speaks to";
    "agent.token_file", "LANDFALL_AGENT_TOKEN_FILE", Path, "client.token_file",
        "a file with the secret of the agent's token";
    "agent.ca_file", "LANDFALL_AGENT_CA_FILE", Path, "client.ca_file",
        "certificates of authorities to trust, PEM";
    "agent.node", "LANDFALL_NODE", Text, "the name of the machine", "what the node is called";
    "agent.data_dir", "LANDFALL_AGENT_DATA_DIR", Path, "server.data_dir/agent",
        "where the agent keeps jobs and what they wrote";
    "agent.pool", "LANDFALL_POOL", Text, "the only pool", "the pool it serves";
    "agent.region", "LANDFALL_REGION", Text, "none", "where it stands";
    "agent.cpus", "LANDFALL_CPUS", Cores, "all", "cores it offers";
    "agent.memory", "LANDFALL_MEMORY", Size, "all", "memory it offers";
    "agent.block", "LANDFALL_BLOCK", Text, "none", "the block of leased capacity it belongs to";
    "agent.group", "LANDFALL_GROUP", Text, "none", "the network group it is in";
    "agent.tenants", "LANDFALL_TENANTS", List, "all", "the only tenants it serves";
    "agent.features", "LANDFALL_FEATURES", List, "none", "features it has, for pull pools";
    "agent.architectures", "LANDFALL_ARCHITECTURES", List, "this machine's",
        "CPU architectures whose jobs it runs, for pull pools";
    "agent.eval", "LANDFALL_EVAL", Switch, "false", "take evaluations, in pull pools";
    "agent.fetch", "LANDFALL_FETCH", Switch, "false", "take jobs that fetch, in pull pools";
    "agent.platform", "LANDFALL_PLATFORM", Text, "desktop",
        "what kind of machine it is: desktop, ios, android or browser";
    "agent.accelerators", "LANDFALL_ACCELERATORS", List, "what is found",
        "accelerators beside GPUs: npu, neural_engine, metal; unified_memory if CPU and GPUs share one";
    "agent.sliced_gpus", "LANDFALL_SLICED_GPUS", List, "none",
        "indices of GPUs that are given out in slices, to jobs that ask for one (--gpu mig:1g.10gb)";
    "agent.power_idle", "LANDFALL_POWER_IDLE", Whole, "unknown", "watts that the machine draws when it is idle";
    "agent.power_busy", "LANDFALL_POWER_BUSY", Whole, "unknown", "watts that the machine draws when it is busy";
    "agent.core_score", "LANDFALL_CORE_SCORE", Whole, "measured", "speed of one core, for pull pools";
    "agent.sysfs", "LANDFALL_SYSFS", Path, "/sys", "where the kernel shows devices";
    "agent.procfs", "LANDFALL_PROCFS", Path, "/proc", "where the kernel shows itself";
    "agent.max_concurrent", "LANDFALL_MAX_CONCURRENT", Whole, "one for each core",
        "jobs at once in pull pools";
    "agent.pass_env", "LANDFALL_PASS_ENV", List, "none",
        "variables of the machine that jobs get besides the usual ones";
    "agent.mains_only", "LANDFALL_MAINS_ONLY", Switch, "false", "take no work on battery";
    "agent.memory_free_min", "LANDFALL_MEMORY_FREE_MIN", Size, "0MiB",
        "take no work while less memory is available";
    "agent.hours", "LANDFALL_HOURS", List, "always",
        "hours of the day (UTC) in which it takes work, such as 22-6";
    "agent.keep_files", "LANDFALL_KEEP_FILES", Span, "7d",
        "how long what jobs left in fresh directories is kept";
    "agent.limits", "LANDFALL_LIMITS", Switch, "true",
        "keep jobs within the CPU and memory they asked for, where the machine can";
    "agent.stop_jobs", "LANDFALL_STOP_JOBS", Switch, "false",
        "stop jobs when the agent ends, instead of letting the next agent take them over";
};

impl Setting {
    pub(crate) fn of(key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }

    /// Says what is wrong with a value and how it is written.
    pub(crate) fn check(&self, text: &str) -> Result<(), (String, &'static str)> {
        let amount = |result: Result<(), String>, hint| result.map_err(|error| (error, hint));
        let is = |fine: bool, what: &str, hint| {
            if fine { Ok(()) } else { Err((format!("`{text}` is no {what}"), hint)) }
        };
        match self.kind {
            Kind::Text | Kind::Secret | Kind::Path => is(!text.is_empty(), "value", "leave it out instead"),
            Kind::Url => {
                let fine = text.starts_with("http://") || text.starts_with("https://");
                is(fine, "address of a server", "write it as http://HOST:PORT")
            }
            Kind::Address => {
                is(text.parse::<SocketAddr>().is_ok(), "address", "write it as 127.0.0.1:7878 or [::]:7878")
            }
            Kind::Whole => is(text.parse::<u64>().is_ok(), "whole number", "write digits only"),
            Kind::Size => {
                let parsed = text.parse::<Bytes>().map(drop).map_err(|error| error.to_string());
                amount(parsed, "write it as 16MiB or 2GiB")
            }
            Kind::Span => {
                let parsed = text.parse::<Millis>().map(drop).map_err(|error| error.to_string());
                amount(parsed, "write it as 30s, 10min, 2h or 30d")
            }
            Kind::Cores => amount(cores(text).map(drop), "write it as 4 or 500m"),
            Kind::Switch => is(matches!(text, "true" | "false"), "switch", "write true or false"),
            Kind::List => is(!text.trim().is_empty(), "list", "leave it out instead"),
        }
    }
}

/// Cores such as `2`, `0.5` or `500m`, in thousandths.
pub(crate) fn cores(text: &str) -> Result<MilliCpu, String> {
    let text = text.trim();
    let plain = text.parse::<f64>();
    if plain.as_ref().is_ok_and(|number| *number < 0.0) {
        return Err(format!("{text} is negative: an amount must be 0 or more"));
    }
    let text = if plain.is_ok() { format!("{text}core") } else { text.to_owned() };
    text.parse::<MilliCpu>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_used_once() {
        for (at, setting) in SETTINGS.iter().enumerate() {
            for other in &SETTINGS[at + 1..] {
                assert!(
                    setting.key != other.key && setting.env != other.env,
                    "{} {}",
                    setting.key,
                    other.key
                );
            }
        }
    }

    #[test]
    fn values_are_checked() {
        let check = |key: &str, value: &str| Setting::of(key).unwrap().check(value);
        for (key, good, bad) in [
            ("client.server", "https://h:1", "h:1"),
            ("server.listen", "0.0.0.0:80", "localhost"),
            ("server.queue_limit", "10", "-1"),
            ("server.body_limit", "16MiB", "16MB"),
            ("server.retention", "7d", "7 weeks"),
            ("server.allow_insecure", "true", "yes"),
            ("agent.cpus", "1.5", "many"),
            ("agent.node", "n", ""),
        ] {
            assert!(check(key, good).is_ok(), "{key} {good}");
            assert!(check(key, bad).is_err(), "{key} {bad}");
        }
    }

    #[test]
    fn cores_are_whole_or_thousandths() {
        assert_eq!(cores("2").unwrap().get(), 2000);
        assert_eq!(cores("0.5").unwrap().get(), 500);
        assert_eq!(cores("500m").unwrap().get(), 500);
        assert!(cores("x").is_err());
        assert!(cores("-2").unwrap_err().starts_with("-2 is negative"));
    }
}
