//! A program in a terminal, as somebody who sits at one.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

/// Long enough for a slow machine; only a broken program reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Terminal {
    master: File,
    child: Child,
    shown: Arc<Mutex<String>>,
    /// How much of what was shown was looked at.
    seen: usize,
}

fn size(rows: u16, cols: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Terminal {
    /// Starts a command in a terminal of 24 lines.
    pub(crate) fn start(mut command: Command) -> Self {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&master).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        rustix::termios::tcsetwinsize(&master, size(24, 80)).unwrap();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let side = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let again = || side.try_clone().unwrap();
        command.stdin(again()).stdout(again()).stderr(again()).env("TERM", "xterm");
        let child = command.spawn().unwrap();
        drop((command, side));
        let master = File::from(master);
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut reads, fills) = (master.try_clone().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut buffer = [0_u8; 4096];
            while let Ok(read) = reads.read(&mut buffer)
                && read > 0
            {
                fills.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self { master, child, shown, seen: 0 }
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until something is shown behind what was looked at before.
    #[track_caller]
    pub(crate) fn until_shown(&mut self, words: &str) {
        let began = Instant::now();
        loop {
            let shown = self.shown.lock().unwrap().clone();
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
            assert!(began.elapsed() < PATIENCE, "it goes on: {}", self.shown.lock().unwrap());
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
