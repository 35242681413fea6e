//! What is known of a job, and what speaks for it.

use std::cmp::Ordering;

use super::super::line::Entry;
use super::super::planner::Ticket;
use super::history::{Classes, History};
use super::planner::Ask;
use crate::habits::{Expectation, seconds};

/// What is known of a job from its arrival to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) ask: Ask,
    pub(super) classes: Classes,
    pub(super) submitted: i64,
    /// When it started, once it runs.
    pub(super) started: i64,
    /// When its units are expected back, once it runs.
    pub(super) release: i64,
    /// What it is expected to take, and the state of the history that says so.
    pub(super) expected: Option<(u32, Expectation)>,
}

impl Known {
    /// How long it may hold its units, in milliseconds.
    pub(super) fn duration(&self) -> i64 {
        i64::try_from(self.ask.duration.get()).unwrap_or(i64::MAX)
    }

    /// Its place in the line.
    pub(super) fn entry(&self, ticket: Ticket) -> Entry {
        Entry { key: i64::from(ticket), ticket, units: self.ask.units, duration: self.duration() }
    }

    /// What speaks for it now. Its expectation is made anew only if the history has changed.
    pub(super) fn candidate(&mut self, now: i64, ticket: Ticket, history: &History) -> Candidate {
        let state = history.state(self.classes);
        let expected = match self.expected {
            Some((made_at, expected)) if made_at == state => expected,
            _ => history.expect(self.classes, seconds(self.ask.duration.get())),
        };
        self.expected = Some((state, expected));
        let waited = now.saturating_sub(self.submitted);
        Candidate {
            slowdown: expected.slowdown(waited, history.pupils(self.classes)),
            cost: expected.run * u64::from(self.ask.units),
            ticket,
        }
    }
}

/// A job that may start, and what speaks for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// Slowdown by now of all who learn from it, in parts of [`crate::habits::PER_SECOND`].
    slowdown: u128,
    /// Unit-seconds it is expected to take.
    cost: u64,
    pub(super) ticket: Ticket,
}

impl Candidate {
    /// Most slowdown per cost first; who came first decides between equals.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let crosswise = |one: &Self, two: &Self| one.slowdown.saturating_mul(u128::from(two.cost));
        crosswise(other, self).cmp(&crosswise(self, other)).then(self.ticket.cmp(&other.ticket))
    }
}
