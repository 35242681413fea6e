//! The log that SQLite leaves when a server is killed, looked at before SQLite does.
//!
//! SQLite takes the frames of `journal.db-wal` in order up to the first whose checksum is wrong, and forgets the rest as never
//! written. Of a frame that was torn when the power went that is right; of one that changed later it would silently
//! undo every commit behind it. The two can be told apart: each frame's checksum goes on from that of the one before, and a
//! commit is synced before the next transaction writes. So where the chain goes on behind a bad frame and leads past the
//! end of another transaction, the bad one was whole once. Only damage in the last commit looks like a torn write.
//!
//! The format is that of <https://www.sqlite.org/fileformat2.html#walformat>.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use super::directory::with_end;
use super::verify::Damage;
use crate::error::StoreError;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The magic number, whose last bit says in which order words are added up.
const MAGIC: u32 = 0x377f_0682;
/// The size of our pages, which SQLite chose: for a header that does not say it any more.
const PAGE: u32 = 4096;

type Sum = [u32; 2];

/// What is damaged in the log beside a database that nobody writes, if anything is.
pub(super) fn damage(database: &Path) -> Result<Option<Damage>, StoreError> {
    let path = with_end(database, "-wal");
    let failed = |error| StoreError::io(format!("cannot read {}", path.display()), error);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    Ok(first_bad(BufReader::with_capacity(1 << 20, file)).map_err(failed)?.map(|bad| Damage {
        what: format!("the log {}", path.display()),
        why: format!(
            "{} at byte {} is not what was written, and {} behind it would be forgotten",
            if bad.offset == 0 { "its header" } else { "the frame" },
            bad.offset,
            match bad.commits {
                1 => "at least a commit".to_owned(),
                commits => format!("at least {commits} commits"),
            }
        ),
    }))
}

/// The same as an error, for readers: a server may write meanwhile, and what it has half written is whole at the next look.
pub(super) fn sound(database: &Path) -> Result<(), StoreError> {
    match (damage(database)?, damage(database)?) {
        (Some(before), Some(found)) if before.why == found.why => {
            Err(StoreError::damaged(found.what, found.why))
        }
        _ => Ok(()),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Bad {
    /// Where the header or the frame begins.
    offset: u64,
    /// Later transactions that are whole.
    commits: u64,
}

fn first_bad(mut log: impl Read) -> io::Result<Option<Bad>> {
    let mut header = [0; HEADER];
    if !fill(&mut log, &mut header)? {
        return Ok(None);
    }
    let big = |order: u32| order & 1 == 1;
    let (magic, page) = (word(&header, 0), word(&header, 8));
    let (stored, summed) = (pair(&header, 24), sum(big(magic), [0, 0], &header[..24]));
    let makes_sense = magic & !1 == MAGIC && page.is_power_of_two() && (512..=65536).contains(&page);
    let is_whole = makes_sense && summed == stored;
    let (is_big, page) = if is_whole { (big(magic), page) } else { (cfg!(target_endian = "big"), PAGE) };

    let mut frame = vec![0; FRAME_HEADER + page as usize];
    let (mut offset, mut salts) = (HEADER as u64, pair(&header, 16));
    // The checksums that the next frame may go on from: a wrong one may be wrong itself.
    let mut seeds = [stored, summed];
    let mut bad = None;
    // Whether the chain has passed the end of the transaction that the last bad frame is in.
    let mut is_past = false;
    let mut commits = 0;
    while fill(&mut log, &mut frame)? {
        let there = pair(&frame, 8);
        if offset == HEADER as u64 && !is_whole {
            // Behind a header that was torn when the log began anew lie frames of the log before, which are in the database
            // already. A damaged one is known by its salts: they are those of its frames, or were when it was summed up.
            let mut mended = header;
            mended[16..24].copy_from_slice(&frame[8..16]);
            if salts != there && sum(is_big, [0, 0], &mended[..24]) != stored {
                return Ok(None);
            }
            // It is synced before anything is written behind it.
            (salts, bad, is_past) = (there, Some(0), true);
        }
        let sums = |seed| sum(is_big, sum(is_big, seed, &frame[..8]), &frame[FRAME_HEADER..]);
        let (stored, summed) = (pair(&frame, 16), sums(seeds[0]));
        let has_sum = summed == stored || seeds[1] != seeds[0] && sums(seeds[1]) == stored;
        let is_commit = word(&frame, 4) != 0;
        if has_sum && there == salts {
            seeds = [stored; 2];
            if bad.is_some() && is_commit {
                commits += u64::from(is_past);
                is_past = true;
            }
        } else {
            bad.get_or_insert(offset);
            // The sum is not over the salts.
            is_past = is_commit && (has_sum || there == salts);
            seeds = [stored, summed];
        }
        offset += frame.len() as u64;
    }
    Ok(bad.filter(|_| commits > 0).map(|offset| Bad { offset, commits }))
}

/// Fills a buffer; `false` where the log ends before.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}

fn pair(bytes: &[u8], at: usize) -> Sum {
    [word(bytes, at), word(bytes, at + 4)]
}

/// Goes on with a checksum. The length of the bytes is a multiple of eight.
fn sum(is_big: bool, seed: Sum, bytes: &[u8]) -> Sum {
    let swap = |word: u32| if is_big { word } else { word.swap_bytes() };
    bytes.chunks_exact(8).fold(seed, |[first, second], words| {
        let first = first.wrapping_add(swap(word(words, 0))).wrapping_add(second);
        [first, second.wrapping_add(swap(word(words, 4))).wrapping_add(first)]
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use rusqlite::Connection;

    use super::*;

    /// Commits of three rows each, so that a transaction has several frames.
    const COMMITS: u32 = 6;

    /// A database and its log as a server leaves them that is killed.
    fn killed(change: impl FnOnce(&Connection)) -> (Vec<u8>, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.db");
        let conn = Connection::open(&path).unwrap();
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
        conn.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(())).unwrap();
        conn.execute_batch(
            "CREATE TABLE one (x); CREATE TABLE two (x); CREATE TABLE three (x); CREATE TABLE four (x)",
        )
        .unwrap();
        conn.pragma_update_and_check(None, "wal_checkpoint", "TRUNCATE", |_| Ok(())).unwrap();
        change(&conn);
        (fs::read(&path).unwrap(), fs::read(with_end(&path, "-wal")).unwrap())
    }

    fn commits(conn: &Connection, commits: std::ops::Range<u32>) {
        for number in commits {
            let texts =
                ["one", "two", "three"].map(|table| format!("INSERT INTO {table} VALUES ({number});"));
            conn.execute_batch(&format!("BEGIN; {} COMMIT", texts.concat())).unwrap();
        }
    }

    /// Where frames begin, and which of them end a transaction.
    fn frames(log: &[u8]) -> Vec<(usize, bool)> {
        let length = FRAME_HEADER + word(log, 8) as usize;
        (HEADER..log.len()).step_by(length).map(|at| (at, word(log, at + 4) != 0)).collect()
    }

    /// What SQLite makes of a database and a log.
    fn rows((database, log): (&[u8], &[u8])) -> u32 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.db");
        fs::write(&path, database).unwrap();
        fs::write(with_end(&path, "-wal"), log).unwrap();
        let conn = Connection::open(&path).unwrap();
        conn.query_row("SELECT count(*) FROM two", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_log_of_a_killed_server_is_sound() {
        let (_, log) = killed(|conn| commits(conn, 0..COMMITS));
        assert_eq!(first_bad(&*log).unwrap(), None);
        assert_eq!(first_bad(&b""[..]).unwrap(), None);
        assert_eq!(frames(&log).iter().filter(|(_, commits)| *commits).count() as u32, COMMITS);
    }

    #[test]
    fn a_bit_that_flips_before_the_last_commit_is_damage() {
        let (database, log) = killed(|conn| commits(conn, 0..COMMITS));
        let frames = frames(&log);
        let ends: Vec<usize> = frames.iter().filter(|(_, ends)| *ends).map(|(at, _)| *at).collect();
        let length = frames[1].0 - frames[0].0;
        let last = ends[ends.len() - 2] + length;
        let mut lost = BTreeSet::new();
        // All of the headers and some of each page.
        for at in (0..log.len()).filter(|at| {
            *at < HEADER
                || (at - HEADER) % length < FRAME_HEADER
                || ((at - HEADER) % length).is_multiple_of(997)
        }) {
            let mut flipped = log.clone();
            flipped[at] ^= 1 << (at % 8);
            let found = first_bad(&*flipped).unwrap();
            let left = rows((&database, &flipped));
            if at >= last {
                // It looks like a torn write, but for a frame that says now that it is the last of its transaction.
                let says_so = (4..8).contains(&((at - HEADER) % length));
                assert!(found.is_none() || says_so, "byte {at}: {found:?}");
                continue;
            }
            let begin = if at < HEADER { 0 } else { at - (at - HEADER) % length };
            let bad = found.unwrap_or_else(|| panic!("byte {at}: {left} rows of {COMMITS} are left"));
            assert_eq!(bad.offset, begin as u64, "byte {at}");
            assert!(left < COMMITS, "byte {at}");
            // Of the transaction that it is in nothing is told, but for the header, which is in none.
            assert!(bad.commits <= u64::from(COMMITS - left), "byte {at}: {bad:?}, {left} rows");
            assert!(bad.commits + 1 >= u64::from(COMMITS - left), "byte {at}: {bad:?}, {left} rows");
            lost.insert(left);
        }
        assert_eq!(lost, (0..COMMITS - 1).collect());
    }

    #[test]
    fn a_torn_end_is_harmless() {
        let (_, log) = killed(|conn| commits(conn, 0..COMMITS));
        let all = frames(&log);
        for cut in (0..log.len()).step_by(501) {
            assert_eq!(first_bad(&log[..cut]).unwrap(), None, "cut at {cut}");
        }
        // Of the last transaction any part may be missing, although what is behind it is there.
        let ends: Vec<usize> = all.iter().filter(|(_, ends)| *ends).map(|(at, _)| *at).collect();
        let length = all[1].0 - all[0].0;
        for (at, _) in all.iter().filter(|(at, _)| *at > ends[ends.len() - 2]) {
            for half in [*at..at + 512, at + 512..at + length] {
                let mut torn = log.clone();
                torn[half].fill(0);
                assert_eq!(first_bad(&*torn).unwrap(), None, "frame at {at}");
            }
        }
    }

    #[test]
    fn what_an_earlier_log_left_behind_is_harmless() {
        let (_, log) = killed(|conn| {
            commits(conn, 0..COMMITS);
            // All of it is in the database, so the next commit begins the log anew.
            conn.pragma_update_and_check(None, "wal_checkpoint", "RESTART", |_| Ok(())).unwrap();
            commits(conn, 0..2);
        });
        let all = frames(&log);
        assert!(pair(&log, all[0].0 + 8) != pair(&log, all[all.len() - 1].0 + 8), "old frames are behind it");
        assert_eq!(first_bad(&*log).unwrap(), None);
        // The power went when the new header was on disk and nothing else, or not even that.
        let (_, old) = killed(|conn| commits(conn, 0..COMMITS));
        assert_eq!(first_bad(&*[&log[..HEADER], &old[HEADER..]].concat()).unwrap(), None);
        assert_eq!(
            first_bad(&*[&log[..HEADER / 2], &[0; HEADER / 2], &old[HEADER..]].concat()).unwrap(),
            None
        );
    }
}
