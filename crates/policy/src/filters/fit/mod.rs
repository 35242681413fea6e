//! Filters of the family `fit`, one file each.

use crate::filter::FilterInfo;

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&FilterInfo] = &[];
