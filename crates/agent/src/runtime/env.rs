//! The environment of a job: what it asks for, a few harmless variables of the machine, and what Landfall tells it.
//!
//! Never the environment of the agent: that may hold its token.

use std::collections::BTreeMap;
use std::path::Path;

use landfall_api::agent::Start;
use landfall_api::node::GpuFacts;

/// Variables of the machine that jobs get unless they set them themselves.
pub(crate) const ALLOWED: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TMPDIR", "TZ"];

/// Search path where the machine sets none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Picks the allowed variables out of an environment.
pub(crate) fn allowed(
    names: &[String],
    vars: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
) -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let wanted = |name: &String| ALLOWED.contains(&name.as_str()) || names.contains(name);
    let mut base: BTreeMap<String, String> = vars.filter_map(text).filter(|(name, _)| wanted(name)).collect();
    base.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    base
}

/// What a job finds in its environment. What Landfall tells cannot be overwritten: programs rely on it.
pub(crate) fn of_job(
    start: &Start,
    node: &str,
    node_gpus: &[GpuFacts],
    checkpoint_dir: &Path,
    base: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut env = base.clone();
    env.extend(start.run.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    env.extend(told(start, node, node_gpus, checkpoint_dir));
    env
}

/// What Landfall tells a job.
pub(crate) fn told(
    start: &Start,
    node: &str,
    node_gpus: &[GpuFacts],
    checkpoint_dir: &Path,
) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> = BTreeMap::new();
    let mut set = |name: &str, value: String| env.insert(name.to_owned(), value);
    set("LANDFALL_JOB_ID", start.fence.job.as_str().to_owned());
    set("LANDFALL_ATTEMPT", start.fence.attempt.to_string());
    if let Some(task) = start.task {
        set("LANDFALL_TASK", task.as_str().to_owned());
    }
    set("LANDFALL_NODE_ID", node.to_owned());
    set("LANDFALL_POOL", start.pool.clone());
    if let Some(name) = &start.name {
        set("LANDFALL_JOB_NAME", name.clone());
    }
    if let Some((array, index)) = &start.array {
        set("LANDFALL_ARRAY_ID", array.clone());
        set("LANDFALL_ARRAY_INDEX", index.to_string());
    }
    if let Some(tenant) = &start.tenant {
        set("LANDFALL_TENANT", tenant.clone());
    }
    let nodes = if start.nodes.is_empty() { vec![node.to_owned()] } else { start.nodes.clone() };
    set("LANDFALL_NODE_COUNT", nodes.len().to_string());
    set("LANDFALL_NODE_RANK", nodes.iter().position(|name| name == node).unwrap_or_default().to_string());
    set("LANDFALL_NODES", nodes.join(","));
    if start.share.cpu_milli > 0 {
        set("LANDFALL_CPUS", cpus(start.share.cpu_milli));
    }
    if start.share.ram_mib > 0 {
        set("LANDFALL_RAM_MIB", start.share.ram_mib.to_string());
    }
    let gpus = gpus(&start.share.gpus);
    if !gpus.is_empty() {
        set("LANDFALL_GPUS", gpus);
    }
    if let Some(slice) = &start.share.slice {
        set("LANDFALL_GPU_SLICE", slice.clone());
    }
    // Also when it asked for none: a job that takes a GPU all the same would disturb the one that has it.
    if !node_gpus.is_empty() {
        set("CUDA_VISIBLE_DEVICES", visible(&start.share.gpus, node_gpus));
    }
    set("LANDFALL_CHECKPOINT_DIR", checkpoint_dir.display().to_string());
    if start.resume {
        set("LANDFALL_RESUME", "1".to_owned());
    }
    if start.run.slurm {
        env.extend(slurm(start, node, &nodes));
    }
    env
}

/// The same in the words of Slurm, for scripts that were written for it.
fn slurm(start: &Start, node: &str, nodes: &[String]) -> BTreeMap<String, String> {
    let cores = start.share.cpu_milli.div_ceil(1000).max(1).to_string();
    let rank = nodes.iter().position(|name| name == node).unwrap_or_default().to_string();
    let (job, number) = (start.fence.job.as_str().to_owned(), nodes.len().to_string());
    let mut known = vec![
        ("JOB_ID", job.clone()),
        ("JOBID", job),
        ("JOB_NAME", start.name.clone().unwrap_or_else(|| "job".to_owned())),
        ("JOB_PARTITION", start.pool.clone()),
        ("JOB_NODELIST", nodes.join(",")),
        ("NODELIST", nodes.join(",")),
        ("JOB_NUM_NODES", number.clone()),
        ("NNODES", number),
        ("NODEID", rank.clone()),
        ("PROCID", rank),
        ("LOCALID", "0".to_owned()),
        ("CPUS_ON_NODE", cores.clone()),
        ("JOB_CPUS_PER_NODE", cores),
        ("RESTART_COUNT", start.fence.attempt.saturating_sub(1).to_string()),
    ];
    if start.share.ram_mib > 0 {
        known.push(("MEM_PER_NODE", start.share.ram_mib.to_string()));
    }
    if let Some(tenant) = &start.tenant {
        known.push(("JOB_ACCOUNT", tenant.clone()));
    }
    if !start.share.gpus.is_empty() {
        known.push(("JOB_GPUS", gpus(&start.share.gpus)));
        known.push(("GPUS_ON_NODE", start.share.gpus.len().to_string()));
    }
    if let Some((array, index)) = &start.array {
        known.push(("ARRAY_JOB_ID", array.clone()));
        known.push(("ARRAY_TASK_ID", index.to_string()));
    }
    if let Some(from) = &start.run.submitted_from {
        known.push(("SUBMIT_DIR", from.dir.clone()));
        known.push(("SUBMIT_HOST", from.host.clone()));
    }
    let mut env: BTreeMap<String, String> =
        known.into_iter().map(|(name, value)| (format!("SLURM_{name}"), value)).collect();
    env.insert("SLURMD_NODENAME".to_owned(), node.to_owned());
    env
}

/// Milli-cores as people write them: `2`, `1.5`.
pub(crate) fn cpus(milli: u64) -> String {
    let (whole, part) = (milli / 1000, milli % 1000);
    if part == 0 { whole.to_string() } else { format!("{whole}.{part:03}").trim_end_matches('0').to_owned() }
}

/// What programs call some GPUs, separated by commas: slices have names, all others are known by their index.
fn visible(indices: &[u16], gpus: &[GpuFacts]) -> String {
    let name = |index: &u16| {
        let named = gpus.iter().find(|gpu| gpu.index == *index).and_then(|gpu| gpu.uuid.clone());
        named.unwrap_or_else(|| index.to_string())
    };
    indices.iter().map(name).collect::<Vec<_>>().join(",")
}

/// Indices separated by commas.
pub(crate) fn gpus(indices: &[u16]) -> String {
    indices.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tests::start;

    #[test]
    fn milli_cores_read_well() {
        for (milli, text) in [(1000, "1"), (1500, "1.5"), (250, "0.25"), (1, "0.001"), (64_000, "64")] {
            assert_eq!(cpus(milli), text);
        }
    }

    #[test]
    fn a_job_learns_who_and_where_it_is() {
        let mut start = start("process", &["true"]);
        start.nodes = vec!["a".into(), "b".into()];
        start.array = Some(("arr".into(), 7));
        start.share.gpus = vec![1, 3];
        start.share.cpu_milli = 1500;
        start.run.env.insert("LANDFALL_NODE_ID".into(), "forged".into());
        start.run.env.insert("LANG".into(), "C".into());
        start.resume = true;
        let base =
            BTreeMap::from([("LANG".to_owned(), "de".to_owned()), ("PATH".to_owned(), "/bin".to_owned())]);
        let env = of_job(&start, "b", &[GpuFacts::default()], Path::new("/c"), &base);
        for (name, value) in [
            ("LANDFALL_JOB_ID", "job-1"),
            ("LANDFALL_NODE_ID", "b"),
            ("LANDFALL_NODES", "a,b"),
            ("LANDFALL_NODE_COUNT", "2"),
            ("LANDFALL_NODE_RANK", "1"),
            ("LANDFALL_ARRAY_ID", "arr"),
            ("LANDFALL_ARRAY_INDEX", "7"),
            ("LANDFALL_CPUS", "1.5"),
            ("LANDFALL_GPUS", "1,3"),
            ("CUDA_VISIBLE_DEVICES", "1,3"),
            ("LANDFALL_CHECKPOINT_DIR", "/c"),
            ("LANDFALL_RESUME", "1"),
            ("LANG", "C"),
            ("PATH", "/bin"),
        ] {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!env.contains_key("LANDFALL_RAM_MIB") && !env.contains_key("LANDFALL_TENANT"));
    }

    #[test]
    fn scripts_written_for_slurm_find_its_variables_if_they_ask() {
        let mut start = start("process", &["true"]);
        start.array = Some(("12".into(), 7));
        start.share.cpu_milli = 1500;
        start.share.gpus = vec![2];
        let of = |start: &Start| told(start, "n", &[], Path::new("/c"));
        assert!(of(&start).keys().all(|name| !name.starts_with("SLURM")));
        start.run.slurm = true;
        let env = of(&start);
        for (name, value) in [
            ("SLURM_JOB_ID", "job-1"),
            ("SLURM_ARRAY_JOB_ID", "12"),
            ("SLURM_ARRAY_TASK_ID", "7"),
            ("SLURM_CPUS_ON_NODE", "2"),
            ("SLURM_JOB_NODELIST", "n"),
            ("SLURM_GPUS_ON_NODE", "1"),
            ("SLURMD_NODENAME", "n"),
        ] {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn a_job_without_gpus_sees_none() {
        let start = start("process", &["true"]);
        let on =
            |gpus: &[GpuFacts]| told(&start, "n", gpus, Path::new("/c")).get("CUDA_VISIBLE_DEVICES").cloned();
        assert_eq!(on(&[GpuFacts::default()]), Some(String::new()));
        assert_eq!(on(&[]), None);
    }

    #[test]
    fn slices_go_by_the_names_that_programs_know() {
        let mut start = start("process", &["true"]);
        start.share.gpus = vec![0, 1];
        start.share.slice = Some("2g@4".into());
        let slice = GpuFacts { index: 1, uuid: Some("MIG-1".into()), ..GpuFacts::default() };
        let env = told(&start, "n", &[GpuFacts::default(), slice], Path::new("/c"));
        let of = |name: &str| env.get(name).map(String::as_str);
        assert_eq!((of("LANDFALL_GPUS"), of("CUDA_VISIBLE_DEVICES")), (Some("0,1"), Some("0,MIG-1")));
        assert_eq!(of("LANDFALL_GPU_SLICE"), Some("2g@4"));
    }

    #[test]
    fn only_allowed_variables_pass() {
        let vars =
            [("HOME", "/root"), ("LANDFALL_TOKEN", "secret"), ("CUDA_HOME", "/cuda"), ("AWS_KEY", "x")];
        let vars = vars.map(|(name, value)| (name.into(), value.into()));
        let base = allowed(&["CUDA_HOME".to_owned()], vars.into_iter());
        assert_eq!(base.keys().collect::<Vec<_>>(), ["CUDA_HOME", "HOME", "PATH"]);
    }
}
