//! Whose work is stopped for whom (batch-scheduling.md §13): who may be a victim, what that costs, which few are chosen.

use std::cmp::Reverse;
use std::sync::LazyLock;

use landfall_engine::preempt::*;
use landfall_model::{Checkpoint, JobId, Lifecycle, Millis, Minutes, PreemptRule, Time};

const NOW: Time = Time::from_secs(1_000_000);

fn id(text: &str) -> JobId {
    JobId::new(text).unwrap()
}

fn min(count: u64) -> Millis {
    Millis::secs(60 * count)
}

fn never() -> &'static Preempted {
    static NEVER: LazyLock<Preempted> = LazyLock::new(Preempted::default);
    &NEVER
}

/// A bounded job of class 2 on one node, 60 of 240 minutes done.
fn running(job: &JobId) -> Incumbent<'_> {
    Incumbent {
        job,
        running: true,
        class: 2,
        sensitive: false,
        preemptible: true,
        lifecycle: Lifecycle::Bounded,
        walltime: min(240),
        ends_at: Some(NOW + min(180)),
        started: NOW - min(60),
        nodes: 1,
        on_home_nodes: true,
        checkpoint: Checkpoint::None,
        checkpoint_minutes: None,
        over_share: false,
        preempted: never(),
        min_run: min(10),
    }
}

fn saving(checkpoint: Checkpoint, job: &JobId) -> Incumbent<'_> {
    let checkpoint_minutes = checkpoint_minutes(checkpoint, None, None);
    Incumbent { checkpoint, checkpoint_minutes, ..running(job) }
}

const BY_9: Claim = Claim::Preempt { class: 9, rule: PreemptRule::Below };

fn why(change: impl Fn(&mut Incumbent<'_>), claim: Claim) -> String {
    let job = id("j");
    let mut incumbent = running(&job);
    change(&mut incumbent);
    let name = |exempt| serde_json::to_value(exempt).unwrap().as_str().unwrap().to_owned();
    judge(&incumbent, claim, NOW).map_or_else(name, |_| "victim".to_owned())
}

#[test]
fn b30_cost_of_a_quarter_done_job() {
    let job = id("j");
    let costs = [Checkpoint::None, Checkpoint::Auto, Checkpoint::Manual]
        .map(|checkpoint| cost(&saving(checkpoint, &job), NOW));
    assert_eq!(costs, [85.0, 30.0, 35.0]);
}

#[test]
fn cost_follows_nodes_progress_and_burst() {
    let job = id("j");
    let of = |change: &dyn Fn(&mut Incumbent<'_>)| {
        let mut incumbent = running(&job);
        change(&mut incumbent);
        cost(&incumbent, NOW)
    };
    assert_eq!(of(&|j| j.nodes = 4), 4.0 * 60.0 + 25.0);
    assert_eq!(of(&|j| j.over_share = true), 42.5);
    assert_eq!(of(&|j| j.lifecycle = Lifecycle::Unbounded), 60.0, "progress is for bounded jobs");
    let at = |part: u64| {
        of(&|j| {
            j.walltime = min(100);
            j.ends_at = Some(NOW + min(100 - part));
            j.started = NOW - min(part);
        }) - part as f64
    };
    assert_eq!([9, 10, 89, 90].map(at), [1.0, 10.0, 89.0, 1000.0]);
    assert_eq!(of(&|j| j.started = NOW - Millis::new(90_500)), 1.0 + 30.5 / 60.0 + 25.0, "real minutes");
    let resumed = |j: &mut Incumbent<'_>| {
        (j.checkpoint, j.checkpoint_minutes) = (Checkpoint::Auto, Some(2.0));
        (j.started, j.ends_at) = (NOW - min(20), Some(NOW + min(12)));
    };
    assert_eq!(of(&resumed), 1002.0, "a resumed job is as far as its walltime is used up");
}

#[test]
fn checkpoint_minutes_as_declared_measured_or_usual() {
    let of = |declared, measured| checkpoint_minutes(Checkpoint::Manual, declared, measured);
    assert_eq!(of(Some(Minutes::new(min(0))), Some(min(3))), Some(0.0));
    assert_eq!(of(Some(Minutes::new(Millis::secs(150))), None), Some(2.5));
    assert_eq!(of(None, Some(Millis::secs(90))), Some(1.5));
    assert_eq!(of(None, None), Some(10.0));
    assert_eq!(checkpoint_minutes(Checkpoint::None, None, Some(min(1))), None);
}

#[test]
fn b33_who_is_never_a_victim() {
    let by = |class| Claim::Preempt { class, rule: PreemptRule::Below };
    assert_eq!(why(|j| j.class = 5, by(5)), "class");
    assert_eq!(why(|j| j.class = 7, by(3)), "class");
    assert_eq!(why(|j| (j.class, j.sensitive) = (10, true), by(9)), "sensitive");
    assert_eq!(why(|j| j.started = NOW - min(9), by(9)), "min_run");
    assert_eq!(why(|j| j.started = NOW - min(10), by(9)), "victim");
}

#[test]
fn each_exemption_at_its_edge() {
    assert_eq!(why(|j| j.running = false, BY_9), "not_running");
    assert_eq!(why(|j| j.class = 10, Claim::Reclaim), "class_10");
    assert_eq!(why(|j| j.preemptible = false, BY_9), "not_preemptible");
    assert_eq!(why(|j| j.ends_at = Some(NOW + min(5)), BY_9), "near_end");
    assert_eq!(why(|j| j.ends_at = Some(NOW + min(5) + Millis::new(1)), BY_9), "victim");
    assert_eq!(why(|j| j.ends_at = Some(NOW - min(1)), BY_9), "near_end");
    assert_eq!(why(|j| j.class = 7, BY_9), "no_checkpoint_high");
    assert_eq!(why(|j| j.class = 6, BY_9), "victim");
    assert_eq!(why(|j| (j.class, j.checkpoint) = (8, Checkpoint::Auto), BY_9), "victim");
    assert_eq!(why(|j| j.lifecycle = Lifecycle::Reactive, BY_9), "service_home");
    let borrowed = |j: &mut Incumbent<'_>| (j.lifecycle, j.on_home_nodes) = (Lifecycle::Unbounded, false);
    assert_eq!(why(borrowed, BY_9), "victim");
    assert_eq!(why(|j| j.class = 6, Claim::Reclaim), "victim", "no class rule for a reclaim");
}

#[test]
fn three_preemptions_a_day_are_enough() {
    let mut preempted = Preempted::default();
    let job = id("j");
    let says = |preempted: &Preempted| judge(&Incumbent { preempted, ..running(&job) }, BY_9, NOW).is_ok();
    let day_ago = NOW - PREEMPT_WINDOW;
    preempted.note(day_ago - min(1));
    preempted.note(day_ago);
    preempted.note(NOW - min(90));
    assert!(says(&preempted), "two of them are a day old");
    preempted.note(NOW - min(80));
    preempted.note(NOW - min(70));
    assert!(!says(&preempted));
    assert_eq!(serde_json::to_value(&preempted).unwrap().as_array().unwrap().len(), PREEMPT_LIMIT);
}

fn victim(job: &str, class: u8, cost: f64, started: i64) -> Victim {
    Victim { job: id(job), class, cost, started: Time::from_secs(started) }
}

const RULES: ChoiceRules = ChoiceRules { max_victims: 3, cost_max: 1000.0, reclaim: false };

/// Chooses when victim `i` of the shortlist frees `nodes[i]` nodes and `wanted` are needed beyond the free ones.
fn choice(
    victims: &[(Victim, u32)],
    wanted: u32,
    rules: &ChoiceRules,
) -> Result<(Vec<String>, f64, u32), NoVictims> {
    let all: Vec<Victim> = victims.iter().map(|(victim, _)| victim.clone()).collect();
    let sorted = shortlist(all.clone());
    let nodes = |at: usize| victims.iter().find(|(victim, _)| *victim == sorted[at]).unwrap().1;
    let chosen = choose(
        all,
        rules,
        |_| true,
        |set| {
            let freed: u32 = set.iter().map(|&at| nodes(at)).sum();
            freed.checked_sub(wanted).map(|surplus| ((), surplus))
        },
    )?;
    let names = chosen.victims.iter().map(|victim| victim.job.to_string()).collect();
    Ok((names, chosen.cost, chosen.surplus))
}

fn names(victims: &[(Victim, u32)], wanted: u32, rules: &ChoiceRules) -> Result<Vec<String>, NoVictims> {
    choice(victims, wanted, rules).map(|(names, ..)| names)
}

#[test]
fn b31_fewest_victims() {
    let four: Vec<_> = (0..4).map(|i| (victim(&format!("v{i}"), 2, 30.0, 0), 2)).collect();
    assert_eq!(names(&four, 6, &RULES).unwrap().len(), 3, "none free");
    assert_eq!(names(&four, 4, &RULES).unwrap(), ["v0", "v1"], "two free");
    let five: Vec<_> = (0..5).map(|i| (victim(&format!("v{i}"), 2, 30.0, 0), 1)).collect();
    let two = ChoiceRules { max_victims: 2, ..RULES };
    assert_eq!(names(&five, 4, &two), Err(NoVictims::NoSet));
}

#[test]
fn b32_low_classes_first() {
    let all = [(victim("six", 6, 5.0, 0), 2), (victim("one", 1, 30.0, 0), 1), (victim("two", 1, 35.0, 0), 1)];
    assert_eq!(choice(&all, 2, &RULES), Ok((vec!["one".into(), "two".into()], 65.0, 0)));
    let reclaim = ChoiceRules { reclaim: true, ..RULES };
    assert_eq!(choice(&all, 2, &reclaim), Ok((vec!["six".into()], 5.0, 0)), "a reclaim looks at cost only");
}

#[test]
fn ties_end_at_count_surplus_start_and_id() {
    let count = [(victim("a", 1, 5.0, 0), 1), (victim("b", 1, 5.0, 0), 1), (victim("c", 1, 10.0, 0), 2)];
    assert_eq!(names(&count, 2, &RULES).unwrap(), ["c"], "as dear, but one");
    let surplus = [(victim("a", 1, 5.0, 0), 3), (victim("b", 1, 5.0, 0), 2)];
    assert_eq!(choice(&surplus, 2, &RULES), Ok((vec!["b".into()], 5.0, 0)), "less is wasted");
    let start = [(victim("a", 1, 5.0, 7), 2), (victim("b", 1, 5.0, 8), 2)];
    assert_eq!(names(&start, 2, &RULES).unwrap(), ["b"], "newest first");
    let by_id = [(victim("b", 1, 5.0, 7), 2), (victim("a", 1, 5.0 + 1e-11, 7), 2)];
    assert_eq!(names(&by_id, 2, &RULES).unwrap(), ["a"], "costs are compared in billionths");
}

#[test]
fn a_set_at_the_cost_limit_is_passed_over() {
    let dear = [(victim("a", 1, 1000.0, 0), 2)];
    assert_eq!(names(&dear, 2, &RULES), Err(NoVictims::PreemptCost));
    let other = [(victim("a", 1, 1000.0, 0), 2), (victim("b", 4, 999.5, 0), 2)];
    assert_eq!(names(&other, 2, &RULES).unwrap(), ["b"], "a higher class, but affordable");
    assert_eq!(names(&[], 1, &RULES), Err(NoVictims::NoCandidates));
}

#[test]
fn only_the_first_candidates_are_tried() {
    let mut all: Vec<_> = (0..32).map(|i| (victim(&format!("small{i:02}"), 1, 1.0, 0), 1)).collect();
    all.push((victim("large", 2, 1.0, 0), 9));
    assert_eq!(names(&all, 9, &RULES), Err(NoVictims::NoSet), "the 33rd would do");
    all.remove(0);
    assert_eq!(names(&all, 9, &RULES).unwrap(), ["large"]);
}

#[test]
fn a_pool_stops_only_so_much() {
    let mut budget = PreemptBudget::default();
    budget.begin_cycle(NOW);
    for _ in 0..4 {
        assert!(budget.room(NOW) > 0);
        budget.spend(3, NOW);
    }
    assert_eq!(budget.room(NOW), 0, "a fifth preemptor waits for the next cycle");
    let mut at = NOW;
    for _ in 0..29 {
        at = at + Millis::secs(5);
        budget.begin_cycle(at);
        budget.spend(3, at);
    }
    at = at + Millis::secs(5);
    budget.begin_cycle(at);
    assert_eq!(budget.room(at), 1);
    assert_eq!(budget.room(NOW + min(60)), 13, "the first twelve are an hour ago");
}

proptest::proptest! {
    /// The early stop never misses a better set: compared with trying all sets and taking the least.
    #[test]
    fn the_choice_is_the_best_of_all_sets(
        rows in proptest::collection::vec((0u8..4, 0u8..6, 0i64..3, 1u32..4), 1..9),
        wanted in 1u32..8,
        reclaim: bool,
    ) {
        let all: Vec<_> = rows
            .iter()
            .enumerate()
            .map(|(i, &(class, cost, started, nodes))| {
                (victim(&format!("j{i}"), class, f64::from(cost) * 100.0, started), nodes)
            })
            .collect();
        let rules = ChoiceRules { reclaim, ..RULES };
        let members = |set: u32| (0..all.len()).filter(|at| (set >> at) & 1 == 1).collect::<Vec<_>>();
        let plain = (1..1_u32 << all.len())
            .filter(|set| set.count_ones() <= 3)
            .filter_map(|set| {
                let set = members(set);
                let of = |at: &usize| &all[*at];
                let freed: u32 = set.iter().map(|at| of(at).1).sum();
                let surplus = freed.checked_sub(wanted)?;
                let cost: f64 = set.iter().map(|at| of(at).0.cost).sum();
                let class = if reclaim { None } else { set.iter().map(|at| of(at).0.class).max() };
                let mut starts: Vec<_> = set.iter().map(|at| Reverse(of(at).0.started)).collect();
                let mut ids: Vec<_> = set.iter().map(|at| of(at).0.job.to_string()).collect();
                starts.sort();
                ids.sort();
                (cost < 1000.0).then_some((class, cost as i64, set.len(), surplus, starts, ids))
            })
            .min();
        let chosen = names(&all, wanted, &rules).ok().map(|mut names| { names.sort(); names });
        proptest::prop_assert_eq!(chosen, plain.map(|plain| plain.5));
    }
}
