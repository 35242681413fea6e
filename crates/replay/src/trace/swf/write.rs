//! Writing a log: its header, then eighteen fields a line.

use std::io::{self, Write};

use super::{Log, SwfJob};
use crate::trace::lines::write_line;

/// Writes a comment line; line ends inside it would make jobs of words, so they become blanks.
pub fn write_comment(out: &mut impl Write, comment: &str) -> io::Result<()> {
    write_line(out, &format!(";{}", comment.replace(['\n', '\r'], " ")))
}

/// Writes a job as one line of eighteen fields.
pub fn write_job(out: &mut impl Write, job: &SwfJob) -> io::Result<()> {
    let cpu = if job.cpu.is_finite() { job.cpu } else { -1.0 };
    SwfJob { cpu, ..*job }.write(out)?;
    writeln!(out)
}

impl Log {
    /// Writes the header and all jobs; what is written reads back equal.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for comment in &self.comments {
            write_comment(out, comment)?;
        }
        for job in &self.jobs {
            write_job(out, job)?;
        }
        Ok(())
    }
}
