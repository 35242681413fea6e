//! What `/proc` tells about one process.

use std::path::Path;

/// When a process began, in clock ticks since the machine did. Together with its id this names a process for good.
pub(crate) fn start_ticks(proc: &Path, pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything, also spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Bytes that a process and its reaped children read from disk and wrote to disk.
pub(crate) fn disk_bytes(proc: &Path, pid: u32) -> u64 {
    let io = std::fs::read_to_string(proc.join(pid.to_string()).join("io")).unwrap_or_default();
    let field = |name: &str| -> u64 {
        io.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
            .unwrap_or_default()
    };
    field("read_bytes").saturating_add(field("write_bytes"))
}

/// Which start of the machine this is; process ids of another one mean nothing.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_do_not_confuse() {
        let dir = tempfile::tempdir().expect("dir");
        std::fs::create_dir(dir.path().join("7")).expect("made");
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9";
        std::fs::write(dir.path().join("7/stat"), stat).expect("written");
        assert_eq!(start_ticks(dir.path(), 7), Some(4242));
        std::fs::write(dir.path().join("7/io"), "rchar: 9\nread_bytes: 4096\nwrite_bytes: 100\n")
            .expect("written");
        assert_eq!(disk_bytes(dir.path(), 7), 4196);
        assert_eq!(start_ticks(dir.path(), 8), None);
        assert_eq!(disk_bytes(dir.path(), 8), 0);
    }

    #[test]
    fn this_process_has_a_start() {
        assert!(start_ticks(Path::new("/proc"), std::process::id()).is_some_and(|ticks| ticks > 0));
    }
}
