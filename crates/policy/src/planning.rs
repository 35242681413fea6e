//! What whoever plans ahead asks a policy.
//!
//! Push and pull judge a pair at the instant at which it is made. A batch pool plans weeks of time for many nodes at
//! once; asking every filter about every pair at every instant would be neither quick nor possible, since nobody knows
//! what a node will report next week. So filters are asked by what their answer rests on ([`About`]):
//!
//! - **`Plan`**: dependencies, times, state, occupancy, leases. Planning in time *is* working these out, so the planner
//!   and the ledger heed them always, whether or not the policy lists them ([`Policy::for_planning`] makes verdicts say
//!   so too).
//! - **`Make`** and **`Registration`**: what job and node are. Asked once per class of jobs and kind of nodes
//!   ([`Policy::suits`]) and kept until nodes or settings change. A refusal excludes the kind, now and in plans.
//! - **`Moment`**: how a node is now. Asked in every cycle about every node ([`Policy::plans_from`]). A node that is
//!   refused is not used now. In plans it is used from the instant that the refusal names; after the end of work, where
//!   that is what it waits for, since the plan knows when; and otherwise not at all, since nobody can foretell when a
//!   silent node is heard again. The next cycle asks anew.
//!
//! Kinds must be so fine that a filter cannot judge two nodes of one kind differently: [`Policy::looks_at`] says how
//! fine, and a kind's filters see nothing of a node but what its kind is told apart by.

use landfall_model::{Job, Millis, Node, Time};

use crate::evaluate::Pair;
use crate::filter::{About, FilterInfo};
use crate::filters::batch::{self, block_end, state, taken};
use crate::filters::fit;
use crate::filters::pull;
use crate::params::Params;
use crate::policy::Policy;
use crate::refusal::{Finality, Reason, Refusal, Wake};
use crate::rules::price::too_dear;
use crate::rules::service::OPEN;
use crate::view::{Devices, Pass, View};

impl View<'_> {
    /// What the filters about some things say against the pair, in policy order. What it costs is asked with what it is made of: it
    /// changes with settings and with a surge, of which planners hear. Whether owner and operator let the node take work is asked whatever the
    /// policy lists, so kinds are always told apart by that.
    fn refusals(&self, about: &[About]) -> impl Iterator<Item = Refusal> {
        let asked = self.filters.iter().filter(|(info, _)| about.contains(&info.about));
        let dear = about.contains(&About::Make).then(|| too_dear(self)).flatten();
        let closed = OPEN.iter().filter(|_| about.contains(&About::Registration));
        let closed = closed.filter_map(|demand| demand.against(self));
        asked.filter_map(|(_, filter)| filter.check(self)).chain(dear).chain(closed)
    }

    /// Whether the job could use the node some day if nothing ran there.
    pub(crate) fn is_eligible(&self) -> bool {
        let never = |refusal: Refusal| refusal.class == Finality::Never;
        state::admits(self.spec, self.node)
            && block_end::admits(self.spec, self.node, self.now())
            && self.refusals(&[About::Make]).all(|refusal| is_of_a_surge(&refusal))
            && !self.refusals(&[About::Registration, About::Moment]).any(never)
    }

    /// Whether nothing is in its way now, on a node that it could use some day.
    pub(crate) fn is_free(&self) -> bool {
        taken::admits(self.spec, self.node)
            && too_dear(self).is_none()
            && self.refusals(&[About::Registration, About::Moment]).next().is_none()
    }
}

/// Whether it passes when fewer jobs wait.
fn is_of_a_surge(refusal: &Refusal) -> bool {
    refusal.reason == Reason::MaxPrice && refusal.class == Finality::NotNow
}

impl Policy {
    fn planned<T>(&self, pass: &Pass<'_>, job: &Job, node: &Node, look: impl FnOnce(&View<'_>) -> T) -> T {
        let devices = Devices::default();
        look(&Pair { pass, job, node, ranks_nodes: true }.view(&self.filters, &devices))
    }

    /// How closely its filters look at nodes: those that are alike up to there are judged alike.
    pub fn looks_at(&self) -> About {
        self.filters.iter().map(|(info, _)| info.about).fold(About::Make, About::max)
    }

    /// Whether job and node go together by what they are.
    pub fn suits(&self, pass: &Pass<'_>, job: &Job, node: &Node) -> bool {
        self.planned(pass, job, node, |view| {
            view.refusals(&[About::Make, About::Registration]).next().is_none()
        })
    }

    /// From when on a plan may use the node for the job, as far as filters about the moment are concerned; otherwise
    /// whether that cannot be foretold, or will never be.
    pub fn plans_from(&self, pass: &Pass<'_>, job: &Job, node: &Node) -> Result<Time, Finality> {
        self.planned(pass, job, node, |view| {
            let mut from = Ok(pass.now);
            for refusal in view.refusals(&[About::Moment]) {
                let later = match (refusal.class, refusal.until_ms) {
                    (Finality::Never, _) => return Err(Finality::Never),
                    (Finality::NotNow, Some(until)) => Ok(until),
                    (Finality::NotNow, None) if refusal.wake == Wake::PlacementEnded => {
                        Ok(pass.now + Millis::new(1))
                    }
                    (Finality::NotNow, None) => Err(Finality::NotNow),
                };
                from = from.and_then(|from: Time| later.map(|later| from.max(later)));
            }
            from
        })
    }

    /// The reasons of the filters about some things that refuse the pair, each once.
    pub fn misfits(&self, pass: &Pass<'_>, job: &Job, node: &Node, about: &[About]) -> Vec<Reason> {
        let mut reasons: Vec<_> = self
            .planned(pass, job, node, |view| view.refusals(about).map(|refusal| refusal.reason).collect());
        reasons.sort_unstable();
        reasons.dedup();
        reasons
    }

    /// Whether the job could use the node some day if nothing ran there.
    pub fn is_eligible(&self, pass: &Pass<'_>, job: &Job, node: &Node) -> bool {
        self.planned(pass, job, node, |view| view.is_eligible())
    }

    /// Whether the node, idle as it is, could take the job now.
    pub fn admits_idle(&self, pass: &Pass<'_>, job: &Job, node: &Node) -> bool {
        self.planned(pass, job, node, |view| view.is_eligible() && view.is_free())
    }

    /// Whether nothing but time stands between the job and the node, whatever else runs there now.
    pub fn could_run(&self, pass: &Pass<'_>, job: &Job, node: &Node) -> bool {
        let never = |refusal: Refusal| refusal.class == Finality::Never;
        let all = [About::Plan, About::Make, About::Registration, About::Moment];
        self.planned(pass, job, node, |view| !view.refusals(&all).any(never))
    }

    /// The policy with filters for what a job may name and no policy may pass over: architecture and features.
    #[must_use]
    pub fn heeding_needs(self) -> Self {
        let heeds =
            |policy: &Self, reason| policy.filters.iter().any(|(info, _)| info.reasons.contains(&reason));
        let about_needs =
            |info: &&&FilterInfo| matches!(info.reasons, [Reason::Architecture] | [Reason::Feature]);
        let ours = pull::ALL.iter().filter(about_needs).copied();
        let missing: Vec<_> = ours.filter(|info| !heeds(&self, info.reasons[0])).collect();
        self.with_filters(missing.into_iter())
    }

    /// The policy with a filter for nodes that will go out of service at a known instant. Only pools that have such nodes pay for looking
    /// at the clock.
    #[must_use]
    pub fn heeding_maintenance(self) -> Self {
        self.with_filters([&fit::maintenance::INFO].into_iter())
    }

    fn with_filters(mut self, infos: impl Iterator<Item = &'static FilterInfo>) -> Self {
        let own = Default::default();
        for info in infos {
            let built = |policy: &Self| (info.build)(&Params { own: &own, shared: &policy.spec().params });
            let filter = built(&self);
            self.filters.extend(filter.map(|filter| (info, filter)));
            for row in &mut self.rows {
                let filter = built(row);
                row.filters.extend(filter.map(|filter| (info, filter)));
            }
        }
        self
    }

    /// The policy with the filters that a planner heeds always, so that its verdicts are those of the planner.
    #[must_use]
    pub fn for_planning(self) -> Self {
        let known: Vec<&str> = self.filters.iter().map(|(known, _)| known.name).collect();
        let plan = batch::ALL.iter().copied().filter(|info| info.about == About::Plan);
        let missing: Vec<_> = plan.filter(|info| !known.contains(&info.name)).collect();
        self.with_filters(missing.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use landfall_model::Situation;
    use landfall_model::scenario::{Format, parse};

    use super::*;
    use crate::{catalogue, policy_file};

    fn policy(filters: &str) -> Policy {
        policy_file::load(&format!("name = 'p'\ndescription = 'd'\nfilters = [{filters}]")).unwrap()
    }

    fn situation(node: &str, job: &str) -> Situation {
        let text = format!(
            "now_ms = 1000\nblocks = [{{ id = 'b', ends_in_ms = 1000 }}]\nnodes = [{{ id = 'n', {node} }}]\njobs = [{{ id = 'j', {job} }}]"
        );
        parse(&text, Format::Toml).unwrap()
    }

    #[test]
    fn each_filter_decides_where_a_planner_asks_it() {
        /// Filter, node, job; whether they suit, from when plans use the node (ms), whether they are eligible.
        type Case = (&'static str, &'static str, &'static str, bool, Option<i64>, bool);
        let cases: [Case; 15] = [
            (
                "batch-gpu-model",
                "gpus = [{ model = 'A' }]",
                "gpu_count = 1, gpu_models = ['B']",
                false,
                Some(1000),
                false,
            ),
            ("batch-gpu-count", "gpus = [{ count = 2 }]", "gpu_count = 3", false, Some(1000), false),
            (
                "batch-gpu-memory",
                "gpus = [{ vram_mib = 2 }]",
                "gpu_count = 1, vram_mib = 3",
                false,
                Some(1000),
                false,
            ),
            ("batch-cpu", "cpu_milli = 1", "cpu_milli = 2", false, Some(1000), false),
            ("batch-memory", "ram_mib = 1", "ram_mib = 2", false, Some(1000), false),
            ("batch-feature", "features = ['a']", "features = ['b']", false, Some(1000), false),
            (
                "batch-unified-memory",
                "unified_memory = false",
                "unified_memory = true",
                false,
                Some(1000),
                false,
            ),
            ("batch-fingerprint", "drifted = true", "sensitive = true", false, Some(1000), false),
            ("batch-state", "state = 'drained'", "class = 5", true, Some(1000), false),
            ("batch-block-end", "block = 'b'", "lifecycle = 'unbounded'", true, Some(1000), false),
            ("runtime", "supported_runtimes = ['wasm']", "runtime = 'process'", false, Some(1000), false),
            ("approved", "approval = 'pending'", "class = 5", false, Some(1000), true),
            ("cooldown", "cooldown_until_ms = 5000", "class = 5", true, Some(5000), true),
            (
                "cpu",
                "cpu_milli = 2, placements = [{ job = 'x', cpu_milli = 1 }]",
                "cpu_milli = 2",
                true,
                Some(1001),
                true,
            ),
            ("online", "heartbeat_age_ms = 60000", "class = 5", true, None, true),
        ];
        for (filter, node, job, suits, from, eligible) in cases {
            let situation = situation(node, job);
            let (pass, job, node) = (Pass::new(&situation), &situation.jobs()[0], &situation.nodes()[0]);
            let policy = policy(&format!("{{ name = '{filter}' }}"));
            assert_eq!(policy.suits(&pass, job, node), suits, "{filter}");
            assert_eq!(policy.plans_from(&pass, job, node).ok(), from.map(Time::from_millis), "{filter}");
            assert_eq!(policy.is_eligible(&pass, job, node), eligible, "{filter}");
            assert!(!policy.admits_idle(&pass, job, node), "{filter}");
        }
    }

    #[test]
    fn a_planner_heeds_its_own_filters_whatever_the_policy_lists() {
        let situation =
            situation("state = 'drained', block = 'b', placements = [{ job = 'x' }]", "waits_for = 'x'");
        let (pass, job, node) = (Pass::new(&situation), &situation.jobs()[0], &situation.nodes()[0]);
        let names = |policy: &Policy| -> Vec<String> {
            let direction = crate::verdict::Direction::NodesForJob;
            policy
                .pair_verdict(&pass, job, node, direction)
                .refusals
                .iter()
                .map(|refused| refused.filter.to_string())
                .collect()
        };
        let planned = ["batch-ready", "batch-state", "batch-taken", "batch-block-end"];
        assert_eq!(names(&policy("").for_planning()), planned);
        let listed = planned.map(|name| format!("{{ name = '{name}' }}")).join(", ");
        assert_eq!(names(&policy(&listed).for_planning()), planned, "each once");
    }

    /// Jobs of one class are asked about once, so nothing but the planner may look at one of them.
    #[test]
    fn only_planned_filters_look_at_a_job_beyond_its_class() {
        for info in catalogue::filters().filter(|info| info.job_identity) {
            assert_eq!(info.about, About::Plan, "{}", info.name);
        }
        for info in catalogue::filters().filter(|info| info.clock) {
            assert!(matches!(info.about, About::Plan | About::Moment), "{}", info.name);
        }
    }
}
