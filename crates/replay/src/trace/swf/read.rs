//! Reading a log: a stream of jobs, or all of it at once.

use std::collections::BTreeMap;
use std::io::BufRead;

use landfall_model::scenario::ScenarioError;

use super::{FIELDS, Log, SwfJob};
use crate::trace::error::{TraceError, shown};
use crate::trace::lines::{LINE_BYTES_MAX, Lines};
use crate::trace::number::Number;

/// What to do with a line that is no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BadLines {
    /// Stop with an error that names the line.
    #[default]
    Refuse,
    /// Leave it out and count it by reason.
    Drop,
}

/// Reads jobs one after the other; comments are collected on the way.
#[derive(Debug)]
pub struct SwfReader<R> {
    lines: Lines<R>,
    bad_lines: BadLines,
    comments: Vec<String>,
    /// Bytes that the comments take, about.
    comment_bytes: u64,
    dropped: BTreeMap<String, u64>,
}

/// What a comment takes beside its text.
const COMMENT_BYTES: u64 = 24;

impl<R: BufRead> SwfReader<R> {
    /// A reader of the text of a log.
    pub fn new(reader: R, bad_lines: BadLines) -> Self {
        Self {
            lines: Lines::new(reader),
            bad_lines,
            comments: Vec::new(),
            comment_bytes: 0,
            dropped: BTreeMap::new(),
        }
    }

    /// The next job; `None` at the end.
    ///
    /// # Errors
    /// If reading fails, or a line is bad and bad lines are refused.
    pub fn next_job(&mut self) -> Result<Option<SwfJob>, TraceError> {
        while let Some((number, line)) = self.lines.next()? {
            match line.iter().position(|byte| !is_blank(*byte)) {
                None => {}
                Some(at) if line[at] == b';' => {
                    self.comment_bytes += line.len() as u64 + COMMENT_BYTES;
                    if self.comment_bytes > LINE_BYTES_MAX {
                        let message = format!("the comments are longer than {} MiB", LINE_BYTES_MAX >> 20);
                        return Err(TraceError::line(number, message)
                            .hint("a log is jobs; is this one?")
                            .into());
                    }
                    self.comments.push(String::from_utf8_lossy(&line[at + 1..]).into_owned());
                }
                Some(_) => match SwfJob::of(Line { line, at: 0, field: 0 }) {
                    Ok(job) => return Ok(Some(job)),
                    Err(bad) if self.bad_lines == BadLines::Drop => {
                        *self.dropped.entry(bad.reason()).or_default() += 1;
                    }
                    Err(bad) => return Err(bad.error(number, line).into()),
                },
            }
        }
        Ok(None)
    }

    /// Lines left out so far, by reason.
    pub fn dropped(&self) -> &BTreeMap<String, u64> {
        &self.dropped
    }

    /// What is left of the stream.
    pub fn into_inner(self) -> R {
        self.lines.into_inner()
    }
}

impl Log {
    /// Reads a whole log; the first bad line is an error.
    pub fn read(reader: impl BufRead) -> Result<Self, TraceError> {
        Ok(Self::read_with(reader, BadLines::Refuse)?.0)
    }

    /// Reads a whole log, with the lines that were left out counted by reason.
    ///
    /// # Errors
    /// If reading fails, or a line is bad and bad lines are refused.
    pub fn read_with(
        reader: impl BufRead,
        bad_lines: BadLines,
    ) -> Result<(Self, BTreeMap<String, u64>), TraceError> {
        let mut reader = SwfReader::new(reader, bad_lines);
        let mut jobs = Vec::new();
        while let Some(job) = reader.next_job()? {
            jobs.push(job);
        }
        Ok((Self { comments: reader.comments, jobs }, reader.dropped))
    }
}

/// Why a line is no job.
pub(super) enum Bad {
    /// It has too few fields.
    Short { fields: usize },
    /// A field is not a number, or one too large; the place of its bytes.
    Field { field: usize, from: usize, until: usize },
}

impl Bad {
    fn reason(&self) -> String {
        match self {
            Self::Short { .. } => format!("fewer than {} fields", FIELDS.len()),
            Self::Field { field, .. } => format!("{} is not a number", FIELDS[*field]),
        }
    }

    #[cold]
    fn error(&self, number: usize, line: &[u8]) -> ScenarioError {
        match *self {
            Self::Short { fields } => {
                let message = format!("found {fields} fields, expected at least {}", FIELDS.len());
                TraceError::field(number, line.len() + 1, FIELDS[fields], message).hint(
                    "unknown values are written as -1; `--lenient` leaves bad lines out and counts them",
                )
            }
            Self::Field { field, from, until } => {
                let found = shown(&line[from..until]);
                let message = format!("found `{found}` in field {}, expected a number", field + 1);
                TraceError::field(number, from + 1, FIELDS[field], message).hint(
                    "unknown values are written as -1; `--lenient` leaves bad lines out and counts them",
                )
            }
        }
    }
}

#[inline]
fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t' || byte == b'\r'
}

/// What a field is kept as.
pub(super) trait Field: Sized {
    fn of(number: Number) -> Option<Self>;
}

impl Field for i64 {
    fn of(number: Number) -> Option<Self> {
        number.truncated()
    }
}

impl Field for f64 {
    fn of(number: Number) -> Option<Self> {
        Some(number.decimal())
    }
}

/// The fields of a line, one after the other. A `;` where a field should begin ends the line.
pub(super) struct Line<'a> {
    line: &'a [u8],
    at: usize,
    field: usize,
}

impl Line<'_> {
    #[inline]
    pub(super) fn next<T: Field>(&mut self) -> Result<T, Bad> {
        let (line, field) = (self.line, self.field);
        let ends = |from: usize, blank: bool| {
            let end = line[from..].iter().position(|byte| is_blank(*byte) != blank);
            end.map_or(line.len(), |count| from + count)
        };
        let from = ends(self.at, true);
        let until = ends(from, false);
        if from == until || line[from] == b';' {
            return Err(Bad::Short { fields: field });
        }
        (self.at, self.field) = (until, field + 1);
        let number = Number::parse(&line[from..until]).and_then(T::of);
        number.ok_or(Bad::Field { field, from, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_without_end_are_refused() {
        let error = Log::read(";\n".repeat(1 << 20).as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "line 671089: the comments are longer than 16 MiB");
    }

    const LINE: &str = "1 2 3 4 5 6.5 7 8 9 10 11 12 13 14 15 16 17 18";

    fn read(text: &str) -> Result<Log, TraceError> {
        Log::read(text.as_bytes())
    }

    #[test]
    fn each_field_has_its_place() {
        let log = read(LINE).unwrap();
        let job = log.jobs[0];
        let fields = [
            job.number,
            job.submit,
            job.wait,
            job.run,
            job.allocated,
            job.memory,
            job.requested,
            job.estimate,
            job.requested_memory,
            job.status,
            job.user,
            job.group,
            job.executable,
            job.queue,
            job.partition,
            job.preceding,
            job.think,
        ];
        assert_eq!(fields, [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]);
        assert_eq!(job.cpu, 6.5);
    }

    #[test]
    fn tabs_more_fields_fractions_comments_and_blank_lines() {
        let tabbed = LINE.replace(' ', "\t");
        let text = format!(
            "; MaxProcs: 5\n\n  ;second\r\n{tabbed}\t0\r\n   {LINE} ; a remark\n{}",
            LINE.replacen("2 3", "2.9 -3.9", 1)
        );
        let log = read(&text).unwrap();
        assert_eq!(log.comments, [" MaxProcs: 5", "second"]);
        assert_eq!(log.jobs.len(), 3);
        assert_eq!(log.jobs[0], log.jobs[1]);
        assert_eq!((log.jobs[2].submit, log.jobs[2].wait), (2, -3));
    }

    #[test]
    fn errors_name_line_column_field_and_what_was_found() {
        let error = read(&format!("; c\n{LINE}\n1 2 3 four 5")).unwrap_err();
        let TraceError::Invalid(error) = error else { panic!("{error}") };
        assert_eq!(error.to_string(), "run: found `four` in field 4, expected a number");
        let at = error.position.unwrap();
        assert_eq!((at.line, at.column), (3, 7));
        let error = read("1 2 3").unwrap_err();
        assert_eq!(error.to_string(), "line 1: run: found 3 fields, expected at least 18");
        let error = read(&LINE.replace("12 13", "12 99999999999999999999")).unwrap_err();
        assert!(error.to_string().starts_with("line 1: group: found `99999999999999999999`"), "{error}");
    }

    #[test]
    fn lenient_reading_counts_what_it_drops() {
        let text = format!("{LINE}\n1 2\nx 2\n; c\ny\n{LINE}\n");
        let (log, dropped) = Log::read_with(text.as_bytes(), BadLines::Drop).unwrap();
        assert_eq!(log.jobs.len(), 2);
        let dropped: Vec<_> = dropped.into_iter().collect();
        assert_eq!(
            dropped,
            [("fewer than 18 fields".to_owned(), 1), ("job number is not a number".to_owned(), 2)]
        );
    }
}
