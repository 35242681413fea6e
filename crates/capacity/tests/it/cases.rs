//! The acceptance cases of the specification.

use landfall_model::JobSpec;

use super::*;

/// A fleet of one tier as numbers, in front of simulated providers.
struct Case {
    scaler: Autoscaler,
    settings: AutoscaleSettings,
    quotes: Quotes,
    providers: Vec<Description>,
    blocks: Vec<(Block, u32)>,
    fast: TierLoad,
    flex: TierLoad,
}

impl Case {
    /// Both usual providers, with the price of the exact one.
    fn new(exact_price: f64) -> Self {
        let mut case = Self {
            scaler: Autoscaler::new(name("case")),
            settings: AutoscaleSettings::default(),
            quotes: Quotes::default(),
            providers: Description::defaults(),
            blocks: Vec::new(),
            fast: TierLoad::default(),
            flex: TierLoad::default(),
        };
        for (of, price) in [("prime", exact_price), ("sfcompute", 2.0)] {
            let mut provider = reliable(described(of), price);
            let calls = case.run_sync();
            let call = calls.into_iter().find_map(|call| match call {
                Call::Quote(request) if request.provider.as_str() == of => Some(request),
                _ => None,
            });
            case.quotes.note(&name(of), provider.quote(&call.unwrap(), NOW));
        }
        case
    }

    fn run_sync(&mut self) -> Vec<Call> {
        let Self { scaler, settings, quotes, providers, fast, flex, .. } = self;
        let view = FleetView { settings, providers, blocks: &[], fast: *fast, flex: *flex };
        scaler.sync(&view, NOW, quotes)
    }

    fn with(mut self, tier: Tier, queue: u64, used: u64, blocks: &[(BlockStatus, u32)]) -> Self {
        let load = TierLoad { queue_gpus: queue, used_gpus: used, own_gpus: 0 };
        match tier {
            Tier::Fast => self.fast = load,
            Tier::Flex => self.flex = load,
        }
        for (index, &(status, gpus)) in blocks.iter().enumerate() {
            self.blocks.push((block(&format!("b{index}"), "sfcompute", tier, status, 24), gpus));
        }
        self
    }

    fn run(&mut self, now: Time) -> Vec<Order> {
        let view = |(block, gpus): &(Block, u32)| (block.clone(), *gpus);
        let owned: Vec<_> = self.blocks.iter().map(view).collect();
        let blocks: Vec<BlockView<'_>> = owned
            .iter()
            .map(|(block, gpus)| BlockView { block, gpus: *gpus, occupants: 1, idle_since: None })
            .collect();
        let view = FleetView {
            settings: &self.settings,
            providers: &self.providers,
            blocks: &blocks,
            fast: self.fast,
            flex: self.flex,
        };
        self.scaler.run(&view, now, &self.quotes)
    }
}

use BlockStatus::{Active, Pending};

#[test]
fn pack_b26_a_small_need_is_bought_as_it_is() {
    let orders = Case::new(3.0).with(Tier::Fast, 2, 3, &[(Active, 4)]).run(NOW);
    assert_eq!(buys(&orders), Some(("prime", 3, &[3][..])));
    let purchase = bought(&orders).unwrap();
    assert_eq!((purchase.why.balance.target, purchase.why.need), (7, 3));
    assert_eq!((purchase.max_price, purchase.lease_ms), (dollars(3.0), Millis::secs(86_400)));
}

#[test]
fn pack_b27_without_an_exact_provider_a_whole_unit_is_bought() {
    // Too dear by a micro-unit; at the limit it is still used.
    let orders = Case::new(4.000_001).with(Tier::Fast, 2, 3, &[(Active, 4)]).run(NOW);
    assert_eq!(buys(&orders), Some(("sfcompute", 8, &[8][..])));
    assert_eq!(bought(&orders).unwrap().why.balance.target, 7);
    let orders = Case::new(4.0).with(Tier::Fast, 2, 3, &[(Active, 4)]).run(NOW);
    assert_eq!(buys(&orders), Some(("prime", 3, &[3][..])));
}

#[test]
fn pack_b28_a_need_of_a_unit_goes_to_bulk() {
    let orders = Case::new(3.0).with(Tier::Fast, 3, 8, &[(Active, 8)]).run(NOW);
    assert_eq!(buys(&orders), Some(("sfcompute", 8, &[8][..])));
    assert_eq!(bought(&orders).unwrap().why.balance.target, 16);
}

#[test]
fn pack_b29_sustained_demand_buys_a_whole_unit_once() {
    let fleet = [(Active, 8), (Active, 8), (Pending, 4)];
    // The queue has a unit from the first run on, but until the last one nothing is missing.
    let mut case = Case::new(3.0).with(Tier::Fast, 10, 3, &fleet);
    case.fast.used_gpus = 3;
    let start = NOW - Millis::secs(900);
    assert_eq!(buys(&case.run(start)), None);
    let mut just_short = Case::new(3.0).with(Tier::Fast, 10, 3, &fleet);
    assert_eq!(buys(&just_short.run(start + Millis::new(1))), None);
    (case.fast.used_gpus, just_short.fast.used_gpus) = (6, 6);
    let orders = case.run(NOW);
    assert_eq!(buys(&orders), Some(("sfcompute", 8, &[8][..])));
    let why = &bought(&orders).unwrap().why;
    assert_eq!((why.balance.target, why.need, why.consolidated), (24, 4, true));
    // A millisecond less of demand, and it is bought as it is.
    assert_eq!(buys(&just_short.run(NOW)), Some(("prime", 4, &[4][..])));
    // Not again: neither for the same need, nor for a new small one.
    assert_eq!(buys(&case.run(NOW + Millis::secs(60))), None);
    case.fast.used_gpus = 11;
    let orders = case.run(NOW + Millis::secs(120));
    assert_eq!(buys(&orders), Some(("prime", 3, &[3][..])), "target 31, there are 28");
}

#[test]
fn one_run_below_a_unit_ends_sustained_demand() {
    let mut case = Case::new(3.0).with(Tier::Fast, 10, 3, &[(Active, 20)]);
    case.run(NOW - Millis::secs(900));
    case.fast.queue_gpus = 7;
    case.run(NOW - Millis::secs(450));
    (case.fast.queue_gpus, case.fast.used_gpus) = (10, 6);
    assert_eq!(buys(&case.run(NOW)), Some(("prime", 4, &[4][..])));
}

#[test]
fn pack_b30_flex_buys_what_is_missing() {
    let orders = Case::new(3.0).with(Tier::Flex, 12, 10, &[(Active, 16)]).run(NOW);
    assert_eq!(buys(&orders), Some(("prime", 6, &[6][..])));
    assert_eq!(bought(&orders).unwrap().tier, Tier::Flex);
    // What is ordered counts; what suffices is left alone; a unit goes to bulk.
    let orders = Case::new(3.0).with(Tier::Flex, 12, 10, &[(Active, 16), (Pending, 6)]).run(NOW);
    assert_eq!(buys(&orders), None);
    assert_eq!(quiet(&Case::new(3.0).run(NOW), Tier::Flex), Some(&Quiet::NoDemand));
    let orders = Case::new(3.0).with(Tier::Flex, 15, 10, &[(Active, 16)]).run(NOW);
    assert_eq!(buys(&orders), Some(("sfcompute", 16, &[8, 8][..])));
}

#[test]
fn pack_b31_idle_blocks_are_released_in_order_up_to_the_surplus() {
    let blocks =
        [("b1", "sfcompute", 24), ("b2", "prime", 5), ("b3", "sfcompute", 10), ("b4", "sfcompute", 20)]
            .map(|(id, provider, hours)| block(id, provider, Tier::Fast, Active, hours));
    let idle = [None, Some(6), Some(40), Some(31)];
    let views: Vec<BlockView<'_>> = blocks
        .iter()
        .zip(idle)
        .map(|(block, minutes)| BlockView {
            block,
            gpus: 8,
            occupants: u32::from(minutes.is_none()),
            idle_since: minutes.map(|minutes| NOW - Millis::secs(60 * minutes)),
        })
        .collect();
    let fast = TierLoad { used_gpus: 4, ..TierLoad::default() };
    let mut settings = AutoscaleSettings::default();
    let run = |settings: &AutoscaleSettings| {
        let providers = Description::defaults();
        let view =
            FleetView { settings, providers: &providers, blocks: &views, fast, flex: TierLoad::default() };
        Autoscaler::new(name("b31")).run(&view, NOW, &Quotes::default())
    };
    let orders = run(&settings);
    assert_eq!(released(&orders), ["b2", "b4"]);
    let Order::Release { why, .. } = &orders[0] else { panic!("{orders:?}") };
    assert_eq!((why.balance.target, why.surplus, why.balance.total), (6, 22, 32));
    // The next one is larger than the 6 left: with overshoot it goes too, and is the last.
    settings.allow_overshoot = true;
    let orders = run(&settings);
    assert_eq!(released(&orders), ["b2", "b4", "b3"]);
    let Order::Release { why, .. } = &orders[2] else { panic!("{orders:?}") };
    assert_eq!((why.surplus, why.overshoot), (6, true));
}

#[test]
fn pack_b32_a_job_that_can_never_run_buys_nothing() {
    let ten = JobSpec { gpu_count: 10, ..JobSpec::empty() };
    let mut case = Case::new(3.0);
    case.fast.queue_gpus = queue_gpus(Tier::Fast, [(&ten, false)]);
    let orders = case.run(NOW);
    assert_eq!(case.fast.queue_gpus, 0);
    assert_eq!(buys(&orders), None);
    assert!(matches!(quiet(&orders, Tier::Fast), Some(Quiet::Enough { stays: Stays::Warm, .. })));
    case.fast.queue_gpus = queue_gpus(Tier::Fast, [(&ten, true)]);
    assert_eq!(buys(&case.run(NOW)), Some(("sfcompute", 16, &[8, 8][..])));
}

#[test]
fn only_blocks_of_the_tier_that_can_be_used_count() {
    let mut case = Case::new(3.0).with(
        Tier::Fast,
        2,
        3,
        &[(Active, 4), (BlockStatus::Selling, 8), (BlockStatus::Sold, 8)],
    );
    case.blocks.push((block("flex", "sfcompute", Tier::Flex, Active, 24), 8));
    let mut over = block("over", "sfcompute", Tier::Fast, Active, 24);
    over.end_at = Some(NOW);
    case.blocks.push((over, 8));
    assert_eq!(buys(&case.run(NOW)), Some(("prime", 3, &[3][..])));
    // A block that begins later is on its way.
    let mut later = block("later", "sfcompute", Tier::Fast, Active, 24);
    later.start_at = Some(NOW + Millis::secs(60));
    let mut case = Case::new(3.0).with(Tier::Fast, 2, 3, &[(Active, 4)]);
    case.blocks.push((later, 8));
    assert_eq!(buys(&case.run(NOW)), None);
    // Nodes of one's own are capacity.
    let mut case = Case::new(3.0).with(Tier::Fast, 2, 3, &[]);
    case.fast.own_gpus = 5;
    assert_eq!(buys(&case.run(NOW)), Some(("prime", 2, &[2][..])));
}
