//! How far a long replay is: nothing in the first second, then a bar with rate and time left, on a terminal only.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Replays that take less are not worth a bar.
const QUIET: Duration = Duration::from_secs(1);
/// How often a file says how far it is.
const TOLD_EVERY_MS: u64 = 250;

/// Progress of one or several replays together.
pub(crate) struct Bar {
    bar: ProgressBar,
    total: usize,
    done: AtomicUsize,
    began: Instant,
    /// Who asks for it finds it here, and when it was last written, in milliseconds from the beginning.
    told_in: Option<(PathBuf, AtomicU64)>,
}

impl Bar {
    /// So much to do.
    pub(crate) fn new(total: usize, told_in: Option<&Path>) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::hidden());
        let style = "{bar:30} {human_pos} of {human_len}  {per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        let told_in = told_in.map(|path| (path.to_owned(), AtomicU64::new(0)));
        Self { bar, total, done: AtomicUsize::new(0), began: Instant::now(), told_in }
    }

    pub(crate) fn add(&self, more: usize) {
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        self.tell(done);
        if self.began.elapsed() < QUIET {
            return;
        }
        if self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(4));
        }
        self.bar.set_position(done.min(self.total) as u64);
    }

    /// Says in a file how far it is, a few times a second.
    fn tell(&self, done: usize) {
        let Some((path, told)) = &self.told_in else { return };
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let before = told.load(Ordering::Relaxed);
        if now < before + TOLD_EVERY_MS
            || told.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        let part = done.min(self.total) as f64 / self.total.max(1) as f64;
        // Whoever looks does without it if it cannot be written.
        let _ = std::fs::write(path, format!("{part:.3}"));
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Turns "so far" of one replay into "more" of all.
pub(crate) fn step(bar: &Bar) -> impl FnMut(usize) -> bool + '_ {
    let mut told = 0;
    move |so_far| {
        bar.add(so_far.saturating_sub(told));
        told = told.max(so_far);
        true
    }
}
