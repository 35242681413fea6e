//! Terms of the `fit` policy, one file each.

mod device_health;
#[expect(clippy::module_inception, reason = "the term is called like its family")]
mod fit;
mod headroom;
pub(crate) mod speed;

use crate::term::TermInfo;

/// All of them, in the order in which policies list them.
pub(crate) const ALL: &[&TermInfo] = &[&speed::INFO, &fit::INFO, &headroom::INFO, &device_health::INFO];
