//! The openb traces of GPU clusters: nodes, pods, arrival orders and published results, all as CSV or plain lines.

use std::collections::BTreeMap;
use std::io::BufRead;

use super::error::{TraceError, shown};
use super::lines::Lines;
use super::table::Table;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenbNode {
    pub name: String,
    pub cpu_milli: u64,
    pub memory_mib: u64,
    pub gpus: u32,
    /// What they are; `None` without devices.
    pub model: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenbPod {
    pub name: String,
    pub cpu_milli: u64,
    pub memory_mib: u64,
    pub num_gpu: u32,
    /// Compute of each device in thousandths; below 1000 the device is shared.
    pub gpu_milli: u64,
    /// Models that will do; empty means any.
    pub gpu_spec: Vec<String>,
    /// Class of service, where the file has it.
    pub qos: Option<String>,
    /// How it stood when the trace was taken, where the file has it.
    pub phase: Option<String>,
    /// When it was created, in seconds.
    pub created: Option<i64>,
    /// When it was deleted, in seconds.
    pub deleted: Option<i64>,
    /// When it was scheduled, in seconds.
    pub scheduled: Option<i64>,
}

/// Reads a node list (`sn,cpu_milli,memory_mib,gpu,model`).
pub fn read_nodes(reader: impl BufRead) -> Result<Vec<OpenbNode>, TraceError> {
    let mut table = Table::new(reader)?;
    let [name, cpu, memory, gpus] =
        [table.need("sn")?, table.need("cpu_milli")?, table.need("memory_mib")?, table.need("gpu")?];
    let model = table.find("model");
    let mut nodes = Vec::new();
    while let Some(row) = table.next()? {
        nodes.push(OpenbNode {
            name: row.text(name).to_owned(),
            cpu_milli: row.amount(cpu)?,
            memory_mib: row.amount(memory)?,
            gpus: row.count(gpus)?,
            model: row.maybe_text(model),
        });
    }
    Ok(nodes)
}

/// Reads a pod list: at least `name,cpu_milli,memory_mib,num_gpu,gpu_milli`; the other columns where they are.
pub fn read_pods(reader: impl BufRead) -> Result<Vec<OpenbPod>, TraceError> {
    let mut table = Table::new(reader)?;
    let [name, cpu, memory] = [table.need("name")?, table.need("cpu_milli")?, table.need("memory_mib")?];
    let [num_gpu, gpu_milli] = [table.need("num_gpu")?, table.need("gpu_milli")?];
    let [spec, qos, phase, created, deleted, scheduled] =
        ["gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"]
            .map(|column| table.find(column));
    let mut pods = Vec::new();
    while let Some(row) = table.next()? {
        let models = row.maybe_text(spec).unwrap_or_default();
        let pod = OpenbPod {
            name: row.text(name).to_owned(),
            cpu_milli: row.amount(cpu)?,
            memory_mib: row.amount(memory)?,
            num_gpu: row.count(num_gpu)?,
            gpu_milli: row.amount(gpu_milli)?,
            gpu_spec: models.split('|').filter(|model| !model.is_empty()).map(str::to_owned).collect(),
            qos: row.maybe_text(qos),
            phase: row.maybe_text(phase),
            created: row.maybe_whole(created)?,
            deleted: row.maybe_whole(deleted)?,
            scheduled: row.maybe_whole(scheduled)?,
        };
        if pod.gpu_milli > 1000 {
            return Err(row.wrong(gpu_milli, "at most 1000 per device"));
        }
        pods.push(pod);
    }
    Ok(pods)
}

/// One published order: which pods arrive, and which node wins among equals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arrival {
    /// Rows of the pod list in order of arrival, counted from 0.
    pub pods: Vec<u32>,
    /// Rows of the node list, the preferred first, counted from 0.
    pub nodes: Vec<u32>,
}

/// Reads arrival orders by seed: lines `pods SEED ROW ROW …` and `nodes SEED ROW ROW …`.
///
/// # Errors
/// If reading fails, a line is bad, or a seed lacks one of the two.
pub fn read_arrivals(reader: impl BufRead) -> Result<BTreeMap<u64, Arrival>, TraceError> {
    let mut lines = Lines::new(reader);
    let mut found: BTreeMap<u64, [Option<Vec<u32>>; 2]> = BTreeMap::new();
    let mut last = 1;
    while let Some((number, line)) = lines.next()? {
        last = number;
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let which = match words.next() {
            None => continue,
            Some(b"pods") => 0,
            Some(b"nodes") => 1,
            Some(other) => {
                let message = format!("found `{}`, expected `pods` or `nodes`", shown(other));
                return Err(TraceError::line(number, message)
                    .hint("a line is `pods SEED ROW ROW …` or `nodes SEED ROW ROW …`")
                    .into());
            }
        };
        let bad = |what: &str, word: &[u8]| {
            TraceError::line(number, format!("found `{}`, expected {what}", shown(word)))
        };
        let seed = words.next().unwrap_or_default();
        let seed_value = whole::<u64>(seed).ok_or_else(|| bad("a seed", seed))?;
        let rows: Result<Vec<u32>, _> =
            words.map(|word| whole(word).ok_or_else(|| bad("a row number from 0", word))).collect();
        let rows = rows?;
        let place = &mut found.entry(seed_value).or_default()[which];
        if place.replace(rows).is_some() {
            return Err(TraceError::line(number, format!("seed {seed_value} is there already")).into());
        }
    }
    let pair = |(seed, [pods, nodes]): (u64, [Option<Vec<u32>>; 2])| match (pods, nodes) {
        (Some(pods), Some(nodes)) => Ok((seed, Arrival { pods, nodes })),
        _ => Err(TraceError::line(last, format!("seed {seed} has no pods or no nodes")).into()),
    };
    found.into_iter().map(pair).collect()
}

fn whole<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// A published curve: one run of one policy.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedCurve {
    /// The pod list, without extension.
    pub workload: String,
    /// The policy as the publication calls it.
    pub policy: String,
    /// How much was asked for at the end, as a multiple of what there was.
    pub ratio: f64,
    pub seed: u64,
    /// Values at 0, 1, 2, … per cent arrived; `None` where the file has none.
    pub values: Vec<Option<f64>>,
}

pub fn read_expected(reader: impl BufRead) -> Result<Vec<ExpectedCurve>, TraceError> {
    let mut table = Table::new(reader)?;
    let [workload, policy] = [table.need("workload")?, table.need("sc_policy")?];
    let [ratio, seed, first] = [table.need("tune")?, table.need("seed")?, table.need("0")?];
    let in_order = table.columns()[first..].iter().enumerate().all(|(at, name)| *name == at.to_string());
    if !in_order {
        return Err(TraceError::line(1, "the columns from `0` on are not 0, 1, 2, …").into());
    }
    let count = table.columns().len();
    let mut curves = Vec::new();
    while let Some(row) = table.next()? {
        let value =
            |column| if row.text(column).is_empty() { Ok(None) } else { row.decimal(column).map(Some) };
        curves.push(ExpectedCurve {
            workload: row.text(workload).to_owned(),
            policy: row.text(policy).to_owned(),
            ratio: row.decimal(ratio)?,
            seed: row.amount(seed)?,
            values: (first..count).map(value).collect::<Result<_, _>>()?,
        });
    }
    Ok(curves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_pod_lists() {
        let long = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
                    p0,12000,16384,1,460,V100M16|V100M32,LS,Running,5,9,6\np1,1,2,0,0,,BE,Pending,7,8,\n";
        let pods = read_pods(long.as_bytes()).unwrap();
        assert_eq!(pods[0].gpu_spec, ["V100M16", "V100M32"]);
        assert_eq!((pods[0].created, pods[0].deleted, pods[0].scheduled), (Some(5), Some(9), Some(6)));
        assert_eq!((pods[1].scheduled, pods[1].phase.as_deref()), (None, Some("Pending")));
        let short = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,12000,16384,8,1000\n";
        let pods = read_pods(short.as_bytes()).unwrap();
        assert_eq!((pods[0].num_gpu, pods[0].created, pods[0].qos.as_deref()), (8, None, None));
    }

    #[test]
    fn mistakes_name_line_and_column() {
        let error = |text: &str| read_pods(text.as_bytes()).unwrap_err().to_string();
        let header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
        assert_eq!(error("name,cpu\n"), "line 1: cpu_milli: the header has no such column");
        assert_eq!(error(&format!("{header}p,1,2,3\n")), "line 2: found 4 values, expected 5");
        assert_eq!(
            error(&format!("{header}p,1,2,3,4\nq,1,x,3,4\n")),
            "line 3: memory_mib: found `x`, expected a number of 0 or more"
        );
        assert_eq!(
            error(&format!("{header}p,1,2,3,4000\n")),
            "line 2: gpu_milli: found `4000`, expected at most 1000 per device"
        );
        assert!(error(&format!("{header}p,-1,2,3,4\n")).contains("found `-1`"));
    }

    #[test]
    fn nodes_with_and_without_devices() {
        let nodes =
            read_nodes("sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,1,2,0,\n".as_bytes())
                .unwrap();
        assert_eq!((nodes[0].gpus, nodes[0].model.as_deref()), (2, Some("P100")));
        assert_eq!((nodes[1].gpus, nodes[1].model.as_deref()), (0, None));
    }

    #[test]
    fn arrivals_come_in_pairs() {
        let arrivals = read_arrivals("pods 42 3 1 2\nnodes 42 1 0\n\n".as_bytes()).unwrap();
        assert_eq!(arrivals[&42], Arrival { pods: vec![3, 1, 2], nodes: vec![1, 0] });
        let error = |text: &str| read_arrivals(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error("pods 42 1\n"), "line 1: seed 42 has no pods or no nodes");
        assert_eq!(error("pods 42 1\npods 42 1\n"), "line 2: seed 42 is there already");
        assert_eq!(error("pods 42 -1\n"), "line 1: found `-1`, expected a row number from 0");
        assert_eq!(error("hosts 42\n"), "line 1: found `hosts`, expected `pods` or `nodes`");
    }

    #[test]
    fn curves_begin_at_zero() {
        let text = "workload,sc_policy,tune,seed,total_gpus,0,1,2\nw,06-FGD,1.3,42,6212,0.25,,2.0\n";
        let curves = read_expected(text.as_bytes()).unwrap();
        assert_eq!(curves[0].values, [Some(0.25), None, Some(2.0)]);
        let text = "workload,sc_policy,tune,seed,0,2\n";
        assert!(read_expected(text.as_bytes()).is_err());
    }
}
