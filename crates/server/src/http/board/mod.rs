//! The board.

/// Recent decisions.
#[derive(Debug, Default)]
pub(crate) struct Board {}
