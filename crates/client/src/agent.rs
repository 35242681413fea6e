//! What agents say to the server.

use landfall_api::agent::{
    Ask, Asked, Command, Fetches, LogPieces, LogsKept, Probed, ReportAnswers, Reports,
};
use landfall_api::node::{Heard, Heartbeat, Registered, Registration};
use serde::de::IgnoredAny;

use crate::client::Client;
use crate::error::ClientError;
use crate::lines::Lines;
use crate::path::segment;

/// Commands for one node, as they come.
pub struct Commands {
    lines: Lines,
    url: String,
}

impl Commands {
    /// The next command; `None` when the server ends the stream.
    pub async fn next(&mut self) -> Result<Option<Command>, ClientError> {
        while let Some(line) = self.lines.next().await? {
            if line.is_empty() {
                continue;
            }
            let command = serde_json::from_str(&line);
            return command.map(Some).map_err(|error| ClientError::BadAnswer {
                url: self.url.clone(),
                message: format!("a command makes no sense: {error}"),
            });
        }
        Ok(None)
    }
}

impl Client {
    /// Registers a node with everything it runs.
    pub async fn register(&self, node: &str, registration: &Registration) -> Result<Registered, ClientError> {
        self.put(&format!("/nodes/{}/registration", segment(node)), registration).await
    }

    pub async fn heartbeat(&self, node: &str, heartbeat: &Heartbeat) -> Result<Heard, ClientError> {
        self.post(&format!("/nodes/{}/heartbeat", segment(node)), heartbeat).await
    }

    pub async fn commands(&self, node: &str) -> Result<Commands, ClientError> {
        let lines = self.stream_lines(&format!("/nodes/{}/commands", segment(node))).await?;
        Ok(Commands { lines, url: self.server().to_owned() })
    }

    /// Says what became of attempts.
    pub async fn report(&self, node: &str, reports: &Reports) -> Result<ReportAnswers, ClientError> {
        self.post(&format!("/nodes/{}/reports", segment(node)), reports).await
    }

    pub async fn ask(&self, node: &str, ask: &Ask) -> Result<Asked, ClientError> {
        self.post(&format!("/nodes/{}/ask", segment(node)), ask).await
    }

    /// Says what the node would have to fetch.
    pub async fn fetches(&self, node: &str, fetches: &Fetches) -> Result<(), ClientError> {
        self.post::<IgnoredAny>(&format!("/nodes/{}/fetches", segment(node)), fetches).await.map(|_| ())
    }

    /// Sends what jobs wrote. The answer says where the pieces that follow have to begin.
    pub async fn ship(&self, node: &str, pieces: &LogPieces) -> Result<Option<LogsKept>, ClientError> {
        self.post(&format!("/nodes/{}/logs", segment(node)), pieces).await
    }

    pub async fn probed(&self, node: &str, probed: &Probed) -> Result<(), ClientError> {
        self.post::<IgnoredAny>(&format!("/nodes/{}/probe", segment(node)), probed).await.map(|_| ())
    }
}
