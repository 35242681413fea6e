//! Whole days in virtual time: demand comes and goes, and capacity follows.

use super::world::World;
use super::*;
use BlockStatus::{Active, Pending, Selling, Sold};
use landfall_testkit::provider::Span;

fn minutes(count: u64) -> Time {
    NOW + Millis::secs(60 * count)
}

/// When something was ordered, in minutes: purchases with provider and GPUs, releases with provider.
fn diary(world: &World) -> Vec<(u64, String)> {
    world
        .log
        .iter()
        .map(|(at, order)| {
            let what = match order {
                Order::Buy(purchase) => format!("+{} {}", purchase.gpus, purchase.provider),
                Order::Release { why, provider, .. } => format!("-{} {provider}", why.gpus),
                Order::None { .. } => unreachable!("not logged"),
            };
            (at.since(NOW).get() / 60_000, what)
        })
        .collect()
}

fn both() -> Vec<SimulatedProvider> {
    vec![reliable(described("prime"), 2.0), reliable(described("sfcompute"), 1.0)]
}

#[test]
fn capacity_follows_demand_up_and_down() {
    let mut world = World::new(both());
    world.fast_demand = 12;
    world.step(minutes(0));
    assert_eq!(world.gpus(Tier::Fast, Pending), 24, "18 wanted, whole units bought");
    world.step(minutes(1));
    assert_eq!((world.gpus(Tier::Fast, Pending), world.gpus(Tier::Fast, Active)), (24, 0));
    world.step(minutes(2));
    assert_eq!((world.gpus(Tier::Fast, Pending), world.gpus(Tier::Fast, Active)), (0, 24), "120 s startup");

    // 20 GPUs of demand need 30: 6 more, exactly.
    world.fast_demand = 20;
    world.step(minutes(3));
    world.step(minutes(4));
    assert_eq!(world.gpus(Tier::Fast, Active), 30, "60 s startup");

    // Demand falls to 2: the small block goes after 5 idle minutes, two large ones after 30.
    world.fast_demand = 2;
    for minute in 5..120 {
        world.step(minutes(minute));
        assert!(world.gpus(Tier::Fast, Active) >= 10, "the warm GPUs stay");
    }
    let expected = [(0, "+24 sfcompute"), (3, "+6 prime"), (9, "-6 prime"), (35, "-8 sfcompute")];
    let expected: Vec<_> = expected.map(|(at, what)| (at, what.to_owned())).to_vec();
    assert_eq!(diary(&world), expected);
    assert_eq!(world.gpus(Tier::Fast, Active), 16, "another unit would leave less than the warm GPUs");
    assert_eq!((world.gpus(Tier::Fast, Selling), world.gpus(Tier::Fast, Sold)), (0, 14));
    assert_eq!(world.providers.values().map(SimulatedProvider::leased_gpus).sum::<u64>(), 16);
}

#[test]
fn releases_keep_their_distance() {
    let mut world = World::new(both());
    world.settings.fast_warm_gpus = 0;
    world.settings.downscale_cooldown_ms = Millis::secs(3600);
    // Six exact GPUs now, two units of bulk GPUs later.
    world.fast_demand = 4;
    world.step(minutes(0));
    world.step(minutes(1));
    world.fast_demand = 10;
    world.step(minutes(2));
    world.fast_demand = 0;
    (3..200).for_each(|minute| drop(world.step(minutes(minute))));
    let released: Vec<u64> =
        diary(&world).into_iter().filter(|(_, what)| what.starts_with('-')).map(|(at, _)| at).collect();
    assert_eq!(released, [8, 68, 68], "the units wait for the cool-down, not only for 30 idle minutes");
}

#[test]
fn leases_that_end_are_bought_anew_while_they_are_needed() {
    let mut world = World::new(both());
    world.flex_demand = 16;
    for minute in 0..1450 {
        world.step(minutes(minute));
    }
    let expected = vec![(0, "+16 sfcompute".to_owned()), (1440, "+16 sfcompute".to_owned())];
    assert_eq!(diary(&world), expected, "24 h later, at the instant at which the first lease is over");
    assert_eq!(world.gpus(Tier::Flex, Active), 16);
}

#[test]
fn what_a_provider_takes_back_is_replaced() {
    let mut sellers = both();
    sellers[0] = SimulatedProvider::new(Behaviour {
        preemptions: vec![minutes(10)],
        preemption_notice_ms: Millis::secs(120),
        ..Behaviour::reliable(described("prime"), dollars(2.0), 100)
    });
    let mut world = World::new(sellers);
    world.fast_demand = 4;
    (0..30).for_each(|minute| drop(world.step(minutes(minute))));
    let expected = vec![(0, "+6 prime".to_owned()), (12, "+6 prime".to_owned())];
    assert_eq!(diary(&world), expected);
    assert_eq!(world.gpus(Tier::Fast, Active), 6);
}

#[test]
fn an_outage_of_everybody_ends_in_one_purchase() {
    let down = |of: &str| {
        SimulatedProvider::new(Behaviour {
            outages: vec![Span { from: minutes(0), until: minutes(20) }],
            ..Behaviour::reliable(described(of), dollars(1.0), 100)
        })
    };
    let mut world = World::new(vec![down("prime"), down("sfcompute")]);
    world.fast_demand = 4;
    (0..60).for_each(|minute| drop(world.step(minutes(minute))));
    // The exact provider's price is assumed, so it is asked at ever longer distances; the bulk one gives no quote.
    let asked: Vec<u64> = diary(&world).into_iter().map(|(at, _)| at).collect();
    assert_eq!(asked, [0, 1, 3, 7, 15, 30]);
    assert_eq!(world.gpus(Tier::Fast, Active), 6, "one of them was successful");
    assert_eq!(world.providers.values().map(SimulatedProvider::leased_gpus).sum::<u64>(), 6);
}

#[test]
fn blocks_that_never_start_lead_to_waits_and_not_to_a_flood_of_orders() {
    let stillborn = SimulatedProvider::new(Behaviour {
        stillborn_permille: 1000,
        ..Behaviour::reliable(described("prime"), dollars(1.0), 1000)
    });
    let mut world = World::new(vec![stillborn]);
    world.fast_demand = 4;
    (0..11).for_each(|minute| drop(world.step(minutes(minute))));
    assert_eq!(diary(&world).iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 2, 4, 6, 8, 10]);
    assert_eq!(world.gpus(Tier::Fast, Active), 0);
}

#[test]
fn a_capacity_limit_is_filled_and_no_more() {
    let small = SimulatedProvider::new(Behaviour::reliable(described("sfcompute"), dollars(1.0), 16));
    let mut world = World::new(vec![small]);
    world.fast_demand = 40;
    (0..60).for_each(|minute| drop(world.step(minutes(minute))));
    assert_eq!(world.gpus(Tier::Fast, Active), 16);
    let first = world.log.first().map(|(_, order)| bought(std::slice::from_ref(order)).unwrap().why.partial);
    assert_eq!(first, Some(true));
}
