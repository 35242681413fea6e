//! Devices by pairwise link bandwidth: the set whose slowest pair is fastest.

use landfall_model::Links;

use super::link_aware::for_each_set;

/// Above this many devices not every set is tried.
const EXACT_MAX: usize = 16;

/// The set of `count` free devices with the greatest smallest pair bandwidth.
///
/// Ties go to the set that leaves the greatest link sum among the devices left over, then to the lowest indices.
#[must_use]
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
#[must_use]
pub fn slowest(set: &[u16], links: &Links) -> Option<u32> {
    pairs(set).map(|(a, b)| links.between(a, b)).min()
}

/// How close `count` devices can be: their slowest pair over the fastest pair of the node.
#[must_use]
pub fn ratio(devices: &[u16], count: usize, links: &Links) -> Option<f64> {
    let fastest = pairs(devices).map(|(a, b)| links.between(a, b)).max()?;
    let slowest = slowest(&choose(devices, count, links), links)?;
    (fastest > 0).then(|| f64::from(slowest) / f64::from(fastest))
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
}
