//! Batch scheduling that learns: small slowdowns on average, and promises for those who would pay for it.
//!
//! **The problem.** Job `j` comes at `a`, takes `u` of `U` alike units to itself for a time `p` that nobody knows before
//! it ends, and says that `p ≤ d`. Choose starts `s ≥ a` such that
//!
//! - at every instant the units of running jobs are at most `U`;
//! - who was promised a time starts by then;
//! - the mean of `max(1, (s − a + p) / max(p, τ))`, the slowdown that does not count spans below `τ` as short, is small.
//!
//! **The order.** A job that has waited `w` has a slowdown of about `1 + w/p` by now, and takes `u·p` unit-seconds from all
//! others. With the expectations `r` of `p` and `h` of `1/p`, jobs start by
//!
//! ```text
//! (1 + w·h) / (u·r)      largest first; who came first decides between equals
//! ```
//!
//! that is, as much slowdown as can be ended per unit-second. If no job runs that is alike in user, `d` and `u`, the upper
//! part counts once for each of the alike that wait: the first of them to end tells what all of them take, and a user who
//! sends a thousand tiny jobs that ask for a day must not wait behind his own word. Whoever fits starts, whether or not a better one waits for
//! more units. `r` and `h` are learned apart because `1/r` is much less than `h` where run times spread, and a job that
//! may end at once is the one that must not wait.
//!
//! **The prediction.** People ask for round and long times, and run the same thing again. A job belongs to three classes,
//! from wide to narrow: its user's jobs, those of them with the same `d`, those of them with the same `u` as well. Each
//! class keeps sums over its ended jobs in which older ones fade: with each end a sum `x` becomes `x − x/m + new`, where
//! `m` is [`Settings::memory`]; `N` counts jobs so, `R` sums `p`, `H` sums `1/p`. The expectation starts at the user's
//! word, `r = d` and `h = 1/d`, and each class, from wide to narrow, makes of it
//!
//! ```text
//! r ← (R + r) / (N + 1)      h ← (H + h) / (N + 1)
//! ```
//!
//! so what the wider class says counts like one more job, and soon does not matter to a class that has seen many. In the
//! end `τ ≤ r ≤ d` and `h ≥ 1/d`. All times count as whole seconds, rounded up (the wait: down), and `d` and `p` as at
//! least `τ`. Numbers are integers: `N`, `R` and `r` in 2⁻¹⁶, `h` and `H` in 2⁻⁴⁰, every division rounded down, `r` cut
//! to seconds at the end. Only the order uses predictions. What may start without harm is a matter of durations `d`.
//!
//! **The promises.** The order alone would let a wide, long job wait forever. So, at the end of a pass, the oldest waiting
//! job that has waited for [`Settings::patience`] is promised a time, while fewer than [`Settings::promises`] jobs have
//! one. Its *first time* is the first instant from which its units are free for its duration, when running jobs end by
//! their durations and each holder of a promise runs from its time on. The promise is the first such instant that is at
//! least [`Settings::grace`] after its first time, so that short jobs need not wait until it has run; once it has waited
//! for [`Settings::limit`], it is its first time. One *pass* is, in turn:
//!
//! 1. If a job has ended before its duration was over: each holder, oldest first, moves to the time that it would be
//!    promised now beside the other holders, if that is earlier.
//! 2. All who wait, holders or not, are taken by the order above; each starts that fits now and, by durations, leaves
//!    their units to all other holders. When a holder starts, 2 begins again.
//! 3. Promises are made as said.
//!
//! *Why they hold.* Free units by plan only grow as running jobs end, and shrink only where a holder begins; so who starts
//! now for `d` keeps to all promises if he finds his units free now and at the beginning of each holder before `now + d`.
//! No start takes what a holder was given, and ends before their time only add. After a pass nobody who waits could start,
//! since 2 is repeated when what a holder leaves becomes free. Let the time of a holder come, and no earlier one's be
//! between it and the last end. That end brought a pass. Whatever was free by plan at the holder's time was free by plan
//! in that pass, as nothing ended since; so the holder could start in it, and did. Two things break this: jobs that
//! outlive their duration, and passes that come late. Then holders move later, oldest first, which
//! [`Planner::moved_later`] counts.
//!
//! *What is saved.* Between ends nothing is freed, and as time passes fewer jobs end before the next holder begins. So who
//! could not start in the last pass cannot start now, and a pass with no end before it looks at newcomers only.

mod history;
mod job;
mod planner;
mod promises;
mod room;

pub use planner::{Ask, Planner, Settings};

#[cfg(test)]
mod tests;
