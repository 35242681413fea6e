//! Terms of the family `pull`, one file each.

mod missing_paths;

use crate::term::TermInfo;

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&TermInfo] = &[&missing_paths::INFO];
