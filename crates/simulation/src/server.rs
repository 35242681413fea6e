//! The server of a world: the real driver round by round, on a disk and with clocks that can be meddled with.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use landfall_model::{Dispatch, Millis, Pool, PoolId, Tenant, TenantId};
use landfall_server::clock::{Clock, Reading};
use landfall_server::driver::simulation::Service;
use landfall_server::restore::{Revoke, restore};
use landfall_server::{Config, PoolConfig};
use landfall_store::Reader as _;
use landfall_store::sqlite::{Options, Sqlite};
use landfall_testkit::Rng;

use crate::disk::{self, Disk, Files};
use crate::plan::Plan;

/// The wall clock when a world begins, in milliseconds since 1970.
pub(crate) const BEGIN_MS: i64 = 1_800_000_000_000;
pub(crate) const TENANTS: [&str; 2] = ["ta", "tb"];
/// What a database with little room may grow by.
const LITTLE_ROOM: u64 = 48 << 10;

/// The clocks of the server's machine.
#[derive(Debug)]
struct Clocks {
    now: Duration,
    booted_at: Duration,
    wrong_ms: i64,
}

/// Where the server is, whether it runs or not.
pub(crate) struct Server {
    pub(crate) service: Option<Service>,
    /// Which start of the server this is; what was on its way to an earlier one is lost.
    pub(crate) life: u64,
    /// What it is called that the journal is called now.
    pub(crate) journal: String,
    pub(crate) busy_until: Duration,
    pub(crate) trouble: disk::Shared,
    pub(crate) slow: bool,
    root: PathBuf,
    dir: PathBuf,
    dirs: u64,
    boots: u64,
    clocks: Arc<Mutex<Clocks>>,
    little_room: bool,
    backup: Option<PathBuf>,
    config: Config,
    random: Rng,
}

fn config(plan: &Plan) -> Option<Config> {
    let dispatch = if plan.pull { Dispatch::Pull } else { Dispatch::Push };
    let mut pool = Pool::new(PoolId::new("default").ok()?, dispatch);
    pool.silence.node_unknown_after_ms = Millis::secs(6);
    pool.silence.node_down_after_ms = Millis::secs(20);
    pool.silence.requeue_after_ms = Millis::secs(20);
    pool.batch.kill_grace_ms = Millis::secs(5);
    let tenants = TENANTS.iter().filter_map(|id| Some(Tenant::new(TenantId::new(id).ok()?)));
    Some(Config {
        pools: vec![PoolConfig { pool, policy: None }],
        tenants: tenants.collect(),
        snapshot_every: plan.snapshot_every,
        ended_in_memory: plan.ended_in_memory,
        ..Config::new(PathBuf::new())
    })
}

impl Server {
    pub(crate) fn new(plan: &Plan, root: &Path) -> Option<Self> {
        let clocks = Clocks { now: Duration::ZERO, booted_at: Duration::ZERO, wrong_ms: 0 };
        Some(Self {
            service: None,
            life: 0,
            journal: String::new(),
            busy_until: Duration::ZERO,
            trouble: disk::Shared::default(),
            slow: false,
            root: root.to_path_buf(),
            dir: root.join("server-0"),
            dirs: 0,
            boots: 0,
            clocks: Arc::new(Mutex::new(clocks)),
            little_room: false,
            backup: None,
            config: config(plan)?,
            random: Rng::new(plan.seed ^ 0x5e17),
        })
    }

    /// Tells the clocks what time it is.
    pub(crate) fn set_now(&self, now: Duration) {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner).now = now;
    }

    pub(crate) fn set_clock(&self, by_ms: i64) {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner).wrong_ms += by_ms;
    }

    /// Starts the server on its directory.
    ///
    /// # Errors
    /// Why it does not start.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let size = std::fs::metadata(self.dir.join("journal.db")).map_or(0, |file| file.len());
        let max_bytes = self.little_room.then_some(size + LITTLE_ROOM);
        let store = Sqlite::open_with(&self.dir, Options { max_bytes }).map_err(|error| error.to_string())?;
        self.journal = store.incarnation().to_owned();
        self.life += 1;
        let random = Rng::new(self.random.word());
        let disk = Box::new(Disk::new(store, self.trouble.clone(), random));
        let boot = format!("boot-{}", self.boots);
        let clocks = self.clocks.clone();
        let service = Service::open(&self.config, disk, &|stored, anchor| {
            let clocks = clocks.clone();
            let source = Box::new(move || {
                let clocks = clocks.lock().unwrap_or_else(PoisonError::into_inner);
                let wall_ms = i128::from(BEGIN_MS + clocks.wrong_ms) + clocks.now.as_millis() as i128;
                // A machine has been up for a while before its server starts.
                let ticks = clocks.now.saturating_sub(clocks.booted_at) + Duration::from_secs(30);
                Reading { ticks, wall: wall_ms * 1_000_000 }
            });
            Clock::with(boot.clone(), source, stored, anchor)
        });
        self.service = Some(service.map_err(|error| error.to_string())?);
        Ok(())
    }

    fn next_dir(&mut self) -> PathBuf {
        self.dirs += 1;
        self.root.join(format!("server-{}", self.dirs))
    }

    /// The process is killed: what it wrote stays, and nothing is tidied up.
    pub(crate) fn kill(&mut self) {
        let Some(service) = self.service.take() else { return };
        let to = self.next_dir();
        let files = Files::of(&self.dir);
        drop(service);
        let written = files.write(&to);
        debug_assert!(written.is_ok(), "the files of the server cannot be copied: {written:?}");
        let _ = std::fs::remove_dir_all(&self.dir);
        self.dir = to;
    }

    /// The machine lost power in the middle of a write, if it did.
    pub(crate) fn was_cut(&mut self, now: Duration) -> bool {
        let Some(left) = std::mem::take(&mut *disk::lock(&self.trouble)).cut else { return false };
        self.service = None;
        let _ = std::fs::remove_dir_all(&self.dir);
        self.dir = left;
        // A name that the next cut does not take.
        let to = self.next_dir();
        if std::fs::rename(&self.dir, &to).is_ok() {
            self.dir = to;
        }
        self.boots += 1;
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner).booted_at = now;
        true
    }

    pub(crate) fn close(&mut self) {
        if let Some(service) = self.service.take() {
            service.close();
        }
    }

    pub(crate) fn little_room(&mut self, little: bool) {
        self.little_room = little;
    }

    /// Makes a backup; whether there is one now.
    pub(crate) fn back_up(&mut self) -> bool {
        let to = self.root.join(format!("backup-{}", self.random.word()));
        let Some(service) = &mut self.service else { return false };
        let made = service.read(|view| view.store.backup(&to));
        let made = matches!(made, Ok(Ok(())));
        if made {
            self.backup = Some(to);
        }
        made
    }

    pub(crate) fn has_backup(&self) -> bool {
        self.backup.is_some()
    }

    /// Puts the last backup in the place of what there is. The server must not run.
    ///
    /// # Errors
    /// Why that is refused.
    pub(crate) fn restore(&mut self) -> Result<(), String> {
        let Some(backup) = self.backup.clone() else { return Err("there is no backup".into()) };
        let to = self.next_dir();
        let revoke = Revoke::Named(Vec::new());
        restore(&backup, &to, &revoke, &mut |_| {}).map_err(|error| error.to_string())?;
        let _ = std::fs::remove_dir_all(&self.dir);
        self.dir = to;
        Ok(())
    }

    /// Flips a bit in a copy of the database of a server that ended: it has to be noticed, or to change nothing.
    ///
    /// # Errors
    /// What a server would have gone on from without a word.
    pub(crate) fn flip_bit(&mut self) -> Result<(), String> {
        let files = Files::of(&self.dir);
        let (flipped, at) = files.clone().flipped(&mut self.random);
        let (good, bad) = (self.root.join("whole"), self.root.join("flipped"));
        let made = files.write(&good).and_then(|()| flipped.write(&bad));
        made.map_err(|error| error.to_string())?;
        let (before, after) = (disk::contents(&good), disk::contents(&bad));
        let _ = std::fs::remove_dir_all(&good);
        let _ = std::fs::remove_dir_all(&bad);
        match (before, after) {
            (Ok(before), Ok(after)) if before != after => {
                Err(format!("a bit flipped at byte {at} of the database, and nobody noticed"))
            }
            (Err(error), _) => Err(format!("a whole database cannot be read: {error}")),
            _ => Ok(()),
        }
    }

    /// How long a commit takes now.
    pub(crate) fn commit_takes(&mut self) -> Duration {
        let most = if self.slow { 3_000_000 } else { 15_000 };
        Duration::from_micros(self.random.within(200, most))
    }
}
