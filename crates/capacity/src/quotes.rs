//! What providers last said about their prices, and how long that holds.
//!
//! Per provider: the last quote, and whether it has been unreachable since. A quote lives for a while, also while its
//! provider cannot be reached. Without a live one, an exact provider that cannot be reached is assumed to have a usual
//! price, so that one outage of its price list does not turn every small need into a whole unit; a bulk provider is not.

use std::collections::BTreeMap;

use landfall_model::{Millis, Name, ProviderKind, Time};
use serde::{Deserialize, Serialize};

use crate::order_book::OrderBook;
use crate::orders::Unusable;
use crate::provider::{Description, ProviderError, Quote};

/// The latest answers of all providers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Quotes {
    heard: BTreeMap<Name, Heard>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Heard {
    quote: Option<Quote>,
    unreachable: bool,
}

/// What is known of a provider's prices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Known<'a> {
    /// They were quoted.
    Quoted(&'a OrderBook),
    Assumed,
}

impl Quotes {
    pub fn note(&mut self, provider: &Name, answer: Result<Quote, ProviderError>) {
        let heard = self.heard.entry(provider.clone()).or_default();
        match answer {
            Ok(quote) => *heard = Heard { quote: Some(quote), unreachable: false },
            Err(ProviderError::Unreachable) => heard.unreachable = true,
            // It answers, but sells nothing: an older price must not be acted on.
            Err(ProviderError::Refused(_)) => *heard = Heard::default(),
        }
    }

    /// The quote of a provider, if it may still be acted on.
    pub fn live(&self, provider: &Name, now: Time, ttl: Millis) -> Option<&Quote> {
        let quote = self.heard.get(provider)?.quote.as_ref()?;
        (now.since(quote.at) <= ttl).then_some(quote)
    }

    /// What is known of a provider's prices, or why nothing is.
    pub fn known(&self, of: &Description, now: Time, ttl: Millis) -> Result<Known<'_>, Unusable> {
        if let Some(quote) = self.live(of.name(), now, ttl) {
            return Ok(Known::Quoted(&quote.book));
        }
        let heard = self.heard.get(of.name());
        match (heard.is_some_and(|heard| heard.unreachable), of.provider.class) {
            (true, ProviderKind::Exact) => Ok(Known::Assumed),
            (true, ProviderKind::Bulk) => Err(Unusable::Unreachable),
            (false, _) => Err(Unusable::NoQuote),
        }
    }
}

#[cfg(test)]
mod tests {
    use landfall_model::Money;

    use super::*;
    use crate::order_book::Ask;

    #[test]
    fn a_quote_lives_to_its_last_instant_and_an_outage_then_assumes_a_price_of_exact_providers_only() {
        let ttl = Millis::secs(300);
        let at = Time::from_secs(1000);
        for of in Description::defaults() {
            let mut quotes = Quotes::default();
            assert_eq!(quotes.known(&of, at, ttl), Err(Unusable::NoQuote));
            let book = OrderBook::new(vec![Ask { price: Money::new(5), gpus: 1 }]).unwrap();
            quotes.note(of.name(), Ok(Quote { at, book: book.clone() }));
            quotes.note(of.name(), Err(ProviderError::Unreachable));
            assert_eq!(quotes.known(&of, at + ttl, ttl), Ok(Known::Quoted(&book)));
            let late = quotes.known(&of, at + ttl + Millis::new(1), ttl);
            match of.provider.class {
                ProviderKind::Exact => assert_eq!(late, Ok(Known::Assumed)),
                ProviderKind::Bulk => assert_eq!(late, Err(Unusable::Unreachable)),
            }
            quotes.note(of.name(), Err(ProviderError::Refused("closed".into())));
            assert_eq!(quotes.known(&of, at, ttl), Err(Unusable::NoQuote));
        }
    }
}
