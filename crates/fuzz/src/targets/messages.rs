//! Bodies of requests and answers as their types. The first line of an input names the type, the rest is JSON.

use landfall_api::agent::{
    Ask, Asked, Command, Fetches, LogPieces, LogsKept, Probed, ReportAnswers, Reports,
};
use landfall_api::answer::{JobPatch, PlanRequest, ResumeRequest};
use landfall_api::fleet::{PoolRequest, ReleaseRequest, ReserveRequest};
use landfall_api::job::{DagRequest, JobRequest, JobView};
use landfall_api::node::{Heard, Heartbeat, Registered, Registration};
use landfall_api::token::TokenRequest;
use landfall_model::{Needs, Tenant};

use crate::again;

type Reader = fn(&str);

/// Reads a body as a type, and again after writing it.
macro_rules! readers {
    ($($name:literal: $kind:ty,)*) => {
        &[$(($name, |text| { let _ = again::json::<$kind>(text); })),*]
    };
}

const BODIES: &[(&str, Reader)] = readers! {
    "job": JobRequest,
    "dag": DagRequest,
    "needs": Needs,
    "patch": JobPatch,
    "resume": ResumeRequest,
    "plan": PlanRequest,
    "pool": PoolRequest,
    "tenant": Tenant,
    "reserve": ReserveRequest,
    "release": ReleaseRequest,
    "token": TokenRequest,
    "job-view": JobView,
};

const AGENT: &[(&str, Reader)] = readers! {
    "command": Command,
    "registration": Registration,
    "registered": Registered,
    "heartbeat": Heartbeat,
    "heard": Heard,
    "reports": Reports,
    "report-answers": ReportAnswers,
    "ask": Ask,
    "asked": Asked,
    "fetches": Fetches,
    "logs": LogPieces,
    "logs-kept": LogsKept,
    "probed": Probed,
};

pub(crate) fn bodies(input: &[u8]) {
    read(BODIES, input);
}

pub(crate) fn agent(input: &[u8]) {
    read(AGENT, input);
}

fn read(readers: &[(&str, Reader)], input: &[u8]) {
    let Some((name, body)) = std::str::from_utf8(input).ok().and_then(|text| text.split_once('\n')) else {
        return;
    };
    if let Some((_, reader)) = readers.iter().find(|(known, _)| *known == name) {
        reader(body);
    }
}
