//! The log of decisions: one line of JSON each, hashed as it is written, kept where somebody wants it.

use std::io::{self, Write};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

pub struct Decisions<'a> {
    hash: Sha256,
    out: Option<&'a mut dyn Write>,
    line: Vec<u8>,
    failed: Option<io::Error>,
}

impl std::fmt::Debug for Decisions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decisions").field("failed", &self.failed).finish_non_exhaustive()
    }
}

impl<'a> Decisions<'a> {
    /// A log that is written to `out`, or only hashed.
    pub fn new(out: Option<&'a mut dyn Write>) -> Self {
        Self { hash: Sha256::new(), out, line: Vec::new(), failed: None }
    }

    /// Writes one decision down.
    pub fn note(&mut self, decision: &impl Serialize) {
        self.line.clear();
        if let Err(error) = serde_json::to_writer(&mut self.line, decision) {
            self.failed.get_or_insert(error.into());
            return;
        }
        self.line.push(b'\n');
        self.hash.update(&self.line);
        if let (Some(out), None) = (&mut self.out, &self.failed)
            && let Err(error) = out.write_all(&self.line)
        {
            self.failed = Some(error);
        }
    }

    /// The SHA-256 of all lines as hex, or why they could not be written.
    pub fn finish(mut self) -> io::Result<String> {
        if let Some(out) = &mut self.out {
            out.flush()?;
        }
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }
}
