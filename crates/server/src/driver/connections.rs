//! The agents that are connected, and the lines on which they are told things.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use landfall_api::agent::Command;
use landfall_model::NodeId;
use tokio::sync::mpsc;

/// Commands that may wait for a slow agent. One that falls behind further is cut off; it comes back and says what it runs.
const COMMANDS_WAITING_MAX: usize = 65_536;

/// Lines to agents by node. A new line of a node replaces the old one.
#[derive(Debug, Default)]
pub struct Connections {
    lines: Mutex<BTreeMap<NodeId, mpsc::Sender<Command>>>,
}

impl Connections {
    fn lines(&self) -> std::sync::MutexGuard<'_, BTreeMap<NodeId, mpsc::Sender<Command>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a line to a node; an older one ends.
    pub fn open(&self, node: NodeId) -> mpsc::Receiver<Command> {
        let (line, commands) = mpsc::channel(COMMANDS_WAITING_MAX);
        self.lines().insert(node, line);
        commands
    }

    /// Whether there is a line to a node.
    pub fn is_open(&self, node: &NodeId) -> bool {
        self.lines().get(node).is_some_and(|line| !line.is_closed())
    }

    /// How many agents are connected.
    pub fn count(&self) -> usize {
        self.lines().values().filter(|line| !line.is_closed()).count()
    }

    /// Tells a node something; whether there was a line. The engine repeats what matters.
    pub fn tell(&self, node: &NodeId, command: Command) -> bool {
        let mut lines = self.lines();
        let told = lines.get(node).is_some_and(|line| line.try_send(command).is_ok());
        if !told {
            lines.remove(node);
        }
        told
    }

    pub fn close(&self) {
        self.lines().clear();
    }
}
