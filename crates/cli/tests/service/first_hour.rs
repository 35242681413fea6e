//! A student's first hour, typed as a person would type it: a sweep, a long job, a pipeline, a failure found and mended, results in hand.

use std::process::{Command, Stdio};

use crate::stand::{Said, Stand};

/// A shell in a directory, with `landfall` on its path.
struct Shell {
    stand: Stand,
}

impl Shell {
    fn types(&self, line: &str) -> Said {
        let binary =
            std::path::Path::new(env!("CARGO_BIN_EXE_landfall")).parent().unwrap().display().to_string();
        let mut command = Command::new("sh");
        command.args(["-c", line]).env_clear();
        for (name, value) in self.stand.command().get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let path = format!("{binary}:{}", std::env::var("PATH").unwrap_or_default());
        command.env("PATH", path).env_remove("LANDFALL_SERVER").current_dir(self.stand.path("thesis"));
        Said::of(command.stdin(Stdio::null()).output().unwrap())
    }
}

#[test]
fn a_students_first_hour() {
    let shell = Shell { stand: Stand::unstarted("") };
    std::fs::create_dir(shell.stand.path("thesis")).unwrap();
    let ready = shell.stand.path("ready");
    let args = ["up", "--cpus", "4", "--port", "0", "--ready-file", ready.to_str().unwrap()];
    let mut command = shell.stand.command();
    command.env_remove("LANDFALL_SERVER");
    let _up = shell.stand.start("up", command, &args);
    shell.stand.until("it is up", || ready.exists());
    let run = |line: &str| shell.types(line);
    let write = |name: &str, text: &str| std::fs::write(shell.stand.path("thesis").join(name), text).unwrap();

    // A program, and a sweep of 200 over it. One of the inputs is bad.
    write(
        "simulate",
        "#!/bin/sh\ntest \"$1\" -ne 137 -o -e fixed || { echo \"cannot read input $1\" >&2; exit 3; }\nmkdir -p results\necho $(($1 * $1)) > results/$1.txt\necho done $1\n",
    );
    run("chmod +x simulate").ok();
    run("landfall submit --wait -- ./simulate 1").ok();
    run("seq 1 200 > inputs.txt").ok();
    let sweep = run("landfall submit --name sweep --each-line inputs.txt -- ./simulate {entry}");
    assert!(sweep.out.starts_with("array 2\n"), "{}", sweep.out);

    // While it runs: a long job with a log of its own, and a look around.
    write(
        "long.sh",
        "#!/bin/sh\n#SBATCH --job-name=long --time=01:00:00\n#SBATCH --output=long.log\nfor step in 1 2 3; do echo step $step of job $SLURM_JOB_ID; sleep 0.2; done\n",
    );
    let long = run("landfall submit long.sh");
    assert!(long.out.starts_with("job 3\n"), "{}", long.out);
    assert!(run("landfall jobs --all").ok().contains("sweep"));
    assert!(run("landfall status").ok().contains("1 ready"));

    // The failure: found without looking for it, read, mended, and only that one is run again.
    let waited = run("landfall wait 2");
    assert_eq!(waited.code, 3, "{}", waited.err);
    for words in [
        "job 2.137 (sweep) failed: exit code 3",
        "  | cannot read input 137",
        "199 of 200 completed",
        "landfall retry 2 --failed",
    ] {
        assert!(waited.err.contains(words), "no `{words}` in: {}", waited.err);
    }
    assert!(run("landfall jobs --array 2 --state failed").ok().contains("2.137"));
    assert_eq!(run("landfall logs 2.137").err, "cannot read input 137\n");
    run("touch fixed").ok();
    run("landfall retry 2 --failed --wait").ok();

    // Results in hand: 200 files, and what all of them wrote.
    assert_eq!(run("cat results/*.txt | sort -n | tail -1").ok().trim(), "40000");
    assert_eq!(run("ls results | wc -l").ok().trim(), "200");
    assert!(run("landfall logs 2").ok().contains("2.200: done 200"));
    run("landfall logs 2 --out logs").ok();
    assert_eq!(run("ls logs/*.out | wc -l").ok().trim(), "199");

    // A pipeline, from a file, that ends with a report.
    write("sum.sh", "cat results/*.txt | awk '{s += $1} END {print s}' > sum.txt\n");
    write(
        "pipeline.toml",
        "[[jobs]]\nkey = 'sum'\nrun.command = ['sh', 'sum.sh']\n\n[[jobs]]\nkey = 'report'\nneeds = { cpu = 0.5, memory = '64MiB' }\ndepends_on = [{ on = 'sum' }]\nrun.command = ['sh', '-c', 'echo the sum is $(cat sum.txt) > report.txt']\n",
    );
    run("landfall submit --file pipeline.toml --wait").ok();
    assert_eq!(run("cat report.txt").ok(), "the sum is 2686700\n");

    // The long job has ended meanwhile.
    run("landfall wait 3").ok();
    assert_eq!(run("cat long.log").ok(), "step 1 of job 3\nstep 2 of job 3\nstep 3 of job 3\n");
    assert!(run("landfall jobs").ok().contains("no jobs"));
}
