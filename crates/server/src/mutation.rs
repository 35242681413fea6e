//! Faults that can be planted in the server, to see whether the simulation of a whole service notices them.

use std::cell::Cell;

/// A fault of the server. One may be planted on a thread, for all servers that live there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Whoever asked hears that it is done before it is stored.
    AnswerBeforeSync,
    /// What is about another journal is taken for what is about this one.
    IncarnationIgnored,
    /// The silence of nodes counts from before the server listened.
    SilenceFromBefore,
    /// A stop is said again whenever something is heard of an attempt that is over.
    StopsRepeated,
}

thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

impl Fault {
    /// Plants a fault on this thread, or none.
    pub fn plant(fault: Option<Self>) {
        PLANTED.set(fault);
    }

    pub(crate) fn is_planted(self) -> bool {
        PLANTED.get() == Some(self)
    }
}
