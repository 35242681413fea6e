//! One job and one node for the tests of single filters.

use std::collections::BTreeMap;

use landfall_model::scenario::{Format, parse};

use crate::filter::FilterInfo;
use crate::params::Params;
use crate::refusal::Refusal;
use crate::view::{Devices, Pass, View};

/// The clock of every case.
pub(crate) const NOW_MS: i64 = 1_000_000;

/// What a filter says about a job and a node, each given by its fields.
pub(crate) fn check(info: &FilterInfo, params: &str, job: &str, node: &str) -> Option<Refusal> {
    let text = format!("now_ms = {NOW_MS}\n[[jobs]]\nid = 'j'\n{job}\n[[nodes]]\nid = 'n'\n{node}\n");
    let situation = parse(&text, Format::Toml).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let own: BTreeMap<String, toml::Value> = toml::from_str(params).unwrap();
    let filter = (info.build)(&Params { own: &own, shared: &BTreeMap::new() }).unwrap();
    let (pass, devices) = (Pass::new(&situation), Devices::default());
    let (job, node) = (&situation.jobs()[0], &situation.nodes()[0]);
    let view = View {
        pass: &pass,
        filters: &[],
        job,
        spec: &job.spec,
        node,
        devices: &devices,
        ranks_nodes: false,
        explains: true,
    };
    let refusal = filter.check(&view);
    if let Some(refusal) = &refusal {
        assert!(info.reasons.contains(&refusal.reason), "{} is no declared reason", refusal.reason);
        assert!(!refusal.remedy.is_empty(), "a refusal says what would change it");
    }
    refusal
}

/// Whether a filter without parameters admits.
pub(crate) fn admits(info: &FilterInfo, job: &str, node: &str) -> bool {
    check(info, "", job, node).is_none()
}

/// What a filter without parameters says against a pair that it must refuse.
#[track_caller]
pub(crate) fn refusal(info: &FilterInfo, job: &str, node: &str) -> Refusal {
    check(info, "", job, node).expect("the filter refuses")
}

/// All that a refusal says but its remedy, in one line.
pub(crate) fn told(refusal: &Refusal) -> String {
    let Refusal { reason, class, wake, needed, found, .. } = refusal;
    format!("{reason:?} {class:?} {wake:?}: {needed}, not {found}")
}
