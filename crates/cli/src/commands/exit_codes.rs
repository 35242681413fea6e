//! `landfall exit-codes`: the list of exit codes.

use serde::Serialize;

use crate::answer::Answer;
use crate::exit::Exit;
use crate::reply::Reply;

#[derive(Serialize)]
struct Row {
    code: u8,
    meaning: &'static str,
}

#[derive(Serialize)]
struct ExitCodes {
    exit_codes: Vec<Row>,
    /// Of jobs that no peer took.
    negotiation: Vec<Row>,
}

pub(crate) fn list() -> Box<dyn Answer> {
    let exit_codes = Exit::ALL.map(|(exit, meaning)| Row { code: exit.code(), meaning }).into();
    let negotiation = Exit::OF_NEGOTIATION.map(|(code, meaning)| Row { code, meaning }).into();
    let page = |_: &ExitCodes, _| format!("{}\n", Exit::help());
    Reply::new("landfall.exit-codes/1", ExitCodes { exit_codes, negotiation }, page).boxed()
}
