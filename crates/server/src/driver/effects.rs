//! What the engine wants done, as commands to agents.

use landfall_api::agent::{Command, Share, Start};
use landfall_engine::answers::misfit;
use landfall_engine::record::{JobRecord, Phase};
use landfall_engine::{Effect, Fence, Input};
use landfall_model::life::Refused;
use landfall_model::{Dispatch, JobId, Lifecycle, Millis, NodeId, OnDisconnect, Placement, Pool};

use super::core::Core;
use super::jobs::element_of;
use super::stats::Stats;

/// Why a pool cannot be as it is set: nothing here would carry out what the engine then wants done.
pub(super) fn unable(pool: &Pool) -> Option<Refused> {
    if pool.batch.staging {
        let message = format!("pool `{}` has staging = true, and nothing can stage inputs yet", pool.id);
        return Some(Refused::new(
            "staging_unsupported",
            message,
            "leave `staging` out; jobs then start wherever there is room",
        ));
    }
    None
}

/// Why a pool shall not have this policy. One that the settings file names starts all the same, with a warning: an old file must not
/// keep a cluster from starting.
pub(super) fn unsuited(pool: &Pool, policy: Option<&str>) -> Option<Refused> {
    let message = misfit(pool, policy)?;
    Some(Refused::new("policy_family", message, "`landfall policy list` shows what each is for"))
}

impl Core {
    /// Does without what pools of an older journal ask for and nobody can do.
    pub(super) fn ignore_what_cannot_be_done(&mut self) {
        let pools = self.engine.state().pools.values();
        let asking: Vec<_> = pools
            .filter_map(|state| Some((state.pool.clone(), state.policy.clone(), unable(&state.pool)?)))
            .collect();
        for (mut pool, policy, refused) in asking {
            tracing::warn!(hint = refused.hint, "{}; it is ignored", refused.message);
            if std::mem::take(&mut pool.batch.staging) {
                self.step(Input::SetPool { pool: Box::new(pool), policy });
            }
        }
    }

    pub(super) fn send_effect(&mut self, effect: Effect) {
        let (node, command) = match effect {
            Effect::Start { fence, node, placement, resume, ahead } => {
                let Some(start) = self.start_command(fence, &placement, resume) else { return };
                (node, Command::Start(Box::new(Start { ahead, ..start })))
            }
            Effect::GiveBack { fence, node } => (node, Command::GiveBack { fence }),
            Effect::Stop { fence, node, grace } => {
                if !self.stops.may(&node, &fence, grace, self.now) {
                    return;
                }
                (node, Command::Stop { fence, grace_ms: grace.get() })
            }
            Effect::Checkpoint { fence, node, deadline, leave } => {
                let within_ms = deadline.since(self.now).get();
                (node, Command::Checkpoint { fence, within_ms, leave })
            }
            Effect::Notice { fence, by } => {
                let in_ms = by.since(self.now).get();
                for node in self.nodes_of(&fence) {
                    self.tell(&node, Command::Notice { fence: fence.clone(), in_ms });
                }
                return;
            }
            Effect::Probe(node) => (node, Command::Probe),
            Effect::Alert(alert) => return self.alert(&alert),
            other => return tracing::warn!(effect = ?other, "nobody here can do this"),
        };
        self.tell(&node, command);
    }

    pub(super) fn tell(&self, node: &NodeId, command: Command) {
        if self.connections.tell(node, command) {
            Stats::add(&self.stats.commands, 1);
        }
    }

    fn nodes_of(&self, fence: &Fence) -> Vec<NodeId> {
        let run = self.engine.state().job(&fence.job).and_then(|record| record.run.as_ref());
        run.into_iter().flat_map(|run| &run.nodes).map(|at| at.node.clone()).collect()
    }

    /// How long the present run of a job may take, where walltimes are enforced; elsewhere `run.timeout_ms` limits it.
    fn enforced_walltime(&self, record: &JobRecord) -> Option<Millis> {
        let pool = self.engine.state().pools.get(&record.pool)?;
        if pool.pool.dispatch != Dispatch::Batch || record.job.spec.lifecycle != Lifecycle::Bounded {
            return None;
        }
        let run = record.run.as_deref();
        let whole = run.and_then(|run| Some(run.ends_at?.since(run.started_at?)));
        whole.or_else(|| record.walltime())
    }

    /// Tells the nodes of a job, or one of them, how long it may run now: while the server is away they stop it by that. A start of
    /// what runs starts nothing.
    pub(super) fn tell_walltime(&mut self, job: &JobId, only: Option<&NodeId>) {
        let state = self.engine.state();
        let Some(record) = state.job(job).filter(|record| self.enforced_walltime(record).is_some()) else {
            return;
        };
        let fence = state.fence(record);
        let nodes = record.run.iter().flat_map(|run| &run.nodes).filter(|at| at.phase != Phase::Ended);
        let starts = nodes.filter(|at| only.is_none_or(|only| *only == at.node)).filter_map(|at| {
            let (node, _) = state.node(&at.node)?;
            let placement = Box::new(node.placements.iter().find(|it| it.job == *job)?.clone());
            let (fence, node) = (fence.clone(), at.node.clone());
            Some(Effect::Start { fence, node, placement, resume: false, ahead: false })
        });
        let starts: Vec<Effect> = starts.collect();
        self.effects.extend(starts);
    }

    /// A node listens again that may have missed how long its jobs may run now: what differs from what it was told first is told
    /// again.
    pub(super) fn tell_walltimes(&mut self, id: &NodeId) {
        let state = self.engine.state();
        let Some((node, _)) = state.node(id) else { return };
        let changed = node.placements.iter().filter(|placement| {
            let now = state.job(&placement.job).and_then(|record| self.enforced_walltime(record));
            now.is_some() && now != placement.walltime
        });
        let changed: Vec<JobId> = changed.map(|placement| placement.job.clone()).collect();
        changed.iter().for_each(|job| self.tell_walltime(job, Some(id)));
    }

    /// Why the walltime of a job cannot be changed: only batch pools stop jobs by it. Elsewhere its node got a limit with its start.
    pub(super) fn unenforced(&self, input: &Input) -> Option<Refused> {
        let (Input::SetWalltime { job, .. } | Input::Resume { job, walltime: Some(_) }) = input else {
            return None;
        };
        let state = self.engine.state();
        let alone = state.job(job).map(|record| &record.pool);
        let pool = alone.or_else(|| state.element_of(job).map(|(array, _)| &array.pool))?;
        if state.pools.get(pool)?.pool.dispatch == Dispatch::Batch {
            return None;
        }
        let message = format!(
            "pool `{pool}` does not plan time, so how long job `{job}` may run was settled when it was submitted"
        );
        Some(Refused::new(
            "walltime_unsupported",
            message,
            "cancel it and submit it again with another `--walltime`",
        ))
    }

    fn start_command(&self, fence: Fence, placement: &Placement, resume: bool) -> Option<Start> {
        let record = self.engine.state().job(&fence.job)?;
        let meta = self.jobs.meta(&fence.job)?;
        let spec = &record.job.spec;
        let nodes: Vec<String> =
            record.run.iter().flat_map(|run| &run.nodes).map(|at| at.node.to_string()).collect();
        let device = placement.devices.first();
        let raw = record.run.as_ref().and_then(|run| run.why.raw_speed).filter(|_| spec.runs_with("llmcpp"));
        let array = element_of(fence.job.as_str()).map(|(array, index)| (array.to_owned(), index));
        Some(Start {
            name: meta.name.clone(),
            runtime: spec.runtime.to_string(),
            run: meta.run_of(array.as_ref().map(|(_, index)| *index)),
            share: Share {
                cpu_milli: placement.cpu.get(),
                ram_mib: placement.ram.get(),
                gpus: placement.devices.iter().map(|device| device.index).collect(),
                vram_mib: device.map_or(0, |device| device.vram.get()),
                gpu_milli: device.map_or(0, |device| device.milli.get()),
                exclusive: placement.exclusive_node,
                slice: device
                    .and_then(|device| device.slice)
                    .map(|it| super::view::slice(it.compute, it.start)),
            },
            pool: record.pool.to_string(),
            tenant: spec.tenant.as_ref().map(ToString::to_string),
            array,
            nodes: if nodes.len() > 1 { nodes } else { Vec::new() },
            resume,
            walltime_ms: self.enforced_walltime(record).map(Millis::get),
            stop_after_silence_ms: (spec.on_disconnect == OnDisconnect::Stop)
                .then_some(spec.disconnect_stop_after_ms.get()),
            sent_at_ms: Some(self.now.as_millis()),
            task: record.run.as_ref().and_then(|run| run.task),
            inputs: spec.inputs.iter().flatten().map(|input| input.digest.to_string()).collect(),
            ahead: false,
            expected_milli_tok_s: raw.map(|tok_s| (tok_s * 1000.0).round() as u64),
            fence,
        })
    }
}
