//! Why an agent ends.

use std::path::PathBuf;

use landfall_client::ClientError;

/// Why an agent ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A setting makes no sense.
    #[error("{field}: {message}")]
    Config {
        field: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// A file of the data directory cannot be used.
    #[error("cannot use {path}: {source}")]
    Data {
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Another agent uses the data directory.
    #[error("another agent uses {0}")]
    Taken(PathBuf),
    /// The keeper does not start.
    #[error("the keeper of {dir} does not start: {message}")]
    Keeper { dir: PathBuf, message: String },
    /// The server does not want this agent.
    #[error("the server refuses this agent: {0}")]
    Refused(#[source] ClientError),
    /// The settings make no client.
    #[error(transparent)]
    Client(ClientError),
}

impl AgentError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Config { .. } => return None,
            Self::Data { .. } => "the directory must be writable for the user that runs the agent".into(),
            Self::Taken(_) => "give each agent of a machine a directory of its own with --data-dir".into(),
            Self::Keeper { dir, .. } => format!("{} may say more", dir.join("keeper.log").display()),
            Self::Refused(error) => {
                return error.hint().or_else(|| {
                    Some(
                        "give the agent a token that may serve this node; `landfall token create` makes one"
                            .into(),
                    )
                });
            }
            Self::Client(error) => return error.hint(),
        })
    }
}
