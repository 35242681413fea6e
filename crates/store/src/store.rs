//! What a server needs of a database: the traits, and what goes in and out.

use std::path::Path;

use landfall_engine::{Event, State};
use landfall_model::Time;

use crate::error::StoreError;

/// One kind of durable record beside the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// What there is once: names, settings, secrets of the server.
    Meta,
    /// Payloads of jobs and arrays that have not ended.
    Jobs,
    /// Jobs that ended.
    Archive,
    /// Named templates of jobs.
    Workloads,
    /// Who may do what.
    Tokens,
    /// Answers to requests that may be repeated.
    Idempotency,
    Policies,
    /// What is kept of nodes beside the state.
    Nodes,
    /// Which jobs and arrays make up a DAG.
    Dags,
}

impl Table {
    pub const ALL: [Self; 9] = [
        Self::Meta,
        Self::Jobs,
        Self::Archive,
        Self::Workloads,
        Self::Tokens,
        Self::Idempotency,
        Self::Policies,
        Self::Nodes,
        Self::Dags,
    ];

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Jobs => "jobs",
            Self::Archive => "archive",
            Self::Workloads => "workloads",
            Self::Tokens => "tokens",
            Self::Idempotency => "idempotency",
            Self::Policies => "policies",
            Self::Nodes => "nodes",
            Self::Dags => "dags",
        }
    }

    /// Its number on disk. A number is never given to another kind.
    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Meta => 1,
            Self::Jobs => 2,
            Self::Archive => 3,
            Self::Workloads => 4,
            Self::Tokens => 5,
            Self::Idempotency => 6,
            Self::Policies => 7,
            Self::Nodes => 8,
            Self::Dags => 9,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub table: Table,
    pub key: String,
    /// The new value; `None` deletes the record.
    pub value: Option<Vec<u8>>,
}

impl Change {
    /// Stores a record, in place of the one of that key.
    pub fn put(table: Table, key: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        Self { table, key: key.into(), value: Some(value.into()) }
    }

    /// Deletes a record, if there is one.
    pub fn delete(table: Table, key: impl Into<String>) -> Self {
        Self { table, key: key.into(), value: None }
    }
}

/// What becomes durable together or not at all.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// When it was made; compaction goes by it.
    pub at: Time,
    /// The epoch of the server that made it.
    pub epoch: u32,
    /// Events in order, with the instant of each.
    pub events: Vec<(Time, Event)>,
    /// Changes to records, in order.
    pub changes: Vec<Change>,
}

impl Batch {
    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.changes.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Its number; the first event of a journal is 1.
    pub seq: u64,
    pub at: Time,
    pub event: Event,
}

/// What a server goes on from.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub state: State,
    /// Number of the last event in it; 0 if there is none.
    pub seq: u64,
    /// Events that were applied on top of the snapshot.
    pub replayed: u64,
    /// Number of the last event in the snapshot that was used; 0 if there was none.
    pub snapshot_seq: u64,
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compacted {
    /// Events that are gone.
    pub events: u64,
    /// Rows of the journal that are gone.
    pub rows: u64,
    /// The oldest event that is still there; one more than the last if there is none.
    pub oldest: u64,
    /// Whether another call would do more.
    pub more: bool,
}

/// Reading, from any thread, while the server writes.
///
/// Each call sees the journal and the records as of one instant, with everything that was acknowledged before the call.
pub trait Reader: Send {
    /// Which journal this is: 16 hexadecimal digits, made at random with it and anew by a restore. Numbers of jobs, events
    /// and epochs mean something only together with it.
    fn incarnation(&self) -> &str;

    fn get(&mut self, table: Table, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Up to `limit` records by key (bytes compared), beginning behind the key `after`; `newest_first` goes backwards.
    fn scan(
        &mut self,
        table: Table,
        after: Option<&str>,
        limit: usize,
        newest_first: bool,
    ) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// Up to `limit` events behind the one of number `after`.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] when some of them are gone already.
    fn events(&mut self, after: u64, limit: usize) -> Result<Vec<Stored>, StoreError>;

    /// Number of the oldest event that is still there; one more than the last if there is none.
    fn oldest_seq(&mut self) -> Result<u64, StoreError>;

    /// Number of the last event; 0 if there is none.
    fn last_seq(&mut self) -> Result<u64, StoreError>;

    /// Number of the last event that is not after an instant; 0 if there is none. Instants never go back in a journal.
    fn seq_at(&mut self, at: Time) -> Result<u64, StoreError>;

    /// The state as it was at an instant, after all events up to it; `None` if what it is made of is gone.
    fn state_at(&mut self, at: Time) -> Result<Option<State>, StoreError>;

    /// Bytes that the store takes.
    fn size_bytes(&mut self) -> Result<u64, StoreError>;

    /// Writes a consistent copy to a new file while everything goes on. The copy is on disk when this returns.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when there is a file already; nothing is left behind after an error.
    fn backup(&mut self, to: &Path) -> Result<(), StoreError>;
}

/// Storing snapshots from another thread while the server appends.
pub trait Snapshotter: Send {
    /// See [`Store::snapshot`].
    ///
    /// # Errors
    /// When the snapshot cannot be stored; earlier ones stay.
    fn snapshot(&mut self, seq: u64, state: &[u8]) -> Result<(), StoreError>;
}

/// The journal, snapshots and records of a server. One owner writes; anybody may read through [`Store::reader`].
///
/// ```
/// use landfall_engine::{Engine, Input};
/// use landfall_model::{Dispatch, Pool, PoolId, Time};
/// use landfall_store::sqlite::Sqlite;
/// use landfall_store::{Batch, Store};
///
/// let dir = tempfile::tempdir()?;
/// let mut store = Sqlite::open(dir.path())?;
/// let pool = Box::new(Pool::new(PoolId::new("lab")?, Dispatch::Push));
/// let outcome = Engine::new().step(Time::ZERO, Input::SetPool { pool, policy: None });
/// let events = outcome.events.into_iter().map(|event| (outcome.at, event)).collect();
/// let last = store.append(&Batch { events, ..Batch::default() })?;
///
/// // On disk now: a server that starts here goes on from it.
/// let loaded = store.load()?;
/// assert_eq!(loaded.seq, last);
/// assert_eq!(Engine::of(loaded.state).state().pools.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Store: Reader {
    /// The newest good snapshot with all later events applied.
    ///
    /// # Errors
    /// When the journal is damaged or events are missing.
    fn load(&mut self) -> Result<Loaded, StoreError>;

    /// Stores a batch in one transaction. It is on disk when this returns the number of the last event.
    /// An empty batch does nothing.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when a server with a higher epoch has written. [`StoreError::Full`], [`StoreError::Busy`]:
    /// nothing was stored and the same batch may be tried again. Any other error: see [`StoreError::is_retryable`].
    fn append(&mut self, batch: &Batch) -> Result<u64, StoreError>;

    /// Tells whether a server of this epoch could store something, by storing again what is there. It is as durable as
    /// [`Store::append`].
    ///
    /// # Errors
    /// Those of an append that stores nothing new.
    fn probe(&mut self, epoch: u32) -> Result<(), StoreError>;

    /// Stores a snapshot: the bytes of [`encode_state`](crate::encode_state) for the state after event `seq`. The two newest
    /// are kept.
    ///
    /// # Errors
    /// When the snapshot cannot be stored; earlier ones stay.
    fn snapshot(&mut self, seq: u64, state: &[u8]) -> Result<(), StoreError>;

    /// Drops events that are older than that instant and than the older of the two snapshots. It does a bounded amount of
    /// work; [`Compacted::more`] tells whether to call again.
    ///
    /// # Errors
    /// When the database cannot be written; nothing is lost.
    fn compact(&mut self, keep_events_since: Time) -> Result<Compacted, StoreError>;

    /// A second connection that only reads.
    fn reader(&self) -> Result<Box<dyn Reader>, StoreError>;

    /// A second connection that stores snapshots in small steps, so that appends do not wait for a large one.
    fn snapshotter(&self) -> Result<Box<dyn Snapshotter>, StoreError>;
}
