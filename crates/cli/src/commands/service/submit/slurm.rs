//! `#SBATCH` directives as flags of `landfall submit`.
//!
//! Every option of Slurm is in one table. It is used, or it is named: what only concerns mail, accounting, bindings and the like is left
//! out with a warning, what would change what the job gets or when it runs and has no counterpart here is refused. Nothing is dropped in
//! silence, and what nobody knows is refused as a slip.

use std::collections::BTreeMap;

use landfall_model::scenario::closest;

use super::script::Wrong;
use crate::render::clock::parse_date;

/// Whether an option takes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    May,
    Must,
}

/// What becomes of an option.
#[derive(Clone, Copy)]
enum Fate {
    Used,
    /// It is left out, and that is said.
    Left(&'static str),
    /// It is refused; this is what to do instead.
    Refused(&'static str),
}

use Fate::{Left, Refused, Used};
use Value::{May, Must, None as Bare};

const MAIL: &str = "no mail is sent; `landfall wait` ends when it does";
const SHARES: &str = "the pool and its policy decide about order";
const BINDING: &str = "nothing is bound to sockets or threads; --pin gives a job cores of its own";
const WHERE: &str = "nodes are chosen by what a job needs: use --pool or --need features=[\"NAME\"]";

/// Name, letter, value, fate.
const OPTIONS: &[(&str, char, Value, Fate)] = &[
    ("account", 'A', Must, Used),
    ("array", 'a', Must, Used),
    ("begin", 'b', Must, Used),
    ("chdir", 'D', Must, Used),
    ("constraint", 'C', Must, Used),
    ("cpus-per-gpu", ' ', Must, Used),
    ("cpus-per-task", 'c', Must, Used),
    ("dependency", 'd', Must, Used),
    ("error", 'e', Must, Used),
    ("exclusive", ' ', May, Used),
    ("export", ' ', Must, Used),
    ("gpus", 'G', Must, Used),
    ("gpus-per-node", ' ', Must, Used),
    ("gpus-per-task", ' ', Must, Used),
    ("gres", ' ', Must, Used),
    ("hold", 'H', Bare, Used),
    ("input", 'i', Must, Used),
    ("job-name", 'J', Must, Used),
    ("kill-on-invalid-dep", ' ', Must, Used),
    ("mem", ' ', Must, Used),
    ("mem-per-cpu", ' ', Must, Used),
    ("mem-per-gpu", ' ', Must, Used),
    ("mincpus", ' ', Must, Used),
    ("no-requeue", ' ', Bare, Used),
    ("nodes", 'N', Must, Used),
    ("ntasks", 'n', Must, Used),
    ("ntasks-per-node", ' ', Must, Used),
    ("open-mode", ' ', Must, Used),
    ("output", 'o', Must, Used),
    ("partition", 'p', Must, Used),
    ("requeue", ' ', Bare, Used),
    ("time", 't', Must, Used),
    ("acctg-freq", ' ', Must, Left("usage is measured anyway")),
    ("comment", ' ', Must, Left("jobs have no comments; --name says what it is")),
    ("contiguous", ' ', Bare, Left("say --need hint=tight")),
    ("core-spec", 'S', Must, Left(BINDING)),
    ("cores-per-socket", ' ', Must, Left(BINDING)),
    ("cpu-bind", ' ', Must, Left(BINDING)),
    ("cpu-freq", ' ', Must, Left("clocks are as they are")),
    ("deadline", ' ', Must, Left("nothing is removed for being late")),
    ("distribution", 'm', Must, Left(BINDING)),
    ("extra-node-info", 'B', Must, Left(BINDING)),
    ("get-user-env", ' ', May, Left("say --export ALL for your environment")),
    ("gpu-bind", ' ', Must, Left("CUDA_VISIBLE_DEVICES names the GPUs of a job")),
    ("gpu-freq", ' ', Must, Left("clocks are as they are")),
    ("hint", ' ', Must, Left(BINDING)),
    ("ignore-pbs", ' ', Bare, Left("#PBS is not read anyway")),
    ("mail-type", ' ', Must, Left(MAIL)),
    ("mail-user", ' ', Must, Left(MAIL)),
    ("mem-bind", ' ', Must, Left(BINDING)),
    ("network", ' ', Must, Left("the network is as it is")),
    ("nice", ' ', May, Left(SHARES)),
    ("no-kill", 'k', May, Left("a gang that loses a node starts anew")),
    ("ntasks-per-core", ' ', Must, Left(BINDING)),
    ("ntasks-per-socket", ' ', Must, Left(BINDING)),
    ("overcommit", 'O', Bare, Left("ask for fewer cores instead")),
    ("oversubscribe", 's', Bare, Left("jobs share nodes unless they say --exclusive")),
    ("parsable", ' ', Bare, Left("say --quiet for the id alone")),
    ("prefer", ' ', Must, Left("only needs count, not wishes")),
    ("priority", ' ', Must, Left(SHARES)),
    ("profile", ' ', Must, Left("usage is measured anyway")),
    ("propagate", ' ', May, Left("limits are those of the node")),
    ("qos", 'q', Must, Left(SHARES)),
    ("quiet", 'Q', Bare, Left("say --quiet on the command line")),
    ("reboot", ' ', Bare, Left("nodes are not started anew")),
    ("resv-ports", ' ', May, Left("ports are not given out")),
    ("signal", ' ', Must, Left("no signal comes before the walltime; see --checkpoint")),
    ("sockets-per-node", ' ', Must, Left(BINDING)),
    ("spread-job", ' ', Bare, Left("say --need hint=spread")),
    ("switches", ' ', Must, Left("say --need max_span=N")),
    ("test-only", ' ', Bare, Left("say --dry-run on the command line")),
    ("threads-per-core", ' ', Must, Left(BINDING)),
    ("time-min", ' ', Must, Left("the walltime is as asked")),
    ("use-min-nodes", ' ', Bare, Left("it gets the fewest nodes that are free")),
    ("verbose", 'v', Bare, Left("`landfall explain` says why a job waits")),
    ("wait", 'W', Bare, Left("say --wait on the command line")),
    ("wait-all-nodes", ' ', Must, Left("a gang starts on all its nodes")),
    ("wckey", ' ', Must, Left("say --tenant for whom it counts")),
    ("bb", ' ', Must, Refused("there are no burst buffers")),
    ("bbf", ' ', Must, Refused("there are no burst buffers")),
    ("clusters", 'M', Must, Refused("say --server for another server")),
    ("container", ' ', Must, Refused("say --image with a command")),
    ("exclude", 'x', Must, Refused(WHERE)),
    ("export-file", ' ', Must, Refused("say --export or --env")),
    ("gid", ' ', Must, Refused("jobs run as the agent's user")),
    (
        "licenses",
        'L',
        Must,
        Refused("there are no licences; --need mutex=[\"NAME\"] lets one job at a time run"),
    ),
    ("nodefile", 'F', Must, Refused(WHERE)),
    ("nodelist", 'w', Must, Refused(WHERE)),
    ("ntasks-per-gpu", ' ', Must, Refused("say --ntasks-per-node and --gpus-per-node")),
    ("reservation", ' ', Must, Refused("there are no reservations by name; a pool of its own does that")),
    ("tmp", ' ', Must, Refused("nodes do not say how much disk they have")),
    ("tres-per-task", ' ', Must, Refused("say --cpus-per-task and --gpus-per-task")),
    ("uid", ' ', Must, Refused("jobs run as the agent's user")),
];

/// What to write for an option of `sbatch` on a command line of ours, where it has another name.
const OURS: &[(&str, &str)] = &[
    ("account", "--tenant LAB"),
    ("array", "--array 1-9"),
    ("begin", "--not-before +2h"),
    ("chdir", "--cwd DIR"),
    ("constraint", "--need 'features=[\"NAME\"]'"),
    ("cpus-per-task", "--cpu 4"),
    ("dependency", "--depends-on 12"),
    ("gpus", "--gpu 2"),
    ("gpus-per-node", "--gpu 2"),
    ("gres", "--gpu 2"),
    ("input", "--stdin-file FILE"),
    ("job-name", "--name NAME"),
    ("mem-per-cpu", "--memory 4G"),
    ("no-requeue", "--need requeue=never"),
    ("nodes", "--nodes 2"),
    ("ntasks", "--cpu 4"),
    ("parsable", "--quiet"),
    ("partition", "--pool POOL"),
    ("test-only", "--dry-run"),
    ("time", "--walltime 30min"),
    ("wrap", "-- sh -c 'COMMAND'"),
];

/// What somebody should write who writes an option of `sbatch`.
pub(crate) fn ours(flag: &str) -> Option<&'static str> {
    let name = match (flag.strip_prefix("--"), flag.strip_prefix('-')) {
        (Some(long), _) => long,
        (None, letter) => {
            let letter = letter?.chars().next()?;
            OPTIONS.iter().find(|(_, known, ..)| *known == letter).map(|(name, ..)| *name)?
        }
    };
    OURS.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours)
}

/// Names that Slurm understands besides.
const ALIASES: &[(&str, &str)] =
    &[("tasks-per-node", "ntasks-per-node"), ("workdir", "chdir"), ("share", "oversubscribe")];

/// What the directives of a script say, by name, with the line of each.
#[derive(Debug, Default)]
pub(super) struct Header {
    said: BTreeMap<&'static str, (String, usize)>,
    pub(super) warnings: Vec<String>,
}

impl Header {
    /// Takes the words of one line.
    pub(super) fn read(&mut self, words: Vec<String>, line: usize, skip: &[String]) -> Result<(), Wrong> {
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let wrong = |message: String, hint: String| Err(Wrong { line, message, hint });
            let (name, attached) = match (word.strip_prefix("--"), word.strip_prefix('-')) {
                (Some(long), _) => match long.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (long.to_owned(), None),
                },
                (None, Some(short)) => {
                    let mut letters = short.chars();
                    let letter = letters.next().unwrap_or(' ');
                    let known = OPTIONS.iter().find(|(_, known, ..)| *known == letter && letter != ' ');
                    let rest = letters.as_str().trim_start_matches('=').to_owned();
                    let name = known.map_or(format!("-{letter}"), |(name, ..)| (*name).to_owned());
                    (name, Some(rest).filter(|rest| !rest.is_empty()))
                }
                _ => {
                    return wrong(
                        format!("`{word}` is no option of sbatch"),
                        "write it as --name=value".into(),
                    );
                }
            };
            let name =
                ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name.as_str(), |(_, name)| name);
            let skipped = skip.iter().any(|skipped| skipped.trim_start_matches('-') == name);
            let Some((name, _, takes, fate)) = OPTIONS.iter().find(|(known, ..)| *known == name) else {
                if skipped {
                    break;
                }
                let near = closest(name, OPTIONS.iter().map(|(known, ..)| *known));
                let skip = format!("--skip {name} leaves it out");
                let hint = near.map_or(skip.clone(), |near| format!("did you mean --{near}? {skip}"));
                return wrong(format!("sbatch has no option `{}`", shown(name)), hint);
            };
            let value = match (takes, attached) {
                (Value::None, Some(value)) => {
                    return wrong(
                        format!("--{name} takes no value, and `{value}` is one"),
                        "leave it out".into(),
                    );
                }
                (_, Some(value)) => value,
                (Must, None) => match words.next_if(|next| !next.starts_with("--")) {
                    Some(value) => value,
                    None => return wrong(format!("--{name} needs a value"), format!("write --{name}=VALUE")),
                },
                (_, None) => String::new(),
            };
            match fate {
                _ if skipped => {}
                Used => drop(self.said.insert(name, (value, line))),
                Left(why) => self.warnings.push(format!("line {line}: --{name} has no effect here: {why}")),
                Refused(instead) => {
                    let message = format!("--{name} cannot be done here: {instead}");
                    return wrong(message, format!("change the script, or leave it out with --skip {name}"));
                }
            }
        }
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.said.get(name).map(|(value, _)| value.as_str())
    }

    fn wrong(&self, name: &str, message: impl Into<String>, hint: impl Into<String>) -> Wrong {
        let (value, line) = self.said.get(name).cloned().unwrap_or_default();
        let message = format!("--{name} {value}: {}", message.into());
        Wrong { line, message, hint: hint.into() }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Wrong> {
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| (1..=1_000_000).contains(number));
        match self.get(name) {
            None => Ok(None),
            Some(text) => {
                number(text).map(Some).ok_or_else(|| self.wrong(name, "no whole number above 0", ""))
            }
        }
    }

    /// The same in flags of `landfall submit`.
    pub(super) fn flags(&mut self) -> Result<Vec<String>, Wrong> {
        let mut flags = Flags::default();
        let nodes = self.nodes(&mut flags)?;
        let (gpus, cores) = self.cores_and_gpus(nodes, &mut flags)?;
        self.memory(cores, gpus, &mut flags)?;
        for (name, flag) in [
            ("job-name", "--name"),
            ("account", "--tenant"),
            ("input", "--stdin-file"),
            ("export", "--export"),
        ] {
            if let Some(value) = self.get(name) {
                flags.say(flag, value);
            }
        }
        if let Some(value) = self.get("chdir") {
            flags.say("--cwd", value);
        }
        for (name, flag) in [("output", "--output"), ("error", "--error")] {
            if let Some(value) = self.get(name) {
                let file = pattern(value).map_err(|(message, hint)| self.wrong(name, message, hint))?;
                flags.say(flag, &file);
            }
        }
        if let Some(value) = self.get("partition") {
            if value.contains(',') {
                let hint = "name one, or say --pool on the command line and --skip partition";
                return Err(self.wrong("partition", "a job is for one pool", hint));
            }
            flags.say("--pool", value);
        }
        if let Some(value) = self.get("time") {
            match time(value) {
                Some(0) => self.warnings.push("--time without a limit: the pool's default holds".to_owned()),
                Some(seconds) => flags.say("--walltime", &format!("{seconds}s")),
                None => return Err(self.wrong("time", "no time", "write MINUTES, H:MM:SS or D-HH:MM:SS")),
            }
        }
        if let Some(value) = self.get("array") {
            flags.say("--array", value);
        }
        if let Some(value) = self.get("begin").map(str::to_owned) {
            if parse_date(&value).is_some() {
                flags.say("--not-before", &value);
                self.warnings.push(format!("--begin={value} is read in UTC"));
            } else {
                let span = begin(&value).ok_or_else(|| {
                    let message = "only spans from now and dates are understood";
                    self.wrong("begin", message, "write now+2hours or YYYY-MM-DDTHH:MM (UTC)")
                })?;
                if span > 0 {
                    flags.say("--not-before", &format!("+{span}s"));
                }
            }
        }
        self.treatment(&mut flags)?;
        Ok(flags.0)
    }

    /// Nodes, fewest and most.
    fn nodes(&self, flags: &mut Flags) -> Result<u64, Wrong> {
        let Some(value) = self.get("nodes") else { return Ok(1) };
        let (fewest, most) = value.split_once('-').unwrap_or((value, value));
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
        match (number(fewest), number(most)) {
            (Some(fewest), Some(most)) if fewest == most => {
                if fewest > 1 {
                    flags.say("--nodes", &fewest.to_string());
                }
                Ok(fewest.into())
            }
            (Some(fewest), Some(most)) if fewest < most => {
                flags.need("nodes", &format!("{{\"min\": {fewest}, \"max\": {most}}}"));
                Ok(fewest.into())
            }
            _ => Err(self.wrong("nodes", "no number of nodes", "write N or FEWEST-MOST")),
        }
    }

    /// What one node has of both. Tasks are spread evenly over the nodes, and a job that names no nodes gets one.
    fn cores_and_gpus(&self, nodes: u64, flags: &mut Flags) -> Result<(u64, u64), Wrong> {
        let tasks = match (self.number("ntasks-per-node")?, self.number("ntasks")?) {
            (Some(each), _) => each,
            (None, Some(all)) => all.div_ceil(nodes),
            (None, None) => 1,
        };
        let (mut gpus, mut model) = (0, None);
        let mut ask = |number: u64, of: Option<String>| {
            gpus = gpus.max(number);
            model = of.or(model.take());
        };
        if let Some(value) = self.get("gres").filter(|value| *value != "none") {
            for one in value.split(',') {
                let one = one.strip_prefix("gres:").unwrap_or(one);
                let Some(rest) = one.strip_prefix("gpu") else {
                    let hint =
                        "only gpu is known; nodes may name others as features: --need features=[\"NAME\"]";
                    return Err(self.wrong("gres", "no generic resource of these nodes", hint));
                };
                let rest = rest.strip_prefix(':').unwrap_or(rest);
                let (number, of) = gpu(rest).ok_or_else(|| self.bad_gpus("gres"))?;
                ask(number, of);
            }
        }
        for (name, each) in [("gpus-per-node", 1), ("gpus-per-task", tasks), ("gpus", 1)] {
            let Some(value) = self.get(name) else { continue };
            let (number, of) = gpu(value).ok_or_else(|| self.bad_gpus(name))?;
            match name {
                "gpus" if !number.is_multiple_of(nodes) => {
                    let message = format!("{number} GPUs cannot be shared out evenly over {nodes} nodes");
                    return Err(self.wrong(name, message, "say --gpus-per-node"));
                }
                "gpus" => ask(number / nodes, of),
                _ => ask(number * each, of),
            }
        }
        if gpus > 0 {
            flags.say("--gpu", &gpus.to_string());
        }
        if let Some(model) = &model {
            flags.need("gpu_models", &format!("[{}]", serde_json::Value::from(model.as_str())));
        }
        let each = self.number("cpus-per-task")?;
        let for_gpus = self.number("cpus-per-gpu")?.map_or(0, |each| each * gpus);
        let cores = (tasks * each.unwrap_or(1)).max(for_gpus).max(self.number("mincpus")?.unwrap_or(0));
        if ["ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mincpus"]
            .iter()
            .any(|name| self.get(name).is_some())
        {
            flags.say("--cpu", &cores.to_string());
        }
        for (name, value) in [
            ("SLURM_NTASKS", Some(self.number("ntasks")?.unwrap_or(tasks * nodes))),
            ("SLURM_NTASKS_PER_NODE", self.number("ntasks-per-node")?),
            ("SLURM_CPUS_PER_TASK", each),
        ] {
            if let Some(value) = value {
                flags.say("--env", &format!("{name}={value}"));
            }
        }
        Ok((gpus, cores))
    }

    fn bad_gpus(&self, name: &str) -> Wrong {
        self.wrong(name, "no number of GPUs", "write N or MODEL:N")
    }

    fn memory(&self, cores: u64, gpus: u64, flags: &mut Flags) -> Result<(), Wrong> {
        let mut most = 0;
        for (name, times) in [("mem", 1), ("mem-per-cpu", cores), ("mem-per-gpu", gpus)] {
            let Some(value) = self.get(name) else { continue };
            let kib = size(value).ok_or_else(|| self.wrong(name, "no size", "write 4G or 4000M"))?;
            if kib == 0 && self.get("exclusive").is_none() {
                let message = "all memory of a node goes with --exclusive only";
                return Err(self.wrong(name, message, "say how much, or say --exclusive"));
            }
            most = most.max(kib.saturating_mul(times));
        }
        if most > 0 {
            flags.say("--memory", &format!("{}MiB", most.div_ceil(1024)));
        }
        Ok(())
    }

    fn treatment(&mut self, flags: &mut Flags) -> Result<(), Wrong> {
        match self.get("exclusive") {
            None => {}
            Some("") => flags.0.push("--exclusive".to_owned()),
            Some(_) => {
                return Err(self.wrong(
                    "exclusive",
                    "a node is taken whole or shared with all",
                    "say --exclusive alone",
                ));
            }
        }
        if self.get("hold").is_some() {
            flags.0.push("--hold".to_owned());
        }
        match (self.said.get("requeue"), self.said.get("no-requeue")) {
            (Some((_, yes)), Some((_, no))) if yes > no => flags.need("requeue", "on_loss"),
            (_, Some(_)) => flags.need("requeue", "never"),
            (Some(_), None) => flags.need("requeue", "on_loss"),
            (None, None) => {}
        }
        if self.get("open-mode") == Some("append") {
            self.warnings.push(
                "--open-mode=append has no effect here: files are written from their beginning".to_owned(),
            );
        }
        if self.get("kill-on-invalid-dep") == Some("no") {
            self.warnings.push(
                "--kill-on-invalid-dep=no has no effect here: what can never start is cancelled".to_owned(),
            );
        }
        if let Some(value) = self.get("constraint") {
            let names: Vec<&str> = value.split(['&', ',']).collect();
            if names.iter().any(|name| name.is_empty() || name.contains(['|', '[', ']', '(', ')', '*', '!']))
            {
                return Err(self.wrong(
                    "constraint",
                    "only features that all nodes have are understood",
                    "write a&b",
                ));
            }
            flags.need("features", &serde_json::json!(names).to_string());
        }
        let Some(value) = self.get("dependency").map(str::to_owned) else { return Ok(()) };
        let hint = "write afterok:ID, afterany:ID, afternotok:ID, aftercorr:ID or singleton";
        if value.contains('?') && value.contains(',') {
            return Err(self.wrong("dependency", "`,` and `?` do not go together", hint));
        }
        if value.contains('?') {
            flags.0.push("--any".to_owned());
        }
        for one in value.split([',', '?']) {
            if one == "singleton" {
                let name = self.get("job-name").unwrap_or("singleton").to_owned();
                flags.need("mutex", &serde_json::json!([name]).to_string());
                continue;
            }
            let mut parts = one.split(':');
            let what = match parts.next().unwrap_or_default() {
                "afterok" => "success",
                "afterany" => "any",
                "afternotok" => "failure",
                "aftercorr" => "corresponding",
                _ => return Err(self.wrong("dependency", format!("`{one}` is not understood"), hint)),
            };
            let ids: Vec<&str> = parts.collect();
            if ids.is_empty() || ids.iter().any(|id| id.is_empty() || id.contains('+')) {
                return Err(self.wrong("dependency", format!("`{one}` is not understood"), hint));
            }
            for id in ids {
                flags.say("--depends-on", &format!("{}:{what}", id.replace('_', ".")));
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Flags(Vec<String>);

impl Flags {
    /// With `=`, so that nothing of a value is taken for a flag.
    fn say(&mut self, flag: &str, value: &str) {
        self.0.push(format!("{flag}={value}"));
    }

    fn need(&mut self, field: &str, value: &str) {
        self.say("--need", &format!("{field}={value}"));
    }
}

fn shown(name: &str) -> String {
    if name.starts_with('-') { name.to_owned() } else { format!("--{name}") }
}

/// `2`, `a100`, `a100:2`, or nothing for one.
fn gpu(text: &str) -> Option<(u64, Option<String>)> {
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number <= 1024);
    match text.rsplit_once(':') {
        _ if text.is_empty() => Some((1, None)),
        None => match number(text) {
            Some(count) => Some((count, None)),
            None => text
                .starts_with(|first: char| first.is_ascii_alphabetic())
                .then(|| (1, Some(text.to_owned()))),
        },
        Some((model, count)) => {
            Some((number(count)?, Some(model.to_owned()).filter(|model| !model.is_empty())))
        }
    }
}

/// Seconds: `MM`, `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM`, `D-HH:MM:SS`; 0 for no limit.
fn time(text: &str) -> Option<u64> {
    if ["unlimited", "infinite", "-1"].contains(&text.to_ascii_lowercase().as_str()) {
        return Some(0);
    }
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number < 10_000_000);
    match text.split_once(':') {
        None if number(text).is_some() => number(text).map(|minutes| minutes * 60),
        Some((minutes, seconds)) if number(seconds).is_some() && !minutes.contains('-') => {
            Some(number(minutes)? * 60 + number(seconds)?)
        }
        _ if text.contains([':', '-']) => landfall_model::span(text).ok().map(|span| span.get() / 1000),
        _ => None,
    }
}

/// KiB; without a unit it is MiB.
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "k" | "kb" => 1.0,
        "" | "m" | "mb" => 1024.0,
        "g" | "gb" => 1_048_576.0,
        "t" | "tb" => 1_073_741_824.0,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    (number.is_finite() && (0.0..1e9).contains(&number)).then_some((number * unit).ceil() as u64)
}

/// Seconds from now.
fn begin(text: &str) -> Option<u64> {
    let rest = text.strip_prefix("now")?;
    if rest.is_empty() {
        return Some(0);
    }
    let rest = rest.strip_prefix('+')?;
    let digits = rest.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let unit = match rest[digits.len()..].trim_end_matches('s') {
        "" | "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        "day" => 86_400,
        "week" => 604_800,
        _ => return None,
    };
    digits.parse::<u64>().ok().filter(|number| *number < 1_000_000).map(|number| number * unit)
}

/// The name of a file with Slurm's placeholders, in ours.
fn pattern(text: &str) -> Result<String, (String, &'static str)> {
    let mut name = String::new();
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        if next != '%' {
            name.push(next);
            continue;
        }
        let mut width = String::new();
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            width.push(digit);
        }
        let width = if width.is_empty() { width } else { format!(":{width}") };
        let placeholder = match rest.next() {
            Some('%') => {
                name.push('%');
                continue;
            }
            Some('j' | 'J') => "job",
            Some('A') => "array",
            Some('a') => "index",
            Some('x') => "name",
            Some('N') => "node",
            Some('n' | 't') => "rank",
            Some('u') => {
                name.push_str(&std::env::var("USER").unwrap_or_else(|_| "user".to_owned()));
                continue;
            }
            other => {
                let what = other.map(String::from).unwrap_or_default();
                return Err((
                    format!("%{what} is not understood"),
                    "there are %j, %A, %a, %x, %N, %n, %t, %u and %%",
                ));
            }
        };
        name.push_str(&format!("{{{placeholder}{width}}}"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_slurm() {
        for (text, seconds) in [
            ("30", Some(1800)),
            ("90:00", Some(5400)),
            ("01:30:00", Some(5400)),
            ("1-0", Some(86_400)),
            ("1-12:30", Some(131_400)),
            ("1-00:00:00", Some(86_400)),
            ("UNLIMITED", Some(0)),
            ("1h", None),
            ("1:2:3:4", None),
            ("", None),
        ] {
            assert_eq!(time(text), seconds, "{text}");
        }
    }

    #[test]
    fn sizes_and_beginnings_too() {
        assert_eq!(
            (size("4G"), size("500"), size("1500K"), size("0")),
            (Some(4 << 20), Some(500 << 10), Some(1500), Some(0))
        );
        assert_eq!((size("4GiB"), size("x"), size("-1G")), (None, None, None));
        assert_eq!(
            (begin("now+2hours"), begin("now+90"), begin("now"), begin("16:00")),
            (Some(7200), Some(90), Some(0), None)
        );
    }

    #[test]
    fn files_get_our_placeholders() {
        assert_eq!(pattern("logs/%x_%A_%4a.out").unwrap(), "logs/{name}_{array}_{index:4}.out");
        assert_eq!(pattern("100%%-%j").unwrap(), "100%-{job}");
        assert!(pattern("%q").is_err() && pattern("a%").is_err());
    }
}
