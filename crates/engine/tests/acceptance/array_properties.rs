//! Properties of arrays: folding changes what is kept, never what happens.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_engine::array::element_id;
use landfall_engine::dag::{Edge, EdgeKind};
use landfall_engine::input::{Report, RunUsage, Submission};
use landfall_engine::{Answer, Effect, Engine, Event, Fence, Input, State, codec};
use landfall_model::{
    Dispatch, Indices, Job, JobId, JobKind, JobSpec, Mib, MilliCpu, Millis, Name, Node, NodeId, Pool, PoolId,
    Requeue, Tenant, TenantId, Time,
};
use landfall_testkit::invariants::{Watcher, check_all};
use proptest::prelude::*;

/// Some jobs that are submitted together.
#[derive(Debug, Clone)]
struct Work {
    at_secs: u64,
    elements: u32,
    cores: u64,
    priority: i32,
    class: u8,
    secs: u64,
    fails: bool,
}

fn work(elements: std::ops::Range<u32>) -> impl Strategy<Value = Work> {
    (0u64..40, elements, 1u64..5, 0i32..3, 3u8..7, 1u64..30, any::<bool>()).prop_map(
        |(at_secs, elements, cores, priority, class, secs, fails)| Work {
            at_secs,
            elements,
            cores,
            priority,
            class,
            secs,
            fails,
        },
    )
}

/// Drives an engine to the end of all work; every job runs for a time that follows from its id.
struct Run {
    engine: Engine,
    now: Time,
    ends: BTreeMap<(Time, JobId), (NodeId, Fence)>,
    works: Vec<Work>,
    starts: Vec<(Time, JobId, NodeId)>,
    journal: Vec<(Time, Event)>,
    watcher: Option<Watcher>,
    nodes: Vec<NodeId>,
    pulls: bool,
}

fn spec_of(work: &Work) -> Arc<JobSpec> {
    let mut spec = JobSpec::empty();
    spec.tenant = TenantId::new("t").ok();
    spec.cpu_milli = MilliCpu::cores(work.cores);
    spec.ram_mib = Mib::gib(1);
    spec.priority = work.priority;
    spec.class = work.class;
    spec.exclusive = work.cores == 4;
    spec.walltime_ms = Millis::secs(work.secs * 3);
    spec.requeue = Requeue::Never;
    Arc::new(spec)
}

impl Run {
    fn new(dispatch: Dispatch, nodes: usize, works: &[Work], watched: bool) -> Self {
        let mut run = Self {
            engine: Engine::new(),
            now: Time::ZERO,
            ends: BTreeMap::new(),
            works: works.to_vec(),
            starts: Vec::new(),
            journal: Vec::new(),
            watcher: watched.then(Watcher::new),
            nodes: Vec::new(),
            pulls: dispatch == Dispatch::Pull,
        };
        let mut pool = Pool::new(PoolId::new("p").unwrap(), dispatch);
        pool.heartbeats = false;
        if dispatch == Dispatch::Push {
            pool.policy = Name::new("bin-pack").ok();
        }
        run.step(Input::SetPool { pool: Box::new(pool), policy: None });
        let mut tenant = Tenant::new(TenantId::new("t").unwrap());
        tenant.share = 1.0;
        run.step(Input::SetTenant(Box::new(tenant)));
        for number in 0..nodes {
            let mut node =
                Node::new(NodeId::new(&format!("n{number}")).unwrap(), MilliCpu::cores(4), Mib::gib(64));
            node.max_concurrent = 4;
            run.nodes.push(node.id.clone());
            let pool = PoolId::new("p").unwrap();
            run.step(Input::Join { pool, node: Box::new(node), running: None });
        }
        run
    }

    fn step(&mut self, input: Input) -> Answer {
        let outcome = self.engine.step(self.now, input.clone());
        if let Some(watcher) = &mut self.watcher {
            watcher.observe(&self.engine, &input, &outcome).unwrap();
            check_all(&self.engine).unwrap();
            self.journal.extend(outcome.events.iter().map(|event| (outcome.at, event.clone())));
        }
        for effect in outcome.effects {
            let Effect::Start { fence, node, .. } = effect else { continue };
            self.starts.push((self.now, fence.job.clone(), node.clone()));
            let work =
                &self.works[fence.job.as_str()[1..].split('.').next().unwrap().parse::<usize>().unwrap()];
            let salt = fence.job.as_str().bytes().fold(7u64, |sum, byte| sum * 31 % 1009 + u64::from(byte));
            let end = self.now + Millis::new(work.secs * 1000 + salt * 7);
            self.ends.insert((end, fence.job.clone()), (node.clone(), fence.clone()));
            self.step(Input::Report { node, fence, report: Report::Started });
        }
        outcome.answer
    }

    fn submit(&mut self, number: usize, folded: bool) {
        let work = self.works[number].clone();
        let id = JobId::new(&format!("w{number}")).unwrap();
        let spec = spec_of(&work);
        let last = work.elements;
        let answer = if folded {
            let submission = Box::new(Submission::new(Job::new(id, spec, self.now)));
            self.step(Input::SubmitArray { submission, indices: Indices::range(1, last, 1) })
        } else {
            let of = |index| Job::new(element_id(&id, index, last).unwrap(), spec.clone(), self.now);
            self.step(Input::Submit((1..=last).map(|index| Submission::new(of(index))).collect()))
        };
        assert_eq!(answer, Answer::Done);
    }

    /// Ends what is due first; `false` when nothing happens any more.
    fn advance(&mut self, until: Option<Time>) -> bool {
        let ends = self.ends.keys().next().map(|(at, _)| *at);
        let next = [ends, self.engine.next_wake()].into_iter().flatten().min();
        let Some(next) = next.filter(|next| until.is_none_or(|until| *next < until)) else { return false };
        self.now = self.now.max(next);
        if ends == Some(next) {
            let ((_, job), (node, fence)) = self.ends.pop_first().unwrap();
            let number: usize = job.as_str()[1..].split('.').next().unwrap().parse().unwrap();
            let code = i32::from(self.works[number].fails && job.as_str().ends_with('7'));
            let report = Report::Exited { code, failure: None, usage: Box::new(RunUsage::default()) };
            self.step(Input::Report { node: node.clone(), fence, report });
            if self.pulls {
                self.step(Input::Ask { node, kind: JobKind::Build });
            }
        } else {
            self.step(Input::Tick);
            if self.pulls {
                for node in self.nodes.clone() {
                    self.step(Input::Ask { node, kind: JobKind::Build });
                }
            }
        }
        true
    }

    fn run(mut self, folded: bool) -> Self {
        let mut order: Vec<usize> = (0..self.works.len()).collect();
        order.sort_by_key(|number| self.works[*number].at_secs);
        for number in order {
            let at = Time::from_secs(self.works[number].at_secs as i64);
            while self.advance(Some(at)) {}
            self.now = self.now.max(at);
            self.submit(number, folded);
        }
        let all: usize = self.works.iter().map(|work| work.elements as usize).sum();
        while self.starts.len() < all || !self.ends.is_empty() {
            assert!(self.advance(None), "everything comes to an end");
            let last = self.starts.last().map_or(Time::ZERO, |(at, ..)| *at);
            if self.now.since(last) > Millis::secs(36_000) {
                let waits = self.engine.state().jobs.values().find(|record| record.is_queued());
                let why = waits.and_then(|record| self.engine.explain(&record.job.id));
                panic!("nothing starts after {last}: {why:#?}");
            }
        }
        self
    }
}

fn starts_alike(dispatch: Dispatch, nodes: usize, works: &[Work]) {
    let folded = Run::new(dispatch, nodes, works, false).run(true);
    let single = Run::new(dispatch, nodes, works, false).run(false);
    let first = folded.starts.iter().zip(&single.starts).find(|(a, b)| a != b);
    assert_eq!(first, None, "folded and one by one differ");
    assert_eq!(folded.starts.len(), single.starts.len());
    assert_eq!(check_all(&folded.engine), Ok(()));
    for array in folded.engine.state().folded.values() {
        assert!(array.is_over());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn folded_and_one_by_one_start_alike_in_push_pools(
        works in prop::collection::vec(work(1..1500), 1..4), nodes in 40usize..400,
    ) {
        starts_alike(Dispatch::Push, nodes, &works);
    }

    #[test]
    fn folded_and_one_by_one_start_alike_in_pull_pools(
        works in prop::collection::vec(work(1..900), 1..3), nodes in 20usize..200,
    ) {
        starts_alike(Dispatch::Pull, nodes, &works);
    }

    #[test]
    fn folded_and_one_by_one_start_alike_in_batch_pools(
        works in prop::collection::vec(work(1..1500), 1..4), nodes in 60usize..800,
    ) {
        starts_alike(Dispatch::Batch, nodes, &works);
    }
}

/// What is done to arrays while they run.
#[derive(Debug, Clone)]
enum Deed {
    Submit { elements: u32, on: Option<(usize, u8)>, held: bool, later: bool },
    Cancel { array: usize, element: Option<u32> },
    CancelWaiting { array: usize },
    Hold { array: usize, element: Option<u32>, held: bool },
    Forget { array: usize, element: Option<u32> },
    Walltime { array: usize, element: u32 },
    Pass(u8),
}

fn deed() -> impl Strategy<Value = Deed> {
    let element = || prop::option::weighted(0.7, 1u32..600);
    prop_oneof![
        3 => (1u32..600, prop::option::of((0usize..4, 0u8..4)), prop::bool::weighted(0.2), prop::bool::weighted(0.2))
            .prop_map(|(elements, on, held, later)| Deed::Submit { elements, on, held, later }),
        2 => (0usize..4, element()).prop_map(|(array, element)| Deed::Cancel { array, element }),
        1 => (0usize..4).prop_map(|array| Deed::CancelWaiting { array }),
        2 => (0usize..4, element(), any::<bool>())
            .prop_map(|(array, element, held)| Deed::Hold { array, element, held }),
        2 => (0usize..4, element()).prop_map(|(array, element)| Deed::Forget { array, element }),
        1 => (0usize..4, 1u32..600).prop_map(|(array, element)| Deed::Walltime { array, element }),
        4 => (1u8..40).prop_map(Deed::Pass),
    ]
}

fn named(arrays: &[(JobId, u32)], array: usize, element: Option<u32>) -> Option<JobId> {
    let (id, last) = arrays.get(array % arrays.len().max(1))?;
    Some(match element {
        Some(index) => element_id(id, 1 + index % last, *last).unwrap(),
        None => id.clone(),
    })
}

fn do_all(dispatch: Dispatch, deeds: &[Deed]) {
    let work = Work { at_secs: 0, elements: 1, cores: 1, priority: 0, class: 5, secs: 5, fails: true };
    let mut run = Run::new(dispatch, 6, &vec![work.clone(); deeds.len()], true);
    let mut arrays: Vec<(JobId, u32)> = Vec::new();
    for deed in deeds {
        let input = match deed {
            Deed::Submit { elements, on, held, later } => {
                let id = JobId::new(&format!("w{}", arrays.len())).unwrap();
                let mut submission = Submission::new(Job::new(id.clone(), spec_of(&work), run.now));
                submission.user_hold = *held;
                submission.not_before = later.then(|| run.now + Millis::secs(7));
                let mut last = *elements;
                if let Some((on, kind)) = on.filter(|_| !arrays.is_empty()) {
                    let (on, total) = arrays[on % arrays.len()].clone();
                    let kinds =
                        [EdgeKind::Success, EdgeKind::Failure, EdgeKind::Any, EdgeKind::Corresponding];
                    let kind = kinds[usize::from(kind)];
                    if kind == EdgeKind::Corresponding {
                        last = total;
                    }
                    submission.edges.push(Edge { on, kind });
                }
                arrays.push((id, last));
                Some(Input::SubmitArray {
                    submission: Box::new(submission),
                    indices: Indices::range(1, last, 1),
                })
            }
            Deed::Cancel { array, element } => named(&arrays, *array, *element).map(Input::Cancel),
            Deed::CancelWaiting { array } => named(&arrays, *array, None).map(Input::CancelWaiting),
            Deed::Hold { array, element, held } => {
                let held = *held;
                named(&arrays, *array, *element).map(|job| Input::UserHold { job, held })
            }
            Deed::Forget { array, element } => named(&arrays, *array, *element).map(Input::Forget),
            Deed::Walltime { array, element } => named(&arrays, *array, Some(*element))
                .map(|job| Input::SetWalltime { job, walltime: Millis::secs(30) }),
            Deed::Pass(times) => {
                for _ in 0..*times {
                    run.advance(None);
                }
                None
            }
        };
        if let Some(input) = input {
            run.step(input);
        }
        for (id, _) in &arrays {
            let known = run.engine.state().folded.contains_key(id);
            assert_eq!(run.engine.explain(id).is_some(), known, "{id}");
            assert_eq!(run.engine.estimate(id).is_some(), known, "{id}");
        }
    }
    let mut state = State::default();
    for (at, event) in &run.journal {
        state.apply(*at, event);
    }
    assert_eq!(state.hash(), run.engine.state().hash(), "the journal gives the same state");
    let mut bytes = Vec::new();
    codec::write_state(&mut bytes, &state).unwrap();
    let mut again = Engine::of(codec::read_state(&mut bytes.as_slice()).unwrap());
    for _ in 0..30 {
        // A restarted engine may ask for one tick too many, never for one too few.
        let wakes = [run.engine.next_wake(), again.next_wake()];
        let Some(wake) = wakes.into_iter().flatten().min() else { break };
        run.now = run.now.max(wake);
        let (one, other) = (run.engine.step(run.now, Input::Tick), again.step(run.now, Input::Tick));
        assert_eq!(one, other);
    }
    assert_eq!(again.state(), run.engine.state(), "a restart goes on alike");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_done_to_arrays_every_element_is_somewhere(
        deeds in prop::collection::vec(deed(), 1..25), batch in any::<bool>(),
    ) {
        do_all(if batch { Dispatch::Batch } else { Dispatch::Push }, &deeds);
    }
}
