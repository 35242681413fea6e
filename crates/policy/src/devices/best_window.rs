//! The run of neighbouring entries with the fewest skipped indices, then the lowest first index.

use landfall_model::Node;

use super::{Positions, gaps};

pub(super) fn choose(fitting: &[u16], count: usize, node: &Node) -> Positions {
    fitting
        .windows(count.max(1))
        .min_by_key(|window| gaps(window, node))
        .unwrap_or(&[])
        .iter()
        .copied()
        .collect()
}
