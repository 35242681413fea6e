//! CSV files with a header: columns by name, values with line-numbered errors.

use std::io::Read;

use csv::{ReaderBuilder, StringRecord, Trim};
use landfall_model::scenario::closest;

use super::error::{TraceError, shown};
use super::number::Number;

/// A CSV file as a stream of rows.
pub(crate) struct Table<R> {
    reader: csv::Reader<R>,
    columns: Vec<String>,
    record: StringRecord,
}

impl<R: Read> Table<R> {
    pub(crate) fn new(reader: R) -> Result<Self, TraceError> {
        let mut reader = ReaderBuilder::new().flexible(true).trim(Trim::All).from_reader(reader);
        let header = reader.headers().map_err(from_csv)?;
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
        if !self.reader.read_record(&mut self.record).map_err(from_csv)? {
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

fn from_csv(error: csv::Error) -> TraceError {
    let line = error.position().map_or(1, |at| at.line() as usize);
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        csv::ErrorKind::Utf8 { .. } => {
            TraceError::line(line, "the row is not UTF-8 text").hint("save the file as UTF-8").into()
        }
        other => TraceError::line(line, format!("{other:?}")).into(),
    }
}
