//! The explained outcome of a decision: pure data, filled in while deciding. Renderers live elsewhere.

use landfall_model::{Name, Time};
use serde::Serialize;

use crate::refusal::Refusal;
use crate::view::{LazyCounts, Mode};

/// How well a pair suits, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Barely or not at all.
    TooTight,
    /// It would do.
    Marginal,
    Good,
    /// As well as can be.
    Perfect,
}

/// One fact that a term's points rest on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Fact {
    Number(f64),
    Count(u64),
    Word(&'static str),
    /// Yes or no.
    Flag(bool),
}

/// Named facts in the order they were noted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts(pub Vec<(&'static str, Fact)>);

impl Facts {
    pub fn note(&mut self, name: &'static str, fact: Fact) {
        if !self.0.iter().any(|(known, _)| *known == name) {
            self.0.push((name, fact));
        }
    }

    /// The fact of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Fact> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, fact)| fact)
    }
}

impl Serialize for Facts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, fact)| (name, fact)))
    }
}

/// What one term gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TermScore {
    pub term: &'static str,
    pub raw: f64,
    /// The weight in force.
    pub weight: f64,
    /// What it adds to the total (a multiplier: what it multiplies by).
    pub contribution: f64,
    /// Whether it vetoed the pair.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub veto: bool,
}

/// A refusal with the filter that gave it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refused {
    pub filter: &'static str,
    #[serde(flatten)]
    pub refusal: Refusal,
}

/// The explained outcome for one pair.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The candidate: a node when nodes are ranked, a job when jobs are.
    pub candidate: Name,
    /// Every reason against it; empty means admitted.
    pub refusals: Vec<Refused>,
    /// The total; `None` if refused.
    pub total: Option<f64>,
    /// What each term gave, in policy order.
    pub terms: Vec<TermScore>,
    /// Factors on the sum of the terms.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub multipliers: Vec<TermScore>,
    /// Names of the terms that vetoed it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vetoes: Vec<&'static str>,
    /// Why it may not be chosen though every filter admits it: `vetoed`, `below_floor` or `too_tight`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub barred: Option<&'static str>,
    /// The level, where the policy has levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// How devices are used.
    #[serde(skip_serializing_if = "is_none_mode")]
    pub mode: Mode,
    /// Indices of the chosen devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<u16>,
    /// Region tier where the policy looks at regions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region_tier: Option<u8>,
    /// What the points rest on.
    pub facts: Facts,
}

fn is_none_mode(mode: &Mode) -> bool {
    *mode == Mode::None
}

impl Verdict {
    /// A verdict that says nothing yet.
    pub(crate) fn empty(candidate: &str) -> Self {
        Self {
            candidate: Name::new(candidate).unwrap_or_else(|_| unreachable!("every id is a name")),
            refusals: Vec::new(),
            total: None,
            terms: Vec::new(),
            multipliers: Vec::new(),
            vetoes: Vec::new(),
            barred: None,
            level: None,
            mode: Mode::None,
            gpus: Vec::new(),
            region_tier: None,
            facts: Facts::default(),
        }
    }

    /// Whether every filter admits the pair.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.refusals.is_empty()
    }

    /// What the term of that name gave.
    #[must_use]
    pub fn term(&self, name: &str) -> Option<&TermScore> {
        self.terms.iter().find(|term| term.term == name)
    }
}

/// By how much the winner leads, and what made the difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Margin {
    /// The next best candidate.
    pub runner_up: Name,
    /// Total of the winner minus total of the runner-up.
    pub lead: f64,
    /// The term that speaks most for the winner; `None` on a tie of all terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deciding_term: Option<&'static str>,
    /// What decided beside the total: a tier, a level or a tie-break.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<&'static str>,
}

/// What to do about the job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", tag = "kind")]
pub enum Decision {
    /// A node (or job) was found.
    ExistingNode {
        /// The node or job.
        winner: Name,
    },
    /// No node is admitted; ask a provider.
    RequestMoreCapacity {
        tier: &'static str,
        provider: Option<Name>,
        /// `no_capacity_now` or `unsatisfiable`.
        reason: &'static str,
        detail: String,
    },
    /// No node is admitted; wait for cheap capacity.
    QueueForFlex {
        /// Whom to ask when it is cheap.
        provider: Option<Name>,
        /// `no_capacity_now` or `unsatisfiable`.
        reason: &'static str,
        detail: String,
    },
    /// Nothing can be chosen now; the job stays queued.
    Wait { reason: &'static str, detail: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Nodes ranked for a job.
    NodesForJob,
    /// Jobs ranked for a node.
    JobsForNode,
}

/// How often a reason stands against the candidates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReasonCount {
    pub reason: &'static str,
    /// Candidates that have it among their reasons.
    pub candidates: u64,
    /// Candidates that have no other reason: admitting these would need this one change only.
    pub alone: u64,
}

/// The answer to a question: all candidates in order, each with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    pub policy: String,
    pub direction: Direction,
    /// The job or node that candidates were ranked for.
    pub subject: Name,
    pub now_ms: Time,
    pub decision: Decision,
    pub winner: Option<Name>,
    /// By how much it leads.
    pub margin: Option<Margin>,
    /// Whether it was chosen though nothing was above `too_tight`.
    pub fallback: bool,
    /// Candidates, best first; refused ones last, by id.
    pub candidates: Vec<Verdict>,
    /// Reasons over all refused candidates, most frequent first.
    pub reasons: Vec<ReasonCount>,
    /// Candidates that a limit left out.
    pub candidates_skipped: u64,
    /// How often lazy providers were asked.
    pub lazy: LazyCounts,
}
