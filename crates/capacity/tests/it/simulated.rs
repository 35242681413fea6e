//! The simulated provider itself.

use super::*;
use landfall_capacity::order_book::OrderBook;
use landfall_capacity::provider::{
    DeliveryStatus, Ending, PerGpu, ProvisionRequest, QuoteRequest, StatusRequest, TerminateRequest,
    Termination,
};
use landfall_testkit::provider::{Prices, Span};

fn id(number: u64) -> RequestId {
    RequestId { scope: name("sim"), number }
}

fn order(number: u64, provider: &str, blocks: &[u32], price: f64) -> ProvisionRequest {
    ProvisionRequest {
        id: id(number),
        provider: name(provider),
        tier: Tier::Fast,
        blocks: blocks.to_vec(),
        max_price: dollars(price),
        per_gpu: PerGpu::default(),
        lease_ms: Millis::secs(3600),
    }
}

fn quote(provider: &mut SimulatedProvider, number: u64, now: Time) -> Result<Quote, ProviderError> {
    let seller = provider.describe().name().clone();
    let request = QuoteRequest {
        id: id(number),
        provider: seller,
        per_gpu: PerGpu::default(),
        lease_ms: Millis::secs(3600),
    };
    provider.quote(&request, now)
}

fn status(provider: &mut SimulatedProvider, block: &BlockId, now: Time) -> DeliveryStatus {
    provider.status(&StatusRequest { id: id(999), blocks: vec![block.clone()] }, now).unwrap().remove(0)
}

fn secs(count: u64) -> Time {
    NOW + Millis::secs(count)
}

#[test]
fn a_block_starts_runs_and_ends() {
    let mut prime = reliable(described("prime"), 2.0);
    let block = prime.provision(&order(1, "prime", &[3], 2.0), NOW).unwrap().remove(0);
    assert_eq!((block.gpus, block.cost_per_hour, block.end_at), (3, dollars(6.0), secs(3600)));
    assert_eq!(status(&mut prime, &block.block, secs(59)), DeliveryStatus::Starting);
    assert_eq!(status(&mut prime, &block.block, secs(60)), DeliveryStatus::Ready);
    assert_eq!(status(&mut prime, &block.block, secs(3599)), DeliveryStatus::Ready);
    let over = DeliveryStatus::Ended { why: Ending::LeaseOver };
    assert_eq!(status(&mut prime, &block.block, secs(3600)), over);
    assert_eq!(prime.leased_gpus(), 0);
    assert_eq!(status(&mut prime, &BlockId::new("other").unwrap(), secs(3600)), DeliveryStatus::Unknown);
}

#[test]
fn asking_twice_changes_nothing() {
    let mut prime = SimulatedProvider::new(Behaviour {
        prices: Prices::Series(vec![(NOW, dollars(1.0)), (secs(10), dollars(2.0))]),
        ..Behaviour::reliable(described("prime"), dollars(1.0), 8)
    });
    let first = quote(&mut prime, 1, NOW).unwrap();
    assert_eq!(quote(&mut prime, 1, secs(20)).unwrap(), first);
    assert_eq!(quote(&mut prime, 2, secs(20)).unwrap().book.cheapest(), Some(dollars(2.0)));
    let request = order(3, "prime", &[5], 2.0);
    let answer = prime.provision(&request, secs(20));
    assert_eq!(prime.provision(&request, secs(500)), answer);
    assert_eq!(prime.leased_gpus(), 5);
    let block = answer.unwrap().remove(0).block;
    let back = TerminateRequest { id: id(4), what: Termination::Block(block.clone()) };
    assert_eq!(prime.terminate(&back, secs(600)), Ok(()));
    assert_eq!(prime.terminate(&back, secs(601)), Ok(()));
    assert_eq!(status(&mut prime, &block, secs(602)), DeliveryStatus::Ended { why: Ending::Terminated });
    // A refusal is remembered as well, although there would be room now.
    let dear = order(5, "prime", &[5], 1.0);
    assert!(prime.provision(&dear, secs(603)).is_err());
    assert!(prime.provision(&dear, secs(604)).is_err());
}

#[test]
fn shapes_prices_and_capacity_are_respected() {
    let refused = |provider: &str, blocks: &[u32], price| {
        let mut seller = SimulatedProvider::new(Behaviour::reliable(described(provider), dollars(2.0), 20));
        seller.provision(&order(1, provider, blocks, price), NOW).map(|blocks| blocks.len()).is_err()
    };
    assert!(!refused("prime", &[8], 2.0));
    assert!(refused("prime", &[9], 2.0));
    assert!(refused("prime", &[0], 2.0));
    assert!(refused("prime", &[], 2.0));
    assert!(refused("prime", &[8], 1.999_999));
    assert!(refused("sfcompute", &[4], 2.0), "whole nodes only");
    assert!(!refused("sfcompute", &[16], 2.0));
    // 20 GPUs: two blocks of three fit.
    let mut seller = SimulatedProvider::new(Behaviour::reliable(described("sfcompute"), dollars(2.0), 20));
    assert_eq!(seller.provision(&order(1, "sfcompute", &[8, 8, 8], 2.0), NOW).unwrap().len(), 2);
    assert_eq!(quote(&mut seller, 2, NOW).unwrap().book.gpus(), 4);
    let mut wrong = order(3, "sfcompute", &[8], 2.0);
    wrong.per_gpu.ram_mib = landfall_model::Mib::gib(65);
    assert!(seller.provision(&wrong, NOW).is_err());
}

#[test]
fn a_book_is_sold_from_the_cheapest() {
    let asks = [(1.0, 8), (2.0, 8), (3.0, 8)].map(|(price, gpus)| Ask { price: dollars(price), gpus });
    let mut seller = SimulatedProvider::new(Behaviour {
        prices: Prices::Book(OrderBook::new(asks.to_vec()).unwrap()),
        ..Behaviour::reliable(described("sfcompute"), dollars(1.0), 20)
    });
    let left = |book: &OrderBook| book.asks().iter().map(|ask| ask.gpus).collect::<Vec<_>>();
    assert_eq!(left(&quote(&mut seller, 1, NOW).unwrap().book), [8, 8, 4], "no more than its capacity");
    let sold = seller.provision(&order(2, "sfcompute", &[16], 2.0), NOW).unwrap();
    assert_eq!(sold[0].cost_per_hour, dollars(24.0), "8 at 1 and 8 at 2");
    assert_eq!(left(&quote(&mut seller, 3, NOW).unwrap().book), [4]);
}

#[test]
fn schedules_close_it_hide_it_and_take_blocks_back() {
    let mut prime = SimulatedProvider::new(Behaviour {
        outages: vec![Span { from: secs(100), until: secs(200) }],
        closed: vec![Span { from: secs(200), until: secs(300) }],
        preemptions: vec![secs(400), secs(10)],
        ..Behaviour::reliable(described("prime"), dollars(1.0), 100)
    });
    let block = prime.provision(&order(1, "prime", &[1], 1.0), NOW).unwrap().remove(0).block;
    assert_eq!(quote(&mut prime, 2, secs(100)), Err(ProviderError::Unreachable));
    assert_eq!(prime.provision(&order(3, "prime", &[1], 1.0), secs(199)), Err(ProviderError::Unreachable));
    assert!(matches!(quote(&mut prime, 4, secs(200)), Err(ProviderError::Refused(_))));
    assert!(matches!(
        prime.provision(&order(5, "prime", &[1], 1.0), secs(299)),
        Err(ProviderError::Refused(_))
    ));
    assert!(quote(&mut prime, 6, secs(300)).is_ok());
    // The preemption at 10 s found nothing in use: the block was still starting.
    assert_eq!(status(&mut prime, &block, secs(399)), DeliveryStatus::Ready);
    assert_eq!(status(&mut prime, &block, secs(400)), DeliveryStatus::Draining { deadline: secs(520) });
    assert_eq!(status(&mut prime, &block, secs(520)), DeliveryStatus::Ended { why: Ending::Preempted });
}

#[test]
fn draws_follow_the_seed_and_have_their_share() {
    let count = |seed| {
        let mut prime = SimulatedProvider::new(Behaviour {
            refused_permille: 300,
            startup_jitter_ms: Millis::secs(30),
            seed,
            ..Behaviour::reliable(described("prime"), dollars(1.0), u64::MAX)
        });
        let answers: Vec<bool> =
            (0..1000).map(|n| prime.provision(&order(n, "prime", &[1], 1.0), NOW).is_ok()).collect();
        (answers.iter().filter(|ok| !**ok).count(), answers)
    };
    let (refused, answers) = count(1);
    assert!((250..350).contains(&refused), "{refused}");
    assert_eq!(count(1).1, answers);
    assert_ne!(count(2).1, answers);
}
