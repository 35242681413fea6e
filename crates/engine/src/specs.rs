//! Specs that many jobs have in common.
//!
//! Jobs that are submitted one by one come with a spec each, though most are like others that came before. One of each is
//! enough: it takes less memory, and whoever keeps something per class of jobs knows the class by the address of its spec.

use std::collections::BTreeSet;
use std::sync::Arc;

use landfall_model::JobSpec;

/// Most specs remembered; beyond that those are forgotten that no job has any more.
const SPECS_MAX: usize = 4096;

/// Specs seen lately, one of each.
#[derive(Debug, Default)]
pub(crate) struct Specs {
    known: BTreeSet<Arc<JobSpec>>,
    /// Their addresses: one of these need not be compared with others.
    addresses: BTreeSet<usize>,
}

impl Specs {
    /// The one spec that stands for all that are equal to this one.
    pub(crate) fn shared(&mut self, spec: Arc<JobSpec>) -> Arc<JobSpec> {
        if self.addresses.contains(&address_of(&spec)) {
            return spec;
        }
        if let Some(known) = self.known.get(&spec) {
            return known.clone();
        }
        if self.known.len() >= SPECS_MAX {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            // So many that jobs have are not worth looking through again for every new one.
            if self.known.len() >= SPECS_MAX / 2 {
                self.known.clear();
            }
            self.addresses = self.known.iter().map(address_of).collect();
        }
        self.addresses.insert(address_of(&spec));
        self.known.insert(spec.clone());
        spec
    }
}

/// Tells specs apart without comparing them. It is that of no other spec while somebody keeps this one.
pub(crate) fn address_of(spec: &Arc<JobSpec>) -> usize {
    Arc::as_ptr(spec).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(priority: i32) -> Arc<JobSpec> {
        let mut spec = JobSpec::empty();
        spec.priority = priority;
        Arc::new(spec)
    }

    #[test]
    fn equal_specs_become_one_and_no_more_are_kept_than_needed() {
        let mut specs = Specs::default();
        let kept: Vec<Arc<JobSpec>> = (0..100).map(|priority| specs.shared(spec(priority))).collect();
        for (priority, kept) in (0..).zip(&kept) {
            assert!(Arc::ptr_eq(kept, &specs.shared(spec(priority))));
        }
        for priority in 0..3 * SPECS_MAX as i32 {
            assert_eq!(specs.shared(spec(priority)), spec(priority));
            assert!(specs.known.len() <= SPECS_MAX && specs.addresses.len() == specs.known.len());
        }
        assert!((0..).zip(&kept).all(|(priority, kept)| Arc::ptr_eq(kept, &specs.shared(spec(priority)))));
    }
}
