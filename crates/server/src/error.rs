//! Why a server does not start or stops.

use std::net::SocketAddr;
use std::path::PathBuf;

use landfall_store::StoreError;

/// Why a server does not start or stops.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The journal cannot be opened or read.
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("{0} can be reached from other machines, and there is no TLS")]
    Insecure(SocketAddr),
    #[error("cannot use {}: {message}", .path.display())]
    File { path: PathBuf, message: String },
    /// A pool or tenant of the configuration was refused.
    #[error("{what}: {message}")]
    Refused { what: String, message: String, hint: String },
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}

impl ServerError {
    pub fn hint(&self) -> String {
        match self {
            Self::Store(error) => error.hint(),
            Self::Listen { .. } => "is another server running? choose another port".into(),
            Self::Insecure(_) => {
                "give a certificate and a key, listen on 127.0.0.1, or say that it may be insecure".into()
            }
            Self::File { .. } => "check the path and its permissions".into(),
            Self::Refused { hint, .. } => hint.clone(),
            Self::Io { .. } => "see the message of the system".into(),
        }
    }
}
