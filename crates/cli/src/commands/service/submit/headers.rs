//! Headers as people have them: each becomes the right job, or is refused with a clear word.

use serde_json::{Value, json};

use super::super::request::{Asked, asked};
use super::*;

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
    let Asked::One(job) = asked(&args).map_err(|error| error.text())? else { return Err("several".into()) };
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

fn minutes(number: u64) -> Value {
    json!(number * 60_000)
}

#[test]
fn headers_of_the_real_world_become_the_right_job() {
    let cases: Vec<(&str, Value)> = vec![
        // The least.
        ("#SBATCH --time=10", json!({"walltime_ms": minutes(10)})),
        ("#SBATCH -t 01:30:00\n#SBATCH -J simulate", json!({"walltime_ms": minutes(90), "name": "simulate"})),
        (
            "#SBATCH --job-name=\"my job\" --time=1-00:00:00",
            json!({"name": "my job", "walltime_ms": minutes(1440)}),
        ),
        // One node, several cores.
        (
            "#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=8\n#SBATCH --mem=16G",
            json!({"cpu_milli": 8000, "ram_mib": 16384}),
        ),
        ("#SBATCH -N1 -n4 -c2", json!({"cpu_milli": 8000})),
        ("#SBATCH -n 16\n#SBATCH --mem-per-cpu=2G", json!({"cpu_milli": 16000, "ram_mib": 32768})),
        ("#SBATCH -c 4\n#SBATCH --mem-per-cpu=1500", json!({"cpu_milli": 4000, "ram_mib": 6000})),
        ("#SBATCH --mem=500", json!({"ram_mib": 500})),
        ("#SBATCH --mem=2T", json!({"ram_mib": 2_097_152})),
        ("#SBATCH --mem=1000000K", json!({"ram_mib": 977})),
        // Several nodes.
        (
            "#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=32\n#SBATCH --time=2-12:00",
            json!({"nodes": 4, "cpu_milli": 32000, "walltime_ms": minutes(3600)}),
        ),
        ("#SBATCH -N 2\n#SBATCH -n 48", json!({"nodes": 2, "cpu_milli": 24000})),
        (
            "#SBATCH --nodes=2-4\n#SBATCH --tasks-per-node=1\n#SBATCH -c 16",
            json!({"nodes": {"min": 2, "max": 4}, "cpu_milli": 16000}),
        ),
        ("#SBATCH --nodes=2\n#SBATCH --exclusive\n#SBATCH --mem=0", json!({"nodes": 2, "exclusive": true})),
        // GPUs.
        ("#SBATCH --gres=gpu:1", json!({"gpu_count": 1})),
        ("#SBATCH --gres=gpu", json!({"gpu_count": 1})),
        (
            "#SBATCH --gres=gpu:a100:2\n#SBATCH --cpus-per-gpu=6",
            json!({"gpu_count": 2, "gpu_models": ["a100"], "cpu_milli": 12000}),
        ),
        ("#SBATCH --gpus=v100:4", json!({"gpu_count": 4, "gpu_models": ["v100"]})),
        (
            "#SBATCH --nodes=2 --gpus=8 --mem-per-gpu=10G",
            json!({"nodes": 2, "gpu_count": 4, "ram_mib": 40960}),
        ),
        (
            "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n#SBATCH --ntasks-per-node=8\n#SBATCH --cpus-per-task=12",
            json!({"nodes": 2, "gpu_count": 8, "cpu_milli": 96000}),
        ),
        ("#SBATCH --ntasks=4 --gpus-per-task=1", json!({"gpu_count": 4, "cpu_milli": 4000})),
        // Arrays.
        ("#SBATCH --array=1-100", json!({"array": [1, 100, 1]})),
        (
            "#SBATCH --array=0-31%4\n#SBATCH --output=slurm-%A_%a.out",
            json!({"array": [0, 31, 1], "at_once": 4, "out": "slurm-{array}_{index}.out"}),
        ),
        ("#SBATCH -a 1,5,9", json!({"array": [1, 9, 4]})),
        ("#SBATCH --array=1,2,9-12%2", json!({"array": "1-2,9-12", "at_once": 2})),
        (
            "#SBATCH -a 1-100:2\n#SBATCH -o out/%x.%4a.txt",
            json!({"array": [1, 100, 2], "out": "out/{name}.{index:4}.txt"}),
        ),
        // Files and places.
        ("#SBATCH -o %j.out -e %j.err", json!({"out": "{job}.out", "err": "{job}.err"})),
        (
            "#SBATCH --output=/scratch/%x-%j.log\n#SBATCH --chdir=/scratch",
            json!({"out": "/scratch/{name}-{job}.log", "cwd": "/scratch"}),
        ),
        ("#SBATCH --output=/dev/null", json!({"out": "/dev/null"})),
        (
            "#SBATCH --output=res_%N_%t.txt -D sub",
            json!({"out": "res_{node}_{rank}.txt", "cwd": std::env::current_dir().unwrap().join("sub")}),
        ),
        // Whom it is for.
        ("#SBATCH -p gpu -A proj42", json!({"pool": "gpu", "tenant": "proj42"})),
        ("#SBATCH --partition=long   # the slow one", json!({"pool": "long"})),
        (
            "#SBATCH -C \"haswell&nvme\"",
            json!({"features": [{"name": "haswell", "count": 1}, {"name": "nvme", "count": 1}]}),
        ),
        // When.
        ("#SBATCH --dependency=afterok:123:124", json!({"after": ["123:success", "124:success"]})),
        ("#SBATCH -d afterany:12,afternotok:13", json!({"after": ["12:any", "13:failure"]})),
        ("#SBATCH --dependency=aftercorr:20_7", json!({"after": ["20.7:corresponding"]})),
        (
            "#SBATCH -J nightly\n#SBATCH --dependency=singleton",
            json!({"name": "nightly", "mutex": ["nightly"]}),
        ),
        ("#SBATCH --begin=2099-01-02T03:04:05", json!({"not_before": 4_071_006_245_000_u64})),
        ("#SBATCH --hold\n#SBATCH --no-requeue", json!({"hold": true, "requeue": "never"})),
        ("#SBATCH --requeue", json!({"requeue": "on_loss"})),
        ("#SBATCH --time=UNLIMITED", json!({})),
        // Ours, alone and beside.
        (
            "#LANDFALL --cpu 2 --memory 4G --walltime 1h30m",
            json!({"cpu_milli": 2000, "ram_mib": 4096, "walltime_ms": minutes(90)}),
        ),
        (
            "#SBATCH --mem=4G\n#LANDFALL --memory 8GiB --gpu 1:24GiB",
            json!({"ram_mib": 8192, "gpu_count": 1, "vram_mib": 24576}),
        ),
        ("##SBATCH --mem=4G\n# a comment\n\n#SBATCH --mem=1G", json!({"ram_mib": 1024})),
        // Mail, accounting and bindings do nothing here, and that is said.
        (
            "#SBATCH --mail-type=END,FAIL --mail-user=me@example.org\n#SBATCH --qos=normal --hint=nomultithread\n#SBATCH --signal=B:USR1@120 -t 5",
            json!({"walltime_ms": minutes(5)}),
        ),
    ];
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
