//! What people, networks and machines do to a world.

use landfall_engine::input::{NodeOrder, Report};
use landfall_engine::{Fence, Input};
use landfall_model::{Caps, Indices, JobId, Millis, NodeId};

use crate::agent::Mail;
use crate::fleet;
use crate::work;
use crate::world::{Found, World};

impl World {
    fn any_job(&mut self) -> Option<JobId> {
        // Mostly one of the last ones: the others have ended.
        let from = if self.rng.chance(80) { self.jobs.len().saturating_sub(8) } else { 0 };
        let jobs = self.jobs[from..].to_vec();
        self.rng.pick(&jobs)
    }

    fn any_node(&mut self) -> Option<NodeId> {
        let nodes: Vec<NodeId> = self.agents.keys().cloned().collect();
        self.rng.pick(&nodes)
    }

    fn do_to_job(&mut self, input: impl FnOnce(JobId) -> Input) -> Found {
        if let Some(job) = self.any_job() {
            self.step(input(job))?;
        }
        Ok(())
    }

    pub(crate) fn act(&mut self) -> Found {
        let what = if self.prompt { 0 } else { self.rng.below(100) };
        match what {
            0..34 => self.submit(),
            34..42 => self.submit_several(),
            42..47 => self.do_to_job(Input::Cancel),
            47..48 => self.do_to_job(Input::CancelWaiting),
            48..52 => {
                let held = self.rng.chance(40);
                self.do_to_job(|job| Input::UserHold { job, held })
            }
            52..55 => self.do_to_job(Input::Suspend),
            55..58 => {
                let walltime = self.rng.chance(50).then(|| Millis::secs(30));
                self.do_to_job(|job| Input::Resume { job, walltime })
            }
            58..60 => self.do_to_job(Input::Checkpoint),
            60..62 => {
                let walltime = Millis::secs(self.rng.within(1, 200));
                self.do_to_job(|job| Input::SetWalltime { job, walltime })
            }
            62..64 => self.do_to_job(Input::Forget),
            64..70 => self.reserve(),
            70..73 => self.do_to_hold(),
            73..79 => self.order(),
            79..86 => self.disturb(),
            86..88 => self.change_hardware(),
            88..91 => self.change_settings(),
            91..93 => self.lie(),
            93..94 => self.step(Input::TakeOver).map(drop),
            94..96 => {
                let node = self.any_node();
                let good = self.rng.chance(50);
                node.map_or(Ok(()), |node| self.step(Input::Probe { node, good }).map(drop))
            }
            96..97 => {
                let Some(pool) = self.rng.pick(&self.pools.clone()) else { return Ok(()) };
                let power_w = self.rng.chance(50).then(|| self.rng.below(3000));
                self.step(Input::Measure { pool: pool.id, power_w, io_bytes_s: Some(100) }).map(drop)
            }
            97..98 => {
                // From a copy, so that all other draws stay as they are.
                let mut beside = self.rng.clone();
                let power_w = beside.chance(50).then(|| beside.within(500, 6000));
                self.step(Input::SetCaps(Caps { power_w, io_bytes_s: None }))?;
                self.step(Input::EnergyPrice(Some(0.3))).map(drop)
            }
            98..99 => {
                let Some(node) = self.any_node() else { return Ok(()) };
                let tenant = fleet::tenant(&mut self.rng, 0).id;
                self.step(Input::RevokeTenant { node, tenant }).map(drop)
            }
            _ => self.step(Input::Tick).map(drop),
        }
    }

    fn submit(&mut self) -> Found {
        let Some(pool) = self.rng.pick(&self.pools.clone()) else { return Ok(()) };
        let count = if self.rng.chance(10) { self.rng.within(2, 6) } else { 1 };
        for _ in 0..count {
            let id = format!("j{}", self.next_job);
            self.next_job += 1;
            let submission = work::one(&mut self.rng, id, &pool, self.tenants, self.now);
            self.jobs.push(submission.job.id.clone());
            self.step(Input::Submit(vec![submission.clone()]))?;
            if self.rng.chance(5) {
                self.step(Input::Submit(vec![submission]))?;
            }
        }
        Ok(())
    }

    /// An array that waits for nothing, or for an earlier job or array; some of its elements are named later on.
    fn submit_array(&mut self) -> Found {
        use landfall_engine::dag::{Edge, EdgeKind};
        let Some(pool) = self.rng.pick(&self.pools.clone()) else { return Ok(()) };
        let id = format!("r{}", self.next_job);
        self.next_job += 1;
        let mut submission = work::one(&mut self.rng, id, &pool, self.tenants, self.now);
        let (first, step) = (self.rng.below(9) as u32, self.rng.within(1, 3) as u32);
        let last = first + self.rng.below(12) as u32;
        if let Some(on) = self.any_job().filter(|_| self.rng.chance(40)) {
            let kinds = [EdgeKind::Success, EdgeKind::Any, EdgeKind::Failure, EdgeKind::Corresponding];
            submission.edges.push(Edge { on, kind: self.rng.pick(&kinds).unwrap_or_default() });
        }
        let spec = std::sync::Arc::make_mut(&mut submission.job.spec);
        spec.at_once = self.rng.chance(25).then(|| self.rng.within(1, 4) as u32);
        spec.max_fails = self.rng.chance(15).then(|| self.rng.below(3) as u32);
        let array = submission.job.id.clone();
        self.jobs.push(array.clone());
        for _ in 0..self.rng.below(4) {
            let index = self.rng.within(u64::from(first), u64::from(last)) as u32;
            self.jobs.extend(landfall_engine::array::element_id(&array, index, last).ok());
        }
        let range = Indices::range(first, last, step);
        // Some are lists: all but one of a range.
        let indices = match last % 4 {
            3 => Indices::listed(range.iter().filter(|index| *index != first + step).collect())
                .unwrap_or(range),
            _ => range,
        };
        self.step(Input::SubmitArray { submission: Box::new(submission), indices }).map(drop)
    }

    fn submit_several(&mut self) -> Found {
        if self.rng.chance(35) {
            return self.submit_array();
        }
        let Some(pool) = self.rng.pick(&self.pools.clone()) else { return Ok(()) };
        let mut all = work::several(&mut self.rng, self.next_job, &pool, self.tenants, self.now);
        self.next_job += all.len() as u64;
        if let Some(earlier) = self.any_job().filter(|_| self.rng.chance(30)) {
            // One of them waits for a job of an earlier submission.
            use landfall_engine::dag::{Edge, EdgeKind};
            let kind = self.rng.pick(&[EdgeKind::Success, EdgeKind::Any, EdgeKind::Mutex, EdgeKind::Failure]);
            all[0].edges.push(Edge { on: earlier, kind: kind.unwrap_or_default() });
        }
        self.jobs.extend(all.iter().map(|submission| submission.job.id.clone()));
        self.step(Input::Submit(all)).map(drop)
    }

    fn reserve(&mut self) -> Found {
        let (Some(job), Some(node)) = (self.any_job(), self.any_node()) else { return Ok(()) };
        let asked = self.engine.state().job(&job).map_or(0, |record| record.job.spec.gpu_count) as u16;
        let first = self.rng.below(3) as u16;
        let gpus = (first..first + asked).collect();
        let lifetime = self.rng.chance(60).then(|| Millis::secs(self.rng.within(1, 60)));
        self.step(Input::Hold { job, node, gpus, lifetime, fence: None })?;
        if self.rng.chance(30) {
            self.do_to_hold()?;
        }
        Ok(())
    }

    fn do_to_hold(&mut self) -> Found {
        let from = self.holds.len().saturating_sub(3);
        let Some(hold) = self.rng.pick(&self.holds[from..]) else { return Ok(()) };
        let input = if self.rng.chance(60) { Input::Place(hold) } else { Input::Release(hold) };
        self.step(input).map(drop)
    }

    fn order(&mut self) -> Found {
        let Some(node) = self.any_node() else { return Ok(()) };
        let order = match self.rng.below(10) {
            0..5 => NodeOrder::Drain,
            5..8 => NodeOrder::Return,
            8 => {
                let at = Some(self.now + Millis::secs(self.rng.within(1, 600)));
                let why = Some("rewiring".to_owned());
                return self.step(Input::Maintain { node, at, why }).map(drop);
            }
            _ => NodeOrder::Leave,
        };
        self.step(Input::Order { node, order }).map(drop)
    }

    /// An agent crashes, or the network to it does.
    fn disturb(&mut self) -> Found {
        let Some(id) = self.any_node() else { return Ok(()) };
        let longer = if self.rng.chance(30) { 700_000 } else { 60_000 };
        let back = self.now + Millis::new(self.rng.within(500, longer));
        let crash = self.rng.chance(50);
        let forgets = self.rng.chance(70);
        if let Some(agent) = self.agents.get_mut(&id) {
            if crash {
                agent.up = false;
                if forgets {
                    // What ran is dead; the machine still knows which attempts it has seen.
                    let ended: Vec<Fence> = agent.running();
                    for fence in ended {
                        agent.end(&fence);
                    }
                }
            } else {
                agent.cut = true;
            }
        }
        self.send_at(back, Mail::Return(id));
        Ok(())
    }

    /// A machine comes back with other hardware.
    fn change_hardware(&mut self) -> Found {
        let Some(id) = self.any_node() else { return Ok(()) };
        let node = fleet::node(&mut self.rng, id.as_str());
        let Some(agent) = self.agents.get_mut(&id).filter(|agent| agent.hears()) else { return Ok(()) };
        agent.node = node.clone();
        let pool = agent.pool.clone();
        let running = self.rng.chance(50).then(|| self.agents[&id].running());
        self.step(Input::Join { pool, node: Box::new(node), running }).map(drop)
    }

    fn change_settings(&mut self) -> Found {
        if self.rng.chance(50) {
            let position = self.rng.below(self.pools.len() as u64) as usize;
            let mut pool = self.pools[position].clone();
            fleet::settings(&mut self.rng, &mut pool);
            self.pools[position] = pool.clone();
            return self.step(Input::SetPool { pool: Box::new(pool), policy: None }).map(drop);
        }
        // Sometimes one that nobody had told the ledger about, though it has jobs.
        let position = self.rng.below(self.tenants + 1);
        let tenant = fleet::tenant(&mut self.rng, position);
        if self.rng.chance(20) {
            // Refused while it has jobs.
            return self.step(Input::DeleteTenant(tenant.id)).map(drop);
        }
        self.step(Input::SetTenant(Box::new(tenant))).map(drop)
    }

    /// Something that makes no sense arrives: an old fence, a future one, another node.
    fn lie(&mut self) -> Found {
        let (Some(job), Some(node)) = (self.any_job(), self.any_node()) else { return Ok(()) };
        let present = self.engine.state().job(&job).map_or(1, |record| record.attempt);
        let here = self.agents.get(&node).is_some_and(|agent| agent.live.contains_key(&job));
        let attempt =
            if here { present.saturating_sub(1) } else { self.rng.within(0, u64::from(present) + 1) as u32 };
        let fence = Fence { job, attempt, epoch: self.rng.below(3) as u32 };
        let assigned = self
            .engine
            .state()
            .job(&fence.job)
            .and_then(|record| record.run.as_ref())
            .is_some_and(|run| run.nodes.iter().any(|at| at.node == node));
        let reports = [Report::Started, Report::Stopped, Report::Checkpointed, Report::CheckpointFailed];
        let Some(report) = self.rng.pick(&reports).filter(|_| !assigned) else { return Ok(()) };
        self.step(Input::Report { node, fence, report }).map(drop)
    }
}
