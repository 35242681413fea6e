//! The few colours in use. Colour repeats what the words say; nothing depends on it.

use anstyle::{AnsiColor, Style};

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const STRONG: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// What was refused or went wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// What deserves a second look.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default().bold();
