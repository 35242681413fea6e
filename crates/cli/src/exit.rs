//! What the exit codes mean. They are public: scripts depend on them.

use std::process::ExitCode;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; where something was to be chosen, it was.
    Done = 0,
    /// Done, and the answer is "nothing now".
    Nothing = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// An input cannot be read or is invalid.
    BadInput = 3,
    /// A name stands for nothing.
    NoSuch = 4,
    /// The answer cannot be written.
    Output = 5,
    /// Done, and the answer is that the change would be refused.
    Refused = 6,
}

impl Exit {
    /// A bound given with `--fail-if` was broken: the number that the specification asks for, which names share.
    pub(crate) const BOUND_BROKEN: Self = Self::NoSuch;

    /// Each code with its meaning for people; help and documentation show this list.
    pub(crate) const ALL: [(Self, &'static str); 7] = [
        (
            Self::Done,
            "done; a candidate was chosen, the job would start now, the file is valid, the GPU is known",
        ),
        (Self::Nothing, "done; nothing can be chosen now, the job would wait, or the GPU is unknown"),
        (Self::Usage, "the command line is wrong"),
        (Self::BadInput, "an input file cannot be read or is invalid"),
        (
            Self::NoSuch,
            "there is no such job, node, pool, tenant, policy or term; a bound of a replay was broken",
        ),
        (Self::Output, "the answer cannot be written (a closed pipe is no error)"),
        (Self::Refused, "done; the planned change would be refused"),
    ];

    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// The list as text.
    pub(crate) fn help() -> String {
        let lines = Self::ALL.map(|(exit, meaning)| format!("  {}  {meaning}", exit.code()));
        format!("Exit codes:\n{}", lines.join("\n"))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_every_code() {
        let reference = include_str!("../../../docs/reference/cli.md");
        for (exit, meaning) in Exit::ALL {
            assert!(reference.contains(&format!("| {} | {meaning} |", exit.code())), "{meaning}");
        }
    }
}
