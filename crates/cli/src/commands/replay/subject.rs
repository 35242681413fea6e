//! What is replayed: the files given, read once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landfall_model::Millis;
use landfall_model::scenario::{self, Format, ScenarioError};
use landfall_replay::machine::{Estimate, Events, jobs_by_number};
use landfall_replay::packing::RATIO;
use landfall_replay::subject::{Cluster, Cycles, Log, Pods, Subject};
use landfall_replay::trace::batch::Kept;
use landfall_replay::trace::convert::{self, Shape};
use landfall_replay::trace::own::{Header, Trace};
use landfall_replay::trace::swf::{BadLines, Log as SwfLog};
use landfall_replay::trace::{Kind, muri, openb};

use super::options::{CycleArg, EstimateArg, EventsArg};
use crate::commands::trace::files::Opened;
use crate::error::{CliError, usage};
use crate::input::Input;

// Arguments that say what is replayed.
#[derive(Debug, clap::Args)]
pub(crate) struct SubjectArgs {
    /// Processors of the machine, for a log; the log's own header if it says so.
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["nodes", "cluster"])]
    pub(crate) procs: Option<u32>,
    /// Nodes for GPU pods: an openb node list. Pods then arrive one by one and never leave.
    #[arg(long, value_name = "NODES.csv", conflicts_with = "cluster")]
    pub(crate) nodes: Option<PathBuf>,
    /// The cluster: a scenario file with nodes, pools and tenants; the trace's own without it, if it has one.
    #[arg(long, value_name = "CLUSTER.toml")]
    pub(crate) cluster: Option<PathBuf>,
    /// What the planner is told about how long the jobs of a log take; `user` without it.
    #[arg(long, value_name = "WHOSE")]
    pub(crate) estimate: Option<EstimateArg>,
    /// The order of simultaneous events of a log: one pass after each, or after all of an instant; `batch` without it.
    #[arg(long, value_name = "HOW")]
    pub(crate) events: Option<EventsArg>,
    /// When passes are made: after every instant with an event, or on a beat such as 5s; `event` without it, and for a trace with pools as it tells.
    #[arg(long, value_name = "5s|event")]
    pub(crate) cycle: Option<CycleArg>,
    /// Processors of a node, where a policy looks at nodes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) procs_per_node: u64,
    /// The order in which pods arrive and nodes win ties, by seed; drawn from the seed without it.
    #[arg(long, value_name = "FILE", requires = "nodes")]
    pub(crate) arrivals: Option<PathBuf>,
    /// How much GPU is asked for in all, as a multiple of what there is, where the order of pods is drawn.
    #[arg(long, value_name = "R", default_value_t = RATIO)]
    pub(crate) ratio: f64,
    /// Keep the decimals of packing scores; published programs cut them to whole numbers.
    #[arg(long)]
    pub(crate) exact_scores: bool,
    /// Leave out lines of the log that make no sense and count them.
    #[arg(long)]
    pub(crate) lenient: bool,
}

/// What was read, and what was left out of it.
#[derive(Debug)]
pub(crate) struct Read {
    /// To replay.
    pub(crate) subject: Subject,
    /// Jobs left out, by reason.
    pub(crate) dropped: BTreeMap<String, u64>,
    /// Jobs whose missing estimate became their run time.
    pub(crate) estimates_defaulted: u64,
    /// The log as it was read, for writing a schedule.
    pub(crate) log: Option<SwfLog>,
}

/// The last part of a path.
fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

impl SubjectArgs {
    /// Refuses options that say nothing about what is replayed.
    fn only(&self, what: &str, given: &[(&str, bool)]) -> Result<(), CliError> {
        match given.iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(usage(
                format!("{name} says nothing about {what}"),
                "leave it out, or see `landfall replay --help`",
            )),
            None => Ok(()),
        }
    }

    /// Reads a trace and what belongs to it; parts of a log are taken by number.
    pub(crate) fn read(&self, trace: &Path, by_number: bool) -> Result<Read, CliError> {
        if !(self.ratio.is_finite() && self.ratio > 0.0 && self.ratio <= 100.0) {
            return Err(usage(
                "--ratio must be above 0 and at most 100",
                "the published experiments use 1.3",
            ));
        }
        let opened = Opened::open(trace, None)?;
        match opened.kind {
            _ if by_number && (opened.kind != Kind::Swf || self.cluster.is_some()) => Err(usage(
                "--sequence is for batch logs on alike processors",
                "leave it out, or give a log and --procs",
            )),
            Kind::Swf if self.cluster.is_none() => self.log(trace, opened, by_number),
            Kind::OpenbPods if self.cluster.is_none() => self.pods(trace, opened),
            Kind::OpenbNodes | Kind::OpenbArrivals => {
                let what = format!("{} holds no jobs", opened.file);
                Err(usage(&what, "give the pod list, and this file with --nodes or --arrivals"))
            }
            _ => self.cluster(trace, opened),
        }
    }

    fn log(&self, path: &Path, opened: Opened, by_number: bool) -> Result<Read, CliError> {
        if self.nodes.is_some() {
            let what = format!("--nodes is for GPU pods, and {} is a batch log", opened.file);
            return Err(usage(&what, "say how large the machine is with --procs"));
        }
        let (log, dropped, sha256) = self.swf(opened)?;
        let procs = self.procs_of(&log, path)?;
        let bad = dropped.into_iter().filter(|(_, count)| *count > 0);
        let mut dropped: BTreeMap<String, u64> = bad.collect();
        let (jobs, estimates_defaulted) = if !by_number {
            let kept = Kept::of(&log, u64::from(procs));
            let reasons = kept.dropped.by_reason().into_iter().filter(|(_, count)| *count > 0);
            dropped.extend(reasons.map(|(reason, count)| (reason.to_owned(), count)));
            (kept.jobs, kept.estimates_defaulted)
        } else {
            (jobs_by_number(&log), 0)
        };
        let subject = Subject::Log(Log {
            name: name_of(path),
            jobs,
            procs,
            procs_per_node: self.procs_per_node,
            events: self.events.map_or_else(Events::default, Into::into),
            cycle: self.beat(),
            estimate: self.estimate.map_or_else(Estimate::default, Into::into),
            inputs_sha256: [("trace".to_owned(), sha256)].into(),
        });
        Ok(Read { subject, dropped, estimates_defaulted, log: Some(log) })
    }

    fn swf(&self, opened: Opened) -> Result<(SwfLog, BTreeMap<String, u64>, String), CliError> {
        let bad = if self.lenient { BadLines::Drop } else { BadLines::Refuse };
        let failed = opened.failed();
        let file = opened.file.clone();
        let mut source = opened.source;
        let (log, dropped) = SwfLog::read_with(&mut source, bad).map_err(failed)?;
        let sha256 = source.finish().map_err(|source| CliError::Read { file, source })?;
        Ok((log, dropped, sha256))
    }

    fn procs_of(&self, log: &SwfLog, path: &Path) -> Result<u32, CliError> {
        let said = log.processors().and_then(|procs| u32::try_from(procs).ok());
        self.procs.or(said).filter(|procs| *procs > 0).ok_or_else(|| {
            let what = format!("{} does not say how many processors the machine has", path.display());
            usage(&what, "say it with --procs")
        })
    }

    fn beat(&self) -> Option<Millis> {
        self.cycle.and_then(|cycle| cycle.0)
    }

    fn pods(&self, path: &Path, opened: Opened) -> Result<Read, CliError> {
        let timed = [
            ("--estimate", self.estimate.is_some()),
            ("--events", self.events.is_some()),
            ("--cycle", self.cycle.is_some()),
            ("--procs", self.procs.is_some()),
        ];
        self.only("packing without time", &timed)?;
        let Some(nodes) = &self.nodes else {
            let what = format!("{} holds GPU pods, and no nodes are given", opened.file);
            return Err(usage(&what, "give a node list with --nodes, or a cluster with --cluster"));
        };
        let mut inputs = BTreeMap::new();
        let pods = read_with(opened, "trace", &mut inputs, |source| openb::read_pods(source))?;
        let nodes = Opened::open(nodes, Some(Kind::OpenbNodes))?;
        let nodes = read_with(nodes, "nodes", &mut inputs, |source| openb::read_nodes(source))?;
        let arrivals = match &self.arrivals {
            None => None,
            Some(path) => {
                let opened = Opened::open(path, Some(Kind::OpenbArrivals))?;
                Some(read_with(opened, "arrivals", &mut inputs, |source| openb::read_arrivals(source))?)
            }
        };
        let subject = Subject::Pods(Pods {
            name: name_of(path),
            nodes,
            pods,
            arrivals,
            ratio: self.ratio,
            exact_scores: self.exact_scores,
            inputs_sha256: inputs,
        });
        Ok(Read { subject, dropped: BTreeMap::new(), estimates_defaulted: 0, log: None })
    }

    fn cluster(&self, path: &Path, opened: Opened) -> Result<Read, CliError> {
        let elsewhere = [
            ("--estimate", self.estimate.is_some()),
            ("--events", self.events.is_some()),
            ("--nodes", self.nodes.is_some()),
            ("--procs", self.procs.is_some()),
        ];
        self.only("a cluster", &elsewhere)?;
        let mut inputs = BTreeMap::new();
        let given = match &self.cluster {
            Some(file) => {
                let input = Input::read(file)?;
                let situation = input.situation()?;
                inputs.insert("cluster".into(), sha256_of(input.text.as_bytes()));
                let order = situation.world.node_order.clone();
                Some((situation.nodes().to_vec(), order, situation.world))
            }
            None => None,
        };
        let shape = Shape { procs_per_node: self.procs_per_node, ..Shape::default() };
        let processors = given.as_ref().map(|(nodes, ..)| nodes.len() as u64 * self.procs_per_node);
        let (mut trace, dropped, estimates_defaulted) =
            self.own_trace(path, opened, shape, processors, &mut inputs)?;
        if given.is_some() {
            trace.without_cluster();
        }
        let cycles = match self.cycle {
            None if trace.has_pools() => Cycles::AsTold,
            _ => self.beat().map_or(Cycles::OnEvents, Cycles::Every),
        };
        let (nodes, node_order, world) = match given {
            Some(given) => given,
            None => {
                let parsed = scenario::parse("{}", Format::Json)
                    .map_err(|error| CliError::Invalid { file: path.display().to_string(), error })?;
                (trace.nodes.clone(), Vec::new(), parsed.world)
            }
        };
        if nodes.is_empty() && trace.joins.is_empty() {
            let what = format!("{} has no nodes, and no cluster is given", path.display());
            return Err(usage(&what, "give a scenario file with --cluster"));
        }
        let subject = Subject::Cluster(Box::new(Cluster {
            name: name_of(path),
            nodes,
            node_order,
            world,
            trace,
            cycles,
            inputs_sha256: inputs,
        }));
        Ok(Read { subject, dropped, estimates_defaulted, log: None })
    }

    /// Any kind of trace as our own.
    fn own_trace(
        &self,
        path: &Path,
        opened: Opened,
        shape: Shape,
        processors: Option<u64>,
        inputs: &mut BTreeMap<String, String>,
    ) -> Result<(Trace, BTreeMap<String, u64>, u64), CliError> {
        if opened.kind == Kind::Own {
            let trace = read_with(opened, "trace", inputs, |source| Trace::read(source))?;
            return Ok((trace, BTreeMap::new(), 0));
        }
        let header = Header::default();
        let mut text = Vec::new();
        let failed = |source| CliError::Read { file: path.display().to_string(), source };
        let converted = match opened.kind {
            Kind::Swf => {
                let (log, bad, sha256) = self.swf(opened)?;
                inputs.insert("trace".into(), sha256);
                let procs = match processors {
                    Some(procs) => procs,
                    None => u64::from(self.procs_of(&log, path)?),
                };
                let mut converted =
                    convert::from_swf(&log, procs, shape, &header, &mut text).map_err(failed)?;
                converted.dropped.extend(bad.into_iter().filter(|(_, count)| *count > 0));
                converted
            }
            Kind::Muri => {
                let jobs = read_with(opened, "trace", inputs, |source| muri::read(source))?;
                convert::from_muri(&jobs, shape, &header, &mut text).map_err(failed)?
            }
            _ => {
                let pods = read_with(opened, "trace", inputs, |source| openb::read_pods(source))?;
                convert::from_openb(&[], &pods, &header, &mut text).map_err(failed)?
            }
        };
        let trace = Trace::read(&*text).map_err(|error| {
            let error = ScenarioError::at("", error.to_string());
            CliError::Invalid { file: path.display().to_string(), error }
        })?;
        Ok((trace, converted.dropped, converted.estimates_defaulted))
    }
}

/// Reads a whole file and notes its SHA-256.
fn read_with<T>(
    opened: Opened,
    what: &str,
    inputs: &mut BTreeMap<String, String>,
    read: impl FnOnce(&mut landfall_replay::trace::Source) -> Result<T, landfall_replay::trace::TraceError>,
) -> Result<T, CliError> {
    let failed = opened.failed();
    let file = opened.file.clone();
    let mut source = opened.source;
    let value = read(&mut source).map_err(failed)?;
    let sha256 = source.finish().map_err(|source| CliError::Read { file, source })?;
    inputs.insert(what.to_owned(), sha256);
    Ok(value)
}

fn sha256_of(bytes: &[u8]) -> String {
    landfall_replay::trace::source::sha256(bytes)
}

impl From<EstimateArg> for Estimate {
    fn from(arg: EstimateArg) -> Self {
        match arg {
            EstimateArg::User => Self::User,
            EstimateArg::True => Self::True,
            EstimateArg::X2 => Self::Double,
        }
    }
}

impl From<EventsArg> for Events {
    fn from(arg: EventsArg) -> Self {
        match arg {
            EventsArg::Single => Self::Single,
            EventsArg::Batch => Self::Batch,
        }
    }
}
