//! Lines of a stream, counted, into one buffer, of bounded length.

use std::io::{self, BufRead, Read};

use super::error::TraceError;

/// A line longer than this is no line of any trace; reading on would only fill the memory.
pub(crate) const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads lines without their ends and counts them from 1.
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0 }
    }

    /// The next line with its number; `None` at the end. A byte order mark before the first line is left out.
    pub(crate) fn next(&mut self) -> Result<Option<(usize, &[u8])>, TraceError> {
        self.buffer.clear();
        let count = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.buffer)?;
        if count == 0 {
            return Ok(None);
        }
        self.number += 1;
        let mut line = self.buffer.as_slice();
        if let Some(rest) = line.strip_suffix(b"\n") {
            line = rest.strip_suffix(b"\r").unwrap_or(rest);
        } else if count as u64 == LINE_BYTES_MAX {
            return Err(too_long(self.number));
        }
        if self.number == 1 {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        Ok(Some((self.number, line)))
    }

    /// What is left of the stream.
    pub(crate) fn into_inner(self) -> R {
        self.reader
    }
}

impl<R> std::fmt::Debug for Lines<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("number", &self.number).finish_non_exhaustive()
    }
}

/// What is said of a line, or of a row that begins there, that does not end.
pub(crate) fn too_long(line: usize) -> TraceError {
    let message = format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20);
    TraceError::line(line, message).hint("traces are text, one record per line; is this such a file?").into()
}

/// Writes one `\n`-ended line.
pub(crate) fn write_line(out: &mut impl io::Write, line: &str) -> io::Result<()> {
    out.write_all(line.as_bytes())?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<(usize, String)> {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            found.push((number, String::from_utf8_lossy(line).into_owned()));
        }
        found
    }

    #[test]
    fn ends_of_lines_of_all_systems_and_a_missing_last_one() {
        let owned = |rows: &[(usize, &str)]| rows.iter().map(|&(n, t)| (n, t.to_owned())).collect::<Vec<_>>();
        assert_eq!(all(b"a\r\n\nb"), owned(&[(1, "a"), (2, ""), (3, "b")]));
        assert_eq!(all(b"\xef\xbb\xbfa\n"), owned(&[(1, "a")]));
        assert_eq!(all(b""), vec![]);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let long = vec![b'x'; LINE_BYTES_MAX as usize + 1];
        let error = Lines::new(long.as_slice()).next().unwrap_err();
        assert_eq!(error.to_string(), "line 1: the line is longer than 16 MiB");
    }
}
