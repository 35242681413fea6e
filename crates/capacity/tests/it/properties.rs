//! What holds for any demand, any providers and any failures.

use proptest::prelude::*;

use super::world::World;
use super::*;
use landfall_testkit::provider::{Prices, Span};

/// What happens between two runs.
#[derive(Debug, Clone)]
struct Minute {
    fast: u64,
    flex: u64,
    skip: u64,
}

fn minute() -> impl Strategy<Value = Minute> {
    let demand = prop_oneof![3 => 0u64..8, 2 => 0u64..60, 1 => Just(0)];
    (demand.clone(), demand, prop_oneof![4 => Just(1u64), 1 => 1u64..40])
        .prop_map(|(fast, flex, skip)| Minute { fast, flex, skip })
}

prop_compose! {
    fn behaviour(of: &'static str, new: &'static str)(
        price in 1u64..60,
        later in 1u64..60,
        capacity in 0u64..200,
        outage in 0i64..60,
        refused in prop_oneof![Just(0u32), 0u32..1000],
        stillborn in prop_oneof![3 => Just(0u32), 1 => 0u32..500],
        jitter in 0u64..300,
        preemptions in prop::collection::vec(0i64..200, 0..4),
        seed in any::<u64>(),
    ) -> Behaviour {
        let minute = |minute: i64| NOW + Millis::secs(60 * minute.unsigned_abs());
        let cost = |tenths: u64| Money::new(tenths * 100_000);
        Behaviour {
            prices: Prices::Series(vec![(Time::ZERO, cost(price)), (minute(30), cost(later))]),
            outages: vec![Span { from: minute(outage), until: minute(outage + 15) }],
            refused_permille: refused,
            stillborn_permille: stillborn,
            startup_jitter_ms: Millis::secs(jitter),
            preemptions: preemptions.into_iter().map(minute).collect(),
            seed,
            ..Behaviour::reliable(renamed(of, new), cost(price), capacity)
        }
    }
}

fn settings() -> impl Strategy<Value = AutoscaleSettings> {
    (1u32..16, 0u32..20, 5u32..30, any::<bool>(), 0u64..20).prop_map(
        |(unit_gpus, fast_warm_gpus, factor, quick, window)| AutoscaleSettings {
            unit_gpus,
            fast_warm_gpus,
            fast_safety_factor: f64::from(factor) / 10.0,
            downscale_cooldown_ms: if quick { Millis::ZERO } else { Millis::secs(600) },
            consolidation_window_ms: Millis::secs(60 * window),
            ..AutoscaleSettings::default()
        },
    )
}

fn world() -> impl Strategy<Value = World> {
    (settings(), behaviour("prime", "exact"), behaviour("prime", "other"), behaviour("sfcompute", "bulk"))
        .prop_map(|(settings, a, b, c)| {
            let mut world = World::new([a, b, c].map(SimulatedProvider::new).to_vec());
            world.settings = settings;
            world
        })
}

/// GPUs that are usable or on their way; an ended lease is neither, even if nobody could hear of its end.
fn committed(world: &World, tier: Tier, now: Time) -> u64 {
    let open: u64 = world.scaler.outstanding().filter(|open| open.tier == tier).map(|open| open.gpus).sum();
    let leased = world.blocks.iter().filter(|b| {
        matches!(b.block.status, BlockStatus::Pending | BlockStatus::Active)
            && b.block.tier == tier
            && b.block.ends_at().is_none_or(|end| end > now)
    });
    open + leased.map(|b| u64::from(b.gpus)).sum::<u64>()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn never_buys_twice_for_one_need(mut world in world(), minutes in prop::collection::vec(minute(), 1..60)) {
        let mut now = NOW;
        for Minute { fast, flex, skip } in minutes {
            now = now + Millis::secs(60 * skip);
            (world.fast_demand, world.flex_demand) = (fast, flex);
            // What bulk purchases are rounded up to: a unit, and whole nodes of 8 where that is more.
            let step = u64::from(world.settings.unit_gpus) + 8;
            for _ in 0..4 {
                world.sync(now);
                let before = [Tier::Fast, Tier::Flex].map(|tier| committed(&world, tier, now));
                // Decided and not carried out: the orders are open, and asking again must not repeat them.
                let orders = world.decide(now);
                let bought: Vec<_> = orders.iter().filter_map(|order| match order {
                    Order::Buy(purchase) => Some(purchase.clone()),
                    _ => None,
                }).collect();
                for purchase in &bought {
                    let (index, wanted) = match purchase.tier {
                        Tier::Fast => (0, world.settings.fast_target(fast)),
                        Tier::Flex => (1, flex),
                    };
                    prop_assert!(before[index] < wanted, "{purchase:?} although {} >= {wanted}", before[index]);
                    prop_assert!(purchase.gpus < wanted - before[index] + step, "{purchase:?}");
                }
                let again = world.decide(now);
                for purchase in &bought {
                    let same = again.iter().any(|order| {
                        matches!(order, Order::Buy(other) if other.tier == purchase.tier)
                    });
                    prop_assert!(!same, "{purchase:?} and then {again:?}");
                }
                if bought.is_empty() {
                    break;
                }
            }
        }
    }

    #[test]
    fn total_never_falls_below_the_warm_gpus_or_the_target_by_release(
        mut world in world(),
        minutes in prop::collection::vec(minute(), 1..60),
    ) {
        let mut now = NOW;
        let mut releases = 0;
        for Minute { fast, flex, skip } in minutes {
            now = now + Millis::secs(60 * skip);
            (world.fast_demand, world.flex_demand) = (fast, flex);
            let from = world.log.len();
            world.step(now);
            let released = world.log[from..].iter().filter(|(_, order)| matches!(order, Order::Release { .. })).count();
            if released > 0 {
                releases += released;
                let left = world.gpus(Tier::Fast, BlockStatus::Active);
                prop_assert!(left >= u64::from(world.settings.fast_warm_gpus));
                prop_assert!(left >= world.settings.fast_target(fast));
            }
            for (_, order) in &world.log[from..] {
                if let Order::Release { block, .. } = order {
                    let leased = world.blocks.iter().find(|b| b.block.id == *block).unwrap();
                    prop_assert_eq!(leased.block.tier, Tier::Fast);
                    prop_assert_eq!(leased.used, 0);
                }
            }
        }
        let gone = world.blocks.iter().filter(|b| b.life.status == BlockStatus::Selling).count();
        prop_assert!(gone <= releases);
    }

    #[test]
    fn same_inputs_same_orders_also_after_the_state_was_stored(
        world in world(),
        minutes in prop::collection::vec(minute(), 1..40),
    ) {
        let (mut one, mut other) = (world.clone(), world);
        let mut now = NOW;
        for Minute { fast, flex, skip } in minutes {
            now = now + Millis::secs(60 * skip);
            for world in [&mut one, &mut other] {
                (world.fast_demand, world.flex_demand) = (fast, flex);
            }
            // The other one loses its memory and reads it back before every run.
            let mut bytes = Vec::new();
            ciborium::into_writer(&(&other.scaler, &other.quotes, &other.providers), &mut bytes).unwrap();
            (other.scaler, other.quotes, other.providers) = ciborium::from_reader(&bytes[..]).unwrap();
            prop_assert_eq!(one.step(now), other.step(now));
        }
        prop_assert_eq!(one.log, other.log);
        prop_assert_eq!(one.blocks, other.blocks);
    }

    #[test]
    fn a_provider_never_leases_out_more_than_it_has(
        mut world in world(),
        minutes in prop::collection::vec(minute(), 1..40),
        capacity in 0u64..40,
    ) {
        let mut sellers = Vec::new();
        for of in ["prime", "sfcompute"] {
            sellers.push(SimulatedProvider::new(Behaviour::reliable(described(of), dollars(1.0), capacity)));
        }
        world.providers = World::new(sellers).providers;
        let mut now = NOW;
        for Minute { fast, flex, skip } in minutes {
            now = now + Millis::secs(60 * skip);
            (world.fast_demand, world.flex_demand) = (fast, flex);
            world.step(now);
            for provider in world.providers.values() {
                prop_assert!(provider.leased_gpus() <= capacity);
            }
        }
    }
}

#[test]
fn the_order_of_blocks_and_providers_does_not_matter() {
    let blocks: Vec<Block> = ["c", "a", "b", "d"]
        .into_iter()
        .map(|id| block(id, "prime", Tier::Fast, BlockStatus::Active, 9))
        .collect();
    let mut views: Vec<BlockView<'_>> = blocks
        .iter()
        .map(|block| BlockView { block, gpus: 8, occupants: 0, idle_since: Some(Time::ZERO) })
        .collect();
    let mut providers = Description::defaults();
    let settings = AutoscaleSettings::default();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let flex = TierLoad { queue_gpus: 3, ..TierLoad::default() };
        let view = FleetView {
            settings: &settings,
            providers: &providers,
            blocks: &views,
            fast: TierLoad::default(),
            flex,
        };
        seen.push(Autoscaler::new(name("o")).run(&view, NOW, &Quotes::default()));
        views.reverse();
        providers.reverse();
    }
    assert_eq!(released(&seen[0]), ["a", "b"]);
    assert_eq!(seen[0], seen[1]);
}
