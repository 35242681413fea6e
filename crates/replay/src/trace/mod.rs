//! Traces: readers and writers, streaming, with line-numbered errors and counts of what was dropped and why.

pub mod swf;
