//! Traces: readers and writers, streaming, with line-numbered errors and counts of what was dropped and why.

pub mod batch;
pub mod error;
mod lines;
mod number;
pub mod source;
pub mod swf;

pub use error::TraceError;
pub use source::{Source, open};
