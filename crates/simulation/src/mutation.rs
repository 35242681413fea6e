//! Faults planted on purpose, each on the thread that simulates. Ordinary builds have none.

#[cfg(feature = "mutations")]
use std::cell::Cell;

/// One of the faults that the simulation has to find.
#[cfg(feature = "mutations")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    AnswerBeforeSync,
    IncarnationIgnored,
    SilenceFromBefore,
    ChecksumSkipped,
    StaleReportRepeated,
}

#[cfg(feature = "mutations")]
thread_local! {
    static REPEATS: Cell<bool> = const { Cell::new(false) };
}

/// Plants a fault on this thread, or takes all away.
#[cfg(feature = "mutations")]
pub fn plant(mutation: Option<Mutation>) {
    use landfall_server::mutation::Fault;
    Fault::plant(match mutation {
        Some(Mutation::AnswerBeforeSync) => Some(Fault::AnswerBeforeSync),
        Some(Mutation::IncarnationIgnored) => Some(Fault::IncarnationIgnored),
        Some(Mutation::SilenceFromBefore) => Some(Fault::SilenceFromBefore),
        Some(Mutation::StaleReportRepeated) => Some(Fault::StopsRepeated),
        Some(Mutation::ChecksumSkipped) | None => None,
    });
    landfall_store::mutation::skip_checksums(mutation == Some(Mutation::ChecksumSkipped));
    REPEATS.set(mutation == Some(Mutation::StaleReportRepeated));
}

/// Whether agents tell again and again what is over.
#[cfg(feature = "mutations")]
pub(crate) fn repeats_itself() -> bool {
    REPEATS.get()
}

#[cfg(not(feature = "mutations"))]
pub(crate) fn repeats_itself() -> bool {
    false
}
