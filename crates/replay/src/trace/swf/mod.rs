//! The Standard Workload Format of the Parallel Workloads Archive.
//!
//! One job a line, eighteen numbers separated by blanks or tabs, −1 for unknown; `;` starts a comment. Logs in the wild
//! have more than eighteen fields, fractions where seconds are meant, and lines in any order; all of that is read.

mod read;
mod write;

pub use read::{BadLines, SwfReader};
pub use write::{write_comment, write_job};

/// Makes everything that goes through all fields from one list of them, in the order of the line.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $kind:ident = $called:literal,)*) => {
        /// What the fields are called in errors and tables, in the order of the line.
        pub const FIELDS: [&str; 18] = [$($called),*];

        /// One line of a log. A value of −1 is unknown.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct SwfJob {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl SwfJob {
            /// A job of which nothing is known.
            pub const UNKNOWN: Self = Self { $($name: -1 as $kind,)* };

            #[inline]
            fn of(mut line: read::Line<'_>) -> Result<Self, read::Bad> {
                Ok(Self { $($name: line.next()?,)* })
            }

            /// Its line without the end.
            fn write(&self, out: &mut impl std::io::Write) -> std::io::Result<()> {
                let mut gap = "";
                $(write!(out, "{}{}", std::mem::replace(&mut gap, " "), self.$name)?;)*
                Ok(())
            }
        }
    };
}

fields! {
    /// Field 1, the job's number.
    number: i64 = "job number",
    /// Field 2, when it was submitted, in seconds.
    submit: i64 = "submit",
    /// Field 3, how long it waited, in seconds.
    wait: i64 = "wait",
    /// Field 4, how long it ran, in seconds.
    run: i64 = "run",
    /// Field 5, processors it had.
    allocated: i64 = "allocated processors",
    /// Field 6, average CPU seconds per processor.
    cpu: f64 = "cpu",
    /// Field 7, memory used per processor, in kB.
    memory: i64 = "memory",
    /// Field 8, processors it asked for.
    requested: i64 = "requested processors",
    /// Field 9, time it asked for, in seconds.
    estimate: i64 = "requested time",
    /// Field 10, memory it asked for per processor, in kB.
    requested_memory: i64 = "requested memory",
    /// Field 11, how it ended.
    status: i64 = "status",
    /// Field 12, its user.
    user: i64 = "user",
    /// Field 13, its group.
    group: i64 = "group",
    /// Field 14, its program.
    executable: i64 = "executable",
    /// Field 15, its queue.
    queue: i64 = "queue",
    /// Field 16, its partition.
    partition: i64 = "partition",
    /// Field 17, the job it followed.
    preceding: i64 = "preceding job",
    /// Field 18, seconds between that job's end and this one's submission.
    think: i64 = "think time",
}

/// A log: its header and its jobs, in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// Comment lines without the leading `;`.
    pub comments: Vec<String>,
    pub jobs: Vec<SwfJob>,
}

impl Log {
    /// A value of the header: what follows `NAME:` in the first comment that begins so, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.comments.iter().find_map(|comment| {
            let (key, value) = comment.split_once(':')?;
            key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The size of the machine as the header tells it: `MaxProcs`, or `MaxNodes` where that is absent or unknown.
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
