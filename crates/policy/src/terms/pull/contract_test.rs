//! What every rule promises: whatever node, job and instance say, it stays finite and within its range.

use std::collections::BTreeMap;

use landfall_model::{
    Bytes, Capabilities, Instance, Job, JobId, JobKind, JobReport, JobSpec, Metrics, Mib, MilliCpu, Millis,
    Name, Node, NodeId, Prediction, Situation, Tenant, TenantId, Time, Window, WorkloadId, World,
};
use proptest::prelude::*;

use crate::params::Params;
use crate::view::{Devices, Pass, View};

/// Numbers that no edge would let in are in it too: a rule must not rely on others' checks.
fn number() -> impl Strategy<Value = Option<f64>> {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, f64::MIN_POSITIVE, 1.0, f64::MAX];
    prop_oneof![Just(None), proptest::sample::select(odd.map(Some).to_vec()), (0.0..1e5).prop_map(Some)]
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), 0..100_000u64]
}

fn instance() -> impl Strategy<Value = Instance> {
    let windows = proptest::collection::vec(number(), 8);
    (windows, count(), count(), count()).prop_map(|(w, total_nodes, idle_nodes, spare_slots)| {
        let window = |i: usize| Window { m5: None, h1: w[i], h24: w[i] };
        Instance {
            missing_inputs: window(0),
            missing_mib: window(1),
            dependency_count: window(2),
            wait_secs: window(3),
            cpu_time_ms: window(4),
            oom_rate: window(5),
            network_mbit_s: window(6),
            disk_bytes: window(7),
            total_nodes,
            idle_nodes,
            spare_slots: spare_slots % 2,
            ..Instance::default()
        }
    })
}

fn prediction() -> impl Strategy<Value = Prediction> {
    (count(), count(), count(), number(), count()).prop_map(|(peak, cpu, disk, oom, samples)| Prediction {
        predicted_peak_ram_mib: Mib::new(peak),
        avg_cpu_time_ms: Millis::new(cpu),
        build_time_ms: Millis::ZERO,
        avg_disk_bytes: Bytes::new(disk),
        oom_rate: oom.unwrap_or(0.5),
        samples,
    })
}

fn node() -> impl Strategy<Value = Node> {
    let metrics = (any::<u32>(), count(), proptest::option::of(count()), number(), number(), number());
    let metrics =
        proptest::option::of(metrics.prop_map(|(score, total, free, cpu, disk, network)| Metrics {
            cpu_count: 1,
            cpu_core_score: score,
            ram_total_mib: Mib::new(total),
            ram_free_mib: free.map(Mib::new),
            cpu_usage_pct: cpu,
            disk_mb_s: disk,
            network_mbit_s: network,
        }));
    (metrics, any::<[bool; 3]>()).prop_map(|(metrics, [said, fetch, arch])| {
        let mut node = Node::new(NodeId::new("n").unwrap(), MilliCpu::ZERO, Mib::ZERO);
        let architectures = arch.then(|| Name::new("x86_64").unwrap()).into_iter().collect();
        node.capabilities = said.then_some(Capabilities { architectures, fetch, eval: true });
        node.metrics = metrics;
        node
    })
}

fn job() -> impl Strategy<Value = Job> {
    (any::<[bool; 5]>(), count(), 0..6u32, any::<i64>()).prop_map(
        |([eval, fetch_task, prefer_local, network_bound, real], dependents, rescore_count, ready)| {
            let spec = JobSpec {
                workload: Some(WorkloadId::new("w").unwrap()),
                tenant: Some(TenantId::new("t").unwrap()),
                kind: if eval { JobKind::Eval } else { JobKind::Build },
                architecture: Name::new(if real { "x86_64" } else { "builtin" }).unwrap(),
                fetch_task,
                prefer_local,
                network_bound,
                dependents,
                direct_inputs: dependents,
                ..JobSpec::empty()
            };
            let job = Job::new(JobId::new("j").unwrap(), spec.into(), Time::from_millis(ready));
            Job { rescore_count, ..job }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn every_rule_stays_in_its_range(
        instance in instance(),
        prediction in prediction(),
        node in node(),
        job in job(),
        report in proptest::option::of((proptest::option::of(count()), proptest::option::of(count()))),
        work_share in number(),
        upstream in any::<bool>(),
    ) {
        let tenant = TenantId::new("t").unwrap();
        let mut world = World { instance, ..World::default() };
        world.predictions.insert(WorkloadId::new("w").unwrap(), prediction);
        world.tenants.insert(tenant.clone(), Tenant { work_share, ..Tenant::new(tenant) });
        if let Some((missing_inputs, missing_bytes)) = report {
            let report = JobReport { missing_inputs, missing_bytes };
            world.reports.entry(job.id.clone()).or_default().insert(node.id.clone(), report);
        }
        let preset = if upstream { "upstream" } else { "documented" };
        let shared = BTreeMap::from([("preset".to_owned(), toml::Value::from(preset))]);
        let situation = Situation::new(Time::ZERO, vec![node], vec![job], &[], world).unwrap();
        let (pass, devices) = (Pass::new(&situation), Devices::default());
        let (job, node) = (&situation.jobs()[0], &situation.nodes()[0]);
        let view = View { pass: &pass, filters: &[], job, spec: &job.spec, node, devices: &devices, ranks_nodes: false, explains: true };
        for info in super::ALL {
            let term = (info.build)(&Params { own: &BTreeMap::new(), shared: &shared }).unwrap();
            let score = term.score(&view);
            prop_assert!(score >= info.range.0, "{} gave {score}", info.name);
            prop_assert!(info.range.1.is_some_and(|max| score <= max), "{} gave {score}", info.name);
            prop_assert!(score != 0.0 || score.is_sign_positive(), "{} gave -0", info.name);
        }
    }
}

/// Parts see the policy's table too, so a common name would let `cap` of the total change the points of a rule.
#[test]
fn no_parameter_of_a_rule_is_named_like_one_of_the_choice() {
    for info in super::ALL {
        let taken = crate::CHOICE_PARAMS.iter().chain(&crate::devices::PARAMS);
        let names: Vec<_> = taken.map(|param| param.name).collect();
        let clash = info.params.iter().find(|param| names.contains(&param.name));
        assert!(clash.is_none(), "{}: {clash:?}", info.name);
    }
}
