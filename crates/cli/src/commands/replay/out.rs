//! Files that a replay leaves behind.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landfall_replay::measures::Measures;
use landfall_replay::run::Run;
use landfall_replay::trace::swf::{self, Log};

use super::subject::usage;
use crate::commands::trace::files::write_file;
use crate::error::CliError;

/// Where files go.
#[derive(Debug, clap::Args)]
pub(crate) struct OutArgs {
    /// Write report.json, report.html and decisions.jsonl into this directory, which is made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace files that are there already.
    #[arg(long)]
    pub(crate) force: bool,
}

impl OutArgs {
    /// Refuses before anything is done if files would be overwritten.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        let Some(dir) = &self.out else { return Ok(()) };
        for name in ["report.json", "report.html", "decisions.jsonl"] {
            let file = dir.join(name);
            if !self.force && file.exists() {
                return Err(CliError::Exists { file: file.display().to_string() });
            }
        }
        Ok(())
    }

    /// The directory, made if it is not there.
    pub(crate) fn directory(&self) -> Result<Option<&Path>, CliError> {
        let Some(dir) = &self.out else { return Ok(None) };
        fs::create_dir_all(dir)
            .map_err(|source| CliError::Write { file: dir.display().to_string(), source })?;
        Ok(Some(dir))
    }

    /// Writes one file.
    pub(crate) fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), CliError> {
        write_file(path, self.force, |out| out.write_all(bytes))
    }
}

/// Writes the schedule of a log: the log itself with the simulated wait in field 3 and jobs that were left out removed.
pub(super) fn write_schedule(path: &Path, force: bool, log: Option<&Log>, run: &Run) -> Result<(), CliError> {
    let Some(log) = log else {
        return Err(usage(
            "--schedule-out is for batch logs",
            "use --out for the decisions of other replays",
        ));
    };
    let mut waits: BTreeMap<&str, i64> = BTreeMap::new();
    for job in &run.jobs {
        if let Some(wait) = job.wait_ms() {
            waits.insert(job.job.as_str(), (wait / 1000) as i64);
        }
    }
    write_file(path, force, |mut out| {
        for comment in &log.comments {
            swf::write_comment(&mut out, comment)?;
        }
        for job in &log.jobs {
            if let Some(wait) = waits.get(job.number.to_string().as_str()) {
                swf::write_job(&mut out, &swf::SwfJob { wait: *wait, ..*job })?;
            }
        }
        Ok(())
    })
}

/// Writes the curve of a packing run as CSV.
pub(super) fn write_curve(path: &Path, force: bool, run: &Run) -> Result<(), CliError> {
    if run.curve.is_empty() {
        return Err(usage("--curve-out is for packing of GPU pods", "give a pod list and --nodes"));
    }
    write_file(path, force, |out| {
        writeln!(
            out,
            "arrived_percent,allocation_percent,fragmentation_ratio_percent,fragmentation_percent"
        )?;
        for point in &run.curve {
            writeln!(
                out,
                "{},{:.2},{:.2},{:.2}",
                point.arrived, point.allocation, point.fragmentation_ratio, point.fragmentation
            )?;
        }
        Ok(())
    })
}

/// The measures as indented JSON with a line end.
pub(super) fn json_of(measures: &Measures) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(measures)?;
    text.push(b'\n');
    Ok(text)
}
