//! Words for the closed vocabularies of verdicts.

use landfall_model::reason::{Finality, Reason, Wake};
use landfall_model::{Millis, Time};
use landfall_policy::verdict::{Decision, Direction, Fact, Level, Verdict};
use landfall_policy::view::Mode;

use super::text::short;

/// What is ranked, in the singular.
pub(super) fn candidate(direction: Direction) -> &'static str {
    match direction {
        Direction::NodesForJob => "node",
        Direction::JobsForNode => "job",
    }
}

/// What candidates are ranked for.
pub(super) fn subject(direction: Direction) -> &'static str {
    match direction {
        Direction::NodesForJob => "job",
        Direction::JobsForNode => "node",
    }
}

/// A level as files and JSON spell it.
pub(super) fn level(level: Level) -> &'static str {
    match level {
        Level::TooTight => "too_tight",
        Level::Marginal => "marginal",
        Level::Good => "good",
        Level::Perfect => "perfect",
    }
}

/// The devices of a verdict, such as `gpu 0-3,7` or `gpu 0 + RAM`; empty where none are used.
pub(super) fn devices(verdict: &Verdict) -> String {
    let indices = ranges(&verdict.gpus);
    match verdict.mode {
        Mode::None => indices,
        Mode::Gpu => format!("gpu {indices}"),
        Mode::Offload => format!("gpu {indices} + RAM"),
        Mode::Cpu => "cpu".into(),
    }
}

pub(super) fn ranges(indices: &[u16]) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for &index in indices {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(index) => *last = index,
            _ => runs.push((index, index)),
        }
    }
    let texts = runs.iter().map(|&(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Why an admitted candidate may not be chosen.
pub(super) fn barred(verdict: &Verdict) -> Option<String> {
    let reason = verdict.barred?;
    Some(match reason {
        Reason::Vetoed => format!("vetoed by {}", verdict.vetoes.join(", ")),
        Reason::BelowFloor => "its total is below the policy's floor".into(),
        other => other.said().into_owned(),
    })
}

/// Whether waiting can help.
pub(super) fn class(class: Finality) -> &'static str {
    match class {
        Finality::NotNow => "not now; waiting may help",
        Finality::Never => "never as job and node stand",
    }
}

/// When a refused pair is looked at again.
pub(super) fn wake(wake: Wake) -> &'static str {
    match wake {
        Wake::Heartbeat => "when the node sends a heartbeat",
        Wake::ApprovalChange => "when an operator changes the node's approval",
        Wake::Timer => "when the time has come",
        Wake::RegistrationChange => "when the node registers anew",
        Wake::PlacementEnded => "when a placement or hold on the node ends",
        Wake::NodeAdded => "when a node or block joins",
        Wake::LeaseExtended => "when the lease is extended",
        Wake::JobChanged => "when the job changes",
        Wake::DependencyEnded => "when what the job waits for ends",
        Wake::NodeStateChange => "when the node changes its state",
        Wake::Nothing => "never: nothing will help this pair",
    }
}

/// An instant, and how far off it is.
pub(super) fn instant(at: Time, now: Time) -> String {
    match at.since(now) {
        Millis::ZERO => format!("at {at}"),
        span => format!("at {at}, in {span}"),
    }
}

pub(super) fn fact(fact: &Fact) -> String {
    match fact {
        Fact::Number(x) => short(*x),
        Fact::Count(x) => x.to_string(),
        Fact::Word(x) => x.to_string(),
        Fact::Flag(true) => "yes".into(),
        Fact::Flag(false) => "no".into(),
    }
}

/// A decision other than a chosen candidate: its kind, its stable reason, and why.
pub(super) fn decision(decision: &Decision) -> Option<(String, Reason, &str)> {
    let ask = |provider: &Option<landfall_model::Name>| match provider {
        Some(provider) => format!(" from provider {provider}"),
        None => String::new(),
    };
    match decision {
        Decision::ExistingNode { .. } => None,
        Decision::RequestMoreCapacity { tier, provider, reason, detail } => {
            Some((format!("REQUEST_MORE_CAPACITY {tier}{}", ask(provider)), *reason, detail))
        }
        Decision::QueueForFlex { provider, reason, detail } => {
            Some((format!("QUEUE_FOR_FLEX{}", ask(provider)), *reason, detail))
        }
        Decision::Wait { reason, detail } => Some(("WAIT".into(), *reason, detail)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_devices_are_one_range() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7]), "0-3,7");
        assert_eq!(ranges(&[4, 5]), "4,5");
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[u16::MAX]), "65535");
    }
}
