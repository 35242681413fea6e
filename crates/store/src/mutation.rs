//! A fault that can be planted in the store, to see whether the simulation of a whole service notices it: nothing is compared
//! with its checksum.

use std::cell::Cell;

thread_local! {
    static PLANTED: Cell<bool> = const { Cell::new(false) };
}

/// Lets the stores of this thread skip all checksums, or not.
pub fn skip_checksums(skip: bool) {
    PLANTED.set(skip);
}

pub(crate) fn is_planted() -> bool {
    PLANTED.get()
}
