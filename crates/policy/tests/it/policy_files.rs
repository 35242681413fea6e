//! Policy files as people write and mistype them.

use landfall_policy::{builtin, policy_file};
use proptest::prelude::*;

use landfall_testkit::Rng;

use crate::fleet::Fleet;

const MINE: &str = r#"name = "mine"
description = "Speed first."
combine = "mean"

[params]
online_within_ms = 60000

[[filters]]
name = "online"

[[terms]]
name = "speed"
weight = 2.0
params = { llm_efficiency = 0.6 }

[[terms]]
name = "fit"
weight = 1
"#;

#[test]
fn a_policy_of_ones_own_reads() {
    let policy = policy_file::load(MINE).unwrap();
    assert_eq!((policy.name(), policy.warnings()), ("mine", &[][..]));
}

/// What a wrong file is answered with: what to replace, by what, then field, line, message, hint.
#[test]
fn mistakes_are_answered_with_field_line_and_hint() {
    let cases: &[(&str, &str, &str, usize, &str, &str)] = &[
        ("\"speed\"", "\"sped\"", "terms[0].name", 12, "there is no term `sped`", "did you mean `speed`?"),
        (
            "\"online\"",
            "\"onlin\"",
            "filters[0].name",
            9,
            "there is no filter `onlin`",
            "did you mean `online`?",
        ),
        (
            "online_within_ms = 60000",
            "online_withn_ms = 60000",
            "params.online_withn_ms",
            6,
            "there is no parameter",
            "did you mean `online_within_ms`?",
        ),
        (
            "online_within_ms = 60000",
            "online_within_ms = 'x'",
            "params.online_within_ms",
            6,
            "must be a whole number",
            "",
        ),
        ("weight = 2.0", "weight = nan", "terms[0].weight", 13, "finite", ""),
        ("weight = 2.0", "weight = inf", "terms[0].weight", 13, "finite", ""),
        ("weight = 2.0", "weight = -2.0", "terms[0].weight", 13, "must be 0 or more here", ""),
        (
            "weight = 2.0",
            "weight = \"w\"",
            "terms[0].weight",
            13,
            "there is no parameter `w`",
            "add `w = 1.0`",
        ),
        (
            "llm_efficiency = 0.6",
            "llm_efficiency = -1.0",
            "terms[0].params.llm_efficiency",
            14,
            "must be from 0",
            "",
        ),
        (
            "llm_efficiency",
            "llm_eficiency",
            "terms[0].params.llm_eficiency",
            14,
            "there is no parameter",
            "did you mean `llm_efficiency`?",
        ),
        ("\"fit\"", "\"speed\"", "terms[1].name", 17, "`speed` is there twice", ""),
        ("\"fit\"", "\"budget\"", "terms[1].name", 17, "multiplies the total", ""),
        (
            "combine = \"mean\"",
            "combine = \"men\"",
            "combine",
            3,
            "unknown value `men`",
            "did you mean `mean`?",
        ),
        (
            "description",
            "descripton",
            "descripton",
            2,
            "unknown field `descripton`",
            "did you mean `description`?",
        ),
        ("name = \"mine\"", "name = \"\"", "name", 1, "1 to 100 printable", ""),
        ("combine = \"mean\"", "levels = \"fit\"\nnormalize = true\nx = 1", "x", 5, "unknown field", ""),
    ];
    for (from, to, field, line, message, hint) in cases {
        let text = MINE.replacen(from, to, 1);
        let error = policy_file::load(&text).map(|_| ()).expect_err(to);
        assert_eq!(error.field, *field, "{to}: {error:?}");
        assert_eq!(error.position.map(|position| position.line), Some(*line), "{to}: {error:?}");
        assert!(error.message.contains(message), "{to}: {error:?}");
        assert!(error.hint.clone().unwrap_or_default().contains(hint), "{to}: {error:?}");
    }
}

#[test]
fn every_built_in_written_out_and_read_back_ranks_identically() {
    let fleet = Fleet::new(7, 12, 6);
    let mut rng = Rng::new(7);
    let jobs = (0..10).map(|number| fleet.job(&mut rng, number)).collect();
    let situation = landfall_model::Situation::new(fleet.now, fleet.nodes, jobs, &[], fleet.world).unwrap();
    for (name, text) in builtin::ALL {
        let original = builtin::policy(name).unwrap().unwrap();
        let written = toml::to_string(original.spec()).unwrap();
        for again in [policy_file::load(text).unwrap(), policy_file::load(&written).unwrap()] {
            for job in situation.jobs() {
                assert_eq!(again.rank_nodes(&situation, job), original.rank_nodes(&situation, job), "{name}");
            }
            for node in situation.nodes() {
                assert_eq!(again.rank_jobs(&situation, node), original.rank_jobs(&situation, node), "{name}");
            }
        }
    }
}

#[test]
fn totals_are_finite_and_terms_stay_in_their_range_for_every_built_in() {
    for seed in 0..40 {
        let fleet = Fleet::new(seed, 8, 8);
        let mut rng = Rng::new(seed);
        let jobs = (0..12).map(|number| fleet.job(&mut rng, number)).collect();
        let situation =
            landfall_model::Situation::new(fleet.now, fleet.nodes, jobs, &[], fleet.world).unwrap();
        for (name, _) in builtin::ALL {
            let policy = builtin::policy(name).unwrap().unwrap();
            for job in situation.jobs() {
                for verdict in policy.rank_nodes(&situation, job).candidates {
                    assert!(verdict.total.is_none_or(f64::is_finite), "{name} seed {seed}");
                    for term in &verdict.terms {
                        let range = landfall_policy::catalogue::term(&term.term).unwrap().range;
                        let inside = term.raw >= range.0 && range.1.is_none_or(|max| term.raw <= max);
                        assert!(inside, "{name} seed {seed}: {} gave {}, not {range:?}", term.term, term.raw);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_policy_is_read_or_refused_but_never_panics(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        cut in 0usize..30,
        put in prop_oneof![Just("nan".to_owned()), Just("-1e308".to_owned()), Just("[[".to_owned()), "[ -~🚀]{0,10}"],
    ) {
        let text = builtin::ALL[which.index(builtin::ALL.len())].1;
        let mut chars: Vec<char> = text.chars().collect();
        let start = at.index(chars.len());
        let end = (start + cut).min(chars.len());
        chars.splice(start..end, put.chars());
        let text: String = chars.into_iter().collect();
        if let Err(error) = policy_file::load(&text) {
            prop_assert!(!error.message.is_empty());
        }
    }
}
