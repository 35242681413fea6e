//! What is in force, and who said so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landfall_model::scenario::{ScenarioError, closest, decode, locate};

use super::pools::{Declared, SECTIONS, declared};
use super::table::{Kind, SETTINGS, Setting, cores};
use crate::error::{CliError, usage};
use crate::input::Input;

// The one argument that says where settings are.
#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct ConfigArgs {
    /// The file with settings [env: LANDFALL_CONFIG; default: $XDG_CONFIG_HOME/landfall/config.toml, if it is there].
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) config: Option<PathBuf>,
}

/// Who said what a setting is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Env(&'static str),
    /// The file, in this line.
    File(Option<usize>),
    /// Nobody.
    Default,
}

#[derive(Debug, Clone)]
struct Value {
    text: String,
    origin: Origin,
}

#[derive(Debug)]
pub(crate) struct Config {
    values: BTreeMap<&'static str, Value>,
    pub(crate) file: Option<String>,
    /// Pools and tenants that the file declares.
    pub(crate) declared: Declared,
    /// What was asked for, so that a test can tell that every setting is.
    #[cfg(test)]
    pub(crate) asked: std::sync::Mutex<std::collections::BTreeSet<String>>,
}

impl Config {
    /// Reads the file and the environment; flags come as pairs of a key and what was given.
    pub(crate) fn load(
        args: &ConfigArgs,
        flags: &[(&'static str, Option<String>)],
    ) -> Result<Self, CliError> {
        let env = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let file = match args.config.clone().or_else(|| env("LANDFALL_CONFIG").map(PathBuf::from)) {
            Some(path) => read(&path)?,
            None => match config_home().map(|home| home.join("landfall/config.toml")) {
                Some(path) if path.is_file() => read(&path)?,
                _ => None,
            },
        };
        Self::of(file, env, flags)
    }

    pub(crate) fn of(
        file: Option<Input>,
        env: impl Fn(&str) -> Option<String>,
        flags: &[(&'static str, Option<String>)],
    ) -> Result<Self, CliError> {
        let mut values = BTreeMap::new();
        let mut found = Declared::default();
        if let Some(file) = &file {
            found = from_file(file, &mut values)?;
        }
        for setting in SETTINGS {
            if let Some(text) = env(setting.env) {
                let wrong =
                    |(message, hint): (String, &str)| usage(format!("{}: {message}", setting.env), hint);
                setting.check(&text).map_err(wrong)?;
                values.insert(setting.key, Value { text, origin: Origin::Env(setting.env) });
            }
        }
        for (key, text) in flags {
            let (Some(text), Some(setting)) = (text, Setting::of(key)) else { continue };
            let flag = key.rsplit('.').next().unwrap_or(key).replace('_', "-");
            let wrong = |(message, hint): (String, &str)| usage(format!("--{flag}: {message}"), hint);
            setting.check(text).map_err(wrong)?;
            values.insert(setting.key, Value { text: text.clone(), origin: Origin::Flag });
        }
        Ok(Self {
            values,
            file: file.map(|file| file.file),
            declared: found,
            #[cfg(test)]
            asked: std::sync::Mutex::default(),
        })
    }

    /// What a setting is, if anybody said so.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        debug_assert!(Setting::of(key).is_some(), "{key}");
        #[cfg(test)]
        self.asked.lock().unwrap().insert(key.to_owned());
        self.values.get(key).map(|value| value.text.as_str())
    }

    /// Who said what a setting is.
    pub(crate) fn origin(&self, key: &str) -> Origin {
        self.values.get(key).map_or(Origin::Default, |value| value.origin.clone())
    }

    pub(crate) fn path(&self, key: &str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    /// A setting that has another form than text; values were checked when they were read.
    pub(crate) fn parsed<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.text(key).and_then(|text| text.parse().ok())
    }

    pub(crate) fn list(&self, key: &str) -> Vec<String> {
        let items = self.text(key).unwrap_or_default().split(',').map(str::trim);
        items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }

    pub(crate) fn is_on(&self, key: &str) -> bool {
        self.text(key) == Some("true")
    }

    /// A setting in bytes, in MiB.
    pub(crate) fn mib(&self, key: &str) -> Option<u64> {
        self.parsed::<landfall_model::Bytes>(key).map(|bytes| bytes.get() >> 20)
    }

    pub(crate) fn cores(&self, key: &str) -> Option<u64> {
        self.text(key).and_then(|text| cores(text).ok()).map(|amount| amount.get())
    }

    /// Where the server keeps everything.
    pub(crate) fn data_dir(&self) -> Result<PathBuf, CliError> {
        if let Some(path) = self.path("server.data_dir") {
            return Ok(path);
        }
        data_home().map(|home| home.join("landfall")).ok_or_else(|| {
            usage(
                "there is no home directory to keep anything in",
                "say where with --data-dir or LANDFALL_DATA_DIR",
            )
        })
    }
}

/// Reads a file with settings; one that is empty says nothing.
fn read(path: &Path) -> Result<Option<Input>, CliError> {
    match std::fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => Ok(None),
        _ => Input::read(path).map(Some),
    }
}

fn home(name: &str, below: &str) -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(name).or_else(|| absolute("HOME").map(|home| home.join(below)))
}

fn config_home() -> Option<PathBuf> {
    home("XDG_CONFIG_HOME", ".config")
}

fn data_home() -> Option<PathBuf> {
    home("XDG_DATA_HOME", ".local/share")
}

/// Reads the file; relative paths in it are meant from where it is.
fn from_file(file: &Input, values: &mut BTreeMap<&'static str, Value>) -> Result<Declared, CliError> {
    let mut table: toml::Table = decode(&file.text, file.format).map_err(|error| file.invalid(error))?;
    let found = declared(file, &mut table)?;
    let beside = Path::new(&file.file).parent().map(Path::to_path_buf).unwrap_or_default();
    for (section, content) in &table {
        let known = || SETTINGS.iter().filter_map(|setting| setting.key.split_once('.'));
        let sections = || known().map(|(section, _)| section).chain(SECTIONS);
        if !sections().any(|name| name == section) {
            let error = ScenarioError::at(section, format!("unknown section `{section}`"));
            let error = match closest(section, sections()) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(
                    "there are client, server, peer, agent, pools, tenants, blocks, providers and regions",
                ),
            };
            return Err(file.invalid(error));
        }
        let toml::Value::Table(rows) = content else {
            let error = ScenarioError::at(section, "should be a section")
                .hint(format!("write [{section}] above its settings"));
            return Err(file.invalid(error));
        };
        for (name, value) in rows {
            let key = format!("{section}.{name}");
            let Some(setting) = Setting::of(&key) else {
                let names = known().filter(|(of, _)| of == section).map(|(_, name)| name);
                let error = ScenarioError::at(&key, format!("unknown field `{name}`"));
                let error = match closest(name, names.clone()) {
                    Some(near) => error.hint(format!("did you mean `{near}`?")),
                    None => error.hint(format!("known fields: {}", names.collect::<Vec<_>>().join(", "))),
                };
                return Err(file.invalid(error));
            };
            let mut text = as_text(value).ok_or_else(|| {
                file.invalid(
                    ScenarioError::at(&key, "should be one value").hint("write a text, a number or a switch"),
                )
            })?;
            if setting.kind == Kind::Path {
                text = beside.join(&text).display().to_string();
            }
            setting
                .check(&text)
                .map_err(|(message, hint)| file.invalid(ScenarioError::at(&key, message).hint(hint)))?;
            let line = locate(&file.text, file.format, &key).map(|position| position.line);
            values.insert(setting.key, Value { text, origin: Origin::File(line) });
        }
    }
    Ok(found)
}

fn as_text(value: &toml::Value) -> Option<String> {
    Some(match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(switch) => switch.to_string(),
        toml::Value::Array(items) => items.iter().map(as_text).collect::<Option<Vec<_>>>()?.join(","),
        toml::Value::Datetime(_) | toml::Value::Table(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use landfall_model::scenario::Format;

    use super::*;

    fn file(text: &str) -> Input {
        Input { file: "etc/config.toml".into(), text: text.into(), format: Format::Toml }
    }

    fn nothing(_: &str) -> Option<String> {
        None
    }

    const FILE: &str =
        "[client]\nserver = \"http://file:1\"\ntoken_file = \"secret\"\n[server]\nqueue_limit = 7\n";

    #[test]
    fn flags_come_before_the_environment_before_the_file() {
        let config = Config::of(Some(file(FILE)), nothing, &[]).unwrap();
        assert_eq!(config.text("client.server"), Some("http://file:1"));
        assert_eq!(config.origin("client.server"), Origin::File(Some(2)));
        assert_eq!(config.text("client.token_file"), Some("etc/secret"));
        assert_eq!(config.parsed::<u64>("server.queue_limit"), Some(7));
        assert_eq!(config.origin("server.listen"), Origin::Default);
        let env = |name: &str| (name == "LANDFALL_SERVER").then(|| "http://env:1".to_owned());
        let config = Config::of(Some(file(FILE)), env, &[]).unwrap();
        assert_eq!(config.text("client.server"), Some("http://env:1"));
        let flags = [("client.server", Some("http://flag:1".to_owned())), ("agent.node", None)];
        let config = Config::of(Some(file(FILE)), env, &flags).unwrap();
        assert_eq!(
            (config.text("client.server"), config.origin("client.server")),
            (Some("http://flag:1"), Origin::Flag)
        );
    }

    #[test]
    fn mistakes_have_field_line_and_hint() {
        for (text, field, line, hint) in [
            ("[sevrer]\nlisten = \"x\"\n", "sevrer", 1, "did you mean `server`?"),
            ("[server]\nlistn = \"x\"\n", "server.listn", 2, "did you mean `listen`?"),
            ("[server]\n\nretention = \"soon\"\n", "server.retention", 3, "30d"),
            ("server = 1\n", "server", 1, "[server]"),
            ("[[pools]]\nid = \"a\"\ndispatch = \"psh\"\n", "pools[0].dispatch", 3, "push"),
            ("[[tenants]]\nid = \"a\"\nshre = 1\n", "tenants[0].shre", 3, "share"),
        ] {
            let Err(CliError::Invalid { error, .. }) = Config::of(Some(file(text)), nothing, &[]) else {
                panic!("{text} is accepted")
            };
            assert_eq!(error.position.map(|at| at.line), Some(line), "{text}: {error:?}");
            assert!(error.field.starts_with(field.split('.').next().unwrap()), "{error:?}");
            assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{error:?}");
        }
    }
}
