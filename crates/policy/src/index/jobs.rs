//! The best job for a node, kept in groups that differ only in waiting time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::{Gpu, Job, JobId, JobReport, JobSpec, Millis, Name, Node, NodeId, Time, World};

use super::queue::{WaitQueue, Waiting};
use crate::choice::Key;
use crate::evaluate::{Judged, Pair};
use crate::policy::Policy;
use crate::refusal::Reason;
use crate::rules::snapshot::Backlog;
use crate::score::q;
use crate::spec::Tie;
use crate::verdict::Verdict;
use crate::view::Pass;

/// The chosen job of a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct BestJob {
    pub job: JobId,
    /// Why it was chosen, without the facts that the points rest on.
    pub verdict: Verdict,
    /// The next best, if there is one.
    pub runner_up: Option<JobId>,
}

/// Which wait orders a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    Ready,
    Queued,
}

/// What jobs of one group have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    spec: Arc<JobSpec>,
    rounds: u32,
    waits_for: Option<Name>,
    retry_at: Option<Time>,
    checkpoint_took: Option<Millis>,
    reports: Vec<(NodeId, JobReport)>,
}

#[derive(Debug)]
struct Group {
    queue: WaitQueue,
    key: GroupKey,
}

/// Finds the best of many waiting jobs for a node without looking at all of them.
///
/// The index keeps the jobs. A job whose reports or rounds changed is removed and inserted again.
#[derive(Debug)]
pub struct JobIndex {
    since: Since,
    ties_by_queue_time: bool,
    rescore_rounds: u32,
    covered: bool,
    jobs: Vec<Option<(Job, usize)>>,
    vacant: Vec<u32>,
    by_id: BTreeMap<JobId, u32>,
    groups: Vec<Group>,
    by_key: BTreeMap<GroupKey, usize>,
    /// Groups of jobs that wait for nothing and that nobody reported on, by the address of their spec and by rounds.
    plain: BTreeMap<(usize, u32), usize>,
    backlog: Backlog,
    /// Room for the heads of all groups while a question is answered.
    heads: Vec<Head>,
}

impl JobIndex {
    /// An empty queue under a policy.
    pub fn new(policy: &Policy) -> Self {
        let reads = policy.reads();
        Self {
            since: if reads.queue_wait { Since::Queued } else { Since::Ready },
            ties_by_queue_time: policy.choice.job_ties.contains(&Tie::QueueTime),
            rescore_rounds: policy.rescore_rounds(),
            covered: Self::covers(policy),
            jobs: Vec::new(),
            vacant: Vec::new(),
            by_id: BTreeMap::new(),
            groups: Vec::new(),
            by_key: BTreeMap::new(),
            plain: BTreeMap::new(),
            backlog: Backlog::default(),
            heads: Vec::new(),
        }
    }

    /// Whether heads of groups decide under this policy; otherwise every question is answered by looking at every job.
    pub fn covers(policy: &Policy) -> bool {
        let reads = policy.reads();
        let one_wait = !(reads.ready_wait && reads.queue_wait);
        let rises = policy.terms.iter().all(|bound| {
            !(bound.info.reads.ready_wait || bound.info.reads.queue_wait) || bound.weight_min() >= 0.0
        });
        let no_draws = !reads.identity && !policy.devices.draws();
        one_wait && rises && no_draws
    }

    /// Number of waiting jobs.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Number of groups; a decision scores one job of each.
    pub fn groups(&self) -> usize {
        self.by_key.len()
    }

    /// The waiting job of that id.
    pub fn get(&self, id: &JobId) -> Option<&Job> {
        let &slot = self.by_id.get(id)?;
        self.jobs[slot as usize].as_ref().map(|(job, _)| job)
    }

    /// All waiting jobs, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.by_id.values().map(|&slot| self.job(slot))
    }

    /// The waiting jobs that have seen fewer rounds than count, so that a round changes them; in no particular order.
    pub fn young(&self) -> impl Iterator<Item = &JobId> {
        let groups = self.by_key.values().map(|&group| &self.groups[group]);
        let young = groups.filter(|group| group.key.rounds < self.rescore_rounds);
        young.flat_map(|group| group.queue.iter().map(|waiting| &waiting.id))
    }

    /// Adds a job; one with the same id is replaced. `world` holds what nodes reported for it.
    pub fn insert(&mut self, job: Job, world: &World) {
        self.remove(&job.id);
        let group = self.group_of(&job, world);
        let slot = self.vacant.pop().unwrap_or(self.jobs.len() as u32);
        let waiting = self.waiting(&job, slot);
        self.groups[group].queue.insert(waiting);
        self.backlog.add(&job);
        self.by_id.insert(job.id.clone(), slot);
        if slot as usize == self.jobs.len() {
            self.jobs.push(Some((job, group)));
        } else {
            self.jobs[slot as usize] = Some((job, group));
        }
    }

    /// The group of a job, made if it is new.
    fn group_of(&mut self, job: &Job, world: &World) -> usize {
        let reports = world.reports.get(&job.id).filter(|reports| !reports.is_empty());
        let rounds = job.rescore_count.min(self.rescore_rounds);
        let waits = job.waits_for.is_some() || job.retry_at.is_some();
        let is_plain = reports.is_none() && !waits && job.checkpoint_took.is_none();
        let plain = is_plain.then(|| (Arc::as_ptr(&job.spec).addr(), rounds));
        if let Some(&at) = plain.and_then(|plain| self.plain.get(&plain)) {
            return at;
        }
        let reports = reports.into_iter().flatten();
        let key = GroupKey {
            spec: job.spec.clone(),
            rounds,
            waits_for: job.waits_for.clone(),
            retry_at: job.retry_at,
            checkpoint_took: job.checkpoint_took,
            reports: reports.map(|(node, report)| (node.clone(), *report)).collect(),
        };
        if let Some(&at) = self.by_key.get(&key) {
            return at;
        }
        let vacant = self.groups.iter().position(|group| group.queue.is_empty());
        let group = Group { queue: WaitQueue::default(), key: key.clone() };
        let at = vacant.unwrap_or(self.groups.len());
        if at == self.groups.len() {
            self.groups.push(group);
        } else {
            self.groups[at] = group;
        }
        self.by_key.insert(key, at);
        // The group keeps the spec, so its address is nobody else's for as long as the group is there.
        self.plain.extend(plain.map(|plain| (plain, at)));
        at
    }

    /// Takes a job out.
    pub fn remove(&mut self, id: &JobId) -> Option<Job> {
        let slot = self.by_id.remove(id)?;
        let (job, group) = self.jobs[slot as usize].take()?;
        self.vacant.push(slot);
        self.backlog.remove(&job);
        let waiting = self.waiting(&job, slot);
        let removed = self.groups[group].queue.remove(&waiting);
        debug_assert!(removed, "a waiting job is in the queue of its group");
        if self.groups[group].queue.is_empty() {
            let key = &self.groups[group].key;
            self.by_key.remove(key);
            let plain = (Arc::as_ptr(&key.spec).addr(), key.rounds);
            if self.plain.get(&plain) == Some(&group) {
                self.plain.remove(&plain);
            }
        }
        Some(job)
    }

    /// The best job for a node and the runner-up; the same as [`Policy::best_job`] finds.
    pub fn best(
        &mut self,
        policy: &Policy,
        now: Time,
        world: &World,
        nodes: &[Node],
        node: &Node,
    ) -> Option<BestJob> {
        let pass = Pass::of_parts(now, world, nodes, self.backlog);
        let ask = Ask { policy, pass: &pass, node };
        let (first, runner_up) = self.two(&ask)?;
        let job = self.job(first);
        let verdict = policy.verdict(ask.pair(job)).1;
        let runner_up = runner_up.map(|slot| self.job(slot).id.clone());
        Some(BestJob { job: job.id.clone(), verdict, runner_up })
    }

    /// What a worker's question looked at: up to so many jobs that were scored, best first, chosen or not, and what stands
    /// against the others.
    pub fn looked_at(
        &self,
        policy: &Policy,
        now: Time,
        world: &World,
        nodes: &[Node],
        node: &Node,
        most: usize,
    ) -> (Vec<Verdict>, BTreeMap<Reason, u32>) {
        let pass = Pass::of_parts(now, world, nodes, self.backlog);
        let ask = Ask { policy, pass: &pass, node };
        let verdict = |waiting: &Waiting| policy.verdict(ask.pair(self.job(waiting.slot))).1;
        let order =
            |verdict: &Verdict| (Reverse(verdict.total.map_or(i64::MIN, q)), verdict.candidate.clone());
        let mut against: BTreeMap<Reason, u32> = BTreeMap::new();
        // Totals fall along a group, so the best of all are found by going along all groups at once.
        let mut lines = BTreeMap::new();
        for &group in self.by_key.values() {
            let queue = &self.groups[group].queue;
            let Some(head) = queue.head() else { continue };
            let refused = match policy.judge_first(ask.pair(self.job(head.slot))) {
                Ok(judged) => {
                    let head = verdict(head);
                    lines.insert(order(&head), (head, queue.iter().skip(1)));
                    policy.first_barred(&judged)
                }
                Err(reason) => Some(reason),
            };
            if let Some(reason) = refused {
                *against.entry(reason).or_default() += queue.len() as u32;
            }
        }
        let mut best = Vec::new();
        while best.len() < most
            && let Some((_, (first, mut behind))) = lines.pop_first()
        {
            best.push(first);
            if let Some(next) = behind.next() {
                let next = verdict(next);
                lines.insert(order(&next), (next, behind));
            }
        }
        (best, against)
    }

    fn job(&self, slot: u32) -> &Job {
        match &self.jobs[slot as usize] {
            Some((job, _)) => job,
            None => unreachable!("queues hold only jobs that are there"),
        }
    }

    fn waiting(&self, job: &Job, slot: u32) -> Waiting {
        let since = match self.since {
            Since::Ready => job.ready_at,
            Since::Queued => job.queued_at,
        };
        let tie = if self.ties_by_queue_time { job.queued_at.as_millis() } else { 0 };
        Waiting { since: since.as_millis(), tie, id: job.id.clone(), slot }
    }

    /// The positions of the best job and of the next best.
    fn two(&mut self, ask: &Ask<'_>) -> Option<(u32, Option<u32>)> {
        // A job sees what is kept for it, unlike others of its group.
        let keeps = || ask.node.gpus.iter().filter_map(Gpu::hold).any(|job| self.by_id.contains_key(job));
        if !self.covered || (ask.node.has_holds() && keeps()) {
            return self.two_of_all(ask);
        }
        let mut heads = std::mem::take(&mut self.heads);
        heads.clear();
        heads.extend(self.by_key.values().filter_map(|&group| {
            let job = self.job(self.groups[group].queue.head()?.slot);
            let judged = ask.policy.judge_first(ask.pair(job)).ok()?;
            Some(Head { standing: ask.policy.first_key(job, &judged).map(standing), judged, group })
        }));
        let found = self.first(ask, &heads, None).map(|first| {
            // The runner-up is the best without the winner. The job itself stays, so sums over the queue do not move.
            let group = self.jobs[first.slot as usize].as_ref().map(|(_, group)| *group);
            if let Some(head) = heads.iter_mut().find(|head| Some(head.group) == group) {
                let next = self.groups[head.group].queue.head_without(first.slot);
                let key = next.and_then(|next| ask.key_after(self.job(next.slot), &head.judged));
                head.standing = key.map(standing);
            }
            (first.slot, self.first(ask, &heads, Some(first.slot)).map(|second| second.slot))
        });
        self.heads = heads;
        found
    }

    /// The best of the jobs behind the heads of their groups, but for one that is left out.
    fn first(&self, ask: &Ask<'_>, heads: &[Head], without: Option<u32>) -> Option<&Waiting> {
        let best = heads.iter().filter_map(|head| head.standing).min()?;
        // Ties are looked at only in the groups whose head has the best total.
        let tied = heads.iter().filter(|head| head.standing == Some(best)).filter_map(|head| {
            let equal = |waiting: &Waiting| {
                ask.key_after(self.job(waiting.slot), &head.judged).map(standing) == Some(best)
            };
            self.groups[head.group].queue.first_of_prefix(without, equal)
        });
        tied.min_by(|a, b| a.tie_order().cmp(&b.tie_order()))
    }

    /// Looks at every job, for policies that the groups do not cover.
    fn two_of_all(&self, ask: &Ask<'_>) -> Option<(u32, Option<u32>)> {
        let waiting = self.by_key.values().flat_map(|&group| self.groups[group].queue.iter());
        let keyed = waiting.filter_map(|waiting| {
            let key = ask.policy.job_key(ask.pair(self.job(waiting.slot)), 0)?;
            Some(((standing(key), waiting.tie_order()), waiting.slot))
        });
        let (mut first, mut second) = (None, None);
        for found in keyed {
            if first.is_none_or(|first| found < first) {
                second = first.replace(found);
            } else if second.is_none_or(|second| found < second) {
                second = Some(found);
            }
        }
        Some((first?.1, second.map(|(_, slot)| slot)))
    }
}

/// Who waits longest of a group, as judged for a node.
#[derive(Debug)]
struct Head {
    group: usize,
    /// Where it stands but for ties, if it may be chosen.
    standing: Option<(u8, u64)>,
    judged: Judged,
}

/// What ranks a job before ties.
fn standing(key: Key) -> (u8, u64) {
    (key.group, key.primary)
}

struct Ask<'a> {
    policy: &'a Policy,
    pass: &'a Pass<'a>,
    node: &'a Node,
}

impl<'a> Ask<'a> {
    fn pair(&self, job: &'a Job) -> Pair<'a> {
        Pair { pass: self.pass, job, node: self.node, ranks_nodes: false }
    }

    /// The key of a job of the group of another that was judged, if it may be chosen.
    fn key_after(&self, job: &Job, judged: &Judged) -> Option<Key> {
        let pair = Pair { pass: self.pass, job, node: self.node, ranks_nodes: false };
        self.policy.key_after(pair, judged)
    }
}
