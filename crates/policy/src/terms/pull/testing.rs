//! One job, one node and what surrounds them, in a few characters, for the tests of single rules.

use std::collections::BTreeMap;

use landfall_model::Situation;
use landfall_model::scenario::{Format, parse};

use crate::params::Params;
use crate::term::{Term, TermInfo};
use crate::view::{Devices, Pass, View};

/// The clock of every case.
pub(super) const NOW_MS: i64 = 1_000_000_000;

/// A job `j` of workload `w` and a node `n`; unless said otherwise a real build on a node with architectures.
#[derive(Clone)]
pub(super) struct Case {
    info: &'static TermInfo,
    params: String,
    job: String,
    node: String,
    metrics: Option<String>,
    report: Option<String>,
    instance: String,
    prediction: Option<String>,
    tenant: String,
}

impl Case {
    pub(super) fn of(info: &'static TermInfo) -> Self {
        Self {
            info,
            params: String::new(),
            job: "architecture = 'x86_64'".into(),
            node: "architectures = ['x86_64']".into(),
            metrics: None,
            report: None,
            instance: String::new(),
            prediction: None,
            tenant: String::new(),
        }
    }

    /// Parameters of the rule.
    pub(super) fn params(mut self, lines: &str) -> Self {
        self.params = lines.into();
        self
    }

    /// Fields of the job instead of the usual ones.
    pub(super) fn job(mut self, lines: &str) -> Self {
        self.job = lines.into();
        self
    }

    /// Fields of the node instead of the usual ones.
    pub(super) fn node(mut self, lines: &str) -> Self {
        self.node = lines.into();
        self
    }

    /// Fields of the node's metrics; without a call it sent none.
    pub(super) fn metrics(mut self, fields: &str) -> Self {
        self.metrics = Some(fields.into());
        self
    }

    /// What the node reports for the job; without a call it reported nothing.
    pub(super) fn report(mut self, fields: &str) -> Self {
        self.report = Some(fields.into());
        self
    }

    /// Windows and counts of the instance.
    pub(super) fn instance(mut self, lines: &str) -> Self {
        self.instance = lines.into();
        self
    }

    pub(super) fn prediction(mut self, fields: &str) -> Self {
        self.prediction = Some(fields.into());
        self
    }

    /// Fields of the job's tenant `t`.
    pub(super) fn tenant(mut self, lines: &str) -> Self {
        self.tenant = lines.into();
        self
    }

    fn situation(&self) -> Situation {
        let optional = |name: &str, fields: &Option<String>| match fields {
            Some(fields) => format!("{name} = {{ {fields} }}"),
            None => String::new(),
        };
        let report = match &self.report {
            Some(fields) => format!("reports = [{{ job = 'j', node = 'n', {fields} }}]"),
            None => String::new(),
        };
        let text = format!(
            "now_ms = {NOW_MS}\n{report}\n[instance]\n{}\n[[tenants]]\nid = 't'\n{}\n[[workloads]]\nid = 'w'\n{}\n\
             [[nodes]]\nid = 'n'\n{}\n{}\n[[jobs]]\nid = 'j'\nworkload = 'w'\ntenant = 't'\n{}\n",
            self.instance,
            self.tenant,
            optional("prediction", &self.prediction),
            self.node,
            optional("metrics", &self.metrics),
            self.job,
        );
        parse(&text, Format::Toml).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    fn term(&self) -> Box<dyn Term> {
        let own: BTreeMap<String, toml::Value> = toml::from_str(&self.params).unwrap();
        let shared = BTreeMap::new();
        (self.info.build)(&Params { own: &own, shared: &shared }).unwrap()
    }

    /// The points of the rule; those of the default parameters must be in its range.
    pub(super) fn score(&self) -> f64 {
        let situation = self.situation();
        let score = self.seen(&situation, |view| self.term().score(view));
        assert!(score.is_finite());
        if self.params.is_empty() {
            let (min, max) = self.info.range;
            assert!(score >= min && max.is_none_or(|max| score <= max), "{score} is out of range");
        }
        score
    }

    /// Whether the rule vetoes.
    pub(super) fn vetoes(&self) -> bool {
        self.seen(&self.situation(), |view| self.term().veto(view))
    }

    /// How often lazy providers were asked: history, then work share.
    pub(super) fn lazy_calls(&self) -> (u64, u64) {
        let situation = self.situation();
        self.seen(&situation, |view| {
            self.term().score(view);
            let counts = view.pass.lazy_counts();
            (counts.history, counts.tenant_work_share)
        })
    }

    fn seen<T>(&self, situation: &Situation, look: impl FnOnce(&View<'_>) -> T) -> T {
        let (pass, devices) = (Pass::new(situation), Devices::default());
        let (job, node) = (&situation.jobs()[0], &situation.nodes()[0]);
        look(&View {
            filters: &[],
            pass: &pass,
            job,
            spec: &job.spec,
            node,
            devices: &devices,
            ranks_nodes: false,
            explains: true,
        })
    }
}

/// Asserts within the tolerance of the acceptance cases.
#[track_caller]
pub(super) fn close(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-6, "got {got}, want {want}");
}
