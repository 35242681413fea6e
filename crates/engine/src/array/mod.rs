//! Arrays: many jobs that differ in their index only, kept as one record until they are about to start.
//!
//! # Problem
//!
//! Somebody submits a million elements of which a hundred can run. A record per element costs a few hundred bytes and an
//! entry in every index, though all that can be said of an element that waits is said by its array.
//!
//! # Design
//!
//! An [`Array`] holds a template and the positions that are still *folded*: they have no [`JobRecord`], are in no queue
//! and cost nothing. An element is *unfolded* when it gets a record; from then on it is a job like any other, with an id
//! that follows from its array ([`element_id`]), and the specs of all of them are one allocation. Ended elements leave
//! their positions in the array, by final state, so the array knows how each ended after their records are forgotten.
//!
//! ```text
//!  position  0          n1        n2                        total
//!            │ ended     │ records │ folded                    │      folded: one range, however long
//!            │ (ranges)  │ (jobs)  │ (ranges)                  │      records: what runs, plus a window that waits
//! ```
//!
//! *Window.* An array that may start is kept so that at least [`WINDOW_LOW`] of its elements wait in the queue for their
//! first start; when one start too many was made, it is filled up to [`WINDOW_HIGH`]. This happens within the event
//! that made the start, not at the end of the step, so a dispatcher that places one job after the other (push, pull)
//! never finds the queue of an array empty while elements are folded, and two arrays start in the order in which their
//! jobs would, had they been submitted one by one. A batch cycle plans with the queue as it finds it; before it does, arrays
//! of its pool are unfolded as far as its free nodes could take them. 256 to 1024 is large enough that filling up is rare
//! (one event in 768 starts) and small enough to cost nothing (some 300 kB per array that may start).
//!
//! Elements that were sent back to the queue do not count as the window, and neither do those that somebody holds back:
//! otherwise a few hundred of them would keep the rest from starting.
//!
//! *Dependencies.* For the graph an array is one job that waits, and one count of ends that others wait for. An array
//! that follows another element by element (`corresponding`) has no edges at all: what may be unfolded of it is the
//! intersection of what is folded with what completed there, two lists of ranges.
//!
//! [`JobRecord`]: crate::record::JobRecord

mod id;
mod ranges;
mod record;

pub use id::{element_id, parse_element_id};
pub use ranges::Ranges;
pub use record::{Array, ArrayTally, Shape};

/// Most elements of one array.
pub const ELEMENTS_MAX: u32 = 10_000_000;
/// Most elements of an array that takes more after it was submitted: its ids have room for so many from the beginning.
pub const OPEN_MAX: u32 = 1_000_000;
/// Fewer elements that wait for their first start than these are filled up.
pub const WINDOW_LOW: u32 = 256;
/// So many wait for their first start after filling up.
pub const WINDOW_HIGH: u32 = 1024;
