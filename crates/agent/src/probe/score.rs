//! How fast one core is: a loop of fixed length, timed once and remembered.

use std::path::Path;
use std::time::Instant;

/// Length of the loop.
const ITERATIONS: u64 = 5_000_000;
const SCORE_MAX: f64 = 100_000.0;

/// The score of a loop that took so long: iterations per millisecond, in hundreds.
pub fn score(iterations: u64, milliseconds: f64) -> u32 {
    let per_ms = iterations as f64 / milliseconds.max(1e-6);
    (per_ms / 100.0).round().clamp(1.0, SCORE_MAX) as u32
}

/// The score of this machine: remembered in a file if it was measured before. Takes some milliseconds of one core.
pub fn measure(remembered: &Path) -> u32 {
    let known = std::fs::read_to_string(remembered).ok().and_then(|text| text.trim().parse().ok());
    if let Some(known) = known.filter(|known| (1..=SCORE_MAX as u32).contains(known)) {
        return known;
    }
    let began = Instant::now();
    std::hint::black_box(turn(std::hint::black_box(ITERATIONS)));
    let score = score(ITERATIONS, began.elapsed().as_secs_f64() * 1000.0);
    if let Err(error) = std::fs::write(remembered, score.to_string()) {
        tracing::debug!(%error, "cannot remember the core score");
    }
    score
}

/// Integer work in which every step needs the one before, so that no compiler can leave any out.
fn turn(iterations: u64) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..iterations {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_follow_the_formula() {
        assert_eq!(score(5_000_000, 10.0), 5000);
        assert_eq!(score(5_000_000, 1e12), 1);
        assert_eq!(score(5_000_000, 0.0), 100_000);
    }

    #[test]
    fn a_score_is_remembered() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("score");
        std::fs::write(&path, "77").expect("written");
        assert_eq!(measure(&path), 77);
        std::fs::write(&path, "nonsense").expect("written");
        let measured = measure(&path);
        assert_eq!(measure(&path), measured);
    }
}
