//! An answer that is data with a page: what most commands about a server give.

use std::io::Write;

use serde::Serialize;

use crate::answer::{Answer, Page, to_json};
use crate::exit::Exit;

/// Data, its schema and its page.
pub(crate) struct Reply<T> {
    schema: &'static str,
    data: T,
    page: fn(&T, Page) -> String,
    exit: Exit,
    warnings: Vec<String>,
}

impl<T> Reply<T> {
    /// An answer; the data must be a structure, as the schema is put among its fields.
    pub(crate) fn new(schema: &'static str, data: T, page: fn(&T, Page) -> String) -> Self {
        Self { schema, data, page, exit: Exit::Done, warnings: Vec::new() }
    }

    /// Says how the program ends.
    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    pub(crate) fn warn(self, warning: impl Into<String>) -> Self {
        self.warn_all([warning.into()])
    }

    pub(crate) fn warn_all(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }
}

#[derive(Serialize)]
struct Json<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    data: &'a T,
}

impl<T: Serialize + 'static> Reply<T> {
    pub(crate) fn boxed(self) -> Box<dyn Answer> {
        Box::new(self)
    }
}

impl<T: Serialize> Answer for Reply<T> {
    fn exit(&self) -> Exit {
        self.exit
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn text(&self, page: Page) -> String {
        (self.page)(&self.data, page)
    }

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        to_json(out, &Json { schema: self.schema, data: &self.data })
    }
}

/// Everything was said while the command ran.
pub(crate) struct Said(pub(crate) Exit);

impl Answer for Said {
    fn exit(&self) -> Exit {
        self.0
    }

    fn is_said(&self) -> bool {
        true
    }

    fn text(&self, _: Page) -> String {
        String::new()
    }

    fn json(&self, _: &mut dyn Write) -> serde_json::Result<()> {
        Ok(())
    }
}
