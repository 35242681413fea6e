//! Which nodes a job gets: candidate sets, what each is worth, and the best of them.
//!
//! A candidate is packed from all usable nodes or from those of one configuration, in one of two orders of preference,
//! with borrowed nodes mixed in or only as the rest. Candidates over a limit are dropped; the others are compared by
//! the rules of the hint, and at last by their ids.

use std::cmp::{Ordering, Reverse};

use landfall_model::SetHint;
use landfall_policy::q;

use super::fleet::Slot;
use super::pack::{self, Counts, From, Ids, Offer};
use super::plan::SetValue;
use super::problem::{SetWeights, TopologyFormula};
use super::reason::{Reason, Refusal};

/// What a job wants of a set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) hint: SetHint,
    /// The fewest nodes it can run on.
    pub(super) least: u32,
    pub(super) max_span: Option<u32>,
    /// One known configuration for all.
    pub(super) sensitive: bool,
    /// How quickly it can save (f8).
    pub(super) checkpoint: f64,
    pub(super) io: i64,
}

/// What a set may not exceed, and how it is valued.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) weights: SetWeights,
    pub(super) borrow_penalty: f64,
    pub(super) home_groups: u32,
    pub(super) power_room: Option<i64>,
    pub(super) io_room: Option<i64>,
}

/// A set that was chosen.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    pub(super) counts: Counts,
    pub(super) value: SetValue,
    pub(super) runner_up: Option<SetValue>,
}

/// A set of so many nodes, with all that is compared.
struct Rated {
    counts: Counts,
    value: SetValue,
    leftover: u64,
    most_in_group: u32,
}

/// Gives every offer its place in the orders of preference.
pub(super) fn rank(offers: &mut [Offer], fingerprints: u32, drifted: impl Fn(&Offer) -> bool) {
    let mut population = vec![0u64; fingerprints as usize];
    for offer in offers.iter() {
        if let Some(count) = offer.fingerprint.and_then(|f| population.get_mut(f as usize)) {
            *count += u64::from(offer.count);
        }
    }
    type Key = (bool, bool, Reverse<u64>, bool, u32, Reverse<i64>, u64);
    let keys: Vec<Key> = offers
        .iter()
        .map(|offer| {
            let alike = offer.fingerprint.map_or(1, |f| population[f as usize]);
            let unknown = offer.fingerprint.is_none();
            let value = offer.fingerprint.unwrap_or(0);
            let near = Reverse(q(offer.locality));
            (!offer.own, drifted(offer), Reverse(alike), unknown, value, near, offer.power)
        })
        .collect();
    let mut order: Vec<usize> = (0..offers.len()).collect();
    order.sort_by(|&a, &b| keys[a].cmp(&keys[b]));
    let mut place = 0;
    for (at, &offer) in order.iter().enumerate() {
        if at > 0 && keys[order[at - 1]] != keys[offer] {
            place = at as u32;
        }
        offers[offer].rank = place;
    }
    order.sort_by(|&a, &b| (keys[a].6, &keys[a]).cmp(&(keys[b].6, &keys[b])));
    place = 0;
    for (at, &offer) in order.iter().enumerate() {
        if at > 0 && keys[order[at - 1]] != keys[offer] {
            place = at as u32;
        }
        offers[offer].power_rank = place;
    }
}

/// The choice among offers.
pub(super) struct Choice<'a> {
    pub(super) offers: &'a [Offer],
    pub(super) wish: Wish,
    pub(super) terms: Terms,
    pub(super) ids: Ids<'a>,
}

impl Choice<'_> {
    /// The best set of `wanted` nodes; otherwise what stands against every one.
    pub(super) fn best(&self, wanted: u32) -> Result<Chosen, Vec<Refusal>> {
        self.best_within(wanted, None)
    }

    /// The best set with no more groups and configurations than the given ones.
    pub(super) fn best_within(&self, wanted: u32, most: Option<(u32, u32)>) -> Result<Chosen, Vec<Refusal>> {
        let usable: u64 = self.offers.iter().map(|offer| u64::from(offer.count)).sum();
        if usable < u64::from(wanted) {
            return Err(vec![Refusal::new(Reason::Nodes, f64::from(wanted), usable as f64)]);
        }
        let candidates = self.candidates(wanted);
        if candidates.is_empty() {
            let alike = self.largest_configuration();
            return Err(vec![Refusal::new(Reason::Fingerprint, f64::from(wanted), alike as f64)]);
        }
        let mut dropped: Vec<Refusal> = Vec::new();
        let (mut best, mut second): (Option<Rated>, Option<SetValue>) = (None, None);
        for counts in candidates {
            let rated = self.rate(counts);
            if most.is_some_and(|(span, kinds)| rated.value.span > span || rated.value.fingerprints > kinds) {
                continue;
            }
            if self.over_a_limit(&rated.value, &mut dropped) {
                continue;
            }
            match &best {
                Some(known) if known.counts == rated.counts => {}
                Some(known) if self.compare(&rated, known) == Ordering::Less => {
                    second = Some(known.value);
                    best = Some(rated);
                }
                // Candidates of "any" are tried in turn, not compared.
                Some(_) if self.wish.hint == SetHint::Any && !self.wish.sensitive => {}
                Some(_) => {
                    let better = second.is_none_or(|second| q(rated.value.value) > q(second.value));
                    second = if better { Some(rated.value) } else { second };
                }
                None => best = Some(rated),
            }
        }
        match best {
            Some(best) => Ok(Chosen { counts: best.counts, value: best.value, runner_up: second }),
            None => Err(dropped),
        }
    }

    fn candidates(&self, wanted: u32) -> Vec<Counts> {
        let all: Vec<usize> = (0..self.offers.len()).collect();
        let own: u64 = self.offers.iter().filter(|offer| offer.own).map(|offer| u64::from(offer.count)).sum();
        let borrows = self.offers.iter().any(|offer| !offer.own) && own < u64::from(wanted);
        let mut sources: Vec<Vec<usize>> = Vec::new();
        if self.wish.hint != SetHint::Any || self.wish.sensitive {
            let mut known: Vec<(u32, usize)> =
                all.iter().filter_map(|&at| self.offers[at].fingerprint.map(|f| (f, at))).collect();
            known.sort_unstable();
            let chunks = known.chunk_by(|a, b| a.0 == b.0);
            let size = |chunk: &[(u32, usize)]| {
                chunk.iter().map(|&(_, at)| u64::from(self.offers[at].count)).sum::<u64>()
            };
            let large = chunks.filter(|chunk| size(chunk) >= u64::from(wanted));
            sources.extend(large.map(|chunk| chunk.iter().map(|&(_, at)| at).collect()));
        }
        if !self.wish.sensitive {
            sources.push(all);
        }
        let pack = match self.wish.hint {
            SetHint::Tight => pack::tight,
            SetHint::Spread => pack::spread,
            SetHint::Any => pack::any,
        };
        let mut found: Vec<Counts> = Vec::new();
        for source in &sources {
            // Without any difference in power the second order is the first.
            let same_power = source.windows(2).all(|p| self.offers[p[0]].power == self.offers[p[1]].power);
            for power_first in [false, true].into_iter().take(if same_power { 1 } else { 2 }) {
                let from = From { offers: self.offers, of: source, power_first, ids: self.ids };
                found.extend(pack(&from, wanted));
                if borrows {
                    let (own, lent): (Vec<usize>, Vec<usize>) =
                        source.iter().partition(|&&at| self.offers[at].own);
                    let held: u32 = own.iter().map(|&at| self.offers[at].count).sum();
                    let rest = From { of: &lent, ..from };
                    if let Some(counts) = pack(&rest, wanted.saturating_sub(held)) {
                        let whole = own.iter().map(|&at| (at, self.offers[at].count));
                        let mut both: Counts = whole.chain(counts).collect();
                        both.sort_unstable();
                        found.push(both);
                    }
                }
            }
        }
        found
    }

    fn largest_configuration(&self) -> u64 {
        let mut known: Vec<(u32, u64)> =
            self.offers.iter().filter_map(|o| o.fingerprint.map(|f| (f, u64::from(o.count)))).collect();
        known.sort_unstable();
        let sum = |chunk: &[(u32, u64)]| chunk.iter().map(|&(_, count)| count).sum();
        known.chunk_by(|a, b| a.0 == b.0).map(sum).max().unwrap_or(0)
    }

    fn rate(&self, counts: Counts) -> Rated {
        let nodes: u32 = counts.iter().map(|&(_, count)| count).sum();
        let mut by_group: Vec<(u32, u32)> = Vec::new();
        let mut alike: Vec<(u32, u32)> = Vec::new();
        let (mut inside, mut power, mut borrowed, mut unknown) = (0.0, 0u64, 0u32, 0u32);
        for &(at, count) in &counts {
            let offer = &self.offers[at];
            by_group.push((offer.group, count));
            match offer.fingerprint {
                Some(fingerprint) => alike.push((fingerprint, count)),
                None => unknown += count,
            }
            inside += offer.locality * f64::from(count);
            power = power.saturating_add(offer.power.saturating_mul(u64::from(count)));
            borrowed += if offer.own { 0 } else { count };
        }
        let (groups, alike) = (merged(by_group), merged(alike));
        let touched = |group: u32| groups.binary_search_by_key(&group, |g| g.0).is_ok();
        let usable: u64 = self.offers.iter().filter(|o| touched(o.group)).map(|o| u64::from(o.count)).sum();
        let largest = alike.iter().map(|&(_, count)| count).max().unwrap_or(0).max(u32::from(unknown > 0));
        let span = groups.len() as u32;
        let topology = self.topology(span, inside / f64::from(nodes.max(1)));
        let conformance = f64::from(largest) / f64::from(nodes.max(1));
        let weights = self.terms.weights;
        let part = f64::from(borrowed) / f64::from(nodes.max(1));
        let penalty = self.terms.borrow_penalty * part * (1.0 - self.wish.checkpoint);
        let value = SetValue {
            value: weights.topology * topology + weights.conformance * conformance - penalty,
            topology,
            conformance,
            span,
            fingerprints: alike.len() as u32 + unknown,
            borrowed,
            extra_power_w: power,
        };
        Rated {
            counts,
            value,
            leftover: usable.saturating_sub(u64::from(nodes)),
            most_in_group: groups.iter().map(|&(_, count)| count).max().unwrap_or(0),
        }
    }

    fn topology(&self, span: u32, inside: f64) -> f64 {
        let (span, groups) = (f64::from(span), f64::from(self.terms.home_groups));
        let between = match self.terms.weights.formula {
            TopologyFormula::Published => (1.0 - span / groups).max(0.0),
            TopologyFormula::Normalised => 1.0 - (span - 1.0) / (groups - 1.0).max(1.0),
        };
        let outside = if self.wish.least == 1 { 0.3 } else { 0.7 };
        outside * between + (1.0 - outside) * inside
    }

    /// Whether a set is over a limit; the least excess of each limit is kept.
    fn over_a_limit(&self, value: &SetValue, dropped: &mut Vec<Refusal>) -> bool {
        let power = i64::try_from(value.extra_power_w).unwrap_or(i64::MAX);
        let checks = [
            (Reason::Span, i64::from(value.span), self.wish.max_span.map(i64::from)),
            (Reason::Power, power, self.terms.power_room),
            (Reason::Io, self.wish.io, self.terms.io_room),
        ];
        let mut over = false;
        for (reason, needed, room) in checks {
            // What asks for nothing is never too much, even where a cap is exceeded already.
            let Some(room) = room.filter(|&room| needed > 0 && needed > room) else { continue };
            over = true;
            let needed = needed as f64;
            match dropped.iter_mut().find(|refusal| refusal.reason == reason) {
                Some(known) => known.needed = known.needed.min(needed),
                None => dropped.push(Refusal::new(reason, needed, room.max(0) as f64)),
            }
        }
        over
    }

    /// Which of two sets comes first.
    fn compare(&self, a: &Rated, b: &Rated) -> Ordering {
        let tight = |r: &Rated| {
            (Reverse(q(r.value.value)), r.value.span, r.value.fingerprints, r.leftover, r.value.extra_power_w)
        };
        let alike = |r: &Rated| Reverse(q(self.terms.weights.conformance * r.value.conformance));
        let spread = |r: &Rated| (r.most_in_group, alike(r), r.value.extra_power_w);
        let first = match self.wish.hint {
            SetHint::Tight => tight(a).cmp(&tight(b)),
            SetHint::Spread => spread(a).cmp(&spread(b)),
            SetHint::Any if self.wish.sensitive => tight(a).cmp(&tight(b)),
            SetHint::Any => return Ordering::Greater,
        };
        first.then_with(|| self.slots(&a.counts).cmp(&self.slots(&b.counts)))
    }

    /// The nodes of a set, in the order of ids.
    pub(super) fn slots(&self, counts: &Counts) -> Vec<Slot> {
        let mut slots: Vec<Slot> = counts
            .iter()
            .flat_map(|&(at, count)| (self.ids)(&self.offers[at], count).into_iter().take(count as usize))
            .collect();
        slots.sort_unstable();
        slots
    }
}

/// Sums up equal keys.
fn merged(mut pairs: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    pairs.sort_unstable();
    let mut sums: Vec<(u32, u32)> = Vec::with_capacity(pairs.len());
    for (key, count) in pairs {
        match sums.last_mut().filter(|last| last.0 == key) {
            Some(last) => last.1 += count,
            None => sums.push((key, count)),
        }
    }
    sums
}
