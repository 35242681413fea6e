//! Why an agent ends.

use std::path::PathBuf;

use landfall_client::ClientError;

/// Why an agent ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A setting makes no sense.
    #[error("{field}: {message}")]
    Config { field: &'static str, message: String },
    #[error("cannot use {path}: {source}")]
    Data { path: PathBuf, source: std::io::Error },
    #[error("another agent uses {0}")]
    Taken(PathBuf),
    #[error("the keeper of {dir} does not start: {message}")]
    Keeper { dir: PathBuf, message: String },
    #[error("the server refuses this agent: {0}")]
    Refused(#[source] ClientError),
    /// The settings make no client.
    #[error(transparent)]
    Client(ClientError),
}

impl AgentError {
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
