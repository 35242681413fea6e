//! Scripts that say themselves what they need: `#LANDFALL` lines hold flags of `landfall submit`, `#SBATCH` lines those of Slurm.

use std::path::Path;

use clap::Parser as _;
use landfall_api::fill::interpreter;
use landfall_model::scenario::Position;

use super::args::JobArgs;
use super::slurm::Header;
use crate::answer::warn;
use crate::error::{CliError, usage};
use crate::input::{Input, is_stdin};

/// Something wrong in a line of a script.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) line: usize,
    pub(super) message: String,
    pub(super) hint: String,
}

/// A script as it is submitted.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    /// What it is called.
    pub(crate) name: String,
    pub(crate) text: String,
    /// Whether it has directives of Slurm, and so expects its variables.
    pub(crate) slurm: bool,
}

#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true, disable_help_flag = true, args_override_self = true)]
struct Line {
    #[command(flatten)]
    job: JobArgs,
}

impl Script {
    /// Reads a script, says what its directives leave open, and gives them as flags.
    pub(crate) fn read(words: &[String], skip: &[String]) -> Result<(Self, Vec<String>), CliError> {
        let path = Path::new(words.first().map_or("", String::as_str));
        if !is_stdin(path) && !path.exists() {
            return Err(no_script(words));
        }
        let Input { file, text, .. } = Input::read(path)?;
        if interpreter(&text).is_none() {
            let name = path.display();
            return Err(in_line(
                &file,
                Wrong {
                    line: 1,
                    message: "this is no script: its first line does not say what runs it".to_owned(),
                    hint: format!(
                        "begin it with #!/bin/sh, or run it as a command: landfall submit -- ./{name}"
                    ),
                },
            ));
        }
        let (flags, slurm, warnings) = directives(&text, skip).map_err(|wrong| in_line(&file, wrong))?;
        warnings.iter().for_each(|words| warn(&format!("{file}: {words}")));
        let name =
            path.file_name().map_or_else(|| "script".to_owned(), |name| name.to_string_lossy().into_owned());
        let name = if is_stdin(path) { "script".to_owned() } else { name };
        Ok((Self { name, text, slurm }, flags))
    }
}

/// What was meant is a command, or a file elsewhere.
pub(crate) fn no_script(words: &[String]) -> CliError {
    let hint = format!("a command stands behind `--`, as in: landfall submit -- {}", words.join(" "));
    usage(format!("there is no script `{}`", words.first().map_or("", String::as_str)), hint)
}

fn in_line(file: &str, wrong: Wrong) -> CliError {
    let Wrong { line, message, hint } = wrong;
    let position = Some(Position { line, column: 1 });
    CliError::Asked { file: file.to_owned(), position, job: None, source: Box::new(usage(message, hint)) }
}

/// The flags that the directives of a script stand for, those of Slurm first, whether there are any of Slurm, and what to say.
fn directives(text: &str, skip: &[String]) -> Result<(Vec<String>, bool, Vec<String>), Wrong> {
    let (mut header, mut own) = (Header::default(), Vec::new());
    let (mut slurm, mut code, mut late) = (false, false, Vec::new());
    for (line, said) in text.lines().enumerate().map(|(at, said)| (at + 1, said.trim_end())) {
        let said = said.trim_start();
        let (ours, theirs) = (said.strip_prefix("#LANDFALL"), said.strip_prefix("#SBATCH"));
        let rest = ours.or(theirs).filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        match rest {
            None if said.is_empty() || said.starts_with('#') => {
                let bare = said.trim_start_matches(['#', ' ', '\t']);
                if !code
                    && said.starts_with("# ")
                    && ["SBATCH -", "LANDFALL -"].iter().any(|word| bare.starts_with(word))
                {
                    late.push(format!("line {line} is a comment: there is a space behind the #"));
                }
                if !code && ["#PBS -", "#BSUB -", "#$ -"].iter().any(|word| said.starts_with(word)) {
                    late.push(format!("line {line} is not read: only #SBATCH and #LANDFALL are"));
                }
            }
            None => {
                if said.split_whitespace().next() == Some("srun") {
                    late.push(format!(
                        "line {line} calls srun, which is Slurm's: the job already runs on its nodes"
                    ));
                }
                code = true;
            }
            Some(_) if code => {
                late.push(format!("line {line} is not read: it comes after the first command"));
            }
            Some(rest) => {
                let mut split = shlex::Shlex::new(rest);
                let words: Vec<String> = split.by_ref().collect();
                if split.had_error {
                    let (message, hint) = ("a quote is not closed".to_owned(), "close it".to_owned());
                    return Err(Wrong { line, message, hint });
                }
                if ours.is_some() {
                    check(&words, line)?;
                    own.extend(words);
                } else {
                    slurm = true;
                    header.read(words, line, skip)?;
                }
            }
        }
    }
    let mut flags = if slurm { header.flags()? } else { Vec::new() };
    flags.extend(own);
    late.extend(header.warnings);
    Ok((flags, slurm, late))
}

/// Whether a line holds flags of a job and nothing else.
fn check(words: &[String], line: usize) -> Result<(), Wrong> {
    let hint = "`landfall submit --help` lists what may be said".to_owned();
    match Line::try_parse_from(words) {
        Ok(Line { job }) if job.command.is_empty() && job.script.is_empty() && job.file.is_none() => Ok(()),
        Ok(_) => Err(Wrong { line, message: "a directive holds flags alone".to_owned(), hint }),
        Err(error) => {
            let text = error.render().to_string();
            let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Err(Wrong { line, message, hint })
        }
    }
}

#[cfg(test)]
#[path = "headers.rs"]
mod headers;
