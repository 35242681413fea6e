//! What the agent is to be told, until the socket has taken it.
//!
//! Whoever has something to tell writes it to the socket itself, without waiting: a thread of its own for that would have
//! to be woken for every job. Only when the agent does not read and the socket is full, a thread waits for it.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::SendFlags;

use super::wire::Event;

/// How long a beginning waits for company.
const COMPANY: Duration = Duration::from_millis(2);
/// How long it is waited for a full socket before looking whether the connection is still there.
const FULL_LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
    stuck: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// The connection, if an agent is there.
    stream: Option<Arc<UnixStream>>,
    /// Lines that the socket has not taken.
    text: Vec<u8>,
    /// Since when something waits in there for company, and who put it there.
    waiting: Option<(Instant, ThreadId)>,
    /// Whether something is in there that may not wait.
    urgent: bool,
    /// Whether the socket was full.
    full: bool,
}

impl Inner {
    fn put(&mut self, event: &Event) {
        if self.stream.is_none() {
            return;
        }
        let before = self.text.len();
        if serde_json::to_writer(&mut self.text, event).is_ok() {
            self.text.push(b'\n');
        } else {
            self.text.truncate(before);
        }
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a connection with what is told first.
    pub(crate) fn open(&self, stream: &Arc<UnixStream>, hello: &Event) {
        *self.lock() = Inner { stream: Some(Arc::clone(stream)), ..Inner::default() };
        self.add(hello);
        self.flush();
    }

    pub(crate) fn close(&self) {
        *self.lock() = Inner::default();
        self.stuck.notify_all();
    }

    /// Adds something to tell, for the next [`Outbox::flush`]. What nobody is there to hear is in the next hello anyway.
    pub(crate) fn add(&self, event: &Event) {
        let mut inner = self.lock();
        inner.put(event);
        inner.urgent = true;
    }

    /// Adds something that may wait a moment for company: a job that is over by then wakes the agent once instead of twice.
    pub(crate) fn add_waiting(&self, event: &Event) {
        let mut inner = self.lock();
        inner.put(event);
        inner.waiting.get_or_insert_with(|| (Instant::now(), std::thread::current().id()));
    }

    /// Tells what waited long enough; says how long the rest still may. Whoever put in the first that waits sees to it: if all threads
    /// did, all would be woken for it.
    pub(crate) fn flush_overdue(&self) -> Option<Duration> {
        let (since, who) = self.lock().waiting?;
        let left = COMPANY.saturating_sub(since.elapsed());
        if left.is_zero() {
            self.flush();
            return None;
        }
        (who == std::thread::current().id()).then_some(left)
    }

    /// Tells everything there is if something of it may not wait.
    pub(crate) fn flush_urgent(&self) {
        if self.lock().urgent {
            self.flush();
        }
    }

    /// Tells everything there is, as far as the socket takes it at once.
    pub(crate) fn flush(&self) {
        let mut inner = self.lock();
        (inner.waiting, inner.urgent) = (None, false);
        let Some(stream) = inner.stream.clone() else { return };
        while !inner.text.is_empty() {
            match rustix::net::send(&*stream, &inner.text, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(inner.text.drain(..sent)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    inner.full = true;
                    self.stuck.notify_all();
                    return;
                }
                Err(_) => {
                    // The reader of the connection notices as well and cleans up.
                    let _ = stream.shutdown(std::net::Shutdown::Both);
                    return;
                }
            }
        }
        inner.full = false;
    }

    /// Waits for the socket whenever it is full, until the connection ends.
    pub(crate) fn wait_while_full(&self) -> io::Result<()> {
        loop {
            let mut inner = self.lock();
            while inner.stream.is_some() && !inner.full {
                inner = self.stuck.wait(inner).unwrap_or_else(PoisonError::into_inner);
            }
            let Some(stream) = inner.stream.clone() else { return Ok(()) };
            drop(inner);
            match rustix::event::poll(&mut [PollFd::new(&*stream, PollFlags::OUT)], Some(&FULL_LOOK)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => self.flush(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};

    use landfall_model::JobId;
    use landfall_model::life::Fence;

    fn event(index: usize) -> Event {
        Event::Spawned(Fence { job: JobId::new(&format!("job-{index}")).expect("id"), attempt: 1, epoch: 1 })
    }

    #[test]
    fn a_slow_agent_hears_everything_in_order() {
        const COUNT: usize = 20_000;
        let (ours, theirs) = UnixStream::pair().expect("pair");
        let outbox = Arc::new(Outbox::default());
        outbox.open(&Arc::new(ours), &event(0));
        let waiting = Arc::clone(&outbox);
        let patient = std::thread::spawn(move || waiting.wait_while_full());
        for index in 1..COUNT {
            outbox.add(&event(index));
            outbox.flush();
        }
        let lines = BufReader::new(theirs).lines().take(COUNT);
        for (index, line) in lines.enumerate() {
            let heard: Event = serde_json::from_str(&line.expect("a line")).expect("an event");
            assert_eq!(heard, event(index));
        }
        outbox.close();
        patient.join().expect("no panic").expect("no error");
    }

    #[test]
    fn beginnings_wait_for_company_but_not_for_long() {
        let (ours, theirs) = UnixStream::pair().expect("pair");
        theirs.set_nonblocking(true).expect("set");
        let outbox = Outbox::default();
        outbox.open(&Arc::new(ours), &event(0));
        let mut lines = BufReader::new(theirs);
        let mut heard = String::new();
        lines.read_line(&mut heard).expect("the hello");
        assert_eq!(outbox.flush_overdue(), None, "nothing waits");
        outbox.add_waiting(&event(1));
        assert!(lines.read_line(&mut heard).is_err(), "it waits");
        std::thread::sleep(COMPANY);
        assert_eq!(outbox.flush_overdue(), None);
        lines.read_line(&mut heard).expect("told");
    }

    #[test]
    fn nobody_there_is_no_trouble() {
        let outbox = Outbox::default();
        outbox.add(&event(0));
        outbox.flush();
        assert!(outbox.lock().text.is_empty());
    }
}
