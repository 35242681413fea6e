//! The explained outcome of a decision: pure data, filled in while deciding. Renderers live elsewhere.
//!
//! What policies fill in and servers send, command lines read: every type here serialises both ways.

use std::borrow::Cow;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::reason::{Finality, Quantity, Reason, Wake};
use crate::{Name, Time};

/// How the chosen devices are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Without any device.
    #[default]
    None,
    /// On the chosen devices.
    Gpu,
    /// On one device and in RAM.
    Offload,
    /// In RAM though a device was asked for, or a model without device.
    Cpu,
}

/// How often the lazy providers were asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LazyCounts {
    /// Predictions computed from history.
    pub history: u64,
    /// Input sizes summed.
    pub inputs_total_bytes: u64,
    /// Work shares looked up.
    pub tenant_work_share: u64,
}

/// Why one filter refuses a pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Refusal {
    pub reason: Reason,
    /// Whether waiting can help.
    pub class: Finality,
    /// What the job needs.
    pub needed: Quantity,
    pub found: Quantity,
    /// What the node has in all, where that says more than what was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Quantity>,
    /// What would change it, for people.
    pub remedy: Cow<'static, str>,
    /// When to look again.
    pub wake: Wake,
    /// The instant from which the filter admits, if time alone will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<Time>,
}

impl Refusal {
    /// A refusal that waiting may lift.
    pub fn not_now(reason: Reason, needed: Quantity, found: Quantity, wake: Wake) -> Self {
        let class = Finality::NotNow;
        Self { reason, class, needed, found, total: None, remedy: Cow::Borrowed(""), wake, until_ms: None }
    }

    /// A refusal that holds as long as job and node stay what they are.
    pub fn never(reason: Reason, needed: Quantity, found: Quantity, wake: Wake) -> Self {
        Self { class: Finality::Never, ..Self::not_now(reason, needed, found, wake) }
    }

    /// Says what the node has in all.
    #[must_use]
    pub fn of_total(mut self, total: Quantity) -> Self {
        self.total = Some(total);
        self
    }

    /// Says what would change it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<Cow<'static, str>>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// Says when time alone will change it.
    #[must_use]
    pub fn until(mut self, at: Time) -> Self {
        self.until_ms = Some(at);
        self
    }

    /// The refusal in a sentence.
    pub fn said(&self) -> String {
        let passes = self.class == Finality::NotNow;
        self.reason
            .of_nodes(&self.needed, Some(&self.found), 1, 1, passes)
            .replace("the only node", "the node")
    }
}

/// How well a pair suits, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Fact {
    /// Yes or no.
    Flag(bool),
    Count(u64),
    Number(f64),
    Word(Cow<'static, str>),
}

impl Fact {
    pub const fn word(word: &'static str) -> Self {
        Self::Word(Cow::Borrowed(word))
    }
}

/// Named facts in the order they were noted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts(pub Vec<(Cow<'static, str>, Fact)>);

impl Facts {
    pub fn note(&mut self, name: &'static str, fact: Fact) {
        if !self.0.iter().any(|(known, _)| known == name) {
            self.0.push((Cow::Borrowed(name), fact));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fact of that name.
    pub fn get(&self, name: &str) -> Option<&Fact> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, fact)| fact)
    }
}

impl Serialize for Facts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, fact)| (name, fact)))
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Facts {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder};
        ObjectBuilder::new()
            .additional_properties(Some(AdditionalProperties::FreeForm(true)))
            .description(Some("What points rest on, by name."))
            .into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Facts {}

impl<'de> Deserialize<'de> for Facts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Noted;
        impl<'de> Visitor<'de> for Noted {
            type Value = Facts;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("facts by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Facts, A::Error> {
                let mut facts = Vec::new();
                while let Some((name, fact)) = map.next_entry::<String, Fact>()? {
                    facts.push((Cow::Owned(name), fact));
                }
                Ok(Facts(facts))
            }
        }
        deserializer.deserialize_map(Noted)
    }
}

/// What one term gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TermScore {
    pub term: Cow<'static, str>,
    pub raw: f64,
    /// The weight in force.
    pub weight: f64,
    /// What it adds to the total (a multiplier: what it multiplies by).
    pub contribution: f64,
    /// Whether it vetoed the pair.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub veto: bool,
}

/// A refusal with the filter that gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = RefusedByFilter))]
pub struct Refused {
    pub filter: Cow<'static, str>,
    #[serde(flatten)]
    pub refusal: Refusal,
}

/// The explained outcome for one pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multipliers: Vec<TermScore>,
    /// Names of the terms that vetoed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vetoes: Vec<Cow<'static, str>>,
    /// Why it may not be chosen though every filter admits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barred: Option<Reason>,
    /// The level, where the policy has levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// How devices are used.
    #[serde(default, skip_serializing_if = "is_none_mode")]
    pub mode: Mode,
    /// Indices of the chosen devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<u16>,
    /// Region tier where the policy looks at regions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region_tier: Option<u8>,
    /// What the points rest on.
    pub facts: Facts,
}

fn is_none_mode(mode: &Mode) -> bool {
    *mode == Mode::None
}

impl Verdict {
    /// A verdict that says nothing yet.
    pub fn empty(candidate: &str) -> Self {
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
    pub fn is_admitted(&self) -> bool {
        self.refusals.is_empty()
    }

    /// What the term of that name gave.
    pub fn term(&self, name: &str) -> Option<&TermScore> {
        self.terms.iter().find(|term| term.term == name)
    }
}

/// By how much the winner leads, and what made the difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Margin {
    /// The next best candidate.
    pub runner_up: Name,
    /// Total of the winner minus total of the runner-up.
    pub lead: f64,
    /// The term that speaks most for the winner; `None` on a tie of all terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deciding_term: Option<Cow<'static, str>>,
    /// What decided beside the total: a tier, a level or a tie-break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<Cow<'static, str>>,
}

/// What to do about the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", tag = "kind")]
pub enum Decision {
    /// A node (or job) was found.
    ExistingNode {
        /// The node or job.
        winner: Name,
    },
    /// No node is admitted; ask a provider.
    RequestMoreCapacity { tier: Cow<'static, str>, provider: Option<Name>, reason: Reason, detail: String },
    /// No node is admitted; wait for cheap capacity.
    QueueForFlex {
        /// Whom to ask when it is cheap.
        provider: Option<Name>,
        reason: Reason,
        detail: String,
    },
    /// Nothing can be chosen now; the job stays queued.
    Wait { reason: Reason, detail: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Nodes ranked for a job.
    NodesForJob,
    /// Jobs ranked for a node.
    JobsForNode,
}

/// How often a reason stands against the candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReasonCount {
    pub reason: Reason,
    /// Candidates that have it among their reasons.
    pub candidates: u64,
    /// Candidates that have no other reason: admitting these would need this one change only.
    pub alone: u64,
}

/// The answer to a question: all candidates in order, each with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
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
