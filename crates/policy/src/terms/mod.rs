//! All terms, by family, one file each.

pub(crate) mod batch;
pub(crate) mod binpack;
pub(crate) mod fit;
pub(crate) mod offer;
pub(crate) mod packing;
pub(crate) mod pull;
