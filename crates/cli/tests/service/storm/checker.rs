//! What a storm has to leave behind, judged by what clients were told and what jobs wrote themselves.
//!
//! What is promised depends on what happened to the nodes of a job ([promises](../../../../../docs/concepts/promises.md)):
//!
//! ```text
//! a second attempt is right   if its node was killed, or its keeper was, while the attempt before ran;
//!                             or its node was out of touch for about as long as its pool waits
//! nothing is said             of what was not over when a backup was made that was restored later
//! else                        exactly once
//! ```
//!
//! Whatever happened: nothing acknowledged is lost, a key is one job, an attempt begins once, a job that runs once begins once,
//! what a keeper noted as ended does not begin again, logs are of their own job, and everything comes to an end.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use serde_json::Value;

use super::faults::{Happened, Kind};
use super::load::{Load, Record, is_final};
use super::world::{GIVEN_UP_AFTER, World};

/// A process may write its last line so long before its keeper has noted that it is over.
const NOTED_WITHIN: f64 = 1.0;
/// Faults of one node with less between them are one outage: it may not have been in touch in between.
const ONE_OUTAGE: f64 = 3.0;

/// One attempt, as the job itself told of it.
#[derive(Debug, Clone)]
struct Attempt {
    id: String,
    number: u64,
    node: String,
    began: f64,
    ended: Option<f64>,
}

/// All that is known when the storm is over.
pub(super) struct Evidence<'a> {
    pub(super) world: &'a World,
    pub(super) load: &'a Load,
    pub(super) happened: &'a [Happened],
    /// When each node was seen in touch.
    pub(super) seen: &'a BTreeMap<String, Vec<f64>>,
    /// The jobs that the server knows in the end.
    pub(super) known: &'a [Value],
}

/// What was found, in figures.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) lost: BTreeSet<String>,
    pub(super) doubled: BTreeSet<String>,
    pub(super) wrong: Vec<String>,
    pub(super) again: usize,
    pub(super) gave_up: usize,
    attempts: BTreeMap<String, Vec<Attempt>>,
    records: BTreeMap<String, Record>,
}

impl Evidence<'_> {
    pub(super) fn judge(&self) -> Findings {
        let mut found = Findings {
            attempts: self.attempts(),
            records: self.load.book.records.lock().unwrap().clone(),
            ..Findings::default()
        };
        let mut by_name: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for job in self.known {
            by_name.entry(job["name"].as_str().unwrap_or_default()).or_default().push(job);
        }
        let none = Vec::new();
        for (key, record) in &found.records.clone() {
            match by_name.get(key.as_str()).unwrap_or(&none).as_slice() {
                [] => {
                    found.lost.insert(key.clone());
                }
                [job] if job["id"] == record.id.as_str() => self.judge_job(&mut found, key, record, job),
                jobs => {
                    found.doubled.insert(key.clone());
                    found.wrong.push(format!("{key} is {} and there are {jobs:?}", record.id));
                }
            }
        }
        for (name, jobs) in by_name.iter().filter(|(name, _)| !found.records.contains_key(**name)) {
            found.wrong.push(format!("nobody knows of the {} jobs of {name}", jobs.len()));
        }
        self.judge_noted(&mut found);
        self.judge_ends(&mut found);
        found.wrong.extend(self.load.book.wrong.lock().unwrap().iter().cloned());
        found
    }

    fn attempts(&self) -> BTreeMap<String, Vec<Attempt>> {
        let mut all: BTreeMap<String, Vec<Attempt>> = BTreeMap::new();
        let runs = std::fs::read_to_string(self.world.runs()).unwrap_or_default();
        for line in runs.lines() {
            let [what, key, id, number, node, at] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("a job wrote {line:?}")
            };
            let (number, at): (u64, f64) = (number.parse().unwrap(), at.parse().unwrap());
            let of_key = all.entry(key.to_owned()).or_default();
            let open = of_key.iter_mut().rev().find(|attempt| {
                attempt.id == id
                    && attempt.number == number
                    && attempt.node == node
                    && attempt.ended.is_none()
            });
            match (what, open) {
                ("end", Some(attempt)) => attempt.ended = Some(at),
                _ => {
                    let (id, node) = (id.to_owned(), node.to_owned());
                    of_key.push(Attempt { id, number, node, began: at, ended: None });
                }
            }
        }
        all
    }

    /// Whether a restore made it unknown what had become of a job.
    fn is_undone(&self, record: &Record) -> bool {
        let restores = self.load.book.restores.lock().unwrap();
        let taken_back = |(from, to): &(f64, f64)| {
            record.sent < *to && record.ended.as_ref().is_none_or(|(at, _)| at > from)
        };
        record.was_forgotten || restores.iter().any(taken_back)
    }

    fn judge_job(&self, found: &mut Findings, key: &str, record: &Record, job: &Value) {
        let state = job["state"].as_str().unwrap_or_default();
        let attempts = found.attempts.get(key).cloned().unwrap_or_default();
        let mut wrong = |what: &str| {
            let words =
                format!("{key}, job {} ({state}, {}): {what}; {attempts:?}", record.id, job["reason"]);
            found.wrong.push(words);
        };
        if !is_final(state) {
            return wrong("it has not come to an end");
        }
        if self.is_undone(record) {
            return;
        }
        if record.ended.as_ref().is_some_and(|(_, before)| before != state) {
            wrong(&format!("it had ended as {:?}", record.ended));
        }
        let last = attempts.iter().find(|attempt| {
            attempt.number == job["attempt"].as_u64().unwrap_or_default() && attempt.ended.is_some()
        });
        if state == "completed" && last.is_none() {
            wrong("the attempt that is shown did not come to its end");
        }
        if attempts.iter().any(|attempt| attempt.id != record.id) {
            wrong("it ran under another id");
        }
        let numbers: BTreeSet<u64> = attempts.iter().map(|attempt| attempt.number).collect();
        let pairs: Vec<_> = attempts.windows(2).collect();
        let twice = numbers.len() < attempts.len();
        let beyond = pairs.iter().any(|pair| !self.may_follow(&pair[0], pair[1].began));
        if twice || beyond || (record.once && attempts.len() > 1) {
            wrong("it ran more often than promised");
            found.doubled.insert(key.to_owned());
        } else if state != "completed" {
            found.gave_up += 1;
            let until = record.ended.as_ref().map_or(f64::MAX, |(at, _)| *at);
            let excused = match attempts.last() {
                Some(attempt) => self.may_follow(attempt, until),
                None => self.any_loss(record.acknowledged, until),
            };
            if !record.once || !excused {
                found.wrong.push(format!(
                    "{key}, job {} ({state}, {}): nothing happened to it that it should fail for; {attempts:?}",
                    record.id, job["reason"]
                ));
            }
        }
        found.again += usize::from(attempts.len() > 1);
    }

    /// Whether something happened to an attempt after which another one may follow, or the job may be given up.
    fn may_follow(&self, attempt: &Attempt, next: f64) -> bool {
        let over = attempt.ended.map_or(next, |at| at + NOTED_WITHIN);
        let killed = self.happened.iter().any(|fault| {
            let is_kill = matches!(fault.kind, Kind::KeeperKilled | Kind::NodeLost);
            // A process that has begun to be made has not written its first line yet.
            is_kill
                && fault.node == Some(attempt.node.as_str())
                && (attempt.began - 1.0..=over).contains(&fault.from)
        });
        killed || self.outages(&attempt.node).iter().any(|(from, to)| *from < next && *to > attempt.began)
    }

    /// Whether any node was lost or out of touch for long, for a job that never wrote a line.
    fn any_loss(&self, from: f64, to: f64) -> bool {
        let kill = |fault: &&Happened| matches!(fault.kind, Kind::KeeperKilled | Kind::NodeLost);
        self.happened.iter().filter(kill).any(|fault| (from..=to).contains(&fault.from))
            || self.seen.keys().any(|node| self.outages(node).iter().any(|out| out.0 < to && out.1 > from))
    }

    /// When a node was out of touch for about as long as its pool waits, or longer.
    fn outages(&self, node: &str) -> Vec<(f64, f64)> {
        use Kind::{AgentKilled, AgentStopped, KeeperStopped, LineCut, LineSilent, NodeLost};
        let mut all: Vec<(f64, f64)> = Vec::new();
        for fault in self.happened.iter().filter(|fault| fault.node == Some(node)) {
            // An agent that finds its keeper stopped when it starts cannot speak for it.
            if !matches!(
                fault.kind,
                AgentKilled | AgentStopped | KeeperStopped | LineCut | LineSilent | NodeLost
            ) {
                continue;
            }
            let seen = self.seen.get(node).into_iter().flatten();
            let back = seen.copied().find(|at| *at > fault.to).unwrap_or(f64::MAX);
            match all.last_mut() {
                Some(last) if last.1 + ONE_OUTAGE > fault.from => last.1 = last.1.max(back),
                _ => all.push((fault.from, back)),
            }
        }
        // The server's time may be faster by a tenth while it follows its clock.
        all.retain(|(from, to)| to - from + ONE_OUTAGE > GIVEN_UP_AFTER * 0.9);
        all
    }

    /// What a keeper had noted as ended when it was killed is not begun again.
    fn judge_noted(&self, found: &mut Findings) {
        for (id, number, at) in &self.world.noted {
            let runs = found.attempts.iter().find(|(_, runs)| runs.iter().any(|run| run.id == *id));
            let Some((key, runs)) = runs else { continue };
            let Some(record) = found.records.get(key).filter(|record| !self.is_undone(record)) else {
                continue;
            };
            let node = runs.iter().find(|run| run.number == *number).map(|run| run.node.clone());
            // Unless its node could not tell in time that it had ended.
            let silent = node.is_some_and(|node| self.outages(&node).iter().any(|out| out.1 > at - 60.0));
            if !silent && let Some(later) = runs.iter().find(|run| run.number > *number) {
                let id = &record.id;
                found
                    .wrong
                    .push(format!("job {id}: attempt {number} had been noted as ended, then {later:?}"));
                found.doubled.insert(key.clone());
            }
        }
    }

    /// Nobody ends without being told to, but for a server that starts on a full disk and an agent whose keeper does not speak.
    fn judge_ends(&self, found: &mut Findings) {
        for (who, code, at) in &self.world.ended {
            let excuse = if who == "server" { Kind::DiskFull } else { Kind::KeeperStopped };
            let excused = *code > 0
                && *code < 100
                && self.happened.iter().any(|fault| {
                    let here = fault.node.is_none_or(|node| node == who);
                    fault.kind == excuse && here && (fault.from..=fault.to + 2.0).contains(at)
                });
            if !excused {
                let words = self.world.last_words(who);
                found.wrong.push(format!("{who} ended by itself with {code}: {words}"));
            }
        }
    }

    /// What jobs wrote is in their own log, and all of it where they completed; gives how many were looked at.
    pub(super) async fn judge_logs(&self, found: &mut Findings) -> usize {
        let mut looked = 0;
        for (key, record) in &found.records.clone() {
            let Some(job) = self.known.iter().find(|job| job["id"] == record.id.as_str()) else { continue };
            let Some(text) = self.log(&record.id).await else {
                found.wrong.push(format!("the log of job {} cannot be read", record.id));
                continue;
            };
            looked += 1;
            if let Some(foreign) = text.lines().find(|line| !line.starts_with(&format!("{key} "))) {
                found.wrong.push(format!("the log of {key} says {foreign:?}"));
            }
            let last = format!("{key} end {}", job["attempt"]);
            if job["state"] == "completed"
                && !text.lines().any(|line| line == last)
                && !self.is_undone(record)
            {
                found.wrong.push(format!("the log of {key} lacks its last line: {text:?}"));
            }
        }
        looked
    }

    async fn log(&self, id: &str) -> Option<String> {
        let mut lines =
            self.load.client.stream_lines(&format!("/jobs/{id}/logs?stream=stdout")).await.ok()?;
        let mut text = Vec::new();
        while let Some(line) = lines.next().await.ok()? {
            let chunk: Value = serde_json::from_str(&line).ok()?;
            let data = base64::engine::general_purpose::STANDARD.decode(chunk["data"].as_str()?).ok()?;
            text.extend(data);
        }
        String::from_utf8(text).ok()
    }
}

impl Findings {
    /// The table of tries, as it stands in docs/reliability.md.
    pub(super) fn table(&self, happened: &[Happened]) -> String {
        let mut table = "| fault | times | acknowledged meanwhile | attempts concerned | lost | doubled |\n\
            |---|---|---|---|---|---|\n"
            .to_owned();
        for (kind, _, name) in Kind::ALL {
            let of_kind: Vec<&Happened> = happened.iter().filter(|fault| fault.kind == kind).collect();
            let meanwhile = |at: f64| of_kind.iter().any(|fault| (fault.from..=fault.to).contains(&at));
            let acknowledged = self.records.values().filter(|record| meanwhile(record.acknowledged)).count();
            let concerned = |attempt: &Attempt| {
                of_kind.iter().any(|fault| {
                    fault.node.is_none_or(|node| node == attempt.node)
                        && attempt.began <= fault.to
                        && attempt.ended.is_none_or(|at| at >= fault.from)
                })
            };
            let keys = |of: &BTreeSet<String>| {
                let here = |key: &&String| {
                    self.attempts.get(*key).is_none_or(|all| all.iter().any(concerned))
                        || self.records.get(*key).is_some_and(|record| meanwhile(record.acknowledged))
                };
                of.iter().filter(here).count()
            };
            let attempts = self.attempts.values().flatten().filter(|attempt| concerned(attempt)).count();
            table += &format!(
                "| {name} | {} | {acknowledged} | {attempts} | {} | {} |\n",
                of_kind.len(),
                keys(&self.lost),
                keys(&self.doubled)
            );
        }
        let attempts: usize = self.attempts.values().map(Vec::len).sum();
        table
            + &format!(
                "| all | {} | {} | {attempts} | {} | {} |\n",
                happened.len(),
                self.records.len(),
                self.lost.len(),
                self.doubled.len()
            )
    }
}
