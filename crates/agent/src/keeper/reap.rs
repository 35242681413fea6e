//! Noticing ends: waits for processes and for instants, in one thread.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use landfall_model::life::Fence;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use wait4::Wait4 as _;

use super::cgroup::Group;
use super::journal::{Key, key};
use super::state::{Job, Keeper, Live, Phase, Succession};
use super::wire::{Ended, Event};
use super::{DISCONNECTED_MS, procfs};
use crate::layout::Layout;

/// How often it looks whether anybody still needs the keeper, and what jobs left running.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Waits for ends, until nobody needs the keeper any more.
pub(crate) fn work(keeper: &Keeper) -> std::io::Result<()> {
    let mut events = Vec::with_capacity(256);
    let mut looked = Instant::now();
    loop {
        let company = keeper.outbox.flush_overdue().unwrap_or(LOOK_EVERY);
        let next = keeper.fire(Instant::now()).unwrap_or(LOOK_EVERY).min(company).min(LOOK_EVERY);
        // Rounded up, or the last fraction of a millisecond would be spent asking again and again.
        let timeout = Timespec::try_from(next + Duration::from_millis(1)).unwrap_or_default();
        match epoll::wait(&keeper.epoll, spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            let data = event.data;
            match u32::try_from(data.u64()) {
                Ok(0) => {
                    let _ = rustix::io::read(&keeper.wake, &mut [0_u8; 8]);
                }
                Ok(pid) => reap(keeper, pid),
                Err(_) => {}
            }
        }
        keeper.outbox.flush_urgent();
        if keeper.orphans.were_seen() || looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            keeper.sweep();
            keeper.end_what_ran_out_of_memory();
        }
        if nobody_needs_it(keeper) {
            return Ok(());
        }
    }
}

/// Whether nothing runs and no agent is there. Ends that nobody asked about yet are in the journal for the next keeper.
fn nobody_needs_it(keeper: &Keeper) -> bool {
    let state = keeper.lock();
    let Some(alone_since) = state.alone_since else { return false };
    let busy = state.jobs.values().any(|job| !matches!(job.phase, Phase::Ended(_)) && !state.is_ahead(job));
    let patience = if state.bye { Duration::ZERO } else { Duration::from_millis(DISCONNECTED_MS) };
    !busy && alone_since.elapsed() >= patience
}

fn reap(keeper: &Keeper, pid: u32) {
    let helper = keeper.lock().helpers.remove(&pid);
    if let Some((mut child, watch)) = helper {
        let _ = epoll::delete(&keeper.epoll, &watch);
        let _ = child.wait();
        return;
    }
    let Some(over) = over(keeper, pid) else { return };
    if let Some(next) = over.next.clone() {
        keeper.lock().queue.push_back(next);
        keeper.queued.notify_one();
    }
    note(keeper, over);
}

/// A process that ended, of which nothing is noted yet.
pub(crate) struct Over {
    at: Key,
    live: Box<Live>,
    /// What begins in its place.
    pub(crate) next: Option<Key>,
}

/// Takes a process that ended, and with it the next element of its array: that begins first, and what is left to note about this one is
/// noted meanwhile. The successor is told before the end, whoever of the two is ready first. After one that somebody stopped the others
/// may be stopped next: then the server says what begins.
pub(crate) fn over(keeper: &Keeper, pid: u32) -> Option<Over> {
    let mut state = keeper.lock();
    let at = state.by_pid.remove(&pid)?;
    let job = state.jobs.get_mut(&at)?;
    if !matches!(job.phase, Phase::Live(_)) {
        return None;
    }
    let Phase::Live(live) = std::mem::replace(&mut job.phase, Phase::Starting) else { return None };
    let array = job.array.clone().filter(|_| job.cause.is_none());
    state.attending -= usize::from(!live.watched);
    state.pinned.remove(&at);
    let next = state.next_of(array.as_deref());
    if let Some(next) = &next {
        state.successions.insert(next.clone(), Succession::Open);
    }
    Some(Over { at, live, next })
}

/// Lets the reaper watch a process that somebody stayed with.
pub(crate) fn hand_over(keeper: &Keeper, at: &Key, pid: u32) -> std::io::Result<()> {
    let mut state = keeper.lock();
    let Some(Job { phase: Phase::Live(live), .. }) = state.jobs.get_mut(at) else { return Ok(()) };
    let data = epoll::EventData::new_u64(u64::from(pid));
    epoll::add(&keeper.epoll, &*live.watch, data, epoll::EventFlags::IN)?;
    live.watched = true;
    state.attending -= 1;
    Ok(())
}

/// Notes how a process ended, and then tells it.
pub(crate) fn note(keeper: &Keeper, over: Over) {
    let Over { at, mut live, next } = over;
    let pid = live.child.id();
    let (elsewhere, fence) = {
        let state = keeper.lock();
        let Some(job) = state.jobs.get(&at) else { return };
        (job.elsewhere, job.fence.clone())
    };
    // Until it is waited for the process stays in the table: what it counted can be read, and its number is its own.
    let wall = live.since.elapsed();
    let disk_bytes = if elsewhere { 0 } else { procfs::disk_bytes(Path::new("/proc"), pid) };
    // The job is over when its first process is; what it left behind goes with it.
    let alone = super::state::kill_live(&live);
    if live.watched {
        let _ = epoll::delete(&keeper.epoll, &*live.watch);
    }
    let (code, usage) = match live.child.wait4() {
        Ok(result) => {
            let signal = result.status.signal().map(|signal| 128 + signal);
            (result.status.code().or(signal).unwrap_or(-1), Some(result.rusage))
        }
        Err(error) => {
            eprintln!("keeper: cannot wait for process {pid}: {error}");
            (-1, None)
        }
    };
    let counted = live.group.as_ref().map(Group::counted).unwrap_or_default();
    match (live.group.take(), &usage) {
        (Some(group), Some(usage)) if alone => keeper.cgroups.give_back(group, usage.utime + usage.stime),
        (group, _) => group.iter().for_each(Group::remove),
    }
    let usage = usage.filter(|_| !elsewhere);
    let kept = keeper.layout.keep_work(&fence).map(|path| path.display().to_string());

    let mut state = keeper.lock();
    let Some(job) = state.jobs.get_mut(&at) else { return };
    let ended = Ended {
        fence: job.fence.clone(),
        code,
        cause: job.cause,
        wall_ms: wall.as_millis() as u64,
        cpu_ms: usage.as_ref().map(|usage| (usage.utime + usage.stime).as_millis() as u64),
        peak_ram_bytes: counted.peak_bytes.or(usage.map(|usage| usage.maxrss)),
        disk_bytes,
        oom: counted.oom,
        written: written(&keeper.layout, &job.fence),
        kept,
        note: job.note.clone(),
    };
    drop(state);
    if let Err(error) = keeper.journal().ended(&ended) {
        eprintln!("keeper: cannot write the journal: {error}");
    }
    let mut state = keeper.lock();
    state.timers.retain(|(_, job, _)| *job != key(&ended.fence));
    let Some(job) = state.jobs.get_mut(&at) else { return };
    job.phase = Phase::Ended(Box::new(ended.clone()));
    let Some(next) = next else {
        keeper.outbox.add(&Event::Ended(Box::new(ended)));
        return;
    };
    match state.successions.remove(&next) {
        // Nothing waits for it: its successor has begun.
        Some(Succession::Begun) => keeper.outbox.add_waiting(&Event::Ended(Box::new(ended))),
        _ => drop(state.successions.insert(next, Succession::Ended(Box::new(ended)))),
    }
}

/// How much an attempt wrote.
pub(crate) fn written(layout: &Layout, fence: &Fence) -> (u64, u64) {
    let size = |path| std::fs::metadata(path).map_or(0, |meta| meta.len());
    (size(layout.stdout(fence)), size(layout.stderr(fence)))
}
