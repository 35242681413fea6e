//! What the machine can do without us.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Writes and syncs of one page, one after another.
pub(crate) fn syncs_per_second(path: &Path, count: usize) -> f64 {
    let mut file = File::create(path).unwrap();
    let began = Instant::now();
    for _ in 0..count {
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
    }
    count as f64 / began.elapsed().as_secs_f64()
}

/// Processes `true`, so many at a time.
pub(crate) fn processes_per_second(count: usize, at_once: usize) -> f64 {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                for _ in 0..count / at_once {
                    let mut command = Command::new("true");
                    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                    assert!(command.status().unwrap().success());
                }
            });
        }
    });
    count as f64 / began.elapsed().as_secs_f64()
}

/// Processes `true`, two at a time, by `xargs`: what HyperQueue was compared with.
pub(crate) fn xargs_per_second(count: usize) -> f64 {
    let began = Instant::now();
    let mut xargs = Command::new("xargs").args(["-P2", "-n1", "true"]).stdin(Stdio::piped()).spawn().unwrap();
    xargs.stdin.take().unwrap().write_all("1\n".repeat(count).as_bytes()).unwrap();
    assert!(xargs.wait().unwrap().success());
    count as f64 / began.elapsed().as_secs_f64()
}

/// The same number of tasks through HyperQueue with its journal, if `hq` is on the path: a server, a worker with so many slots, one
/// array without output files.
pub(crate) fn hyperqueue_per_second(count: usize, slots: &str) -> Option<f64> {
    let dir = tempfile::TempDir::new().ok()?;
    let hq = |args: &[&str]| {
        let mut command = Command::new("hq");
        command.arg("--server-dir").arg(dir.path().join("server")).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let journal = dir.path().join("journal");
    let mut server = hq(&["server", "start", "--journal", journal.to_str()?]).spawn().ok()?;
    let answers = |args: &[&str]| {
        (0..100).any(|_| {
            let well = hq(args).status().is_ok_and(|status| status.success());
            if !well {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            well
        })
    };
    let mut worker = answers(&["server", "info"])
        .then(|| hq(&["worker", "start", "--cpus", slots]).spawn().ok())
        .flatten();
    let ready = worker.is_some() && answers(&["worker", "wait", "1"]);
    let began = Instant::now();
    let array = format!("--array=1-{count}");
    let submit = ["submit", &array, "--stdout=none", "--stderr=none", "--wait", "--", "true"];
    let done = ready && hq(&submit).status().is_ok_and(|status| status.success());
    let rate = count as f64 / began.elapsed().as_secs_f64();
    let _ = hq(&["server", "stop"]).status();
    for child in worker.iter_mut().chain([&mut server]) {
        // They end when the server is stopped; what does not is killed.
        let _ = child.kill();
        let _ = child.wait();
    }
    done.then_some(rate)
}

/// The same through the Python package `hyperqueue`, if it is installed: server and worker in one process, without a journal.
pub(crate) fn hyperqueue_in_python_per_second(count: usize, slots: &str) -> Option<f64> {
    const PROGRAM: &str = r#"
import sys, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
count, slots = int(sys.argv[1]), int(sys.argv[2])
with LocalCluster(server_dir=sys.argv[3], worker_config=WorkerConfig(cores=slots)) as cluster:
    client, job = cluster.client(), Job()
    for _ in range(count):
        job.program(args=["true"])
    began = time.monotonic()
    client.wait_for_jobs([client.submit(job)])
    print(f"rate {count / (time.monotonic() - began)}")
"#;
    let dir = tempfile::TempDir::new().ok()?;
    let mut python = Command::new("python3");
    python.args(["-c", PROGRAM, &count.to_string(), slots]).arg(dir.path()).current_dir(dir.path());
    let output = python.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.lines().find_map(|line| line.strip_prefix("rate ")?.parse().ok())
}

/// A line of `/proc/PID/status` in MB.
pub(crate) fn status_mb(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    let kb = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kb.unwrap_or(0) * 1024 / 1_000_000
}

/// CPU time of a process and of its children that ended.
pub(crate) fn cpu_seconds(pid: u32, children: bool) -> f64 {
    ticks(&format!("/proc/{pid}/stat"), children)
}

/// CPU time of the threads of a process with this name.
pub(crate) fn thread_seconds(pid: u32, name: &str) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let named = threads.map(|thread| thread.path()).filter(|thread| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.trim().contains(name))
    });
    named.map(|thread| ticks(&thread.join("stat").to_string_lossy(), false)).sum()
}

fn ticks(path: &str, children: bool) -> f64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let Some((_, rest)) = text.rsplit_once(')') else { return 0.0 };
    let fields: Vec<i64> = rest.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // Behind the name and the state: utime, stime, cutime, cstime are fields 14 to 17 of the whole line.
    let ticks: i64 = fields[10..if children { 14 } else { 12 }].iter().sum();
    ticks as f64 / 100.0
}

/// What a process has written to disk.
pub(crate) fn written_bytes(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0.0)
}
