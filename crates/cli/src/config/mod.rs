//! Settings: one file, the environment, flags; the later the stronger.
//!
//! [`table`] lists every setting once, with its names in the file, in the environment and on the command line. [`Config`]
//! knows what is in force and where it came from.

mod load;
mod pools;
mod table;

pub(crate) use load::{Config, ConfigArgs, Origin};
#[cfg(test)]
pub(crate) use table::Kind;
pub(crate) use table::{SETTINGS, Setting, cores};
