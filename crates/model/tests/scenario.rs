//! Scenario files as people write and mistype them.

use landfall_model::scenario::{Format, parse};
use proptest::prelude::*;

/// Most of the format in one file.
const RICH: &str = r#"
description = "Most of the format in one file."
now_ms = 1_000_000
energy_price = 0.4
node_order = ["b", "a"]

[regions.eu]
adjacent = ["uk"]

[backlog]
queued_gpu_hours = 10.0
running_gpu_hours = 20.0

[instance]
wait_secs.h1 = 30.0
total_nodes = 4

[policy]
name = "fit"
params = { region_mode = "tiebreak" }
weights = { speed = 1.0 }

[[pools]]
id = "p"
policy = "balanced"

[[tenants]]
id = "t"
share = 0.5
usage = 0.25

[[blocks]]
id = "k"
provider = "prime"
ends_in_ms = "24h"

[[mix]]
share = 1.0
gpu_count = 1
cpu_milli = 4000

[[workloads]]
id = "w"
runtime = "llmcpp"
vram_mib = "8GiB"
prediction = { samples = 3, predicted_peak_ram_mib = 100 }

[[history]]
workload = "w"
peak_ram_mib = 77

[[nodes]]
id = "a"
pool = "p"
block = "k"
cpu_milli = "16 cores"
ram_mib = "64GiB"
gpus = [{ count = 2, model = "RTX 3090", vram_mib = "24GiB" }]
placements = [{ job = "x", cpu_milli = 1000, gpus = [0], vram_mib = 1024 }]
architectures = ["x86_64"]
features = ["kvm", { name = "ib", count = 2 }]
corrections = { llmcpp = { factor = 0.9, samples = 3 } }
memory_domains = [{ cpus = 8, gpus = 1 }]
links = [{ from = 0, to = 1, gb_s = 900 }]

[nodes.metrics]
cpu_usage_pct = 12.5

[nodes.peer]
trust = 0.5

[[nodes]]
id = "b"
count = 3

[[jobs]]
id = "j"
workload = "w"
tenant = "t"
nodes = { min = 1, max = 2 }
inputs = [{ digest = "d", bytes = 10, tier = "hot" }]

[[jobs]]
id = "many"
count = 12

[[reports]]
node = "a"
job = "j"
missing_inputs = 2
"#;

/// `node_order` names `b`, which `count` turns into `b-0` and so on.
fn rich() -> String {
    RICH.replace("node_order = [\"b\", \"a\"]", "node_order = [\"b-1\", \"a\"]")
}

#[test]
fn the_whole_format_reads() {
    let situation = parse(&rich(), Format::Toml).unwrap();
    let ids: Vec<_> = situation.nodes().iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["a", "b-0", "b-1", "b-2"]);
    assert_eq!(situation.tie_ranks(), [1, 3, 0, 5]);
    assert_eq!(situation.jobs().len(), 13);
    assert_eq!(situation.jobs().last().unwrap().id.as_str(), "many-11");
    let job = situation.job("j").unwrap();
    assert_eq!((job.spec.vram_mib.get(), job.spec.gpu_count), (8192, 1), "the workload's fields come in");
    assert_eq!(situation.node("a").unwrap().cpu_free().get(), 15_000);
}

#[test]
fn json_and_toml_say_the_same() {
    let value: toml::Value = toml::from_str(&rich()).unwrap();
    let json = serde_json::to_string_pretty(&value).unwrap();
    assert_eq!(parse(&json, Format::Json).unwrap(), parse(&rich(), Format::Toml).unwrap());
}

#[test]
fn an_empty_file_is_an_empty_situation() {
    let situation = parse("", Format::Toml).unwrap();
    assert!(situation.nodes().is_empty() && situation.jobs().is_empty());
}

/// Wrong files, and what each is answered with: field and line, part of the message, part of the hint.
const MISTAKES: &str = r"
[[nodes]]\nid = 'a'\ncpu_mili = 5 | nodes[0].cpu_mili:3 | unknown field `cpu_mili` | did you mean `cpu_milli`?
nodez = [] | nodez:1 | unknown field `nodez` | did you mean `nodes`?
[[nodes]]\nid = 'a'\nram_mib = -5 | nodes[0].ram_mib:3 | negative |
[[nodes]]\nid = 'a'\nram_mib = '5 GB' | nodes[0].ram_mib:3 | unknown unit `GB`: use MiB |
[[nodes]]\nid = 'a'\nram_mib = 99999999999999999 | nodes[0].ram_mib:3 | too large |
[[nodes]]\nid = 'a'\nram_mib = 1.5 | nodes[0].ram_mib:3 | not a whole number |
[[nodes]]\nid = 'a'\nplatform = 'desktp' | nodes[0].platform:3 | unknown value `desktp` | did you mean `desktop`?
[[nodes]]\nid = 'a'\n[nodes.peer]\ntrust = nan | nodes[0].peer.trust:4 | out of range: 0 to 1 |
[[nodes]]\nid = 'a'\ngpus = [{ bandwidth_gb_s = inf }] | nodes[0].gpus[0].bandwidth_gb_s:3 | out of range |
[[nodes]]\nid = 'a'\n[[nodes]]\nid = 'a' | nodes:1 | two nodes are called `a` | each id may be used once
[[nodes]]\nid = '' | nodes[0].id:2 | must not be empty |
[[nodes]]\nid = 'a'\nblock = 'nope' | nodes[0].block:3 | there is no block `nope` |
[[nodes]]\nid = 'a'\ncpu_milli = 1\ncpu_committed_milli = 2 | nodes[0].cpu_committed_milli:4 | more is committed |
[[nodes]]\nid = 'a'\nplacements = [{ job = 'x', cpu_milli = 1 }] | nodes[0].placements[0]:3 | not enough CPU left |
[[jobs]]\nid = 'j'\nruntime = 'llmcpp' | jobs[0].model_mib:1 | must give model_mib |
[[jobs]]\nid = 'j'\ngpu_count = 2\ngpu_milli = 500 | jobs[0].gpu_milli:4 | a shared GPU |
[[jobs]]\nid = 'j'\nsensitive = true\nclass = 3 | jobs[0].class:4 | class 10 |
[[nodes]]\nid = 'a'\ncount = 9999999999 | nodes[0].count:3 | at most | split the scenario
[[mix]]\nshare = 0.0 | mix:1 | sum to 0 |
[[reports]]\nnode = 'a'\njob = 'j' | reports[0].node:2 | there is no node `a` |
[[blocks]]\nid = 'k'\nend_at_ms = 5\nends_in_ms = 5 | blocks[0].ends_in_ms:4 | contradict | give one of the two
[[nodes]]\nid = 'a'\ngpus = [{ index = 65535 }, {}] | nodes[0].gpus[0].index:3 | at most 1023 |
[[jobs]]\nid = 'j'\ngpu_slice = '5g' | jobs[0].gpu_slice:3 | no slice of a GPU | 1g
[[jobs]]\nid = 'j'\ngpu_slice = '1g'\ngpu_count = 2 | jobs[0].gpu_slice:3 | one slice | leave gpu_count
[[jobs]]\nid = 'j'\nimage = 'two words' | jobs[0].image:3 | no name of an image | alpine
[[jobs]]\nid = 'j'\ngpu_milli = 500 | jobs[0].gpu_milli:3 | goes with gpu_count 1, not 0 |
[[jobs]]\nid = 'j'\nsensitive = true\nexclusive = false | jobs[0].exclusive:4 | takes whole nodes |
[[jobs]]\nid = 'j'\nprovider = 'prim' | jobs[0].provider:3 | there is no provider | did you mean `prime`?
[[jobs]]\nid = 'j'\ngpu_count = 9\nprovider = 'prime' | jobs[0].provider:4 | at most 8 GPUs | gang
node_order = ['a', 'a']\n[[nodes]]\nid = 'a' | node_order[1]:1 | is there already |
[[jobs]]\nid = 'j'\nnodes = { min = 1, max = 2, mid = 3 } | jobs[0].nodes:3 |  |
[[jobs]]\nid = 'j'\nkind = 'eval'\nqueued_at_ms = 4\nready_at_ms = 5 | jobs[0].ready_at_ms:5 | ready when it is queued | give one
[[jobs]]\nid = 'j'\nmax_price = -1 | jobs[0].max_price:3 | a price: a number of 0 to 1000000000 |
[[tenants]]\nid = 't'\nmoney = 'much' | tenants[0].money:3 | a price |
[[pools]]\nid = 'p'\nprice = { base = 1.0, surge_factor = 0.5 } | pools[0].price.surge_factor:3 | must be 1 to 100 |
[instance]\noom_rate.h1 = 2.0 | instance.oom_rate:2 | 0 to 1 |
[[nodes]\nid = 'a' | :1 |  |
";

#[test]
fn mistakes_are_answered_with_field_line_and_hint() {
    for row in MISTAKES.trim().lines() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let &[text, place, message, hint] = cells.as_slice() else { panic!("{row}") };
        let error = parse(&(text.replace(r"\n", "\n") + "\n"), Format::Toml).expect_err(row);
        let line = error.position.map_or(0, |position| position.line);
        assert_eq!(format!("{}:{line}", error.field), place, "{row}\n{error:?}");
        assert!(error.message.contains(message), "{row}\n{error:?}");
        assert!(error.hint.unwrap_or_default().contains(hint), "{row}");
    }
}

#[test]
fn json_mistakes_have_positions_too() {
    let text = "{\n  \"nodes\": [\n    { \"id\": \"a\",\n      \"ram_mib\": -1 }\n  ]\n}";
    let error = parse(text, Format::Json).unwrap_err();
    assert_eq!((error.field.as_str(), error.position.unwrap().line), ("nodes[0].ram_mib", 4));
    let text = "{\n  \"nodes\": [\n    { \"id\": \"a\",\n      \"block\": \"k\" }\n  ]\n}";
    let error = parse(text, Format::Json).unwrap_err();
    assert_eq!((error.field.as_str(), error.position.unwrap().line), ("nodes[0].block", 4));
    assert!(parse("{} trailing", Format::Json).is_err());
    assert!(parse("[1, 2", Format::Json).is_err());
}

#[test]
fn gpu_names_may_be_anything_printable() {
    let text = "[[nodes]]\nid = 'a'\ngpus = [{ model = '🚀 RTX 9999 💥', vram_mib = 1 }]\n";
    assert!(parse(text, Format::Toml).is_ok());
}

#[test]
fn a_hundred_thousand_copies_are_one_row() {
    let text = "[[nodes]]\nid = 'n'\ncount = 100000\ngpus = [{ count = 8, model = 'H100' }]\n";
    let situation = parse(text, Format::Toml).unwrap();
    assert_eq!(situation.nodes().len(), 100_000);
    assert_eq!(situation.nodes()[99_999].id.as_str(), "n-99999");
}

/// Changes a file here and there, as an editor with a slip or a broken disk would.
fn damaged() -> impl Strategy<Value = String> {
    let cut = (any::<prop::sample::Index>(), 0usize..40);
    let put = (
        any::<prop::sample::Index>(),
        prop_oneof![
            Just("nan".to_owned()),
            Just("-1".to_owned()),
            Just("18446744073709551616".to_owned()),
            Just("1e400".to_owned()),
            Just("[[[".to_owned()),
            Just("\u{0}\u{7f}".to_owned()),
            Just("🚀".to_owned()),
            Just("= {".to_owned()),
            "[ -~]{0,12}",
        ],
    );
    (prop::collection::vec(cut, 0..3), prop::collection::vec(put, 0..4)).prop_map(|(cuts, puts)| {
        let mut chars: Vec<char> = rich().chars().collect();
        for (at, length) in cuts {
            let start = at.index(chars.len().max(1)).min(chars.len());
            chars.drain(start..(start + length).min(chars.len()));
        }
        for (at, text) in puts {
            let start = at.index(chars.len() + 1);
            chars.splice(start..start, text.chars());
        }
        chars.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_is_read_or_refused_but_never_panics(text in damaged()) {
        if let Err(error) = parse(&text, Format::Toml) {
            prop_assert!(!error.message.is_empty());
        }
    }

    #[test]
    fn noise_is_refused_without_a_panic(text in "\\PC{0,200}") {
        let _ = parse(&text, Format::Toml);
        let _ = parse(&text, Format::Json);
    }
}
