//! What jobs of other peers may do here: the limits of whoever runs this server, beside those of trust and capacity.
//!
//! A request says enough to be declined before anybody counts on this peer; a body that comes later is looked at before it is run.

use landfall_api::job::JobRequest;
use landfall_model::{Mib, MilliCpu, Millis, Needs, OnDisconnect};
use landfall_negotiate::{PlacementRequest, Profile, Reason};

/// The limits. As they are usually: any runtime that the machines have, any variables, the network of the machine, a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// Runtimes that they may use; none means any.
    pub runtimes: Vec<String>,
    /// Variables that they may set: names, or beginnings of names followed by `*`.
    pub env: Vec<String>,
    /// Whether they may use the network. Containers are cut off from it; a process cannot be, and is declined.
    pub network: bool,
    /// How long they may run.
    pub walltime: Millis,
}

impl Default for Foreign {
    fn default() -> Self {
        Self {
            runtimes: Vec::new(),
            env: vec!["*".to_owned()],
            network: true,
            walltime: Millis::secs(86_400),
        }
    }
}

impl Foreign {
    /// Why a request is declined, as far as it tells.
    pub(crate) fn against(&self, request: &PlacementRequest) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let runtimes = &request.runtimes;
        if !runtimes.is_empty() && !runtimes.iter().any(|runtime| self.runs(runtime.as_str())) {
            reasons.push(Reason::ForeignRuntime);
        }
        let inline = request.body.inline.as_ref();
        let body = inline.and_then(|bytes| serde_json::from_slice::<JobRequest>(bytes.as_slice()).ok());
        for reason in body.iter().flat_map(|wanted| self.against_job(wanted, request.profile.as_ref())) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons
    }

    fn runs(&self, runtime: &str) -> bool {
        self.runtimes.is_empty() || self.runtimes.iter().any(|known| known == runtime)
    }

    fn may_set(&self, name: &str) -> bool {
        self.env.iter().any(|known| match known.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == known,
        })
    }

    fn against_job(&self, wanted: &JobRequest, announced: Option<&Profile>) -> Vec<Reason> {
        let run = &wanted.run;
        let runtime = wanted.needs.runtime.as_ref().map_or(run.runtime(), |named| named.as_str());
        let longest = run.timeout_ms.into_iter().chain(wanted.needs.walltime_ms.map(Millis::get)).min();
        let rules = [
            (Reason::ForeignRuntime, self.runs(runtime)),
            (Reason::ForeignEnvironment, run.env.keys().all(|name| self.may_set(name))),
            (Reason::ForeignNetwork, self.network || matches!(runtime, "container" | "wasm")),
            (Reason::ForeignMounts, run.mounts.is_empty()),
            (Reason::ForeignWalltime, longest.is_none_or(|ms| ms <= self.walltime.get())),
            (Reason::ForeignNeeds, is_within(&wanted.needs, announced)),
        ];
        rules.into_iter().filter(|(_, holds)| !holds).map(|(reason, _)| reason).collect()
    }

    /// The job of another peer as it may run here: nothing of this machine but what its runtime gives every job.
    pub(crate) fn admit(
        &self,
        wanted: JobRequest,
        announced: Option<&Profile>,
        lease_ms: u64,
    ) -> Result<JobRequest, Reason> {
        if let Some(reason) = self.against_job(&wanted, announced).into_iter().next() {
            return Err(reason);
        }
        let mut job = under_lease(wanted, lease_ms);
        job.needs.priority = None;
        job.run.cwd = None;
        job.run.submitted_from = None;
        job.run.offline |= !self.network && job.run.image.is_some();
        job.run.timeout_ms = Some(job.run.timeout_ms.unwrap_or(self.walltime.get()));
        Ok(job)
    }
}

/// Whether a job asks for no more than what was announced of it, which is what room is kept for.
fn is_within(needs: &Needs, announced: Option<&Profile>) -> bool {
    let minimal = Profile::minimal();
    let most = announced.unwrap_or(&minimal);
    let gpu = most.gpu.as_ref();
    let within = |asked: Option<u64>, most: Option<u64>| asked.unwrap_or(0) <= most.unwrap_or(0);
    within(needs.cpu_milli.map(MilliCpu::get), most.cpu_milli)
        && within(needs.ram_mib.map(Mib::get), most.memory_mib)
        && within(needs.storage_mib.map(Mib::get), most.storage_mib)
        && within(needs.network_mbit_s.map(u64::from), most.network_mbit_s.map(u64::from))
        && within(needs.gpu_count.map(u64::from), gpu.map(|gpu| u64::from(gpu.count)))
        && within(needs.vram_mib.map(Mib::get), gpu.and_then(|gpu| gpu.memory_mib))
        && needs.nodes.is_none_or(|nodes| nodes.max <= 1)
}

/// A job that this server won, as it is submitted here. Its arbiter gives it up after the lease; what lost its server must be gone
/// before that.
pub(crate) fn under_lease(wanted: JobRequest, lease_ms: u64) -> JobRequest {
    let JobRequest { name, mut needs, run, .. } = wanted;
    (needs.tenant, needs.workload) = (None, None);
    needs.on_disconnect = Some(OnDisconnect::Stop);
    needs.disconnect_stop_after_ms = Some(Millis::new(lease_ms / 2));
    JobRequest { name, needs, run, ..JobRequest::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(fields: serde_json::Value) -> JobRequest {
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn what_is_not_allowed_is_named() {
        let limits = Foreign {
            runtimes: vec!["container".into(), "process".into()],
            env: vec!["MY_*".into(), "SEED".into()],
            network: false,
            walltime: Millis::secs(60),
        };
        let announced = Profile { cpu_milli: Some(1000), ..Profile::default() };
        let against = |fields| limits.against_job(&job(fields), Some(&announced));
        assert_eq!(against(json!({"run": {"image": "i", "env": {"MY_X": "1", "SEED": "2"}}})), []);
        assert_eq!(against(json!({"run": {"command": ["true"]}})), [Reason::ForeignNetwork]);
        assert_eq!(against(json!({"run": {"module": "m"}})), [Reason::ForeignRuntime]);
        assert_eq!(
            against(json!({"run": {"image": "i", "env": {"SEEDS": "1"}}})),
            [Reason::ForeignEnvironment]
        );
        assert_eq!(against(json!({"run": {"image": "i", "timeout_ms": 60_001}})), [Reason::ForeignWalltime]);
        for needs in [
            json!({"cpu_milli": 1001}),
            json!({"ram_mib": 1}),
            json!({"gpu_count": 1}),
            json!({"nodes": 2}),
            json!({"storage_mib": 1}),
        ] {
            assert_eq!(against(json!({"run": {"image": "i"}, "needs": needs})), [Reason::ForeignNeeds]);
        }
        assert_eq!(against(json!({"run": {"image": "i"}, "needs": {"cpu_milli": 1000}})), []);
        let mount = json!({"source": "/", "target": "/host", "writable": true});
        assert_eq!(against(json!({"run": {"image": "i", "mounts": [mount]}})), [Reason::ForeignMounts]);
    }

    #[test]
    fn what_is_allowed_gets_nothing_more_than_that() {
        let usual = Foreign::default();
        let wanted = job(json!({"run": {"command": ["true"], "cwd": "/root"}}));
        let admitted = usual.admit(wanted, None, 15_000).unwrap();
        assert_eq!((admitted.run.cwd, admitted.run.timeout_ms), (None, Some(86_400_000)));
        let cut_off = Foreign { network: false, ..Foreign::default() };
        assert!(cut_off.admit(job(json!({"run": {"image": "i"}})), None, 15_000).unwrap().run.offline);
    }
}
