//! The autoscaler against simulated providers, in virtual time.

mod cases;
mod closed_loop;
mod properties;
mod purchases;
mod releases;
mod simulated;
mod world;

use landfall_model::{Block, BlockId, BlockStatus, Millis, Money, Name, Tier, Time};

use landfall_capacity::*;
use landfall_testkit::provider::{Behaviour, SimulatedProvider};

const NOW: Time = Time::from_secs(1_000_000);

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn dollars(amount: f64) -> Money {
    Money::new((amount * 1e6).round() as u64)
}

fn described(provider: &str) -> Description {
    Description::defaults().into_iter().find(|of| of.name().as_str() == provider).unwrap()
}

fn renamed(provider: &str, new: &str) -> Description {
    let mut of = described(provider);
    of.provider.name = name(new);
    of
}

/// A provider that always delivers.
fn reliable(of: Description, price: f64) -> SimulatedProvider {
    SimulatedProvider::new(Behaviour::reliable(of, dollars(price), 10_000))
}

/// A leased block that ends in so many hours.
fn block(id: &str, provider: &str, tier: Tier, status: BlockStatus, hours_left: u64) -> Block {
    Block {
        id: BlockId::new(id).unwrap(),
        provider: name(provider),
        instance_type: None,
        tier,
        status,
        start_at: Some(NOW - Millis::secs(86_400)),
        end_at: Some(NOW + Millis::secs(3600 * hours_left)),
        drain_deadline: None,
        cost_per_hour: dollars(16.0),
        preemptible: false,
    }
}

/// The only purchase among orders.
fn bought(orders: &[Order]) -> Option<&Purchase> {
    let mut found = orders.iter().filter_map(|order| match order {
        Order::Buy(purchase) => Some(purchase),
        _ => None,
    });
    let first = found.next();
    assert!(found.next().is_none(), "two purchases in {orders:?}");
    first
}

/// Provider, GPUs and blocks of the only purchase.
fn buys(orders: &[Order]) -> Option<(&str, u64, &[u32])> {
    bought(orders).map(|purchase| (purchase.provider.as_str(), purchase.gpus, purchase.blocks.as_slice()))
}

/// Released blocks, in order.
fn released(orders: &[Order]) -> Vec<&str> {
    let mut ids = Vec::new();
    for order in orders {
        if let Order::Release { block, .. } = order {
            ids.push(block.as_str());
        }
    }
    ids
}

/// Why nothing is done for a tier.
fn quiet(orders: &[Order], tier: Tier) -> Option<&Quiet> {
    orders.iter().find_map(|order| match order {
        Order::None { tier: of, reason } if *of == tier => Some(reason),
        _ => None,
    })
}
