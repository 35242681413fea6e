//! What the exit codes mean. They are public: scripts depend on them.

use std::process::ExitCode;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; where something was to be chosen, it was.
    Done,
    /// Done, and the answer is "nothing now".
    Nothing,
    /// The command line makes no sense.
    Usage,
    /// An input cannot be read or is invalid.
    BadInput,
    /// A bound given with `--fail-if` was broken.
    BoundBroken,
    /// A name stands for nothing.
    NoSuch,
    /// The answer cannot be written.
    Output,
    /// Done, and the answer is that the change would be refused; or the server refused a request.
    Refused,
    /// The server cannot be reached or started.
    Unreachable,
    /// The token is missing, unknown or not enough.
    Forbidden,
    /// Another server has taken the journal over.
    Fenced,
    /// A job that was waited for did not end well: its own exit code.
    Job(u8),
}

impl Exit {
    /// Each code with its meaning for people; help and documentation show this list.
    pub(crate) const ALL: [(Self, &'static str); 11] = [
        (
            Self::Done,
            "done; a candidate was chosen, the job would start now, the file is valid, the GPU is known",
        ),
        (Self::Nothing, "done; nothing can be chosen now, the job would wait, or the GPU is unknown"),
        (Self::Usage, "the command line is wrong"),
        (Self::BadInput, "an input file cannot be read or is invalid; what is stored is damaged"),
        (Self::BoundBroken, "done; a bound given with --fail-if was broken"),
        (Self::Output, "the answer or a file cannot be written (a closed pipe is no error)"),
        (Self::Refused, "done; the planned change would be refused, or the server refused the request"),
        (Self::Unreachable, "the server cannot be reached or started"),
        (Self::Forbidden, "the token is missing, unknown or not enough for this"),
        (Self::Fenced, "the server ended because another one has taken its journal over"),
        (Self::NoSuch, "there is no such job, node, pool, tenant, workload, policy or term"),
    ];

    /// What a job ends with that a pool of peers did not place. The numbers are those of the protocol's specification; a job's own end is told by
    /// the same means, so they stand apart from the program's own codes.
    pub(crate) const OF_NEGOTIATION: [(u8, &'static str); 3] = [
        (4, "nobody made an offer that could be taken"),
        (5, "every offer was too dear"),
        (6, "it came to nothing otherwise: an award or a lease was lost, or the time was up"),
    ];

    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Nothing => 1,
            Self::Usage => 2,
            Self::BadInput => 3,
            Self::BoundBroken => 4,
            Self::Output => 5,
            Self::Refused => 6,
            Self::Unreachable => 7,
            Self::Forbidden => 8,
            Self::Fenced => 9,
            Self::NoSuch => 10,
            Self::Job(code) => code,
        }
    }

    /// Why a job was not placed that peers were asked about, if that is what happened.
    pub(crate) fn of_negotiation(reason: &str) -> Option<Self> {
        match reason {
            "no_offers" | "no_trusted_offer" => Some(Self::Job(4)),
            "no_affordable_offer" => Some(Self::Job(5)),
            "award_failed" | "lease_lost" | "deadline" | "body_unavailable" => Some(Self::Job(6)),
            _ => None,
        }
    }

    /// How a job ended that was waited for.
    pub(crate) fn of_job(code: Option<i32>) -> Self {
        match code {
            Some(0) => Self::Done,
            // A job that died otherwise, or whose code the shell has no room for, has failed.
            code => Self::Job(
                code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(1),
            ),
        }
    }

    pub(crate) fn help() -> String {
        let line = |code: u8, meaning: &str| format!("  {code:>2}  {meaning}");
        let lines = Self::ALL.map(|(exit, meaning)| line(exit.code(), meaning));
        let placed = Self::OF_NEGOTIATION.map(|(code, meaning)| line(code, meaning));
        format!(
            "Exit codes:\n{}\n`submit --wait` ends with the exit code of a job that did not end well.\n\nOf a job in a pool that negotiates, that no \
             peer took, `submit --wait` and `submit --dry-run` tell:\n{}",
            lines.join("\n"),
            placed.join("\n")
        )
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
