//! CSV files with a header: columns by name, values with line-numbered errors.

use std::io::{self, Read};

use csv::{ReaderBuilder, StringRecord, Trim};
use landfall_model::scenario::closest;

use super::error::{TraceError, shown};
use super::lines::{LINE_BYTES_MAX, too_long};
use super::number::Number;

/// A CSV file as a stream of rows of bounded length.
pub(crate) struct Table<R> {
    reader: csv::Reader<Bounded<R>>,
    columns: Vec<String>,
    record: StringRecord,
}

impl<R: Read> Table<R> {
    pub(crate) fn new(reader: R) -> Result<Self, TraceError> {
        let reader = Bounded { reader, left: LINE_BYTES_MAX };
        let mut reader = ReaderBuilder::new().flexible(true).trim(Trim::All).from_reader(reader);
        let header = reader.headers().map_err(|error| from_csv(error, 1))?;
        let columns = header.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect();
        Ok(Self { reader, columns, record: StringRecord::new() })
    }

    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The place of a column that must be there.
    pub(crate) fn need(&self, name: &str) -> Result<usize, TraceError> {
        self.find(name).ok_or_else(|| {
            let error = TraceError::field(1, 1, name, "the header has no such column");
            match closest(name, self.columns.iter().map(String::as_str)) {
                Some(near) => error.hint(format!("there is a column `{near}`")),
                None => error.hint(format!("its columns: {}", shown(self.columns.join(", ").as_bytes()))),
            }
            .into()
        })
    }

    /// The place of a column that may be there.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The next row; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Row<'_>>, TraceError> {
        self.reader.get_mut().left = LINE_BYTES_MAX;
        let begins = self.reader.position().line() as usize;
        if !self.reader.read_record(&mut self.record).map_err(|error| from_csv(error, begins))? {
            return Ok(None);
        }
        let line = self.record.position().map_or(0, |at| at.line() as usize);
        if self.record.len() != self.columns.len() {
            let message = format!("found {} values, expected {}", self.record.len(), self.columns.len());
            return Err(TraceError::line(line, message)
                .hint("every row has as many values as the header")
                .into());
        }
        Ok(Some(Row { record: &self.record, columns: &self.columns, line }))
    }
}

/// A stream of which one row may take so much. A quotation mark that nothing closes makes a row of the whole rest, and a few
/// kilobytes of gzip can unpack to more than there is memory.
struct Bounded<R> {
    reader: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let count = self.reader.read(into)?;
        self.left = self.left.saturating_sub(count as u64);
        Ok(count)
    }
}

pub(crate) struct Row<'a> {
    record: &'a StringRecord,
    columns: &'a [String],
    pub(crate) line: usize,
}

impl Row<'_> {
    pub(crate) fn text(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or_default()
    }

    /// A value as text, unless it is empty or the column is absent.
    pub(crate) fn maybe_text(&self, column: Option<usize>) -> Option<String> {
        Some(self.text(column?)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A whole number of 0 or more.
    pub(crate) fn amount(&self, column: usize) -> Result<u64, TraceError> {
        let value = Number::parse(self.text(column).as_bytes()).and_then(Number::truncated);
        value
            .and_then(|value| u64::try_from(value).ok())
            .ok_or_else(|| self.wrong(column, "a number of 0 or more"))
    }

    /// A smaller whole number of 0 or more.
    pub(crate) fn count(&self, column: usize) -> Result<u32, TraceError> {
        let value = self.amount(column)?;
        u32::try_from(value).map_err(|_| self.wrong(column, "a number below 4294967296"))
    }

    /// A whole number, unless the value is empty or the column is absent.
    pub(crate) fn maybe_whole(&self, column: Option<usize>) -> Result<Option<i64>, TraceError> {
        let Some(column) = column.filter(|&column| !self.text(column).is_empty()) else { return Ok(None) };
        let value = Number::parse(self.text(column).as_bytes()).and_then(Number::truncated);
        value.map(Some).ok_or_else(|| self.wrong(column, "a number, or nothing"))
    }

    pub(crate) fn decimal(&self, column: usize) -> Result<f64, TraceError> {
        let value = Number::parse(self.text(column).as_bytes()).map(Number::decimal);
        value.ok_or_else(|| self.wrong(column, "a number"))
    }

    /// An error about a value.
    #[cold]
    pub(crate) fn wrong(&self, column: usize, expected: &str) -> TraceError {
        let message = format!("found `{}`, expected {expected}", shown(self.text(column).as_bytes()));
        let name = self.columns.get(column).map_or("", String::as_str);
        TraceError::field(self.line, 1, name, message).into()
    }
}

/// `begins` is the line in which the row begins.
fn from_csv(error: csv::Error, begins: usize) -> TraceError {
    let line = error.position().map_or(begins, |at| at.line() as usize);
    match error.into_kind() {
        csv::ErrorKind::Io(error) if error.kind() == io::ErrorKind::FileTooLarge => too_long(begins),
        csv::ErrorKind::Io(error) => error.into(),
        csv::ErrorKind::Utf8 { .. } => {
            TraceError::line(line, "the row is not UTF-8 text").hint("save the file as UTF-8").into()
        }
        other => TraceError::line(line, format!("{other:?}")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, a row, and a row without end: `"` and so many bytes. Counts how much was asked for.
    struct Endless {
        head: &'static [u8],
        asked: u64,
    }

    impl Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = match self.head.read(into)? {
                0 => {
                    into.fill(b'x');
                    into.len()
                }
                count => count,
            };
            self.asked += count as u64;
            Ok(count)
        }
    }

    #[test]
    fn a_row_without_end_is_refused_before_it_fills_the_memory() {
        let mut endless = Endless { head: b"a,b\n1,2\n1,\"", asked: 0 };
        let mut table = Table::new(&mut endless).unwrap();
        assert_eq!(table.next().unwrap().map(|row| row.line), Some(2));
        let error = table.next().err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("line 3: the line is longer than 16 MiB"));
        assert!(endless.asked < 2 * LINE_BYTES_MAX, "{} bytes were read", endless.asked);
        let mut endless = Endless { head: b"a,b", asked: 0 };
        let error = Table::new(&mut endless).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("line 1: the line is longer than 16 MiB"));
    }
}
