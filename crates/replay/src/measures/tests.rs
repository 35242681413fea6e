//! Acceptance cases and the shape of the JSON answer.

use super::samples::{b28, busy, job, machine, packing, stuck};
use super::*;
use landfall_model::Time;
use serde_json::Value;

fn near(found: Option<f64>, want: f64) {
    let found = found.expect("a value");
    assert!((found - want).abs() <= 1e-6, "{found} instead of {want}");
}

#[test]
fn b28_the_report_of_the_easy_schedule() {
    let found = Measures::of(&b28());
    near(found.makespan_s, 520.0);
    near(found.utilisation, 0.711_538);
    let wait = found.wait_s.unwrap();
    near(Some(wait.mean), 115.714_286);
    assert_eq!((wait.p50, wait.p95, wait.p99), (20.0, 350.0, 350.0));
    near(found.bounded_slowdown.map(|slowdown| slowdown.mean), 2.080_952);
    assert_eq!(found.counts.backfills, 3);
    near(found.qos_compliance, 0.571_429);
    near(found.jain_index, 0.993_469);
    let deviation = found.share_deviation.unwrap();
    near(Some(deviation.value), 0.040_541);
    assert_eq!(deviation.tenant, "b");
    let estimates = found.estimates.unwrap();
    assert_eq!((estimates.count, estimates.median_s, estimates.p95_s), (4, 0.0, 0.0));
    assert_eq!(found.gpu_utilisation, None, "no GPUs");
}

#[test]
fn b47_bounded_slowdown() {
    assert_eq!(bounded_slowdown(50.0, 5.0), 5.5);
    assert_eq!(bounded_slowdown(0.0, 3.0), 1.0);
    assert_eq!(bounded_slowdown(90.0, 30.0), 4.0);
}

#[test]
fn what_never_started_missed_its_time_and_has_a_reason() {
    let mut late = stuck("b", 0, 9, "capacity");
    late.qos_wait_ms = Some(1_000_000);
    let mut soon = job("a", 0, 1, 5, 10);
    soon.qos_wait_ms = Some(5000);
    let found = Measures::of(&machine(4, vec![soon, late, stuck("c", 1, 2, "quota")]));
    assert_eq!(found.qos_compliance, Some(0.5));
    assert_eq!((found.jobs, found.started), (3, 1));
    assert_eq!(found.never_started, [("capacity".to_owned(), 1), ("quota".to_owned(), 1)].into());
    assert_eq!(found.wait_s.unwrap().count, 1);
}

#[test]
fn without_jobs_there_is_nothing_but_counts() {
    let found = Measures::of(&machine(4, Vec::new()));
    assert_eq!((found.jobs, found.utilisation, found.makespan_s), (0, None, None));
    assert_eq!((found.wait_s, found.qos_compliance, found.jain_index), (None, None, None));
    serde_json::to_string(&found).unwrap();
}

#[test]
fn capacity_that_comes_and_goes_is_what_utilisation_is_measured_by() {
    let mut run = machine(2, vec![job("a", 0, 1, 0, 100)]);
    run.capacity.push(crate::run::Capacity { from: Time::from_secs(50), units: 1, gpu_milli: 0 });
    near(Measures::of(&run).utilisation, 100.0 / 150.0);
    let second_half = Measures::between(&run, Some(Time::from_secs(50)), None);
    near(second_half.utilisation, 1.0);
    near(second_half.makespan_s, 100.0);
}

#[test]
fn gpu_hours_are_delivered_or_lost() {
    let mut half = job("a", 0, 1, 0, 7200);
    half.gpu_milli = 500;
    half.lost_ms = 1_800_000;
    let found = Measures::of(&machine(1, vec![half])).gpu_hours;
    assert_eq!((found.delivered, found.lost), (0.75, 0.25));
}

#[test]
fn json_has_the_promised_keys_and_six_decimals() {
    let text = serde_json::to_string(&Measures::of(&b28())).unwrap();
    for part in [
        r#""jobs":7,"#,
        r#""mean_bounded_slowdown":2.080952,"mean_wait_s":115.714286,"max_wait_s":350.0,"utilisation":0.711538,"#,
        r#""share_deviation":{"value":0.040541,"signed":0.040541,"tenant":"b"}"#,
        r#""seed":null,"#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("allocation_percent_at"), "only packing runs have it");
    let sizes: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> =
        sizes["sizes"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["1", "2–4"]);
    assert_eq!(sizes["tenants"][0]["share"], 0.5);
}

#[test]
fn json_of_packing_maps_loads_to_numbers() {
    let text = serde_json::to_string(&Measures::of(&packing("fgd", 42, 95.227))).unwrap();
    let want = r#""allocation_percent_at":{"50":50.0,"80":80.0,"90":90.0,"100":95.227,"130":95.227}"#;
    assert!(text.contains(want), "{text}");
    assert!(text.contains(
        r#""fragmentation_ratio_percent_at":{"50":50.0,"80":80.0,"90":90.0,"100":99.0,"130":99.0}"#
    ));
    assert!(text.contains(r#""mean_wait_s":null"#), "no time passes in packing");
}

#[test]
fn measures_are_the_same_bytes_each_time() {
    let run = busy("easy", 7, 3000);
    let text = || serde_json::to_string(&Measures::of(&run)).unwrap();
    assert_eq!(text(), text());
}

#[test]
fn keys_of_measures_are_unique_and_found() {
    for measure in &CATALOGUE {
        let found = Measure::named(measure.key).unwrap();
        assert_eq!(found.title, measure.title);
    }
    assert!(Measure::named("speed").is_none());
}

fn with(policy: &str, seed: u64, waits: [i64; 2]) -> Measures {
    let jobs = waits.map(|wait| job("a", 0, 1, wait, 100)).into();
    let mut run = machine(4, jobs);
    run.policy = policy.to_owned();
    run.seed = Some(seed);
    Measures::of(&run)
}

#[test]
fn a_comparison_has_mean_spread_and_difference() {
    let runs = [
        with("easy", 1, [10, 30]),
        with("new", 1, [5, 5]),
        with("easy", 2, [30, 50]),
        with("new", 2, [15, 15]),
    ];
    let found = &Comparison::by_trace(&runs, None).unwrap()[0];
    assert_eq!((found.baseline.as_str(), found.policies[1].policy.as_str()), ("easy", "new"));
    assert_eq!(found.policies[1].seeds, [Some(1), Some(2)]);
    let row = found.row("mean_wait_s").unwrap();
    let (base, new) = (row.cells[0].unwrap(), row.cells[1].unwrap());
    assert_eq!((base.mean, base.runs, base.against), (30.0, 2, None));
    near(base.spread, libm::sqrt(200.0));
    assert_eq!(new.mean, 10.0);
    let against = new.against.unwrap();
    assert_eq!(
        (against.absolute, against.verdict, against.beyond_spread),
        (-20.0, Verdict::Better, Some(true))
    );
    near(against.relative, -2.0 / 3.0);
    near(against.spread, libm::sqrt(50.0));
    let utilisation = found.row("utilisation").unwrap().cells[1].unwrap().against.unwrap();
    assert_eq!(utilisation.verdict, Verdict::Better, "the same work in less time");
    let never = found.row("never_started").unwrap().cells[1].unwrap().against.unwrap();
    assert_eq!((never.verdict, never.relative), (Verdict::Same, None));
    assert!(found.row("gpu_utilisation").is_none(), "nobody has GPUs");
}

#[test]
fn runs_with_other_seeds_are_not_paired() {
    let runs = [
        with("easy", 1, [10, 30]),
        with("easy", 2, [30, 50]),
        with("new", 1, [5, 5]),
        with("new", 3, [15, 15]),
    ];
    let found = &Comparison::by_trace(&runs, None).unwrap()[0];
    let against = found.row("mean_wait_s").unwrap().cells[1].unwrap().against.unwrap();
    near(against.spread, libm::sqrt(200.0));
}

#[test]
fn every_measure_is_documented() {
    let page = include_str!("../../../../docs/reference/measures.md");
    for measure in &CATALOGUE {
        // Packing keys end in a load; the page has them once.
        let key = measure.key.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let key = if key.ends_with("_at_") { format!("{key}L") } else { key.to_owned() };
        assert!(page.contains(&format!("`{key}`")), "{key} is not in docs/reference/measures.md");
    }
}

#[test]
fn a_comparison_goes_by_trace_and_names_a_missing_baseline() {
    let mut other = with("new", 1, [5, 5]);
    other.trace = "other".to_owned();
    let runs = [with("easy", 1, [10, 30]), with("new", 1, [5, 5]), other];
    let found = Comparison::by_trace(&runs, Some("new")).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[0].row("mean_wait_s").unwrap().cells[0].unwrap().against.unwrap().verdict,
        Verdict::Worse
    );
    assert_eq!(
        Comparison::by_trace(&runs, Some("easy")).unwrap_err().to_string(),
        "no run of the baseline `easy` on `other`; policies there: new"
    );
    assert_eq!(Comparison::by_trace(&[], None).unwrap_err(), CompareError::NoRuns);
}

#[test]
fn json_of_a_comparison_tells_which_way_is_better() {
    let runs = [with("easy", 1, [10, 30]), with("new", 1, [5, 5])];
    let text = serde_json::to_string(&Comparison::by_trace(&runs, None).unwrap()).unwrap();
    let want = concat!(
        r#"{"measure":"mean_wait_s","title":"Wait, mean","unit":"seconds","better":"lower","by_policy":["#,
        r#"{"runs":1,"mean":20.0,"spread":null,"against":null},"#,
        r#"{"runs":1,"mean":5.0,"spread":null,"against":"#,
        r#"{"absolute":-15.0,"relative":-0.75,"verdict":"better","spread":null,"beyond_spread":null}}]}"#
    );
    assert!(text.contains(want), "{text}");
}
