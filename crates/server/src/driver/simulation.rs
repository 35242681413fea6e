//! The driver without its thread and its clock: whoever simulates a service moves it round by round.
//!
//! It is the same `Core` and the same `round` that the thread runs; only who waits for whom is different. A
//! request is put in line and gives a [`Pending`]; after the round that took it the answer is there. Nothing here is
//! synchronised, and nothing takes time but what the clock that was passed in says.

use std::sync::Arc;
use std::time::Duration;

use landfall_api::ApiError;
use landfall_api::agent::{Ask, Asked, Command, ReportAnswers, Reports};
use landfall_api::job::{JobRequest, Submitted};
use landfall_api::node::{Heard, Heartbeat, Registered};
use landfall_engine::{Answer, Input};
use landfall_model::{NodeId, Time};
use landfall_store::{Store, StoreError};
use tokio::sync::{mpsc, oneshot};

use super::connections::Connections;
use super::core::{Core, View};
use super::handle::{Caller, Failure, Happened, Reply, Request};
use super::nodes::{Most, Registering};
use super::{After, NAP, Stats, round};
use crate::clock::{Anchor, Clock};
use crate::config::Config;
use crate::error::ServerError;
use crate::http::app::other_journal;

/// An answer that is there after the round.
#[derive(Debug)]
pub struct Pending<T>(oneshot::Receiver<Result<T, Failure>>);

impl<T> Pending<T> {
    /// The answer, if the driver got to it.
    pub fn take(&mut self) -> Option<Result<T, Failure>> {
        self.0.try_recv().ok()
    }
}

/// A server without HTTP, thread and clock.
#[derive(Debug)]
pub struct Service {
    core: Core,
    connections: Arc<Connections>,
    line: Vec<Request>,
}

impl Service {
    /// Opens the journal and takes it over, as a server does when it starts.
    ///
    /// # Errors
    /// When the journal cannot be read or written, or the configuration makes no sense.
    pub fn open(
        config: &Config,
        store: Box<dyn Store>,
        clock: &dyn Fn(Time, Option<&Anchor>) -> Clock,
    ) -> Result<Self, ServerError> {
        let connections = Arc::new(Connections::default());
        let mut core = Core::open(config, store, connections.clone(), Arc::new(Stats::default()), clock)?;
        core.set_up(config)?;
        Ok(Self { core, connections, line: Vec::new() })
    }

    /// How long nothing has to be done if nobody asks.
    pub fn nap(&self) -> Duration {
        self.core.nap().min(NAP)
    }

    pub fn has_requests(&self) -> bool {
        !self.line.is_empty()
    }

    /// Does everything that is in line; what happened is given when it is stored.
    ///
    /// # Errors
    /// When another server writes the journal, so that this one has to end.
    pub fn round(&mut self) -> Result<Vec<Happened>, StoreError> {
        let mut happened = Vec::new();
        let after = round(&mut self.core, self.line.drain(..), |batch| happened = batch);
        self.core.settle();
        match after {
            After::Fenced(error) => Err(error),
            After::Another | After::Close(_) => Ok(happened),
        }
    }

    /// Ends in peace, with a snapshot.
    pub fn close(mut self) {
        self.core.close();
    }

    /// What is said to whoever speaks about another journal than that of this server.
    pub fn other_journal(&self, named: Option<&str>) -> Option<ApiError> {
        other_journal(named, self.core.store.incarnation())
    }

    /// Opens a line to a node on which it is told things.
    pub fn connect(&self, node: NodeId) -> mpsc::Receiver<Command> {
        self.connections.open(node)
    }

    /// Asks about what is stored.
    ///
    /// # Errors
    /// When something that the answer needs cannot be read.
    pub fn read<T>(&mut self, question: impl FnOnce(&mut View<'_>) -> T) -> Result<T, Failure> {
        let mut view = self.core.view();
        let answer = question(&mut view);
        view.sound(answer)
    }

    /// Whether the rows that lists are made of are those of the jobs that there are.
    pub fn lists_rightly(&mut self) -> bool {
        let view = self.core.view();
        view.roster.catch_up(view.engine.state(), view.jobs);
        view.roster.is_right(view.engine.state(), view.jobs)
    }

    fn ask<T>(&mut self, make: impl FnOnce(Reply<T>) -> Request) -> Pending<T> {
        let (reply, answer) = oneshot::channel();
        self.line.push(make(reply));
        Pending(answer)
    }

    pub fn submit(
        &mut self,
        caller: Caller,
        jobs: Vec<JobRequest>,
        key: Option<String>,
    ) -> Pending<(Vec<Submitted>, bool)> {
        self.ask(|reply| Request::Submit(Box::new((caller, jobs, key)), reply))
    }

    pub fn apply(&mut self, input: Input) -> Pending<Vec<Answer>> {
        self.ask(|reply| Request::Apply(vec![input], Vec::new(), reply))
    }

    pub fn register(&mut self, node: Registering) -> Pending<Registered> {
        self.ask(|reply| Request::Register(Box::new(node), reply))
    }

    pub fn heartbeat(&mut self, node: NodeId, heartbeat: Heartbeat) -> Pending<Heard> {
        self.ask(|reply| Request::Heartbeat(node, Box::new((heartbeat, Most::default())), reply))
    }

    pub fn reports(&mut self, node: NodeId, reports: Reports) -> Pending<ReportAnswers> {
        self.ask(|reply| Request::Reports(node, reports, reply))
    }

    pub fn ask_for_work(&mut self, node: NodeId, ask: Ask) -> Pending<Asked> {
        self.ask(|reply| Request::Ask(node, ask, reply))
    }
}
