//! The best job for a node, kept in groups that differ only in waiting time.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::{Gpu, Job, JobId, JobReport, JobSpec, Name, Node, NodeId, Time, World};

use super::queue::{WaitQueue, Waiting};
use crate::choice::Key;
use crate::evaluate::Pair;
use crate::policy::Policy;
use crate::rules::snapshot::Backlog;
use crate::spec::Tie;
use crate::verdict::Verdict;
use crate::view::Pass;

/// The chosen job of a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct BestJob {
    pub job: JobId,
    /// Why it was chosen.
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
    backlog: Backlog,
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
            backlog: Backlog::default(),
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
        let reports = world.reports.get(&job.id).into_iter().flatten();
        let key = GroupKey {
            spec: job.spec.clone(),
            rounds: job.rescore_count.min(self.rescore_rounds),
            waits_for: job.waits_for.clone(),
            retry_at: job.retry_at,
            reports: reports.map(|(node, report)| (node.clone(), *report)).collect(),
        };
        let group = match self.by_key.get(&key) {
            Some(&at) => at,
            None => {
                let vacant = self.groups.iter().position(|group| group.queue.is_empty());
                let group = Group { queue: WaitQueue::default(), key: key.clone() };
                let at = vacant.unwrap_or(self.groups.len());
                if at == self.groups.len() {
                    self.groups.push(group);
                } else {
                    self.groups[at] = group;
                }
                self.by_key.insert(key, at);
                at
            }
        };
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
            self.by_key.remove(&self.groups[group].key);
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
        let first = self.first(&ask)?;
        let verdict = policy.explain(ask.pair(self.job(first))).1;
        let waiting = self.waiting(self.job(first), first);
        let group = self.jobs[first as usize].as_ref().map_or(0, |(_, group)| *group);
        // The runner-up is the best without the winner. The job itself stays, so sums over the queue do not move.
        self.groups[group].queue.remove(&waiting);
        let second = self.first(&ask).map(|slot| self.job(slot).id.clone());
        let job = waiting.id.clone();
        self.groups[group].queue.insert(waiting);
        Some(BestJob { job, verdict, runner_up: second })
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

    /// The position of the best job.
    fn first(&self, ask: &Ask<'_>) -> Option<u32> {
        // A job sees what is kept for it, unlike others of its group.
        let keeps = || ask.node.gpus.iter().filter_map(Gpu::hold).any(|job| self.by_id.contains_key(job));
        if !self.covered || (ask.node.has_holds() && keeps()) {
            return self.first_of_all(ask);
        }
        let heads = self.by_key.values().filter_map(|&group| {
            let queue = &self.groups[group].queue;
            let key = ask.key(self.job(queue.head()?.slot))?;
            Some((key, queue))
        });
        // Ties are looked at only in the groups whose head has the best total.
        let mut best: Option<(u8, u64)> = None;
        let mut tied: Vec<&WaitQueue> = Vec::new();
        for (key, queue) in heads {
            let standing = (key.group, key.primary);
            if best.is_none_or(|best| standing < best) {
                best = Some(standing);
                tied.clear();
            }
            if best == Some(standing) {
                tied.push(queue);
            }
        }
        let standing = best?;
        let equal = |waiting: &Waiting| {
            ask.key(self.job(waiting.slot)).is_some_and(|key| (key.group, key.primary) == standing)
        };
        tied.into_iter()
            .filter_map(|queue| queue.first_of_prefix(equal))
            .min_by(|a, b| (a.tie, &a.id).cmp(&(b.tie, &b.id)))
            .map(|waiting| waiting.slot)
    }

    /// Looks at every job, for policies that the groups do not cover.
    fn first_of_all(&self, ask: &Ask<'_>) -> Option<u32> {
        let keyed =
            self.by_key.values().flat_map(|&group| self.groups[group].queue.iter()).filter_map(|waiting| {
                let key = ask.key(self.job(waiting.slot))?;
                Some(((key.group, key.primary, waiting.tie, &waiting.id), waiting.slot))
            });
        keyed.min().map(|(_, slot)| slot)
    }
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

    /// The key of a job that may be chosen; its rank is left to the id.
    fn key(&self, job: &Job) -> Option<Key> {
        let pair = Pair { pass: self.pass, job, node: self.node, ranks_nodes: false };
        self.policy.job_key(pair, 0)
    }
}
