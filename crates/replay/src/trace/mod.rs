//! Traces: readers and writers, streaming, with line-numbered errors and counts of what was dropped and why.
//!
//! [`open`] reads plain and gzip files alike and hashes them on the way; [`recognise`](recognise::recognise) tells which
//! kind a file is. One module per kind ([`swf`], [`openb`], [`muri`], [`own`]), one for what leads from kind to kind
//! ([`convert`]), one that makes workloads up ([`generate`]).

pub mod batch;
pub mod convert;
pub mod error;
pub mod generate;
pub mod journal;
mod lines;
pub mod muri;
mod number;
pub mod openb;
pub mod own;
pub mod random;
pub mod recognise;
pub mod source;
pub mod summary;
pub mod swf;
mod table;

pub use error::TraceError;
pub use recognise::{Kind, recognise};
pub use source::{Source, open};
