//! Every page of help has examples, and each of them runs as it is written.
//!
//! Only what belongs to whoever reads a page is put in its place: the address of a server, the id of a peer, directories of the system.
//! Programs of others (`jq`, `man`, `ssh`, a browser) are there and do nothing. Pages come in an order in which what one makes the next
//! finds; one that is not in it fails the test.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::stand::{Said, Stand};
use crate::terminal::Terminal;

/// Long enough for a slow machine; only a broken program reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Pages about a cluster that is used.
const OF_A_CLUSTER: &[&str] = &[
    "submit",
    "run",
    "jobs",
    "job",
    "logs",
    "wait",
    "retry",
    "arrays add",
    "arrays close",
    "dags list",
    "dags show",
    "explain",
    "plan",
    "hold",
    "release",
    "suspend",
    "resume",
    "metric",
    "events",
    "checkpoint",
    "nodes",
    "node",
    "drain",
    "return",
    "tenants set",
    "tenants list",
    "tenants show",
    "tenants delete",
    "token create",
    "token list",
    "token revoke",
    "workloads set",
    "workloads list",
    "workloads show",
    "workloads delete",
    "policy list",
    "policy show",
    "policy check",
    "policy terms",
    "caps set",
    "caps show",
    "pools set",
    "pools list",
    "pools show",
    "pools policy",
    "pools history",
    "pools delete",
    "providers set",
    "providers list",
    "providers delete",
    "config check",
    "config show",
    "decisions",
    "usage",
    "alarms",
    "board",
    "status",
    "rank",
    "scenario check",
    "gpu",
    "exit-codes",
    "completions",
    "man",
    "trace generate",
    "trace convert",
    "trace info",
    "backup",
    "restore",
    "check",
    "replay",
    "compare",
    "trace export",
    "certificate",
    "top",
    "disapprove",
    "approve",
    "scenario export",
    "dags cancel",
    "dags retry",
    "cancel",
    "remove",
];
/// Pages about peers, walked at one of two.
const OF_PEERS: &[&str] = &[
    "peers list",
    "peers show",
    "peers add",
    "peers trust",
    "peers accounts",
    "peers export",
    "peers import",
    "peer id",
    "peers block",
];
/// Pages about what goes on until somebody ends it.
const OF_PROGRAMS: &[&str] = &["up", "server", "agent", "hollow"];

/// A place where somebody types.
struct Desk {
    home: PathBuf,
    env: Vec<(String, String)>,
    /// What stands on pages, and what it is here.
    theirs: Vec<(&'static str, String)>,
    wrong: Vec<String>,
}

fn program(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

impl Desk {
    fn at(stand: &Stand) -> Self {
        let home = stand.path("here");
        let bin = home.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        for name in ["jq", "man", "ssh", "xdg-open", "open"] {
            program(&bin.join(name), "test -t 0 || cat > /dev/null");
        }
        let ours = Path::new(env!("CARGO_BIN_EXE_landfall")).parent().unwrap();
        let search = format!("{}:{}:{}", bin.display(), ours.display(), std::env::var("PATH").unwrap());
        let mut env: Vec<(String, String)> = Vec::new();
        for (name, value) in stand.command().get_envs() {
            let value = value.unwrap_or_default().to_str().unwrap().to_owned();
            env.push((name.to_str().unwrap().to_owned(), value));
        }
        env.extend([
            ("PATH".into(), search),
            ("HOME".into(), home.display().to_string()),
            ("COLUMNS".into(), "110".into()),
        ]);
        let at = |name: &str| home.join(name).display().to_string();
        let theirs = vec![
            ("https://landfall.lab:7878", stand.url().to_owned()),
            ("0.0.0.0:7878", "127.0.0.1:0".to_owned()),
            ("/var/lib/landfall", at("var/lib/landfall")),
            ("/backup/", at("backup/")),
            ("/tmp/try", at("try")),
        ];
        std::fs::create_dir_all(home.join("backup")).unwrap();
        std::fs::create_dir_all(home.join("var/lib")).unwrap();
        for dir in [
            ".local/share/bash-completion/completions",
            ".zfunc",
            ".config/fish/completions",
            ".local/share/man/man1",
        ] {
            std::fs::create_dir_all(home.join(dir)).unwrap();
        }
        Self { home, env, theirs, wrong: Vec::new() }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).env_clear().envs(self.env.iter().cloned()).current_dir(&self.home);
        command
    }

    fn run(&self, line: &str) -> Said {
        Said::of(self.command(line).stdin(Stdio::null()).output().unwrap())
    }

    /// The examples on a page, without remarks and with what is theirs.
    fn examples(&self, page: &str) -> Vec<String> {
        let help = self.run(&format!("landfall {page} --help")).ok();
        let at = help.find("\nExample:").or_else(|| help.find("\nExamples:"));
        let part =
            &help[at.unwrap_or_else(|| panic!("`landfall {page} --help` has no example: {help}")) + 1..];
        let mut lines: Vec<String> = Vec::new();
        for line in part.lines().skip(1).take_while(|line| line.starts_with("  ")).map(str::trim) {
            let begins = ["landfall ", "export ", "echo ", "cat "].iter().any(|word| line.starts_with(word));
            match lines.last_mut().filter(|_| !begins) {
                Some(last) => *last = format!("{last} {line}"),
                None => lines.push(line.to_owned()),
            }
        }
        assert!(!lines.is_empty(), "{page}: {help}");
        let alone = lines.iter().map(|line| line.split("  ").next().unwrap_or(line).to_owned());
        alone.map(|line| self.ours(line)).collect()
    }

    /// A line with what is there here.
    fn ours(&self, line: String) -> String {
        self.theirs.iter().fold(line, |line, (theirs, ours)| line.replace(theirs, ours))
    }

    /// The environment of a machine of its own, on which nothing was set but where not to be in anybody's way.
    fn alone(&self) -> Vec<(String, String)> {
        let config = self.home.join("config.toml");
        std::fs::write(&config, "[server]\nlisten = '127.0.0.1:0'\n").unwrap();
        let mut alone = self.env.clone();
        alone.retain(|(name, _)| {
            !["LANDFALL_SERVER", "LANDFALL_DATA_DIR", "LANDFALL_CONFIG"].contains(&name.as_str())
        });
        alone.push(("LANDFALL_CONFIG".into(), config.display().to_string()));
        alone
    }

    fn judge(&mut self, page: &str, line: &str, said: &Said) {
        // What is asked about may not start now, or not be in a state for it, or not be there; that is an answer.
        let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
        let fine = match said.code {
            0 => true,
            1 => has(&["plan ", "--dry-run", "cancel ", "explain ", "rank "]),
            6 => has(&["suspend", "resume", "checkpoint", "remove", "metric"]),
            10 => has(&["--acknowledge", "--at 2h"]),
            // Nothing is damaged; nothing ran in that pool last week.
            2 => has(&["--fall-back", "--journal"]),
            _ => false,
        };
        if !fine {
            self.wrong.push(format!("{page}: {line}\n  ended with {}: {}{}", said.code, said.out, said.err));
        }
    }

    /// Runs the examples of a page one after the other.
    fn walk(&mut self, page: &str) {
        for line in self.examples(page) {
            let said = match line.as_str() {
                _ if line.starts_with("landfall top") => self.look(&line),
                _ if line.starts_with("landfall server") => {
                    let own = format!("env LANDFALL_DATA_DIR=own {line}");
                    self.beside(&own, "the server answers", "true")
                }
                _ if line.starts_with("landfall events -f") => {
                    self.beside(&line, "\n", "landfall submit -- true; landfall hold 16; landfall release 16")
                }
                _ => self.run(&line),
            };
            self.judge(page, &line, &said);
        }
    }

    /// Looks at a screen and leaves it.
    fn look(&self, line: &str) -> Said {
        let mut terminal = Terminal::start(self.command(line));
        terminal.until_shown("jobs (");
        terminal.type_in("q");
        Said { code: terminal.ended().unwrap_or(-1), out: String::new(), err: String::new() }
    }

    /// Runs something that goes on, until it has said something; another command may be what it speaks about. Then it is ended.
    fn beside(&self, line: &str, words: &str, other: &str) -> Said {
        let log = self.home.join("beside.log");
        let file = std::fs::File::create(&log).unwrap();
        let mut command = self.command(&format!("exec {line}"));
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut child = command.spawn().unwrap();
        let began = Instant::now();
        let said = loop {
            let said = std::fs::read_to_string(&log).unwrap();
            if said.contains(words) || child.try_wait().unwrap().is_some() || began.elapsed() > PATIENCE {
                break said;
            }
            self.run(other);
            std::thread::sleep(Duration::from_millis(20));
        };
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        let began = Instant::now();
        let code = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status.code().unwrap_or(-1);
            }
            if began.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                break -1;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let code = if said.contains(words) { code } else { -2 };
        Said { code, out: std::fs::read_to_string(&log).unwrap(), err: String::new() }
    }

    #[track_caller]
    fn done(self) {
        assert!(
            self.wrong.is_empty(),
            "{} examples do not run:\n{}",
            self.wrong.len(),
            self.wrong.join("\n")
        );
    }
}

#[test]
fn every_page_is_walked() {
    // Made from the commands themselves; another test sees to that.
    let page = std::fs::read_to_string("../../docs/reference/cli.md").unwrap();
    let table = page.split("## Commands").nth(1).unwrap().split("###").next().unwrap();
    let name = |row: &str| {
        Some(
            row.split('`')
                .nth(1)?
                .split([' ', '<', '['])
                .take_while(|word| !word.is_empty())
                .collect::<Vec<_>>()
                .join(" "),
        )
    };
    let named: BTreeSet<String> = table
        .lines()
        .filter(|row| row.starts_with("| [`") || row.starts_with("| `"))
        .filter_map(name)
        .collect();
    let walked: BTreeSet<String> =
        [OF_A_CLUSTER, OF_PEERS, OF_PROGRAMS].concat().into_iter().map(str::to_owned).collect();
    assert!(named.len() > 70, "{named:?}");
    assert_eq!(named, walked);
}

/// Files that examples read.
fn fill(desk: &Desk) {
    let at = |name: &str| desk.home.join(name);
    for name in ["simulate", "train", "big", "report"] {
        program(&at(name), "true");
    }
    program(&at("explore"), "echo explored");
    program(&at("clean"), "sort");
    for (name, text) in [
        ("data.csv", "b\na\n"),
        ("inputs.txt", "a\nb\n"),
        ("many.jsonl", "{\"run\": {\"command\": [\"true\"]}}\n{\"run\": {\"command\": [\"true\"]}}\n"),
        ("more.txt", "c\n"),
        ("job.sh", "#!/bin/sh\n#SBATCH --time=1\ntrue\n"),
        ("train.toml", "run.command = ['true']\n"),
        ("Makefile", "test:\n\t@echo tested\n"),
        (
            "pipeline.toml",
            "[[jobs]]\nkey = 'a'\nrun.command = ['true']\n[[jobs]]\nkey = 'b'\nrun.command = ['true']\n",
        ),
        ("runs.json", r#"[{"workload": "kernel", "peak_ram_mib": 900, "build_time_ms": 60000}]"#),
        ("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,V100M16\n"),
        (
            "pods.csv",
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\np1,4000,1024,1,500,,LS,Running,0,1000,0\np2,4000,1024,1,1000,,LS,Running,10,1000,10\n",
        ),
        (
            "muri_philly_trace1.csv",
            "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n1,2,0,100,vgg16,32,100000,1000,10,20,30,0\n",
        ),
        (
            "two-more.toml",
            "[[nodes]]\nid = 'new'\ncount = 2\npool = 'lab'\ncpu_milli = '64 cores'\nram_mib = '256GiB'\n",
        ),
        (
            "ci.toml",
            "now_ms = 0\n[[pools]]\nid = 'ci'\ndispatch = 'pull'\n[[nodes]]\nid = 'builder-3'\npool = 'ci'\ncpu_milli = '8 cores'\nram_mib = '16GiB'\n[[jobs]]\nid = 'docs'\npool = 'ci'\ncpu_milli = 1000\n",
        ),
        (
            "lab.toml",
            "now_ms = 0\n[[pools]]\nid = 'lab'\ndispatch = 'push'\npolicy = 'bin-pack'\n[[tenants]]\nid = 'team-a'\nmax_gpus = 8\n[[nodes]]\nid = 'gpu-1'\npool = 'lab'\ncpu_milli = '64 cores'\nram_mib = '512GiB'\ngpus = [{ count = 4, model = 'NVIDIA A100 80GB', vram_mib = '80GiB' }]\n[[nodes]]\nid = 'gpu-2'\npool = 'lab'\ncpu_milli = '64 cores'\nram_mib = '512GiB'\ngpus = [{ count = 4, model = 'NVIDIA A100 80GB', vram_mib = '80GiB' }]\n[[jobs]]\nid = 'train-7'\npool = 'lab'\ntenant = 'team-a'\ncpu_milli = '8 cores'\nram_mib = '64GiB'\ngpu_count = 2\nvram_mib = '40GiB'\n",
        ),
        (
            "hpc.toml",
            "now_ms = 0\n[[pools]]\nid = 'hpc'\ndispatch = 'batch'\n[[nodes]]\nid = 'n'\ncount = 8\npool = 'hpc'\ncpu_milli = '64 cores'\nram_mib = '512GiB'\ngpus = [{ count = 4, model = 'NVIDIA A100 80GB', vram_mib = '80GiB' }]\n",
        ),
        ("broken.swf", "; MaxProcs: 8\n1 0 0 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\nx\n"),
    ] {
        std::fs::write(at(name), text).unwrap();
    }
    for line in [
        "cp nodes.csv openb_node_list_gpu_node.csv",
        "cp pods.csv openb_pod_list_default.csv",
        "landfall trace generate lublin.swf --jobs 4000 --procs 64 --load 0.7 --seed 3",
        "landfall trace generate kth.swf --jobs 300 --procs 64 --load 0.7 --seed 3",
        "gzip -k kth.swf",
        "cp kth.swf.gz KTH-SP2-1996-2.1-cln.swf.gz",
        "cp kth.swf.gz KTH-SP2.swf.gz",
        "cp kth.swf.gz theta.swf.gz",
        "rm kth.swf",
        "landfall trace generate week.jsonl --jobs 50 --procs 64 --gpus 8 --gpus-per-node 4 --vram 80GiB --seed 7",
        "landfall policy show balanced > mine.toml",
        "landfall pools set builds --dispatch pull",
        "landfall pools set old --dispatch push",
        "landfall pools set gpu --dispatch batch --policy balanced",
        "landfall tenants set old",
        "landfall token create ci --role operator --out ci.token",
        "landfall token create anna --role operator --out anna.token",
        "landfall token create lab --role operator --out lab.token",
        "cp lab.token ana.token",
    ] {
        desk.run(line).ok();
    }
}

/// The lines of the first page, those about peers or the others.
fn of_readme(peers: bool) -> Vec<String> {
    let readme = std::fs::read_to_string("../../README.md").unwrap();
    let lines = readme
        .lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .filter(|line| line.starts_with("landfall ") && line.contains("peer") == peers);
    lines.map(|line| line.split("  ").next().unwrap_or(line).to_owned()).collect()
}

#[test]
fn examples_about_a_cluster_run_as_they_are_written() {
    let mut stand = Stand::new();
    stand.agent("gpu-3", &["--cpus", "2"]);
    stand.agent("gpu-2", &["--cpus", "2"]);
    let mut desk = Desk::at(&stand);
    fill(&desk);
    // The first page, and what stands before everything.
    let lines = of_readme(false);
    assert!(lines.len() >= 5, "{lines:?}");
    for line in lines.iter().filter(|line| !line.starts_with("landfall top")) {
        let said = desk.run(line);
        desk.judge("README", line, &said);
    }
    stand.run(&["cancel", "2"]).ok();
    // Pages speak of jobs by their numbers: 8 is an array, 9 to 11 are jobs, 12 is an array, 14 and 15 are open ones, 16 and 17 are held, and one DAG.
    for number in 4..=17 {
        let script = "test $LANDFALL_ARRAY_INDEX -ne 42 -o -e fixed";
        let id = match number {
            8 => stand.submit(&["--array", "1-100", "--", "sh", "-c", script]),
            12 => stand.submit(&["--array", "1-1000", "--hold", "--", "true"]),
            14 => stand.submit(&["--array", "1-10", "--open", "--", "true"]),
            16 => stand.submit(&["--hold", "--", "true"]),
            17 => stand.submit(&["--dag", "16", "--hold", "--", "true"]),
            15 => stand.submit(&["--each-line", "here/inputs.txt", "--open", "--", "echo", "{entry}"]),
            _ => stand.submit(&["--", "true"]),
        };
        assert_eq!(id, number.to_string());
    }
    assert_eq!(stand.run(&["wait", "8", "9", "10", "11", "--quiet"]).code, 1, "one element of array 8 fails");
    std::fs::write(stand.path("fixed"), "").unwrap();
    assert_eq!(desk.run("landfall submit --wait -- make test").ok(), "tested\n");
    for page in OF_A_CLUSTER {
        match *page {
            // What the page of another kind of policy wrote is not for the pool of the next ones.
            "pools set" => drop(desk.run("landfall policy show balanced > mine.toml").ok()),
            "backup" => drop(
                desk.run("landfall backup --to a.db && landfall restore a.db --data-dir var/lib/landfall")
                    .ok(),
            ),
            "restore" => std::fs::remove_dir_all(desk.home.join("var/lib/landfall")).unwrap(),
            // This one asks a server that runs.
            "trace export" => {
                std::fs::remove_file(desk.home.join("week.jsonl")).unwrap();
                desk.theirs[2].1 = stand.data().display().to_string();
            }
            _ => {}
        }
        desk.walk(page);
    }
    desk.done();
}

#[test]
fn examples_about_peers_run_as_they_are_written() {
    let pool = "[peer]\n[[pools]]\nid = 'default'\ndispatch = 'negotiate'\n";
    let (here, mut there) = (Stand::with_config(pool), Stand::with_config(pool));
    there.agent("second", &["--cpus", "2"]);
    let other = there.json(&["peer", "id"]);
    let id = other["id"].as_str().unwrap();
    let address = other["addresses"][0].as_str().unwrap().to_owned();
    let mut desk = Desk::at(&here);
    desk.theirs.extend([
        (
            "'/ip4/10.0.0.2/tcp/7879/p2p/12D3KooW...#SECRET'",
            format!("'{}'", other["invitation"].as_str().unwrap()),
        ),
        ("/ip4/10.0.0.2/tcp/7879/p2p/12D3KooW...", address),
        ("9xKq", id[id.len() - 6..].to_owned()),
    ]);
    here.run(&["peers", "add", other["invitation"].as_str().unwrap()]).ok();
    here.until("the other one is known", || here.run(&["peers", "show", id]).code == 0);
    let (of_pair, alone) = (desk.env.clone(), desk.alone());
    let [one, second, submit]: [String; 3] = of_readme(true).try_into().unwrap();
    for line in [one, desk.ours(second)] {
        desk.env.clone_from(&alone);
        let said = desk.beside(&line, "try, in another terminal", "true");
        desk.judge("README", &line, &said);
    }
    desk.env = of_pair;
    let said = desk.run(&submit);
    assert_eq!(
        (said.code, said.out.lines().next()),
        (0, Some("runs on second")),
        "{} {}",
        said.out,
        said.err
    );
    for page in OF_PEERS {
        desk.walk(page);
    }
    desk.done();
}

#[test]
fn examples_of_what_goes_on_run_as_they_are_written() {
    let stand = Stand::with_config(
        "[server]\nallow_hollow = true\n[[pools]]\nid = 'default'\ndispatch = 'push'\n[[pools]]\nid = 'gpu'\ndispatch = 'push'\n",
    );
    let mut desk = Desk::at(&stand);
    desk.run("landfall certificate --host 127.0.0.1 --out . && landfall token create node --role agent --node '*' --out node.token").ok();
    let of_cluster = desk.env.clone();
    let alone = desk.alone();
    for page in OF_PROGRAMS {
        for line in desk.examples(page) {
            let (words, machine): (&str, &Vec<_>) = match line.split(' ').nth(1).unwrap_or_default() {
                "up" => ("try, in another terminal", &alone),
                "server" => ("the server answers", &alone),
                "agent" => ("registered", &of_cluster),
                "hollow" => ("joined", &of_cluster),
                _ => ("", &of_cluster),
            };
            desk.env = machine.clone();
            let said = match words {
                "" => desk.run(&line),
                words => desk.beside(&line, words, "true"),
            };
            desk.judge(page, &line, &said);
        }
    }
    desk.done();
}
