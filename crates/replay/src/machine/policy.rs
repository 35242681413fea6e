//! Policies for logs, by the names they are known under.

use landfall_engine::counted::{Corrector, Mode, Rules, learned};

use super::{Planning, Score};

/// What decides who starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPolicy {
    /// A line with or without overtaking, or what was learned from jobs before.
    Planned(Planning),
    /// One at a time, smallest score first.
    Committed(Score),
}

/// In order of arrival, without overtaking.
pub const FCFS: LogPolicy = LogPolicy::Planned(Planning::Rules(Rules::asked(Mode::Strict, false)));

/// Every policy for logs: its name, what it is, what it says in words.
pub const LOG_POLICIES: [(&str, LogPolicy, &str); 11] = {
    const fn rules(mode: Mode, ranked: bool) -> LogPolicy {
        LogPolicy::Planned(Planning::Rules(Rules::asked(mode, ranked)))
    }
    const fn learned(corrector: Corrector) -> LogPolicy {
        let learned = Some(corrector);
        LogPolicy::Planned(Planning::Rules(Rules { mode: Mode::Easy, ranked: true, learned }))
    }
    [
        ("fcfs", FCFS, "in order of arrival; nobody overtakes"),
        (
            "easy",
            rules(Mode::Easy, false),
            "EASY backfilling: who overtakes must not delay the first that waits",
        ),
        ("sjbf", rules(Mode::Easy, true), "EASY with the shortest estimate first among those who overtake"),
        (
            "easy++",
            learned(Corrector::Asked),
            "SJBF by predictions: half of what the user's last two jobs took; what was asked for once that is over",
        ),
        (
            "easy++-tsafrir",
            learned(Corrector::Steps),
            "the same; a prediction that is over grows in steps, from a minute to days",
        ),
        (
            "conservative",
            rules(Mode::Reserving { depth: None, standing: false }, false),
            "who overtakes must delay nobody; all reservations are made anew in every pass",
        ),
        (
            "conservative-standing",
            rules(Mode::Reserving { depth: None, standing: true }, false),
            "the same with reservations that stand and only ever move earlier",
        ),
        ("greedy", rules(Mode::Greedy, false), "whoever fits starts; no promise to anybody"),
        (
            "landfall-batch",
            LogPolicy::Planned(Planning::Learned(learned::Settings::USUAL)),
            "run times learned per user: most expected slowdown for what a job takes goes first, one of many alike as a probe; promises hold",
        ),
        (
            "sjf",
            LogPolicy::Committed(Score::Sjf),
            "one at a time, shortest estimate first, without overtaking",
        ),
        (
            "f1",
            LogPolicy::Committed(Score::F1),
            "one at a time by the fitted function F1, without overtaking",
        ),
    ]
};

impl LogPolicy {
    pub fn named(name: &str) -> Option<Self> {
        LOG_POLICIES.iter().find(|(known, ..)| *known == name).map(|(_, policy, _)| *policy)
    }
}
