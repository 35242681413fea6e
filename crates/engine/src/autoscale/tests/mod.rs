//! The autoscaler against simulated providers.
