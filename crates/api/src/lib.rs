//! What goes over the wire: requests and answers of the HTTP API, the protocol between server and agent, errors.
//!
//! Types only. The server serves them, the command line and the agents speak them, the OpenAPI document is made from them.
//! Needs of jobs and facts of nodes are written in the same fields as in scenario files (docs/reference/scenario.md), so
//! whoever knows one knows the other.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod agent;
pub mod alarm;
pub mod answer;
pub mod board;
pub mod error;
pub mod fill;
pub mod fleet;
pub mod job;
pub mod needs;
pub mod node;
pub mod page;
pub mod peer;
pub mod replay;
pub mod token;
pub mod workload;

pub use error::ApiError;
pub use page::Paged;

/// Version of the HTTP API; its routes live below `/api/v1`.
pub const API: &str = "/api/v1";

/// The port the server listens on if nothing else is said.
pub const PORT: u16 = 7878;

/// Header that makes a submission safe to repeat.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Header that a page sends with every change it asks for; no page of another site can send it.
pub const FROM_THE_BOARD: &str = "landfall-board";

/// Header in which an agent names the journal that its memory belongs to.
pub const JOURNAL: &str = "landfall-journal";
