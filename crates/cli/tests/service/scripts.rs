//! Scripts, many jobs from few lines, and what is done about them afterwards, as people who come from Slurm or HyperQueue do it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use landfall_model::Indices;
use serde_json::{Value, json};

use crate::stand::{Said, Stand};

#[path = "../../src/commands/service/submit/header_cases.rs"]
mod header_cases;

/// A server, a node, and somebody who stands in a directory.
struct Desk {
    stand: Stand,
    here: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let stand = Stand::with_agent(&["--cpus", "4"]);
        let here = stand.path("here");
        std::fs::create_dir(&here).unwrap();
        Self { stand, here }
    }

    fn run(&self, args: &[&str]) -> Said {
        let mut command = self.stand.command();
        command.args(args).env("FLAVOUR", "sweet").env("LANDFALL_SECRET", "hidden");
        Said::of(command.current_dir(&self.here).stdin(Stdio::null()).output().unwrap())
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.here.join(name), text).unwrap();
    }

    #[track_caller]
    fn read(&self, name: impl AsRef<Path>) -> String {
        let path = self.here.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Submits, and gives the id.
    #[track_caller]
    fn submit(&self, args: &[&str]) -> String {
        self.run(&[&["submit", "--quiet"], args].concat()).ok().trim().to_owned()
    }

    #[track_caller]
    fn refused(&self, args: &[&str], words: &[&str]) {
        let said = self.run(args);
        assert_ne!(said.code, 0, "{args:?} was accepted: {}", said.out);
        for word in words {
            assert!(said.err.contains(word), "{args:?}: no `{word}` in: {}", said.err);
        }
    }
}

#[test]
fn scripts_run_with_what_their_lines_say() {
    let desk = Desk::new();
    desk.write(
        "job.sh",
        "#!/bin/sh\n#SBATCH --job-name=sweep --array=1-3\n#SBATCH --output=logs/%x_%a.txt\n#SBATCH -t 5 -n 2\n#SBATCH --mail-type=END\n\
         echo task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT in $(basename $PWD) with $1 on $SLURM_NTASKS\necho oops >&2\n",
    );
    let said = desk.run(&["submit", "job.sh", "salt", "--wait"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("job.sh: line 5: --mail-type has no effect here"), "{}", said.err);
    // Standard error goes where standard output goes, in the order in which it was written.
    assert_eq!(desk.read("logs/sweep_2.txt"), "task 2 of 3 in here with salt on 2\noops\n");
    assert_eq!(desk.run(&["logs", "1.2"]).ok(), "task 2 of 3 in here with salt on 2\noops\n");
    let job = desk.stand.job("1.2");
    assert_eq!(
        (job["needs"]["cpu_milli"].as_u64(), job["run"]["timeout_ms"].as_u64()),
        (Some(2000), Some(300_000))
    );
    assert_eq!(job["run"]["command"], serde_json::json!(["job.sh", "salt"]));
    assert!(job["run"]["script"].as_str().unwrap().starts_with("#!/bin/sh"), "{job}");
    let listed = desk.stand.json(&["jobs", "--array", "1"]);
    assert!(listed["jobs"][0]["run"]["script"].is_null(), "lists have no scripts: {listed}");
    // The command line comes before the script, and what it changes afterwards does not matter to what was submitted.
    let held = desk.submit(&["--array", "5", "--name", "later", "--hold", "job.sh", "--", "--pepper"]);
    desk.write("job.sh", "#!/bin/sh\nexit 9\n");
    desk.run(&["release", &held]).ok();
    desk.run(&["wait", &held]).ok();
    assert!(desk.read("logs/later_5.txt").starts_with("task 5 of 1 in here with --pepper"));
    // Once more, script and all.
    std::fs::remove_file(desk.here.join("logs/later_5.txt")).unwrap();
    desk.run(&["retry", &held, "--wait"]).ok();
    assert!(desk.read("logs/later_5.txt").starts_with("task 5 of 1"));

    // Lines of our own, and an environment by choice.
    desk.write("own.sh", "#!/usr/bin/env sh\n#LANDFALL --cpu 500m --memory 64M\n#LANDFALL --walltime 1h30m\necho ${FLAVOUR:-none} ${SEED:-none} ${LANDFALL_SECRET:-none} ${SLURM_JOB_ID:-none}\n");
    assert_eq!(desk.run(&["submit", "--wait", "own.sh"]).ok(), "none none none none\n");
    assert_eq!(
        desk.run(&["submit", "--wait", "own.sh", "--export", "ALL,SEED=7"]).ok(),
        "sweet 7 none none\n"
    );
    assert_eq!(
        desk.run(&["submit", "--wait", "own.sh", "--export", "FLAVOUR"]).ok(),
        "sweet none none none\n"
    );
    let slurm = desk.run(&["submit", "--wait", "own.sh", "--slurm-env"]).ok();
    assert!(slurm.starts_with("none none none ") && !slurm.ends_with("none\n"), "{slurm}");
    assert!(desk.run(&["plan", "own.sh"]).ok().contains("starts now"));

    // A slip is named with its line, a command is not taken for a script.
    desk.write("slip.sh", "#!/bin/sh\n#SBATCH --time=10\n#SBATCH --ntask=4\n");
    desk.refused(&["submit", "slip.sh"], &["no option `--ntask`", "did you mean --ntasks?", "slip.sh:3"]);
    desk.write("far.sh", "#!/bin/sh\n#SBATCH -p gpu -w n[1-4]\necho near\n");
    desk.refused(&["submit", "far.sh"], &["--nodelist cannot be done here", "far.sh:2"]);
    desk.refused(&["submit", "far.sh", "--skip", "nodelist"], &["no pool `gpu`"]);
    assert_eq!(desk.run(&["submit", "--wait", "far.sh", "--skip", "nodelist,partition"]).ok(), "near\n");
    desk.refused(&["submit", "echo", "hello"], &["no script `echo`", "landfall submit -- echo"]);
    desk.write("plain", "echo no first line\n");
    desk.refused(&["submit", "plain"], &["this is no script", "plain:1"]);
}

#[test]
fn headers_of_the_real_world_are_accepted_as_what_they_say() {
    let pools = ["default", "gpu", "long"].map(|id| format!("[[pools]]\nid = '{id}'\ndispatch = 'batch'\n"));
    let stand = Stand::with_config(&format!("{}[[tenants]]\nid = 'proj42'\n", pools.concat()));
    let token = std::fs::read_to_string(stand.data().join("token")).unwrap();
    // Some depend on jobs that are there; machines are not.
    let there = |more: &str| {
        format!(r#"{{"needs": {{"wait_for_capacity": true}}, "run": {{"command": ["true"]}}{more}}}"#)
    };
    let mut lines = vec![there(""); 130];
    lines[19] = there(r#", "array": "1-9""#);
    let told = stand.says_lines("/jobs/stream", &[], &lines);
    assert!(told.iter().all(|line| line["error"].is_null()), "{told:?}");
    let usual = json!({ "exclusive": true, "requeue": "on_loss", "gpu_count": 1 });
    let mut wrong = Vec::new();
    for (place, (header, expected)) in header_cases::cases().into_iter().enumerate() {
        let script = stand.path(&format!("job-{place}.sh"));
        std::fs::write(&script, format!("#!/bin/bash\n{header}\n./run\n")).unwrap();
        let mut command = stand.command();
        command.args(["submit", "--hold", "--quiet", "--need", "wait_for_capacity=true"]).arg(&script);
        let said = Said::of(command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap());
        if said.code != 0 {
            wrong.push(format!("{header}\nrefused: {}", said.err));
            continue;
        }
        let id = said.out.trim();
        let made = stand.get(&token, &format!("/jobs/{id}/request"));
        let run = &made["run"];
        for (name, expected) in expected.as_object().unwrap() {
            let found = match name.as_str() {
                "name" => made["name"].clone(),
                "out" => run["stdout"].clone(),
                "err" => run["stderr"].clone(),
                "cwd" => run["cwd"].clone(),
                "array" => match serde_json::from_value(made["array"].clone()).unwrap() {
                    Indices { list: None, first, last, step } => json!([first, last, step]),
                    listed => json!(listed.to_string()),
                },
                "after" => {
                    let (all, first) = (&made["needs"]["direct_inputs"], &stand.job(id)["waits_for"]);
                    assert_eq!(*all, expected.as_array().unwrap().len(), "{header}");
                    assert!(expected[0].as_str().unwrap().starts_with(first.as_str().unwrap()), "{header}");
                    continue;
                }
                // All are held here, and what is submitted again does not wait again.
                "hold" | "not_before" => continue,
                need => match &made["needs"][need] {
                    // What everybody gets is not written down.
                    Value::Null => usual[need].clone(),
                    nodes if nodes["min"] == nodes["max"] && nodes["min"].is_u64() => nodes["min"].clone(),
                    found => found.clone(),
                },
            };
            if found != *expected {
                wrong.push(format!("{header}\n{name} is {found}, should be {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn files_grow_while_the_job_runs_and_belong_to_one_job_each() {
    let desk = Desk::new();
    let slow = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last; echo bad >&2; exit 3";
    let id = desk.submit(&["--output", "out/{job}.txt", "--error", "out/{job}.err", "--", "sh", "-c", slow]);
    let file = format!("out/{id}.txt");
    desk.stand.until("the file has its first line", || {
        std::fs::read_to_string(desk.here.join(&file)).is_ok_and(|text| text == "first\n")
    });
    desk.write("go", "");
    assert_eq!(desk.run(&["wait", &id]).code, 3);
    assert_eq!(
        (desk.read(&file), desk.read(format!("out/{id}.err"))),
        ("first\nlast\n".into(), "bad\n".into())
    );
    assert_eq!(desk.run(&["logs", &id, "--stderr"]).err, "bad\n");
    assert!(desk.run(&["job", &id]).ok().contains("out/{job}.txt"));
    // In a fresh directory it is kept with the rest, and the log is whole.
    desk.write(
        "job.toml",
        "[run]\ncommand = ['echo', 'afar']\nstdout = 'o.txt'\n[run.submitted_from]\nhost = 'elsewhere'\nuid = 1\ndir = '/nowhere'\n",
    );
    let said = desk.run(&["submit", "--wait", "--file", "job.toml"]);
    let far =
        desk.stand.json(&["jobs", "--all", "--limit", "1"])["jobs"][0]["id"].as_str().unwrap().to_owned();
    let job = desk.stand.job(&far);
    assert!(said.err.contains(job["files"].as_str().unwrap()), "whoever waits is told where: {}", said.err);
    assert_eq!(
        std::fs::read_to_string(Path::new(job["files"].as_str().unwrap()).join("o.txt")).unwrap(),
        "afar\n"
    );
    assert_eq!(desk.run(&["logs", &far]).ok(), "afar\n");
    // What cannot be written ends the job with a word about it, and nobody writes over anybody.
    let said = desk.run(&["submit", "--wait", "--output", "go/x", "--", "true"]);
    assert!(said.code == 126 && said.err.contains("cannot write to"), "{} {}", said.code, said.err);
    desk.refused(&["submit", "--array", "1-2", "--output", "o", "--", "true"], &["all elements", "{index}"]);
    desk.refused(&["submit", "--output", "{jbo}", "--", "true"], &["{jbo} stands for nothing"]);
    desk.refused(&["submit", "--image", "alpine", "--output", "o", "--", "true"], &["for processes"]);
    desk.run(&["submit", "--wait", "--output", "/dev/null", "--array", "1-2", "--", "echo", "quiet"]).ok();
}

#[test]
fn a_file_with_a_job_on_each_line_is_submitted_line_by_line() {
    let desk = Desk::new();
    let line = |place: u32, pool: &str| {
        format!(
            "{{\"name\": \"n{place}\", {pool}\"run\": {{\"command\": [\"sh\", \"-c\", \"echo {place} >> {place}.txt\"]}}}}\n"
        )
    };
    let many: String =
        (1..=300).map(|place| line(place, "") + if place % 7 == 0 { "\n" } else { "" }).collect();
    desk.write("many.jsonl", &many);
    let submit = ["submit", "--file", "many.jsonl", "--cpu", "100m", "--idempotency-key", "many", "--json"];
    let said: Value = serde_json::from_str(&desk.run(&submit).ok()).unwrap();
    let ids: Vec<u64> = said["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["id"].as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!((ids.len(), &said["count"], &said["repeated"]), (300, &json!(300), &json!(false)));
    assert!(ids.is_sorted(), "in the order of the lines: {ids:?}");
    // Once more under its key it is the same jobs, and waiting is for all of them.
    let again: Value = serde_json::from_str(&desk.run(&submit).ok()).unwrap();
    assert_eq!((&again["jobs"], &again["repeated"]), (&said["jobs"], &json!(true)));
    let waits =
        ["submit", "--file", "many.jsonl", "--cpu", "100m", "--idempotency-key", "many", "--wait", "--quiet"];
    desk.run(&waits).ok();
    assert!(
        (1..=300).all(|place| desk.read(format!("{place}.txt")) == format!("{place}\n")),
        "each ran once"
    );

    // What the server refuses stops nothing else; what cannot be read stops everything.
    desk.write(
        "some.jsonl",
        &(line(1, "") + "\n" + &line(2, "\"needs\": {\"pool\": \"none\"}, ") + &line(3, "")),
    );
    let said = desk.run(&["submit", "--file", "some.jsonl", "--quiet"]);
    assert_eq!((said.code, said.out.lines().count()), (6, 2), "{}", said.err);
    assert!(said.err.contains("some.jsonl:3: refused: ") && said.err.contains("`none`"), "{}", said.err);
    let before = desk.run(&["jobs", "--all", "--json", "--limit", "1"]).ok();
    desk.write("broken.jsonl", &(line(1, "") + "{\"nmae\": \"x\"}\n"));
    desk.refused(&["submit", "--file", "broken.jsonl"], &["broken.jsonl:2", "nmae"]);
    desk.write("nothing.jsonl", &(line(1, "") + "{\"name\": \"x\"}\n"));
    desk.refused(&["submit", "--file", "nothing.jsonl"], &["nothing.jsonl:2", "nothing to run"]);
    let newest = |text: &str| serde_json::from_str::<Value>(text).unwrap()["jobs"][0]["id"].clone();
    assert_eq!(newest(&before), newest(&desk.run(&["jobs", "--all", "--json", "--limit", "1"]).ok()));
    desk.refused(&["submit", "--file", "many.jsonl", "--name", "x"], &["several jobs"]);
    desk.refused(&["submit", "--file", "many.jsonl", "--dry-run"], &["line by line"]);
}

#[test]
fn many_jobs_come_from_the_lines_of_a_file() {
    let desk = Desk::new();
    desk.write("inputs.txt", "apple pie\nbanana\ncherry 'n cream\n");
    let said = desk.run(&[
        "submit",
        "--wait",
        "--each-line",
        "inputs.txt",
        "--",
        "sh",
        "-c",
        "echo \"$1=$LANDFALL_ENTRY\" > $LANDFALL_ARRAY_INDEX.txt; test $LANDFALL_ARRAY_INDEX -ne 2 -o -e ok",
        "x",
        "{entry}",
    ]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert_eq!(
        (desk.read("1.txt"), desk.read("3.txt")),
        ("apple pie=apple pie\n".into(), "cherry 'n cream=cherry 'n cream\n".into())
    );
    assert!(desk.run(&["job", "1.2"]).ok().contains("banana"));
    // What failed runs again with the line it had.
    desk.write("ok", "");
    std::fs::remove_file(desk.here.join("2.txt")).unwrap();
    desk.run(&["retry", "1", "--failed", "--wait"]).ok();
    assert_eq!(desk.read("2.txt"), "banana=banana\n");
    desk.write("grid.json", r#"[{"lr": 0.1, "name": "a b"}, {"lr": 0.01, "name": "c"}]"#);
    let grid = desk.submit(&[
        "--from-json",
        "grid.json",
        "--",
        "echo",
        "{entry.name}",
        "at",
        "{entry.lr}",
        "awk {print}",
    ]);
    desk.run(&["wait", &grid]).ok();
    assert_eq!(
        desk.run(&["logs", &grid]).ok(),
        format!("{grid}.1: a b at 0.1 awk {{print}}\n{grid}.2: c at 0.01 awk {{print}}\n")
    );
    desk.refused(
        &["submit", "--from-json", "grid.json", "--", "echo", "{entry.none}"],
        &["entry 1 has nothing for {entry.none}"],
    );
    // A file may hold entries as well.
    desk.write("inline.toml", "entries = ['red', 'green']\nrun.command = ['echo', '{entry}']\n");
    let inline = desk.submit(&["--file", "inline.toml"]);
    desk.run(&["wait", &inline]).ok();
    assert_eq!(desk.run(&["logs", &inline]).ok(), format!("{inline}.1: red\n{inline}.2: green\n"));
    desk.write("none.txt", "\n");
    desk.refused(&["submit", "--each-line", "none.txt", "--", "true"], &["none.txt", "empty"]);
    desk.write("gap.txt", "a\n\nb\n");
    desk.refused(&["submit", "--each-line", "gap.txt", "--", "true"], &["line 2 of gap.txt is empty"]);
    desk.refused(&["submit", "--from-json", "inputs.txt", "--", "true"], &["inputs.txt", "write a list"]);
    desk.refused(&["submit", "--at-once", "2", "--", "true"], &["at_once", "array"]);

    // No more at once than asked for: each counts those that run beside it.
    let count =
        "mkdir run.$LANDFALL_ARRAY_INDEX; ls -d run.* | wc -l; sleep 0.1; rmdir run.$LANDFALL_ARRAY_INDEX";
    let few = desk.submit(&["--array", "1-12%2", "--cpu", "500m", "--", "sh", "-c", count]);
    let next = desk.stand.run(&["explain", &format!("{few}.12")]).ok();
    assert!(next.contains("array_limit") || next.contains("next of its array"), "{next}");
    desk.run(&["wait", &few]).ok();
    let seen = desk.run(&["logs", &few]).ok();
    let most = seen.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap()).max();
    assert_eq!((seen.lines().count(), most), (12, Some(2)), "{seen}");

    // A pipeline that fans out and in again: element by element, and over all of them.
    desk.write(
        "fan.toml",
        "[[jobs]]\nkey = 'sum'\ndepends_on = [{ on = 'square' }]\nrun.command = ['sh', '-c', 'cat sq.* | sort -n | paste -sd+ > sum']\n\
         [[jobs]]\nkey = 'make'\narray = '1-3'\nneeds.cpu = 0.5\nrun.command = ['sh', '-c', 'echo $LANDFALL_ARRAY_INDEX > n.$LANDFALL_ARRAY_INDEX']\n\
         [[jobs]]\nkey = 'square'\narray = { first = 1, last = 3 }\ndepends_on = [{ on = 'make', kind = 'corresponding' }]\n\
         run.command = ['sh', '-c', 'n=$(cat n.$LANDFALL_ARRAY_INDEX); echo $((n * n)) > sq.$n']\n",
    );
    desk.run(&["submit", "--file", "fan.toml", "--wait"]).ok();
    assert_eq!(desk.read("sum"), "1+4+9\n");
    desk.write("bad.toml", "[[jobs]]\nkey = 'a'\narray = '1-3'\nrun.command = ['true']\n[[jobs]]\nkey = 'b'\nneeds.pool = 'nowhere'\nrun.command = ['true']\n");
    desk.refused(
        &["submit", "--file", "bad.toml"],
        &["job 2 (`b`): there is no pool `nowhere`", "bad.toml:7"],
    );
    assert_eq!(desk.run(&["jobs"]).ok(), "no jobs\n", "what was accepted before it is taken back");

    // A sweep that fails throughout stops soon, and what it left is run again with what failed.
    let doomed = desk.submit(&["--array", "1-3000", "--max-fails", "3", "--", "sh", "-c", "test -e fixed"]);
    assert_eq!(desk.run(&["wait", &doomed]).code, 1);
    let array = desk.stand.array(&doomed);
    let (failed, cancelled) = (array["failed"].as_u64().unwrap(), array["cancelled"].as_u64().unwrap());
    assert!((4..100).contains(&failed) && failed + cancelled == 3000, "{array}");
    let waiting = desk.run(&["job", &format!("{doomed}.2999")]).ok();
    assert!(waiting.contains("cancelled"), "{waiting}");
    let again = desk.run(&["--json", "retry", &doomed, "--failed"]).ok();
    let again: serde_json::Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["count"], 3000, "{again}");
    desk.run(&["cancel", "--all", "--yes"]).ok();
}

#[test]
fn failures_are_tried_again_after_a_pause_and_jobs_are_cancelled_by_what_they_have_in_common() {
    let desk = Desk::new();
    let script = "date +%s%3N >> times; exit 1";
    let said =
        desk.run(&["submit", "--wait", "--retries", "2", "--retry-delay", "300ms", "--", "sh", "-c", script]);
    assert_eq!(said.code, 1, "{}", said.err);
    let times: Vec<u64> = desk.read("times").lines().map(|line| line.parse().unwrap()).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        gaps.len() == 2 && gaps[0] >= 290 && gaps[1] >= 590,
        "it pauses, and for twice as long: {gaps:?}"
    );
    // A second if nothing is said, and for exit codes that are named, too.
    desk.write("times", "");
    let named = "date +%s%3N >> times; test $LANDFALL_ATTEMPT -ge 2 || exit 75";
    desk.run(&["submit", "--wait", "--retries", "1", "--retry-on", "75", "--", "sh", "-c", named]).ok();
    let times: Vec<u64> = desk.read("times").lines().map(|line| line.parse().unwrap()).collect();
    assert!(times.len() == 2 && times[1] - times[0] >= 990, "{times:?}");
    let other =
        desk.run(&["submit", "--wait", "--retries", "1", "--retry-on", "75", "--", "sh", "-c", "exit 4"]);
    assert_eq!((other.code, desk.stand.job("3")["attempt"].as_u64()), (4, Some(1)));

    for name in ["sweep", "sweep", "other"] {
        desk.submit(&["--hold", "--name", name, "--", "true"]);
    }
    let array = desk.submit(&["--hold", "--array", "1-200", "--name", "sweep", "--", "true"]);
    let runs = desk.submit(&["--name", "runs", "--", "sleep", "300"]);
    desk.stand.wait_for(&runs, &["running"]);
    desk.refused(&["cancel", "--name", "sweep"], &["cancel 202 jobs, 200 of them of an array?", "--yes"]);
    assert_eq!(desk.stand.array(&array)["pending"], 200, "nobody agreed");
    let said = desk.run(&["cancel", "--name", "sweep", "--yes"]);
    assert!(said.code == 0 && said.err.contains("cancelled 202 jobs"), "{}", said.err);
    assert_eq!(desk.stand.array(&array)["cancelled"], 200);
    assert_eq!(desk.run(&["cancel", "--name", "nothing", "--yes"]).code, 1);
    let said = desk.run(&["cancel", "--state", "pending", "--yes"]);
    assert!(said.code == 0 && said.err.contains("cancelled 1 job"), "{}", said.err);
    assert_eq!(desk.stand.job(&runs)["state"], "running");
    // Of an array whose elements run and wait, those are taken back that were meant.
    let sweep = desk.submit(&["--array", "1-5000", "--name", "mixed", "--", "sleep", "300"]);
    desk.stand.until("some run", || desk.stand.array(&sweep)["running"] == 3);
    let said = desk.run(&["cancel", "--state", "pending", "--name", "mixed", "--yes"]);
    assert!(said.code == 0 && said.err.contains("cancelled 4997 jobs"), "{} {}", said.out, said.err);
    let array = desk.stand.array(&sweep);
    assert_eq!((array["running"].as_u64(), array["cancelled"].as_u64()), (Some(3), Some(4997)), "{array}");
    let said = desk.run(&["cancel", "--state", "running", "--name", "mixed", "--yes"]);
    assert!(said.code == 0 && said.err.contains("cancelled 3 jobs"), "{} {}", said.out, said.err);
    desk.stand.until("none runs", || desk.stand.array(&sweep)["cancelled"] == 5000);
    desk.refused(&["cancel"], &["required"]);
    desk.refused(&["cancel", &runs, "--all"], &["cannot be used with"]);
    desk.run(&["cancel", "--all", "--yes"]).ok();
    desk.stand.wait_for(&runs, &["cancelled"]);
}
