//! Which provider is asked, what happens when it fails, and that nothing is bought twice.

use super::world::World;
use super::*;
use landfall_capacity::order_book::OrderBook;
use landfall_testkit::provider::{Prices, Span};

fn always() -> Span {
    Span { from: Time::ZERO, until: Time::from_secs(i64::MAX / 2000) }
}

/// A provider that refuses every order while its prices are still quoted.
fn refusing(of: Description, price: f64) -> SimulatedProvider {
    SimulatedProvider::new(Behaviour {
        refused_permille: 1000,
        ..Behaviour::reliable(of, dollars(price), 10_000)
    })
}

fn unreachable(of: Description, price: f64) -> SimulatedProvider {
    SimulatedProvider::new(Behaviour {
        outages: vec![always()],
        ..Behaviour::reliable(of, dollars(price), 10_000)
    })
}

/// What is decided for a FAST demand of so many GPUs, on an empty fleet.
fn decided(providers: Vec<SimulatedProvider>, demand: u64) -> Vec<Order> {
    let mut world = World::new(providers);
    world.settings.fast_safety_factor = 1.0;
    world.fast_demand = demand;
    world.sync(NOW);
    world.decide(NOW)
}

fn in_world(providers: Vec<SimulatedProvider>, demand: u64) -> World {
    let mut world = World::new(providers);
    world.settings.fast_safety_factor = 1.0;
    world.fast_demand = demand;
    world
}

#[test]
fn of_several_exact_providers_the_cheapest_then_the_first_name() {
    let sellers = |prices: [f64; 3]| {
        let exact = ["b", "a", "c"].into_iter().zip(prices);
        exact.map(|(new, price)| reliable(renamed("prime", new), price)).collect()
    };
    assert_eq!(buys(&decided(sellers([2.0, 3.0, 1.0]), 3)), Some(("c", 3, &[3][..])));
    assert_eq!(buys(&decided(sellers([2.0, 2.0, 2.0]), 3)), Some(("a", 3, &[3][..])));
}

#[test]
fn an_exact_provider_must_be_enabled_small_enough_quick_and_cheap() {
    let bulk = || reliable(described("sfcompute"), 2.0);
    let with = |change: fn(&mut Description), price| {
        let mut of = described("prime");
        change(&mut of);
        let orders = decided(vec![reliable(of, price), bulk()], 5);
        let purchase = bought(&orders).unwrap().clone();
        (purchase.provider.as_str().to_owned(), purchase.why.passed_over.first().map(|passed| passed.why))
    };
    let slow = Unusable::SlowStart { startup_ms: Millis::new(300_001), most_ms: Millis::secs(300) };
    let dear = Unusable::TooDear { price: dollars(4.1), most: dollars(4.0) };
    assert_eq!(with(|_| {}, 4.0), ("prime".to_owned(), None));
    assert_eq!(with(|of| of.startup_ms = Millis::secs(300), 4.0), ("prime".to_owned(), None));
    assert_eq!(with(|of| of.startup_ms = Millis::new(300_001), 4.0), ("sfcompute".to_owned(), Some(slow)));
    assert_eq!(with(|_| {}, 4.1), ("sfcompute".to_owned(), Some(dear)));
    let disabled = with(|of| of.provider.enabled = false, 4.0);
    assert_eq!(disabled, ("sfcompute".to_owned(), Some(Unusable::Disabled)));
    // Too small for the whole need: bulk comes first, although it could deliver in pieces.
    assert_eq!(with(|of| of.provider.shape.gpus = 4, 4.0).0, "sfcompute");
}

#[test]
fn without_bulk_providers_exact_blocks_are_as_large_as_they_can_be() {
    let prime = || vec![reliable(described("prime"), 2.0)];
    assert_eq!(buys(&decided(prime(), 8)), Some(("prime", 8, &[8][..])));
    assert_eq!(buys(&decided(prime(), 19)), Some(("prime", 19, &[8, 8, 3][..])));
    let mut small = described("prime");
    small.provider.shape.gpus = 2;
    assert_eq!(buys(&decided(vec![reliable(small, 2.0)], 5)), Some(("prime", 5, &[2, 2, 1][..])));
}

#[test]
fn without_any_provider_the_reasons_are_shown() {
    let orders =
        decided(vec![reliable(described("prime"), 5.0), unreachable(described("sfcompute"), 1.0)], 3);
    let Some(Quiet::NoProvider { need: 3, passed_over }) = quiet(&orders, Tier::Fast) else {
        panic!("{orders:?}");
    };
    let why: Vec<_> = passed_over.iter().map(|passed| (passed.provider.as_str(), passed.why)).collect();
    let dear = Unusable::TooDear { price: dollars(5.0), most: dollars(4.0) };
    assert_eq!(why, [("prime", dear), ("sfcompute", Unusable::Unreachable)]);
    assert!(matches!(quiet(&decided(vec![], 3), Tier::Fast), Some(Quiet::NoProvider { .. })));
}

#[test]
fn flex_pays_no_more_than_its_cap() {
    let flex = |exact: f64, bulk: f64, cap: f64| {
        let mut world =
            World::new(vec![reliable(described("prime"), exact), reliable(described("sfcompute"), bulk)]);
        world.settings.flex_max_price = dollars(cap);
        world.flex_demand = 3;
        world.sync(NOW);
        let orders = world.decide(NOW);
        buys(&orders).map(|(provider, gpus, _)| (provider.to_owned(), gpus))
    };
    assert_eq!(flex(2.0, 2.0, 10.0), Some(("prime".to_owned(), 3)));
    assert_eq!(flex(2.0, 1.0, 1.5), Some(("sfcompute".to_owned(), 8)));
    assert_eq!(flex(5.0, 10.0, 10.0), Some(("sfcompute".to_owned(), 8)));
    assert_eq!(flex(5.0, 10.000_001, 10.0), None);
}

#[test]
fn a_bulk_bid_follows_the_order_book_within_the_cap() {
    let asks = [(24, 16), (24, 16), (25, 64), (26, 96)]
        .map(|(price, gpus)| Ask { price: dollars(f64::from(price)), gpus });
    let market = |tier, cap: f64| {
        let prices = Prices::Book(OrderBook::new(asks.to_vec()).unwrap());
        let behaviour = Behaviour::reliable(described("sfcompute"), dollars(1.0), 10_000);
        let mut world = World::new(vec![SimulatedProvider::new(Behaviour { prices, ..behaviour })]);
        world.settings.fast_safety_factor = 1.0;
        world.settings.flex_max_price = dollars(cap);
        match tier {
            Tier::Fast => world.fast_demand = 80,
            Tier::Flex => world.flex_demand = 80,
        }
        world.sync(NOW);
        let orders = world.decide(NOW);
        bought(&orders).map(|purchase| (purchase.max_price, purchase.why.partial))
    };
    // Levels 2 and 3: 0.4 · 96/80 + 0.4 + 0.2 · 0.8 = 1.04 against 0.8 + 0.4 · 25/26 + 0.2 · 1.2 = 1.4246.
    assert_eq!(market(Tier::Fast, 10.0), Some((dollars(26.0), false)));
    assert_eq!(market(Tier::Flex, 26.0), Some((dollars(26.0), false)));
    assert_eq!(market(Tier::Flex, 25.0), Some((dollars(25.0), false)));
    assert_eq!(market(Tier::Flex, 24.0), Some((dollars(24.0), true)));
    assert_eq!(market(Tier::Flex, 23.0), None);
}

#[test]
fn an_exact_bid_is_the_lowest_price_at_which_enough_is_on_offer() {
    let asks = [(1, 2), (2, 2), (3, 90)].map(|(price, gpus)| Ask { price: dollars(f64::from(price)), gpus });
    let prices = Prices::Book(OrderBook::new(asks.to_vec()).unwrap());
    let behaviour = Behaviour::reliable(described("prime"), dollars(1.0), 10_000);
    let orders = decided(vec![SimulatedProvider::new(Behaviour { prices, ..behaviour })], 4);
    assert_eq!(bought(&orders).unwrap().max_price, dollars(2.0), "not 3, however deep that is");
}

#[test]
fn an_unreachable_exact_provider_is_assumed_to_be_cheap_and_its_failure_goes_to_the_next() {
    let sellers = || vec![unreachable(described("prime"), 3.0), reliable(described("sfcompute"), 2.0)];
    let orders = decided(sellers(), 3);
    assert_eq!(buys(&orders), Some(("prime", 3, &[3][..])));
    let purchase = bought(&orders).unwrap();
    assert!(purchase.why.assumed_price);
    assert_eq!(purchase.max_price, dollars(4.0), "what may be paid, since the price is a guess");
    assert_eq!((purchase.per_gpu.cpu_milli.get(), purchase.per_gpu.ram_mib.get()), (8000, 65_536));
    // Cheaper than a reachable one at 0.51, dearer than one at 0.49.
    for (price, want) in [(0.51, "prime"), (0.49, "zeta")] {
        let orders =
            decided(vec![unreachable(described("prime"), 3.0), reliable(renamed("prime", "zeta"), price)], 3);
        assert_eq!(buys(&orders).unwrap().0, want);
    }
    let mut world = in_world(sellers(), 3);
    let orders = world.step(NOW);
    let asked: Vec<_> = world.log.iter().filter_map(|(_, order)| buys(std::slice::from_ref(order))).collect();
    assert_eq!(asked, [("prime", 3, &[3][..]), ("sfcompute", 8, &[8][..])]);
    assert!(matches!(orders.last(), Some(Order::None { .. })));
}

#[test]
fn after_every_provider_failed_the_wait_doubles() {
    let mut world = in_world(
        vec![
            refusing(described("prime"), 1.0),
            refusing(renamed("prime", "other"), 1.0),
            refusing(described("sfcompute"), 1.0),
        ],
        3,
    );
    let mut asked = Vec::new();
    for second in 0..2000 {
        let before = world.log.len();
        let orders = world.step(NOW + Millis::secs(second));
        let names: Vec<_> = world.log[before..]
            .iter()
            .filter_map(|(_, order)| buys(std::slice::from_ref(order)).map(|(name, ..)| name))
            .collect();
        if !names.is_empty() {
            assert_eq!(names, ["other", "prime", "sfcompute"]);
            asked.push(second);
        }
        assert!(matches!(quiet(&orders, Tier::Fast), Some(Quiet::BackOff { need: 3, .. })));
    }
    assert_eq!(asked, [0, 60, 180, 420, 900, 1800]);
}

#[test]
fn failures_are_counted_over_runs_in_which_an_order_is_open() {
    // The second provider answers late; meanwhile nothing is missing. Its failure must still complete the round.
    let mut world =
        in_world(vec![refusing(described("prime"), 1.0), refusing(described("sfcompute"), 1.0)], 3);
    world.sync(NOW);
    let first = bought(&world.decide(NOW)).unwrap().request.clone();
    world.scaler.answered(&first, Answer::Refused, NOW);
    let second = bought(&world.decide(NOW)).unwrap().request.clone();
    assert_eq!(buys(&world.decide(NOW + Millis::secs(60))), None);
    world.scaler.answered(&second, Answer::Refused, NOW + Millis::secs(61));
    let orders = world.decide(NOW + Millis::secs(61));
    let until = NOW + Millis::secs(121);
    assert_eq!(quiet(&orders, Tier::Fast), Some(&Quiet::BackOff { need: 3, until }));
}

#[test]
fn a_success_forgets_failures() {
    let mut world =
        in_world(vec![refusing(described("prime"), 1.0), reliable(described("sfcompute"), 1.0)], 3);
    world.step(NOW);
    assert_eq!(world.gpus(Tier::Fast, BlockStatus::Pending), 8);
    world.fast_demand = 11;
    let orders = world.decide(NOW + Millis::secs(1));
    assert_eq!(buys(&orders).unwrap().0, "prime", "asked first again");
}

#[test]
fn a_failed_whole_unit_is_tried_again_as_a_whole_unit() {
    let mut world =
        in_world(vec![reliable(described("prime"), 1.0), reliable(described("sfcompute"), 1.0)], 12);
    world.settings.consolidation_window_ms = Millis::secs(60);
    world.settings.fast_safety_factor = 0.1;
    world.fast_demand = 8;
    world.sync(NOW);
    assert_eq!(buys(&world.decide(NOW - Millis::secs(60))), None, "8 wait, but 0.8 GPUs are none");
    (world.settings.fast_safety_factor, world.fast_demand) = (0.4, 12);
    let orders = world.decide(NOW);
    let first = bought(&orders).unwrap();
    assert_eq!((first.provider.as_str(), first.gpus, first.why.need), ("sfcompute", 8, 4));
    world.scaler.answered(&first.request, Answer::Refused, NOW);
    // No other bulk provider: an exact one delivers the whole unit.
    let orders = world.decide(NOW);
    assert_eq!(buys(&orders), Some(("prime", 8, &[8][..])));
}

#[test]
fn a_lost_answer_is_asked_for_again_and_not_bought_again() {
    let mut world = in_world(vec![reliable(described("prime"), 1.0)], 3);
    world.sync(NOW);
    let orders = world.decide(NOW);
    let purchase = bought(&orders).unwrap();
    let seller = name("prime");
    let sent = world.providers.get_mut(&seller).unwrap().provision(&purchase.to_request(), NOW).unwrap();
    // The answer is lost. The need is not bought again, and the next sync learns of the same block.
    assert_eq!(buys(&world.decide(NOW + Millis::secs(60))), None);
    world.sync(NOW + Millis::secs(60));
    assert_eq!(world.blocks.len(), 1);
    assert_eq!(world.blocks[0].block.id, sent[0].block);
    assert_eq!(world.providers[&seller].leased_gpus(), 3);
    assert_eq!(world.scaler.outstanding().count(), 0);
}

#[test]
fn an_order_that_was_given_up_is_withdrawn() {
    let mut world =
        in_world(vec![reliable(described("prime"), 1.0), reliable(described("sfcompute"), 1.0)], 3);
    world.sync(NOW);
    let first = bought(&world.decide(NOW)).unwrap().clone();
    world.providers.get_mut(&first.provider).unwrap().provision(&first.to_request(), NOW).unwrap();
    world.scaler.answered(&first.request, Answer::GivenUp, NOW);
    assert_eq!(buys(&world.decide(NOW)).unwrap().0, "sfcompute");
    assert_eq!(world.providers[&first.provider].leased_gpus(), 3);
    world.sync(NOW + Millis::secs(60));
    assert_eq!(world.providers[&first.provider].leased_gpus(), 0);
    // Even if the order arrives only now.
    let late = world
        .providers
        .get_mut(&first.provider)
        .unwrap()
        .provision(&first.to_request(), NOW + Millis::secs(61));
    assert!(matches!(late, Err(ProviderError::Refused(_))));
}

#[test]
fn quotes_are_asked_for_when_they_are_too_old() {
    let mut world = in_world(vec![reliable(described("prime"), 1.0)], 3);
    let asked = |world: &mut World, now| {
        let providers = Description::defaults();
        let view = FleetView {
            settings: &world.settings,
            providers: &providers[..1],
            blocks: &[],
            fast: TierLoad::default(),
            flex: TierLoad::default(),
        };
        world.scaler.sync(&view, now, &world.quotes).len()
    };
    assert_eq!(asked(&mut world, NOW), 1);
    world.sync(NOW);
    assert_eq!(asked(&mut world, NOW + Millis::secs(300)), 0);
    assert_eq!(asked(&mut world, NOW + Millis::new(300_001)), 1);
    let orders = world.decide(NOW + Millis::new(300_001));
    assert_eq!(buys(&orders), None, "an old price is not acted on");
}
