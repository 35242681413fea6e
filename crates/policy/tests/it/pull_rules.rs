//! The acceptance cases of pull dispatch, by number, from P23 on. P1 to P22 are about single rules and stand beside them.

use landfall_model::reason::Reason;
use landfall_model::scenario::{Format, parse};
use landfall_model::{Bytes, HistoryRow, Mib, Millis, PolicySetting, Prediction, Situation, WorkloadId};
use landfall_policy::rules::pull::{Ewma, RequiredInput, disk_mb_s, is_due, network_mbit_s, report};
use landfall_policy::rules::window::or_else;
use landfall_policy::verdict::{Ranking, Verdict};
use landfall_policy::{Policy, builtin, catalogue, policy_file};

const NOW_MS: i64 = 100_000_000;

fn scenario(text: &str) -> Situation {
    parse(text, Format::Toml).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Ranks the jobs of a scenario for its node `n` under a built-in policy with a preset.
fn rank(policy: &str, preset: &str, text: &str) -> Ranking {
    let mut setting = PolicySetting::default();
    setting.params.insert("preset".into(), preset.into());
    let (policy, warning) = builtin::pool_policy_with(policy, &setting).unwrap();
    assert_eq!(warning, None);
    rank_with(&policy, text)
}

fn rank_with(policy: &Policy, text: &str) -> Ranking {
    let situation = scenario(&format!("now_ms = {NOW_MS}\n{text}"));
    policy.rank_jobs(&situation, situation.node("n").unwrap())
}

fn verdict<'r>(ranking: &'r Ranking, job: &str) -> &'r Verdict {
    ranking.candidates.iter().find(|verdict| verdict.candidate.as_str() == job).unwrap()
}

#[track_caller]
fn total_is(ranking: &Ranking, job: &str, want: f64) {
    let verdict = verdict(ranking, job);
    let (total, sum) =
        (verdict.total.unwrap(), verdict.terms.iter().map(|term| term.contribution).sum::<f64>());
    assert!((total - want).abs() <= 1e-6, "{job}: got {total}, want {want}");
    assert!((total - sum).abs() <= 1e-6, "{job}: the parts sum to {sum}");
}

fn winner(ranking: &Ranking) -> Option<&str> {
    ranking.winner.as_ref().map(|winner| winner.as_str())
}

#[test]
fn p23_simple_sums_seven_rules() {
    let ranking = rank(
        "simple",
        "documented",
        "nodes = [{ id = 'n', architectures = ['x86_64'] }]
         jobs = [{ id = 'j', architecture = 'x86_64', dependents = 2 }]
         reports = [{ job = 'j', node = 'n', missing_inputs = 0, missing_bytes = 0 }]",
    );
    assert_eq!(verdict(&ranking, "j").terms.len(), 7);
    total_is(&ranking, "j", 755.0);
    assert_eq!(winner(&ranking), Some("j"));
}

const FRESH_AND_OLD: &str = "
    nodes = [{ id = 'n', architectures = ['x86_64'] }]
    jobs = [{ id = 'fresh', architecture = 'x86_64' },
            { id = 'old', architecture = 'x86_64', ready_at_ms = 96_400_000 }]
    reports = [{ job = 'fresh', node = 'n', missing_inputs = 0, missing_bytes = 0 }]";

#[test]
fn p24_documented_a_long_wait_outgrows_the_hold() {
    let ranking = rank("simple", "documented", FRESH_AND_OLD);
    total_is(&ranking, "fresh", 750.0);
    total_is(&ranking, "old", 2650.0);
    assert_eq!(winner(&ranking), Some("old"));
}

#[test]
fn p24_upstream_a_veto_holds_and_blocks_nobody() {
    let ranking = rank("simple", "upstream", FRESH_AND_OLD);
    total_is(&ranking, "fresh", 750.0);
    total_is(&ranking, "old", 3650.0);
    assert_eq!(winner(&ranking), Some("fresh"));
    assert_eq!(verdict(&ranking, "old").vetoes, ["RescoreWaitRule"]);
    assert_eq!(ranking.candidates[0].candidate.as_str(), "old", "the record keeps the order of totals");
}

#[test]
fn p25_real_work_goes_before_builtin_work() {
    let ranking = rank(
        "simple",
        "documented",
        "nodes = [{ id = 'n', architectures = ['x86_64'] }]
         jobs = [{ id = 'builtin' }, { id = 'real', architecture = 'x86_64' }]
         reports = [{ job = 'real', node = 'n', missing_inputs = 0, missing_bytes = 0 },
                    { job = 'builtin', node = 'n', missing_inputs = 5, missing_bytes = 50_000_000 }]",
    );
    total_is(&ranking, "real", 750.0);
    total_is(&ranking, "builtin", 663.358468);
    assert_eq!(winner(&ranking), Some("real"));
}

#[test]
fn p26_a_job_too_large_for_a_full_node_is_not_dispatched() {
    let ranking = rank(
        "resource-aware",
        "documented",
        "workloads = [{ id = 'w', prediction = { samples = 5, predicted_peak_ram_mib = 4000 } }]
         nodes = [{ id = 'n', architectures = ['x86_64'],
                    metrics = { ram_free_mib = 700, ram_total_mib = 8000, cpu_usage_pct = 20.0 } }]
         jobs = [{ id = 'j', workload = 'w', architecture = 'x86_64', ready_at_ms = 99_980_000 }]
         reports = [{ job = 'j', node = 'n', missing_inputs = 0, missing_bytes = 0 }]",
    );
    let verdict = verdict(&ranking, "j");
    assert_eq!(verdict.terms.len(), 12);
    let wants = [
        ("MissingPathsRule", 200.0),
        ("MissingNarSizeRule", 500.0),
        ("WaitTimeRule", 20.0),
        ("BuiltinDeprioritizeRule", 50.0),
        ("ResourceFitRule", -800.0),
        ("ResourceSaturationRule", -2000.0),
    ];
    for term in &verdict.terms {
        let want = wants.iter().find(|(name, _)| *name == term.term).map_or(0.0, |(_, want)| *want);
        assert!((term.raw - want).abs() <= 1e-6, "{}: got {}, want {want}", term.term, term.raw);
    }
    total_is(&ranking, "j", -2030.0);
    assert_eq!(winner(&ranking), None);
}

#[test]
fn p27_an_unknown_policy_falls_back_with_one_warning() {
    for name in ["simple", "resource-aware"] {
        let (policy, warning) = builtin::pool_policy(name);
        assert_eq!((policy.name(), warning), (name, None));
    }
    let (policy, warning) = builtin::pool_policy("nonsense");
    assert_eq!(policy.name(), "resource-aware");
    assert!(warning.unwrap().contains("nonsense"));
}

#[test]
fn p27_an_unknown_rule_in_a_policy_file_is_an_error() {
    let text = "name = 'mine'\ndescription = 'Mine.'\n[[terms]]\nname = 'NonsenseRule'\n";
    assert!(policy_file::load(text).unwrap_err().message.contains("NonsenseRule"));
}

#[test]
fn p28_the_catalogue() {
    let (plain, all) = (catalogue::pull_rules(false), catalogue::pull_rules(true));
    assert_eq!((plain.len(), all.len()), (12, 13));
    assert!(all.is_sorted_by_key(|rule| rule.rule) && plain.is_sorted_by_key(|rule| rule.rule));
    assert!(all.iter().all(|rule| !rule.rule.is_empty() && !rule.description.is_empty()));
    assert!(plain.iter().all(|rule| rule.enabled));
    let off: Vec<_> = all.iter().filter(|rule| !rule.enabled).map(|rule| rule.rule).collect();
    assert_eq!(off, ["FairShareRule"]);
}

#[test]
fn p29_ties_go_to_the_lower_id_and_the_floor_is_the_limit() {
    let policy = policy_file::load(
        "name = 'p29'\ndescription = 'Ten points for what is measured.'\n[params]\ndispatch_floor = 0.0\n\
         [[terms]]\nname = 'MissingNarSizeRule'\nparams = { points_max = 10 }\n\
         [[terms]]\nname = 'RescoreWaitRule'\nparams = { hold_penalty = 0.5 }\n",
    )
    .unwrap();
    let ranking = rank_with(
        &policy,
        "nodes = [{ id = 'n' }]
         jobs = [{ id = 'j2' }, { id = 'j1' }, { id = 'j3' }]
         reports = [{ job = 'j1', node = 'n', missing_bytes = 0 }, { job = 'j2', node = 'n', missing_bytes = 0 }]",
    );
    for (job, want) in [("j1", 10.0), ("j2", 10.0), ("j3", -0.5)] {
        total_is(&ranking, job, want);
    }
    assert_eq!(winner(&ranking), Some("j1"));
    let alone = rank_with(&policy, "nodes = [{ id = 'n' }]\njobs = [{ id = 'j3' }]");
    assert_eq!(winner(&alone), None, "below the floor");
}

const FIFTY: &str = "
    nodes = [{ id = 'n', architectures = ['x86_64'],
               metrics = { ram_free_mib = 9000, ram_total_mib = 9000, disk_mb_s = 100.0 } }]
    jobs = [{ id = 'j', count = 50, workload = 'w', architecture = 'x86_64',
              inputs = [{ digest = 'd', bytes = 5000 }] }]
    history = [{ workload = 'w', input_bytes = 5000, peak_ram_mib = 100 }]";

#[test]
fn p30_simple_looks_nothing_up() {
    let lazy = rank("simple", "documented", FIFTY).lazy;
    assert_eq!((lazy.history, lazy.inputs_total_bytes, lazy.tenant_work_share), (0, 0, 0));
    let (policy, _) = builtin::pool_policy("simple");
    assert!(
        !policy.reads().history && !policy.reads().inputs_total_bytes && !policy.reads().tenant_work_share
    );
}

#[test]
fn p30_resource_aware_looks_each_history_up_once() {
    let lazy = rank("resource-aware", "documented", FIFTY).lazy;
    assert_eq!((lazy.history, lazy.tenant_work_share), (1, 0), "one workload and size; FairShareRule is off");
    let (policy, _) = builtin::pool_policy("resource-aware");
    assert!(policy.reads().history && !policy.reads().tenant_work_share);
}

#[test]
fn p31_a_measured_zero_is_a_value() {
    assert_eq!([Some(5.0), Some(0.0), None].map(|window| or_else(window, 9.0)), [5.0, 0.0, 9.0]);
}

#[test]
fn p32_architectures_and_features() {
    let ranking = rank(
        "resource-aware",
        "documented",
        "nodes = [{ id = 'n', architectures = ['x86_64', 'aarch64'], features = ['kvm'] }]
         jobs = [{ id = 'x86', architecture = 'x86_64' },
                 { id = 'riscv', architecture = 'riscv64' },
                 { id = 'builtin', architecture = 'builtin' },
                 { id = 'parallel', architecture = 'x86_64', features = ['kvm', 'big-parallel'] }]",
    );
    let reasons = |job| verdict(&ranking, job).refusals.iter().map(|r| r.refusal.reason).collect::<Vec<_>>();
    assert!(reasons("x86").is_empty() && reasons("builtin").is_empty());
    assert_eq!(reasons("riscv"), [Reason::Architecture]);
    assert_eq!(reasons("parallel"), [Reason::Feature]);
}

#[test]
fn p33_a_draining_node_gets_nothing_of_either_kind() {
    let jobs = "jobs = [{ id = 'b' }, { id = 'e', kind = 'eval' }]";
    let ranking =
        rank("simple", "documented", &format!("nodes = [{{ id = 'n', state = 'draining' }}]\n{jobs}"));
    assert!(ranking.candidates.iter().all(|verdict| verdict.refusals[0].refusal.reason == Reason::Draining));
    assert_eq!(winner(&ranking), None);
}

#[test]
fn p35_history_bucket() {
    assert_eq!(Prediction::bucket(Bytes::new(4 << 20)), 2);
    assert_eq!(Prediction::bucket_range(2), (2_097_152, 16_777_215));
}

#[test]
fn p36_history_rows() {
    let row = |peak: Option<u64>, cpu: Option<u64>, oom| HistoryRow {
        workload: WorkloadId::new("w").unwrap(),
        input_bytes: None,
        peak_ram_mib: peak.map(Mib::new),
        cpu_time_ms: cpu.map(Millis::new),
        build_time_ms: None,
        disk_bytes: Bytes::ZERO,
        oom,
        finished_at_ms: None,
        tenant: None,
        failed: false,
    };
    let rows = [row(Some(100), Some(1000), false), row(Some(300), Some(3000), true), row(None, None, false)];
    let got = Prediction::from_rows(rows.iter(), None);
    assert_eq!((got.samples, got.predicted_peak_ram_mib.get(), got.avg_cpu_time_ms.get()), (3, 300, 2000));
    assert!((got.oom_rate - 0.333333).abs() <= 1e-6);
}

#[test]
fn p37_eval_peaks() {
    let got = Prediction::from_eval_peaks([1000, 2000, 3000, 4000, 5000].map(Mib::new).to_vec());
    assert_eq!((got.predicted_peak_ram_mib.get(), got.samples), (4800, 5));
}

#[test]
fn p38_ewma() {
    let mean = |samples: &[f64]| {
        let mut mean = Ewma::default();
        samples.iter().for_each(|&sample| mean.add(sample));
        mean.value()
    };
    assert_eq!((mean(&[]), mean(&[100.0])), (None, Some(100.0)));
    assert!((mean(&[100.0, 200.0]).unwrap() - 130.0).abs() <= 1e-6);
    assert_eq!(mean(&[100.0, 0.0, -5.0, f64::NAN]), Some(100.0));
}

#[test]
fn p39_samples() {
    assert!((network_mbit_s(Bytes::new(125_000_000), 2_000_000) - 500.0).abs() <= 1e-6);
    let gib = Bytes::new(1 << 30);
    assert!((disk_mb_s(gib, gib, Millis::secs(40)).unwrap() - 51.2).abs() <= 1e-6);
}

#[test]
fn p40_node_report() {
    let input =
        |present, bytes: Option<u64>| RequiredInput { present: Some(present), bytes: bytes.map(Bytes::new) };
    let got = report([input(true, Some(100)), input(false, Some(200)), input(false, None)]);
    assert_eq!((got.missing_inputs, got.missing_bytes), (Some(2), Some(200)));
    let none = report([]);
    assert_eq!((none.missing_inputs, none.missing_bytes), (Some(0), Some(0)));
}

#[test]
fn p41_back_off() {
    let due = |attempt, secs| is_due(Millis::secs(30), attempt, Millis::secs(secs));
    assert_eq!([due(1, 29), due(1, 30), due(2, 59), due(2, 60)], [false, true, false, true]);
}
