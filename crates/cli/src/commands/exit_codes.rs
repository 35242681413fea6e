//! `landfall exit-codes`: the list of exit codes.

use std::io::Write;

use serde::Serialize;

use crate::answer::{Answer, Page, to_json};
use crate::exit::Exit;

/// The answer of `exit-codes`.
pub(crate) struct ExitCodes;

#[derive(Serialize)]
struct Row {
    code: u8,
    meaning: &'static str,
}

#[derive(Serialize)]
struct Json {
    schema: &'static str,
    exit_codes: Vec<Row>,
}

impl Answer for ExitCodes {
    fn text(&self, _page: Page) -> String {
        format!("{}\n", Exit::help())
    }

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        let exit_codes = Exit::ALL.map(|(exit, meaning)| Row { code: exit.code(), meaning }).into();
        to_json(out, &Json { schema: "landfall.exit-codes/1", exit_codes })
    }
}
