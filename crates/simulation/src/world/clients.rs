//! Clients: they submit until they are answered, look at their jobs, and sometimes want something else.

use super::*;

fn caller(tenant: usize) -> Caller {
    let name = TENANTS[tenant];
    Caller { token: format!("token-{name}"), name: name.into(), tenant: Some(name.into()) }
}

impl World<'_> {
    fn request(&self, job: usize) -> JobRequest {
        let plan = &self.plan.jobs[job];
        let mut request = JobRequest { name: Some(plan.token.clone()), ..JobRequest::default() };
        request.needs.cpu_milli = Some(MilliCpu::new(1000));
        if plan.once {
            request.needs.max_requeue = Some(0);
        }
        if plan.stop {
            request.needs.on_disconnect = Some(OnDisconnect::Stop);
            request.needs.disconnect_stop_after_ms = Some(Millis::secs(5));
        }
        if plan.saves {
            request.needs.checkpoint = Some(Checkpoint::Auto);
        }
        request.run.command =
            vec!["work".into(), plan.token.clone(), plan.ms.to_string(), plan.code.to_string()];
        request
    }

    pub(super) fn submit(&mut self, job: usize) {
        let client = &mut self.clients[job];
        if client.id.is_some() || client.given_up {
            return;
        }
        client.tries += 1;
        let tries = client.tries;
        let pause = PATIENCE + millis(u64::from(tries) * 500);
        self.at(self.now + pause, Event::GiveUp(job, tries));
        if self.server.service.is_none() || self.is_lost() {
            return;
        }
        let (request, keyed) = (self.request(job), self.plan.jobs[job].keyed);
        let key = keyed.then(|| format!("key-{job}"));
        let Some(service) = &mut self.server.service else { return };
        let pending = service.submit(caller(self.plan.jobs[job].tenant), vec![request], key);
        self.owed.push(Owed::Submitted(job, pending));
        self.wake_server();
    }

    pub(super) fn answer_client(
        &mut self,
        job: usize,
        answer: Option<Result<(Vec<Submitted>, bool), Failure>>,
    ) {
        let answer = match answer {
            Some(Ok((jobs, _))) => match jobs.first() {
                Some(submitted) => Ok(submitted.id.clone()),
                None => Err(false),
            },
            Some(Err(Failure::Refused(_, error))) => {
                return self.history.fail(format!("t{job} was refused: {error:?}"));
            }
            Some(Err(_)) => Err(true),
            None => return,
        };
        if !self.is_lost() {
            let journal = self.history.journal(&self.server.journal, None);
            self.soon(Event::Submitted(job, answer, journal));
        }
    }

    pub(super) fn submitted(&mut self, job: usize, answer: Result<String, bool>, journal: usize) {
        let plan = &self.plan.jobs[job];
        match answer {
            Ok(id) => {
                self.history.acknowledged(job, &id, journal, self.now);
                if self.clients[job].id.replace((id, journal)).is_some() {
                    return;
                }
                let look = self.random.below(5000);
                self.at(self.now + millis(look), Event::Look(job));
                if let Some(after) = plan.cancel_after {
                    self.at(self.now + after, Event::Order(job, Order::Cancel));
                }
                if plan.saves {
                    let (first, second) = (self.random.below(8000), self.random.within(8000, 30_000));
                    self.at(self.now + millis(first), Event::Order(job, Order::Suspend));
                    self.at(self.now + millis(second), Event::Order(job, Order::Resume));
                    // Whatever became of it, in the end it may go on.
                    self.at(millis(TROUBLE_MS + 20_000), Event::Order(job, Order::Resume));
                    self.at(millis(TROUBLE_MS + 120_000), Event::Order(job, Order::Resume));
                }
            }
            Err(_) => {
                let pause = self.random.within(200, 2000);
                let client = &mut self.clients[job];
                client.given_up |= !plan.keyed;
                self.at(self.now + millis(pause), Event::Submit(job));
            }
        }
    }

    pub(super) fn look(&mut self, job: usize) {
        let Some((id, told)) = self.clients[job].id.clone() else { return };
        let journal = self.history.journal(&self.server.journal, None);
        // Under a journal that was restored it may be gone; that is looked at when all is at rest.
        if self.server.service.is_some() && journal == told {
            let view = self.view(&id);
            let plan = self.plan;
            self.history.looked(plan, job, &id, journal, view.as_ref());
        }
        if self.now < millis(TROUBLE_MS) {
            self.at(self.now + LOOK_EVERY, Event::Look(job));
        }
    }

    pub(super) fn order(&mut self, job: usize, order: Order) {
        let Some((id, _)) = self.clients[job].id.clone() else { return };
        let (Ok(id), Some(service)) = (JobId::new(&id), &mut self.server.service) else { return };
        let input = match order {
            Order::Cancel => {
                self.history.cancelled.insert(job);
                Input::Cancel(id)
            }
            Order::Suspend => Input::Suspend(id),
            Order::Resume => Input::Resume { job: id, walltime: None },
        };
        // Whether it was done is seen later.
        drop(service.apply(input));
        self.wake_server();
    }
}
