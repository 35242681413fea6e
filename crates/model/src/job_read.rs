//! How jobs are read and written. All that has the fields of a job shares one reader: derived code for each would be most
//! of what this crate compiles to.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::job_fields::NeedKey;
use crate::{JobSpec, Mib, MilliCpu, Needs, Requeue};

/// Fields of a single job, which its needs do not have.
pub(crate) const JOB_KEYS: &[&str] = &[
    "id",
    "count",
    "submitted_at_ms",
    "queued_at_ms",
    "ready_at_ms",
    "waits_for",
    "retry_at_ms",
    "rescore_count",
    "round",
    "digest",
];

/// What has the fields of a job, and which other fields it has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Form {
    /// Of a journal: what is not known was known to another version.
    Spec,
    Needs,
    Job,
    Workload,
}

/// Names by which the command line calls needs, and fields of them: files may say these instead, with units.
const PLAIN: &[(&str, &str)] = &[
    ("cpu", "cpu_milli"),
    ("memory", "ram_mib"),
    ("gpu", "gpu_count"),
    ("gpu_memory", "vram_mib"),
    ("storage", "storage_mib"),
    ("walltime", "walltime_ms"),
    ("retries", "max_requeue"),
    ("retry_delay", "retry_delay_ms"),
];

pub(crate) enum Key {
    Need(NeedKey),
    /// A need by its plain name.
    Plain(&'static str),
    Own(&'static str),
    Skipped,
}

impl Form {
    fn own(self) -> &'static [&'static str] {
        match self {
            Self::Spec | Self::Needs => &[],
            Self::Job => JOB_KEYS,
            Self::Workload => &["id", "prediction"],
        }
    }

    fn has(self, need: &str) -> bool {
        self != Self::Workload || need != "workload"
    }

    fn key<E: Error>(self, name: &str) -> Result<Key, E> {
        if let Some(own) = self.own().iter().find(|own| **own == name) {
            return Ok(Key::Own(own));
        }
        if let Some((plain, _)) = PLAIN.iter().find(|(plain, _)| *plain == name && self != Self::Spec) {
            return Ok(Key::Plain(plain));
        }
        match NeedKey::of(name).filter(|_| self.has(name)) {
            Some(need) => Ok(Key::Need(need)),
            None if self == Self::Spec => Ok(Key::Skipped),
            None if self == Self::Needs && JOB_KEYS.contains(&name) => {
                Err(E::custom(format_args!("`{name}` is set by the server")))
            }
            None => {
                let needs = Needs::FIELDS.iter().map(|field| field.name).filter(|need| self.has(need));
                let needs = needs.chain(PLAIN.iter().map(|(plain, _)| *plain));
                let known: Vec<String> =
                    self.own().iter().copied().chain(needs).map(|name| format!("`{name}`")).collect();
                Err(E::custom(format_args!("unknown field `{name}`, expected one of {}", known.join(", "))))
            }
        }
    }

    /// Reads needs, and lets `own` take what else there is.
    pub(crate) fn read<'de, A: MapAccess<'de>>(
        self,
        mut map: A,
        mut own: impl FnMut(&'static str, &mut A) -> Result<(), A::Error>,
    ) -> Result<Needs, A::Error> {
        let mut needs = Needs::default();
        while let Some(key) = map.next_key_seed(self)? {
            match key {
                Key::Need(key) => needs.take(key, &mut map)?,
                Key::Plain(name) => needs.take_plain(name, map.next_value()?)?,
                Key::Own(key) => own(key, &mut map)?,
                Key::Skipped => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(needs)
    }
}

// An unknown name is refused while it is read, so that errors know its place.
impl<'de> DeserializeSeed<'de> for Form {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Form {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Key, E> {
        self.key(name)
    }
}

/// A number, or text.
enum Said {
    Number(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Plainly;
        impl Visitor<'_> for Plainly {
            type Value = Said;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or text with a unit")
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Said, E> {
                Ok(Said::Number(value as f64))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Said, E> {
                Ok(Said::Number(value as f64))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Said, E> {
                Ok(Said::Number(value))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Said, E> {
                Ok(Said::Text(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Plainly)
    }
}

impl Needs {
    /// Takes a need by its plain name: cores and counts are numbers, everything else says its unit.
    fn take_plain<E: Error>(&mut self, name: &'static str, said: Said) -> Result<(), E> {
        let field = PLAIN.iter().find(|(plain, _)| *plain == name).map_or(name, |(_, field)| field);
        let unit = || {
            E::custom(format_args!(
                "`{name}` needs a unit, such as {}",
                match name {
                    "walltime" | "retry_delay" => "2h or 30s",
                    _ => "4GiB",
                }
            ))
        };
        let wrong = |error: String| E::custom(format_args!("`{name}`: {error}"));
        let amount = |said: Said| match said {
            Said::Number(_) => Err(unit()),
            Said::Text(text) => text.parse::<Mib>().map_err(|error| wrong(error.to_string())),
        };
        let span = |said: Said| match said {
            Said::Number(_) => Err(unit()),
            Said::Text(text) => crate::span(&text).map_err(wrong),
        };
        let whole = |said: Said| match said {
            Said::Number(number) if number.fract() == 0.0 && (0.0..=1e9).contains(&number) => {
                Ok(number as u32)
            }
            _ => Err(wrong("write a whole number".to_owned())),
        };
        let fresh = match name {
            "cpu" => {
                let text = match said {
                    Said::Number(number) => format!("{number} cores"),
                    Said::Text(text) if text.parse::<f64>().is_ok() => format!("{text} cores"),
                    Said::Text(text) => text,
                };
                let cores = text.parse::<MilliCpu>().map_err(|error| wrong(error.to_string()))?;
                self.cpu_milli.replace(cores).is_none()
            }
            "memory" => self.ram_mib.replace(amount(said)?).is_none(),
            "gpu_memory" => self.vram_mib.replace(amount(said)?).is_none(),
            "storage" => self.storage_mib.replace(amount(said)?).is_none(),
            "gpu" => self.gpu_count.replace(whole(said)?).is_none(),
            "retries" => {
                let number = whole(said)?;
                // Somebody who allows retries and says no more means every failure.
                if number > 0 {
                    self.requeue.get_or_insert(Requeue::Always);
                }
                self.max_requeue.replace(number).is_none()
            }
            "walltime" => self.walltime_ms.replace(span(said)?).is_none(),
            _ => self.retry_delay_ms.replace(span(said)?).is_none(),
        };
        if fresh { Ok(()) } else { Err(E::duplicate_field(field)) }
    }
}

/// Takes the value of a field; `null` says nothing.
pub(crate) fn give<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    name: &'static str,
    field: &mut Option<T>,
    map: &mut A,
) -> Result<(), A::Error> {
    if field.is_some() {
        return Err(A::Error::duplicate_field(name));
    }
    *field = map.next_value()?;
    Ok(())
}

struct Plain(Form);

impl<'de> Visitor<'de> for Plain {
    type Value = Needs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the needs of a job")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Needs, A::Error> {
        self.0.read(map, |_, _| Ok(()))
    }
}

impl<'de> Deserialize<'de> for Needs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Plain(Form::Needs))
    }
}

impl<'de> Deserialize<'de> for JobSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Plain(Form::Spec)).map(|needs| needs.onto(&Self::empty()))
    }
}

impl Serialize for Needs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.write(&mut map)?;
        map.end()
    }
}
