//! What a placement costs: the tier of the hardware, never part of a score; and what a job may cost at most.

use landfall_model::gpu_table::{HardwareTier, tier};
use landfall_model::{Dispatch, Gpu, JobSpec, Money, Node, Pool, Price, PriceSettings, World};

use crate::devices::model_allowed;
use crate::refusal::{Quantity, Reason, Refusal, Wake};
use crate::rules::fit::Bandwidths;
use crate::view::View;

pub use landfall_model::PriceBasis;

fn highest<'a>(node: &Node, gpus: impl Iterator<Item = &'a Gpu>) -> Option<HardwareTier> {
    let bandwidths = Bandwidths::default();
    let of = |gpu: &Gpu| {
        let name = gpu.model.as_ref().map_or("", |model| model.name.as_str());
        tier(name, bandwidths.of(gpu, node).0)
    };
    gpus.map(of).max()
}

/// The tier that sets the price of a placement on the given devices (indices).
pub fn price_tier(node: &Node, devices: &[u16], basis: PriceBasis) -> HardwareTier {
    let counts = |gpu: &&Gpu| basis == PriceBasis::Node || devices.contains(&gpu.index);
    highest(node, node.gpus.iter().filter(counts)).unwrap_or(HardwareTier::CpuOnly)
}

/// Base price × multiplier of the tier × surge.
pub fn price(base: f64, tier: HardwareTier, surge: f64) -> f64 {
    base * tier.multiplier() * surge
}

/// The same as an amount that can be added up; at most what an amount can be.
pub fn charged(base: f64, tier: HardwareTier, surge: f64) -> Money {
    let micro = (price(base, tier, surge) * 1e6).round();
    Money::new((micro as u64).min(Money::MAX))
}

/// What jobs of a pool cost now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tariff {
    settings: PriceSettings,
    surging: bool,
    /// Whether jobs take whole nodes unless they say otherwise.
    whole_nodes: bool,
}

impl Tariff {
    /// What jobs cost in a pool; `None` if they have no price there.
    pub fn of(pool: &Pool, surging: bool) -> Option<Self> {
        let whole_nodes = pool.dispatch == Dispatch::Batch;
        pool.price.map(|settings| Self { settings, surging: surging && settings.surge, whole_nodes })
    }

    /// What a job costs, by the pool it names, or the only one there is.
    pub fn for_job(world: &World, spec: &JobSpec) -> Option<Self> {
        let only = || world.pools.values().next().filter(|_| world.pools.len() == 1);
        let pool = spec.pool.as_ref().map_or_else(only, |named| world.pools.get(named))?;
        Self::of(pool, world.surging.contains(&pool.id))
    }

    /// The tier of a placement on the given devices (indices).
    pub fn tier(&self, node: &Node, devices: &[u16]) -> HardwareTier {
        price_tier(node, devices, self.settings.basis)
    }

    /// The highest tier that a job may come to on a node, whichever devices it gets there; `None` if it needs a GPU and the node
    /// has none that will do.
    pub fn highest(&self, spec: &JobSpec, node: &Node) -> Option<HardwareTier> {
        let all = self.settings.basis == PriceBasis::Node || (self.whole_nodes && spec.exclusive);
        let its_own = highest(node, node.gpus.iter().filter(|gpu| model_allowed(spec, gpu)));
        match (spec.gpu_count > 0, all) {
            (true, false) => its_own,
            (true, true) if its_own.is_none() => None,
            (_, true) => Some(highest(node, node.gpus.iter()).unwrap_or(HardwareTier::CpuOnly)),
            (false, false) => Some(HardwareTier::CpuOnly),
        }
    }

    /// What a placement of a tier costs now.
    pub fn now(&self, tier: HardwareTier) -> Money {
        let surge = if self.surging { self.settings.surge_factor } else { 1.0 };
        charged(self.settings.base, tier, surge)
    }

    /// The same while few jobs wait.
    pub fn usual(&self, tier: HardwareTier) -> Money {
        charged(self.settings.base, tier, 1.0)
    }

    /// Whether a job could pay for a node if prices were not raised.
    pub fn is_only_raised(&self, spec: &JobSpec, node: &Node) -> bool {
        let tier = self.highest(spec, node).zip(spec.max_price);
        tier.is_some_and(|(tier, most)| {
            Price::new(self.now(tier)) > most && Price::new(self.usual(tier)) <= most
        })
    }
}

/// Refuses a node on which a job may come to cost more than it may. It stands beside every policy's filters: a limit that a job
/// names holds whatever the policy thought of.
pub(crate) fn too_dear(view: &View<'_>) -> Option<Refusal> {
    let most = view.spec.max_price?;
    let tariff = Tariff::for_job(view.pass.world, view.spec)?;
    let tier = tariff.highest(view.spec, view.node)?;
    let (now, usual) = (Price::new(tariff.now(tier)), Price::new(tariff.usual(tier)));
    if now <= most {
        return None;
    }
    let (needed, found) = (Quantity::Number(most.as_f64()), Quantity::Number(now.as_f64()));
    if usual > most {
        let remedy = view.say(|| format!("raise max_price to {usual}, or ask for cheaper hardware"));
        return Some(Refusal::never(Reason::MaxPrice, needed, found, Wake::JobChanged).remedy(remedy));
    }
    let remedy = view
        .say(|| format!("wait until fewer jobs wait: it costs {usual} then; or raise max_price to {now}"));
    Some(Refusal::not_now(Reason::MaxPrice, needed, found, Wake::Timer).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::gpu_table::GpuModel;
    use landfall_model::scenario::{Format, parse};
    use landfall_model::{Mib, MilliCpu, Name, NodeId};

    use crate::policy_file;
    use crate::refusal::Finality;
    use crate::verdict::Direction;
    use crate::view::Pass;

    #[test]
    fn f44_the_job_pays_for_what_it_holds() {
        let mut node = Node::new(NodeId::new("n").unwrap(), MilliCpu::ZERO, Mib::ZERO);
        let model = GpuModel::new(Name::new("NVIDIA H100 80GB HBM3").unwrap());
        node.gpus = vec![Gpu::new(0, Some(model), Some(Mib::gib(80)))];
        let of = |basis| price(0.10, price_tier(&node, &[], basis), 1.0);
        assert!((of(PriceBasis::Placement) - 0.05).abs() < 1e-9);
        assert!((of(PriceBasis::Node) - 0.20).abs() < 1e-9);
        assert_eq!(price_tier(&node, &[0], PriceBasis::Placement), HardwareTier::Enterprise);
    }

    #[test]
    fn a_node_that_may_cost_more_is_refused_for_now_or_for_ever() {
        use Finality::{Never, NotNow};
        let h100 = "gpus = [{ model = 'H100', vram_mib = '80GiB' }]";
        let both =
            "gpus = [{ model = 'H100', vram_mib = '80GiB' }, { model = 'RTX 3060', vram_mib = '12GiB' }]";
        let one = "gpu_count = 1";
        // Pool, node, job; what stands against the pair. H100 counts twice, RTX 3060 once, no GPU half.
        for (pool, node, job, expected) in [
            ("price = { base = 0.1 }", h100, "gpu_count = 1, max_price = 0.2", None),
            ("price = { base = 0.1 }", h100, "gpu_count = 1, max_price = 0.19", Some(Never)),
            ("price = { base = 0.1 }", h100, "max_price = 0.05", None),
            ("price = { base = 0.1, basis = 'node' }", h100, "max_price = 0.05", Some(Never)),
            ("price = { base = 0.1 }", both, "gpu_count = 1, max_price = 0.1", Some(Never)),
            (
                "price = { base = 0.1 }",
                both,
                "gpu_count = 1, gpu_models = ['RTX 3060'], max_price = 0.1",
                None,
            ),
            ("dispatch = 'batch', price = { base = 0.1 }", h100, "max_price = 0.1", Some(Never)),
            ("dispatch = 'batch', price = { base = 0.1 }", h100, "max_price = 0.1, exclusive = false", None),
            ("price = { base = 0.1, surge = true }", h100, "gpu_count = 1, max_price = 0.2", Some(NotNow)),
            ("price = { base = 0.1, surge = true }", h100, "gpu_count = 1, max_price = 0.25", None),
            ("price = { base = 0.1, surge_factor = 3.0 }", h100, "gpu_count = 1, max_price = 0.2", None),
            ("price = { base = 0.1 }", h100, one, None),
            ("", h100, "gpu_count = 1, max_price = 0", None),
        ] {
            let text = format!("now_ms = 0\npools = [{{ id = 'p', {pool} }}]\nnodes = [{{ id = 'n', {node} }}]\njobs = [{{ id = 'j', {job} }}]")
                .replace("'p',  }", "'p' }");
            let mut situation = parse(&text, Format::Toml).unwrap();
            situation.world.surging = situation.world.pools.keys().cloned().collect();
            let policy = policy_file::load("name = 'p'\ndescription = 'd'\nfilters = []").unwrap();
            let (job, node) = (&situation.jobs()[0], &situation.nodes()[0]);
            let pass = Pass::new(&situation);
            let verdict = policy.pair_verdict(&pass, job, node, Direction::NodesForJob);
            let found: Vec<_> = verdict.refusals.iter().map(|refused| refused.refusal.class).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{pool}; {job:?}");
            assert_eq!(policy.suits(&pass, job, node), expected.is_none(), "{pool}: planners heed it");
            assert_eq!(
                policy.is_eligible(&pass, job, node),
                expected != Some(Never),
                "{pool}: a surge passes"
            );
            assert_eq!(policy.admits_idle(&pass, job, node), expected.is_none(), "{pool}: not now");
        }
    }
}
