//! Whether something can be stored, as far as it is known without much ado.

use std::time::{Duration, Instant};

use landfall_store::StoreError;

use super::core::View;

/// What is known is believed for so long; then it is tried.
const BELIEVED_FOR: Duration = Duration::from_secs(2);

/// How the last attempt to store something went.
#[derive(Debug, Default)]
pub(super) struct Health {
    tried_at: Option<Instant>,
    trouble: Option<Trouble>,
}

/// Why nothing can be stored, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub message: String,
    pub hint: String,
}

impl Health {
    pub(super) fn heard(&mut self, tried: Result<(), &StoreError>) {
        self.tried_at = Some(Instant::now());
        self.trouble = tried.err().map(|error| Trouble { message: error.to_string(), hint: error.hint() });
    }
}

impl View<'_> {
    /// Why nothing can be stored, if it cannot. What was stored a moment ago proves that it can; otherwise it is tried.
    pub fn trouble(&mut self) -> Option<Trouble> {
        if self.health.tried_at.is_none_or(|at| at.elapsed() >= BELIEVED_FOR) {
            let tried = self.store.probe(self.engine.state().epoch);
            // While what is stored cannot be read back, room alone does not help.
            if tried.is_err() || !self.ahead {
                self.health.heard(tried.as_ref().copied());
            }
        }
        self.health.trouble.clone()
    }
}
