//! Acceptance cases of the `bin-pack` and `fgd` policies.

use landfall_model::reason::Reason;
use landfall_policy::verdict::Decision;

use crate::support::{fact, near, of, rank, raw, reasons, situation};

/// The fixture: a block of eight 80 GiB GPUs that ends in a day, and one node on it.
fn node(id: &str, block: &str, gpus: &str, more: &str) -> String {
    let gpus = if gpus.is_empty() { "{ count = 8, vram_mib = '80GiB' }" } else { gpus };
    format!(
        "[[blocks]]\nid='{id}-block'\n{block}\n[[nodes]]\nid='{id}'\nblock='{id}-block'\ncpu_milli='64 cores'\nram_mib='512GiB'\ngpus=[{gpus}]\n{more}\n"
    )
}

const DAY: &str = "ends_in_ms='24h'";
const PRIME: &str = "ends_in_ms='24h'\nprovider='prime'";

fn job(count: u32, gib: u64) -> String {
    format!(
        "[[jobs]]\nid='j'\ngpu_count={count}\nvram_mib='{gib}GiB'\ncpu_milli='8 cores'\nram_mib='64GiB'\nexpected_duration_ms='3600s'\n"
    )
}

/// Eight GPUs with the given GiB in use, no holder.
fn used(gib: [u64; 8]) -> String {
    gib.map(|used| format!("{{vram_mib='80GiB',vram_used_mib='{used}GiB'}}")).join(",")
}

/// Eight GPUs of which some are held, with 40 GiB in use each.
fn held(which: [bool; 8]) -> String {
    which
        .map(|held| {
            let more = if held { ",holder='x',vram_used_mib='40GiB'" } else { "" };
            format!("{{vram_mib='80GiB'{more}}}")
        })
        .join(",")
}

#[track_caller]
fn expect(name: &str, scenario: &str, id: &str, gpus: &[u16], parts: [f64; 4], score: f64) {
    let ranking = rank("bin-pack", scenario, "j");
    let verdict = of(&ranking, id);
    assert!(verdict.is_admitted(), "{name}: {:?}", verdict.refusals);
    assert_eq!(verdict.gpus, gpus, "{name}");
    let terms = ["gpu-utilisation", "gpu-fragmentation", "block-expiry", "provider-affinity"];
    for (term, want) in terms.iter().zip(parts) {
        near(raw(verdict, term), want, &format!("{name} {term}"));
    }
    near(verdict.total.unwrap(), score, name);
}

#[test]
fn b1_to_b3_b9_b10_single_nodes() {
    let j = job(2, 40);
    expect("B1", &(node("n", DAY, "", "") + &j), "n", &[0, 1], [0.125, 0.0, 0.0, 0.0], 0.125);
    expect("B2", &(node("n", PRIME, "", "") + &j), "n", &[0, 1], [0.125, 0.0, 0.0, 0.1], 0.145);
    let started = node(
        "n",
        DAY,
        &used([40, 40, 40, 40, 0, 0, 0, 0]),
        "cpu_committed_milli='32 cores'\nram_committed_mib='256GiB'",
    );
    expect("B3", &(started + &j), "n", &[0, 1], [0.375, 0.0, 0.0, 0.0], 0.375);
    let ending = node("n", "ends_in_ms='3900s'", "", "");
    expect("B9", &(ending + &j), "n", &[0, 1], [0.125, 0.0, 0.458333, 0.0], -0.0125);
    let too_soon = rank("bin-pack", &(node("n", "ends_in_ms='3899s'", "", "") + &j), "j");
    assert_eq!(reasons(of(&too_soon, "n")), ["expiry"], "B9");
    expect("B10", &(node("n", "", "", "") + &j), "n", &[0, 1], [0.125, 0.0, 0.0, 0.0], 0.125);
    let placed = rank("bin-pack", &(node("n", "ends_in_ms='3900s'", "", "") + &j), "j");
    assert_eq!(placed.winner.unwrap().as_str(), "n", "B9: a negative best score is still placed");
}

#[test]
fn b4_to_b8_decisions_without_a_node() {
    let decide = |scenario: &str| rank("bin-pack", scenario, "j").decision;
    let flex = node("n", "ends_in_ms='24h'\ntier='FLEX'", "", "");
    match decide(&(flex + &job(2, 40))) {
        Decision::RequestMoreCapacity { tier, provider, reason, .. } => {
            assert_eq!(
                (tier, provider.unwrap().as_str(), reason),
                ("FAST".into(), "prime", Reason::NoCapacityNow),
                "B4"
            );
        }
        other => panic!("B4: {other:?}"),
    }
    let x = "[[jobs]]\nid='j'\ntier='FLEX'\ngpu_count=4\nvram_mib='40GiB'\ncpu_milli='16 cores'\nram_mib='128GiB'\nexpected_duration_ms='7200s'\n";
    match decide(&(node("n", DAY, "", "") + x)) {
        Decision::QueueForFlex { provider, .. } => assert_eq!(provider.unwrap().as_str(), "prime", "B5"),
        other => panic!("B5: {other:?}"),
    }
    match decide(&(node("n", DAY, "", "") + &job(10, 40))) {
        Decision::RequestMoreCapacity { provider, reason, detail, .. } => {
            assert_eq!((provider.unwrap().as_str(), reason), ("sfcompute", Reason::Unsatisfiable), "B6");
            assert_eq!(detail, "largest node has 8 GPUs; 10 asked; submit as a gang");
        }
        other => panic!("B6: {other:?}"),
    }
    let hundred_cores = job(2, 40).replace("'8 cores'", "'100 cores'");
    let ranking = rank("bin-pack", &(node("n", DAY, "", "") + &hundred_cores), "j");
    assert_eq!(reasons(of(&ranking, "n")), ["cpu"], "B7");
    assert!(
        matches!(ranking.decision, Decision::RequestMoreCapacity { reason: Reason::Unsatisfiable, .. }),
        "B7"
    );
    let ranking = rank("bin-pack", &(node("n", "ends_in_ms='300s'", "", "") + &job(2, 40)), "j");
    assert_eq!(reasons(of(&ranking, "n")), ["expiry"], "B8");
    assert!(
        matches!(ranking.decision, Decision::RequestMoreCapacity { reason: Reason::NoCapacityNow, .. }),
        "B8"
    );
}

#[test]
fn b11_b12_memory_in_use_counts() {
    let ranking =
        rank("bin-pack", &(node("a", DAY, &used([60; 8]), "") + &node("b", DAY, "", "") + &job(2, 40)), "j");
    assert_eq!(reasons(of(&ranking, "a")), ["gpu"]);
    assert_eq!(ranking.winner.unwrap().as_str(), "b");
    expect(
        "B12",
        &(node("n", DAY, &used([40; 8]), "") + &job(2, 40)),
        "n",
        &[0, 1],
        [0.625, 0.0, 0.0, 0.0],
        0.625,
    );
}

#[test]
fn b13_to_b19_device_sets() {
    let odd_full = node("n", DAY, &used([0, 80, 0, 80, 0, 80, 0, 80]), "");
    expect("B13 odd", &(odd_full + &job(2, 40)), "n", &[0, 2], [0.625, 0.5, 0.0, 0.0], 0.375);
    let upper_full = node("n", DAY, &used([0, 0, 0, 0, 80, 80, 80, 80]), "");
    expect("B13 upper", &(upper_full + &job(2, 40)), "n", &[0, 1], [0.625, 0.0, 0.0, 0.0], 0.625);
    let one_short = node("n", DAY, &used([0, 0, 40, 0, 0, 0, 0, 0]), "");
    expect("B14", &(one_short + &job(4, 60)), "n", &[0, 1, 3, 4], [0.4375, 0.25, 0.0, 0.0], 0.3125);

    let alternate = [false, true, false, true, false, true, false, true];
    let upper = [false, false, false, false, true, true, true, true];
    let two = node("a", DAY, &held(alternate), "") + &node("b", DAY, &held(upper), "") + &job(4, 40);
    expect("B15 a", &two, "a", &[0, 2, 4, 6], [0.5, 0.75, 0.0, 0.0], 0.125);
    expect("B15 b", &two, "b", &[0, 1, 2, 3], [0.5, 0.0, 0.0, 0.0], 0.5);
    assert_eq!(rank("bin-pack", &two, "j").winner.unwrap().as_str(), "b", "B15");
    let by_gaps = rank("bin-pack", &format!("{two}[policy.params]\nfragmentation_divisor='gaps'\n"), "j");
    near(raw(of(&by_gaps, "a"), "gpu-fragmentation"), 1.0, "B16");

    let three = node("a", PRIME, "", "")
        + &node("b", PRIME, &used([40; 8]), "")
        + &node("c", PRIME, &used([60; 8]), "")
        + &job(4, 20);
    let ranking = rank("bin-pack", &three, "j");
    for (id, want) in [("a", 0.145), ("b", 0.645), ("c", 0.895)] {
        near(of(&ranking, id).total.unwrap(), want, "B17");
    }
    assert_eq!(ranking.winner.unwrap().as_str(), "c", "B17");

    let scattered = node("n", DAY, &used([0, 80, 0, 0, 0, 0, 80, 80]), "") + &job(4, 40);
    expect("B18 first-fit", &scattered, "n", &[0, 2, 3, 4], [0.625, 0.25, 0.0, 0.0], 0.5);
    let window = format!("{scattered}[policy.params]\ndevice_choice='best-window'\n");
    expect("B18 best-window", &window, "n", &[2, 3, 4, 5], [0.625, 0.0, 0.0, 0.0], 0.625);

    let whole = node("n", DAY, "", "") + &job(8, 80);
    expect("B19", &whole, "n", &[0, 1, 2, 3, 4, 5, 6, 7], [1.0, 0.0, 0.0, 0.2], 1.04);
}

#[test]
fn b20_ties_end_at_the_id() {
    let ranking = rank("bin-pack", &(node("n2", DAY, "", "") + &node("n1", DAY, "", "") + &job(2, 40)), "j");
    assert_eq!(ranking.winner.as_ref().unwrap().as_str(), "n1");
    assert_eq!(ranking.margin.unwrap().decided_by.as_deref(), Some("order"));
}

#[test]
fn b21_a_shared_job_takes_a_device_with_room() {
    let gpus = "{vram_mib='80GiB',milli_committed=600},{vram_mib='80GiB',milli_committed=400,vram_committed_mib='40GiB'}";
    let scenario = node("n", DAY, gpus, "")
        + "[[jobs]]\nid='j'\ngpu_count=1\ngpu_milli=500\nvram_mib='20GiB'\nexpected_duration_ms='3600s'\n";
    let ranking = rank("bin-pack", &scenario, "j");
    assert_eq!(of(&ranking, "n").gpus, [1]);
    let mut situation = situation(&scenario);
    let spec = situation.job("j").unwrap().spec.clone();
    let id = situation.job("j").unwrap().id.clone();
    let node = &mut situation.nodes_mut()[0];
    node.place(landfall_model::Placement::of(id, &spec, &[1])).unwrap();
    let gpu = &node.gpus[1];
    assert_eq!((gpu.milli_free().get(), gpu.vram_in_use().get(), &gpu.holder), (100, 60 * 1024, &None));
}

const MIX: &str = "[[mix]]\nshare=0.5\ngpu_count=1\ngpu_milli=1000\ncpu_milli='8 cores'\n\
    [[mix]]\nshare=0.3\ngpu_count=1\ngpu_milli=500\ncpu_milli='4 cores'\n\
    [[mix]]\nshare=0.2\ngpu_count=2\ngpu_milli=1000\ncpu_milli='16 cores'\n";

#[test]
fn b35_the_gradient_prefers_the_started_device() {
    let scenario = format!(
        "{MIX}[[nodes]]\nid='n'\ncpu_milli='32 cores'\ngpus=[{{vram_mib='80GiB'}},{{vram_mib='80GiB',milli_committed=400}}]\n\
         [[jobs]]\nid='j'\ngpu_count=1\ngpu_milli=500\ncpu_milli='4 cores'\nexpected_duration_ms='3600s'\n"
    );
    let ranking = rank("fgd", &scenario, "j");
    let verdict = of(&ranking, "n");
    assert_eq!(verdict.gpus, [1]);
    near(fact(verdict, "fragmented_gpus_before"), 0.62, "F before");
    near(verdict.total.unwrap(), 0.32, "GPU 1");
    let first = format!("{scenario}[policy.params]\ndevice_choice='first-fit'\n");
    near(of(&rank("fgd", &first, "j"), "n").total.unwrap(), -0.15, "GPU 0");
    let scaled = format!("{scenario}[policy.params]\ngradient_scale='sigmoid100'\n");
    near(of(&rank("fgd", &scaled, "j"), "n").total.unwrap(), 57.0, "100/(1+e^-0.32), cut off");
}

#[test]
fn an_empty_mix_makes_all_nodes_equal() {
    let scenario = node("b", DAY, "", "") + &node("a", DAY, &used([40; 8]), "") + &job(2, 40);
    let ranking = rank("fgd", &scenario, "j");
    assert_eq!(ranking.winner.unwrap().as_str(), "a");
    assert!(ranking.candidates.iter().all(|verdict| verdict.total == Some(0.0)));
}

#[test]
fn what_is_kept_for_a_job_is_open_to_it_and_to_nobody_else() {
    let scenario =
        |keeps: &str| node("n", DAY, &format!("{{vram_mib='80GiB',hold='{keeps}'}}"), "") + &job(1, 40);
    assert_eq!(of(&rank("bin-pack", &scenario("j"), "j"), "n").gpus, [0]);
    assert_eq!(reasons(of(&rank("bin-pack", &scenario("other"), "j"), "n")), ["gpu"]);
    assert_eq!(reasons(of(&rank("balanced", &scenario("other"), "j"), "n")), ["held"]);
    assert!(of(&rank("balanced", &scenario("j"), "j"), "n").is_admitted());
}

#[test]
fn a_partitioned_device_is_no_whole_device() {
    let scenario = node("n", DAY, "{vram_mib='80GiB',slices={taken=[[3,0]]}}", "") + &job(1, 40);
    assert_eq!(reasons(of(&rank("bin-pack", &scenario, "j"), "n")), ["gpu"]);
}

#[test]
fn b37_a_job_that_asks_for_a_slice_gets_one() {
    let job = |slice: &str| format!("[[jobs]]\nid='j'\ngpu_slice='{slice}'\n");
    let cut = |taken: &str| format!("{{vram_mib='80GiB',slices={{taken=[{taken}]}}}}");
    for (taken, slice, start) in
        [("", "1g", 6.0), ("", "2g.20gb", 4.0), ("", "3g", 4.0), ("", "7g", 0.0), ("[3,4]", "3g", 0.0)]
    {
        let ranking = rank("bin-pack", &(node("n", DAY, &cut(taken), "") + &job(slice)), "j");
        assert_eq!(fact(of(&ranking, "n"), "slice_start"), start, "{slice} beside {taken}");
    }
    let memory = rank("bin-pack", &(node("n", DAY, &cut(""), "") + &job("2g")), "j");
    near(raw(of(&memory, "n"), "gpu-utilisation"), 0.25, "a quarter of the memory");
    // Filled before another is begun, and whole devices stay whole.
    let gpus = format!("{{vram_mib='80GiB'}},{},{}", cut(""), cut("[1,6]"));
    assert_eq!(of(&rank("bin-pack", &(node("n", DAY, &gpus, "") + &job("1g")), "j"), "n").gpus, [2]);
    for (gpus, slice) in [
        ("{vram_mib='80GiB'}".to_owned(), "1g"),
        (cut("[7,0]"), "1g"),
        (cut("[3,0],[3,4]"), "2g"),
        (cut(""), "1g.20gb"),
    ] {
        let ranking = rank("bin-pack", &(node("n", DAY, &gpus, "") + &job(slice)), "j");
        assert_eq!(reasons(of(&ranking, "n")), ["gpu"], "{slice} of {gpus}");
    }
    // What a driver shows as a slice is one, whatever else its name says.
    let shown = "{vram_mib=19968,model='NVIDIA A100-SXM4-80GB MIG 1g.20gb'}";
    let ranking = rank("fit", &(node("n", DAY, shown, "") + &job("1g.20gb")), "j");
    assert_eq!(of(&ranking, "n").gpus, [0]);
}

#[test]
fn nodes_take_what_they_do_not_say_from_their_block() {
    let scenario = "[[blocks]]\nid='k'\ngpus_per_node=8\nvram_mib_per_gpu='80GiB'\ncpu_milli_per_node='64 cores'\nram_mib_per_node='512GiB'\n\
        [[nodes]]\nid='n'\nblock='k'\n"
        .to_owned()
        + &job(2, 40);
    expect("B10", &scenario, "n", &[0, 1], [0.125, 0.0, 0.0, 0.0], 0.125);
}

#[test]
fn requests_follow_the_parameters_of_the_policy() {
    let decide = |count: u32, params: &str| {
        let scenario = format!("{}[policy.params]\n{params}\n", job(count, 40));
        match rank("bin-pack", &scenario, "j").decision {
            Decision::RequestMoreCapacity { provider, reason, .. } => (provider.unwrap().to_string(), reason),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(decide(5, ""), ("prime".into(), Reason::NoCapacityNow));
    assert_eq!(decide(5, "large_job_gpus = 4"), ("sfcompute".into(), Reason::NoCapacityNow));
    assert_eq!(decide(5, "safety_margin_ms = 3000000000"), ("prime".into(), Reason::Unsatisfiable));
}

#[test]
fn refusals_carry_needed_found_and_total() {
    let ranking =
        rank("bin-pack", &(node("n", DAY, "", "cpu_committed_milli='60 cores'") + &job(2, 40)), "j");
    let refusal = &of(&ranking, "n").refusals[0].refusal;
    let shown = [&refusal.needed, &refusal.found, refusal.total.as_ref().unwrap()].map(ToString::to_string);
    assert_eq!(shown, ["8 cores", "4 cores", "64 cores"]);
}

#[test]
fn the_gradient_chooses_devices_whatever_its_weight() {
    let scenario = "[[mix]]\nshare=0.5\ngpu_count=1\ngpu_milli=500\n[[mix]]\nshare=0.3\ngpu_count=2\n\
        [[nodes]]\nid='n'\ncpu_milli=64000\ngpus=[{},{milli_committed=1}]\n\
        [[jobs]]\nid='j'\ngpu_count=1\ngpu_milli=501\n[policy.params]\ndevice_choice='gradient'\n";
    for weight in ["0.0", "1.0", "-1.0"] {
        let ranking = rank("bin-pack", &format!("{scenario}w_gradient={weight}\n"), "j");
        assert_eq!(of(&ranking, "n").gpus, [1], "weight {weight}");
    }
}

#[test]
fn a_node_may_have_less_than_its_block() {
    let scenario = "[[blocks]]\nid='k'\ncpu_milli_per_node=64000\nram_mib_per_node=1000\nvram_mib_per_gpu='80GiB'\n\
        [[nodes]]\nid='n'\nblock='k'\ncpu_milli=0\ngpus=[{index=0}]\n\
        [[jobs]]\nid='j'\ncpu_milli=8000\n[[jobs]]\nid='g'\nvram_mib='80GiB'\n";
    assert_eq!(reasons(of(&rank("bin-pack", scenario, "j"), "n")), ["cpu"]);
    assert_eq!(of(&rank("bin-pack", scenario, "g"), "n").gpus, [0]);
}
