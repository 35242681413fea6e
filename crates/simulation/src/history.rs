//! What clients and machines saw, and what must hold of it. Nothing in here looks inside a server or an agent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use landfall_agent::simulation::{Saw, Seen};
use landfall_api::job::JobView;
use landfall_model::JobId;
use landfall_model::life::Fence;

use crate::plan::Plan;
use crate::server::TENANTS;

/// A journal as the world knows it: where it goes on from, and up to when it has what that one had.
#[derive(Debug, Clone)]
struct Journal {
    name: String,
    parent: Option<(usize, Duration)>,
}

/// A process that a machine saw.
#[derive(Debug, Clone)]
struct Process {
    fence: Fence,
    token: String,
    journal: Option<usize>,
    began: Duration,
    /// When it was gone, and its exit code if it ended by itself.
    over: Option<(Duration, Option<i32>)>,
}

/// A submission that was acknowledged.
#[derive(Debug, Clone)]
struct Ack {
    job: usize,
    id: String,
    journal: usize,
    at: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    journals: Vec<Journal>,
    acks: Vec<Ack>,
    processes: BTreeMap<(usize, u64), Process>,
    /// When the first start command of an attempt left the server.
    told: BTreeMap<(usize, JobId, u32), Duration>,
    /// How clients saw jobs end, by journal and id.
    ends: BTreeMap<(usize, String), (String, u32)>,
    /// Jobs that ended, as the journal tells, each once.
    ended: BTreeSet<(usize, JobId)>,
    pub(crate) cancelled: BTreeSet<usize>,
    /// What happened, for people who look at one world.
    pub(crate) story: Option<Vec<String>>,
    /// The first thing that must not be.
    pub(crate) wrong: Option<String>,
}

impl History {
    pub(crate) fn fail(&mut self, what: impl Into<String>) {
        self.wrong.get_or_insert(what.into());
    }

    /// Notes what happened, if somebody wants to read it.
    pub(crate) fn tell(&mut self, at: Duration, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(format!("{:>10.3} {}", at.as_secs_f64(), what()));
        }
    }

    /// The server has this journal now; if it is new, it was restored from what `parent` was then.
    pub(crate) fn journal(&mut self, name: &str, parent: Option<(usize, Duration)>) -> usize {
        if let Some(known) = self.journals.iter().position(|journal| journal.name == name) {
            return known;
        }
        self.journals.push(Journal { name: name.to_owned(), parent });
        self.journals.len() - 1
    }

    pub(crate) fn acknowledged(&mut self, job: usize, id: &str, journal: usize, at: Duration) {
        let other = self.acks.iter().find(|ack| ack.job == job && ack.journal == journal && ack.id != id);
        if let Some(other) = other {
            let message = format!("job {job} of the plan was acknowledged as {} and as {id}", other.id);
            self.fail(message);
        }
        self.acks.push(Ack { job, id: id.to_owned(), journal, at });
    }

    pub(crate) fn told_to_start(&mut self, journal: usize, fence: &Fence, at: Duration) {
        self.told.entry((journal, fence.job.clone(), fence.attempt)).or_insert(at);
    }

    pub(crate) fn saw(&mut self, node: usize, seen: Seen) {
        let key = (node, seen.process);
        self.tell(seen.at, || format!("n{node}: process {} {:?}", seen.process, seen.saw));
        match seen.saw {
            Saw::Began { fence, argv, journal, .. } => {
                let token = argv.get(1).cloned().unwrap_or_default();
                let journal = journal.and_then(|name| self.journals.iter().position(|it| it.name == name));
                self.processes.insert(key, Process { fence, token, journal, began: seen.at, over: None });
            }
            Saw::Exited(code) => self.over(key, seen.at, Some(code)),
            Saw::Killed => self.over(key, seen.at, None),
        }
    }

    fn over(&mut self, key: (usize, u64), at: Duration, code: Option<i32>) {
        if let Some(process) = self.processes.get_mut(&key) {
            process.over = Some((at, code));
        }
    }

    /// The journal tells that a job ended.
    pub(crate) fn ended(&mut self, journal: usize, job: &JobId) {
        if !self.ended.insert((journal, job.clone())) {
            self.fail(format!("job {job} ended twice"));
        }
    }

    /// A client looks at its job.
    pub(crate) fn looked(
        &mut self,
        plan: &Plan,
        job: usize,
        id: &str,
        journal: usize,
        view: Option<&JobView>,
    ) {
        let wanted = &plan.jobs[job];
        let token = &wanted.token;
        let Some(view) = view else { return self.fail(format!("job {id} ({token}) is gone")) };
        if view.name.as_deref() != Some(&wanted.token)
            || view.tenant.as_deref() != Some(TENANTS[wanted.tenant])
        {
            let (name, tenant) = (&view.name, &view.tenant);
            return self.fail(format!("job {id} ({token}) is shown as {name:?} of {tenant:?}"));
        }
        let at = (journal, id.to_owned());
        let is_final = matches!(view.state.as_str(), "completed" | "failed" | "cancelled");
        let now = (view.state.clone(), view.attempt);
        match self.ends.get(&at) {
            Some(before) if *before != now => {
                self.fail(format!("job {id} ({token}) had ended as {before:?} and is now {now:?}"));
            }
            None if is_final => drop(self.ends.insert(at, now)),
            _ => {}
        }
    }

    /// Whether something that happened under a journal at an instant is still known under the last one.
    fn stands(&self, journal: usize, at: Duration) -> bool {
        let mut here = self.journals.len() - 1;
        while here != journal {
            let Some((parent, until)) = self.journals[here].parent else { return false };
            if parent == journal && at >= until {
                return false;
            }
            here = parent;
        }
        true
    }

    /// Jobs that somebody was told of and that have to be there at the end, by number of the plan and id.
    pub(crate) fn standing(&self) -> BTreeMap<usize, String> {
        let stands = |ack: &&Ack| self.stands(ack.journal, ack.at);
        self.acks.iter().filter(stands).map(|ack| (ack.job, ack.id.clone())).collect()
    }

    /// Everything that must hold when the world is at rest; `views` is what clients see then.
    pub(crate) fn check(&mut self, plan: &Plan, views: &BTreeMap<String, Option<JobView>>, all: &[JobView]) {
        let standing = self.standing();
        for (job, id) in &standing {
            let view = views.get(id).cloned().flatten();
            self.looked(plan, *job, id, self.journals.len() - 1, view.as_ref());
            if let Some(view) = view {
                self.check_job(plan, *job, &view);
            }
        }
        for job in &plan.jobs {
            let same: Vec<&JobView> =
                all.iter().filter(|view| view.name.as_deref() == Some(&job.token)).collect();
            if same.len() > 1 {
                let ids: Vec<&str> = same.iter().map(|view| view.id.as_str()).collect();
                self.fail(format!("{} was submitted once and is jobs {ids:?}", job.token));
            }
        }
        for process in self.processes.values() {
            if process.over.is_none() {
                let message = format!("{} still runs", process.fence);
                return self.fail(message);
            }
        }
    }

    fn check_job(&mut self, plan: &Plan, job: usize, view: &JobView) {
        let wanted = &plan.jobs[job];
        let token = &wanted.token;
        let (id, state) = (&view.id, view.state.as_str());
        // Two restores of one backup give the same numbers; only the journal's name tells such jobs apart.
        let of_another = |it: &Process| {
            it.token != wanted.token
                && it.journal.is_some_and(|journal| !self.stands(journal, Duration::ZERO))
        };
        let of_number = self.processes.values().filter(|it| it.fence.job.as_str() == id);
        let ours: Vec<&Process> = of_number.filter(|it| !of_another(it)).collect();
        if let Some(stray) = ours.iter().find(|process| process.token != wanted.token) {
            return self.fail(format!("job {id} ({token}) ran what {} runs", stray.token));
        }
        // Processes that this journal knows of: begun under it, or placed before the backup it came from.
        let counts = |process: &&&Process| {
            process.journal.is_some_and(|journal| {
                let told = (journal, process.fence.job.clone(), process.fence.attempt);
                self.told.get(&told).is_some_and(|at| self.stands(journal, *at))
            })
        };
        let known: Vec<&Process> = ours.iter().filter(counts).copied().collect();
        let exits = |code: i32| {
            known.iter().any(|process| {
                process.fence.attempt == view.attempt
                    && process.over.is_some_and(|(_, exit)| exit == Some(code))
            })
        };
        let reason = view.reason.clone().unwrap_or_default();
        let wrong = match state {
            "completed" if !exits(0) => {
                Some("is completed, and no process of that attempt ended well".into())
            }
            "failed" if view.exit_code.is_some_and(|code| !exits(code)) => {
                Some(format!("failed with {:?}, and no process ended so", view.exit_code))
            }
            "failed" if wanted.code == 0 && plan.calm && !wanted.stop => {
                Some(format!("failed ({reason}) in a world in which nothing is lost"))
            }
            "cancelled" if !self.cancelled.contains(&job) => {
                Some("is cancelled, and nobody wanted that".into())
            }
            "completed" | "failed" | "cancelled" => None,
            _ => Some(format!("does not come to an end: {state}, {reason}: {:?}", view.why)),
        };
        let times = known.len();
        let wrong = wrong.or_else(|| {
            if wanted.once && times > 1 {
                return Some(format!("runs once, and ran {times} times"));
            }
            let exactly = plan.calm && state != "cancelled" && !wanted.saves && !wanted.stop;
            (exactly && ours.len() != 1).then(|| format!("ran {} times in a calm world", ours.len()))
        });
        let overlap = || {
            let until = |process: &Process| process.over.map_or(Duration::MAX, |(at, _)| at);
            known.iter().enumerate().any(|(place, one)| {
                known[..place].iter().any(|other| one.began < until(other) && other.began < until(one))
            })
        };
        let keepers_live = !plan
            .troubles
            .iter()
            .any(|(_, trouble)| matches!(trouble, crate::plan::Trouble::KillKeeper { .. }));
        let wrong = wrong.or_else(|| {
            (wanted.stop && keepers_live && overlap()).then(|| "ran beside a copy of itself".to_owned())
        });
        if let Some(wrong) = wrong {
            self.fail(format!("job {id} ({token}) {wrong}"));
        }
    }
}
