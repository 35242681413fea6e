//! Files that a replay leaves behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use landfall_replay::run::Run;
use landfall_replay::trace::batch::BatchJob;
use landfall_replay::trace::swf::{self, Log};

use crate::commands::trace::files::write_file;
use crate::error::CliError;

// Where files go.
#[derive(Debug, clap::Args)]
pub(crate) struct OutArgs {
    /// Write report.json, report.html and, for one replay, decisions.jsonl into this directory, made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace files that are there already.
    #[arg(long)]
    pub(crate) force: bool,
}

impl OutArgs {
    /// Refuses before anything is done if files would be overwritten.
    pub(crate) fn check(&self, names: &[&str], others: &[&Option<PathBuf>]) -> Result<(), CliError> {
        let inside = self.out.iter().flat_map(|dir| names.iter().map(|name| dir.join(name)));
        for file in inside.chain(others.iter().filter_map(|file| (*file).clone())) {
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

    pub(crate) fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), CliError> {
        write_file(path, self.force, |out| out.write_all(bytes))
    }
}

/// Writes the schedule of a log: the log itself with the simulated wait in field 3 and jobs that were left out removed.
pub(super) fn write_schedule(
    path: &Path,
    force: bool,
    log: &Log,
    kept: &[BatchJob],
    run: &Run,
) -> Result<(), CliError> {
    let mut waits: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    // A replay keeps the order of the jobs it was given.
    for (job, row) in run.jobs.iter().zip(kept) {
        if let Some(wait) = job.wait_ms() {
            waits.insert((row.number, row.submit), (wait / 1000) as i64);
        }
    }
    write_file(path, force, |mut out| {
        for comment in &log.comments {
            swf::write_comment(&mut out, comment)?;
        }
        for job in &log.jobs {
            if let Some(wait) = waits.get(&(job.number, job.submit)) {
                swf::write_job(&mut out, &swf::SwfJob { wait: *wait, ..*job })?;
            }
        }
        Ok(())
    })
}

/// Writes the curve of a packing run as CSV.
pub(super) fn write_curve(path: &Path, force: bool, run: &Run) -> Result<(), CliError> {
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
