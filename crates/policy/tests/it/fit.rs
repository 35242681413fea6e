//! Acceptance cases of the `fit` policy.

use landfall_model::reason::Reason;
use landfall_policy::refusal::Finality;
use landfall_policy::verdict::{Decision, Level};

use crate::support::{fact, near, of, rank, raw, reasons};

const F3: &str = "[[nodes]]\nid = 'f3'\nram_mib = '64GiB'\ncpu_milli = 8000\ngpus = [{ model = 'RTX 4070', vram_mib = '12GiB' }]\n";
const F4: &str = "[[nodes]]\nid = 'f4'\nram_mib = '64GiB'\ncpu_milli = 8000\ngpus = [{ model = 'RTX 3090', vram_mib = '24GiB' }]\n";
const F5: &str = "[[nodes]]\nid = 'f5'\nram_mib = '64GiB'\ncpu_milli = 8000\ngpus = [{ model = 'RTX 4060', vram_mib = '8GiB' }]\n";

fn llm(vram: &str, more: &str) -> String {
    format!("[[jobs]]\nid = 'j'\nruntime = 'llmcpp'\nvram_mib = '{vram}'\n{more}\n")
}

/// Job and node of each case; below them tok/s (`-` where the runtime has none), utilisation, speed, fit, headroom,
/// composite and level.
const PAIRS: &str = "
F3 runtime='llmcpp', vram_mib='8GiB' | ram_mib='64GiB', gpus=[{model='RTX 4070',vram_mib='12GiB'}]
    49.5 0.666667 100 100 100 100 Perfect
F4 runtime='llmcpp', vram_mib='8GiB' | ram_mib='64GiB', gpus=[{model='RTX 3090',vram_mib='24GiB'}]
    91.948214 0.333333 100 86.666667 100 95.333333 Perfect
F5 runtime='llmcpp', vram_mib='8GiB' | ram_mib='64GiB', gpus=[{model='RTX 4060',vram_mib='8GiB'}]
    26.714286 1 66.785714 20 100 55.392857 Marginal
F6 runtime='llmcpp', vram_mib='40GiB' | ram_mib='64GiB', gpus=[{model='A40',vram_mib='48GiB'}]
    13.671429 0.833333 34.178571 90 100 63.589286 Good
F8 runtime='llmcpp', vram_mib='8GiB', offload='allow' | ram_mib='32GiB'
    5.892857 0.25 14.732143 80 100 50.366071 Marginal
F9 runtime='llmcpp', vram_mib='24GiB', offload='allow' | ram_mib='32GiB', gpus=[{model='RTX 3060',vram_mib='12GiB'}]
    5.892857 0.545455 14.732143 100 100 57.366071 Marginal
F11 runtime='llmcpp', vram_mib='8GiB' | ram_mib='64GiB', gpus=[{model='RTX 3090',vram_mib='24GiB',vram_used_mib='6GiB'}]
    91.948214 0.583333 100 100 100 100 Perfect
F14 runtime='llmcpp', model_mib=14336, vram_mib='20GiB' | ram_mib='64GiB', gpus=[{model='RTX 4090',vram_mib='24GiB'}]
    39.6 0.833333 99 90 100 96 Perfect
F15 cpu_milli='4 cores', ram_mib='8GiB' | cpu_milli='16 cores', ram_mib='32GiB'
    - 0.25 100 93.333333 100 97.333333 Perfect
F16 cpu_milli='4 cores', ram_mib='8GiB' | cpu_milli='8 cores', ram_mib='16GiB', active_jobs=1
    - 0.5 50 100 25 62.5 Good
F17 ram_mib='2GiB' | cpu_milli='8 cores', ram_mib='16GiB'
    - 0.125 100 76.666667 100 90.666667 Good
F18 cpu_milli='4 cores', ram_mib='8GiB', vram_mib='12GiB' | cpu_milli='8 cores', ram_mib='32GiB', gpus=[{vram_mib='24GiB'}]
    - 0.416667 50 100 50 70 Good
F19 runtime='wasm', ram_mib=512 | cpu_milli='4 cores', ram_mib=8192, wasm_memory_limit_mb=6144, active_jobs=2
    - 0.083333 50 71.111111 90 72.444444 Good
F21 runtime='coreml', model_mib=1024 | platform='ios', ram_mib=6144, memory_used_mb=2048, neural_engine=true, metal_gpu=true, thermal='nominal'
    - 0.25 85 80 100 85.25 Perfect
F22 runtime='coreml', model_mib=1024 | platform='ios', ram_mib=6144, memory_used_mb=2048, neural_engine=true, metal_gpu=true, thermal='serious', battery_pct=15, charging=false
    - 0.25 85 80 100 60.25 Perfect
F23 runtime='onnx', model_mib=2048 | platform='android', ram_mib=8192, active_jobs=1
    - 0.25 30 80 20 48.5 Good
F25 runtime='diffusers', vram_mib='10GiB' | ram_mib='64GiB', gpus=[{model='RTX 3060',vram_mib='12GiB'}]
    - 0.833333 36 90 100 76.8 Good
F39 runtime='llmcpp', vram_mib='8GiB' | ram_mib='64GiB', gpus=[{model='RTX 4060',vram_mib='8GiB'}], corrections={llmcpp={factor=0.8,samples=5}}
    21.371429 1 53.428571 20 100 48.714286 Marginal
";

#[test]
fn f3_to_f25_single_pairs() {
    let lines: Vec<&str> = PAIRS.trim().lines().collect();
    for rows in lines.chunks(2) {
        let (case, asked) = rows[0].split_once(' ').unwrap();
        let (job, node) = asked.split_once('|').unwrap();
        let wants: Vec<&str> = rows[1].split_whitespace().collect();
        let scenario = format!("nodes = [{{ id='n', {node} }}]\njobs = [{{ id='j', {job} }}]\n");
        let ranking = rank("fit", &scenario, "j");
        let verdict = of(&ranking, "n");
        assert!(verdict.is_admitted(), "{case}: {:?}", verdict.refusals);
        let got = [
            ("utilisation", fact(verdict, "utilisation")),
            ("speed", raw(verdict, "speed")),
            ("fit", raw(verdict, "fit")),
            ("headroom", raw(verdict, "headroom")),
            ("composite", verdict.total.unwrap()),
        ];
        for ((what, got), want) in got.into_iter().zip(&wants[1..]) {
            near(got, want.parse().unwrap(), &format!("{case} {what}"));
        }
        assert_eq!(format!("{:?}", verdict.level.unwrap()), wants[6], "{case}");
        if wants[0] != "-" {
            near(fact(verdict, "estimate"), wants[0].parse().unwrap(), &format!("{case} tok/s"));
        }
    }
    assert_eq!(lines.len(), 2 * 18);
}

#[test]
fn f7_order_of_three() {
    let ranking = rank("fit", &format!("{F5}{F4}{F3}{}", llm("8GiB", "")), "j");
    let order: Vec<_> = ranking.candidates.iter().map(|verdict| verdict.candidate.as_str()).collect();
    assert_eq!(order, ["f3", "f4", "f5"]);
    let margin = ranking.margin.unwrap();
    assert_eq!((margin.runner_up.as_str(), margin.deciding_term.as_deref()), ("f4", Some("fit")));
    near(margin.lead, 100.0 - 95.333333, "lead");
}

#[test]
fn f10_too_small_a_device_never_does() {
    let scenario = format!(
        "[[nodes]]\nid='n'\nram_mib='32GiB'\ngpus=[{{model='RTX 3060',vram_mib='12GiB'}}]\n{}",
        llm("24GiB", "offload = 'never'")
    );
    let ranking = rank("fit", &scenario, "j");
    let refusal = &of(&ranking, "n").refusals[0].refusal;
    assert_eq!((refusal.reason, refusal.class), (Reason::VramShort, Finality::Never));
    assert!(!refusal.remedy.is_empty());
}

#[test]
fn f12_f13_fallback_takes_the_better_servant() {
    let node = |id: &str, karma: i32| {
        format!(
            "[[nodes]]\nid='{id}'\nkarma={karma}\nram_mib='64GiB'\ngpus=[{{model='RTX 3090',vram_mib='24GiB',vram_used_mib='20GiB'}}]\n"
        )
    };
    let scenario = format!("{}{}{}", node("n1", 3), node("n2", 7), llm("8GiB", ""));
    let ranking = rank("fit", &scenario, "j");
    let verdict = of(&ranking, "n1");
    near(fact(verdict, "utilisation"), 1.166667, "F12 u");
    near(raw(verdict, "fit"), 0.0, "F12 fit");
    assert_eq!(verdict.level, Some(Level::TooTight));
    assert_eq!(ranking.winner.as_ref().unwrap().as_str(), "n2");
    assert!(ranking.fallback);
    let off = rank("fit", &format!("{scenario}\n[policy.params]\nfallback_too_tight = false\n"), "j");
    assert_eq!(off.winner, None);
    assert!(matches!(off.decision, Decision::Wait { reason: Reason::AllTooTight, .. }));
}

#[test]
fn f20_wasm_beyond_its_limit() {
    let ranking = rank(
        "fit",
        "[[nodes]]\nid='n'\ncpu_milli='8 cores'\nram_mib=16384\n[[jobs]]\nid='j'\nruntime='wasm'\nram_mib=13312\n",
        "j",
    );
    let verdict = of(&ranking, "n");
    near(fact(verdict, "utilisation"), 1.083333, "u");
    assert_eq!((raw(verdict, "fit"), verdict.level), (0.0, Some(Level::TooTight)));
}

#[test]
fn f34_the_edge_of_online() {
    let at = |age: u64| {
        let scenario =
            format!("[[nodes]]\nid='n'\nheartbeat_age_ms={age}\ncpu_milli=1000\n[[jobs]]\nid='j'\n");
        reasons(of(&rank("fit", &scenario, "j"), "n"))
    };
    assert_eq!(at(30_000), [""; 0]);
    assert_eq!(at(30_001), ["offline"]);
}

#[test]
fn f36_regions_as_tiers_or_ties() {
    let scenario = "[regions.eu]\nadjacent = ['uk', 'us']\n\
        [[nodes]]\nid='a'\nregion='eu'\ncpu_milli='4 cores'\nram_mib='8GiB'\nactive_jobs=3\n\
        [[nodes]]\nid='b'\nregion='uk'\ncpu_milli='16 cores'\nram_mib='32GiB'\n\
        [[jobs]]\nid='j'\nregion='eu'\ncpu_milli='4 cores'\nram_mib='8GiB'\n";
    let tiered = rank("fit", scenario, "j");
    assert_eq!(tiered.winner.as_ref().unwrap().as_str(), "a");
    assert_eq!(tiered.margin.unwrap().decided_by.as_deref(), Some("region tier"));
    let tie = rank("fit", &format!("{scenario}\n[policy.params]\nregion_mode = 'tiebreak'\n"), "j");
    assert_eq!(tie.winner.unwrap().as_str(), "b");
}

#[test]
fn a_region_breaks_ties_in_tiebreak_mode_and_an_unknown_region_is_last() {
    let node = |id: &str, region: &str| {
        format!("[[nodes]]\nid='{id}'\ncpu_milli='16 cores'\nram_mib='32GiB'\n{region}\n")
    };
    let scenario = format!(
        "[regions.eu]\nadjacent = ['uk']\n{}{}{}[[jobs]]\nid='j'\nregion='eu'\ncpu_milli='4 cores'\n[policy.params]\nregion_mode='tiebreak'\n",
        node("a", ""),
        node("b", "region='uk'"),
        node("c", "region='eu'")
    );
    let ranking = rank("fit", &scenario, "j");
    let order: Vec<_> = ranking.candidates.iter().map(|verdict| verdict.candidate.as_str()).collect();
    assert_eq!(order, ["c", "b", "a"]);
}

#[test]
fn f37_a_candidate_limit_prefers_good_servants() {
    let scenario = "[[nodes]]\nid='a'\nkarma=5\ncpu_milli='4 cores'\nram_mib='8GiB'\n\
        [[nodes]]\nid='b'\nkarma=4\ncpu_milli='16 cores'\nram_mib='32GiB'\n\
        [[jobs]]\nid='j'\ncpu_milli='4 cores'\nram_mib='8GiB'\n";
    let all = rank("fit", scenario, "j");
    assert_eq!(all.winner.unwrap().as_str(), "b");
    let one = rank("fit", &format!("{scenario}\n[policy.params]\ncandidate_limit = 1\n"), "j");
    assert_eq!((one.winner.unwrap().as_str(), one.candidates_skipped), ("a", 1));
}

#[test]
fn every_reason_is_kept_not_only_the_first() {
    let scenario = "now_ms = 1000\n[[nodes]]\nid='n'\nplatform='ios'\napproval='pending'\naccepting=false\n\
        cooldown_until_ms=5000\nheartbeat_age_ms=99999\nsupported_runtimes=['wasm']\ncpu_milli=1000\nram_mib=10\n\
        [[jobs]]\nid='j'\ncpu_milli=2000\nram_mib=20\nvram_mib=1\n";
    let ranking = rank("fit", scenario, "j");
    let verdict = of(&ranking, "n");
    assert_eq!(
        reasons(verdict),
        [
            "offline",
            "not_approved",
            "paused",
            "cooling_down",
            "runtime_missing",
            "platform_mismatch",
            "cpu_short",
            "ram_short",
            "gpu_missing"
        ]
    );
    for refused in &verdict.refusals {
        assert!(!refused.refusal.remedy.is_empty(), "{} says what would change it", refused.filter);
    }
    assert!(matches!(ranking.decision, Decision::Wait { reason: Reason::NoNode, .. }));
}

#[test]
fn several_devices_are_as_slow_as_the_slowest_and_as_full_as_the_fullest() {
    let scenario = "[[nodes]]\nid='n'\nram_mib='64GiB'\ngpus=[\n\
        {model='RTX 4060',vram_mib='8GiB'},{model='RTX 3090',vram_mib='24GiB'},{model='RTX 4070',vram_mib='12GiB'}]\n\
        [[jobs]]\nid='j'\nruntime='llmcpp'\ngpu_count=2\nvram_mib='8GiB'\n";
    let ranking = rank("fit", scenario, "j");
    let verdict = of(&ranking, "n");
    // Alone, the 4070 and the 3090 are better than the full 4060.
    assert_eq!(verdict.gpus, [1, 2]);
    near(fact(verdict, "bandwidth_gb_s"), 504.0, "the slower of the two");
    near(fact(verdict, "utilisation"), 8.0 / 12.0, "the fuller of the two");
}

#[test]
fn f45_availability_of_a_workload() {
    use landfall_policy::rules::availability::Availability;
    let scenario = format!(
        "{F3}{F4}{F5}\
         [[nodes]]\nid='f12'\nram_mib='64GiB'\ngpus=[{{model='RTX 3090',vram_mib='24GiB',vram_used_mib='20GiB'}}]\n\
         [[nodes]]\nid='away'\nheartbeat_age_ms=60000\nram_mib='64GiB'\ngpus=[{{model='RTX 4090',vram_mib='24GiB'}}]\n{}",
        llm("8GiB", "region = 'nowhere'")
    );
    let situation = crate::support::situation(&scenario);
    let policy = crate::support::policy_for("fit", &situation);
    let got = Availability::of(&policy, &situation, &situation.job("j").unwrap().spec);
    assert_eq!((got.ready, got.best_level), (3, Some(Level::Perfect)));
    near(got.best_score.unwrap(), 100.0, "best score");
    near(got.estimated_throughput.unwrap(), 49.5, "throughput");
    let levels =
        [Level::Perfect, Level::Good, Level::Marginal, Level::TooTight].map(|level| got.levels[&level]);
    assert_eq!(levels, [2, 0, 1, 1]);
    assert_eq!(got.filtered.into_iter().collect::<Vec<_>>(), [("offline", 1)]);
}

#[test]
fn an_offloadable_model_waits_for_ram_instead_of_never() {
    let scenario = format!(
        "[[nodes]]\nid='n'\nram_mib='32GiB'\nram_committed_mib='30GiB'\n{}",
        llm("8GiB", "offload = 'allow'")
    );
    let ranking = rank("fit", &scenario, "j");
    let refusal = &of(&ranking, "n").refusals[0].refusal;
    assert_eq!((refusal.reason, refusal.class), (Reason::GpuMissing, Finality::NotNow));
}

#[test]
fn equal_nodes_go_by_warmth_then_karma() {
    let winner = |a: &str, b: &str| {
        let node = |id: &str, more: &str| format!("[[nodes]]\nid='{id}'\ncpu_milli='8 cores'\n{more}\n");
        let job = "[[workloads]]\nid='w'\n[[jobs]]\nid='j'\nworkload='w'\n";
        rank("fit", &(node("n1", a) + &node("n2", b) + job), "j").winner.unwrap().to_string()
    };
    assert_eq!(winner("karma=3", "karma=7"), "n2");
    assert_eq!(winner("karma=-50", "karma=0"), "n2");
    assert_eq!(winner("karma=2147483647", "karma=-2147483648"), "n1");
    assert_eq!(winner("karma=99", "karma=0\ncache=['w']"), "n2", "warmth comes before karma");
    assert_eq!(winner("", ""), "n1");
}

#[test]
fn a_model_of_size_zero_is_a_model_of_unknown_size() {
    let scenario = format!("{F5}{}", llm("8GiB", "model_mib = 0"));
    near(of(&rank("fit", &scenario, "j"), "f5").total.unwrap(), 55.392857, "as F5");
}

#[test]
fn an_offloaded_model_is_committed_to_device_and_ram() {
    let scenario = format!(
        "[[nodes]]\nid='n'\nram_mib='32GiB'\ngpus=[{{model='RTX 3060',vram_mib='12GiB'}}]\n{}",
        llm("24GiB", "offload = 'allow'")
    );
    let mut situation = crate::support::situation(&scenario);
    let job = situation.job("j").unwrap().clone();
    let node = &mut situation.nodes_mut()[0];
    let devices = landfall_policy::view::Devices {
        mode: landfall_policy::view::Mode::Offload,
        chosen: std::iter::once(0).collect(),
    };
    let placement = devices.placement(&job, node);
    node.place(placement).unwrap();
    assert_eq!((node.gpus[0].vram_free().get(), node.ram_free().get()), (0, 20 * 1024));
}

#[test]
fn models_that_the_job_does_not_accept_are_not_used_for_offloading() {
    let scenario = format!(
        "[[nodes]]\nid='n'\nram_mib='64GiB'\ngpus=[{{model='RTX 3060',vram_mib='12GiB'}}]\n{}",
        llm("8GiB", "offload = 'allow'\ngpu_models = ['A100']")
    );
    let ranking = rank("fit", &scenario, "j");
    assert_eq!(of(&ranking, "n").gpus, [0u16; 0]);
}

#[test]
fn nodes_of_another_pool_are_no_candidates() {
    let scenario = "[[nodes]]\nid='a'\npool='p1'\n[[nodes]]\nid='b'\npool='p2'\n[[nodes]]\nid='c'\n\
        [[jobs]]\nid='j'\npool='p2'\n";
    let ranking = rank("fit", scenario, "j");
    assert_eq!(ranking.winner.as_ref().unwrap().as_str(), "b");
    assert_eq!(reasons(of(&ranking, "a")), ["pool"]);
    assert!(of(&ranking, "c").is_admitted());
}
