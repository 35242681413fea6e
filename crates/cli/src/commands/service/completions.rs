//! `landfall completions` and `landfall man`.

use std::io::Write as _;
use std::path::PathBuf;

use clap_complete::Shell;
use serde::Serialize;

use crate::answer::{Answer, Page};
use crate::error::CliError;
use crate::exit::Exit;
use crate::reply::{Reply, Said};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall completions bash > ~/.local/share/bash-completion/completions/landfall
  landfall completions zsh > ~/.zfunc/_landfall
  landfall completions fish > ~/.config/fish/completions/landfall.fish")]
pub(crate) struct Args {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  landfall man | man -l -
  landfall man --out ~/.local/share/man/man1      one page for each command")]
pub(crate) struct ManArgs {
    /// Write a page for each command into this directory instead of one to standard output.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<Box<dyn Answer>, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "landfall", &mut script);
    write(&script)
}

#[derive(Serialize)]
struct Pages {
    directory: String,
    pages: Vec<String>,
}

pub(crate) fn man(args: &ManArgs, command: clap::Command) -> Result<Box<dyn Answer>, CliError> {
    let Some(dir) = &args.out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).map_err(CliError::Output)?;
        return write(&page);
    };
    let failed = |source| CliError::Write { file: dir.display().to_string(), source };
    std::fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(command, dir).map_err(failed)?;
    let mut pages: Vec<String> = std::fs::read_dir(dir)
        .map_err(failed)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("landfall") && name.ends_with(".1"))
        .collect();
    pages.sort();
    let page = |data: &Pages, _: Page| format!("{} pages in {}\n", data.pages.len(), data.directory);
    let data = Pages { directory: dir.display().to_string(), pages };
    Ok(Reply::new("landfall.man/1", data, page).boxed())
}

fn write(bytes: &[u8]) -> Result<Box<dyn Answer>, CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(Box::new(Said(Exit::Done))),
    }
}
