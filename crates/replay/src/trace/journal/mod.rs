//! What a server has lived through, as a trace: its journal's events become what there was, what came and what happened to it.
//!
//! ```text
//!   pool, tenant and block set ─────────► settings       ┐
//!   node joined, moved, left, heard ────► nodes, changes │ at their instants, counted from
//!   submitted, linked ──────────────────► submissions    │ the first submission
//!   committed … started … ended ────────► how each runs  │
//!   cancelled, held, walltime set ──────► orders         │
//!   cycled ─────────────────────────────► cycles         ┘
//! ```
//!
//! Decisions are not brought: finding them again is what a replay is for. What came from outside and cannot be said in a trace
//! is counted by reason, and so is whatever the events do not tell because they are no longer kept.
//!
//! *The end.* What had not ended when the trace was made is cancelled at its last instant, so that a replay ends there too
//! and does not make up how it would have gone on.

mod begin;
mod runs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_engine::Event;
use landfall_engine::array::Shape;
use landfall_engine::dag::{self, Edge, EdgeKind};
use landfall_engine::record::Cause;
use landfall_model::{
    Block, BlockId, Dispatch, Job, JobId, JobReport, Millis, Node, NodeId, NodeState, PoolId, TenantId, Time,
};

use super::own::{Change, JobOrder, NodeChange, Order, Record, Setting, Submission};
use runs::Course;

/// Kinds of events that are read, by the names that the event stream gives them.
pub const KINDS: [&str; 45] = [
    "pool_set",
    "tenant_set",
    "block_set",
    "node_joined",
    "node_moved",
    "node_left",
    "heard",
    "submitted",
    "array_submitted",
    "array_extended",
    "linked",
    "folded_dropped",
    "user_hold",
    "walltime_set",
    "committed",
    "started",
    "reported",
    "afresh",
    "saving",
    "saved",
    "stopping",
    "suspended",
    "requeued",
    "ended",
    "cycled",
    "providers_set",
    "mix_set",
    "energy_price",
    "measured",
    "instance_set",
    "world_set",
    "fetches",
    "staged",
    "work_share",
    "capacity_set",
    "peer_set",
    "peer_told",
    "hold_made",
    "resized",
    "node_served",
    "reactive_set",
    "clock_jumped",
    "unfolded",
    "maintenance",
    "caps_set",
];

/// Events that come from outside and have no line in a trace, with what they are.
fn unsaid(event: &Event) -> Option<&'static str> {
    Some(match event {
        Event::ProvidersSet(_) => "providers that were set",
        Event::MixSet { .. } => "expected mixes of jobs that were set",
        Event::EnergyPrice(_) => "energy prices",
        Event::CapsSet(_) => "caps of the cluster",
        Event::Measured { .. } => "measurements of power and storage traffic",
        Event::InstanceSet { .. } | Event::WorkShare { .. } => "trailing means of pull pools",
        Event::WorldSet { .. } => "situations that were set at once",
        Event::Fetches { report: Some(report), .. } if *report != JobReport::NOTHING => {
            "what workers would have to fetch"
        }
        Event::Staged { .. } => "inputs that were brought near",
        Event::CapacitySet(_) => "orders of capacity",
        Event::PeerSet { .. } | Event::PeerTold { .. } => "messages between peers",
        Event::HoldMade(_) => "holds that a placer outside made",
        Event::Resized { .. } | Event::ReactiveSet { .. } => "changes of a job's size while it ran",
        // That it begins is told as the node's change.
        Event::Maintenance { at: Some(_), .. } => "announcements of when a node goes out of service",
        Event::ClockJumped { .. } => "jumps of the clock",
        Event::NodeServed { speed_ratio: Some(_), .. } => "measured speeds of nodes",
        Event::Saving { .. } => "checkpoints, which take no time in a replay",
        _ => return None,
    })
}

/// Jobs that are spoken of without having come.
const UNSEEN: &str = "jobs that came before the oldest event that is kept";
/// Dependencies on them, or on jobs of other pools.
const GONE_EDGES: &str = "dependencies on jobs that are not in the trace";
const UNFINISHED: &str = "jobs and arrays that had not ended: cancelled at the end of the trace";

/// A job or an array that came in.
#[derive(Debug)]
struct Came {
    submission: Submission,
    course: Course,
    /// Elements that have ended or were dropped.
    over: u64,
}

/// What became of a journal.
#[derive(Debug, Default)]
pub struct Recorded {
    /// In the order in which a trace has them.
    pub records: Vec<Record>,
    pub jobs: u64,
    pub nodes: u64,
    /// What is not in the trace, or not as it was, with how often.
    pub left_out: BTreeMap<String, u64>,
}

/// Turns events into a trace, one after the other.
#[derive(Debug, Default)]
pub struct Recorder {
    /// The only pool of which jobs and nodes are wanted.
    only: Option<PoolId>,
    /// Settings, nodes, changes and orders, as they came.
    happened: Vec<Record>,
    cycles: BTreeMap<PoolId, Vec<Time>>,
    dispatch: BTreeMap<PoolId, Dispatch>,
    tenants: BTreeSet<TenantId>,
    nodes: BTreeMap<NodeId, NodeState>,
    blocks: BTreeMap<BlockId, Arc<Block>>,
    /// Jobs and arrays, in the order in which they came.
    order: Vec<JobId>,
    came: BTreeMap<JobId, Came>,
    elements: BTreeMap<JobId, Course>,
    /// The request that the last event belongs to, if it was a submission: its number, its instant and its first job.
    request: Option<(u64, Time, JobId)>,
    /// Jobs that are spoken of and did not come within the events.
    unseen: BTreeSet<JobId>,
    left_out: BTreeMap<String, u64>,
}

impl Recorder {
    /// Records everything, or one pool.
    pub fn new(only: Option<PoolId>) -> Self {
        Self { only, ..Self::default() }
    }

    /// Counts something that is not in the trace, or not as it was.
    pub fn leave_out(&mut self, what: impl Into<String>) {
        *self.left_out.entry(what.into()).or_default() += 1;
    }

    /// A setting that is known without its event: it is there from the beginning.
    pub fn was_set(&mut self, setting: Setting) {
        self.note_setting(&setting);
        if self.wants_setting(&setting) {
            self.happened.push(Record::Setting(None, setting));
        }
    }

    /// A node that is known without its event: it is there from the beginning.
    pub fn was_there(&mut self, node: Node) {
        if node.pool.as_ref().is_some_and(|pool| self.is_wanted(pool)) {
            self.nodes.insert(node.id.clone(), NodeState::Ready);
            self.happened.push(Record::Nodes(None, vec![node]));
        }
    }

    pub fn knows_node(&self, id: &NodeId) -> bool {
        self.nodes.contains_key(id)
    }

    pub fn knows_pool(&self, id: &PoolId) -> bool {
        self.dispatch.contains_key(id)
    }

    pub fn knows_tenant(&self, id: &TenantId) -> bool {
        self.tenants.contains(id)
    }

    /// Whether a job came, by itself or as an element of an array.
    pub fn knows_job(&self, id: &str) -> bool {
        let array = id.rsplit_once('.').map(|(array, _)| array);
        self.came.contains_key(id) || array.is_some_and(|array| self.came.contains_key(array))
    }

    /// A job that ended and is known without its events.
    pub fn was_submitted(&mut self, submission: Submission) {
        let course = Course::over(submission.runs.clone());
        self.came_in(Came { submission, course, over: 0 });
    }

    fn is_wanted(&self, pool: &PoolId) -> bool {
        self.only.as_ref().is_none_or(|only| only == pool)
    }

    fn wants_setting(&self, setting: &Setting) -> bool {
        match setting {
            Setting::Pool { pool, .. } => self.is_wanted(&pool.id),
            _ => true,
        }
    }

    fn note_setting(&mut self, setting: &Setting) {
        match setting {
            Setting::Pool { pool, .. } => drop(self.dispatch.insert(pool.id.clone(), pool.dispatch)),
            Setting::Block(block) => drop(self.blocks.insert(block.id.clone(), block.clone())),
            Setting::Tenant(tenant) => drop(self.tenants.insert(tenant.id.clone())),
        }
    }

    fn set(&mut self, at: Time, setting: Setting) {
        self.note_setting(&setting);
        if self.wants_setting(&setting) {
            self.happened.push(Record::Setting(Some(at), setting));
        }
    }

    fn came_in(&mut self, came: Came) {
        let id = came.submission.job.id.clone();
        if self.came.insert(id.clone(), came).is_none() {
            self.order.push(id);
        }
    }

    /// Takes an event in.
    pub fn take(&mut self, seq: u64, at: Time, event: Event) {
        if let Some(what) = unsaid(&event) {
            self.leave_out(what);
        }
        match event {
            Event::PoolSet { pool, policy } => self.set(at, Setting::Pool { pool, policy }),
            Event::TenantSet(tenant) => self.set(at, Setting::Tenant(tenant)),
            Event::BlockSet(block) => self.set(at, Setting::Block(block)),
            Event::NodeJoined { pool, node } => self.joined(at, pool, *node),
            Event::NodeMoved { node, to } => self.moved(at, &node, to),
            Event::NodeLeft(node) => self.moved(at, &node, NodeState::Down),
            Event::Heard { node, heartbeat } => {
                if self.nodes.contains_key(&node) && !heartbeat.is_bare() {
                    self.change(at, node, Change::Says(heartbeat));
                }
            }
            Event::Submitted { job, pool, user_hold } => {
                let with = self.request.take().filter(|(last, then, _)| (*last + 1, *then) == (seq, at));
                let first = with.as_ref().map_or_else(|| job.id.clone(), |(.., first)| first.clone());
                self.request = Some((seq, at, first));
                self.submitted(at, *job, pool, user_hold, with.map(|(.., first)| first));
            }
            Event::ArraySubmitted { job, pool, user_hold, shape, after } => {
                self.array_submitted(at, *job, pool, (user_hold, shape), after);
            }
            Event::ArrayExtended { array, last } => {
                // In a trace all its elements come at once.
                if let Some(shape) = self.came.get_mut(&array).and_then(|came| came.submission.array.as_mut())
                {
                    shape.indices.last = last;
                }
            }
            Event::Linked(submission) => self.linked(*submission),
            Event::FoldedDropped { array, positions, cause } => {
                if let Some(came) = self.came.get_mut(&array) {
                    came.over += u64::from(positions.len());
                    if cause == Cause::User {
                        self.order(at, array, Order::Cancel);
                    }
                }
            }
            Event::UserHold { job, held } => {
                self.order(at, job, if held { Order::Hold } else { Order::Release });
            }
            Event::WalltimeSet { job, walltime } => self.order(at, job, Order::Walltime(walltime)),
            Event::Cycled { pool, .. } => {
                if self.dispatch.get(&pool) == Some(&Dispatch::Batch) && self.is_wanted(&pool) {
                    self.cycles.entry(pool).or_default().push(at);
                }
            }
            event => self.ran(at, &event),
        }
    }

    fn joined(&mut self, at: Time, pool: PoolId, mut node: Node) {
        if !self.is_wanted(&pool) {
            return;
        }
        if let Some(block) = node.block.clone()
            && self.blocks.get(&block.id) != Some(&block)
        {
            self.set(at, Setting::Block(block));
        }
        node.pool = Some(pool);
        // Where it stands is told by changes, and that it is in touch goes without saying.
        (node.state, node.heartbeat_at) = (NodeState::Ready, None);
        let state = self.nodes.entry(node.id.clone()).or_insert(NodeState::Ready);
        if *state == NodeState::Down {
            *state = NodeState::Ready;
        }
        self.happened.push(Record::Nodes(Some(at), vec![node]));
    }

    fn moved(&mut self, at: Time, node: &NodeId, to: NodeState) {
        let Some(state) = self.nodes.get_mut(node) else { return };
        let from = std::mem::replace(state, to);
        let change = match to {
            NodeState::Ready if from != NodeState::Ready => Change::Up,
            NodeState::Draining => Change::Drain,
            NodeState::Unknown | NodeState::Degraded => Change::Out,
            NodeState::Down if from != NodeState::Down => Change::Down,
            // A node is drained by itself once it is empty.
            NodeState::Ready | NodeState::Down | NodeState::Drained | NodeState::Booting => return,
        };
        self.change(at, node.clone(), change);
    }

    fn change(&mut self, at: Time, node: NodeId, to: Change) {
        self.happened.push(Record::Change(NodeChange { at, node, to }));
    }

    fn order(&mut self, at: Time, job: JobId, to: Order) {
        if self.knows_job(job.as_str()) {
            self.happened.push(Record::Order(JobOrder { at, job, to }));
        }
    }

    fn submitted(&mut self, at: Time, job: Job, pool: PoolId, held: bool, with: Option<JobId>) {
        if !self.is_wanted(&pool) {
            return;
        }
        let with = with.filter(|with| self.came.contains_key(with));
        let submission = Submission { held, with, ..submission(at, job, pool) };
        self.came_in(Came { submission, course: Course::default(), over: 0 });
    }

    fn array_submitted(
        &mut self,
        at: Time,
        job: Job,
        pool: PoolId,
        (held, shape): (bool, Shape),
        after: Vec<JobId>,
    ) {
        if !self.is_wanted(&pool) {
            return;
        }
        let after = after.into_iter().map(|on| Edge { on, kind: EdgeKind::Corresponding }).collect();
        let array = Some(Shape { ids_to: None, ..shape });
        let submission = Submission { held, array, after, ..submission(at, job, pool) };
        self.came_in(Came { submission, course: Course::default(), over: 0 });
    }

    fn linked(&mut self, submission: dag::Submission) {
        for job in submission.jobs {
            if let Some(came) = self.came.get_mut(&job.id) {
                came.submission.after.extend(job.edges);
                came.submission.join = job.join;
            }
        }
    }

    /// What happened to a job after it came.
    fn ran(&mut self, at: Time, event: &Event) {
        let Some(job) = Course::job_of(event) else { return };
        let element = match self.came.get_mut(job) {
            Some(came) => {
                if let Some(order) = came.course.take(at, event, &mut self.left_out) {
                    self.order(at, job.clone(), order);
                }
                return;
            }
            None => landfall_engine::array::parse_element_id(job),
        };
        let Some(array) = element.and_then(|(array, _)| self.came.get_mut(array)) else {
            self.unseen.insert(job.clone());
            return;
        };
        array.over += u64::from(matches!(event, Event::Ended { .. }));
        let course = self.elements.entry(job.clone()).or_default();
        if let Some(order) = course.take(at, event, &mut self.left_out) {
            self.order(at, job.clone(), order);
        }
    }

    /// The trace, of what was recorded until now.
    pub fn finish(mut self, until: Time) -> Recorded {
        let unseen = self.unseen.iter().filter(|job| !self.knows_job(job.as_str())).count() as u64;
        if unseen > 0 && self.only.is_none() {
            self.left_out.insert(UNSEEN.to_owned(), unseen);
        }
        self.end(until);
        let origin = self.came.values().map(|came| came.submission.at).min().unwrap_or(until);
        let brought: BTreeSet<JobId> = self.came.keys().cloned().collect();
        let is_brought = |job: &JobId| {
            let array = job.as_str().rsplit_once('.').map(|(array, _)| array);
            brought.contains(job) || array.is_some_and(|array| brought.contains(array))
        };
        let mut jobs = 0;
        let mut records: Vec<Record> = self.happened;
        for id in self.order {
            let Some(Came { mut submission, course, .. }) = self.came.remove(&id) else { continue };
            jobs += submission.array.as_ref().map_or(1, |shape| u64::from(shape.total()));
            let edges = submission.after.len();
            submission.after.retain(|edge| is_brought(&edge.on));
            let gone = (edges - submission.after.len()) as u64;
            if gone > 0 {
                *self.left_out.entry(GONE_EDGES.to_owned()).or_default() += gone;
            }
            submission.runs = course.runs();
            records.push(Record::Submission(Box::new(submission)));
        }
        records.extend(self.elements.into_iter().map(|(id, course)| Record::Element(id, course.runs())));
        records.extend(self.cycles.into_iter().map(|(pool, times)| Record::Cycles(pool, times)));
        let records = records.into_iter().map(|record| since(record, origin)).collect();
        Recorded { records, jobs, nodes: self.nodes.len() as u64, left_out: self.left_out }
    }

    /// Whatever has not ended is cancelled at the end.
    fn end(&mut self, until: Time) {
        let after = until + Millis::new(1);
        let open = |came: &Came| match &came.submission.array {
            Some(shape) => came.over < u64::from(shape.total()),
            None => !came.course.is_over(),
        };
        let open: Vec<JobId> =
            self.came.iter().filter(|(_, came)| open(came)).map(|(id, _)| id.clone()).collect();
        for job in open {
            self.leave_out(UNFINISHED);
            self.order(after, job, Order::Cancel);
        }
    }
}

/// A job as it came, to be told when.
fn submission(at: Time, mut job: Job, pool: PoolId) -> Submission {
    let not_before = job.retry_at.take();
    // What it waits for is told by its dependencies.
    job.waits_for = None;
    if job.spec.pool.as_ref() != Some(&pool) {
        Arc::make_mut(&mut job.spec).pool = Some(pool);
    }
    Submission { not_before, ..Submission::new(at, None, job) }
}

/// A record with instants that count from another one.
fn since(record: Record, origin: Time) -> Record {
    let shift = |at: Time| Time::from_millis(at.as_millis() - origin.as_millis());
    let maybe = |at: Option<Time>| at.map(shift);
    match record {
        Record::Setting(at, Setting::Block(block)) => {
            let mut block = Block::clone(&block);
            block.start_at = maybe(block.start_at);
            block.end_at = maybe(block.end_at);
            block.drain_deadline = maybe(block.drain_deadline);
            Record::Setting(maybe(at), Setting::Block(Arc::new(block)))
        }
        Record::Setting(at, setting) => Record::Setting(maybe(at), setting),
        Record::Nodes(at, mut nodes) => {
            for node in &mut nodes {
                node.cooldown_until = maybe(node.cooldown_until);
                node.maintenance_at = maybe(node.maintenance_at);
            }
            Record::Nodes(maybe(at), nodes)
        }
        Record::Submission(mut submission) => {
            (submission.at, submission.not_before) = (shift(submission.at), maybe(submission.not_before));
            Record::Submission(submission)
        }
        Record::Change(change) => Record::Change(NodeChange { at: shift(change.at), ..change }),
        Record::Order(order) => Record::Order(JobOrder { at: shift(order.at), ..order }),
        Record::Cycles(pool, times) => Record::Cycles(pool, times.into_iter().map(shift).collect()),
        Record::Element(..) => record,
    }
}

#[cfg(test)]
mod tests {
    use landfall_engine::codec;

    use super::*;

    /// Events that need not be read: a replay finds them again, or nothing that a trace can say depends on them.
    const UNREAD: &[&str] = &[
        "epoch",
        "pool_deleted",
        "tenant_deleted",
        "array_closed",
        "eligible",
        "undecided",
        "took_room",
        "start_sent",
        "saving_extended",
        "save_failed",
        "noticed",
        "rejected",
        "forgotten",
        "hold_ended",
        "nodes_kept",
        "nodes_freed",
        "reserved",
        "unreserved",
        "requeue_limited",
        "node_fault",
        "probed",
        "round",
        "history",
        "announced",
        "surge",
    ];

    #[test]
    fn every_kind_of_event_is_read_or_need_not_be() {
        // What cannot be read is answered with all there are. A pair of 0 and a text, as the journal has it: another reader of
        // events would be built for this alone.
        let error = codec::read_event(&mut &b"\x82\x00\x67nothing"[..], &mut Vec::new()).unwrap_err();
        let (_, all) = error.split_once("expected one of ").unwrap();
        let mut all: Vec<&str> = all.split('`').skip(1).step_by(2).collect();
        let mut known = [&KINDS[..], UNREAD].concat();
        all.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, all);
    }

    #[test]
    fn planned_maintenance_and_caps_are_counted_where_they_are_left_out() {
        let mut recorder = Recorder::default();
        let at = Time::from_secs(5);
        let node = NodeId::new("n").unwrap();
        let planned = |at| Event::Maintenance { node: node.clone(), at, why: None };
        for (seq, event) in
            [planned(Some(at)), planned(None), Event::CapsSet(Default::default())].into_iter().enumerate()
        {
            recorder.take(seq as u64, at, event);
        }
        let left_out: Vec<(String, u64)> = recorder.finish(at).left_out.into_iter().collect();
        assert_eq!(
            left_out,
            [
                ("announcements of when a node goes out of service".to_owned(), 1),
                ("caps of the cluster".to_owned(), 1)
            ]
        );
    }
}
