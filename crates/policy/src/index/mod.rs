//! Exact best candidates without looking at all of them.
