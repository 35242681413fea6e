//! The acceptance cases of pull dispatch, by number: single rules as a table, whole policies as scenarios.

use landfall_model::reason::Reason;
use landfall_model::scenario::{Format, parse};
use landfall_model::{Bytes, HistoryRow, Mib, Millis, PolicySetting, Prediction, Situation, WorkloadId};
use landfall_policy::rules::pull::{Ewma, RequiredInput, disk_mb_s, is_due, network_mbit_s, report};
use landfall_policy::rules::window::or_else;
use landfall_policy::verdict::{Ranking, Verdict};
use landfall_policy::{Policy, builtin, catalogue, policy_file};

/// One rule, scored for one job and one node.
struct Row {
    case: &'static str,
    rule: &'static str,
    /// Parameters of the policy.
    params: &'static str,
    /// Fields of the job `j`.
    job: &'static str,
    /// Fields of the node `n`.
    node: &'static str,
    /// What the node reports for the job.
    report: &'static str,
    instance: &'static str,
    history: &'static str,
    /// Work share of the job's tenant.
    tenant: &'static str,
    want: f64,
}

/// A real build on a node with architectures about which nothing else is known.
const ROW: Row = Row {
    case: "",
    rule: "",
    params: "",
    job: REAL,
    node: ARCH,
    report: "",
    instance: "",
    history: "",
    tenant: "",
    want: 0.0,
};

const NOW_MS: i64 = 100_000_000;
const REAL: &str = "architecture = 'x86_64'";
const BUILTIN: &str = "architecture = 'builtin'";
const ARCH: &str = "architectures = ['x86_64']";
const NO_ARCH: &str = "architectures = []";
const UPSTREAM: &str = "preset = 'upstream'";

fn scenario(text: &str) -> Situation {
    parse(text, Format::Toml).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

impl Row {
    fn situation(&self) -> Situation {
        let table = |name: &str, fields: &str| match fields {
            "" => String::new(),
            fields => format!("{name} = {{ {fields} }}"),
        };
        let reports = match self.report {
            "" => String::new(),
            fields => format!("[[reports]]\njob = 'j'\nnode = 'n'\n{fields}"),
        };
        scenario(&format!(
            "now_ms = {NOW_MS}\n{}\n[[tenants]]\nid = 't'\n{}\n[[workloads]]\nid = 'w'\n{}\n\
             [[nodes]]\nid = 'n'\n{}\n[[jobs]]\nid = 'j'\nworkload = 'w'\ntenant = 't'\n{}\n{reports}\n",
            table("instance", self.instance),
            self.tenant,
            table("prediction", self.history),
            self.node,
            self.job,
        ))
    }

    fn check(&self) {
        let policy = policy_file::load(&format!(
            "name = 'one'\ndescription = 'One rule.'\n[params]\n{}\n[[terms]]\nname = '{}'\n",
            self.params, self.rule
        ))
        .unwrap();
        let situation = self.situation();
        let ranking = policy.rank_jobs(&situation, situation.node("n").unwrap());
        let score = ranking.candidates[0].term(self.rule).unwrap();
        let what = format!("{} {}: {} on {}", self.case, self.rule, self.job, self.node);
        assert!((score.raw - self.want).abs() <= 1e-6, "{what}: got {}, want {}", score.raw, self.want);
        assert!(!score.veto, "{what}: a veto");
    }
}

fn check(case: &'static str, rule: &'static str, rows: impl IntoIterator<Item = Row>) {
    for row in rows {
        Row { case, rule, ..row }.check();
    }
}

#[test]
fn p1_p2_missing_paths() {
    let row = |report, want| Row { report, want, instance: "missing_inputs.h1 = 10.0", ..ROW };
    let rows = [
        row("missing_inputs = 0", 200.0),
        row("missing_inputs = 2", 180.0),
        row("missing_inputs = 10", 100.0),
        row("missing_inputs = 20", 0.0),
        row("", 0.0),
    ];
    check("P1", "MissingPathsRule", rows);
    let row = |report, want| Row { report, want, instance: "missing_inputs.h1 = 0.0", ..ROW };
    check("P2", "MissingPathsRule", [row("missing_inputs = 0", 200.0), row("missing_inputs = 1", 0.0)]);
}

#[test]
fn p3_missing_nar_size() {
    let row = |report, want| Row { report, want, instance: "missing_mib.h1 = 100.0", ..ROW };
    let rows = [
        row("", 0.0),
        row("missing_bytes = 0", 500.0),
        row("missing_bytes = '100MiB'", 250.0),
        row("missing_bytes = 100000000000", 0.0),
    ];
    check("P3", "MissingNarSizeRule", rows);
}

#[test]
fn p4_builtin_deprioritize() {
    let row = |job, node, want| Row { job, node, want, ..ROW };
    let rows = [
        row(REAL, ARCH, 50.0),
        row(BUILTIN, ARCH, 0.0),
        row(BUILTIN, NO_ARCH, 100.0),
        row("kind = 'eval'", NO_ARCH, 0.0),
    ];
    check("P4", "BuiltinDeprioritizeRule", rows);
}

#[test]
fn p5_dependency_count() {
    let row = |job, want| Row { job, want, instance: "dependency_count.h1 = 10.0", ..ROW };
    let rows = [
        row("dependents = 0", 0.0),
        row("dependents = 1", 2.5),
        row("dependents = 15", 37.5),
        row("dependents = 100000", 50.0),
        row("kind = 'eval'\ndependents = 5", 0.0),
    ];
    check("P5", "DependencyCountRule", rows);
}

#[test]
fn p6_p7_wait_time() {
    let row = |job, want| Row { job, want, ..ROW };
    let rows = [
        row("ready_at_ms = 100_000_000", 0.0),
        row("ready_at_ms = 99_940_000", 60.0),
        row("ready_at_ms = 96_400_000", 3600.0),
        row("ready_at_ms = 90_000_000", 4000.0),
    ];
    check("P6", "WaitTimeRule", rows);
    check("P7", "WaitTimeRule", [row("ready_at_ms = 99_940_001", 59.0)]);
}

#[test]
fn p8_rescore_wait() {
    let row = |job, report, want| Row { job, report, want, ..ROW };
    let rows = [
        row("rescore_count = 0", "", -1000.0),
        row("rescore_count = 3", "", -1000.0),
        row("rescore_count = 4", "", 0.0),
        row("rescore_count = 0", "missing_bytes = 10", 0.0),
        row("kind = 'eval'", "", 0.0),
    ];
    check("P8", "RescoreWaitRule", rows);
}

#[test]
fn p9_reserve_fetch_workers() {
    let job = "kind = 'eval'\nevaluate_task = true";
    let row = |instance, want| Row { job, node: "fetch = true\neval = true", instance, want, ..ROW };
    let rows = [
        row("total_nodes = 4, idle_nodes = 0", -300.0),
        row("total_nodes = 4, idle_nodes = 2", -150.0),
        row("total_nodes = 4, idle_nodes = 4", 0.0),
        row("total_nodes = 0", -300.0),
    ];
    check("P9", "ReserveFetchWorkersRule", rows);
}

#[test]
fn p10_to_p14_resource_fit() {
    const FREE_1000: &str = "metrics = { ram_free_mib = 1000 }";
    let row = |node, history, want| Row { node, history, want, ..ROW };
    let rows = [
        row(FREE_1000, "samples = 5, predicted_peak_ram_mib = 1000", 0.0),
        row(FREE_1000, "samples = 5, predicted_peak_ram_mib = 1500", -200.0),
        row(FREE_1000, "samples = 5, predicted_peak_ram_mib = 3000", -800.0),
        row(FREE_1000, "samples = 5, predicted_peak_ram_mib = 9000", -800.0),
    ];
    check("P10", "ResourceFitRule", rows);
    let worst = row(
        "metrics = { ram_free_mib = 100 }",
        "samples = 5, predicted_peak_ram_mib = 1000000, oom_rate = 1.0",
        -3200.0,
    );
    check("P11", "ResourceFitRule", [Row { instance: "oom_rate.h1 = 1.0", ..worst }]);
    const HEAVY: &str = "samples = 5, avg_cpu_time_ms = 120000";
    let rows = [
        row("metrics = { cpu_core_score = 1500 }", HEAVY, 75.0),
        row("metrics = { cpu_core_score = 100000 }", HEAVY, 100.0),
    ];
    check("P12", "ResourceFitRule", rows);
    let eval = |node, want| Row {
        job: "kind = 'eval'",
        node,
        history: "samples = 5, predicted_peak_ram_mib = 40000",
        want,
        ..ROW
    };
    let rows =
        [eval("metrics = { ram_free_mib = 16000 }", -600.0), eval("metrics = { ram_free_mib = 64000 }", 0.0)];
    check("P13", "ResourceFitRule", rows);
    const LARGE: &str = "samples = 5, predicted_peak_ram_mib = 64000";
    let rows = [
        row("metrics = { ram_free_mib = 100 }", "samples = 0, predicted_peak_ram_mib = 9000", 0.0),
        row(ARCH, LARGE, 0.0),
        row("metrics = { ram_total_mib = 8000 }", LARGE, 0.0),
        row("metrics = { ram_free_mib = 0 }", LARGE, 0.0),
    ];
    check("P14", "ResourceFitRule", rows);
}

#[test]
fn p15_to_p18_resource_saturation() {
    const BUSY_85: &str = "metrics = { cpu_usage_pct = 85.0, ram_free_mib = 8000, ram_total_mib = 16000 }";
    const IDLE: &str = "metrics = { cpu_usage_pct = 10.0, ram_free_mib = 8000, ram_total_mib = 16000 }";
    let row = |node, want| Row { node, want, ..ROW };
    let rows = [
        row("metrics = { cpu_usage_pct = 95.0, ram_free_mib = 8000, ram_total_mib = 16000 }", -1000.0),
        row("metrics = { cpu_usage_pct = 10.0, ram_free_mib = 800, ram_total_mib = 16000 }", -1000.0),
        row(IDLE, 0.0),
        row(BUSY_85, 0.0),
    ];
    check("P15", "ResourceSaturationRule", rows);
    let upstream = |job, node, want| Row { params: UPSTREAM, job, node, want, ..ROW };
    let busy_92 = "metrics = { cpu_usage_pct = 92.0, ram_free_mib = 8000, ram_total_mib = 16000 }";
    let rows = [
        upstream(REAL, BUSY_85, -1000.0),
        upstream(BUILTIN, BUSY_85, 0.0),
        upstream(BUILTIN, busy_92, -1000.0),
    ];
    check("P16", "ResourceSaturationRule", rows);
    let predicted =
        |node, want| Row { node, want, history: "samples = 5, predicted_peak_ram_mib = 10000", ..ROW };
    let rows = [
        predicted(IDLE, -1000.0),
        predicted("metrics = { cpu_usage_pct = 10.0, ram_free_mib = 12000, ram_total_mib = 32000 }", 0.0),
        predicted("metrics = { cpu_usage_pct = 99.0, ram_free_mib = 8000, ram_total_mib = 16000 }", -2000.0),
    ];
    check("P17", "ResourceSaturationRule", rows);
    let before = Row {
        node: "metrics = { ram_total_mib = 16000 }",
        history: "samples = 5, predicted_peak_ram_mib = 64000",
        ..ROW
    };
    check("P18", "ResourceSaturationRule", [before]);
}

#[test]
fn p19_prefer_local_build() {
    let row = |report, want| Row { job: "prefer_local = true", report, want, ..ROW };
    let rows = [
        row("missing_inputs = 0", 150.0),
        row("missing_inputs = 2", 110.0),
        row("missing_inputs = 8", 0.0),
        row("", 0.0),
        Row { job: REAL, ..row("missing_inputs = 0", 0.0) },
    ];
    check("P19", "PreferLocalBuildRule", rows);
}

#[test]
fn p20_network_affinity() {
    let row = |node, want| Row { job: "network_bound = true", node, want, ..ROW };
    let rows = [
        row("metrics = { network_mbit_s = 100.0 }", 80.0),
        row("metrics = { network_mbit_s = 10.0 }", 8.0),
        row("metrics = { cpu_count = 1 }", 0.0),
        Row { job: REAL, ..row("metrics = { network_mbit_s = 100.0 }", 0.0) },
    ];
    check("P20", "NetworkAffinityRule", rows);
}

#[test]
fn p21_disk_affinity() {
    const FAST: &str = "metrics = { disk_mb_s = 500.0 }";
    let row = |node, history, want| Row { node, history, want, ..ROW };
    let rows = [
        row(FAST, "samples = 5, avg_disk_bytes = '500MiB'", 60.0),
        row("metrics = { disk_mb_s = 50.0 }", "samples = 5, avg_disk_bytes = '500MiB'", 6.0),
        row(FAST, "samples = 5, avg_disk_bytes = '1MiB'", 0.0),
        row(FAST, "samples = 0, avg_disk_bytes = '500MiB'", 0.0),
    ];
    check("P21", "DiskAffinityRule", rows);
}

#[test]
fn p22_fair_share() {
    let row = |tenant, instance, want| Row { tenant, instance, want, ..ROW };
    let rows = [
        row("work_share = 1.0", "spare_slots = 0", -500.0),
        row("work_share = 0.01", "spare_slots = 0", -5.0),
        row("", "spare_slots = 0", 0.0),
        row("work_share = 1.0", "spare_slots = 1", 0.0),
    ];
    check("P22", "FairShareRule", rows);
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
