//! How far a long replay is: nothing in the first second, then a bar with rate and time left, on a terminal only.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Replays that take less are not worth a bar.
const QUIET: Duration = Duration::from_secs(1);

/// Progress of one or several replays together.
pub(crate) struct Bar {
    bar: ProgressBar,
    total: usize,
    done: AtomicUsize,
    began: Instant,
}

impl Bar {
    /// So much to do.
    pub(crate) fn new(total: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::hidden());
        let style = "{bar:30} {human_pos} of {human_len}  {per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self { bar, total, done: AtomicUsize::new(0), began: Instant::now() }
    }

    pub(crate) fn add(&self, more: usize) {
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        if self.began.elapsed() < QUIET {
            return;
        }
        if self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(4));
        }
        self.bar.set_position(done.min(self.total) as u64);
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
