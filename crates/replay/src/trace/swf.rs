//! The Standard Workload Format of the Parallel Workloads Archive.

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
    /// Jobs.
    pub jobs: Vec<SwfJob>,
}
