//! Own traces become logs, as far as a log can say it: jobs on alike processors, without GPUs.

use std::collections::{BTreeMap, BTreeSet};

use landfall_model::{JobId, TenantId};

use super::{Converted, Shape};
use crate::trace::own::{Submission, Trace};
use crate::trace::swf::{Log, SwfJob};

/// The jobs of a trace as a log, by (submit, place in the trace). Nodes become processors. Names become numbers: jobs
/// keep theirs if all are numbers, tenants called `userN` keep N.
pub fn to_swf(trace: &Trace, shape: Shape) -> (Log, Converted) {
    let mut converted = Converted::default();
    let mut rows: Vec<&Submission> = Vec::new();
    for submission in &trace.submissions {
        match refused(submission) {
            Some(reason) => converted.drop_one(reason),
            None => rows.push(submission),
        }
    }
    rows.sort_by_key(|submission| submission.at);
    let numbers = numbers(&rows);
    let users = users(&rows);
    let nodes = trace.latest_nodes().len() as u64;
    let procs = nodes.saturating_mul(shape.procs_per_node);
    let mut comments = vec![" Version: 2.2".to_owned()];
    if let Some(description) = &trace.header.description {
        comments.push(format!(" Note: {}", description.replace(['\n', '\r'], " ")));
    }
    comments.push(format!(" MaxJobs: {}", rows.len()));
    if procs > 0 {
        comments.push(format!(" MaxProcs: {procs}"));
    }
    let row = |submission: &&Submission| {
        let spec = &submission.job.spec;
        let width =
            i64::from(spec.nodes.max).saturating_mul(i64::try_from(shape.procs_per_node).unwrap_or(i64::MAX));
        let run = submission.run().unwrap_or(spec.walltime_ms);
        let preceding = match submission.after.as_slice() {
            [edge] => numbers.get(&edge.on).copied(),
            _ => None,
        };
        SwfJob {
            number: numbers.get(&submission.job.id).copied().unwrap_or(-1),
            submit: submission.at.as_millis() / 1000,
            run: seconds(run.get()),
            allocated: width,
            requested: width,
            estimate: seconds(spec.walltime_ms.get()),
            user: spec.tenant.as_ref().and_then(|tenant| users.get(tenant).copied()).unwrap_or(-1),
            preceding: preceding.unwrap_or(-1),
            ..SwfJob::UNKNOWN
        }
    };
    let jobs: Vec<SwfJob> = rows.iter().map(row).collect();
    (converted.jobs, converted.nodes) = (jobs.len() as u64, nodes);
    (Log { comments, jobs }, converted)
}

/// Why a log cannot say this job.
fn refused(submission: &Submission) -> Option<&'static str> {
    let spec = &submission.job.spec;
    match () {
        () if spec.is_gpu_job() => Some("asks for GPUs"),
        () if spec.nodes.min != spec.nodes.max => Some("asks for a range of nodes"),
        () if submission.array.is_some() => Some("is an array"),
        () if submission.after.len() > 1 => Some("waits for several jobs"),
        () => None,
    }
}

/// Milliseconds as seconds, rounded up: a job that ran did not run for nothing.
fn seconds(ms: u64) -> i64 {
    i64::try_from(ms.div_ceil(1000)).unwrap_or(i64::MAX)
}

fn numbers(rows: &[&Submission]) -> BTreeMap<JobId, i64> {
    let own = rows.iter().map(|row| row.job.id.as_str().parse::<i64>().ok().filter(|number| *number >= 0));
    let own: Option<Vec<i64>> = own.collect();
    // `7` and `07` are two jobs but one number.
    let own = own.filter(|numbers| numbers.iter().collect::<BTreeSet<_>>().len() == numbers.len());
    let numbers = own.unwrap_or_else(|| (1..).take(rows.len()).collect());
    rows.iter().map(|row| row.job.id.clone()).zip(numbers).collect()
}

fn users(rows: &[&Submission]) -> BTreeMap<TenantId, i64> {
    let tenants: BTreeSet<&TenantId> = rows.iter().filter_map(|row| row.job.spec.tenant.as_ref()).collect();
    let own = |tenant: &&TenantId| {
        tenant.as_str().strip_prefix("user")?.parse::<i64>().ok().filter(|user| *user >= 0)
    };
    let taken: BTreeSet<i64> = tenants.iter().filter_map(own).collect();
    let mut free = (1..).filter(|number| !taken.contains(number));
    let number = |tenant: &TenantId| own(&tenant).or_else(|| free.next()).unwrap_or(-1);
    let mut number = number;
    tenants.iter().map(|&tenant| (tenant.clone(), number(tenant))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::convert::from_swf;
    use crate::trace::own::Header;

    fn read(text: &str) -> Trace {
        Trace::read(format!("{{\"format\":\"landfall.trace\",\"version\":1}}\n{text}").as_bytes()).unwrap()
    }

    #[test]
    fn a_log_comes_back_from_its_own_trace() {
        let text = "; MaxProcs: 8\n3 0 -1 100 4 -1 -1 4 200 -1 1 7 -1 -1 -1 -1 -1 -1\n\
                    5 60 -1 100 1 -1 -1 -1 100 -1 1 -1 -1 -1 -1 -1 -1 -1\n9 60 -1 0 1 -1 -1 1 100 -1 1 2 -1 -1 -1 -1 -1 -1\n";
        let log = Log::read(text.as_bytes()).unwrap();
        let mut own = Vec::new();
        let header = Header { description: Some("a test".to_owned()) };
        let converted = from_swf(&log, 8, Shape::default(), &header, &mut own).unwrap();
        assert_eq!((converted.jobs, converted.nodes), (2, 8));
        assert_eq!(converted.dropped, BTreeMap::from([("did not run".to_owned(), 1)]));
        let (back, _) = to_swf(&Trace::read(own.as_slice()).unwrap(), Shape::default());
        assert_eq!(back.processors(), Some(8));
        let rows: Vec<_> =
            back.jobs.iter().map(|j| (j.number, j.submit, j.run, j.requested, j.estimate, j.user)).collect();
        assert_eq!(rows, [(3, 0, 100, 4, 200, 7), (5, 60, 100, 1, 100, -1)]);
    }

    #[test]
    fn names_become_numbers_and_what_cannot_be_said_is_counted() {
        let trace = read(concat!(
            r#"{"job":{"id":"b","tenant":"lab","walltime_ms":1500},"at_ms":2000,"run_ms":1}"#,
            "\n",
            r#"{"job":{"id":"a","tenant":"user1"},"at_ms":1000,"after":[{"on":"b"}]}"#,
            "\n",
            r#"{"job":{"id":"c","gpu_count":1},"at_ms":0}"#,
            "\n",
            r#"{"job":{"id":"d","nodes":{"min":1,"max":2}},"at_ms":0}"#,
        ));
        let (log, converted) = to_swf(&trace, Shape::default());
        let rows: Vec<_> =
            log.jobs.iter().map(|j| (j.number, j.submit, j.run, j.estimate, j.user, j.preceding)).collect();
        assert_eq!(rows, [(1, 1, 3600, 3600, 1, 2), (2, 2, 1, 2, 2, -1)]);
        assert_eq!(converted.dropped.values().sum::<u64>(), 2);
    }
}
