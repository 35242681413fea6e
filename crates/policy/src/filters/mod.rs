//! All filters, by family, one file each.

pub(crate) mod batch;
pub(crate) mod binpack;
pub(crate) mod fit;
pub(crate) mod offer;
pub(crate) mod pull;

#[cfg(test)]
mod testing;
