//! Acceptance cases of batch scheduling up to B16 and B38 to B40: whole scores, profiles, usage and fingerprints, read from
//! the verdicts of a ranking, so what is checked is what decides. Cases about one factor stand beside it.

use landfall_model::fingerprint::Inputs;
use landfall_model::scenario::{Format, parse};
use landfall_model::{JobId, JobSpec, Millis, Node, Situation};
use landfall_policy::rules::snapshot::Backlog;
use landfall_policy::rules::usage::Decayed;
use landfall_policy::term::TermKind;
use landfall_policy::verdict::{Fact, Verdict};
use landfall_policy::{Policy, PolicyError, builtin, policy_file};

const PROFILES: [&str; 8] = [
    "balanced",
    "hpc-batch",
    "ml-training",
    "service",
    "sensitive",
    "interactive",
    "service-lite",
    "interactive-lite",
];

#[track_caller]
fn close(got: f64, want: f64) {
    assert!((got - want).abs() < 1e-6, "{got} is not {want}");
}

fn situation(text: &str) -> Situation {
    parse(text, Format::Toml).unwrap_or_else(|error| panic!("{error:?} in\n{text}"))
}

/// The policy that a scenario names, with the changes it asks for.
fn try_policy(situation: &Situation) -> Result<Policy, PolicyError> {
    let setting = &situation.world.policy;
    let name = setting.name.as_ref().map_or("balanced", |name| name.as_str());
    let mut spec = policy_file::parse(builtin::text(name).unwrap()).unwrap();
    spec.apply(setting).unwrap();
    Policy::compile(spec)
}

fn admitted(verdict: &Verdict) -> &Verdict {
    assert!(verdict.is_admitted(), "{:?}", verdict.refusals);
    verdict
}

/// The verdict on the job `j` when jobs are ranked for the first node.
fn in_queue(text: &str) -> Verdict {
    let situation = situation(text);
    let ranking = try_policy(&situation).unwrap().rank_jobs(&situation, &situation.nodes()[0]);
    admitted(ranking.candidates.iter().find(|verdict| verdict.candidate.as_str() == "j").unwrap()).clone()
}

/// The verdict on the first node when nodes are ranked for the job `j`.
fn on_first_node(text: &str) -> Verdict {
    let situation = situation(text);
    let ranking = try_policy(&situation).unwrap().rank_nodes(&situation, situation.job("j").unwrap());
    let first = situation.nodes()[0].id.as_str();
    admitted(ranking.candidates.iter().find(|verdict| verdict.candidate.as_str() == first).unwrap()).clone()
}

fn raw(verdict: &Verdict, term: &str) -> f64 {
    verdict.term(term).unwrap_or_else(|| panic!("no term {term}")).raw
}

/// The value of a factor for one idle node and the job given.
fn factor(term: &str, job: &str, rest: &str) -> f64 {
    let text = format!("nodes = [{{ id = \"n\" }}]\njobs = [{{ id = \"j\"{job} }}]\n{rest}");
    raw(&in_queue(&text), term)
}

/// Nodes of groups written as (name, free nodes, busy nodes), all with fingerprint P.
fn nodes(rows: &[(&str, usize, usize)], more: &str) -> String {
    let mut text = String::new();
    for (group, free, busy) in rows {
        for at in 0..free + busy {
            let placements =
                if at < *free { "" } else { r#", placements = [{ job = "x", exclusive = true }]"# };
            text += &format!(
                r#"{{ id = "{group}{at}", group = "{group}", fingerprint = "P"{more}{placements} }},"#
            );
        }
    }
    format!("nodes = [{text}]\n")
}

#[test]
fn b4_decayed_usage() {
    const WEEK: Millis = Millis::secs(7 * 86_400);
    let tenant = Decayed::default().after(WEEK, 10.0, WEEK).after(WEEK, 0.0, WEEK);
    let pool = Decayed::default().after(WEEK, 20.0, WEEK).after(WEEK, 20.0, WEEK);
    close(tenant.share_of(pool), 0.166_667);
    assert_eq!(tenant.share_of(Decayed::default()), 0.0);
}

#[test]
fn b5_both_stages_are_shown_when_nodes_are_ranked() {
    let rows = [("a", 1, 0), ("b", 1, 0), ("c", 1, 0), ("d", 1, 0)];
    let text = format!("{}jobs = [{{ id = \"j\" }}]", nodes(&rows, ""));
    let text = text.replacen(" },", ", memory_domains = [{ cpus = 8 }, { cpus = 2 }] },", 1);
    let verdict = on_first_node(&text);
    close(raw(&verdict, "topology"), 0.785);
    assert!(matches!(verdict.facts.get("topology_queue"), Some(Fact::Number(x)) if *x < 0.785));
    assert_eq!(verdict.facts.get("conformance_set"), Some(&Fact::Number(1.0)));
    let situation = situation(&text);
    let ranking = try_policy(&situation).unwrap().rank_nodes(&situation, &situation.jobs()[0]);
    assert_eq!(ranking.winner.unwrap().as_str(), "a0");
    assert_eq!(ranking.margin.unwrap().deciding_term.as_deref(), Some("topology"));
}

#[test]
fn b9_backlog() {
    for (queued, running, want) in
        [(0, 100, 0.0), (200, 100, 1.0), (28, 96, 0.291_667), (5, 0, 1.0), (0, 0, 0.0)]
    {
        let backlog = format!("backlog = {{ queued_gpu_hours = {queued}, running_gpu_hours = {running} }}");
        close(factor("backlog", "", &backlog), want);
    }
    let queued = situation(
        r#"jobs = [
            { id = "a", nodes = 4, gpu_count = 4, walltime_ms = "2h" },
            { id = "b", nodes = 2, gpu_count = 4, walltime_ms = "8h" },
        ]"#,
    );
    close(Backlog::of(queued.jobs()).hours(true), 96.0);
    let running = situation(
        r#"nodes = [{ id = "n", count = 2, gpus = [{ count = 4 }],
            placements = [{ job = "x", gpus = [0, 1, 2, 3], exclusive = true, walltime_ms = "30min" }] }]"#,
    );
    close(Backlog::running(running.nodes()).hours(true), 4.0);
}

fn b13(budget: &str) -> String {
    format!(
        r#"
        jobs = [{{ id = "j", class = 5, tenant = "t", queued_at_ms = -3600000 }}]
        tenants = [{{ id = "t", share = 0.5, usage = 0.25{budget} }}]
        backlog = {{ queued_gpu_hours = 50, running_gpu_hours = 100 }}
        {}"#,
        nodes(&[("a", 1, 0), ("b", 1, 0), ("c", 1, 0), ("d", 1, 0)], "")
    )
}

#[test]
fn b13_whole_score_with_and_without_budget() {
    close(in_queue(&b13("")).total.unwrap(), 0.599_879);
    let pressed = b13(", node_hours = 100, node_hours_used = 90");
    close(in_queue(&pressed).total.unwrap(), 0.516_422);
    close(on_first_node(&pressed).total.unwrap(), 0.516_422);
}

#[test]
fn b14_whole_score_of_a_gang() {
    // Five nodes in two groups, one busy: u 0.2. Three free ones in group a hold the job, two of them alike.
    let text = r#"
        policy.name = "hpc-batch"
        energy_price = 0.1
        backlog = { queued_gpu_hours = 50, running_gpu_hours = 100 }
        tenants = [{ id = "t", share = 0.3, usage = 0.3, burst = 1.5 }]
        nodes = [
            { id = "a1", group = "a", fingerprint = "P" },
            { id = "a2", group = "a", fingerprint = "P" },
            { id = "a3", group = "a", fingerprint = "Q" },
            { id = "b1", group = "b", fingerprint = "R" },
            { id = "b2", group = "b", fingerprint = "R", placements = [{ job = "x", exclusive = true }] },
        ]
        [[jobs]]
        id = "j"
        nodes = 3
        class = 7
        tenant = "t"
        queued_at_ms = -7200000
        checkpoint = "auto"
        inputs = [{ digest = "x", bytes = 80, tier = "hot" }, { digest = "y", bytes = 20 }]"#;
    let verdict = in_queue(text);
    for (term, want) in [
        ("fair_share", 0.272_727),
        ("topology", 0.5),
        ("data", 0.8),
        ("backlog", 0.5),
        ("energy", 0.9),
        ("conformance", 0.666_667),
    ] {
        close(raw(&verdict, term), want);
    }
    close(verdict.total.unwrap(), 0.634_268);
    close(on_first_node(text).total.unwrap(), 0.634_268);
}

#[test]
fn b15_sensitive_and_weights() {
    let sensitive = "nodes = [{ id = \"n\", fingerprint = \"P\" }]\njobs = [{ id = \"j\", sensitive = true }]\n\
                     policy.name = \"sensitive\"";
    close(in_queue(sensitive).total.unwrap(), 1.0);
    let with =
        |weight: f64| in_queue(&(b13("") + &format!("\npolicy.weights.priority = {weight}"))).total.unwrap();
    close(with(1.0) - with(0.1), 0.45);
}

#[test]
fn b15_all_weights_zero_is_first_come_first_served() {
    let zeros = [
        "priority",
        "wait",
        "fair_share",
        "topology",
        "data",
        "backlog",
        "energy",
        "checkpoint",
        "conformance",
    ]
    .map(|term| format!("policy.weights.{term} = 0.0\n"))
    .concat();
    let situation = situation(&format!(
        r#"
        nodes = [{{ id = "n" }}]
        jobs = [
            {{ id = "a", class = 9, queued_at_ms = -10 }},
            {{ id = "b", class = 0, queued_at_ms = -20 }},
            {{ id = "c", class = 0, queued_at_ms = -10 }},
        ]
        {zeros}"#
    ));
    let policy = try_policy(&situation).unwrap();
    assert_eq!(policy.warnings().len(), 1, "{:?}", policy.warnings());
    let ranking = policy.rank_jobs(&situation, &situation.nodes()[0]);
    let order: Vec<&str> = ranking.candidates.iter().map(|verdict| verdict.candidate.as_str()).collect();
    assert_eq!(order, ["b", "a", "c"]);
    assert!(ranking.candidates.iter().all(|verdict| verdict.total == Some(0.0)));
}

fn weights(policy: &Policy) -> Vec<f64> {
    let factors = policy.term_weights().filter(|(info, _)| info.class != TermKind::Multiplier);
    factors.map(|(_, weight)| weight).collect()
}

#[test]
fn b16_effective_weights() {
    let service =
        [0.2, 0.066_667, 0.133_333, 0.066_667, 0.133_333, 0.066_667, 0.133_333, 0.133_333, 0.066_667];
    let interactive = [0.142_857, 0.428_571, 0.142_857, 0.0, 0.071_429, 0.214_286, 0.0, 0.0, 0.0];
    for (name, want) in [("service-lite", service), ("interactive-lite", interactive)] {
        let got = weights(&builtin::policy(name).unwrap().unwrap());
        assert_eq!(got.len(), want.len());
        got.into_iter().zip(want).for_each(|(got, want)| close(got, want));
    }
}

#[test]
fn every_profile_has_nine_factors_in_order_and_sums_to_one() {
    let order = [
        "priority",
        "wait",
        "fair_share",
        "topology",
        "data",
        "backlog",
        "energy",
        "checkpoint",
        "conformance",
    ];
    for name in PROFILES {
        let policy = builtin::policy(name).unwrap().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(policy.name(), name);
        assert_eq!(policy.warnings(), [""; 0], "{name}");
        let names: Vec<&str> = policy.term_weights().map(|(info, _)| info.name).collect();
        assert_eq!(names[..9], order, "{name}");
        assert_eq!(names[9..], ["budget"], "{name}");
        close(weights(&policy).iter().sum(), 1.0);
    }
}

fn changed(change: &str) -> Result<Policy, PolicyError> {
    try_policy(&situation(change))
}

#[test]
fn weights_off_one_are_a_warning_and_never_rescaled() {
    let policy = changed("policy.weights.wait = 0.5").unwrap();
    assert_eq!(policy.warnings().len(), 1);
    assert!(policy.warnings()[0].contains("1.3"), "{:?}", policy.warnings());
    assert_eq!(weights(&policy)[..2], [0.2, 0.5]);
}

#[test]
fn senseless_weights_are_refused() {
    let negative = changed("policy.weights.wait = -0.1").unwrap_err();
    assert_eq!(negative.field, "terms[1].weight");
    let text = builtin::text("interactive-lite").unwrap();
    let mut spec = policy_file::parse(text).unwrap();
    spec.terms.iter_mut().for_each(|term| term.weight = landfall_policy::spec::Weight::Number(0.0));
    assert_eq!(Policy::compile(spec).unwrap_err().field, "normalize");
    for (change, field) in [
        ("policy.params.reference_wait = 0", "params.reference_wait"),
        ("policy.params.budget_curve = \"steep\"", "params.budget_curve"),
    ] {
        let error = changed(change).unwrap_err();
        assert!(error.field.ends_with(field), "{error}");
    }
}

#[test]
fn a_refused_node_gives_every_reason() {
    let text = r#"
        policy.name = "service"
        nodes = [{ id = "n", state = "draining", cpu_milli = 1000, gpus = [{ model = "A100", vram_mib = 40 }],
                   placements = [{ job = "x", exclusive = true }], block = "b" }]
        blocks = [{ id = "b", ends_in_ms = 1000 }]
        [[jobs]]
        id = "j"
        cpu_milli = 2000
        ram_mib = 10
        gpu_count = 2
        gpu_models = ["H100"]
        features = ["fpga"]
        unified_memory = true
        sensitive = true"#;
    let situation = situation(text);
    let ranking = try_policy(&situation).unwrap().rank_nodes(&situation, &situation.jobs()[0]);
    let refusals = &ranking.candidates[0].refusals;
    let reasons: Vec<&str> = refusals.iter().map(|refused| refused.refusal.reason.name()).collect();
    assert_eq!(
        reasons,
        [
            "node_state",
            "node_taken",
            "gpu_model",
            "gpu_count",
            "cpu",
            "memory",
            "feature",
            "unified_memory",
            "fingerprint",
            "block_end"
        ]
    );
    assert!(refusals.iter().all(|refused| !refused.refusal.remedy.is_empty()));
}

#[test]
fn b38_the_larger_used_fraction_counts() {
    let budget = ", gpu_hours = 1000, gpu_hours_used = 80, node_hours = 100, node_hours_used = 20";
    assert_eq!(in_queue(&b13(budget)).facts.get("budget_used"), Some(&Fact::Number(0.2)));
}

#[test]
fn b39_a_profile_takes_the_linked_pair() {
    let text = r#"
        [[jobs]]
        id = "j"
        gpu_count = 2
        exclusive = false
        [[nodes]]
        id = "n"
        gpus = [{ count = 4 }]
        placements = [{ job = "x", gpus = [0] }]
        links = [{ from = 0, to = 1, gb_s = 900 }, { from = 2, to = 3, gb_s = 900 }]"#;
    assert_eq!(on_first_node(text).gpus, [2, 3]);
}

#[test]
fn b40_fingerprint() {
    let inputs = Inputs {
        gpu_driver: "550.54.15",
        nic_firmware: "28.39.1002",
        bios: "2.1.0",
        bmc: "1.14",
        kernel: "6.8.0-31",
        kernel_params: &["quiet", "hugepages=64", "iommu=pt"],
        image: "none",
    };
    assert_eq!(inputs.hash(), "3e4568ca281172ef7702213ecf1a8ffd213181ca5f8983f33984b3a84032a9a4");
}

#[test]
fn what_is_placed_is_taken_and_what_is_removed_is_free() {
    let text = "nodes = [{ id = \"n\" }]\njobs = [{ id = \"j\" }]";
    let mut situation = situation(text);
    let policy = try_policy(&situation).unwrap();
    let winner = |situation: &Situation| policy.rank_jobs(situation, &situation.nodes()[0]).winner;
    assert!(winner(&situation).is_some());
    let node: &mut Node = &mut situation.nodes_mut()[0];
    let other = JobId::new("x").unwrap();
    node.place(landfall_model::Placement::of(other.clone(), &JobSpec::empty(), &[])).unwrap();
    assert!(winner(&situation).is_none());
    situation.nodes_mut()[0].remove(&other);
    assert!(winner(&situation).is_some());
}
