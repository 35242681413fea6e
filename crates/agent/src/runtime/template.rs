//! Further runtimes as command templates.
//!
//! A word that is a placeholder and nothing else becomes as many words as it stands for (`{command}`, `{args}`: none, one
//! or many); inside a longer word they are joined by spaces. Nothing is ever given to a shell.

use std::collections::BTreeMap;

use landfall_api::agent::Start;

use super::env;

/// A runtime that people configure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Template {
    /// Program and arguments with placeholders: `{command}` (all words of the job), `{args}` (all but the first),
    /// `{cpus}`, `{ram_mib}`, `{gpus}`, `{job}`, `{cwd}`, `{image}`, `{model}`, `{module}`.
    pub command: Vec<String>,
}

/// Placeholders that people may use.
const PLACEHOLDERS: [&str; 10] =
    ["command", "args", "cpus", "ram_mib", "gpus", "job", "cwd", "image", "model", "module"];

impl Template {
    /// Checks that the template has a program and no placeholder that nobody knows.
    pub fn check(&self) -> Result<(), String> {
        if self.command.first().is_none_or(|program| program.trim().is_empty()) {
            return Err("it has no program".to_owned());
        }
        let known = PLACEHOLDERS.map(|name| (name, Vec::new())).into();
        for word in &self.command {
            let rest = expand(word, &known).concat();
            if let Some(name) =
                rest.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(name, _)| name)
                && !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            {
                let names = PLACEHOLDERS.join("}, {");
                return Err(format!("{{{name}}} is no placeholder; there are {{{names}}}"));
            }
        }
        Ok(())
    }

    /// The command for a job.
    pub fn fill(&self, start: &Start, cwd: &str) -> Vec<String> {
        let one = |value: String| vec![value];
        let text = |value: &Option<String>| value.clone().into_iter().collect::<Vec<_>>();
        let values = BTreeMap::from([
            ("command", start.run.command.clone()),
            ("args", start.run.command.iter().skip(1).cloned().collect()),
            ("cpus", one(env::cpus(start.share.cpu_milli.max(1)))),
            ("ram_mib", one(start.share.ram_mib.to_string())),
            ("gpus", one(env::gpus(&start.share.gpus))),
            ("job", one(start.fence.job.as_str().to_owned())),
            ("cwd", one(cwd.to_owned())),
            ("image", text(&start.run.image)),
            ("model", text(&start.run.model)),
            ("module", text(&start.run.module)),
        ]);
        self.command.iter().flat_map(|word| expand(word, &values)).collect()
    }
}

fn expand(word: &str, values: &BTreeMap<&str, Vec<String>>) -> Vec<String> {
    let whole = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
    if let Some(words) = whole.and_then(|name| values.get(name)) {
        return words.clone();
    }
    // From left to right in one pass, so that what a job says is never taken for a placeholder.
    let mut filled = String::new();
    let mut rest = word;
    while let Some(open) = rest.find('{') {
        filled.push_str(&rest[..open]);
        rest = &rest[open..];
        let name = rest[1..].split('}').next().unwrap_or_default();
        if let (Some(words), true) = (values.get(name), rest.len() > name.len() + 1) {
            filled.push_str(&words.join(" "));
            rest = &rest[name.len() + 2..];
        } else {
            filled.push('{');
            rest = &rest[1..];
        }
    }
    filled.push_str(rest);
    vec![filled]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tests::start;

    fn template(words: &[&str]) -> Template {
        Template { command: words.iter().map(|word| (*word).to_owned()).collect() }
    }

    #[test]
    fn placeholders_become_words() {
        let mut start = start("gvisor", &["run", "a b", "{job}"]);
        start.share.cpu_milli = 2500;
        start.share.ram_mib = 64;
        start.run.image = Some("alpine".into());
        for (words, filled) in [
            (&["x", "{command}"][..], &["x", "run", "a b", "{job}"][..]),
            (&["x", "{args}"], &["x", "a b", "{job}"]),
            (&["x", "--cpu={cpus}", "-m{ram_mib}m"], &["x", "--cpu=2.5", "-m64m"]),
            (&["x", "c: {command}"], &["x", "c: run a b {job}"]),
            (&["x", "{model}", "{image}"], &["x", "alpine"]),
            (&["x", "{job}@{cwd}", "{nothing} {", "{}"], &["x", "job-1@/w", "{nothing} {", "{}"]),
        ] {
            assert_eq!(template(words).fill(&start, "/w"), filled, "{words:?}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert!(template(&["x", "{command}", "a{gpus}b", "{}", "{1}"]).check().is_ok());
        assert!(template(&[]).check().is_err());
        assert!(template(&["x", "{comand}"]).check().unwrap_err().contains("{comand}"));
    }
}
