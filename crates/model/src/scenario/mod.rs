//! The scenario file: a whole situation in TOML or JSON.
//!
//! It is the one format for tests, bug reports, docs and the command line. Reading is strict: an unknown field, a
//! number out of range or a reference to nothing is an error that names file position and field, with a hint where one
//! helps. This module turns text into a [`Situation`]; the caller reads the file.

mod build;
mod error;
mod locate;
mod rows;
mod single;
mod tree;
mod whole;
mod written;

pub use error::{Format, Position, ScenarioError, closest, decode, from_message};
pub use locate::locate;
pub use rows::{BlockRow, JobRow, NodeRow, TenantRow};
pub use single::Rows;
pub use whole::write;
pub use written::{Written, WrittenBlock, WrittenNode, WrittenTenant};

use crate::Situation;

/// Most nodes or jobs in one scenario, counting each copy that `count` makes.
pub const ROWS_MAX: usize = 4_000_000;

/// Reads a whole situation.
///
/// ```
/// use landfall_model::scenario::{Format, parse};
///
/// let situation = parse(
///     r#"
///     now_ms = 0
///     [[nodes]]
///     id = "a"
///     cpu_milli = 4000
///     ram_mib = "8GiB"
///     [[jobs]]
///     id = "build"
///     cpu_milli = 1000
///     "#,
///     Format::Toml,
/// )?;
/// assert_eq!(situation.nodes()[0].id.as_str(), "a");
///
/// let wrong = parse("now_ms = 0\n[[nodes]]\nid = \"a\"\ncpu_mili = 1\n", Format::Toml).unwrap_err();
/// assert_eq!(wrong.hint.as_deref(), Some("did you mean `cpu_milli`?"));
/// # Ok::<(), landfall_model::scenario::ScenarioError>(())
/// ```
pub fn parse(text: &str, format: Format) -> Result<Situation, ScenarioError> {
    let file: rows::File = error::decode(text, format)?;
    build::situation(file).map_err(|error| error.located(text, format))
}
