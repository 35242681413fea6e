//! How scores are compared and drawn.

use sha2::{Digest as _, Sha256};

/// The integer that stands for a score whenever two are compared, so that the order of a summation never decides.
pub fn q(score: f64) -> i64 {
    (score * 1e9).round() as i64
}

/// Clamps to 0..100, the range of fit scores.
pub(crate) fn clamp100(x: f64) -> f64 {
    x.clamp(0.0, 100.0)
}

/// Clamps to 0..1.
pub(crate) fn clamp01(x: f64) -> f64 {
    x.clamp(0.0, 1.0)
}

/// The first eight bytes of a SHA-256, big-endian: a draw that is the same on every machine.
pub(crate) fn hash64(parts: &[&[u8]]) -> u64 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    let digest = hasher.finalize();
    digest.iter().take(8).fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// A hash as a number in [0, 1), using its top 53 bits.
pub(crate) fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A draw from `0..count`.
pub(crate) fn draw(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_closer_than_half_a_billionth_are_equal() {
        assert_eq!(q(0.8), q(0.8 + 4e-10));
        assert!(q(0.8 + 6e-10) > q(0.8));
        assert_eq!((q(-0.5e-9), q(0.5e-9)), (-1, 1), "half away from zero");
    }

    #[test]
    fn draws_cover_their_range() {
        assert_eq!((draw(0, 3), draw(u64::MAX, 3)), (0, 2));
        assert_eq!(unit(0), 0.0);
        assert!(unit(u64::MAX) < 1.0);
    }
}
