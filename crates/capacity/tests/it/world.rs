//! A caller of the autoscaler as small as can be: simulated providers, leased blocks, and demand as two numbers.

use std::collections::BTreeMap;

use landfall_model::BlockStatus;

use super::*;
use landfall_capacity::provider::{DeliveryStatus, Ending, StatusRequest, TerminateRequest, Termination};

/// A block and what runs on it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leased {
    pub block: Block,
    pub gpus: u32,
    pub life: BlockLife,
    pub used: u64,
    pub idle_since: Option<Time>,
}

/// Everything around the autoscaler.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub settings: AutoscaleSettings,
    pub providers: BTreeMap<Name, SimulatedProvider>,
    pub quotes: Quotes,
    pub scaler: Autoscaler,
    pub blocks: Vec<Leased>,
    /// GPUs that FAST jobs want in all.
    pub fast_demand: u64,
    /// The same of FLEX jobs.
    pub flex_demand: u64,
    /// Everything ordered so far that was not `None`.
    pub log: Vec<(Time, Order)>,
}

impl World {
    pub(super) fn new(providers: Vec<SimulatedProvider>) -> Self {
        Self {
            settings: AutoscaleSettings::default(),
            providers: providers.into_iter().map(|p| (p.describe().name().clone(), p)).collect(),
            quotes: Quotes::default(),
            scaler: Autoscaler::new(name("test")),
            blocks: Vec::new(),
            fast_demand: 0,
            flex_demand: 0,
            log: Vec::new(),
        }
    }

    pub(super) fn gpus(&self, tier: Tier, status: BlockStatus) -> u64 {
        let counts = |b: &&Leased| b.block.tier == tier && b.block.status == status;
        self.blocks.iter().filter(counts).map(|b| u64::from(b.gpus)).sum()
    }

    /// Puts demand on active blocks in order of their ids; says what is used and what waits.
    fn place(&mut self, tier: Tier, now: Time) -> TierLoad {
        let demand = if tier == Tier::Fast { self.fast_demand } else { self.flex_demand };
        let mut waiting = demand;
        for leased in self.blocks.iter_mut().filter(|b| b.block.tier == tier) {
            let before = leased.used;
            let usable = leased.block.usable_at(now) && leased.block.ends_at().is_none_or(|end| end > now);
            leased.used = if usable { waiting.min(leased.gpus.into()) } else { 0 };
            waiting -= leased.used;
            leased.idle_since = match (leased.used, before) {
                (1.., _) => None,
                (0, 1..) => Some(now),
                (0, 0) => leased.idle_since.or(leased.life.active_since),
            };
        }
        TierLoad { used_gpus: demand - waiting, queue_gpus: waiting, own_gpus: 0 }
    }

    /// Calls `ask` with what the autoscaler sees.
    fn with_view<T>(
        &mut self,
        now: Time,
        ask: impl FnOnce(&mut Autoscaler, &FleetView<'_>, &Quotes) -> T,
    ) -> T {
        let (fast, flex) = (self.place(Tier::Fast, now), self.place(Tier::Flex, now));
        let providers: Vec<Description> = self.providers.values().map(ProviderApi::describe).collect();
        let blocks: Vec<BlockView<'_>> = self
            .blocks
            .iter()
            .map(|Leased { block, gpus, used, idle_since, .. }| BlockView {
                block,
                gpus: *gpus,
                occupants: *used as u32,
                idle_since: *idle_since,
            })
            .collect();
        let view = FleetView { settings: &self.settings, providers: &providers, blocks: &blocks, fast, flex };
        ask(&mut self.scaler, &view, &self.quotes)
    }

    /// Asks providers what is to be asked, and moves blocks through their lives.
    pub(super) fn sync(&mut self, now: Time) {
        for call in self.with_view(now, |scaler, view, quotes| scaler.sync(view, now, quotes)) {
            match call {
                Call::Quote(request) => {
                    let answer = self.providers.get_mut(&request.provider).unwrap().quote(&request, now);
                    self.quotes.note(&request.provider, answer);
                }
                Call::Provision(request) => {
                    let open =
                        self.scaler.outstanding().find(|open| open.request == request.id).unwrap().clone();
                    self.order(&open, now);
                }
                Call::Withdraw { provider, request } => {
                    let Termination::Order(order) = &request.what else { unreachable!() };
                    if self.providers.get_mut(&provider).unwrap().terminate(&request, now).is_ok() {
                        self.scaler.withdrawn(order);
                    }
                }
            }
        }
        for leased in self.blocks.iter_mut().filter(|b| b.block.status != BlockStatus::Sold) {
            let provider = self.providers.get_mut(&leased.block.provider).unwrap();
            let request =
                StatusRequest { id: self.scaler.request_id(), blocks: vec![leased.block.id.clone()] };
            match provider.status(&request, now).as_deref() {
                Ok([DeliveryStatus::Ready]) => {
                    leased.life.apply(BlockEvent::Ready, now);
                    leased.life.apply(BlockEvent::Heartbeat, now);
                }
                Ok([DeliveryStatus::Draining { deadline }]) => leased.block.drain_deadline = Some(*deadline),
                Ok([DeliveryStatus::Ended { why }]) => {
                    leased.life.apply(BlockEvent::Gone, now);
                    if *why == Ending::FailedToStart {
                        self.scaler.failed_to_start(leased.block.tier, &leased.block.provider, now);
                    }
                }
                _ => {}
            }
            leased.block.status = leased.life.status;
        }
    }

    /// Orders a purchase and reports the answer; with no answer it gives up, as the world has no patience.
    fn order(&mut self, purchase: &Purchase, now: Time) {
        let provider = self.providers.get_mut(&purchase.provider).unwrap();
        let answer = match provider.provision(&purchase.to_request(), now) {
            Ok(deliveries) => {
                self.blocks.extend(deliveries.into_iter().map(|delivery| Leased {
                    block: Block {
                        id: delivery.block,
                        provider: purchase.provider.clone(),
                        instance_type: None,
                        tier: purchase.tier,
                        status: BlockStatus::Pending,
                        start_at: Some(now),
                        end_at: Some(delivery.end_at),
                        drain_deadline: None,
                        cost_per_hour: delivery.cost_per_hour,
                        preemptible: delivery.preemptible,
                    },
                    gpus: delivery.gpus,
                    life: BlockLife::default(),
                    used: 0,
                    idle_since: None,
                }));
                Answer::Accepted
            }
            Err(ProviderError::Refused(_)) => Answer::Refused,
            Err(ProviderError::Unreachable) => Answer::GivenUp,
        };
        self.scaler.answered(&purchase.request, answer, now);
    }

    /// Runs once without carrying anything out.
    pub(super) fn decide(&mut self, now: Time) -> Vec<Order> {
        self.with_view(now, |scaler, view, quotes| scaler.run(view, now, quotes))
    }

    /// One whole round: sync, run, carry out, and again while purchases fail.
    pub(super) fn step(&mut self, now: Time) -> Vec<Order> {
        self.sync(now);
        let mut all = Vec::new();
        loop {
            let before = self.scaler.clone();
            let orders = self.decide(now);
            for order in &orders {
                match order {
                    Order::Buy(purchase) => self.order(purchase, now),
                    Order::Release { block, provider, .. } => {
                        let id = self.scaler.request_id();
                        let what = Termination::Block(block.clone());
                        let leased = self.blocks.iter_mut().find(|b| b.block.id == *block).unwrap();
                        leased.life.apply(BlockEvent::Release, now);
                        leased.block.status = leased.life.status;
                        self.providers
                            .get_mut(provider)
                            .unwrap()
                            .terminate(&TerminateRequest { id, what }, now)
                            .ok();
                    }
                    Order::None { .. } => continue,
                }
                self.log.push((now, order.clone()));
            }
            let quiet = orders.iter().all(|order| matches!(order, Order::None { .. }));
            all.extend(orders);
            if quiet || self.scaler == before {
                return all;
            }
        }
    }
}
