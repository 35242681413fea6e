//! Devices by pairwise link bandwidth: the set whose slowest pair is fastest.

use landfall_model::Links;

use super::link_aware::for_each_set;

/// Above this many devices not every set is tried.
const EXACT_MAX: usize = 16;

/// The set of `count` free devices with the greatest smallest pair bandwidth.
///
/// Ties go to the set that leaves the greatest link sum among the devices left over, then to the lowest indices.
pub fn choose(free: &[u16], count: usize, links: &Links) -> Vec<u16> {
    if free.len() > EXACT_MAX || count == 0 || count > free.len() {
        return free.iter().take(count).copied().collect();
    }
    let mut best: Option<((u32, u64), Vec<u16>)> = None;
    for_each_set(free, count, &mut |set| {
        let left: Vec<u16> = free.iter().copied().filter(|device| !set.contains(device)).collect();
        let left_sum = pairs(&left).map(|(a, b)| u64::from(links.between(a, b))).sum();
        let key = (slowest(set, links).unwrap_or(u32::MAX), left_sum);
        if best.as_ref().is_none_or(|(known, _)| key > *known) {
            best = Some((key, set.to_vec()));
        }
    });
    best.map(|(_, set)| set).unwrap_or_default()
}

/// Bandwidth of the slowest pair of a set; `None` for fewer than two devices.
pub fn slowest(set: &[u16], links: &Links) -> Option<u32> {
    pairs(set).map(|(a, b)| links.between(a, b)).min()
}

/// How close `count` devices can be: their slowest pair over the fastest pair of the node.
pub fn ratio(devices: &[u16], count: usize, links: &Links) -> Option<f64> {
    ratio_of_free(devices, devices, count, links)
}

/// The same where only some of a node's devices can be had.
pub fn ratio_of_free(free: &[u16], all: &[u16], count: usize, links: &Links) -> Option<f64> {
    let fastest = pairs(all).map(|(a, b)| links.between(a, b)).max()?;
    let slowest = best_slowest(free, count, links)?;
    (fastest > 0).then(|| f64::from(slowest) / f64::from(fastest))
}

/// The slowest pair of what [`choose`] chooses. Whole pools are asked for this, so it does not try every set: it asks
/// for which bandwidth there are `count` devices all of whose pairs have it.
fn best_slowest(free: &[u16], count: usize, links: &Links) -> Option<u32> {
    if free.len() > EXACT_MAX || count < 2 || count > free.len() {
        return slowest(&choose(free, count, links), links);
    }
    let mut steps: Vec<u32> = pairs(free).map(|(a, b)| links.between(a, b)).collect();
    steps.sort_unstable_by_key(|&gb_s| std::cmp::Reverse(gb_s));
    steps.dedup();
    steps.into_iter().find(|&step| {
        let mut fast = [0u32; EXACT_MAX];
        for (at, &a) in free.iter().enumerate() {
            let others = free.iter().enumerate().filter(|&(_, &b)| a != b && links.between(a, b) >= step);
            fast[at] = others.fold(0, |set, (other, _)| set | 1 << other);
        }
        has_all_fast(&fast, (1 << free.len()) - 1, count)
    })
}

/// Whether some `count` of the candidates, a set of bits, are all linked with each other by `fast`.
fn has_all_fast(fast: &[u32; EXACT_MAX], mut candidates: u32, count: usize) -> bool {
    while candidates.count_ones() as usize >= count {
        if count == 0 {
            return true;
        }
        let device = candidates.trailing_zeros();
        candidates &= !(1 << device);
        if has_all_fast(fast, candidates & fast[device as usize], count - 1) {
            return true;
        }
    }
    false
}

fn pairs(set: &[u16]) -> impl Iterator<Item = (u16, u16)> + '_ {
    set.iter().enumerate().flat_map(|(at, &a)| set[at + 1..].iter().map(move |&b| (a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b39_links_inside_pairs() {
        let inside = [(0, 1, 900), (2, 3, 900)];
        let across = [(0, 2, 64), (0, 3, 64), (1, 2, 64), (1, 3, 64)];
        let links = Links::new(inside.into_iter().chain(across));
        assert_eq!(choose(&[0, 1, 2, 3], 2, &links), [0, 1]);
        assert_eq!(ratio(&[0, 1, 2, 3], 2, &links), Some(1.0));
        assert_eq!(choose(&[1, 2, 3], 2, &links), [2, 3]);
        assert_eq!(choose(&[0, 1, 2, 3], 3, &links), [0, 1, 2]);
        assert!((ratio(&[0, 1, 2, 3], 3, &links).unwrap() - 0.071_111).abs() < 1e-6);
        assert_eq!(choose(&[1, 2, 3], 1, &links), [1]);
    }

    #[test]
    fn the_short_way_reaches_what_trying_every_set_reaches() {
        let mut seed = 7u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let devices: Vec<u16> = (0..2 + next(7) as u16).collect();
            let rows: Vec<_> =
                pairs(&devices).map(|(a, b)| (a, b, [32, 64, 450, 900][next(4) as usize])).collect();
            let links = Links::new(rows);
            for count in 0..=devices.len() + 1 {
                let want = slowest(&choose(&devices, count, &links), &links);
                assert_eq!(best_slowest(&devices, count, &links), want, "{devices:?} {count}");
            }
        }
    }

    #[test]
    fn what_is_taken_still_sets_the_scale() {
        let links = Links::new([(0, 1, 900), (2, 3, 450)]);
        assert_eq!(ratio_of_free(&[2, 3], &[0, 1, 2, 3], 2, &links), Some(0.5));
    }
}
