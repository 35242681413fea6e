//! Why something was refused: one closed vocabulary for declines, rejected offers, refused awards and metrics.

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The stable word for programs.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// Why an offer, a request, an award or a message was refused.
    Reason {
        /// The submitter is not trusted enough.
        SubmitterTrust = "submitter_trust",
        /// The arbiter does not trust the node enough to run work.
        Trust = "trust",
        /// The node's own standing is too low.
        SelfTrust = "self_trust",
        /// The last probe of the node is too old, or there was none.
        StaleCapacity = "stale_capacity",
        /// The node has none of the runtimes.
        RuntimeMissing = "runtime_missing",
        /// Jobs of other peers may not use this runtime there.
        ForeignRuntime = "foreign_runtime",
        /// Jobs of other peers may not set one of these variables there.
        ForeignEnvironment = "foreign_environment",
        /// Jobs of other peers may not use the network there.
        ForeignNetwork = "foreign_network",
        /// Jobs of other peers may not mount anything there.
        ForeignMounts = "foreign_mounts",
        /// Jobs of other peers may not run so long there.
        ForeignWalltime = "foreign_walltime",
        /// The job of another peer asks for more than its request says.
        ForeignNeeds = "foreign_needs",
        /// The node has too little free.
        DoesNotFit = "does_not_fit",
        /// The job avoids the node.
        Avoided = "avoided",
        /// The node is too far away.
        Scope = "scope",
        /// The node's share for this scope is used up.
        ScopeFull = "scope_full",
        /// The price is above the limit.
        OverBudget = "over_budget",
        /// A filter that the peer's own policy adds refuses the node.
        Policy = "policy",
        /// The score is not above the least score.
        MinScore = "min_score",
        /// The node already works for this job.
        HasJob = "has_job",
        /// Bound: jobs running on a node.
        RunningJobs = "running_jobs",
        /// Bound: jobs queued on a node.
        QueuedJobs = "queued_jobs",
        /// Bound: holds per submitter on a node.
        HoldsPerSubmitter = "holds_per_submitter",
        /// Bound: requests of one peer in ten seconds.
        RequestsPerPeer = "requests_per_peer",
        /// Bound: offers in one round.
        OffersPerRound = "offers_per_round",
        /// Bound: open negotiations of an arbiter.
        OpenNegotiations = "open_negotiations",
        /// The job or the round is not the present one.
        StaleRound = "stale_round",
        /// A value is out of range.
        Invalid = "invalid",
        /// The node has offered in this round before.
        Duplicate = "duplicate",
        /// The author may not say this.
        Forged = "forged",
        /// There is no room for the award any more.
        Capacity = "capacity",
        /// The hold had ended, and there is no room any more.
        HoldExpired = "hold_expired",
        /// The arbiter did not confirm the ack in time.
        ConfirmTimeout = "confirm_timeout",
        /// The fence is not the present one.
        StaleFence = "stale_fence",
        /// The arbiter does not know the job.
        UnknownJob = "unknown_job",
        /// The body could not be had, or was not what its digest says.
        BodyUnavailable = "body_unavailable",
        /// Somebody asked for it.
        Requested = "requested",
        /// The deadline has passed.
        Deadline = "deadline",
        /// A job on several nodes cannot be negotiated: use a batch pool.
        GangUnsupported = "gang_unsupported",
        /// The job is finished: it needs a new nonce.
        Finished = "finished",
    }
}

words! {
    /// Why a job failed.
    Failure {
        /// Nobody made an offer that could be taken.
        NoOffers = "no_offers",
        /// Every offer and every decline was over budget.
        NoAffordableOffer = "no_affordable_offer",
        /// Every offer came from a node without trust.
        NoTrustedOffer = "no_trusted_offer",
        /// Every award was refused or met silence.
        AwardFailed = "award_failed",
        /// The lease was lost too often.
        LeaseLost = "lease_lost",
        /// The deadline has passed.
        Deadline = "deadline",
        /// The work itself failed.
        TaskFailed = "task_failed",
        /// The work used up its fuel.
        OutOfFuel = "out_of_fuel",
        /// The node stopped the work at the deadline.
        Timeout = "timeout",
        /// The node could not get the body.
        BodyUnavailable = "body_unavailable",
    }
}
