//! The journal and snapshots.
