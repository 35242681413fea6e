//! Which price to bid where several quantities are on offer at several prices.
//!
//! The book is a list of asks, cheapest first. The cheapest level that suffices is compared with the next few: a little
//! more money may buy a much larger offer, which is worth it because it is less likely to be gone when the bid arrives.

use landfall_model::Money;
use landfall_policy::q;
use serde::{Deserialize, Serialize};

/// GPUs on offer at one price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// Price per GPU-hour in micro-units.
    pub price: Money,
    pub gpus: u32,
}

/// Why asks are not taken into a book.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BookError {
    /// A price of nothing is a mistake, and would make every ratio of prices meaningless.
    #[error("ask {position} has a price that is not above 0")]
    Price { position: usize },
}

/// Asks, cheapest first; at one price in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Ask>", into = "Vec<Ask>")]
pub struct OrderBook {
    asks: Vec<Ask>,
}

impl TryFrom<Vec<Ask>> for OrderBook {
    type Error = BookError;
    fn try_from(asks: Vec<Ask>) -> Result<Self, BookError> {
        Self::new(asks)
    }
}

impl From<OrderBook> for Vec<Ask> {
    fn from(book: OrderBook) -> Self {
        book.asks
    }
}

/// The price to bid, and how it was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bid {
    /// Price per GPU-hour in micro-units.
    pub price: Money,
    /// The level of the book that has this price, counted from 0.
    pub level: usize,
    /// Whether less than required is on offer.
    pub partial: bool,
    /// The first level that suffices; the values belong to it and its successors.
    pub first_level: usize,
    /// What each level looked at is worth.
    pub values: Vec<f64>,
}

impl OrderBook {
    /// Checks and sorts asks.
    pub fn new(mut asks: Vec<Ask>) -> Result<Self, BookError> {
        if let Some(position) = asks.iter().position(|ask| ask.price.is_zero()) {
            return Err(BookError::Price { position });
        }
        asks.sort_by_key(|ask| ask.price);
        Ok(Self { asks })
    }

    /// The asks, cheapest first.
    pub fn asks(&self) -> &[Ask] {
        &self.asks
    }

    /// The lowest price at which something is on offer.
    pub fn cheapest(&self) -> Option<Money> {
        self.asks.iter().find(|ask| ask.gpus > 0).map(|ask| ask.price)
    }

    /// GPUs on offer at any price.
    pub fn gpus(&self) -> u64 {
        self.asks.iter().map(|ask| u64::from(ask.gpus)).sum()
    }

    /// The same book without asks above a price.
    pub fn up_to(&self, price: Option<Money>) -> Self {
        let within = |ask: &&Ask| price.is_none_or(|most| ask.price <= most);
        Self { asks: self.asks.iter().filter(within).copied().collect() }
    }

    /// The price to bid for so many GPUs; `None` if nothing is on offer or nothing is required.
    pub fn bid(&self, required: i64, lookahead: u32) -> Option<Bid> {
        let cheapest = self.asks.first()?;
        let required = u64::try_from(required).ok().filter(|&gpus| gpus > 0)?;
        let mut sum = 0u64;
        let sums: Vec<u64> = self
            .asks
            .iter()
            .map(|ask| {
                sum = sum.saturating_add(ask.gpus.into());
                sum
            })
            .collect();
        let Some(first) = sums.iter().position(|&sum| sum >= required) else {
            let price = cheapest.price;
            return Some(Bid { price, level: 0, partial: true, first_level: 0, values: Vec::new() });
        };
        let enough = self.asks[first].price.as_f64();
        let values: Vec<f64> = self.asks[first..]
            .iter()
            .zip(&sums[first..])
            .take(usize::try_from(lookahead).unwrap_or(usize::MAX).saturating_add(1))
            .map(|(ask, &sum)| {
                let required = required as f64;
                let depth = (sum as f64 / required).min(2.0);
                let size = (f64::from(ask.gpus) / required).min(1.5);
                0.4 * depth + 0.4 * (enough / ask.price.as_f64()) + 0.2 * size
            })
            .collect();
        let mut best = 0;
        for (level, value) in values.iter().enumerate() {
            if q(*value) > q(values[best]) {
                best = level;
            }
        }
        let level = first + best;
        Some(Bid { price: self.asks[level].price, level, partial: false, first_level: first, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(asks: &[(u64, u32)]) -> OrderBook {
        let ask = |&(cents, gpus)| Ask { price: Money::new(cents * 10_000), gpus };
        OrderBook::new(asks.iter().map(ask).collect()).unwrap()
    }

    fn near(values: &[f64], want: &[f64]) {
        assert_eq!(values.len(), want.len(), "{values:?}");
        assert!(values.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-4), "{values:?} is not {want:?}");
    }

    #[test]
    fn pack_b33_a_small_need_takes_the_cheapest_level() {
        let book = book(&[(2400, 32), (2450, 64), (2500, 128)]);
        let bid = book.bid(16, 5).unwrap();
        assert_eq!((bid.price, bid.level, bid.partial), (Money::new(24_000_000), 0, false));
        near(&bid.values, &[1.5, 1.4918, 1.484]);
        let bid = book.bid(500, 5).unwrap();
        assert_eq!((bid.price, bid.level, bid.partial), (Money::new(24_000_000), 0, true));
        assert_eq!(book.bid(0, 5), None);
        assert_eq!(book.bid(-3, 5), None);
    }

    #[test]
    fn pack_b34_a_deep_level_is_worth_a_little_more() {
        let book = book(&[(2400, 16), (2450, 32), (2500, 64), (2550, 8), (2600, 96)]);
        let bid = book.bid(80, 5).unwrap();
        assert_eq!((bid.price, bid.level, bid.first_level), (Money::new(26_000_000), 4, 2));
        near(&bid.values, &[1.12, 1.0122, 1.4246]);
        // Looking only one level further misses it.
        assert_eq!(book.bid(80, 1).unwrap().level, 2);
        assert_eq!(book.bid(80, 2).unwrap().level, 4);
    }

    #[test]
    fn asks_are_sorted_by_price_then_by_position() {
        let given = book(&[(300, 1), (100, 2), (300, 3), (200, 4)]);
        assert_eq!(given.asks().iter().map(|ask| ask.gpus).collect::<Vec<_>>(), [2, 4, 1, 3]);
    }

    #[test]
    fn equal_values_take_the_lower_level() {
        // Both terms that grow are at their cap, and the prices are equal.
        let bid = book(&[(100, 8), (100, 8)]).bid(4, 5).unwrap();
        near(&bid.values, &[1.5, 1.5]);
        assert_eq!(bid.level, 0);
    }

    #[test]
    fn exactly_enough_is_not_partial() {
        assert!(!book(&[(100, 8)]).bid(8, 5).unwrap().partial);
        assert!(book(&[(100, 8)]).bid(9, 5).unwrap().partial);
    }

    #[test]
    fn a_price_of_nothing_is_refused_and_an_empty_book_has_no_price() {
        let asks = vec![Ask { price: Money::new(1), gpus: 1 }, Ask { price: Money::ZERO, gpus: 1 }];
        assert_eq!(OrderBook::new(asks), Err(BookError::Price { position: 1 }));
        assert_eq!(OrderBook::default().bid(1, 5), None);
    }

    #[test]
    fn a_stored_book_is_checked_when_it_is_read() {
        let write = |asks: &[Ask]| {
            let mut bytes = Vec::new();
            ciborium::into_writer(asks, &mut bytes).unwrap();
            bytes
        };
        let read = |bytes: &[u8]| ciborium::from_reader::<OrderBook, _>(bytes);
        assert!(read(&write(&[Ask { price: Money::ZERO, gpus: 1 }])).is_err());
        assert_eq!(read(&write(book(&[(5, 1)]).asks())).unwrap(), book(&[(5, 1)]));
    }

    #[test]
    fn a_cap_hides_dear_asks() {
        let book = book(&[(100, 8), (200, 8)]);
        assert_eq!(book.up_to(Some(Money::new(1_000_000))).gpus(), 8);
        assert_eq!(book.up_to(None).gpus(), 16);
        assert_eq!(book.up_to(Some(Money::new(1))).cheapest(), None);
    }
}
