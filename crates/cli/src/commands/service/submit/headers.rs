//! Headers as people have them: each becomes the right job, or is refused with a clear word.

use serde_json::{Value, json};

use super::super::request::{Asked, asked};
use super::*;

mod header_cases;

/// The job of a script, in the fields that headers are about, and what was said about it.
fn job(header: &str, line: &[&str]) -> Result<(Value, Vec<String>), String> {
    let text = format!("#!/bin/bash\n{header}\n./run\n");
    let (flags, slurm, warnings) = directives(&text, &[])
        .map_err(|wrong| format!("{}: {} ({})", wrong.line, wrong.message, wrong.hint))?;
    let mut words = flags.clone();
    if !flags.iter().any(|flag| flag.starts_with("--cwd=")) {
        words.push("--cwd=/w".to_owned());
    }
    words.extend(line.iter().map(|word| (*word).to_owned()));
    let mut args = Line::try_parse_from(words).map_err(|error| error.to_string())?.job;
    args.read = Some(Script { name: "job.sh".into(), text, slurm });
    let Asked::One(job) = asked(&args, || Ok(0)).map_err(|error| error.text())? else {
        return Err("several".into());
    };
    let mut shown = serde_json::to_value(&job.needs).unwrap();
    let fields = shown.as_object_mut().unwrap();
    // What every command says.
    fields.remove("runtime");
    fields.retain(|name, value| {
        !(name == "exclusive" && *value == false || name == "cpu_milli" && *value == 1000)
    });
    if let Some(nodes) = fields.get_mut("nodes").filter(|nodes| nodes["min"] == nodes["max"]) {
        *nodes = nodes["min"].clone();
    }
    let array = job.array.map(|indices| match indices.list {
        Some(_) => json!(indices.to_string()),
        None => json!([indices.first, indices.last, indices.step]),
    });
    let depends = job.depends_on.iter().map(|on| json!(format!("{}:{:?}", on.on, on.kind).to_lowercase()));
    let depends: Vec<Value> = depends.collect();
    let run = &job.run;
    for (name, value) in [
        ("name", job.name.filter(|name| name != "job.sh").map(Value::from)),
        ("out", run.stdout.clone().map(Value::from)),
        ("err", run.stderr.clone().map(Value::from)),
        ("cwd", run.cwd.clone().filter(|dir| dir != "/w").map(Value::from)),
        ("array", array),
        ("after", (!depends.is_empty()).then_some(Value::Array(depends))),
        ("hold", job.hold.then_some(true.into())),
        ("not_before", job.not_before_ms.map(Value::from)),
    ] {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    }
    Ok((shown, warnings))
}

#[test]
fn headers_of_the_real_world_become_the_right_job() {
    let cases = header_cases::cases();
    assert!(cases.len() >= 40, "{}", cases.len());
    let mut wrong = Vec::new();
    for (header, expected) in cases {
        match job(header, &[]) {
            Ok((found, _)) if found == expected => {}
            Ok((found, _)) => wrong.push(format!("{header}\nis      {found}\nshould be {expected}")),
            Err(error) => wrong.push(format!("{header}\nrefused: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn what_cannot_be_done_is_refused_with_its_line() {
    for (header, words) in [
        (
            "#SBATCH --time=10\n#SBATCH --nodelist=node[01-04]",
            &["3: --nodelist cannot be done here", "--skip nodelist"][..],
        ),
        ("#SBATCH -x node7", &["2: --exclude cannot be done"]),
        ("#SBATCH --licenses=matlab:1", &["--licenses", "mutex"]),
        ("#SBATCH --tmp=100G", &["--tmp", "disk"]),
        ("#SBATCH --ntask=4", &["sbatch has no option `--ntask`", "did you mean --ntasks?"]),
        ("#SBATCH -Z 1", &["sbatch has no option `-Z`"]),
        ("#SBATCH --time=soon", &["--time soon: no time", "D-HH:MM:SS"]),
        ("#SBATCH --mem=4GiB", &["--mem 4GiB: no size"]),
        ("#SBATCH --mem=0", &["--mem 0: all memory", "--exclusive"]),
        ("#SBATCH --cpus-per-task=many", &["--cpus-per-task many: no whole number"]),
        ("#SBATCH --gres=fpga:1", &["--gres fpga:1", "features"]),
        ("#SBATCH --nodes=3 --gpus=4", &["--gpus 4: 4 GPUs cannot be shared out evenly over 3 nodes"]),
        ("#SBATCH --partition=a,b", &["--partition a,b: a job is for one pool"]),
        ("#SBATCH --dependency=after:12", &["--dependency after:12", "afterok:ID"]),
        ("#SBATCH --constraint=a|b", &["--constraint a|b"]),
        ("#SBATCH --exclusive=user", &["--exclusive user"]),
        ("#SBATCH --begin=16:00", &["--begin 16:00", "now+2hours"]),
        ("#SBATCH --output=%q.out", &["%q is not understood"]),
        ("#SBATCH --job-name=\"open", &["2: a quote is not closed"]),
        ("#SBATCH time=10", &["`time=10` is no option of sbatch"]),
        ("#SBATCH --requeue=yes", &["--requeue takes no value"]),
        ("#SBATCH --mem", &["--mem needs a value"]),
        ("#SBATCH --array=10-1", &["--array", "below the first"]),
        ("#LANDFALL --cpus 4x", &["2: "]),
        ("#LANDFALL --no-such", &["2: unexpected argument '--no-such'"]),
        ("#LANDFALL -- make", &["2: a directive holds flags alone"]),
    ] {
        let error = job(header, &[]).map(|(found, _)| found).expect_err(header);
        for word in words {
            assert!(error.contains(word), "{header}\nno `{word}` in: {error}");
        }
    }
}

#[test]
fn what_has_no_effect_is_named_line_by_line() {
    let header = "#SBATCH --mail-type=END\n# SBATCH --mem=4G\n#PBS -l walltime=1:00\n#SBATCH -q high --open-mode=append";
    let (_, said) = job(header, &[]).unwrap();
    for words in [
        "line 2: --mail-type has no effect",
        "line 3 is a comment",
        "line 4 is not read",
        "line 5: --qos",
        "--open-mode=append",
    ] {
        assert!(said.iter().any(|line| line.contains(words)), "no `{words}` in {said:?}");
    }
    let (flags, _, said) = directives("#!/bin/sh\nsrun ./a\n#SBATCH --mem=4G\n", &[]).unwrap();
    assert_eq!(flags, Vec::<String>::new());
    assert!(said[0].contains("line 2 calls srun") && said[1].contains("line 3 is not read"), "{said:?}");
    // Whoever says so may leave lines out.
    let skip = ["partition".to_owned(), "--nodelist".to_owned()];
    let (flags, ..) = directives("#!/bin/sh\n#SBATCH -p gpu -w n1 -t 1\n", &skip).unwrap();
    assert_eq!(flags, ["--env=SLURM_NTASKS=1", "--walltime=60s"]);
}
