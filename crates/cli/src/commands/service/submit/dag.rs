//! Jobs and arrays that depend on each other, submitted one after the other: the server takes arrays alone.
//!
//! All of them are held back until the last one is accepted, so that none starts unless all are there.

use std::collections::{BTreeMap, BTreeSet};

use landfall_api::job::{DagRequest, JobRequest, Submitted, SubmittedKey};
use landfall_client::{Client, ClientError, segment};

use super::{Accepted, Target};
use crate::error::{CliError, usage};

pub(super) async fn one_by_one(
    client: &Client,
    key: &str,
    dag: DagRequest,
    quiet: bool,
) -> Result<(Accepted, Vec<Target>), CliError> {
    let mut accepted = Accepted::nothing(quiet);
    let mut found: Vec<(usize, SubmittedKey, Target, bool)> = Vec::new();
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    for place in order(&dag.jobs)? {
        let mut job = dag.jobs[place].clone();
        for wish in &mut job.depends_on {
            if let Some(id) = ids.get(&wish.on) {
                wish.on.clone_from(id);
            }
        }
        let held = std::mem::replace(&mut job.hold, true);
        // Those that come later join the first.
        job.dag = job.dag.or_else(|| accepted.dag.clone());
        let submitted: Result<Submitted, _> =
            client.post_once("/jobs", &format!("{key}-{place}"), &job).await;
        let Submitted { id, count, repeated, warnings } = match submitted {
            Ok(submitted) => submitted,
            Err(error) => {
                for (_, SubmittedKey { id, .. }, ..) in &found {
                    // What was accepted must not stay behind; that it cannot be taken back changes nothing about the error.
                    let _ = client.order::<serde_json::Value>(&format!("/jobs/{}/cancel", segment(id))).await;
                }
                return Err(in_place(error, place).into());
            }
        };
        accepted.dag.get_or_insert_with(|| id.clone());
        accepted.count += count;
        accepted.repeated |= repeated;
        accepted.warnings.extend(warnings);
        let is_array = job.array.is_some() || !job.entries.is_empty();
        let target = if is_array { Target::Array(id.clone()) } else { Target::Job(id.clone()) };
        if let Some(key) = &job.key {
            ids.insert(key.clone(), id.clone());
        }
        found.push((place, SubmittedKey { key: job.key, id }, target, held));
    }
    // Those that wait for others first: whoever is let go may end at once, and with it what others wait for.
    for (_, SubmittedKey { id, .. }, ..) in found.iter().rev().filter(|(.., held)| !held) {
        match client.order::<serde_json::Value>(&format!("/jobs/{}/release", segment(id))).await {
            // What it waits for outside has ended otherwise by now.
            Err(ClientError::Refused { error, .. }) if error.code == "not_pending" => {}
            released => drop(released?),
        }
    }
    found.sort_by_key(|(place, ..)| *place);
    let mut targets = Vec::new();
    for (_, job, target, _) in found {
        accepted.jobs.push(job);
        targets.push(target);
    }
    Ok((accepted, targets))
}

/// The error with the place of the job in the submission.
fn in_place(mut error: ClientError, place: usize) -> ClientError {
    if let ClientError::Refused { error, .. } = &mut error {
        let field = error.field.take().map(|field| format!(".{field}")).unwrap_or_default();
        error.field = Some(format!("jobs[{place}]{field}"));
    }
    error
}

/// The jobs in an order in which each comes after those it waits for.
fn order(jobs: &[JobRequest]) -> Result<Vec<usize>, CliError> {
    let keys: BTreeSet<&str> = jobs.iter().filter_map(|job| job.key.as_deref()).collect();
    let (mut order, mut done): (Vec<usize>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
    while order.len() < jobs.len() {
        let ready = |job: &JobRequest| {
            job.depends_on
                .iter()
                .all(|wish| !keys.contains(wish.on.as_str()) || done.contains(wish.on.as_str()))
        };
        let next: Vec<usize> =
            (0..jobs.len()).filter(|place| !order.contains(place) && ready(&jobs[*place])).collect();
        if next.is_empty() {
            return Err(usage(
                "these jobs wait for each other in a circle",
                "take one of the dependencies out",
            ));
        }
        done.extend(next.iter().filter_map(|place| jobs[*place].key.as_deref()));
        order.extend(next);
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use landfall_api::job::DependsOn;

    use super::*;

    fn job(key: &str, on: &[&str]) -> JobRequest {
        let on = on.iter().map(|on| DependsOn { on: (*on).to_owned(), kind: Default::default() });
        JobRequest { key: Some(key.to_owned()), depends_on: on.collect(), ..JobRequest::default() }
    }

    #[test]
    fn who_is_waited_for_comes_first_and_circles_are_refused() {
        let jobs = [job("c", &["b", "12"]), job("a", &[]), job("b", &["a"])];
        assert_eq!(order(&jobs).unwrap(), [1, 2, 0]);
        assert!(order(&[job("a", &["b"]), job("b", &["a"])]).is_err());
        assert!(order(&[job("a", &["a"])]).is_err());
    }
}
