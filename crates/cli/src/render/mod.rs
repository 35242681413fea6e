//! Turns answers into text. Renderers decide nothing: they show what the answer says.

pub(crate) mod clock;
pub(crate) mod codes;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;

pub(crate) mod catalogue;
pub(crate) mod explain;
pub(crate) mod gpu;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod rank;
pub(crate) mod reasons;
pub(crate) mod replay;
pub(crate) mod scenario;
pub(crate) mod service;
pub(crate) mod standing;
pub(crate) mod trace;
mod words;
