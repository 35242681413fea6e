//! Filters on the offers of peers, one file each.

mod avoided;
mod budget;
mod fits;
mod fresh;
mod scope;
mod trust;

use crate::filter::FilterInfo;

/// All of them, in the order in which an arbiter checks offers.
pub(crate) const ALL: &[&FilterInfo] =
    &[&fresh::INFO, &trust::INFO, &avoided::INFO, &fits::INFO, &budget::INFO, &scope::INFO];
