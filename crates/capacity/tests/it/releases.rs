//! When FAST blocks are given back, and when not.

use super::*;

/// Id, provider, GPUs, idle minutes (none: occupied), hours left (none: no end).
type Row = (&'static str, &'static str, u32, Option<u64>, Option<u64>);

fn decide(
    scaler: &mut Autoscaler,
    settings: &AutoscaleSettings,
    rows: &[Row],
    used: u64,
    queue: u64,
) -> Vec<Order> {
    let blocks: Vec<(Block, Row)> = rows
        .iter()
        .map(|&row| {
            let mut leased = block(row.0, row.1, Tier::Fast, BlockStatus::Active, row.4.unwrap_or(1));
            leased.end_at = leased.end_at.filter(|_| row.4.is_some());
            (leased, row)
        })
        .collect();
    let views: Vec<BlockView<'_>> = blocks
        .iter()
        .map(|(block, row)| BlockView {
            block,
            gpus: row.2,
            occupants: u32::from(row.3.is_none()),
            idle_since: row.3.map(|minutes| NOW - Millis::secs(60 * minutes)),
        })
        .collect();
    let providers = Description::defaults();
    let fast = TierLoad { used_gpus: used, queue_gpus: queue, own_gpus: 0 };
    let view = FleetView { settings, providers: &providers, blocks: &views, fast, flex: TierLoad::default() };
    scaler.run(&view, NOW, &Quotes::default())
}

fn stays(orders: &[Order]) -> Option<Stays> {
    match quiet(orders, Tier::Fast) {
        Some(Quiet::Enough { stays, .. }) => Some(*stays),
        _ => None,
    }
}

fn fresh(settings: &AutoscaleSettings, rows: &[Row], used: u64, queue: u64) -> Vec<Order> {
    decide(&mut Autoscaler::new(name("r")), settings, rows, used, queue)
}

const IDLE: Option<u64> = Some(60);

#[test]
fn every_condition_alone_keeps_the_blocks() {
    let settings = AutoscaleSettings::default();
    let rows = [
        ("a", "prime", 10, None, Some(9)),
        ("b", "prime", 8, IDLE, Some(9)),
        ("c", "prime", 2, IDLE, Some(9)),
    ];
    assert_eq!(released(&fresh(&settings, &rows, 5, 0)), ["b", "c"]);
    // 6 of 20 is exactly the limit, and only less is below it.
    assert_eq!(stays(&fresh(&settings, &rows, 6, 0)), Some(Stays::InUse));
    // No more than the warm GPUs.
    assert_eq!(stays(&fresh(&settings, &rows[..1], 0, 0)), Some(Stays::Warm));
    // Demand keeps what it may need soon: 17 · 1.5 = 25 of 20 would even be bought.
    assert_eq!(released(&fresh(&settings, &rows, 5, 12)), Vec::<&str>::new());
    assert_eq!(stays(&fresh(&settings, &rows, 5, 8)), Some(Stays::LargerThanSurplus { surplus: 1 }));
    let busy = rows.map(|(id, provider, gpus, _, left)| (id, provider, gpus, None, left));
    assert_eq!(stays(&fresh(&settings, &busy, 5, 0)), Some(Stays::NoIdleBlock));
    // 5 · 4 is exactly what there is.
    let factor = AutoscaleSettings { fast_safety_factor: 4.0, ..settings };
    assert_eq!(stays(&fresh(&factor, &rows, 5, 0)), Some(Stays::NoSurplus));
}

#[test]
fn the_cool_down_counts_from_the_last_release_and_ends_inclusively() {
    let mut settings = AutoscaleSettings::default();
    let rows = [("a", "prime", 10, None, Some(9)), ("b", "prime", 8, IDLE, Some(9))];
    let mut scaler = Autoscaler::new(name("r"));
    assert_eq!(released(&decide(&mut scaler, &settings, &rows, 0, 0)), ["b"]);
    let until = NOW + settings.downscale_cooldown_ms;
    assert_eq!(stays(&decide(&mut scaler, &settings, &rows, 0, 0)), Some(Stays::CoolDown { until }));
    settings.downscale_cooldown_ms = Millis::ZERO;
    assert_eq!(released(&decide(&mut scaler, &settings, &rows, 0, 0)), ["b"]);
}

#[test]
fn a_block_is_idle_for_the_cool_down_of_its_provider() {
    let settings = AutoscaleSettings { fast_warm_gpus: 0, ..AutoscaleSettings::default() };
    let idle = |provider, minutes| {
        released(&fresh(&settings, &[("a", provider, 8, Some(minutes), Some(9))], 0, 0)).len()
    };
    assert_eq!([idle("prime", 4), idle("prime", 5)], [0, 1]);
    assert_eq!([idle("sfcompute", 29), idle("sfcompute", 30)], [0, 1]);
    assert_eq!([idle("stranger", 29), idle("stranger", 30)], [0, 1]);
}

#[test]
fn quick_ones_first_then_the_longest_lease_then_the_id() {
    let settings = AutoscaleSettings { fast_warm_gpus: 0, ..AutoscaleSettings::default() };
    let rows = [
        ("a", "sfcompute", 8, IDLE, Some(9)),
        ("e", "sfcompute", 8, IDLE, Some(20)),
        ("d", "sfcompute", 8, IDLE, Some(20)),
        ("c", "sfcompute", 8, IDLE, None),
        ("z", "prime", 8, IDLE, Some(1)),
    ];
    assert_eq!(released(&fresh(&settings, &rows, 0, 0)), ["z", "c", "d", "e", "a"]);
}

#[test]
fn a_block_larger_than_the_surplus_is_passed_over() {
    let mut settings = AutoscaleSettings::default();
    let rows = [
        ("big", "prime", 8, IDLE, Some(9)),
        ("small", "prime", 4, IDLE, Some(2)),
        ("used", "prime", 4, None, Some(9)),
    ];
    // 16 GPUs, 10 warm: a surplus of 6.
    assert_eq!(released(&fresh(&settings, &rows, 1, 0)), ["small"]);
    settings.allow_overshoot = true;
    assert_eq!(released(&fresh(&settings, &rows, 1, 0)), ["big"]);
}

#[test]
fn overshoot_needs_a_surplus() {
    let settings =
        AutoscaleSettings { fast_warm_gpus: 8, allow_overshoot: true, ..AutoscaleSettings::default() };
    let rows = [
        ("a", "prime", 8, IDLE, Some(9)),
        ("b", "prime", 8, IDLE, Some(8)),
        ("c", "prime", 8, IDLE, Some(7)),
    ];
    assert_eq!(released(&fresh(&settings, &rows, 0, 0)), ["a", "b"]);
}

#[test]
fn flex_blocks_run_to_their_end() {
    let leased = block("x", "prime", Tier::Flex, BlockStatus::Active, 9);
    let views = [BlockView { block: &leased, gpus: 64, occupants: 0, idle_since: Some(Time::ZERO) }];
    let settings = AutoscaleSettings { fast_warm_gpus: 0, ..AutoscaleSettings::default() };
    let providers = Description::defaults();
    let idle = TierLoad::default();
    let view =
        FleetView { settings: &settings, providers: &providers, blocks: &views, fast: idle, flex: idle };
    assert_eq!(released(&Autoscaler::new(name("r")).run(&view, NOW, &Quotes::default())), Vec::<&str>::new());
}
