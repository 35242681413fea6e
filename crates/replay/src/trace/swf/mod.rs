//! The Standard Workload Format of the Parallel Workloads Archive.
//!
//! One job a line, eighteen numbers separated by blanks or tabs, −1 for unknown; `;` starts a comment. Logs in the wild
//! have more than eighteen fields, fractions where seconds are meant, and lines in any order; all of that is read.

mod read;
mod write;

pub use read::{BadLines, SwfReader};
pub use write::{write_comment, write_job};

/// What the fields are called in errors and tables, in the order of the line.
pub const FIELDS: [&str; 18] = [
    "job number",
    "submit",
    "wait",
    "run",
    "allocated processors",
    "cpu",
    "memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
];

/// One line of a log. A value of −1 is unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwfJob {
    /// Field 1, the job's number.
    pub number: i64,
    /// Field 2, when it was submitted, in seconds.
    pub submit: i64,
    /// Field 3, how long it waited, in seconds.
    pub wait: i64,
    /// Field 4, how long it ran, in seconds.
    pub run: i64,
    /// Field 5, processors it had.
    pub allocated: i64,
    /// Field 6, average CPU seconds per processor.
    pub cpu: f64,
    /// Field 7, memory used per processor, in kB.
    pub memory: i64,
    /// Field 8, processors it asked for.
    pub requested: i64,
    /// Field 9, time it asked for, in seconds.
    pub estimate: i64,
    /// Field 10, memory it asked for per processor, in kB.
    pub requested_memory: i64,
    /// Field 11, how it ended.
    pub status: i64,
    /// Field 12, its user.
    pub user: i64,
    /// Field 13, its group.
    pub group: i64,
    /// Field 14, its program.
    pub executable: i64,
    /// Field 15, its queue.
    pub queue: i64,
    /// Field 16, its partition.
    pub partition: i64,
    /// Field 17, the job it followed.
    pub preceding: i64,
    /// Field 18, seconds between that job's end and this one's submission.
    pub think: i64,
}

/// A log: its header and its jobs, in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// Comment lines without the leading `;`.
    pub comments: Vec<String>,
    pub jobs: Vec<SwfJob>,
}

impl SwfJob {
    /// A job of which nothing is known.
    pub const UNKNOWN: Self = Self {
        number: -1,
        submit: -1,
        wait: -1,
        run: -1,
        allocated: -1,
        cpu: -1.0,
        memory: -1,
        requested: -1,
        estimate: -1,
        requested_memory: -1,
        status: -1,
        user: -1,
        group: -1,
        executable: -1,
        queue: -1,
        partition: -1,
        preceding: -1,
        think: -1,
    };
}

impl Log {
    /// A value of the header: what follows `NAME:` in the first comment that begins so, in any case of letters.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.comments.iter().find_map(|comment| {
            let (key, value) = comment.split_once(':')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The size of the machine as the header tells it: `MaxProcs`, or `MaxNodes` where that is absent or unknown.
    #[must_use]
    pub fn processors(&self) -> Option<u64> {
        // Headers carry remarks behind the number: "128 (144 before May)".
        let number = |name| {
            let value: &str = self.header(name)?;
            let digits = value.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse::<u64>().ok().filter(|&count| count > 0)
        };
        number("MaxProcs").or_else(|| number("MaxNodes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_the_size_of_the_machine() {
        let log =
            |lines: &[&str]| Log { comments: lines.iter().map(|&l| l.to_owned()).collect(), jobs: vec![] };
        assert_eq!(log(&[" MaxNodes: 4", " MaxProcs:  128 (of 144)"]).processors(), Some(128));
        assert_eq!(log(&[" maxnodes: 256"]).processors(), Some(256));
        assert_eq!(log(&[" MaxNodes: 256", " MaxProcs: -1"]).processors(), Some(256));
        assert_eq!(log(&[" Note: MaxProcs: 9"]).processors(), None);
        assert_eq!(log(&[" Version: 2.2"]).header("version"), Some("2.2"));
    }
}
