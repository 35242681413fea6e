//! How jobs are read and written. All that has the fields of a job shares one reader: derived code for each would be most
//! of what this crate compiles to.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::job_fields::NeedKey;
use crate::{JobSpec, Needs};

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

pub(crate) enum Key {
    Need(NeedKey),
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
        match NeedKey::of(name).filter(|_| self.has(name)) {
            Some(need) => Ok(Key::Need(need)),
            None if self == Self::Spec => Ok(Key::Skipped),
            None if self == Self::Needs && JOB_KEYS.contains(&name) => {
                Err(E::custom(format_args!("`{name}` is set by the server")))
            }
            None => {
                let needs = Needs::FIELDS.iter().map(|field| field.name).filter(|need| self.has(need));
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
