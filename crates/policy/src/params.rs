//! Parameters of terms, filters and choices: declared once with default, range and meaning, checked when a policy is
//! read.

use std::collections::BTreeMap;

use landfall_model::Millis;
use serde::Serialize;

/// What a parameter may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamKind {
    /// Any finite number in a range, both ends included.
    Number { min: f64, max: f64 },
    /// A whole number in a range, both ends included.
    Whole { min: i64, max: i64 },
    /// On or off.
    Switch,
    /// One of some words.
    Word(&'static [&'static str]),
    /// A whole number, or the word `all`.
    Limit,
    /// Any name.
    Text,
}

/// The value a parameter has unless a policy says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Default {
    Number(f64),
    /// A whole number.
    Whole(i64),
    /// On or off.
    Switch(bool),
    Word(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ParamInfo {
    pub name: &'static str,
    /// Its value unless a policy says otherwise.
    pub default: Default,
    /// What it may be.
    pub kind: ParamKind,
    /// Its unit; empty if it has none.
    pub unit: &'static str,
    /// What it does, in one sentence.
    pub description: &'static str,
}

impl ParamInfo {
    pub const fn number(
        name: &'static str,
        default: f64,
        unit: &'static str,
        description: &'static str,
    ) -> Self {
        Self::between(name, default, -1e15, 1e15, unit, description)
    }

    /// A finite number from `min` up.
    pub const fn at_least(
        name: &'static str,
        default: f64,
        min: f64,
        unit: &'static str,
        description: &'static str,
    ) -> Self {
        Self::between(name, default, min, 1e15, unit, description)
    }

    /// A finite number from `min` to `max`.
    pub const fn between(
        name: &'static str,
        default: f64,
        min: f64,
        max: f64,
        unit: &'static str,
        description: &'static str,
    ) -> Self {
        let kind = ParamKind::Number { min, max };
        Self { name, default: Default::Number(default), kind, unit, description }
    }

    /// A whole number from 0 up.
    pub const fn whole(
        name: &'static str,
        default: i64,
        unit: &'static str,
        description: &'static str,
    ) -> Self {
        let kind = ParamKind::Whole { min: 0, max: 1 << 53 };
        Self { name, default: Default::Whole(default), kind, unit, description }
    }

    pub const fn switch(name: &'static str, default: bool, description: &'static str) -> Self {
        Self { name, default: Default::Switch(default), kind: ParamKind::Switch, unit: "", description }
    }

    /// One of some words.
    pub const fn word(
        name: &'static str,
        default: &'static str,
        words: &'static [&'static str],
        description: &'static str,
    ) -> Self {
        Self { name, default: Default::Word(default), kind: ParamKind::Word(words), unit: "", description }
    }
}

/// Why a parameter's value is not accepted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct ParamError {
    pub name: String,
    /// What is wrong and what would do.
    pub message: String,
}

/// The values one part of a policy sees: its own table first, then the policy's, then the defaults.
#[derive(Debug, Clone, Copy)]
pub struct Params<'a> {
    /// The part's own table.
    pub own: &'a BTreeMap<String, toml::Value>,
    pub shared: &'a BTreeMap<String, toml::Value>,
}

impl Params<'_> {
    fn given(&self, info: &ParamInfo) -> Option<&toml::Value> {
        self.own.get(info.name).or_else(|| self.shared.get(info.name))
    }

    pub fn number(&self, info: &ParamInfo) -> Result<f64, ParamError> {
        match (self.given(info), info.default) {
            (Some(value), _) => number_of(info, value),
            (None, Default::Number(default)) => Ok(default),
            (None, Default::Whole(default)) => Ok(default as f64),
            (None, _) => Err(wrong(info, "a number")),
        }
    }

    pub fn whole(&self, info: &ParamInfo) -> Result<i64, ParamError> {
        match (self.given(info), info.default) {
            (Some(value), _) => check(info, value).map(|()| value.as_integer().unwrap_or(0)),
            (None, Default::Whole(default)) => Ok(default),
            (None, _) => Err(wrong(info, "a whole number")),
        }
    }

    pub fn switch(&self, info: &ParamInfo) -> Result<bool, ParamError> {
        match (self.given(info), info.default) {
            (Some(value), _) => check(info, value).map(|()| value.as_bool().unwrap_or(false)),
            (None, Default::Switch(default)) => Ok(default),
            (None, _) => Err(wrong(info, "true or false")),
        }
    }

    pub fn word(&self, info: &ParamInfo) -> Result<String, ParamError> {
        match (self.given(info), info.default) {
            (Some(value), _) => check(info, value).map(|()| value.as_str().unwrap_or_default().to_owned()),
            (None, Default::Word(default)) => Ok(default.to_owned()),
            (None, _) => Err(wrong(info, "a word")),
        }
    }

    /// A limit; `None` means all.
    pub fn limit(&self, info: &ParamInfo) -> Result<Option<usize>, ParamError> {
        match self.given(info) {
            Some(value) => check(info, value)
                .map(|()| value.as_integer().map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))),
            None => Ok(None),
        }
    }
}

fn wrong(info: &ParamInfo, want: &str) -> ParamError {
    ParamError { name: info.name.to_owned(), message: format!("must be {want}") }
}

fn number_of(info: &ParamInfo, value: &toml::Value) -> Result<f64, ParamError> {
    check(info, value)?;
    Ok(value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64)).unwrap_or(0.0))
}

/// Checks a value against its declaration.
pub(crate) fn check(info: &ParamInfo, value: &toml::Value) -> Result<(), ParamError> {
    let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    match info.kind {
        ParamKind::Number { min, max } => match number {
            Some(x) if x.is_finite() && (min..=max).contains(&x) => Ok(()),
            Some(x) if x.is_finite() => Err(wrong(info, &format!("from {min} to {max}, not {x}"))),
            Some(x) => Err(wrong(info, &format!("a finite number, not {x}"))),
            None => Err(wrong(info, "a number")),
        },
        ParamKind::Whole { min, max } => match value.as_integer() {
            Some(x) if (min..=max).contains(&x) => Ok(()),
            Some(x) => Err(wrong(info, &format!("from {min} to {max}, not {x}"))),
            None => Err(wrong(info, "a whole number")),
        },
        ParamKind::Switch => value.as_bool().map(|_| ()).ok_or_else(|| wrong(info, "true or false")),
        ParamKind::Word(words) => match value.as_str() {
            Some(word) if words.contains(&word) => Ok(()),
            _ => Err(wrong(info, &format!("one of {}", words.join(", ")))),
        },
        ParamKind::Limit => match (value.as_integer(), value.as_str()) {
            (Some(limit), _) if limit >= 1 => Ok(()),
            (_, Some("all")) => Ok(()),
            _ => Err(wrong(info, "a whole number from 1 up, or \"all\"")),
        },
        ParamKind::Text => value.as_str().map(|_| ()).ok_or_else(|| wrong(info, "a string")),
    }
}

/// What a parameter becomes in a rule.
pub(crate) trait Parameter: Sized {
    fn read(params: &Params<'_>, info: &ParamInfo) -> Result<Self, ParamError>;
}

impl Parameter for f64 {
    fn read(params: &Params<'_>, info: &ParamInfo) -> Result<Self, ParamError> {
        params.number(info)
    }
}

impl Parameter for bool {
    fn read(params: &Params<'_>, info: &ParamInfo) -> Result<Self, ParamError> {
        params.switch(info)
    }
}

impl Parameter for u64 {
    fn read(params: &Params<'_>, info: &ParamInfo) -> Result<Self, ParamError> {
        Ok(params.whole(info)?.unsigned_abs())
    }
}

impl Parameter for u32 {
    fn read(params: &Params<'_>, info: &ParamInfo) -> Result<Self, ParamError> {
        Ok(Self::try_from(params.whole(info)?).unwrap_or(Self::MAX))
    }
}

impl Parameter for Millis {
    fn read(params: &Params<'_>, info: &ParamInfo) -> Result<Self, ParamError> {
        u64::read(params, info).map(Self::new)
    }
}

impl Parameter for String {
    fn read(params: &Params<'_>, info: &ParamInfo) -> Result<Self, ParamError> {
        params.word(info)
    }
}

/// A rule with parameters: its type, what the catalogue says about them (`PARAMS`) and how a policy builds it.
///
/// A field with a declaration is called like its parameter, so its name is public and persisted. A field may also name a
/// constant: a parameter that several rules read.
macro_rules! rule {
    ($kind:ident $rule:ident { $($field:ident: $type:ty = $of:ident $(($($said:expr),+ $(,)?))?,)+ }) => {
        struct $rule { $($field: $type,)+ }

        impl $rule {
            const PARAMS: &'static [crate::params::ParamInfo] =
                &[$(rule!(@ $field $of $(($($said),+))?),)+];

            fn build(
                params: &crate::params::Params<'_>,
            ) -> Result<Box<dyn $kind>, crate::params::ParamError> {
                Ok(Box::new(Self {
                    $($field: crate::params::Parameter::read(params, &rule!(@ $field $of $(($($said),+))?))?,)+
                }))
            }
        }
    };
    (@ $field:ident $make:ident ($($said:expr),+)) => {
        crate::params::ParamInfo::$make(stringify!($field), $($said),+)
    };
    (@ $field:ident $info:ident) => { $info };
}
pub(crate) use rule;
