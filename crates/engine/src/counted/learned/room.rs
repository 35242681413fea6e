//! What those without a promise may take.

/// Units that are free beside all promises: now, and at the beginning of each holder. Between these instants there are
/// never fewer.
#[derive(Debug, Clone, Default)]
pub(super) struct Room {
    pub(super) now: u32,
    /// When a holder begins, and what is free then beside it, by time.
    pub(super) later: Vec<(i64, i64)>,
}

impl Room {
    /// Whether so many units are free from now on until an instant.
    pub(super) fn admits(&self, units: u32, until: i64) -> bool {
        units <= self.now && self.before(until).iter().all(|(_, free)| i64::from(units) <= *free)
    }

    /// Takes units from now on until an instant.
    pub(super) fn take(&mut self, units: u32, until: i64) {
        self.now = self.now.saturating_sub(units);
        let begun = self.before(until).len();
        for (_, free) in &mut self.later[..begun] {
            *free -= i64::from(units);
        }
    }

    /// Gives a holder's units back from its time on until another, and the place where it begins.
    pub(super) fn forgo(&mut self, units: u32, from: i64, until: i64) {
        if let Some(place) = self.later.iter().position(|(at, _)| *at == from) {
            self.later.remove(place);
        }
        for (_, free) in self.later.iter_mut().filter(|(at, _)| (from..until).contains(at)) {
            *free += i64::from(units);
        }
    }

    fn before(&self, until: i64) -> &[(i64, i64)] {
        let begun = self.later.iter().take_while(|(at, _)| *at < until).count();
        &self.later[..begun]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_before_a_holder_begins_does_not_ask_it() {
        let mut room = Room { now: 4, later: vec![(100, 2), (200, 3)] };
        assert!(room.admits(4, 100));
        assert!(!room.admits(5, 100));
        assert!(!room.admits(3, 101));
        room.take(1, 150);
        assert_eq!((room.now, &*room.later), (3, &[(100, 1), (200, 3)][..]));
        assert!(!room.admits(2, 300));
        assert!(room.admits(1, 300));
    }

    #[test]
    fn a_holder_that_starts_now_leaves_its_place_to_others() {
        let mut room = Room { now: 4, later: vec![(100, 0), (150, 1), (200, 3)] };
        room.forgo(2, 100, 200);
        assert_eq!((room.now, &*room.later), (4, &[(150, 3), (200, 3)][..]));
    }
}
