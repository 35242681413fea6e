//! The first devices by index that would do.

use super::Positions;

pub(super) fn choose(fitting: &[u16], count: usize) -> Positions {
    fitting.iter().take(count).copied().collect()
}
