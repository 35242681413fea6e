//! Where a slice of a partitioned device (MIG) goes: the start that costs the fewest possible starts of other slices.

/// Slice profiles: compute slices, memory slices, possible starts.
const PROFILES: [(u8, u8, &[u8]); 5] =
    [(7, 8, &[0]), (4, 4, &[0]), (3, 4, &[0, 4]), (2, 2, &[0, 2, 4]), (1, 1, &[0, 1, 2, 3, 4, 5, 6])];
/// Compute slices of a device.
pub const COMPUTE_SLICES: u8 = 7;
/// Memory slices of a device.
pub const MEMORY_SLICES: u8 = 8;

/// Memory slices of a profile given by its compute slices.
pub fn memory_slices(compute: u8) -> Option<u8> {
    PROFILES.iter().find(|profile| profile.0 == compute).map(|profile| profile.1)
}

/// Whether slices can be on one device together, in this order.
pub fn fit_together(taken: &[(u8, u8)]) -> bool {
    let mut slices = taken.iter().enumerate();
    slices.all(|(place, &(compute, at))| possible(&taken[..place], compute).any(|start| start == at))
}

/// The best `(device, start)` for a profile; `taken` holds `(compute slices, first memory slice)` per device.
pub fn choose(taken: &[&[(u8, u8)]], compute: u8) -> Option<(usize, u8)> {
    let mut best: Option<([usize; 5], usize, u8)> = None;
    for (device, taken) in taken.iter().enumerate() {
        let before = starts(taken);
        for start in possible(taken, compute) {
            let mut after = taken.to_vec();
            after.push((compute, start));
            let after = starts(&after);
            let loss: [usize; 5] = std::array::from_fn(|profile| before[profile] - after[profile]);
            if best.is_none_or(|known| (loss, device, start) < known) {
                best = Some((loss, device, start));
            }
        }
    }
    best.map(|(_, device, start)| (device, start))
}

/// How many starts each profile still has, in the order 7g, 4g, 3g, 2g, 1g.
fn starts(taken: &[(u8, u8)]) -> [usize; 5] {
    std::array::from_fn(|profile| possible(taken, PROFILES[profile].0).count())
}

fn possible(taken: &[(u8, u8)], compute: u8) -> impl Iterator<Item = u8> + '_ {
    let used: u8 = taken.iter().map(|slice| slice.0).sum();
    let profile = PROFILES.iter().find(|profile| profile.0 == compute);
    let (memory, starts) = profile.map_or((0, &[][..]), |profile| (profile.1, profile.2));
    starts.iter().copied().filter(move |&start| {
        used + compute <= COMPUTE_SLICES
            && taken.iter().all(|&(other, at)| {
                let length = memory_slices(other).unwrap_or(0);
                start + memory <= at || at + length <= start
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b37_on_an_empty_device() {
        let empty: &[&[(u8, u8)]] = &[&[]];
        assert_eq!(choose(empty, 1), Some((0, 6)));
        assert_eq!(choose(empty, 2), Some((0, 4)));
        assert_eq!(choose(empty, 3), Some((0, 4)));
        assert_eq!(choose(empty, 7), Some((0, 0)));
        assert_eq!(choose(empty, 5), None);
    }

    #[test]
    fn slices_lie_where_their_profile_begins_and_beside_each_other() {
        for together in [&[][..], &[(7, 0)], &[(3, 4), (4, 0)], &[(1, 6), (1, 0), (2, 2)]] {
            assert!(fit_together(together), "{together:?}");
        }
        for apart in
            [&[(1, 7)][..], &[(3, 2)], &[(5, 0)], &[(1, 0), (1, 0)], &[(4, 0), (4, 4)], &[(7, 0), (1, 6)]]
        {
            assert!(!fit_together(apart), "{apart:?}");
        }
    }

    #[test]
    fn a_started_device_is_filled_before_an_empty_one() {
        assert_eq!(choose(&[&[], &[(1, 6)]], 1), Some((1, 4)));
        assert_eq!(choose(&[&[(7, 0)]], 1), None);
    }
}
