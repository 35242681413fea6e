//! Names of files that a job writes to.

use landfall_api::agent::Start;
use landfall_api::fill::{fill, names};

/// The name with its placeholders filled in. The nodes of a gang may share their files: those behind the first add their place.
pub(crate) fn name(pattern: &str, start: &Start, node: &str) -> String {
    let rank = start.nodes.iter().position(|name| name == node).unwrap_or_default();
    let job = || start.fence.job.as_str().to_owned();
    let name = fill(pattern, |name| {
        Some(match name {
            "job" => job(),
            "array" => start.array.as_ref().map_or_else(job, |(array, _)| array.clone()),
            "index" => start.array.as_ref().map_or(0, |(_, index)| *index).to_string(),
            // A name may hold anything, and must not lead elsewhere.
            "name" => start.name.clone().unwrap_or_else(|| "job".to_owned()).replace('/', "_"),
            "node" => node.to_owned(),
            "rank" => rank.to_string(),
            "attempt" => start.fence.attempt.to_string(),
            _ => return None,
        })
    });
    let apart = rank == 0
        || pattern == "/dev/null"
        || names(pattern).iter().any(|name| matches!(*name, "node" | "rank"));
    if apart { name } else { format!("{name}.{rank}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tests::start;

    #[test]
    fn names_say_whose_they_are() {
        let mut start = start("process", &["true"]);
        assert_eq!(name("{array}-{job}-{index}-{name}.out", &start, "n1"), "job-1-job-1-0-job.out");
        start.array = Some(("12".into(), 7));
        start.name = Some("../sweep".into());
        assert_eq!(name("{array}_{index:3}_{name}", &start, "n1"), "12_007_.._sweep");
        start.nodes = vec!["a".into(), "b".into()];
        assert_eq!((name("o", &start, "a"), name("o", &start, "b")), ("o".to_owned(), "o.1".to_owned()));
        assert_eq!(name("o-{node}", &start, "b"), "o-b");
        assert_eq!(name("/dev/null", &start, "b"), "/dev/null");
    }
}
