//! `landfall gpu`.

use crate::tool::Dir;

#[test]
fn a_known_gpu_shows_what_it_is_good_for() {
    let ran = Dir::new().run(&["gpu", "NVIDIA GeForce RTX 3090", "--vram", "24GiB", "--json"]);
    let json = ran.json();
    assert_eq!(ran.code, 0);
    assert_eq!(json["schema"], "landfall.gpu/1");
    assert_eq!(json["key"], "rtx 3090");
    assert_eq!(json["bandwidth_gb_s"], 936.2);
    assert_eq!(json["tier"], "high_end");
    assert_eq!(json["price_multiplier"], 1.5);
    assert_eq!(json["estimated_llm_tok_s"], 114.0);
}

#[test]
fn words_need_no_quotes() {
    let ran = Dir::new().run(&["gpu", "RTX", "3090", "--vram", "24GiB"]);
    assert_eq!(ran.code, 0);
    for part in ["`rtx 3090`", "936.2 GB/s", "high_end", "114 tokens/s"] {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
}

#[test]
fn an_unknown_gpu_is_guessed_by_its_memory_and_ends_with_1() {
    let ran = Dir::new().run(&["gpu", "RTX 3091", "--vram", "24GiB"]);
    assert_eq!(ran.code, 1);
    for part in ["RTX 3091 is unknown", "960 GB/s", "40 GB/s per GiB", "rtx 3090"] {
        assert!(ran.stdout.contains(part), "{}", ran.stdout);
    }
    let json = Dir::new().run(&["gpu", "RTX 3091", "--json"]).json();
    assert_eq!((&json["known"], &json["bandwidth_gb_s"]), (&false.into(), &200.0.into()));
}

#[test]
fn odd_names_are_unknown_and_nothing_worse() {
    for name in ["🚀", "🚀🚀 RTX 🚀", "", "\u{202e}4090", &"x".repeat(10_000)] {
        let ran = Dir::new().run(&["gpu", name]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stdout.contains("is unknown"), "{ran:?}");
    }
}

#[test]
fn the_list_has_every_row() {
    let json = Dir::new().run(&["gpu", "--list", "--json"]).json();
    let rows = json["gpus"].as_array().unwrap();
    assert!(rows.len() >= 120, "{}", rows.len());
    assert!(rows.iter().all(|row| row["key"].is_string() && row["tier"].is_string()));
    let text = Dir::new().run(&["gpu", "--list"]);
    assert_eq!(text.stdout.lines().count(), rows.len() + 1);
}
