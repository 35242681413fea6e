//! Who is looked at next.
//!
//! Where waiting jobs are listed, they are looked at one by one: every one of them is told why it waits. Where they come in
//! classes, the walk holds the first job of each class and takes the smallest turn. A class whose job has to wait and could
//! not even be promised a time is *passed over as a whole*: what its next jobs would find is no better, as long as nothing
//! that was booked is given back. When something is (the *generation* rises), the classes passed over come back, from
//! their first job behind the present turn on.
//!
//! ```text
//!   heads:  a₁ b₁ c₁      a₁ starts ──► a₂ joins the heads
//!                          b₁ waits  ──► class b is passed over      generation rises ──► b joins again, behind now
//! ```
//!
//! Both ways start, stop and reserve the same; a test build compares them in every cycle.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use landfall_model::{Backfill, JobId, Time};

use super::classes::span;
use super::problem::{Classes, Problem, Turn, Waiting};
use super::reason::{Reason, Refusal};
use super::stops::free_now;
use super::walk::{Outcome, Walk};

/// A place in the order of the walk: by turn, or behind the first blocked job by duration where the pool says so.
type Key<'a> = (i64, Turn<'a>);

/// The next job of a class, or one that has something kept for it and comes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Head {
    Alone(usize),
    Of { class: usize, place: usize },
}

/// Jobs that have a number from the beginning: all that are listed; of classes those for which something is kept.
pub(super) fn looked_at_first<'a>(p: &Problem<'a>) -> Vec<(Turn<'a>, Waiting<'a>)> {
    let Some(classes) = p.classes else {
        let listed = (0..).zip(&p.waiting);
        return listed
            .map(|(rank, waiting)| (Turn { rank, queued_at: Time::ZERO, job: waiting.job }, waiting.clone()))
            .collect();
    };
    let kept = kept(p, classes).into_iter();
    kept.map(|(class, place)| (classes.turn(class, place), classes.job(class, place))).collect()
}

/// Class and place of the jobs for which nodes or time are kept, and of the one that is asked about.
fn kept(p: &Problem<'_>, classes: &dyn Classes<'_>) -> BTreeSet<(usize, usize)> {
    let jobs = p.holds.iter().map(|hold| hold.job).chain(p.reservations.iter().map(|kept| &kept.job));
    jobs.chain(p.asked).filter_map(|job| classes.find(job)).collect()
}

/// The heads of classes, and the classes that are passed over.
struct Heads<'p, 'a> {
    classes: &'p dyn Classes<'a>,
    /// Jobs that come by themselves.
    apart: BTreeSet<(usize, usize)>,
    heap: BinaryHeap<Reverse<(Key<'a>, Head)>>,
    /// Class, the place from which on it is passed over, and how many from there on are known to be before the present turn.
    passed: Vec<(usize, usize, usize)>,
    by_duration: bool,
}

impl<'a> Heads<'_, 'a> {
    fn key(&self, class: usize, place: usize) -> Key<'a> {
        let turn = self.classes.turn(class, place);
        let span = if self.by_duration { self.span(class) } else { 0 };
        (span, turn)
    }

    fn span(&self, class: usize) -> i64 {
        span(self.classes.duration(class))
    }

    /// The first place from the given one on whose job comes with its class.
    fn skip(&self, class: usize, mut place: usize) -> Option<usize> {
        while self.apart.contains(&(class, place)) {
            place += 1;
        }
        (place < self.classes.len(class)).then_some(place)
    }

    fn push(&mut self, class: usize, place: usize) {
        if let Some(place) = self.skip(class, place) {
            self.heap.push(Reverse((self.key(class, place), Head::Of { class, place })));
        }
    }

    /// Goes on by duration from here on; says like [`Self::bring_back`] how many were passed over until now.
    fn sort_by_duration(&mut self, now: Key<'a>, span_of: impl Fn(usize) -> i64) -> usize {
        let passed = self.bring_back(now);
        self.by_duration = true;
        let heads: Vec<_> = self.heap.drain().collect();
        for Reverse(((_, turn), head)) in heads {
            let span = match head {
                Head::Alone(job) => span_of(job),
                Head::Of { class, .. } => self.span(class),
            };
            self.heap.push(Reverse(((span, turn), head)));
        }
        passed
    }

    /// Lets the classes that were passed over come back, behind the present turn; says how many jobs stay passed over.
    fn bring_back(&mut self, now: Key<'a>) -> usize {
        let mut all = 0;
        for (class, from, known) in std::mem::take(&mut self.passed) {
            let count = self.before(class, from, known, now);
            all += count - self.apart_among(class, from, count);
            self.push(class, from + count);
        }
        all
    }

    /// How many of some jobs of a class come by themselves, and are counted when they do.
    fn apart_among(&self, class: usize, from: usize, count: usize) -> usize {
        self.apart.range((class, from)..(class, from + count)).count()
    }

    /// How many jobs of a class, from a place on, come before a turn; so many at least are known to.
    fn before(&self, class: usize, from: usize, known: usize, now: Key<'a>) -> usize {
        let left = self.classes.len(class) - from;
        let is_before = |count: usize| self.key(class, from + count) < now;
        let (mut low, mut step) = (known, 1);
        while low + step <= left && is_before(low + step - 1) {
            low += step;
            step *= 2;
        }
        let mut high = left.min(low + step - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Whether a job is beyond the number that one walk looks at, of which some were looked at already.
    fn is_beyond(&mut self, scan: usize, seen: usize, now: Key<'a>) -> bool {
        let most: usize = self.passed.iter().map(|&(class, from, _)| self.classes.len(class) - from).sum();
        if seen + most < scan {
            return false;
        }
        let mut passed = std::mem::take(&mut self.passed);
        let mut before = seen;
        for (class, from, known) in &mut passed {
            *known = self.before(*class, *from, *known, now);
            before += *known - self.apart_among(*class, *from, *known);
        }
        self.passed = passed;
        before >= scan
    }
}

impl<'a> Walk<'_, 'a> {
    pub(super) fn run(&mut self) {
        let promises = self.p.settings.backfill == Backfill::Promises;
        if promises && self.p.freed_early {
            self.bring_forward();
        }
        match self.p.classes {
            None => self.walk_list(),
            Some(classes) => self.walk_classes(classes),
        }
        if promises && !self.again {
            self.promise_oldest();
        }
    }

    fn walk_list(&mut self) {
        let eligible = |at: &usize| self.waiting[*at].gate != Some(Reason::Dependency);
        let mut order: Vec<usize> = (0..self.waiting.len()).filter(eligible).collect();
        let mut sorted = false;
        for next in 0..order.len().min(self.p.settings.scan_max as usize) {
            let outcome = self.visit(order[next]);
            self.outcomes[order[next]] = Some(outcome);
            if self.again {
                break;
            }
            if self.goes_on_by_duration() && !sorted {
                sorted = true;
                order[next + 1..].sort_by_key(|&at| (self.classes[self.class_of[at]].likely, self.turns[at]));
            }
        }
        self.pass_the_rest();
    }

    /// What was not looked at waits.
    fn pass_the_rest(&mut self) {
        let late = Arc::new(vec![Refusal::plain(Reason::ScanMax)]);
        for (waiting, outcome) in self.waiting.iter().zip(&mut self.outcomes) {
            let against = || match &waiting.gate {
                Some(gate) => Arc::new(vec![Refusal::plain(*gate)]),
                None => Arc::clone(&late),
            };
            outcome.get_or_insert_with(|| Outcome::Waits(against()));
        }
    }

    fn goes_on_by_duration(&self) -> bool {
        self.blocked + self.preempting > 0 && self.p.settings.goes_on_by_duration()
    }

    fn walk_classes(&mut self, classes: &dyn Classes<'a>) {
        let (settings, scan) = (self.p.settings, self.p.settings.scan_max as usize);
        let mut heads = Heads {
            classes,
            apart: kept(self.p, classes),
            heap: BinaryHeap::new(),
            passed: Vec::new(),
            by_duration: false,
        };
        heads.heap.extend((0..).zip(&self.turns).map(|(at, turn)| Reverse(((0, *turn), Head::Alone(at)))));
        (0..classes.count()).for_each(|class| heads.push(class, 0));
        let mut seen = 0;
        while let Some(Reverse((now, head))) = heads.heap.pop() {
            let strict = settings.backfill == Backfill::Strict && !self.tells();
            // Whoever asks wants to know what stands in the way, also of those that the next walk would look at.
            let over = strict && self.blocked + self.preempting > 0 || self.again && self.p.asked.is_none();
            if over || heads.is_beyond(scan, seen, now) {
                heads.heap.push(Reverse((now, head)));
                break;
            }
            let before = (self.generation, self.reserved.len());
            let job = match head {
                Head::Alone(job) => job,
                Head::Of { class, place } => self.take_in(now.1, classes.job(class, place)),
            };
            let outcome = self.visit(job);
            let waits = matches!(outcome, Outcome::Waits(_));
            self.outcomes[job] = Some(outcome);
            seen += 1;
            self.seen = seen;
            if let Head::Of { class, place } = head {
                match heads.skip(class, place + 1) {
                    Some(next) if waits && self.passes_over(job) => heads.passed.push((class, next, 0)),
                    Some(next) => heads.push(class, next),
                    None => {}
                }
            }
            // By duration a new reservation may belong to somebody whose turn comes after that of jobs passed over.
            let promised = heads.by_duration && self.reserved.len() != before.1;
            if self.generation != before.0 || promised {
                seen += heads.bring_back(now);
            }
            if self.goes_on_by_duration() && !heads.by_duration {
                seen += heads.sort_by_duration(now, |job| self.classes[self.class_of[job]].likely);
            }
        }
        self.unseen = unseen(heads);
        self.pass_the_rest();
    }

    /// Whether no later job of its class can do better than a job that waits.
    fn passes_over(&self, job: usize) -> bool {
        let waiting = &self.waiting[job];
        // Whoever asks is told when the job starts beside those before it, as far as they are planned one by one.
        if self.p.asked.is_some() && self.seen < super::estimates::EXACT_MAX + self.steps.len() {
            return false;
        }
        if waiting.gate.is_some() {
            return waiting.gate != Some(Reason::Staging) || !waiting.spec.immediate;
        }
        !(waiting.spec.immediate || self.reserves_next())
    }

    /// Whether fewer nodes are free than a job of a class needs. Only asked where nobody is told why: what is found out
    /// quickly says little.
    pub(super) fn lacks_nodes(&self, class: usize) -> bool {
        let spec = self.classes[class].spec;
        !self.tells()
            && spec.exclusive
            && !self.may_borrow(class)
            && free_now(&self.overlay, &self.classes[class]) < spec.nodes.min as usize
    }

    /// Whether somebody is told why jobs wait.
    pub(super) fn tells(&self) -> bool {
        self.p.classes.is_none() || self.p.asked.is_some()
    }

    /// The numbers of all jobs that were looked at, in job order.
    pub(super) fn in_turn(&self) -> Vec<usize> {
        let mut jobs: Vec<usize> = (0..self.waiting.len()).collect();
        jobs.sort_by_key(|&job| self.turns[job]);
        jobs
    }

    /// Which jobs that still wait come before the one asked about: how many, and the last of them.
    pub(super) fn before_asked(&self, job: usize) -> (usize, Option<JobId>) {
        let turn = self.turns[job];
        let Some(classes) = self.p.classes else { return (0, None) };
        let gone =
            |at: &usize| self.outcomes[*at].as_ref().is_some_and(|outcome| outcome.against().is_none());
        let gone: BTreeSet<&JobId> =
            (0..self.waiting.len()).filter(gone).map(|at| self.waiting[at].job).collect();
        let mut count = 0;
        let mut last: Option<Turn<'a>> = None;
        for class in 0..classes.count() {
            let (mut low, mut high) = (0, classes.len(class));
            while low < high {
                let middle = low + (high - low) / 2;
                if classes.turn(class, middle) < turn { low = middle + 1 } else { high = middle }
            }
            count += low;
            let waits = (0..low).rev().map(|place| classes.turn(class, place));
            last = last.max(waits.into_iter().find(|turn| !gone.contains(turn.job)));
        }
        let started = (0..self.waiting.len()).filter(|&at| self.turns[at] < turn);
        let started = started.filter(|at| gone.contains(self.waiting[*at].job)).count();
        (count - started, last.map(|turn| turn.job.clone()))
    }

    /// Jobs that were to start at once or not at all, and do not.
    pub(super) fn missed(&self) -> Vec<JobId> {
        let gates = [Reason::Dependency, Reason::UserHold, Reason::NotBefore];
        let waits = |at: usize| match &self.outcomes[at] {
            Some(Outcome::Waits(against)) => {
                against.first().is_none_or(|first| !gates.contains(&first.reason))
            }
            _ => false,
        };
        let seen = (0..self.waiting.len()).filter(|&at| self.waiting[at].spec.immediate && waits(at));
        let seen = seen.map(|at| (self.turns[at], self.waiting[at].job.clone()));
        let mut missed: Vec<_> = seen.chain(self.unseen.iter().cloned()).collect();
        missed.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        missed.into_iter().map(|(_, job)| job).collect()
    }
}

/// Jobs that were to start at once and that the walk did not reach.
fn unseen<'a>(heads: Heads<'_, 'a>) -> Vec<(Turn<'a>, JobId)> {
    let on_top = heads.heap.iter().filter_map(|Reverse((_, head))| match *head {
        Head::Of { class, place } => Some((class, place)),
        Head::Alone(_) => None,
    });
    let passed = heads.passed.iter().map(|&(class, from, _)| (class, from));
    let left: Vec<(usize, usize)> = on_top.chain(passed).collect();
    let at_once = left.into_iter().filter(|&(class, _)| heads.classes.spec(class).immediate);
    let jobs = at_once.flat_map(|(class, from)| (from..heads.classes.len(class)).map(move |at| (class, at)));
    let open = |(class, at): &(usize, usize)| {
        !heads.apart.contains(&(*class, *at)) && heads.classes.gate(*class) != Some(Reason::NotBefore)
    };
    jobs.filter(open)
        .map(|(class, at)| {
            let turn = heads.classes.turn(class, at);
            (turn, turn.job.clone())
        })
        .collect()
}
