//! Containers through podman, docker or nerdctl: pure functions from a job to arguments.
//!
//! The client that runs in the foreground is the process of the job: its output is the job's, its exit code too, it
//! passes signals on, and the keeper holds it through restarts of the agent like any other process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landfall_api::agent::Start;
use landfall_model::life::Fence;

use super::{Refusal, env};

/// Where a container finds its checkpoint directory.
pub(crate) const CHECKPOINT_TARGET: &str = "/landfall/checkpoint";

/// The programs that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineKind {
    /// `podman`, which needs no daemon.
    Podman,
    Docker,
    Nerdctl,
}

impl EngineKind {
    /// All of them, the one that needs least first.
    pub const ALL: [Self; 3] = [Self::Podman, Self::Docker, Self::Nerdctl];

    /// The name of the program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
            Self::Nerdctl => "nerdctl",
        }
    }
}

/// A container engine that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    pub kind: EngineKind,
    /// Where its program is.
    pub path: PathBuf,
    /// What it says about its version.
    pub version: String,
}

pub(crate) fn name(fence: &Fence) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    format!("landfall-{}-{}", fence.job.as_str().chars().map(safe).collect::<String>(), fence.attempt)
}

/// The command that runs a job in a container. Variables go by name and are read from the environment of the client, so
/// that secrets do not show in lists of processes; `in_client` names those that the client needs for itself.
pub(crate) fn run(
    engine: &Engine,
    start: &Start,
    vars: &BTreeMap<String, String>,
    in_client: &BTreeMap<String, String>,
    checkpoint_dir: Option<&Path>,
) -> Result<Vec<String>, Refusal> {
    let image = start.run.image.as_deref().map(str::trim).filter(|image| !image.is_empty());
    let image = image.ok_or_else(|| Refusal::malformed("a container needs run.image"))?;
    if image.starts_with('-') {
        return Err(Refusal::malformed("run.image must not begin with -"));
    }
    let mut argv = vec![engine.path.display().to_string()];
    let mut add = |words: &[&str]| argv.extend(words.iter().map(|word| (*word).to_owned()));
    add(&["run", "--rm", "--name", &name(&start.fence)]);
    if start.run.stdin.is_some() {
        add(&["--interactive"]);
    }
    if start.run.offline {
        add(&["--network", "none"]);
    }
    if start.share.cpu_milli > 0 {
        add(&["--cpus", &env::cpus(start.share.cpu_milli)]);
    }
    if start.share.ram_mib > 0 {
        add(&["--memory", &format!("{}m", start.share.ram_mib)]);
    }
    // By the names that the job is told, where slices have some.
    let told = vars.get("CUDA_VISIBLE_DEVICES").filter(|_| !start.share.gpus.is_empty());
    match (engine.kind, told.cloned().unwrap_or_else(|| env::gpus(&start.share.gpus))) {
        (_, gpus) if gpus.is_empty() => {}
        (EngineKind::Podman, gpus) => {
            for gpu in gpus.split(',') {
                add(&["--device", &format!("nvidia.com/gpu={gpu}")]);
            }
        }
        // The value is a record with commas of its own, so the list of devices is quoted inside it.
        (EngineKind::Docker | EngineKind::Nerdctl, gpus) => add(&["--gpus", &format!("\"device={gpus}\"")]),
    }
    let own = checkpoint_dir.map(|dir| (dir.display().to_string(), CHECKPOINT_TARGET.to_owned(), true));
    let mounts =
        start.run.mounts.iter().map(|it| (it.source.clone(), it.target.clone(), it.writable)).chain(own);
    for (source, target, writable) in mounts {
        if [&source, &target].iter().any(|path| path.contains([',', '"', '\n']) || !path.starts_with('/')) {
            return Err(Refusal::malformed(
                "run.mounts: paths must be absolute and without commas and quotes",
            ));
        }
        let readonly = if writable { "" } else { ",readonly" };
        add(&["--mount", &format!("type=bind,source={source},target={target}{readonly}")]);
    }
    for (name, value) in vars {
        if in_client.contains_key(name) {
            add(&["--env", &format!("{name}={value}")]);
        } else {
            add(&["--env", name]);
        }
    }
    if let Some(cwd) = &start.run.cwd {
        add(&["--workdir", cwd]);
    }
    add(&[image]);
    argv.extend(start.run.command.iter().cloned());
    Ok(argv)
}

/// The command that asks a container to end; the keeper fills in the grace.
pub(crate) fn stop(engine: &Engine, fence: &Fence) -> Vec<String> {
    let path = engine.path.display().to_string();
    vec![path, "stop".into(), "--time".into(), "{grace_s}".into(), name(fence)]
}

/// The command that removes a container whatever it does.
pub(crate) fn kill(engine: &Engine, fence: &Fence) -> Vec<String> {
    vec![engine.path.display().to_string(), "rm".into(), "--force".into(), name(fence)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tests::start;
    use landfall_api::job::Mount;

    fn engine(kind: EngineKind) -> Engine {
        Engine { kind, path: format!("/usr/bin/{}", kind.program()).into(), version: "1".into() }
    }

    fn line(kind: EngineKind, start: &Start) -> String {
        let client = BTreeMap::from([("HOME".to_owned(), "/root".to_owned())]);
        run(&engine(kind), start, &start.run.env, &client, None).expect("arguments").join(" ")
    }

    #[test]
    fn arguments_of_the_three_engines() {
        let mut full = start("container", &["echo", "a b"]);
        full.run.image = Some("alpine:3".into());
        full.share.cpu_milli = 1500;
        full.share.ram_mib = 64;
        full.share.gpus = vec![0, 2];
        full.run.cwd = Some("/data".into());
        full.run.stdin = Some("x".into());
        full.run.env = BTreeMap::from([("SECRET".into(), "s".into()), ("HOME".into(), "/h".into())]);
        full.run.mounts = vec![
            Mount { source: "/a".into(), target: "/b".into(), writable: false },
            Mount { source: "/c".into(), target: "/d".into(), writable: true },
        ];
        let head = "run --rm --name landfall-job-1-1 --interactive --cpus 1.5 --memory 64m";
        let tail = "--mount type=bind,source=/a,target=/b,readonly --mount type=bind,source=/c,target=/d \
                    --env HOME=/h --env SECRET --workdir /data alpine:3 echo a b";
        for (kind, gpus) in [
            (EngineKind::Podman, "--device nvidia.com/gpu=0 --device nvidia.com/gpu=2"),
            (EngineKind::Docker, "--gpus \"device=0,2\""),
            (EngineKind::Nerdctl, "--gpus \"device=0,2\""),
        ] {
            let program = kind.program();
            assert_eq!(line(kind, &full), format!("/usr/bin/{program} {head} {gpus} {tail}"));
        }
        let mut least = start("container", &[]);
        least.run.image = Some("alpine".into());
        assert_eq!(
            line(EngineKind::Podman, &least),
            "/usr/bin/podman run --rm --name landfall-job-1-1 alpine"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let client = BTreeMap::new();
        let mut job = start("container", &[]);
        let refused = |job: &Start| run(&engine(EngineKind::Podman), job, &client, &client, None).is_err();
        assert!(refused(&job), "no image");
        job.run.image = Some("--privileged".into());
        assert!(refused(&job), "an option instead of an image");
        job.run.image = Some("alpine".into());
        assert!(!refused(&job));
        for (source, target) in [("rel", "/b"), ("/a,readonly=false", "/b"), ("/a", "b")] {
            job.run.mounts = vec![Mount { source: source.into(), target: target.into(), writable: false }];
            assert!(refused(&job), "{source} {target}");
        }
    }

    #[test]
    fn names_suit_every_engine() {
        let mut job = start("container", &[]);
        job.fence.job = landfall_model::JobId::new("a/b c#7").expect("id");
        assert_eq!(name(&job.fence), "landfall-a_b_c_7-1");
        assert_eq!(
            stop(&engine(EngineKind::Docker), &job.fence).join(" "),
            "/usr/bin/docker stop --time {grace_s} landfall-a_b_c_7-1"
        );
    }
}
