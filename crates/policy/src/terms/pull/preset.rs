//! The parameter `preset`: whether three rules follow the published description or their later published behaviour.

use crate::params::{ParamError, ParamInfo, Parameter, Params};

/// The parameter; a policy sets it once for all rules that read it.
pub(super) const PRESET: ParamInfo = ParamInfo::word(
    "preset",
    "documented",
    &["documented", "upstream"],
    "Whether rules follow the published description or their later published behaviour.",
);

/// Which behaviour is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preset {
    /// As described.
    Documented,
    /// As later published.
    Upstream,
}

impl Parameter for Preset {
    fn read(params: &Params<'_>, info: &ParamInfo) -> Result<Self, ParamError> {
        Ok(match params.word(info)?.as_str() {
            "upstream" => Self::Upstream,
            _ => Self::Documented,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn preset(word: Option<&str>) -> Result<Preset, ParamError> {
        let own = BTreeMap::new();
        let shared = word.map(|word| ("preset".to_owned(), toml::Value::from(word))).into_iter().collect();
        Preset::read(&Params { own: &own, shared: &shared }, &PRESET)
    }

    #[test]
    fn the_policy_names_it_and_an_unknown_one_is_an_error() {
        assert_eq!(preset(None), Ok(Preset::Documented));
        assert_eq!(preset(Some("documented")), Ok(Preset::Documented));
        assert_eq!(preset(Some("upstream")), Ok(Preset::Upstream));
        assert!(preset(Some("other")).unwrap_err().message.contains("documented, upstream"));
    }
}
