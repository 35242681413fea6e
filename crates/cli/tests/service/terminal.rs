//! A program in a terminal, as somebody who sits at one.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use crate::stand::Stand;

/// Long enough for a slow machine; only a broken program reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Lines and columns of the window, until it is made larger or smaller.
const SIZE: (u16, u16) = (24, 80);

pub(crate) struct Terminal {
    master: File,
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    /// How much of what was shown was looked at.
    seen: usize,
}

fn size(rows: u16, cols: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Terminal {
    /// Starts the binary in a terminal of 24 lines.
    pub(crate) fn of(stand: &Stand, args: &[&str]) -> Self {
        let mut command = stand.command();
        command.args(args);
        Self::start(command)
    }

    /// Starts a command in a terminal of 24 lines.
    pub(crate) fn start(mut command: Command) -> Self {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        rustix::termios::tcsetwinsize(&master, size(SIZE.0, SIZE.1)).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let side = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let again = || side.try_clone().unwrap();
        command.stdin(again()).stdout(again()).stderr(again()).env("TERM", "xterm");
        let child = command.spawn().unwrap();
        drop((command, side));
        let master = File::from(master);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut reads, fills) = (master.try_clone().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut buffer = [0_u8; 4096];
            while let Ok(read) = reads.read(&mut buffer)
                && read > 0
            {
                fills.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Self { master, child, shown, seen: 0 }
    }

    /// All that was written, in the order in which it came.
    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// What stands on the screen now, line by line: later things are written over earlier ones.
    pub(crate) fn screen(&self) -> Vec<String> {
        let (rows, cols) = (usize::from(SIZE.0), usize::from(SIZE.1));
        let mut lines = vec![vec![' '; cols]; rows];
        let (mut row, mut col) = (0, 0);
        let text = self.shown();
        let mut rest = text.chars();
        while let Some(letter) = rest.next() {
            // A full line goes on in the next one when more is written.
            if col >= cols && !letter.is_control() {
                (row, col) = (row + 1, 0);
            }
            while row >= rows {
                lines.remove(0);
                lines.push(vec![' '; cols]);
                row -= 1;
            }
            match letter {
                '\r' => col = 0,
                '\n' => row += 1,
                '\u{1b}' => {
                    if rest.next() != Some('[') {
                        continue;
                    }
                    let mut order = String::new();
                    let end = rest.by_ref().find(|letter| {
                        order.push(*letter);
                        letter.is_ascii_alphabetic()
                    });
                    order.pop();
                    let numbers: Vec<usize> =
                        order.split(';').map(|number| number.parse().unwrap_or(0)).collect();
                    let second = numbers.get(1).copied().unwrap_or(1);
                    match end {
                        Some('H') => (row, col) = (numbers[0].max(1) - 1, second.max(1) - 1),
                        Some('A') => row -= numbers[0].max(1).min(row),
                        Some('J') => lines.iter_mut().for_each(|line| line.fill(' ')),
                        Some('K') if numbers[0] == 2 => lines[row].fill(' '),
                        Some('K') => lines[row][col.min(cols)..].fill(' '),
                        // Colours and the like.
                        _ => {}
                    }
                }
                letter => {
                    lines[row][col] = letter;
                    col += 1;
                }
            }
        }
        lines.iter().map(|line| line.iter().collect::<String>().trim_end().to_owned()).collect()
    }

    /// Waits until the screen is as it should be, and gives it.
    #[track_caller]
    pub(crate) fn until_screen(&self, what: &str, so: impl Fn(&[String]) -> bool) -> Vec<String> {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if so(&screen) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "it is never so that {what}:\n{}", screen.join("\n"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until something is shown behind what was looked at before.
    #[track_caller]
    pub(crate) fn until_shown(&mut self, words: &str) {
        let began = Instant::now();
        loop {
            let shown = self.shown();
            if let Some(at) = shown[self.seen..].find(words) {
                self.seen += at + words.len();
                return;
            }
            assert!(began.elapsed() < PATIENCE, "no `{words}` behind byte {} of:\n{shown}", self.seen);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Makes the window larger or smaller.
    pub(crate) fn resize(&self, rows: u16, cols: u16) {
        rustix::termios::tcsetwinsize(&self.master, size(rows, cols)).unwrap();
        // Nobody's controlling terminal: the kernel tells no one.
        self.signal(rustix::process::Signal::WINCH);
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until the program has ended; gives its exit code.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it goes on: {}", self.shown());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
