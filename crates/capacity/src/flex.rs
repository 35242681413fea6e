//! FLEX capacity is bought when work waits for it and the price is right; its blocks run to their end.

use landfall_model::{Tier, Time};

use crate::Autoscaler;
use crate::orders::{Order, Quiet, Stays};
use crate::purchase::Need;
use crate::quotes::Quotes;
use crate::view::FleetView;

pub(super) fn run(scaler: &mut Autoscaler, view: &FleetView<'_>, now: Time, quotes: &Quotes) -> Order {
    let tier = Tier::Flex;
    let mut balance = view.balance(tier, scaler.in_flight(tier), now);
    // More may be used than is there while a block ends; that is missing as well.
    balance.target = balance.queue.saturating_add(balance.used);
    if balance.queue == 0 {
        scaler.demand_is_met(tier, now);
        return Order::None { tier, reason: Quiet::NoDemand };
    }
    let gpus = balance.target.saturating_sub(balance.total.saturating_add(balance.ordered));
    if gpus == 0 {
        scaler.demand_is_met(tier, now);
        return Order::None { tier, reason: Quiet::Enough { balance, stays: Stays::RunsToItsEnd } };
    }
    scaler.buy(view, now, quotes, Need { tier, gpus, whole_unit: false }, balance)
}
