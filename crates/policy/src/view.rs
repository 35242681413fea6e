//! What filters and terms may look at: one pass over a situation, and one pair inside it.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::{
    Bytes, Gpu, Job, JobKind, JobReport, JobSpec, Mib, Millis, Node, Placement, PoolId, Prediction,
    Situation, Tenant, Time, WorkloadId, World, predicted_duration,
};
use smallvec::SmallVec;

pub use landfall_model::verdict::{LazyCounts, Mode};

use crate::policy::BoundFilter;
use crate::rules::snapshot::{Backlog, Pressure, SpecView};
use crate::rules::supply::{Supply, Weights};

/// The devices chosen for a pair, as positions in the node's list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Devices {
    /// How they are used.
    pub mode: Mode,
    /// Positions in the node's list, ascending.
    pub chosen: SmallVec<[u16; 8]>,
}

impl Devices {
    pub fn gpus<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Gpu> + Clone {
        self.chosen.iter().filter_map(|&position| node.gpus.get(usize::from(position)))
    }

    /// The indices of the chosen devices.
    pub fn indices(&self, node: &Node) -> Vec<u16> {
        self.gpus(node).map(|gpu| gpu.index).collect()
    }
}

impl Devices {
    /// What the ledger would commit for a job on these devices.
    ///
    /// An offloaded model takes the device's free memory up to its need and the rest as RAM; without device all is RAM.
    pub fn placement(&self, job: &Job, node: &Node) -> Placement {
        let spec = &job.spec;
        let mut placement = Placement::of(job.id.clone(), spec, &self.indices(node));
        let need = spec.vram_mib * u64::from(spec.gpu_count);
        match self.mode {
            Mode::Gpu | Mode::None => {}
            Mode::Cpu => placement.ram += need,
            Mode::Offload => {
                let mut on_devices = Mib::ZERO;
                for (share, gpu) in placement.devices.iter_mut().zip(self.gpus(node)) {
                    share.vram = gpu.vram_free().min(need);
                    share.milli = gpu.milli_free().min(spec.gpu_milli);
                    on_devices += share.vram;
                }
                placement.ram += need.saturating_sub(on_devices);
            }
        }
        placement
    }
}

/// Everything around a pair that stays the same while one question is answered.
///
/// Values that are dear to compute are computed when a rule first reads them and kept for the pass.
pub struct Pass<'a> {
    pub now: Time,
    /// Everything that is neither node nor job.
    pub world: &'a World,
    /// A pool whose nodes may be used as if they were of the job's.
    pub lender: Option<PoolId>,
    nodes: &'a [Node],
    queue: Queue<'a>,
    history: RefCell<BTreeMap<HistoryKey, Prediction>>,
    inputs: PerClass<Option<Bytes>>,
    spec_views: PerClass<SpecView>,
    backlog: OnceCell<Backlog>,
    pressure: OnceCell<Pressure>,
    utilisation: OnceCell<f64>,
    groups: OnceCell<u64>,
    mix_weights: OnceCell<Weights>,
    counts: Cell<LazyCounts>,
    as_they_are: RefCell<Option<AsTheyAre>>,
}

/// What terms measure of nodes as they are, whoever asks: kept by somebody who is told when a node changes.
///
/// A pass that was lent it reads and fills it; one that was not measures anew.
#[derive(Debug, Default)]
pub(crate) struct AsTheyAre(Vec<[Option<f64>; 2]>);

/// Whose measure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Fragmentation,
    Room,
}

impl AsTheyAre {
    pub(crate) fn forget(&mut self, slot: usize) {
        if let Some(known) = self.0.get_mut(slot) {
            *known = [None; 2];
        }
    }

    pub(crate) fn forget_all(&mut self) {
        self.0.clear();
    }
}

/// What a prediction depends on: workload, kind of job, and size bucket of the inputs.
type HistoryKey = (WorkloadId, JobKind, Option<u32>);

/// The waiting jobs of a pass, or what they add up to.
enum Queue<'a> {
    Jobs(&'a [Job]),
    Backlog(Backlog),
}

impl<'a> Pass<'a> {
    /// A pass over a situation.
    pub fn new(situation: &'a Situation) -> Self {
        Self::over(situation.now, &situation.world, situation.nodes(), Queue::Jobs(situation.jobs()))
    }

    /// A pass over parts that somebody else keeps; `backlog` is what the waiting jobs add up to.
    pub fn of_parts(now: Time, world: &'a World, nodes: &'a [Node], backlog: Backlog) -> Self {
        Self::over(now, world, nodes, Queue::Backlog(backlog))
    }

    fn over(now: Time, world: &'a World, nodes: &'a [Node], queue: Queue<'a>) -> Self {
        Self {
            now,
            world,
            lender: None,
            nodes,
            queue,
            history: RefCell::default(),
            inputs: PerClass::default(),
            spec_views: PerClass::default(),
            backlog: OnceCell::new(),
            pressure: OnceCell::new(),
            utilisation: OnceCell::new(),
            groups: OnceCell::new(),
            mix_weights: OnceCell::new(),
            counts: Cell::default(),
            as_they_are: RefCell::default(),
        }
    }

    /// The nodes of the pass.
    pub fn nodes(&self) -> &'a [Node] {
        self.nodes
    }

    /// Takes what is known of the nodes of the pass, or gives it back.
    pub(crate) fn lend(&self, known: Option<AsTheyAre>) -> Option<AsTheyAre> {
        self.as_they_are.replace(known)
    }

    /// A measure of a node as it is.
    fn measured(&self, node: &Node, what: Measure, measure: impl FnOnce() -> f64) -> f64 {
        let mut lent = self.as_they_are.borrow_mut();
        let first = self.nodes.as_ptr().addr();
        let slot = std::ptr::from_ref(node).addr().wrapping_sub(first) / size_of::<Node>();
        // One that is not among the nodes of the pass is made of one of them, without what is kept for a job.
        let is_there = self.nodes.get(slot).is_some_and(|known| std::ptr::eq(known, node));
        let Some(AsTheyAre(known)) = lent.as_mut().filter(|_| is_there) else { return measure() };
        if known.len() <= slot {
            known.resize(self.nodes.len(), [None; 2]);
        }
        *known[slot][what as usize].get_or_insert_with(measure)
    }

    /// How often the lazy providers were asked so far.
    pub fn lazy_counts(&self) -> LazyCounts {
        self.counts.get()
    }

    fn count(&self, change: impl FnOnce(&mut LazyCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// What history predicts for a job; computed once per workload and size bucket.
    pub fn history(&self, spec: &Arc<JobSpec>) -> Prediction {
        let Some(workload) = &spec.workload else { return Prediction::default() };
        if let Some(given) = self.world.predictions.get(workload) {
            return *given;
        }
        let input = self.inputs_total_bytes(spec);
        let key = (workload.clone(), spec.kind, input.map(Prediction::bucket));
        if let Some(known) = self.history.borrow().get(&key) {
            return *known;
        }
        self.count(|counts| counts.history += 1);
        let rows = self.world.history.get(workload).into_iter().flatten();
        let found = match spec.kind {
            JobKind::Build => Prediction::from_rows(rows, input),
            JobKind::Eval => {
                let since = self.now - Millis::secs(86_400);
                let lately = rows.filter(|row| row.finished_at_ms.is_none_or(|at| at >= since));
                Prediction::from_eval_peaks(lately.filter_map(|row| row.peak_ram_mib).collect())
            }
        };
        self.history.borrow_mut().insert(key, found);
        found
    }

    /// Total size of a job's inputs; summed once per class.
    pub fn inputs_total_bytes(&self, spec: &Arc<JobSpec>) -> Option<Bytes> {
        self.inputs.get_or(spec, || {
            self.count(|counts| counts.inputs_total_bytes += 1);
            spec.inputs_total_bytes()
        })
    }

    pub fn tenant(&self, spec: &JobSpec) -> Option<&'a Tenant> {
        self.world.tenants.get(spec.tenant.as_ref()?)
    }

    /// The share of the running work that the job's tenant has.
    pub fn tenant_work_share(&self, spec: &JobSpec) -> Option<f64> {
        self.count(|counts| counts.tenant_work_share += 1);
        self.tenant(spec)?.work_share
    }

    /// What the waiting jobs add up to.
    pub fn backlog(&self) -> Backlog {
        *self.backlog.get_or_init(|| match self.queue {
            Queue::Jobs(jobs) => {
                Backlog::of(jobs.iter().filter(|job| job.retry_at.is_none_or(|at| at <= self.now)))
            }
            Queue::Backlog(backlog) => backlog,
        })
    }

    /// Hours of work that wait, and that run.
    pub fn pressure(&self) -> Pressure {
        *self.pressure.get_or_init(|| Pressure::of(self))
    }

    /// Occupied node units over those of the nodes.
    pub fn utilisation(&self) -> f64 {
        *self.utilisation.get_or_init(|| crate::rules::snapshot::utilisation(self.nodes))
    }

    /// Number of topology groups.
    pub fn groups(&self) -> u64 {
        *self.groups.get_or_init(|| crate::rules::snapshot::groups(self.nodes))
    }

    /// What each class of the expected mix weighs on these nodes.
    pub(crate) fn mix_weights(&self) -> &Weights {
        self.mix_weights.get_or_init(|| Supply::of(self.nodes).weights(&self.world.mix))
    }

    /// Takes groups and pressure from one who keeps them up to date, so that nodes need not be looked at.
    pub fn know_totals(&self, groups: u64, pressure: Pressure) {
        debug_assert_eq!(groups, crate::rules::snapshot::groups(self.nodes));
        debug_assert_eq!(pressure, Pressure::of(self));
        self.groups.get_or_init(|| groups);
        self.pressure.get_or_init(|| pressure);
    }

    pub(crate) fn know_spec_view(&self, spec: &Arc<JobSpec>, seen: SpecView) {
        self.spec_views.get_or(spec, || seen);
    }

    /// Takes the weights from one who kept them up to date, so that nodes need not be counted.
    pub(crate) fn know_mix_weights(&self, weights: &Weights) {
        debug_assert_eq!(*weights, Supply::of(self.nodes).weights(&self.world.mix));
        self.mix_weights.get_or_init(|| weights.clone());
    }
}

/// Values kept per class of jobs for one pass. The spec is held, so its address stays its own.
struct PerClass<T>(RefCell<BTreeMap<usize, (Arc<JobSpec>, T)>>);

impl<T> Default for PerClass<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T: Copy> PerClass<T> {
    fn get_or(&self, spec: &Arc<JobSpec>, compute: impl FnOnce() -> T) -> T {
        let address = Arc::as_ptr(spec).addr();
        if let Some((_, known)) = self.0.borrow().get(&address) {
            return *known;
        }
        let value = compute();
        self.0.borrow_mut().insert(address, (spec.clone(), value));
        value
    }
}

/// One pair of job and node, with the devices chosen for it.
pub struct View<'a> {
    /// The pass it belongs to.
    pub pass: &'a Pass<'a>,
    /// The filters of the policy that judges.
    pub(crate) filters: &'a [BoundFilter],
    pub job: &'a Job,
    /// What the job has in common with jobs like it.
    pub spec: &'a Arc<JobSpec>,
    pub node: &'a Node,
    /// The devices chosen; empty while filters run.
    pub devices: &'a Devices,
    /// Whether nodes are ranked for the job (and not jobs for the node).
    pub ranks_nodes: bool,
    /// Whether somebody will read the reasons; if not, texts need not be made.
    pub explains: bool,
}

impl View<'_> {
    /// A text for people, made only if somebody will read it.
    pub fn say(&self, text: impl FnOnce() -> String) -> Cow<'static, str> {
        if self.explains { Cow::Owned(text()) } else { Cow::Borrowed("") }
    }

    pub fn now(&self) -> Time {
        self.pass.now
    }

    /// What the nodes of the pass look like to jobs of this class; computed once per class.
    pub fn spec_view(&self) -> SpecView {
        self.pass.spec_views.get_or(self.spec, || SpecView::of(self))
    }

    /// What this node says it would have to fetch.
    pub fn report(&self) -> Option<JobReport> {
        self.pass.world.report(&self.job.id, &self.node.id)
    }

    /// A measure of the node as it is, without the job.
    pub(crate) fn measured(&self, what: Measure, measure: impl FnOnce() -> f64) -> f64 {
        self.pass.measured(self.node, what, measure)
    }

    pub fn gpus(&self) -> impl Iterator<Item = &Gpu> + Clone {
        self.devices.gpus(self.node)
    }

    /// Place of the node's region for the job: 0 same, then neighbours in order, then the rest.
    pub fn region_rank(&self) -> u32 {
        let Some(wanted) = &self.spec.region else { return 0 };
        let neighbours = self.pass.world.regions.get(wanted).map_or(&[][..], Vec::as_slice);
        let last = neighbours.len() as u32 + 1;
        match &self.node.region {
            Some(region) if region == wanted => 0,
            Some(region) => {
                neighbours.iter().position(|other| other == region).map_or(last, |at| at as u32 + 1)
            }
            None => last,
        }
    }

    /// Region tier: 0 same, 1 adjacent, 2 any.
    pub fn region_tier(&self) -> u8 {
        let Some(wanted) = &self.spec.region else { return 0 };
        let neighbours = self.pass.world.regions.get(wanted).map_or(0, Vec::len) as u32;
        match self.region_rank() {
            0 => 0,
            rank if rank <= neighbours => 1,
            _ => 2,
        }
    }

    /// How long the job is expected to run, at most and as a rule: what it says, or what runs of its workload took where that is
    /// asked for and known. Where it says nothing, that alone counts.
    pub(crate) fn durations(&self, predict: bool) -> (Millis, Millis) {
        let said = self.spec.expected_duration_ms;
        match self.predicted(predict) {
            None => (said, said),
            Some(took) if said == JobSpec::empty().expected_duration_ms => (took, took),
            Some(took) => (said.max(took), took),
        }
    }

    /// How long runs of the job's workload took, where that is asked for and known.
    pub(crate) fn predicted(&self, predict: bool) -> Option<Millis> {
        let workload = self.spec.workload.as_ref().filter(|_| predict)?;
        let rows = self.pass.world.history.get(workload)?;
        predicted_duration(rows.iter(), self.spec.tenant.as_ref())
    }

    /// Whether the job's workload is warm on the node.
    pub fn is_warm(&self) -> bool {
        self.spec.workload.as_ref().is_some_and(|workload| self.node.cache.contains(workload))
    }
}
