//! The life of jobs and nodes: what each input and each deadline does.

pub(crate) mod ahead;
mod arrays;
pub mod capacity;
mod control;
mod deadlines;
mod ends;
mod holds;
mod nodes;
mod peers;
mod prices;
mod reports;
mod scaling;
mod setup;
mod submit;

pub use peers::hosted_id;

use crate::effect::{Answer, Refused};

/// Something named that is not there.
pub(crate) fn unknown(what: &str, id: &str) -> Refused {
    let code = match what {
        "job" => "unknown_job",
        "node" => "unknown_node",
        "pool" => "unknown_pool",
        _ => "unknown",
    };
    let hint = format!("look at the list of {what}s for its name");
    Refused::new(code, format!("there is no {what} `{id}`"), hint)
}

/// What was asked for is not done.
pub(crate) fn refused(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Answer {
    Answer::Refused(Refused::new(code, message, hint))
}
