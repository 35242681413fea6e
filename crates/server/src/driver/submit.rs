//! Submissions: accepted all or none, and once where they are repeated under one key.

use std::sync::Arc;

use landfall_api::ApiError;
use landfall_api::job::{JobRequest, Submitted};
use landfall_engine::{Answer, Refused};
use landfall_model::{Indices, JobId};
use landfall_store::Table;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::core::{Core, NEXT_JOB, RememberedAnswers, unreadable};
use super::handle::{Caller, Failure};
use super::jobs::JobMeta;

/// Longest idempotency key in bytes.
const KEY_MAX: usize = 255;

/// Answers to submissions that may be repeated, while they may not be on disk yet.
#[derive(Debug, Default)]
pub(super) struct Remembered(RememberedAnswers);

/// How many answers are kept in memory from one round to the next; all of them are on disk.
const REMEMBERED_MAX: usize = 10_000;

impl Remembered {
    /// All answers are on disk now. Before, whoever asks again in the same round finds them only here.
    pub(super) fn stored(&mut self) {
        if self.0.len() >= REMEMBERED_MAX {
            self.0.clear();
        }
    }
}

/// An answer on disk.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    request: String,
    pub(crate) jobs: Vec<Submitted>,
    pub(crate) at_ms: i64,
}

impl Core {
    /// Accepts all jobs or none.
    pub(super) fn submit(
        &mut self,
        caller: &Caller,
        jobs: Vec<JobRequest>,
        key: Option<&str>,
    ) -> Result<(Vec<Submitted>, bool), Failure> {
        let key = key.map(|key| self.repeatable(caller, key, &jobs)).transpose()?;
        if let Some(Repeatable { before: Some(before), .. }) = key {
            return Ok((before, true));
        }
        let accepted = self.submit_new(caller, jobs)?;
        self.remember(key, &accepted);
        Ok((accepted, false))
    }

    /// Keeps an answer for whoever asks again under its key.
    pub(super) fn remember(&mut self, key: Option<Repeatable>, accepted: &[Submitted]) {
        let Some(key) = key else { return };
        let kept =
            Kept { request: key.request.clone(), jobs: accepted.to_vec(), at_ms: self.now.as_millis() };
        self.put(Table::Idempotency, key.key.clone(), &kept);
        let Remembered(answers) = &mut self.remembered;
        answers.insert(key.key, (key.request, accepted.to_vec()));
    }

    fn submit_new(&mut self, caller: &Caller, jobs: Vec<JobRequest>) -> Result<Vec<Submitted>, Failure> {
        let first = self.next_job;
        let mut view = self.view();
        let prepared = view.intake(caller, jobs, |place| (first + place as u64).to_string());
        let prepared = view.sound(prepared)??;
        let warnings: Vec<Vec<String>> = prepared.iter().map(|job| job.warnings.clone()).collect();
        let metas: Vec<(JobId, Arc<JobMeta>)> =
            prepared.iter().map(|job| (job.submission.job.id.clone(), Arc::new(job.meta.clone()))).collect();
        let accepted = metas.iter().zip(warnings).map(|((id, meta), warnings)| Submitted {
            id: id.to_string(),
            count: meta.array.as_ref().map_or(1, Indices::count),
            repeated: false,
            warnings,
        });
        let accepted: Vec<Submitted> = accepted.collect();
        // The engine may place them at once, and a start command needs to know what to run.
        for (id, meta) in &metas {
            self.jobs.insert(id.clone(), meta.clone());
        }
        let input = match self.input_of(prepared) {
            Ok(input) => input,
            Err(failure) => {
                metas.iter().for_each(|(id, _)| {
                    self.jobs.remove(id);
                });
                return Err(failure);
            }
        };
        if let Answer::Refused(refused) = self.step(input) {
            for (id, _) in &metas {
                self.jobs.remove(id);
            }
            return Err(refused_answer(refused));
        }
        for (id, meta) in &metas {
            self.put(Table::Jobs, id.as_str(), &**meta);
            if let Some(dag) = &meta.dag {
                self.joins_dag(&dag.id, id.as_str());
            }
        }
        self.next_job = first + accepted.len() as u64;
        let next = self.next_job;
        self.put(Table::Meta, NEXT_JOB, &next);
        Ok(accepted)
    }
}

/// An idempotency key and what it gave before.
pub(super) struct Repeatable {
    key: String,
    request: String,
    pub(super) before: Option<Vec<Submitted>>,
}

impl Core {
    pub(super) fn repeatable(
        &mut self,
        caller: &Caller,
        key: &str,
        asked: &impl Serialize,
    ) -> Result<Repeatable, Failure> {
        if key.is_empty() || key.len() > KEY_MAX || key.chars().any(char::is_control) {
            let message = format!("an idempotency key has 1 to {KEY_MAX} printable characters");
            return Err(invalid("idempotency-key", message, "send a random one per submission"));
        }
        let text = serde_json::to_vec(asked).map_err(|error| invalid("", error.to_string(), ""))?;
        let request: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        let key = format!("{} {key}", caller.token);
        let Remembered(answers) = &self.remembered;
        let before = match answers.get(&key) {
            Some(known) => Some(known.clone()),
            None => {
                let kept = self.store.get(Table::Idempotency, &key);
                let kept = kept.map_err(|error| Failure::Storage(error.to_string()))?;
                let kept = kept.map(|bytes| serde_json::from_slice::<Kept>(&bytes)).transpose();
                let kept = kept.map_err(|error| {
                    Failure::Storage(unreadable(Table::Idempotency, &key, error).to_string())
                })?;
                kept.map(|kept| (kept.request, kept.jobs))
            }
        };
        match before {
            Some((known, _)) if known != request => Err(Failure::refused(
                422,
                ApiError::new("idempotency_mismatch", "this idempotency key was used for another submission")
                    .hint("use a new key for a new submission")
                    .field("idempotency-key"),
            )),
            before => Ok(Repeatable { key, request, before: before.map(|(_, jobs)| jobs) }),
        }
    }
}

/// An answer with status 422 that names a field.
pub(super) fn invalid(field: &str, message: impl Into<String>, hint: &str) -> Failure {
    let mut error = ApiError::new("invalid", message);
    if !field.is_empty() {
        error = error.field(field);
    }
    if !hint.is_empty() {
        error = error.hint(hint);
    }
    Failure::refused(422, error)
}

/// The status of a refusal.
pub(super) fn refused_status(code: &str) -> u16 {
    match code {
        "invalid" => 400,
        code if code.starts_with("unknown_") => 404,
        _ => 422,
    }
}

/// How a refusal of the engine is answered.
pub(super) fn refused_answer(refused: Refused) -> Failure {
    let status = refused_status(&refused.code);
    let hint = refused.hint.clone();
    let mut error = ApiError::new(refused.code.clone(), refused.message);
    if !hint.is_empty() {
        error = error.hint(hint);
    }
    Failure::refused(status, error)
}
