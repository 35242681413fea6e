//! Pull pools: which jobs a worker has not been asked about yet, and which workers wait for work.
//!
//! A worker has to say what it would have to fetch for a job before the job is worth much to it. Most jobs need nothing
//! fetched, and then the answer is known: nothing. So each pool keeps the order in which its jobs came, and each worker
//! how far down that list it has been asked; when it asks for work, jobs without inputs are answered for it and the others
//! are offered to it.

use std::collections::{BTreeMap, BTreeSet};

use landfall_api::ApiError;
use landfall_api::agent::{Ask, Asked, Command, Offered, ReportAnswers, Reports};
use landfall_engine::input::{Failure as Failed, Report};
use landfall_engine::record::{JobRecord, Phase};
use landfall_engine::{Answer, Fence, Input, State};
use landfall_model::life::Task;
use landfall_model::{Dispatch, JobId, JobKind, JobReport, NodeId, PoolId};

use super::core::Core;
use super::handle::Failure;

/// Jobs that one worker is asked about in one breath.
const ASKED_AT_ONCE: usize = 1000;

/// More bytes a second than any network carries: 10^9 Mbit/s, as in heartbeats.
const NETWORK_BYTES_S_MAX: u64 = 125_000_000_000_000;

/// The list is shortened when it is longer than this, and twice as long as what was left of it the last time.
const LONG: usize = 10_000;

#[derive(Debug, Default)]
struct Pool {
    /// Jobs in the order in which they came to the queue.
    came: Vec<JobId>,
    /// How far down that list each worker has been asked.
    asked: BTreeMap<NodeId, usize>,
    /// From which length on the list is shortened next.
    long: usize,
    /// Workers that asked and got nothing.
    hungry: BTreeSet<NodeId>,
    /// Whether something came since they were last told.
    news: bool,
}

#[derive(Debug, Default)]
pub(super) struct PullPools {
    pools: BTreeMap<PoolId, Pool>,
    offers: Vec<(NodeId, Vec<Offered>)>,
}

impl PullPools {
    /// What waits in a state.
    pub(super) fn of(state: &State) -> Self {
        let mut pools = Self::default();
        for (id, record) in state.jobs.iter().filter(|(_, record)| record.is_queued()) {
            if state.pool(&record.pool).is_some_and(|pool| pool.pool.dispatch == Dispatch::Pull) {
                pools.pool(&record.pool).came.push(id.clone());
            }
        }
        pools
    }

    /// What was to be offered is not.
    pub(super) fn forget_offers(&mut self) {
        self.offers.clear();
    }

    /// A worker is gone; nobody waits for it.
    pub(super) fn gone(&mut self, node: &NodeId) {
        for pool in self.pools.values_mut() {
            pool.asked.remove(node);
            pool.hungry.remove(node);
        }
    }

    fn pool(&mut self, id: &PoolId) -> &mut Pool {
        self.pools.entry(id.clone()).or_default()
    }

    /// A job came to the queue of a pool.
    pub(super) fn waits(&mut self, pool: &PoolId, job: JobId) {
        let pool = self.pool(pool);
        pool.came.push(job);
        pool.news = true;
    }
}

impl Pool {
    /// Drops jobs that no longer wait from a list that became long, whoever has been asked how far: about those nobody is asked
    /// any more. One that comes back is in the list anew, and counts where it came last.
    fn shorten(&mut self, waits: impl Fn(&JobId) -> bool) {
        if self.came.len() <= self.long.max(LONG) {
            return;
        }
        let mut known = BTreeSet::new();
        let mut stays: Vec<bool> =
            self.came.iter().rev().map(|job| waits(job) && known.insert(job)).collect();
        stays.reverse();
        let mut before = 0;
        let staying_before = stays.iter().map(|stays| {
            before += usize::from(*stays);
            before
        });
        let places: Vec<usize> = std::iter::once(0).chain(staying_before).collect();
        self.asked.values_mut().for_each(|asked| *asked = places[*asked]);
        let mut stays = stays.into_iter();
        self.came.retain(|_| stays.next() == Some(true));
        self.long = 2 * self.came.len();
    }
}

impl Core {
    pub(super) fn is_pull(&self, pool: &PoolId) -> bool {
        self.engine.state().pool(pool).is_some_and(|pool| pool.pool.dispatch == Dispatch::Pull)
    }

    /// Gives a worker as much work as it has room for.
    pub(super) fn ask(&mut self, node: &NodeId, ask: &Ask) -> Result<Asked, Failure> {
        let kind = match ask.kind.as_str() {
            "build" => JobKind::Build,
            "eval" => JobKind::Eval,
            other => {
                let message = format!("there is no kind of job `{other}`");
                let error = ApiError::new("invalid", message).hint("`build` or `eval`").field("kind");
                return Err(Failure::refused(422, error));
            }
        };
        let Some((pool, _)) = self.engine.state().places.get(node).cloned() else {
            let error = ApiError::new("unknown_node", format!("there is no node `{node}`"));
            return Err(Failure::refused(404, error.hint("register it first")));
        };
        if !self.is_pull(&pool) {
            let message = format!("pool `{pool}` sends work by itself");
            return Err(Failure::refused(409, ApiError::new("not_pull", message).hint("wait for commands")));
        }
        self.answer_for(&pool, node);
        let mut granted = Vec::new();
        let mut reason = None;
        while granted.len() < ask.slots as usize {
            match self.step(Input::Ask { node: node.clone(), kind }) {
                Answer::Work(fence) => granted.push(fence),
                Answer::Nothing(why) => {
                    reason = Some(why.into_owned());
                    break;
                }
                Answer::Refused(refused) => return Err(super::submit::refused_answer(refused)),
                _ => break,
            }
        }
        if reason.is_some() {
            self.pull.pool(&pool).hungry.insert(node.clone());
        }
        Ok(Asked { granted, reason })
    }

    /// Says for a worker what is known without asking it, and offers it the rest.
    fn answer_for(&mut self, pool: &PoolId, node: &NodeId) {
        let state = self.engine.state();
        let queue = self.pull.pools.entry(pool.clone()).or_default();
        let from = queue.asked.get(node).copied().unwrap_or(0);
        let mut known = Vec::new();
        let mut offers = Vec::new();
        let upto = (from + ASKED_AT_ONCE).min(queue.came.len());
        for job in &queue.came[from.min(upto)..upto] {
            let Some(record) = state.job(job).filter(|record| record.is_queued()) else { continue };
            // Whoever looks for a result elsewhere reads nothing.
            let needed = state.task(record).is_none_or(|task| task != Task::Fetch);
            match record.job.spec.inputs.as_deref().filter(|_| needed).unwrap_or_default() {
                [] => known.push((job.clone(), Some(JobReport::NOTHING))),
                inputs => {
                    let inputs = inputs
                        .iter()
                        .map(|input| (input.digest.to_string(), input.bytes.map(landfall_model::Bytes::get)));
                    offers.push(Offered { job: job.to_string(), inputs: inputs.collect() });
                }
            }
        }
        queue.asked.insert(node.clone(), upto);
        if !offers.is_empty() {
            self.pull.offers.push((node.clone(), offers));
        }
        if !known.is_empty() {
            self.step(Input::Fetches { node: node.clone(), entries: known });
        }
    }

    /// A worker that registers anew is asked anew.
    pub(super) fn pull_forgets(&mut self, pool: &PoolId, node: &NodeId) {
        if self.is_pull(pool) {
            self.pull.pool(pool).asked.insert(node.clone(), 0);
        }
    }

    /// With every round of a pull pool the scores have changed, so those who got nothing are told to ask again.
    pub(super) fn pull_tick(&mut self) {
        let rounds: Vec<PoolId> = self
            .batch
            .events
            .iter()
            .filter_map(|(_, event)| match event {
                landfall_engine::Event::Round(pool) => Some(pool.clone()),
                _ => None,
            })
            .collect();
        for pool in rounds {
            self.pull.pool(&pool).news = true;
        }
    }

    /// Tells workers that there is work, and what to look at.
    pub(super) fn send_pull_commands(&mut self) {
        for (node, jobs) in std::mem::take(&mut self.pull.offers) {
            self.tell(&node, Command::Offer { jobs });
        }
        let mut told = Vec::new();
        let state = self.engine.state();
        for (id, pool) in &mut self.pull.pools {
            pool.shorten(|job| state.job(job).is_some_and(JobRecord::is_queued));
            if std::mem::take(&mut pool.news) && self.engine.waiting_in(id) > 0 {
                told.extend(std::mem::take(&mut pool.hungry));
            }
        }
        for node in told {
            self.tell(&node, Command::Work);
        }
    }

    /// Whether an attempt is the present one and has not ended on a node.
    pub(super) fn runs_there(&self, node: &NodeId, fence: &Fence) -> bool {
        let record = self.engine.state().job(&fence.job).filter(|record| record.attempt == fence.attempt);
        let run = record.and_then(|record| record.run.as_ref());
        run.is_some_and(|run| run.nodes.iter().any(|at| at.node == *node && at.phase != Phase::Ended))
    }

    /// Takes reports in, in order, and gives more work in the same breath.
    pub(super) fn reports(&mut self, node: &NodeId, reports: Reports) -> ReportAnswers {
        let mut answers = Vec::with_capacity(reports.reports.len());
        for item in reports.reports {
            if let Report::Exited { usage, failure, .. } = &item.report
                && self.runs_there(node, &item.fence)
                && let Some(run) = self.jobs.run_mut(&item.fence.job)
            {
                let sum = run.usage.get_or_insert_default();
                super::nodes::add_usage(sum, usage);
                let told = item.network_bytes_s.filter(|bytes| *bytes <= NETWORK_BYTES_S_MAX);
                sum.network_bytes_s = sum.network_bytes_s.max(told);
                run.files = run.files.take().or_else(|| item.files.clone());
                // The engine keeps exit codes; why a job was stopped is worth more to people.
                if *failure == Some(Failed::Timeout) {
                    run.failure = Some("timeout".into());
                }
            }
            if let Some(cpus) = item.cpus.filter(|_| self.runs_there(node, &item.fence))
                && let Some(run) = self.jobs.run_mut(&item.fence.job)
                && let Some(at) = run.nodes.iter_mut().find(|at| at.node == node.as_str())
            {
                at.cpus = Some(cpus);
            }
            if matches!(item.report, Report::Exited { .. } | Report::Stopped | Report::Refused(_)) {
                self.stops.over(node, &item.fence);
            }
            let report = Input::Report { node: node.clone(), fence: item.fence, report: item.report };
            answers.push(match self.step(report) {
                Answer::Ignored(why) => why.into_owned(),
                Answer::Refused(refused) => refused.code.into_owned(),
                _ => "done".to_owned(),
            });
        }
        let mut granted = 0;
        if reports.ask > 0 {
            let ask = Ask { kind: "build".into(), slots: reports.ask };
            // A node of another kind of pool simply gets nothing this way.
            granted = self.ask(node, &ask).map_or(0, |asked| asked.granted.len() as u32);
        }
        ReportAnswers { answers, granted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: usize) -> JobId {
        JobId::new(&number.to_string()).unwrap()
    }

    #[test]
    fn jobs_that_no_longer_wait_are_dropped_also_where_a_worker_never_asks() {
        let (quick, slow) = (NodeId::new("quick").unwrap(), NodeId::new("slow").unwrap());
        let mut pool = Pool::default();
        pool.asked.insert(slow.clone(), 0);
        let mut longest = 0;
        for number in 0..10 * LONG {
            pool.came.push(job(number));
            pool.asked.insert(quick.clone(), pool.came.len());
            // Two of all wait for ever; the others began long ago.
            pool.shorten(|other| *other == job(5) || *other == job(70_000));
            longest = longest.max(pool.came.len());
        }
        assert!(longest <= LONG + 1, "{longest}");
        assert_eq!(pool.asked[&slow], 0, "it is asked about all that wait");
        assert_eq!((&pool.came[..2], pool.asked[&quick]), (&[job(5), job(70_000)][..], pool.came.len()));
    }

    #[test]
    fn one_that_came_back_is_asked_about_again_and_kept_once() {
        let (early, late) = (NodeId::new("early").unwrap(), NodeId::new("late").unwrap());
        let mut pool = Pool::default();
        pool.came.extend((0..LONG).map(job));
        pool.asked.insert(early.clone(), 10);
        pool.came.push(job(3));
        pool.asked.insert(late.clone(), pool.came.len());
        pool.shorten(|other| [3, 4, 20].iter().any(|number| *other == job(*number)));
        assert_eq!(pool.came, [job(4), job(20), job(3)]);
        assert_eq!((pool.asked[&early], pool.asked[&late]), (1, 3));
    }
}
