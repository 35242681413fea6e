//! A provider in virtual time: for replays, for trying settings before money is spent, and for every test here.
//!
//! Everything it does follows from its parameters and a seed: when capacity arrives, what it costs, when it fails, what is
//! taken back. Draws are hashes of the seed and the request, so the order of questions never changes an answer. Time only
//! comes with the questions; before each one, everything that was to happen until then happens.

use std::collections::BTreeMap;

use landfall_model::{BlockId, Millis, Money, ProviderKind, Time};
use serde::{Deserialize, Serialize};

use landfall_capacity::order_book::{Ask, OrderBook};
use landfall_capacity::provider::{
    Delivery, DeliveryStatus, Description, Ending, ProviderApi, ProviderError, ProvisionRequest, Quote,
    QuoteRequest, RequestId, StatusRequest, TerminateRequest, Termination,
};

/// A span of virtual time, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub from: Time,
    /// The first instant after it.
    pub until: Time,
}

impl Span {
    fn has(&self, now: Time) -> bool {
        self.from <= now && now < self.until
    }
}

/// What the provider asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prices {
    /// One price for any number of GPUs, from each instant on; the first one also before.
    Series(Vec<(Time, Money)>),
    /// Several quantities at several prices; what is leased is taken from the cheapest.
    Book(OrderBook),
}

/// How the provider behaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behaviour {
    /// What it says of itself; its startup time is the shortest delay.
    pub description: Description,
    /// Longest delay beyond the startup time, drawn per block.
    pub startup_jitter_ms: Millis,
    pub prices: Prices,
    /// GPUs it can lease out at a time.
    pub capacity_gpus: u64,
    /// When it cannot be reached.
    pub outages: Vec<Span>,
    /// When it sells nothing.
    pub closed: Vec<Span>,
    /// Of a thousand orders, so many are refused.
    pub refused_permille: u32,
    /// Of a thousand blocks, so many never start.
    pub stillborn_permille: u32,
    /// When it takes back one block, drawn from those in use, if it does that at all.
    pub preemptions: Vec<Time>,
    /// How long before it does it says so.
    pub preemption_notice_ms: Millis,
    pub seed: u64,
}

impl Behaviour {
    /// A provider that always delivers, at one price.
    pub fn reliable(description: Description, price: Money, capacity_gpus: u64) -> Self {
        Self {
            description,
            startup_jitter_ms: Millis::ZERO,
            prices: Prices::Series(vec![(Time::ZERO, price)]),
            capacity_gpus,
            outages: Vec::new(),
            closed: Vec::new(),
            refused_permille: 0,
            stillborn_permille: 0,
            preemptions: Vec::new(),
            preemption_notice_ms: Millis::secs(120),
            seed: 0,
        }
    }
}

/// A provider that exists only here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedProvider {
    behaviour: Behaviour,
    now: Time,
    /// Preemptions that have been announced, as a position in their order.
    preempted: usize,
    quotes: BTreeMap<RequestId, Quote>,
    orders: BTreeMap<RequestId, Result<Vec<Delivery>, ProviderError>>,
    blocks: BTreeMap<BlockId, Leased>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Leased {
    order: RequestId,
    gpus: u32,
    ready_at: Time,
    end_at: Time,
    starts: bool,
    deadline: Option<Time>,
    ended: Option<Ending>,
}

impl SimulatedProvider {
    /// A provider that has leased out nothing yet.
    pub fn new(mut behaviour: Behaviour) -> Self {
        behaviour.preemptions.sort();
        if let Prices::Series(series) = &mut behaviour.prices {
            series.sort_by_key(|(from, _)| *from);
        }
        Self {
            behaviour,
            now: Time::from_millis(i64::MIN),
            preempted: 0,
            quotes: BTreeMap::new(),
            orders: BTreeMap::new(),
            blocks: BTreeMap::new(),
        }
    }

    /// GPUs leased out, including those that are being made.
    pub fn leased_gpus(&self) -> u64 {
        self.blocks.values().filter(|block| block.ended.is_none()).map(|block| u64::from(block.gpus)).sum()
    }

    /// A number that follows from the seed and the words.
    fn draw(&self, words: &[&str]) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.behaviour.seed.to_le_bytes());
        for word in words {
            hasher.update(&(word.len() as u64).to_le_bytes());
            hasher.update(word.as_bytes());
        }
        hasher.finalize().as_bytes().iter().take(8).fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    /// Lets everything happen that was to happen until `now`, unless nobody can hear about it.
    fn arrive(&mut self, now: Time) -> Result<(), ProviderError> {
        self.now = self.now.max(now);
        while let Some(&at) = self.behaviour.preemptions.get(self.preempted).filter(|&&at| at <= self.now) {
            self.settle(at);
            self.announce_preemption(at);
            self.preempted += 1;
        }
        self.settle(self.now);
        if self.behaviour.outages.iter().any(|span| span.has(self.now)) {
            return Err(ProviderError::Unreachable);
        }
        Ok(())
    }

    /// Ends blocks whose time has come.
    fn settle(&mut self, now: Time) {
        for block in self.blocks.values_mut().filter(|block| block.ended.is_none()) {
            let taken_back = block.deadline.filter(|&deadline| deadline < block.end_at);
            block.ended = match taken_back {
                _ if !block.starts && block.ready_at <= now => Some(Ending::FailedToStart),
                Some(deadline) if deadline <= now => Some(Ending::Preempted),
                _ if block.end_at <= now => Some(Ending::LeaseOver),
                _ => None,
            };
        }
    }

    fn announce_preemption(&mut self, at: Time) {
        let in_use = |block: &Leased| {
            block.ended.is_none() && block.starts && block.deadline.is_none() && block.ready_at <= at
        };
        let ids: Vec<BlockId> =
            self.blocks.iter().filter(|(_, block)| in_use(block)).map(|(id, _)| id.clone()).collect();
        if ids.is_empty() || !self.behaviour.description.preemptible {
            return;
        }
        let drawn = self.draw(&["preempt", &at.as_millis().to_string()]) % ids.len() as u64;
        let deadline = at + self.behaviour.preemption_notice_ms;
        if let Some(block) = usize::try_from(drawn)
            .ok()
            .and_then(|drawn| ids.get(drawn))
            .and_then(|id| self.blocks.get_mut(id))
        {
            block.deadline = Some(deadline);
        }
    }

    /// What is on offer now.
    fn book(&self) -> OrderBook {
        let leased = self.leased_gpus();
        let mut free = self.behaviour.capacity_gpus.saturating_sub(leased);
        let asks: Vec<Ask> = match &self.behaviour.prices {
            Prices::Series(series) => {
                let current = series.iter().rev().find(|(from, _)| *from <= self.now).or(series.first());
                current
                    .map(|&(_, price)| Ask { price, gpus: u32::try_from(free).unwrap_or(u32::MAX) })
                    .into_iter()
                    .collect()
            }
            Prices::Book(book) => {
                let mut taken = leased;
                book.asks()
                    .iter()
                    .map(|ask| {
                        let gone = taken.min(ask.gpus.into());
                        taken -= gone;
                        let left = (u64::from(ask.gpus) - gone).min(free);
                        free -= left;
                        Ask { price: ask.price, gpus: u32::try_from(left).unwrap_or(u32::MAX) }
                    })
                    .collect()
            }
        };
        // A series may hold a price of nothing by mistake; then nothing is on offer at it.
        let asks = asks.into_iter().filter(|ask| ask.gpus > 0 && !ask.price.is_zero()).collect();
        OrderBook::new(asks).unwrap_or_default()
    }

    fn lease(&mut self, request: &ProvisionRequest) -> Result<Vec<Delivery>, ProviderError> {
        let refused = |why: &str| Err(ProviderError::Refused(why.to_owned()));
        let of = &self.behaviour.description.provider;
        let most = of.shape.gpus;
        let fits = |gpus: u32| match of.class {
            ProviderKind::Exact => (1..=most).contains(&gpus),
            ProviderKind::Bulk => gpus > 0 && most > 0 && gpus.is_multiple_of(most),
        };
        if request.provider != of.name
            || request.blocks.is_empty()
            || !request.blocks.iter().all(|&g| fits(g))
        {
            return refused("no such shape");
        }
        if !request.per_gpu.fits(&of.shape) || request.lease_ms > of.lease_max_ms {
            return refused("no node has that, or not for so long");
        }
        if self.behaviour.closed.iter().any(|span| span.has(self.now)) {
            return refused("closed");
        }
        let id = request.id.to_string();
        if self.draw(&["refuse", &id]) % 1000 < u64::from(self.behaviour.refused_permille) {
            return refused("the order failed");
        }
        let mut deliveries = Vec::new();
        for (index, &gpus) in request.blocks.iter().enumerate() {
            let name = format!("{id}-{index}");
            let Ok(block) = BlockId::new(&name) else {
                return refused("the request id is too long");
            };
            let Some(cost_per_hour) = cost(&self.book().up_to(Some(request.max_price)), gpus) else {
                continue;
            };
            let jitter = match self.behaviour.startup_jitter_ms.get() {
                0 => 0,
                most => self.draw(&["startup", &name]) % most.saturating_add(1),
            };
            let ready_at = self.now + self.behaviour.description.startup_ms + Millis::new(jitter);
            let end_at = self.now + request.lease_ms;
            let starts = self.draw(&["start", &name]) % 1000 >= u64::from(self.behaviour.stillborn_permille);
            let order = request.id.clone();
            let leased = Leased { order, gpus, ready_at, end_at, starts, deadline: None, ended: None };
            self.blocks.insert(block.clone(), leased);
            let preemptible = self.behaviour.description.preemptible;
            deliveries.push(Delivery { block, gpus, cost_per_hour, end_at, preemptible });
        }
        if deliveries.is_empty() {
            return refused("not enough on offer at that price");
        }
        Ok(deliveries)
    }
}

/// What so many GPUs cost per hour, taken from the cheapest; `None` if the book has fewer.
fn cost(book: &OrderBook, gpus: u32) -> Option<Money> {
    let (mut missing, mut sum) = (u64::from(gpus), Money::ZERO);
    for ask in book.asks() {
        let taken = missing.min(ask.gpus.into());
        missing -= taken;
        sum += ask.price * taken;
    }
    (missing == 0).then_some(sum)
}

impl ProviderApi for SimulatedProvider {
    fn describe(&self) -> Description {
        self.behaviour.description.clone()
    }

    fn quote(&mut self, request: &QuoteRequest, now: Time) -> Result<Quote, ProviderError> {
        self.arrive(now)?;
        if self.behaviour.closed.iter().any(|span| span.has(self.now)) {
            return Err(ProviderError::Refused("closed".to_owned()));
        }
        let fresh = Quote { at: self.now, book: self.book() };
        Ok(self.quotes.entry(request.id.clone()).or_insert(fresh).clone())
    }

    fn provision(&mut self, request: &ProvisionRequest, now: Time) -> Result<Vec<Delivery>, ProviderError> {
        self.arrive(now)?;
        if let Some(answer) = self.orders.get(&request.id) {
            return answer.clone();
        }
        let answer = self.lease(request);
        self.orders.insert(request.id.clone(), answer.clone());
        answer
    }

    fn status(&mut self, request: &StatusRequest, now: Time) -> Result<Vec<DeliveryStatus>, ProviderError> {
        self.arrive(now)?;
        let status = |id: &BlockId| match self.blocks.get(id) {
            None => DeliveryStatus::Unknown,
            Some(Leased { ended: Some(why), .. }) => DeliveryStatus::Ended { why: *why },
            Some(block) if self.now < block.ready_at => DeliveryStatus::Starting,
            Some(Leased { deadline: Some(deadline), .. }) => DeliveryStatus::Draining { deadline: *deadline },
            Some(_) => DeliveryStatus::Ready,
        };
        Ok(request.blocks.iter().map(status).collect())
    }

    fn terminate(&mut self, request: &TerminateRequest, now: Time) -> Result<(), ProviderError> {
        self.arrive(now)?;
        if let Termination::Order(order) = &request.what {
            // An order that arrives after its withdrawal must not lead to anything.
            let withdrawn = ProviderError::Refused("withdrawn".to_owned());
            self.orders.insert(order.clone(), Err(withdrawn));
        }
        for (id, block) in &mut self.blocks {
            let meant = match &request.what {
                Termination::Block(block) => id == block,
                Termination::Order(order) => block.order == *order,
            };
            if meant && block.ended.is_none() {
                block.ended = Some(Ending::Terminated);
            }
        }
        Ok(())
    }
}
