//! What services say about themselves: a file each, in which a job keeps a number and, behind it, how many requests wait.

use std::io::Read as _;
use std::path::Path;

use landfall_api::node::JobMetric;
use landfall_model::life::Fence;

use crate::layout::Layout;

/// What is read of a file at most.
const LENGTH_MAX: u64 = 256;

/// What the attempts that run here say.
pub(crate) fn told(layout: &Layout, running: &[Fence]) -> Vec<JobMetric> {
    // Most jobs say nothing, and most agents have none that does.
    let any = std::fs::read_dir(layout.metrics()).is_ok_and(|mut entries| entries.next().is_some());
    if !any {
        return Vec::new();
    }
    running.iter().filter_map(|fence| metric(fence.job.as_str(), &layout.metric(fence))).collect()
}

fn metric(job: &str, path: &Path) -> Option<JobMetric> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(LENGTH_MAX).read_to_string(&mut text).ok()?;
    Some(parse(job, &text))
}

/// `12.5`, or `12.5 3` if three requests wait. What is no number counts as not told.
fn parse(job: &str, text: &str) -> JobMetric {
    let mut words = text.split_whitespace();
    let value = words.next().and_then(|word| word.parse::<f64>().ok());
    let queue = words.next().and_then(|word| word.parse().ok());
    JobMetric {
        job: job.to_owned(),
        value: value.filter(|value| value.is_finite() && *value >= 0.0),
        queue: queue.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_what_waits() {
        for (text, value, queue) in [
            ("12.5\n", Some(12.5), 0),
            (" 3 7", Some(3.0), 7),
            ("0", Some(0.0), 0),
            ("", None, 0),
            ("many 4", None, 4),
            ("-1", None, 0),
            ("NaN", None, 0),
            ("inf 2", None, 2),
            ("1 -2", Some(1.0), 0),
        ] {
            assert_eq!(parse("j", text), JobMetric { job: "j".into(), value, queue }, "{text:?}");
        }
    }
}
