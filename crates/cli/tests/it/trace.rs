//! `landfall trace`: info, convert, generate.

use super::tool::Dir;

const LOG: &str = "; Version: 2.2\n; MaxProcs: 8\n\
    1 0 -1 3600 4 -1 -1 4 7200 -1 1 7 1 -1 -1 -1 -1 -1\n\
    2 60 -1 1800 1 -1 -1 -1 1800 -1 1 8 1 -1 -1 -1 -1 -1\n\
    3 120 -1 0 1 -1 -1 1 1800 -1 0 8 1 -1 -1 -1 -1 -1\n\
    4 7200 -1 600 16 -1 -1 16 1800 -1 1 8 1 -1 -1 -1 -1 -1\n\
    5 7200 -1 900 8 -1 -1 8 600 -1 1 7 1 -1 -1 -1 -1 -1\n";

const OWN: &str = concat!(
    "{\"format\":\"landfall.trace\",\"version\":1}\n",
    "{\"node\":{\"id\":\"n\",\"count\":2,\"gpus\":[{\"count\":4}]}}\n",
    "{\"job\":{\"id\":\"a\",\"gpu_count\":4,\"tenant\":\"t\"},\"at_ms\":0,\"run_ms\":1000}\n",
    "{\"job\":{\"id\":\"b\",\"gpu_count\":1,\"gpu_milli\":500,\"tenant\":\"t\"},\"at_ms\":10000,\"run_ms\":2000}\n",
    "{\"change\":{\"node\":\"n-1\",\"to\":\"down\"},\"at_ms\":5000}\n",
);

#[test]
fn info_tells_what_a_replay_would_take() {
    let dir = Dir::new().file("log", LOG);
    let ran = dir.run(&["trace", "info", "log"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for part in
        ["log: swf", "8 processors", "did not run", "wider than the machine", "ran past estimate  1 job"]
    {
        assert!(ran.stdout.contains(part), "`{part}` is not in\n{}", ran.stdout);
    }
    let json = dir.run(&["trace", "info", "log", "--json"]).json();
    assert_eq!(json["schema"], "landfall.trace-info/1");
    assert_eq!((&json["records"], &json["jobs"]["jobs"]), (&5.into(), &3.into()));
    assert_eq!(json["dropped"], serde_json::json!({"did not run": 1, "wider than the machine": 1}));
    // (3600 * 4 + 1800 * 1 + 600 * 8) / (8 * 7200)
    assert_eq!(json["jobs"]["load"], 0.364583);
    assert_eq!(json["jobs"]["users"], 2);
    let wider = dir.run(&["trace", "info", "log", "--json", "--procs", "16"]).json();
    assert_eq!(wider["jobs"]["jobs"], 4);
}

#[test]
fn info_recognises_kinds_by_content() {
    let dir = Dir::new()
        .file("own", OWN)
        .file("pods", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1,2,1000\n")
        .file("nodes", "sn,cpu_milli,memory_mib,gpu,model\nn,1000,1,2,P100\n")
        .file("arrivals", "pods 42 0\nnodes 42 0\n");
    for (file, kind) in
        [("own", "landfall"), ("pods", "openb"), ("nodes", "openb-nodes"), ("arrivals", "openb-arrivals")]
    {
        let ran = dir.run(&["trace", "info", file, "--json"]);
        assert_eq!((ran.code, &ran.json()["kind"]), (0, &kind.into()), "{ran:?}");
    }
    let own = dir.run(&["trace", "info", "own", "--json"]).json();
    assert_eq!((&own["capacity"], &own["nodes"], &own["changes"]), (&8.into(), &2.into(), &1.into()));
    assert_eq!(own["unit"], "GPUs");
}

#[test]
fn mistakes_have_a_place_and_a_hint() {
    let dir = Dir::new()
        .file("bad.swf", format!("{LOG}6 x\n"))
        .file("newer", "{\"format\":\"landfall.trace\",\"version\":99}\n")
        .file("words", "hello\n")
        .file("typo", format!("{OWN}{{\"job\":{{\"id\":\"c\",\"gpu_cuont\":1}},\"at_ms\":0}}\n"));
    dir.run(&["trace", "info", "bad.swf"])
        .fails(3, &["submit: found `x` in field 2", "bad.swf:8:3", "--lenient"]);
    dir.run(&["trace", "info", "newer"]).fails(3, &["version 99", "newer:1:1", "hint"]);
    dir.run(&["trace", "info", "words"]).fails(3, &["no trace of a known kind", "--from"]);
    dir.run(&["trace", "info", "typo"]).fails(3, &["job.gpu_cuont", "typo:6:", "did you mean `gpu_count`?"]);
    dir.run(&["trace", "info", "absent"]).fails(3, &["cannot read absent"]);
    let lenient = dir.run(&["trace", "info", "bad.swf", "--lenient", "--json"]).json();
    assert_eq!(lenient["bad_lines"], serde_json::json!({"submit is not a number": 1}));
}

#[test]
fn convert_never_overwrites_unasked_and_leaves_no_litter() {
    let dir = Dir::new().file("log.swf", LOG).file("there", "mine");
    dir.run(&["trace", "convert", "log.swf", "there"]).fails(2, &["there is there already", "--force"]);
    dir.run(&["trace", "convert", "log.swf", "no/such/place"]).fails(5, &["cannot write no/such/place"]);
    let ran = dir.run(&["trace", "convert", "log.swf", "there", "--force"]);
    assert_eq!(
        (ran.code, ran.stdout.starts_with("wrote there: 3 jobs, 8 nodes (landfall)\n")),
        (0, true),
        "{ran:?}"
    );
    assert!(dir.files().iter().all(|name| !name.ends_with(".part")), "{:?}", dir.files());
}

#[test]
fn convert_goes_there_and_back_compressed_too() {
    let dir = Dir::new().file("log.swf", LOG).file("own", OWN);
    assert_eq!(dir.run(&["trace", "convert", "log.swf", "a.jsonl.gz"]).code, 0);
    let json = dir.run(&["trace", "convert", "a.jsonl.gz", "b.swf", "--json"]).json();
    assert_eq!((&json["kind"], &json["jobs"]), (&"swf".into(), &3.into()));
    let load = |file| dir.run(&["trace", "info", file, "--json"]).json()["jobs"]["load"].clone();
    assert_eq!(load("log.swf"), load("b.swf"));
    assert_eq!(load("log.swf"), load("a.jsonl.gz"));
    let gpus = dir.run(&["trace", "convert", "own", "c.swf", "--json"]).json();
    assert_eq!(gpus["dropped"], serde_json::json!({"asks for GPUs": 2}));
    dir.run(&["trace", "convert", "own", "d.jsonl"]).fails(2, &["already"]);
}

#[test]
fn generate_writes_the_same_bytes_and_the_load_asked_for() {
    let dir = Dir::new();
    for file in ["a.swf", "b.swf"] {
        let args =
            ["trace", "generate", file, "--jobs", "2000", "--procs", "64", "--load", "0.7", "--seed", "5"];
        assert_eq!(dir.run(&args).code, 0);
    }
    assert_eq!(dir.read("a.swf"), dir.read("b.swf"));
    let info = dir.run(&["trace", "info", "a.swf", "--json"]).json();
    assert_eq!((&info["jobs"]["jobs"], &info["capacity"]), (&2000.into(), &64.into()));
    let load = info["jobs"]["load"].as_f64().unwrap();
    assert!((load - 0.7).abs() < 0.01, "{load}");
    let args =
        ["trace", "generate", "g.jsonl", "--jobs", "500", "--procs", "256", "--gpus", "32", "--load", "0.9"];
    assert_eq!(dir.run(&args).code, 0);
    let info = dir.run(&["trace", "info", "g.jsonl", "--json"]).json();
    assert_eq!((&info["unit"], &info["capacity"], &info["nodes"]), (&"GPUs".into(), &32.into(), &4.into()));
    dir.run(&["trace", "generate", "x.swf", "--gpus", "8"]).fails(2, &["GPUs", "--to landfall"]);
    dir.run(&["trace", "generate", "x.swf", "--load", "99"]).fails(2, &["--load: 99 is out of range"]);
}

#[cfg(unix)]
#[test]
fn force_replaces_files_but_neither_links_nor_devices() {
    let dir = Dir::new().file("real.swf", "old");
    std::os::unix::fs::symlink("real.swf", dir.path("link.swf")).unwrap();
    let args = ["trace", "generate", "link.swf", "--jobs", "3", "--procs", "8", "--force"];
    assert_eq!(dir.run(&args).code, 0);
    assert!(dir.path("link.swf").symlink_metadata().unwrap().is_symlink());
    assert!(dir.read("real.swf").starts_with(b";"), "the file behind the link was written");
    std::os::unix::fs::symlink("/dev/null", dir.path("null.swf")).unwrap();
    assert_eq!(dir.run(&["trace", "generate", "null.swf", "--jobs", "3", "--procs", "8", "--force"]).code, 0);
    assert!(!std::path::Path::new("/dev/null").metadata().unwrap().is_file(), "the device is still one");
}
