//! Who is asked for the missing GPUs, in which order, at which price.
//!
//! The order: exact providers that can deliver a small need as it is, cheapest first; then bulk providers with the need
//! rounded up to whole units, cheapest first; then exact providers with the need cut into blocks that they can deliver.
//! A failed purchase goes on to the next in this order.

use std::cmp::Ordering;

use landfall_model::{Money, Name, ProviderKind, Tier, Time};

use crate::orders::{PassedOver, Unusable};
use crate::provider::Description;
use crate::quotes::{Known, Quotes};
use crate::settings::FALLBACK_PRICE;
use crate::view::FleetView;

/// Most blocks of one order; what is missing then is bought by the next run.
const BLOCKS_MAX: u64 = 10_000;

/// GPUs that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    /// Which jobs need them.
    pub tier: Tier,
    pub gpus: u64,
    /// Whether even a small need is bought as a whole unit.
    pub whole_unit: bool,
}

/// A provider that can be asked, with what it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub provider: Name,
    /// GPUs of each block.
    pub blocks: Vec<u32>,
    /// Most that is paid per GPU-hour.
    pub max_price: Money,
    /// Whether less is on offer.
    pub partial: bool,
    /// Whether the price is assumed.
    pub assumed: bool,
    /// What it is compared by; of an assumed price, that one, although more may be paid.
    price: Money,
}

impl Candidate {
    fn order(&self, other: &Self) -> Ordering {
        (self.price, &self.provider).cmp(&(other.price, &other.provider))
    }
}

/// All who can be asked, in order, and why the others cannot.
pub(super) fn candidates(
    view: &FleetView<'_>,
    quotes: &Quotes,
    now: Time,
    need: Need,
) -> (Vec<Candidate>, Vec<PassedOver>) {
    let unit = u64::from(view.settings.unit_gpus.max(1));
    let small = need.gpus < unit && !need.whole_unit;
    let rounded = need.gpus.div_ceil(unit).saturating_mul(unit);
    let cut = if need.whole_unit { rounded } else { need.gpus };
    let (mut whole, mut bulk, mut pieces, mut passed_over) = (vec![], vec![], vec![], vec![]);
    for of in view.providers {
        let most = u64::from(of.max_gpus());
        let judged = match of.provider.class {
            _ if !of.provider.enabled => Err(Unusable::Disabled),
            _ if most == 0 => Err(Unusable::TooLarge { gpus: need.gpus, most: 0 }),
            ProviderKind::Bulk => {
                // Whole nodes only: where a unit is not a number of them, the block is one node.
                let size = if unit.is_multiple_of(most) { unit } else { most };
                offer(view, quotes, now, need.tier, of, blocks_of(rounded, size, size))
                    .map(|found| bulk.push(found))
            }
            ProviderKind::Exact if small && need.gpus <= most => {
                offer(view, quotes, now, need.tier, of, blocks_of(need.gpus, most, 1))
                    .map(|found| whole.push(found))
            }
            ProviderKind::Exact => offer(view, quotes, now, need.tier, of, blocks_of(cut, most, 1))
                .map(|found| pieces.push(found)),
        };
        if let Err(why) = judged {
            passed_over.push(PassedOver { provider: of.name().clone(), why });
        }
    }
    for group in [&mut whole, &mut bulk, &mut pieces] {
        group.sort_by(Candidate::order);
    }
    passed_over.sort_by(|a, b| a.provider.cmp(&b.provider));
    whole.append(&mut bulk);
    whole.append(&mut pieces);
    (whole, passed_over)
}

/// Cuts `gpus` into blocks of `size`, the last one rounded up to a multiple of `step`.
fn blocks_of(gpus: u64, size: u64, step: u64) -> Vec<u32> {
    let gpus = gpus.min(size.saturating_mul(BLOCKS_MAX));
    let rest = (gpus % size).div_ceil(step) * step;
    let full = usize::try_from(gpus / size).unwrap_or(usize::MAX);
    let fit = |gpus: u64| u32::try_from(gpus).unwrap_or(u32::MAX);
    std::iter::repeat_n(fit(size), full).chain((rest > 0).then_some(fit(rest))).collect()
}

/// What a provider is asked for these blocks, if it may be used at all.
fn offer(
    view: &FleetView<'_>,
    quotes: &Quotes,
    now: Time,
    tier: Tier,
    of: &Description,
    blocks: Vec<u32>,
) -> Result<Candidate, Unusable> {
    let settings = view.settings;
    let exact = of.provider.class == ProviderKind::Exact;
    if exact && of.startup_ms > settings.exact_startup_sla_ms {
        let most_ms = settings.exact_startup_sla_ms;
        return Err(Unusable::SlowStart { startup_ms: of.startup_ms, most_ms });
    }
    let tier_cap = (tier == Tier::Flex).then_some(settings.flex_max_price);
    let class_cap = exact.then_some(settings.exact_max_price);
    let cap = [tier_cap, class_cap].into_iter().flatten().min();
    let too_dear =
        |price: Money| cap.filter(|&most| price > most).map(|most| Unusable::TooDear { price, most });
    let provider = of.name().clone();
    match quotes.known(of, now, settings.quote_ttl_ms)? {
        Known::Assumed => match too_dear(FALLBACK_PRICE) {
            Some(why) => Err(why),
            // The price is a guess, so the bid is what may be paid at most.
            None => Ok(Candidate {
                provider,
                blocks,
                max_price: cap.unwrap_or(FALLBACK_PRICE),
                partial: false,
                assumed: true,
                price: FALLBACK_PRICE,
            }),
        },
        Known::Quoted(book) => {
            let cheapest = book.cheapest().ok_or(Unusable::SoldOut)?;
            if let Some(why) = too_dear(cheapest) {
                return Err(why);
            }
            let gpus: u64 = blocks.iter().map(|&gpus| u64::from(gpus)).sum();
            // An exact provider sells what is asked: a deeper offer is worth nothing there.
            let lookahead = if exact { 0 } else { settings.book_lookahead };
            let bid = book
                .up_to(cap)
                .bid(i64::try_from(gpus).unwrap_or(i64::MAX), lookahead)
                .ok_or(Unusable::SoldOut)?;
            let (price, partial) = (bid.price, bid.partial);
            Ok(Candidate { provider, blocks, max_price: price, partial, assumed: false, price })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_cut_into_blocks() {
        assert_eq!(blocks_of(10, 8, 1), [8, 2]);
        assert_eq!(blocks_of(3, 8, 1), [3]);
        assert_eq!(blocks_of(16, 8, 8), [8, 8]);
        assert_eq!(blocks_of(8, 6, 6), [6, 6]);
        assert_eq!(blocks_of(8, 8, 1), [8]);
        assert_eq!(blocks_of(u64::MAX, 8, 8).len(), 10_000);
    }
}
