//! Words and numbers of the command line.

use landfall_model::Millis;
use landfall_replay::machine::Sequence;

/// What the planner is told about how long jobs take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EstimateArg {
    /// What users said.
    User,
    /// How long jobs really take.
    True,
    /// Twice what users said.
    X2,
}

/// The order of simultaneous events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EventsArg {
    /// One pass after each event.
    Single,
    /// One pass after all events of an instant.
    Batch,
}

/// When passes are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CycleArg(pub(crate) Option<Millis>);

impl std::str::FromStr for CycleArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "event" {
            return Ok(Self(None));
        }
        let seconds = text.strip_suffix('s').and_then(|number| number.parse::<u64>().ok());
        match seconds {
            Some(seconds) if (1..=86_400).contains(&seconds) => Ok(Self(Some(Millis::secs(seconds)))),
            _ => Err("write `event`, or a beat in seconds such as `5s`".into()),
        }
    }
}

/// Reads `START:COUNT`.
pub(super) fn parse_sequence(text: &str) -> Result<Sequence, String> {
    let parts =
        text.split_once(':').and_then(|(start, count)| Some((start.parse().ok()?, count.parse().ok()?)));
    match parts {
        Some((start, count)) if count > 0 => Ok(Sequence { start, count }),
        _ => Err("write it as START:COUNT, such as 1981:1024".into()),
    }
}
