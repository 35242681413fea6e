//! Reads the files that people give.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use landfall_model::Situation;
use landfall_model::scenario::{self, Format, Position, ScenarioError};

use crate::error::CliError;

/// Largest file accepted. A million nodes spelled out take a tenth of it; beyond, memory runs out before the answer.
pub(crate) const FILE_BYTES_MAX: u64 = 2 << 30;

#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) format: Format,
}

impl Input {
    /// Reads a file; `-` is standard input.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        if is_stdin(path) {
            return Self::from_reader("<stdin>".into(), None, io::stdin().lock(), 0);
        }
        let file = path.display().to_string();
        let open = || {
            let opened = File::open(path)?;
            let metadata = opened.metadata()?;
            // Reading a directory fails with a message that differs between systems.
            if metadata.is_dir() {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
            }
            Ok((opened, metadata.len()))
        };
        match open() {
            Ok((_, len)) if len > FILE_BYTES_MAX => Err(CliError::TooLarge { file }),
            Ok((opened, len)) => Self::from_reader(file, by_extension(path), opened, len),
            Err(source) => Err(CliError::Read { file, source }),
        }
    }

    fn from_reader(
        file: String,
        format: Option<Format>,
        reader: impl Read,
        len: u64,
    ) -> Result<Self, CliError> {
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0) + 1);
        // The length is only a hint: pipes have none and files may grow meanwhile.
        if let Err(source) = reader.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes) {
            return Err(CliError::Read { file, source });
        }
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(CliError::TooLarge { file });
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
                let position = Some(Position::of(&valid, valid.len()));
                let error = ScenarioError { position, ..ScenarioError::at("", "the file is not UTF-8 text") };
                return Err(CliError::Invalid { file, error: error.hint("save it as UTF-8") });
            }
        };
        let text = match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        };
        if text.trim().is_empty() {
            let error = ScenarioError::at("", "the file is empty").hint("fill it, or name another one");
            return Err(CliError::Invalid { file, error });
        }
        let format = format.unwrap_or_else(|| sniff(&text));
        Ok(Self { file, text, format })
    }

    pub(crate) fn situation(&self) -> Result<Situation, CliError> {
        scenario::parse(&self.text, self.format).map_err(|error| self.invalid(error))
    }

    /// An error in this file, located if it is not yet.
    pub(crate) fn invalid(&self, error: ScenarioError) -> CliError {
        CliError::Invalid { file: self.file.clone(), error: error.located(&self.text, self.format) }
    }
}

/// Whether a path stands for standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn by_extension(path: &Path) -> Option<Format> {
    let extension = path.extension()?;
    if extension.eq_ignore_ascii_case("json") {
        Some(Format::Json)
    } else if extension.eq_ignore_ascii_case("toml") {
        Some(Format::Toml)
    } else {
        None
    }
}

/// A JSON file starts with a brace; no TOML file does.
fn sniff(text: &str) -> Format {
    if text.trim_start().starts_with('{') { Format::Json } else { Format::Toml }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Input, CliError> {
        Input::from_reader("f".into(), None, bytes, 0)
    }

    #[test]
    fn formats_are_told_by_the_first_character() {
        assert_eq!(read(b" \n {\"now_ms\": 1}").unwrap().format, Format::Json);
        assert_eq!(read(b"now_ms = 1").unwrap().format, Format::Toml);
        assert_eq!(by_extension(Path::new("a.JSON")), Some(Format::Json));
        assert_eq!(by_extension(Path::new("a.txt")), None);
    }

    #[test]
    fn a_byte_order_mark_is_no_content() {
        assert_eq!(read("\u{feff}now_ms = 1".as_bytes()).unwrap().text, "now_ms = 1");
        assert!(read("\u{feff} \n".as_bytes()).is_err());
    }

    #[test]
    fn what_is_not_text_has_a_position() {
        let Err(CliError::Invalid { error, .. }) = read(b"a = 1\nb = \"\xff\"") else { panic!("accepted") };
        assert_eq!(error.position, Some(Position { line: 2, column: 6 }));
    }
}
