//! Which FAST blocks are given back: only those without work for a while, never so many that demand or the warm GPUs
//! would miss them, and not too often.

use std::cmp::Reverse;

use landfall_model::{Millis, ProviderKind, Tier, Time};
use landfall_policy::q;

use crate::orders::{Balance, Order, ReleaseReason, Stays};
use crate::view::{BlockView, FleetView, has_ended};

/// The blocks to give back, in order, or why none is.
pub(super) fn releases(
    view: &FleetView<'_>,
    balance: Balance,
    last_release: Option<Time>,
    now: Time,
) -> Result<Vec<Order>, Stays> {
    let settings = view.settings;
    let warm = u64::from(settings.fast_warm_gpus);
    if balance.total <= warm {
        return Err(Stays::Warm);
    }
    if q(balance.used as f64 / balance.total as f64) >= q(settings.downscale_utilisation) {
        return Err(Stays::InUse);
    }
    if let Some(until) =
        last_release.map(|last| last + settings.downscale_cooldown_ms).filter(|&until| now < until)
    {
        return Err(Stays::CoolDown { until });
    }
    let surplus = balance.total.saturating_sub(balance.target.max(warm));
    if surplus == 0 {
        return Err(Stays::NoSurplus);
    }
    let idle = idle_blocks(view, now);
    if idle.is_empty() {
        return Err(Stays::NoIdleBlock);
    }
    let mut left = surplus;
    let mut orders = Vec::new();
    for (block, idle_ms) in idle {
        let overshoot = u64::from(block.gpus) > left;
        if overshoot && !settings.allow_overshoot {
            continue;
        }
        let why = ReleaseReason { balance, surplus: left, gpus: block.gpus, idle_ms, overshoot };
        let (id, provider) = (block.block.id.clone(), block.block.provider.clone());
        orders.push(Order::Release { block: id, provider, why });
        left = left.saturating_sub(u64::from(block.gpus));
        // Without surplus there is nothing to overshoot.
        if left == 0 {
            break;
        }
    }
    if orders.is_empty() { Err(Stays::LargerThanSurplus { surplus }) } else { Ok(orders) }
}

/// Usable FAST blocks without work for at least their cool-down, in the order of release, with their idle time.
fn idle_blocks<'a>(view: &FleetView<'a>, now: Time) -> Vec<(BlockView<'a>, Millis)> {
    let cooldown = |block: &BlockView<'_>| {
        let seller = view.providers.iter().find(|of| *of.name() == block.block.provider);
        // An unknown provider's block is kept the longer of the two usual times.
        view.settings.idle_cooldown(seller.map_or(ProviderKind::Bulk, |of| of.provider.class))
    };
    let mut idle: Vec<_> = view
        .blocks
        .iter()
        .filter(|view| view.block.tier == Tier::Fast && view.block.usable_at(now))
        .filter(|view| !has_ended(view.block, now) && view.occupants == 0 && view.gpus > 0)
        .filter_map(|view| Some((cooldown(view), *view, now.since(view.idle_since?))))
        .filter(|(cooldown, _, idle)| idle >= cooldown)
        .collect();
    idle.sort_by_cached_key(|(cooldown, view, _)| {
        // A block without end has the longest time left.
        let remaining = view.block.ends_at().map_or(Millis::new(u64::MAX), |end| end.since(now));
        (*cooldown, Reverse(remaining), view.block.id.clone())
    });
    idle.into_iter().map(|(_, view, idle)| (view, idle)).collect()
}
