//! Buying and giving back leased capacity: the autoscaler, its orders to providers, and what they answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_model::{Block, BlockId, BlockStatus, Millis, Name, Node, Provider, Tier, Time};
use serde::{Deserialize, Serialize};

use crate::effect::{Answer, Effect, Refused};
use crate::engine::Engine;
use crate::event::Event;
use crate::state::State;
use landfall_capacity::provider::{Delivery, TerminateRequest, Termination};
use landfall_capacity::{
    Answer as Purchased, AutoscaleSettings, Autoscaler, BlockEvent, BlockLife, BlockView, Call, Description,
    FleetView, Order, ProviderError, Purchase, Quote, Quotes, RequestId, TierLoad, queue_gpus,
};

/// What the ledger keeps for buying capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    pub settings: AutoscaleSettings,
    pub providers: Vec<Description>,
    /// What they last asked.
    pub quotes: Quotes,
    /// What was decided so far.
    pub scaler: Autoscaler,
    /// Blocks that were bought: where they stand, and their GPUs.
    pub blocks: BTreeMap<BlockId, (BlockLife, u32)>,
    /// When it decides next.
    pub next_run: Time,
    /// What it last said about each tier, for people.
    pub said: Vec<Order>,
}

impl Engine {
    pub(crate) fn set_autoscale(
        &mut self,
        settings: AutoscaleSettings,
        providers: Vec<Description>,
    ) -> Answer {
        if let Err(error) = settings.validate() {
            return Answer::Refused(Refused::new("out_of_range", error.to_string(), "change the setting"));
        }
        let mut capacity = match &self.state.capacity {
            Some(known) => (**known).clone(),
            None => Capacity {
                settings: settings.clone(),
                providers: Vec::new(),
                quotes: Quotes::default(),
                scaler: Autoscaler::new(
                    Name::new("autoscale").unwrap_or_else(|_| unreachable!("a literal name")),
                ),
                blocks: BTreeMap::new(),
                next_run: self.now,
                said: Vec::new(),
            },
        };
        (capacity.settings, capacity.providers) = (settings, providers);
        let sellers = capacity.providers.iter().map(|of| of.provider.clone()).collect();
        let answer = self.set_providers(sellers);
        if matches!(answer, Answer::Refused(_)) {
            return answer;
        }
        self.keep(capacity);
        Answer::Done
    }

    /// Takes in who sells capacity. Orders look at the first of several that suit, so they are kept by name.
    pub(crate) fn set_providers(&mut self, mut providers: Vec<Provider>) -> Answer {
        providers.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(twice) = providers.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let message = format!("there are two providers `{}`", twice[0].name);
            return Answer::Refused(Refused::new("duplicate_provider", message, "name each of them once"));
        }
        if self.state.providers() != providers {
            self.emit(Event::ProvidersSet(providers));
        }
        Answer::Done
    }

    fn keep(&mut self, capacity: Capacity) {
        self.emit(Event::CapacitySet(Box::new(capacity)));
    }

    /// Decides about capacity if it is time to.
    pub(crate) fn autoscale(&mut self) {
        let Some(capacity) = self.state.capacity.as_deref().filter(|known| known.next_run <= self.now) else {
            return;
        };
        let mut capacity = capacity.clone();
        let every = capacity.settings.autoscale_interval_ms.max(Millis::secs(1));
        capacity.next_run = self.now + every;
        self.run_scaler(&mut capacity, true);
        self.keep(capacity);
    }

    fn run_scaler(&mut self, capacity: &mut Capacity, syncs: bool) {
        let loads = [Tier::Fast, Tier::Flex].map(|tier| self.tier_load(tier));
        let blocks: Vec<(Arc<Block>, u32, u32, Option<Time>)> = self.leased(capacity);
        let views: Vec<BlockView<'_>> = blocks
            .iter()
            .map(|(block, gpus, occupants, idle_since)| BlockView {
                block,
                gpus: *gpus,
                occupants: *occupants,
                idle_since: *idle_since,
            })
            .collect();
        let Capacity { settings, providers, quotes, scaler, .. } = capacity;
        let view = FleetView { settings, providers, blocks: &views, fast: loads[0], flex: loads[1] };
        let calls = if syncs { scaler.sync(&view, self.now, quotes) } else { Vec::new() };
        let orders = scaler.run(&view, self.now, quotes);
        for call in calls {
            self.want(Effect::AskProvider(Box::new(call)));
        }
        for order in &orders {
            match order {
                Order::Buy(purchase) => {
                    self.want(Effect::AskProvider(Box::new(Call::Provision(purchase.to_request()))));
                }
                Order::Release { block, provider, .. } => {
                    if let Some((life, _)) = capacity.blocks.get_mut(block) {
                        life.apply(BlockEvent::Release, self.now);
                    }
                    self.set_block_status(block, BlockStatus::Selling);
                    let id = capacity.scaler.request_id();
                    let request = TerminateRequest { id, what: Termination::Block(block.clone()) };
                    self.want(Effect::AskProvider(Box::new(Call::Withdraw {
                        provider: provider.clone(),
                        request,
                    })));
                }
                Order::None { .. } => {}
            }
        }
        capacity.said = orders;
    }

    /// Every known block with its GPUs, what is on it, and since when nothing is.
    fn leased(&self, capacity: &Capacity) -> Vec<(Arc<Block>, u32, u32, Option<Time>)> {
        let mut known: BTreeMap<&BlockId, &Arc<Block>> = BTreeMap::new();
        for pool in self.state.pools.values() {
            known.extend(&pool.world.blocks);
        }
        let mut sums: BTreeMap<&BlockId, (u32, u32, Option<Time>)> = BTreeMap::new();
        for pool in self.state.pools.values() {
            for (node, record) in pool.nodes.iter().zip(&pool.records) {
                let Some(block) = &node.block else { continue };
                let (gpus, occupants, since) = sums.entry(&block.id).or_default();
                *gpus += node.gpus.len() as u32;
                *occupants += node.placements.len() as u32;
                *occupants += self.state.holds.values().filter(|hold| hold.node == node.id).count() as u32;
                *since = (*since).max(record.vacated_at);
            }
        }
        known
            .into_iter()
            .map(|(id, block)| {
                let (gpus, occupants, vacated) = sums.get(id).copied().unwrap_or_default();
                let bought = capacity.blocks.get(id);
                let gpus = if gpus == 0 { bought.map_or(0, |(_, gpus)| *gpus) } else { gpus };
                let active = bought.and_then(|(life, _)| life.active_since).or(block.start_at);
                (block.clone(), gpus, occupants, vacated.max(active))
            })
            .collect()
    }

    /// Demand and use of a tier, over all pools that ask for capacity.
    fn tier_load(&self, tier: Tier) -> TierLoad {
        let nodes =
            || self.state.pools.values().flat_map(|pool| &pool.nodes).filter(|node| node.tier() == tier);
        let used = |node: &Node| {
            node.gpus.iter().filter(|gpu| gpu.is_closed() || !gpu.milli_committed.is_zero()).count()
        };
        let own = nodes().filter(|node| node.block.is_none()).map(|node| node.gpus.len()).sum::<usize>();
        let waiting = self.demand();
        TierLoad {
            used_gpus: nodes().map(used).sum::<usize>() as u64,
            queue_gpus: queue_gpus(tier, waiting.iter().map(|(spec, is_demand)| (&**spec, *is_demand))),
            own_gpus: own as u64,
        }
    }

    pub(crate) fn quoted(&mut self, provider: &Name, answer: Result<Quote, ProviderError>) -> Answer {
        self.in_capacity(|engine, capacity| {
            capacity.quotes.note(provider, answer);
            // The last run may have had no price to go by.
            engine.run_scaler(capacity, false);
        })
    }

    /// Takes in how a purchase went; `None` means that nobody waits for an answer any more.
    pub(crate) fn provisioned(
        &mut self,
        request: &RequestId,
        answer: Option<Result<Vec<Delivery>, ProviderError>>,
    ) -> Answer {
        self.in_capacity(|engine, capacity| {
            let purchase =
                capacity.scaler.outstanding().find(|purchase| purchase.request == *request).cloned();
            let Some(purchase) = purchase else { return };
            match answer {
                Some(Ok(deliveries)) => {
                    capacity.scaler.answered(request, Purchased::Accepted, engine.now);
                    for delivery in deliveries {
                        engine.delivered(capacity, &purchase, &delivery);
                    }
                }
                Some(Err(_)) => {
                    capacity.scaler.answered(request, Purchased::Refused, engine.now);
                    // The next provider is asked at once.
                    engine.run_scaler(capacity, false);
                }
                None => capacity.scaler.answered(request, Purchased::GivenUp, engine.now),
            }
        })
    }

    fn delivered(&mut self, capacity: &mut Capacity, purchase: &Purchase, delivery: &Delivery) {
        capacity.blocks.insert(delivery.block.clone(), (BlockLife::default(), delivery.gpus));
        let block = Block {
            id: delivery.block.clone(),
            provider: purchase.provider.clone(),
            instance_type: None,
            tier: purchase.tier,
            status: BlockStatus::Pending,
            start_at: None,
            end_at: Some(delivery.end_at),
            drain_deadline: None,
            cost_per_hour: delivery.cost_per_hour,
            preemptible: delivery.preemptible,
        };
        self.emit(Event::BlockSet(Arc::new(block)));
    }

    pub(crate) fn withdrawn(&mut self, request: &RequestId) -> Answer {
        self.in_capacity(|_, capacity| capacity.scaler.withdrawn(request))
    }

    /// Something happened to a block that was bought.
    pub(crate) fn block_changed(&mut self, block: &BlockId, event: BlockEvent) -> Answer {
        let Some(mut capacity) = self.state.capacity.as_deref().cloned() else {
            return Answer::Ignored("no_autoscaler".into());
        };
        let Some((life, _)) = capacity.blocks.get_mut(block) else {
            return Answer::Ignored("unknown_block".into());
        };
        let never_started = life.status == BlockStatus::Pending && event == BlockEvent::Gone;
        let before = *life;
        let changed = life.apply(event, self.now);
        let status = life.status;
        if *life == before {
            return Answer::Ignored("as_it_was".into());
        }
        if never_started && let Some(known) = self.block(block) {
            capacity.scaler.failed_to_start(known.tier, &known.provider, self.now);
        }
        self.keep(capacity);
        if changed {
            self.set_block_status(block, status);
            if status == BlockStatus::Sold {
                self.nodes_of_block_are_gone(block);
            }
        }
        Answer::Done
    }

    fn nodes_of_block_are_gone(&mut self, block: &BlockId) {
        let of_block = |node: &&Node| node.block.as_ref().is_some_and(|known| known.id == *block);
        let nodes: Vec<_> = self
            .state
            .pools
            .values()
            .flat_map(|pool| &pool.nodes)
            .filter(of_block)
            .map(|node| node.id.clone())
            .collect();
        nodes.iter().for_each(|node| self.node_down(node));
    }

    fn block(&self, id: &BlockId) -> Option<Arc<Block>> {
        self.state.pools.values().find_map(|pool| pool.world.blocks.get(id)).cloned()
    }

    fn set_block_status(&mut self, id: &BlockId, status: BlockStatus) {
        if let Some(known) = self.block(id).filter(|known| known.status != status) {
            self.emit(Event::BlockSet(Arc::new(Block { status, ..(*known).clone() })));
        }
    }

    fn in_capacity(&mut self, change: impl FnOnce(&mut Self, &mut Capacity)) -> Answer {
        let Some(mut capacity) = self.state.capacity.as_deref().cloned() else {
            return Answer::Ignored("no_autoscaler".into());
        };
        change(self, &mut capacity);
        if self.state.capacity.as_deref() == Some(&capacity) {
            return Answer::Ignored("as_it_was".into());
        }
        self.keep(capacity);
        Answer::Done
    }
}

impl State {
    /// When the autoscaler decides next.
    pub(crate) fn next_autoscale(&self) -> Option<Time> {
        self.capacity.as_ref().map(|capacity| capacity.next_run)
    }
}
