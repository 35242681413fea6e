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
    /// What it looks like.
    pub(crate) kind: Kind,
    /// What it is if nobody says anything, for people.
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
}

const fn setting(
    key: &'static str,
    env: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting { key, env, kind, default, help }
}

pub(crate) const SETTINGS: &[Setting] = &[
    setting(
        "client.server",
        "LANDFALL_SERVER",
        Kind::Url,
        "what `landfall up` wrote, else http://127.0.0.1:7878",
        "where the server is",
    ),
    setting("client.token", "LANDFALL_TOKEN", Kind::Secret, "none", "the secret of a token"),
    setting(
        "client.token_file",
        "LANDFALL_TOKEN_FILE",
        Kind::Path,
        "what `landfall up` wrote",
        "a file with the secret of a token",
    ),
    setting(
        "client.ca_file",
        "LANDFALL_CA_FILE",
        Kind::Path,
        "the system's",
        "certificates of authorities to trust instead of the system's, PEM",
    ),
    setting(
        "server.data_dir",
        "LANDFALL_DATA_DIR",
        Kind::Path,
        "$XDG_DATA_HOME/landfall",
        "where the server keeps everything",
    ),
    setting("server.listen", "LANDFALL_LISTEN", Kind::Address, "127.0.0.1:7878", "where the server listens"),
    setting("server.tls_cert", "LANDFALL_TLS_CERT", Kind::Path, "none", "the server's certificate, PEM"),
    setting("server.tls_key", "LANDFALL_TLS_KEY", Kind::Path, "none", "the key of the certificate, PEM"),
    setting(
        "server.allow_insecure",
        "LANDFALL_ALLOW_INSECURE",
        Kind::Switch,
        "false",
        "listen beyond this machine without TLS",
    ),
    setting("server.body_limit", "LANDFALL_BODY_LIMIT", Kind::Size, "16MiB", "largest request"),
    setting(
        "server.queue_limit",
        "LANDFALL_QUEUE_LIMIT",
        Kind::Whole,
        "4096",
        "requests that may wait for the engine; more are turned away",
    ),
    setting(
        "server.ended_in_memory",
        "LANDFALL_ENDED_IN_MEMORY",
        Kind::Whole,
        "10000",
        "ended jobs kept in memory; older ones are read from disk",
    ),
    setting(
        "server.retention",
        "LANDFALL_RETENTION",
        Kind::Span,
        "30d",
        "how long ended jobs, their logs and the journal are kept",
    ),
    setting(
        "server.snapshot_every",
        "LANDFALL_SNAPSHOT_EVERY",
        Kind::Whole,
        "500000",
        "events from one snapshot to the next",
    ),
    setting(
        "server.log_limit",
        "LANDFALL_LOG_LIMIT",
        Kind::Size,
        "16MiB",
        "most that is kept of one stream of one attempt",
    ),
    setting(
        "server.shutdown_grace",
        "LANDFALL_SHUTDOWN_GRACE",
        Kind::Span,
        "5s",
        "time that running requests get at the end",
    ),
    setting(
        "agent.server",
        "LANDFALL_AGENT_SERVER",
        Kind::Url,
        "client.server",
        "the server that the agent speaks to",
    ),
    setting(
        "agent.token_file",
        "LANDFALL_AGENT_TOKEN_FILE",
        Kind::Path,
        "client.token_file",
        "a file with the secret of the agent's token",
    ),
    setting(
        "agent.ca_file",
        "LANDFALL_AGENT_CA_FILE",
        Kind::Path,
        "client.ca_file",
        "certificates of authorities to trust, PEM",
    ),
    setting("agent.node", "LANDFALL_NODE", Kind::Text, "the name of the machine", "what the node is called"),
    setting(
        "agent.data_dir",
        "LANDFALL_AGENT_DATA_DIR",
        Kind::Path,
        "server.data_dir/agent",
        "where the agent keeps jobs and what they wrote",
    ),
    setting("agent.pool", "LANDFALL_POOL", Kind::Text, "the only pool", "the pool it serves"),
    setting("agent.region", "LANDFALL_REGION", Kind::Text, "none", "where it stands"),
    setting("agent.cpus", "LANDFALL_CPUS", Kind::Cores, "all", "cores it offers"),
    setting("agent.memory", "LANDFALL_MEMORY", Kind::Size, "all", "memory it offers"),
    setting(
        "agent.block",
        "LANDFALL_BLOCK",
        Kind::Text,
        "none",
        "the block of leased capacity it belongs to",
    ),
    setting("agent.group", "LANDFALL_GROUP", Kind::Text, "none", "the network group it is in"),
    setting("agent.tenants", "LANDFALL_TENANTS", Kind::List, "all", "the only tenants it serves"),
    setting("agent.features", "LANDFALL_FEATURES", Kind::List, "none", "features it has, for pull pools"),
    setting(
        "agent.max_concurrent",
        "LANDFALL_MAX_CONCURRENT",
        Kind::Whole,
        "one for each core",
        "jobs at once in pull pools",
    ),
    setting(
        "agent.pass_env",
        "LANDFALL_PASS_ENV",
        Kind::List,
        "none",
        "variables of the machine that jobs get besides the usual ones",
    ),
    setting("agent.mains_only", "LANDFALL_MAINS_ONLY", Kind::Switch, "false", "take no work on battery"),
    setting(
        "agent.memory_free_min",
        "LANDFALL_MEMORY_FREE_MIN",
        Kind::Size,
        "0MiB",
        "take no work while less memory is available",
    ),
    setting(
        "agent.hours",
        "LANDFALL_HOURS",
        Kind::List,
        "always",
        "hours of the day (UTC) in which it takes work, such as 22-6",
    ),
    setting(
        "agent.stop_jobs",
        "LANDFALL_STOP_JOBS",
        Kind::Switch,
        "false",
        "stop jobs when the agent ends, instead of letting the next agent take them over",
    ),
];

impl Setting {
    /// The setting of a name.
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
    let plain = text.parse::<f64>().is_ok();
    let text = if plain { format!("{text}core") } else { text.to_owned() };
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
    }
}
