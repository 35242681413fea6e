//! The few colours in use. Colour repeats what the words say; nothing depends on it.

use anstyle::{AnsiColor, Style};

/// Plain text.
pub(crate) const PLAIN: Style = Style::new();
/// Headings.
pub(crate) const STRONG: Style = Style::new().bold();
/// What matters less.
pub(crate) const DIM: Style = Style::new().dimmed();
/// What was chosen.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// What was refused or went wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// What deserves a second look.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default().bold();
