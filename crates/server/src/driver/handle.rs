//! How everybody else talks to the driver.

use std::sync::Arc;
use std::time::Duration;

use landfall_api::ApiError;
use landfall_api::job::{DagRequest, JobRequest, MoreElements, Submitted, SubmittedDag};
use landfall_engine::{Answer, Event, Input};
use landfall_model::{JobId, NodeId, Time};
use landfall_store::Change;
use tokio::sync::{Semaphore, broadcast, oneshot};
use tokio_util::sync::CancellationToken;

use super::connections::Connections;
use super::core::View;
use super::nodes::{Most, Registering};
use crate::clock::Clock;

/// How long a request waits for a place in line.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why the driver did not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("the server has more requests than it can take")]
    Busy,
    #[error("it could not be stored: {0}")]
    Storage(String),
    #[error("the server is going down")]
    Closing,
    /// What was asked was refused, with the status to answer.
    #[error("{1}")]
    Refused(u16, ApiError),
}

impl Failure {
    pub fn refused(status: u16, error: ApiError) -> Self {
        Self::Refused(status, error)
    }
}

/// Who asks, as far as submissions are concerned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// The id of the token; separates idempotency keys.
    pub token: String,
    /// The name of the token; shown as the submitter.
    pub name: String,
    /// The only tenant it may act for, if it is limited to one.
    pub tenant: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Happened {
    /// Its number in the journal.
    pub seq: u64,
    pub at: Time,
    pub event: Event,
}

pub(super) type Reply<T> = oneshot::Sender<Result<T, Failure>>;
type Question = Box<dyn FnOnce(&mut View<'_>) + Send>;

/// Something for the driver to do.
pub(super) enum Request {
    /// Inputs for the engine in order, and changes to records that go with them.
    Apply(Vec<Input>, Vec<Change>, Reply<Vec<Answer>>),
    /// Jobs that depend on each other, or just one.
    Submit(Box<(Caller, Vec<JobRequest>, Option<String>)>, Reply<(Vec<Submitted>, bool)>),
    /// More elements for an array that is open.
    Extend(Box<(Caller, JobId, MoreElements, Option<String>)>, Reply<(Vec<Submitted>, bool)>),
    Register(Box<Registering>, Reply<landfall_api::node::Registered>),
    Heartbeat(NodeId, Box<(landfall_api::node::Heartbeat, Most)>, Reply<landfall_api::node::Heard>),
    /// A node reports, and may ask for work in the same breath.
    Reports(NodeId, landfall_api::agent::Reports, Reply<landfall_api::agent::ReportAnswers>),
    /// A pull worker asks for work.
    Ask(NodeId, landfall_api::agent::Ask, Reply<landfall_api::agent::Asked>),
    /// Somebody has seen an alarm.
    Acknowledge(u64, String, Reply<landfall_api::alarm::AlarmView>),
    /// Somebody wants to know something; answered from what is stored.
    Read(Question),
    /// Make a snapshot and end.
    Close(oneshot::Sender<()>),
}

/// A way to the driver. Cheap to copy.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(super) requests: std::sync::mpsc::Sender<(Request, Option<tokio::sync::OwnedSemaphorePermit>)>,
    pub(super) places: Arc<Semaphore>,
    pub(super) happened: broadcast::Sender<Arc<[Happened]>>,
    pub(super) connections: Arc<Connections>,
    pub(super) ended: CancellationToken,
    pub(super) clock: Arc<Clock>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Request")
    }
}

impl Handle {
    async fn ask<T>(&self, make: impl FnOnce(Reply<T>) -> Request) -> Result<T, Failure> {
        self.send(make).await?.await.map_err(|_| Failure::Closing)?
    }

    /// Puts a request in line behind those that were sent before, and gives what its answer comes by.
    async fn send<T>(
        &self,
        make: impl FnOnce(Reply<T>) -> Request,
    ) -> Result<oneshot::Receiver<Result<T, Failure>>, Failure> {
        let place = tokio::time::timeout(PATIENCE, self.places.clone().acquire_owned())
            .await
            .map_err(|_| Failure::Busy)?
            .map_err(|_| Failure::Closing)?;
        let (reply, answer) = oneshot::channel();
        self.requests.send((make(reply), Some(place))).map_err(|_| Failure::Closing)?;
        Ok(answer)
    }

    /// Gives the engine one input. It is stored when this returns.
    ///
    /// # Errors
    /// When it could not be done; what the engine refuses is an answer, not an error.
    pub async fn apply(&self, input: Input) -> Result<Answer, Failure> {
        let mut answers = self.apply_all(vec![input], Vec::new()).await?;
        answers.pop().ok_or(Failure::Closing)
    }

    /// Gives the engine inputs in order and changes records, all in one commit.
    pub async fn apply_all(&self, inputs: Vec<Input>, changes: Vec<Change>) -> Result<Vec<Answer>, Failure> {
        self.ask(|reply| Request::Apply(inputs, changes, reply)).await
    }

    /// Submits one job or one array.
    pub async fn submit(
        &self,
        caller: Caller,
        job: JobRequest,
        idempotency_key: Option<String>,
    ) -> Result<Submitted, Failure> {
        self.begin_submit(caller, job, idempotency_key).await?.await
    }

    /// The same in two steps, for many in a row: once the first is done the job stands in line behind those before, and so do its
    /// number and its turn.
    pub async fn begin_submit(
        &self,
        caller: Caller,
        job: JobRequest,
        idempotency_key: Option<String>,
    ) -> Result<impl Future<Output = Result<Submitted, Failure>> + Send + use<>, Failure> {
        let asked = Box::new((caller, vec![job], idempotency_key));
        let answer = self.send(|reply| Request::Submit(asked, reply)).await?;
        Ok(async move {
            let (mut jobs, repeated) = answer.await.map_err(|_| Failure::Closing)??;
            let job = jobs.pop().ok_or(Failure::Closing)?;
            Ok(Submitted { repeated, ..job })
        })
    }

    /// Adds elements to an array that is open.
    pub async fn extend(
        &self,
        caller: Caller,
        array: JobId,
        more: MoreElements,
        idempotency_key: Option<String>,
    ) -> Result<Submitted, Failure> {
        let asked = Box::new((caller, array, more, idempotency_key));
        let (mut added, repeated) = self.ask(|reply| Request::Extend(asked, reply)).await?;
        let added = added.pop().ok_or(Failure::Closing)?;
        Ok(Submitted { repeated, ..added })
    }

    /// Submits jobs that depend on each other, all or none.
    pub async fn submit_dag(
        &self,
        caller: Caller,
        dag: DagRequest,
        idempotency_key: Option<String>,
    ) -> Result<SubmittedDag, Failure> {
        let keys: Vec<Option<String>> = dag.jobs.iter().map(|job| job.key.clone()).collect();
        let asked = Box::new((caller, dag.jobs, idempotency_key));
        let (jobs, repeated) = self.ask(|reply| Request::Submit(asked, reply)).await?;
        // What is so of all of them is said once.
        let mut warnings: Vec<String> = jobs.iter().flat_map(|job| job.warnings.clone()).collect();
        let mut said = std::collections::BTreeSet::new();
        warnings.retain(|warning| said.insert(warning.clone()));
        let jobs = keys.into_iter().zip(jobs);
        let jobs: Vec<_> =
            jobs.map(|(key, job)| landfall_api::job::SubmittedKey { key, id: job.id }).collect();
        let id = jobs.first().map(|job| job.id.clone()).unwrap_or_default();
        Ok(SubmittedDag { id, jobs, repeated, warnings })
    }

    /// Registers a node.
    pub async fn register(&self, node: Registering) -> Result<landfall_api::node::Registered, Failure> {
        self.ask(|reply| Request::Register(Box::new(node), reply)).await
    }

    /// Takes a heartbeat in.
    pub async fn heartbeat(
        &self,
        node: NodeId,
        heartbeat: landfall_api::node::Heartbeat,
        most: Most,
    ) -> Result<landfall_api::node::Heard, Failure> {
        self.ask(|reply| Request::Heartbeat(node, Box::new((heartbeat, most)), reply)).await
    }

    /// Takes reports of a node in.
    pub async fn reports(
        &self,
        node: NodeId,
        reports: landfall_api::agent::Reports,
    ) -> Result<landfall_api::agent::ReportAnswers, Failure> {
        self.ask(|reply| Request::Reports(node, reports, reply)).await
    }

    /// Gives work to a pull worker.
    pub async fn ask_for_work(
        &self,
        node: NodeId,
        ask: landfall_api::agent::Ask,
    ) -> Result<landfall_api::agent::Asked, Failure> {
        self.ask(|reply| Request::Ask(node, ask, reply)).await
    }

    /// Notes that somebody has seen an alarm.
    pub async fn acknowledge(
        &self,
        alarm: u64,
        by: String,
    ) -> Result<landfall_api::alarm::AlarmView, Failure> {
        self.ask(|reply| Request::Acknowledge(alarm, by, reply)).await
    }

    /// Asks something about what is stored. The question runs on the driver's thread: be short.
    ///
    /// # Errors
    /// When the server is too busy or going down.
    pub async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut View<'_>) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        self.ask(|reply| {
            Request::Read(Box::new(move |view: &mut View<'_>| {
                // Whoever asked may have gone away.
                let answer = question(view);
                let _ = reply.send(view.sound(answer));
            }))
        })
        .await
    }

    /// What happens from now on, in committed batches. A slow listener is told how much it missed and can read the journal.
    pub fn listen(&self) -> broadcast::Receiver<Arc<[Happened]>> {
        self.happened.subscribe()
    }

    /// Waits until the driver has ended, whoever wanted that.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Engine time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The clock that it comes from.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The agents that are connected.
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Lets the driver make a snapshot and end.
    pub async fn close(&self) {
        let (done, ended) = oneshot::channel();
        if self.requests.send((Request::Close(done), None)).is_ok() {
            let _ = ended.await;
        }
    }
}
