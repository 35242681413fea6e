//! FAST capacity is bought ahead: a multiple of what is used and waited for is kept, and given back when it lies idle.

use landfall_model::{Tier, Time};

use crate::Autoscaler;
use crate::orders::{Order, Quiet};
use crate::purchase::Need;
use crate::quotes::Quotes;
use crate::release::releases;
use crate::view::FleetView;

/// Buys or releases FAST capacity.
pub(super) fn run(scaler: &mut Autoscaler, view: &FleetView<'_>, now: Time, quotes: &Quotes) -> Vec<Order> {
    let settings = view.settings;
    let unit = u64::from(settings.unit_gpus);
    let mut balance = view.balance(Tier::Fast, scaler.in_flight(Tier::Fast), now);
    balance.target = settings.fast_target(balance.queue.saturating_add(balance.used));

    if balance.queue >= unit {
        scaler.sustained_since.get_or_insert(now);
    } else {
        scaler.sustained_since = None;
    }
    let sustained = scaler.sustained_since.filter(|&at| now.since(at) >= settings.consolidation_window_ms);

    let gpus = balance.target.saturating_sub(balance.total.saturating_add(balance.ordered));
    if gpus > 0 {
        let need = Need { tier: Tier::Fast, gpus, whole_unit: sustained.is_some() && gpus < unit };
        return vec![scaler.buy(view, now, quotes, need, balance)];
    }
    scaler.demand_is_met(Tier::Fast, now);
    match releases(view, balance, scaler.last_release, now) {
        Ok(orders) => {
            scaler.last_release = Some(now);
            orders
        }
        Err(stays) => vec![Order::None { tier: Tier::Fast, reason: Quiet::Enough { balance, stays } }],
    }
}
