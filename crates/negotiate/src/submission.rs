//! A job as it is submitted, and the digest that names it between peers.

use landfall_model::{Digest, Hints, Name, NodeId, Scope};
use serde::{Deserialize, Serialize};

use crate::blob::Blob;
use crate::profile::Profile;
use crate::reason::Reason;
use crate::settings::{LEASE_MS_MAX, LEASE_MS_MIN, PRICE_MAX, Preset, Settings};
use crate::wire::{STREAM_BYTES_MAX, canonical};

/// Which protocol a job takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Negotiated with a profile, the simple path without.
    #[default]
    Auto,
    /// Negotiated; without a profile the minimal one is used.
    Always,
    /// The simple path; a profile is kept as a filter.
    Never,
}

/// A job to be placed among peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// Makes the job differ from others that are otherwise equal.
    pub nonce: u64,
    pub submitter: NodeId,
    /// How many nodes it takes; only one can be negotiated.
    pub nodes: u32,
    pub profile: Option<Profile>,
    /// Runtimes of which one must be there; empty means any.
    pub runtimes: Vec<Name>,
    pub hints: Hints,
    /// The cell it would like.
    pub cell: Option<Name>,
    /// Most it will pay, in credits per 1000 fuel.
    pub max_cost: Option<u64>,
    /// Most fuel it may use.
    pub fuel_limit: u64,
    /// Urgency, 0 to 10.
    pub class: u8,
    /// Must be finished after this span.
    pub deadline_ms: Option<u64>,
    /// Deliberation, if not the usual one.
    pub deliberation_ms: Option<u64>,
    /// Lease, if not the usual one.
    pub lease_ms: Option<u64>,
    /// Farthest node that may run it.
    pub max_scope: Scope,
    /// Farthest node asked in the first round; each further round reaches one step further.
    pub start_scope: Option<Scope>,
    /// The only scopes that may run it; empty means all.
    pub allowed_scopes: Vec<Scope>,
    /// Which terms count, if not the usual ones.
    pub preset: Option<Preset>,
    /// Which protocol it takes.
    pub protocol: Protocol,
    /// Only ranks offers; nothing is held or awarded.
    pub dry_run: bool,
    /// Whether nodes that do not offer say why; unsaid: if few peers are known.
    pub want_declines: Option<bool>,
    /// What is to be run.
    pub body: Blob,
}

/// Why a job was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{reason}: {field}")]
pub struct SubmitRefusal {
    pub reason: Reason,
    /// The field at fault, or what to change.
    #[serde(skip_deserializing)]
    pub field: &'static str,
}

impl Submission {
    /// A job of class 5 that may run anywhere and asks for nothing.
    pub fn new(submitter: NodeId, nonce: u64) -> Self {
        Self {
            nonce,
            submitter,
            nodes: 1,
            profile: None,
            runtimes: Vec::new(),
            hints: Hints::default(),
            cell: None,
            max_cost: None,
            fuel_limit: 10_000,
            class: 5,
            deadline_ms: None,
            deliberation_ms: None,
            lease_ms: None,
            max_scope: Scope::Commons,
            start_scope: None,
            allowed_scopes: Vec::new(),
            preset: None,
            protocol: Protocol::Auto,
            dry_run: false,
            want_declines: None,
            body: Blob::default(),
        }
    }

    /// What names the job: BLAKE3 of its canonical form, in which the body is represented by its own digest.
    pub fn digest(&self) -> Result<Digest, SubmitRefusal> {
        let without_body = Self { body: Blob::default(), ..self.clone() };
        let bytes = canonical(&(without_body, self.body.digest(), self.body.len() as u64))
            .map_err(|_| SubmitRefusal { reason: Reason::Invalid, field: "job" })?;
        Ok(Digest(*blake3::hash(&bytes).as_bytes()))
    }

    /// Refuses what no round could place.
    pub fn validate(&self) -> Result<(), SubmitRefusal> {
        let refuse = |reason, field| Err(SubmitRefusal { reason, field });
        if self.nodes != 1 {
            return refuse(Reason::GangUnsupported, "nodes: use a batch pool");
        }
        if let Some(Err(field)) = self.profile.as_ref().map(Profile::validate) {
            return refuse(Reason::Invalid, field);
        }
        let rules = [
            ("fuel_limit", (100..=10_000_000).contains(&self.fuel_limit)),
            ("class", self.class <= 10),
            ("max_cost", self.max_cost.is_none_or(|cost| cost <= PRICE_MAX)),
            ("deadline_ms", self.deadline_ms.is_none_or(|ms| (1..=1 << 46).contains(&ms))),
            ("deliberation_ms", self.deliberation_ms.is_none_or(|ms| ms <= 10_000)),
            ("lease_ms", self.lease_ms.is_none_or(|ms| (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&ms))),
            ("start_scope", self.start_scope.is_none_or(|scope| scope <= self.max_scope)),
            ("hints", hints_are_few(&self.hints)),
            // Some room for what surrounds the bytes.
            ("body", self.body.len() <= STREAM_BYTES_MAX - 1024),
        ];
        match rules.iter().find(|(_, holds)| !holds) {
            Some(&(field, _)) => refuse(Reason::Invalid, field),
            None => Ok(()),
        }
    }

    /// Whether it takes the simple path.
    pub const fn is_simple(&self) -> bool {
        match self.protocol {
            Protocol::Auto => self.profile.is_none(),
            Protocol::Always => false,
            Protocol::Never => true,
        }
    }

    /// What offers are judged by.
    pub fn need(&self) -> Profile {
        self.profile.clone().unwrap_or_else(Profile::minimal)
    }

    /// The farthest scope of a round, counted from 1.
    pub fn reach(&self, round: u32) -> Scope {
        const STEPS: [Scope; 5] = [Scope::Local, Scope::Cell, Scope::Org, Scope::Federation, Scope::Commons];
        let Some(start) = self.start_scope else { return self.max_scope };
        let further = (start as usize).saturating_add(round.saturating_sub(1) as usize);
        STEPS.get(further).copied().unwrap_or(Scope::Commons).min(self.max_scope)
    }

    pub fn lease_ms(&self, settings: &Settings) -> u64 {
        self.lease_ms.unwrap_or(settings.lease_ms)
    }
}

/// At most 16 wishes, at most 256 digests.
pub(super) fn hints_are_few(hints: &Hints) -> bool {
    let wishes = hints.prefer_peers.len()
        + hints.prefer_regions.len()
        + hints.avoid_peers.len()
        + hints.colocate_with.len()
        + usize::from(!hints.data.is_empty());
    wishes <= 16 && hints.data.len() <= 256
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Submission {
        Submission::new(NodeId::new("s").unwrap(), 1)
    }

    #[test]
    fn every_part_is_in_the_digest() {
        let digest = job().digest().unwrap();
        assert_eq!(digest, job().digest().unwrap());
        assert_ne!(digest, Submission { nonce: 2, ..job() }.digest().unwrap());
        assert_ne!(digest, Submission { body: Blob::new(vec![1]), ..job() }.digest().unwrap());
        assert_ne!(digest, Submission { max_cost: Some(3), ..job() }.digest().unwrap());
    }

    #[test]
    fn each_round_reaches_one_step_further() {
        let job = Submission { start_scope: Some(Scope::Cell), max_scope: Scope::Federation, ..job() };
        let reached = [1, 2, 3, 4, 1000].map(|round| job.reach(round));
        assert_eq!(
            reached,
            [Scope::Cell, Scope::Org, Scope::Federation, Scope::Federation, Scope::Federation]
        );
    }

    #[test]
    fn refusals_name_the_field() {
        let refused = |change: fn(&mut Submission)| {
            let mut job = job();
            change(&mut job);
            job.validate().err().map(|refusal| (refusal.reason, refusal.field))
        };
        assert_eq!(refused(|_| {}), None);
        assert_eq!(refused(|j| j.nodes = 2).map(|r| r.0), Some(Reason::GangUnsupported));
        assert_eq!(refused(|j| j.lease_ms = Some(9999)), Some((Reason::Invalid, "lease_ms")));
        assert_eq!(refused(|j| j.fuel_limit = 99), Some((Reason::Invalid, "fuel_limit")));
        assert_eq!(refused(|j| j.profile = Some(Profile::default())), Some((Reason::Invalid, "profile")));
        let seventeen = |j: &mut Submission| {
            j.hints.prefer_regions = vec![Name::new("r").unwrap(); 17];
        };
        assert_eq!(refused(seventeen), Some((Reason::Invalid, "hints")));
    }

    #[test]
    fn the_path_follows_the_profile_unless_overridden() {
        let with = |profile: bool, protocol| {
            let profile = profile.then(Profile::minimal);
            Submission { profile, protocol, ..job() }.is_simple()
        };
        assert_eq!([with(true, Protocol::Auto), with(false, Protocol::Auto)], [false, true]);
        assert_eq!([with(true, Protocol::Never), with(false, Protocol::Always)], [true, false]);
    }
}
