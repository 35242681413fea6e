//! Buying capacity when jobs wait, giving it back when it lies idle.
//!
//! [`Autoscaler::run`] is a function of plain data: what is leased, used and waited for ([`FleetView`]), what providers
//! ask ([`Quotes`]), the time, and a small state. It returns [`Order`]s; the caller carries them out and reports how a
//! purchase went with [`Autoscaler::answered`]. One round of the caller:
//!
//! 1. sync: ask what [`Autoscaler::sync`] lists, note quotes, ask how blocks are and move them through their [`life`];
//! 2. run: mark released blocks `selling` and terminate them, order what is to be bought;
//! 3. answers: an accepted purchase adds its blocks as `pending` **in the same step** in which it is reported here, so that
//!    its GPUs are counted exactly once at any time. After a failed one run again: the next provider is asked.
//!
//! Nothing is bought twice for one need: a purchase counts as ordered from the order to the answer, and then as pending
//! blocks; a purchase whose answer is lost is repeated with the same id; one that is given up on is withdrawn.

pub mod life;
pub mod order_book;
pub mod orders;
pub mod provider;
pub mod quotes;
pub mod reactive;
pub mod settings;
pub mod view;

mod attempts;
mod fast;
mod flex;
mod purchase;
mod release;

use landfall_model::{Name, Tier, Time};
use serde::{Deserialize, Serialize};

pub use life::{BlockEvent, BlockLife, resale_price};
pub use order_book::{Ask, Bid, BookError, OrderBook};
pub use orders::{Balance, BuyReason, Order, PassedOver, Purchase, Quiet, ReleaseReason, Stays, Unusable};
pub use provider::{Description, ProviderApi, ProviderError, Quote, RequestId};
pub use quotes::Quotes;
pub use settings::{AutoscaleSettings, SettingsError};
pub use view::{BlockView, FleetView, TierLoad, queue_gpus};

use attempts::Attempts;
use provider::{PerGpu, ProvisionRequest, QuoteRequest, TerminateRequest, Termination};
use purchase::{Need, candidates};

/// What the autoscaler remembers between two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Autoscaler {
    scope: Name,
    next_request: u64,
    /// Since when every run saw a queue of at least one unit, counted anew after a purchase because of it.
    sustained_since: Option<Time>,
    last_release: Option<Time>,
    fast: Attempts,
    flex: Attempts,
    /// Ordered and not answered, oldest first.
    outstanding: Vec<Outstanding>,
    /// Given up on although the provider may have heard it, oldest first.
    to_withdraw: Vec<Withdrawal>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Outstanding {
    purchase: Purchase,
    /// What `sustained_since` was before this purchase started it anew.
    sustained_since: Option<Time>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Withdrawal {
    order: RequestId,
    provider: Name,
    call: RequestId,
}

/// How a purchase went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The blocks are on their way; they are pending from this step on.
    Accepted,
    /// Nothing was bought.
    Refused,
    /// No answer, and no more waiting for one: somebody else is asked, and the order is withdrawn.
    GivenUp,
}

/// Something to ask a provider before a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Its last quote is too old.
    Quote(QuoteRequest),
    /// It has not answered this yet.
    Provision(ProvisionRequest),
    /// It is no longer wanted; report success with [`Autoscaler::withdrawn`].
    Withdraw { provider: Name, request: TerminateRequest },
}

impl Autoscaler {
    /// Starts without memory; `scope` keeps its request ids apart from those of others.
    pub fn new(scope: Name) -> Self {
        Self {
            scope,
            next_request: 1,
            sustained_since: None,
            last_release: None,
            fast: Attempts::default(),
            flex: Attempts::default(),
            outstanding: Vec::new(),
            to_withdraw: Vec::new(),
        }
    }

    /// Decides once: FAST first, then FLEX. At most one purchase per tier.
    pub fn run(&mut self, view: &FleetView<'_>, now: Time, quotes: &Quotes) -> Vec<Order> {
        let mut orders = fast::run(self, view, now, quotes);
        orders.push(flex::run(self, view, now, quotes));
        orders
    }

    /// What to ask providers before a run: repeats of what was not answered, withdrawals, and missing quotes.
    pub fn sync(&mut self, view: &FleetView<'_>, now: Time, quotes: &Quotes) -> Vec<Call> {
        let mut calls: Vec<Call> =
            self.outstanding.iter().map(|open| Call::Provision(open.purchase.to_request())).collect();
        calls.extend(self.to_withdraw.iter().map(|withdrawal| Call::Withdraw {
            provider: withdrawal.provider.clone(),
            request: TerminateRequest {
                id: withdrawal.call.clone(),
                what: Termination::Order(withdrawal.order.clone()),
            },
        }));
        let ttl = view.settings.quote_ttl_ms;
        let mut silent: Vec<&Description> = view
            .providers
            .iter()
            .filter(|of| of.provider.enabled && quotes.live(of.name(), now, ttl).is_none())
            .collect();
        silent.sort_by(|a, b| a.name().cmp(b.name()));
        for of in silent {
            calls.push(Call::Quote(QuoteRequest {
                id: self.request_id(),
                provider: of.name().clone(),
                per_gpu: PerGpu::default(),
                lease_ms: of.lease(),
            }));
        }
        calls
    }

    /// Reports how a purchase went; an id that is not outstanding changes nothing.
    pub fn answered(&mut self, request: &RequestId, answer: Answer, now: Time) {
        let Some(at) = self.outstanding.iter().position(|open| open.purchase.request == *request) else {
            return;
        };
        let Outstanding { purchase, sustained_since } = self.outstanding.remove(at);
        if answer == Answer::Accepted {
            *self.attempts(purchase.tier) = Attempts::default();
            return;
        }
        self.attempts(purchase.tier).failed(&purchase.provider, now);
        if let (Some(current), Some(before)) = (self.sustained_since, sustained_since) {
            self.sustained_since = Some(current.min(before));
        }
        if answer == Answer::GivenUp {
            let call = self.request_id();
            let (order, provider) = (purchase.request, purchase.provider);
            self.to_withdraw.push(Withdrawal { order, provider, call });
        }
    }

    /// Reports a block that was bought and never started; it counts as a failed purchase.
    pub fn failed_to_start(&mut self, tier: Tier, provider: &Name, now: Time) {
        self.attempts(tier).failed(provider, now);
    }

    /// Reports that an order was withdrawn.
    pub fn withdrawn(&mut self, order: &RequestId) {
        self.to_withdraw.retain(|withdrawal| withdrawal.order != *order);
    }

    /// Purchases without an answer.
    pub fn outstanding(&self) -> impl Iterator<Item = &Purchase> {
        self.outstanding.iter().map(|open| &open.purchase)
    }

    /// A new request id.
    pub fn request_id(&mut self) -> RequestId {
        let number = self.next_request;
        self.next_request = self.next_request.saturating_add(1);
        RequestId { scope: self.scope.clone(), number }
    }

    fn in_flight(&self, tier: Tier) -> u64 {
        self.outstanding()
            .filter(|purchase| purchase.tier == tier)
            .fold(0, |sum, purchase| sum.saturating_add(purchase.gpus))
    }

    fn attempts(&mut self, tier: Tier) -> &mut Attempts {
        match tier {
            Tier::Fast => &mut self.fast,
            Tier::Flex => &mut self.flex,
        }
    }

    /// Nothing is missing. Failures are kept while an order is open: if that one fails too, its turn is over.
    fn demand_is_met(&mut self, tier: Tier, now: Time) {
        if self.in_flight(tier) == 0 {
            self.attempts(tier).demand_is_met(now);
        }
    }

    /// Asks the first provider that has not failed yet, or says why nobody is asked.
    fn buy(
        &mut self,
        view: &FleetView<'_>,
        now: Time,
        quotes: &Quotes,
        need: Need,
        balance: Balance,
    ) -> Order {
        let Need { tier, gpus, whole_unit } = need;
        let quiet = |reason| Order::None { tier, reason };
        if let Some(until) = self.attempts(tier).waits_until(now) {
            return quiet(Quiet::BackOff { need: gpus, until });
        }
        let (usable, mut passed_over) = candidates(view, quotes, now, need);
        if usable.is_empty() {
            return quiet(Quiet::NoProvider { need: gpus, passed_over });
        }
        let attempts = self.attempts(tier);
        if usable.iter().all(|candidate| attempts.has_failed(&candidate.provider)) {
            attempts.back_off();
            if let Some(until) = attempts.waits_until(now) {
                return quiet(Quiet::BackOff { need: gpus, until });
            }
        }
        let mut chosen = None;
        for candidate in usable {
            if !self.attempts(tier).has_failed(&candidate.provider) {
                chosen = Some(candidate);
                break;
            }
            passed_over.push(PassedOver { provider: candidate.provider, why: Unusable::Failed });
        }
        let Some(chosen) = chosen else {
            return quiet(Quiet::NoProvider { need: gpus, passed_over });
        };
        let per_gpu = PerGpu::default();
        let seller = view.providers.iter().find(|of| *of.name() == chosen.provider);
        let purchase = Purchase {
            request: self.request_id(),
            tier,
            gpus: chosen.blocks.iter().map(|&gpus| u64::from(gpus)).sum(),
            blocks: chosen.blocks,
            max_price: chosen.max_price,
            per_gpu: if chosen.assumed { per_gpu.for_assumed_price() } else { per_gpu },
            lease_ms: seller.map_or(settings::LEASE, Description::lease),
            provider: chosen.provider,
            why: BuyReason {
                balance,
                need: gpus,
                consolidated: whole_unit,
                partial: chosen.partial,
                assumed_price: chosen.assumed,
                passed_over,
            },
        };
        // A whole unit for a small need is bought once: the next one needs another full window of demand.
        let sustained_since = if whole_unit { self.sustained_since.replace(now) } else { None };
        self.outstanding.push(Outstanding { purchase: purchase.clone(), sustained_since });
        Order::Buy(purchase)
    }
}
