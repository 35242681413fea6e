//! Arrays: accepting them, unfolding what is about to start, and what people do to an array or to one of its elements.

use landfall_model::{Dispatch, Indices, JobId, PoolId};

use super::unknown;
use crate::array::{Array, Ranges, Shape, WINDOW_HIGH, WINDOW_LOW, element_id};
use crate::dag::{self, EdgeKind, Join, TerminalState};
use crate::effect::{Answer, Refused};
use crate::engine::Engine;
use crate::event::Event;
use crate::input::Submission;
use crate::record::{Cause, JobState};
use crate::timers::Timer;

impl Engine {
    pub(crate) fn submit_array(&mut self, submission: Submission, indices: Indices) -> Answer {
        if self.state.folded.contains_key(&submission.job.id) {
            return Answer::Ignored("submitted_before".into());
        }
        match self.accept_array(submission, indices) {
            Ok(()) => Answer::Done,
            Err(refused) => Answer::Refused(refused),
        }
    }

    fn accept_array(&mut self, mut submission: Submission, indices: Indices) -> Result<(), Refused> {
        let id = submission.job.id.clone();
        let shape = Shape::new(indices)
            .map_err(|message| Refused::new("bad_array", message, "change the indices of the array"))?;
        let shape = match submission.open {
            true => shape.open().map_err(|message| {
                Refused::new("bad_array", message, "give a range such as 1-100, and no very large indices")
            })?,
            false => shape,
        };
        self.free_ids(&id, &shape)?;
        if submission.element.is_some() {
            let message = format!("array `{id}` is said to be an element itself");
            return Err(Refused::new("bad_array", message, "submit it without a place in another array"));
        }
        let pool = self.pool_for(&submission)?;
        if self.state.pools.get(&pool).is_some_and(|pool| pool.pool.dispatch == Dispatch::Negotiate) {
            let message = format!("pool `{pool}` negotiates each job by itself and takes no arrays");
            return Err(Refused::new(
                "array_unsupported",
                message,
                "submit the jobs one by one, or to another pool",
            ));
        }
        self.acceptable(&submission.job, &pool, u64::from(shape.total()))?;
        let after = self.followed(&mut submission, &shape)?;
        let edges = (!submission.edges.is_empty()).then(|| dag::Submission {
            tenant: submission.job.spec.tenant.clone(),
            jobs: vec![dag::NewJob {
                id,
                element: None,
                join: submission.join,
                edges: submission.edges.clone(),
                mutex: submission.job.spec.mutex.clone(),
            }],
        });
        if let Some(edges) = &edges
            && let Err(error) = self.state.graph.check(edges, |id| self.state.known(id, edges))
        {
            return Err(Refused::new(error.code(), error.to_string(), "change the dependencies"));
        }
        let job = Box::new(self.as_accepted(submission.job, submission.not_before, &submission.edges));
        self.emit(Event::ArraySubmitted { job, pool, user_hold: submission.user_hold, shape, after });
        if let Some(edges) = edges {
            self.emit(Event::Linked(Box::new(edges)));
        }
        Ok(())
    }

    /// Refuses an array that would share an id with something known.
    fn free_ids(&self, id: &JobId, shape: &Shape) -> Result<(), Refused> {
        let most = shape.longest();
        let ids = element_id(id, shape.indices.first, most)
            .and_then(|first| Ok((first, element_id(id, most, most)?)));
        let (first, last) = ids.map_err(|error| {
            let message = format!("the ids of the elements of `{id}` would not do: {error}");
            Refused::new("bad_id", message, "give the array a shorter id")
        })?;
        // Ids that only look like elements of it are counted as well: nobody could tell them apart.
        let jobs = self.state.jobs.range(first.clone()..=last.clone()).map(|(job, _)| job);
        let arrays = self.state.folded.range(first.clone()..=last.clone()).map(|(job, _)| job);
        let others = self.state.arrays.range(first..=last).map(|(job, _)| job);
        let known = self.state.jobs.contains_key(id)
            || self.state.arrays.contains_key(id)
            || self.state.element_of(id).is_some();
        let taken = known.then_some(id).or_else(|| jobs.chain(arrays).chain(others).next());
        match taken {
            Some(taken) => {
                let message = format!("there is a job or an array `{taken}` already");
                Err(Refused::new("duplicate_job", message, "give the array an id of its own"))
            }
            None => Ok(()),
        }
    }

    /// Takes the edges on arrays that this one follows element by element out of a submission.
    fn followed(&self, submission: &mut Submission, shape: &Shape) -> Result<Vec<JobId>, Refused> {
        let id = submission.job.id.clone();
        let mut after = Vec::new();
        for edge in &submission.edges {
            if edge.kind == EdgeKind::Mutex {
                let message = format!("array `{id}` cannot exclude `{}` by an edge", edge.on);
                return Err(Refused::new("mutex_on_array", message, "name a lock in `mutex` of both"));
            }
            let one_by_one = || {
                let message = format!("array `{id}` cannot follow `{}` element by element", edge.on);
                let hint = "follow an array of as many elements that was submitted as one, and join all";
                Refused::new("array_shape", message, hint)
            };
            if edge.kind != EdgeKind::Corresponding {
                continue;
            }
            if self.state.arrays.contains_key(&edge.on) {
                return Err(one_by_one());
            }
            let Some(earlier) = self.state.folded.get(&edge.on) else { continue };
            if earlier.job.spec.tenant != submission.job.spec.tenant {
                let error = dag::DagError::ForbiddenDependency { job: id, on: edge.on.clone() };
                return Err(Refused::new(error.code(), error.to_string(), "change the dependencies"));
            }
            let open = earlier.open || submission.open;
            if open || earlier.shape.total() != shape.total() || submission.join == Join::Any {
                return Err(one_by_one());
            }
            if after.contains(&edge.on) {
                let error = dag::DagError::DuplicateEdge { job: id, on: edge.on.clone() };
                return Err(Refused::new(error.code(), error.to_string(), "change the dependencies"));
            }
            after.push(edge.on.clone());
        }
        submission.edges.retain(|edge| edge.kind != EdgeKind::Corresponding || !after.contains(&edge.on));
        Ok(after)
    }

    /// Drops what can never start of an array, and unfolds what may start soon.
    pub(crate) fn tend_array(&mut self, id: &JobId) {
        while let Some(array) = self.state.folded.get(id)
            && let Some((positions, edge, state)) = self.state.doomed_positions(array)
        {
            let on_failure = state == TerminalState::Unneeded;
            let cause = Cause::DependencyUnsatisfiable { edge, on_failure };
            self.emit(Event::FoldedDropped { array: id.clone(), positions, cause });
        }
        let Some(array) = self.state.folded.get(id) else { return };
        if array.fails() {
            // Not here: each of its elements that ends would stop the rest once more.
            self.failing.insert(id.clone());
        } else if array.is_open(self.now) && array.fresh < WINDOW_LOW {
            let positions = self.state.ready_positions(array, array.room().min(WINDOW_HIGH - array.fresh));
            self.unfold(id, positions);
        }
    }

    /// Adds elements to an array that is open.
    pub(crate) fn extend_array(&mut self, id: &JobId, count: u32) -> Answer {
        match self.accept_more(id, count) {
            Ok(last) => {
                self.emit(Event::ArrayExtended { array: id.clone(), last });
                Answer::Done
            }
            Err(refused) => Answer::Refused(refused),
        }
    }

    /// The last index of an open array after so many more elements.
    fn accept_more(&mut self, id: &JobId, count: u32) -> Result<u32, Refused> {
        let array = self.open_array(id)?;
        let (job, pool) = (array.job.clone(), array.pool.clone());
        let last = array.shape.extended(count).filter(|_| count > 0).ok_or_else(|| {
            let left = (array.shape.longest() - array.shape.indices.last) / array.shape.indices.step;
            let message = format!("array `{id}` has room for 1 to {left} elements more, not for {count}");
            Refused::new("bad_array", message, "submit the rest as another array")
        })?;
        self.acceptable(&job, &pool, u64::from(count))?;
        Ok(last)
    }

    fn open_array(&self, id: &JobId) -> Result<&Array, Refused> {
        let Some(array) = self.state.folded.get(id) else { return Err(unknown("job", id.as_str())) };
        if !array.open {
            let message = format!("array `{id}` is closed");
            let hint = "submit another one; with --open an array takes more elements";
            return Err(Refused::new("array_closed", message, hint));
        }
        Ok(array)
    }

    pub(crate) fn close_array(&mut self, id: &JobId) -> Answer {
        match self.open_array(id) {
            Ok(_) => {
                self.emit(Event::ArrayClosed(id.clone()));
                Answer::Done
            }
            Err(refused) if refused.code == "array_closed" => Answer::Ignored("closed".into()),
            Err(refused) => Answer::Refused(refused),
        }
    }

    /// Nothing is added any more to what is to end.
    fn close_if_open(&mut self, id: &JobId) {
        if self.state.folded.get(id).is_some_and(|array| array.open) {
            self.emit(Event::ArrayClosed(id.clone()));
        }
    }

    /// Cancels what is left of an array of which more elements failed than may.
    pub(crate) fn stop_failing(&mut self, id: &JobId) {
        self.close_if_open(id);
        self.drop_folded(id, Cause::TooManyFailures);
        for element in self.live_elements(id) {
            let Some(record) = self.state.job(&element) else { continue };
            match record.state {
                JobState::Pending | JobState::Suspended => {
                    self.end_unplaced(&element, Cause::TooManyFailures);
                }
                JobState::Stopping => {}
                _ => self.stop_job(&element, Cause::TooManyFailures),
            }
        }
    }

    /// Before a cycle of a batch pool: unfolds as many elements as its nodes could take at once.
    pub(crate) fn widen_arrays(&mut self, pool: &PoolId) {
        let Some(scan_max) = self.state.pools.get(pool).map(|pool| pool.pool.batch.scan_max) else { return };
        let open: Vec<JobId> = self
            .state
            .folded
            .values()
            .filter(|array| array.pool == *pool && array.is_open(self.now))
            .map(|array| array.job.id.clone())
            .collect();
        for id in open {
            let Some(array) = self.state.folded.get(&id) else { continue };
            let wanted = self.room_for(array).min(scan_max).saturating_add(WINDOW_LOW);
            if array.fresh < wanted {
                let positions = self.state.ready_positions(array, array.room().min(wanted - array.fresh));
                self.unfold(&id, positions);
            }
        }
    }

    /// No more elements than these fit on free nodes now, in all batch pools together: some of them may lend.
    fn room_for(&self, array: &Array) -> u32 {
        let spec = &array.job.spec;
        let pools = self.state.pools.values().filter(|pool| pool.pool.dispatch == Dispatch::Batch);
        let nodes = pools.flat_map(|pool| pool.nodes.iter().zip(&pool.records));
        let parts = |free: u64, asked: u64| free.checked_div(asked).unwrap_or(u64::MAX);
        let room = nodes.map(|(node, record)| {
            if spec.exclusive {
                return u64::from(crate::ledger::is_idle(node, record));
            }
            let milli: u64 = node.gpus.iter().map(|gpu| gpu.milli_free().get()).sum();
            let by_cpu = parts(node.cpu_total.saturating_sub(node.cpu_committed).get(), spec.cpu_milli.get());
            let by_ram = parts(node.ram_total.saturating_sub(node.ram_committed).get(), spec.ram_mib.get());
            by_cpu.min(by_ram).min(parts(milli, spec.gpu_milli_total()))
        });
        u32::try_from(room.fold(0, u64::saturating_add)).unwrap_or(u32::MAX)
    }

    fn unfold(&mut self, id: &JobId, positions: Ranges) {
        if positions.is_empty() {
            return;
        }
        let Some(array) = self.state.folded.get(id) else { return };
        let first = positions.first().map(|position| array.record_at(position));
        let (pool, ids) = (array.pool.clone(), positions.clone());
        self.emit(Event::Unfolded { array: id.clone(), positions });
        // Elements read the same inputs, but each may be placed elsewhere.
        if let Some(job) = first.map(|record| record.job)
            && job.spec.inputs.is_some()
        {
            let elements: Vec<JobId> = self
                .state
                .folded
                .get(id)
                .map_or_else(Vec::new, |array| ids.iter().map(|at| array.element(at)).collect());
            for element in elements {
                self.stage(&landfall_model::Job { id: element, ..job.clone() }, &pool);
            }
        }
    }

    /// Gives a folded element its record, because somebody named it. Fails where it waits for one of another array.
    pub(crate) fn unfold_named(&mut self, job: &JobId) -> Result<(), Refused> {
        let Some((array, position)) = self.state.folded_element(job) else { return Ok(()) };
        if !array.after.is_empty() {
            let ready = self.state.ready_positions(array, u32::MAX).contains(position);
            if !ready {
                let message = format!("job `{job}` waits for the element at its place in another array");
                let hint = "wait for that one, or name the whole array";
                return Err(Refused::new("waits_for_element", message, hint));
            }
        }
        let id = array.job.id.clone();
        self.unfold(&id, Ranges::one(position));
        Ok(())
    }

    pub(crate) fn cancel_array(&mut self, id: &JobId) -> Answer {
        if self.state.folded.get(id).is_some_and(|array| array.is_over()) {
            return Answer::Ignored("ended".into());
        }
        self.close_if_open(id);
        self.drop_folded(id, Cause::User);
        for element in self.live_elements(id) {
            self.cancel(&element);
        }
        Answer::Done
    }

    pub(crate) fn cancel_waiting(&mut self, id: &JobId) -> Answer {
        match self.state.folded.get(id) {
            None => Answer::Refused(unknown("array", id.as_str())),
            Some(array) if array.is_over() => Answer::Ignored("ended".into()),
            Some(_) => {
                self.end_array(id, Cause::User);
                Answer::Done
            }
        }
    }

    /// Cancels one element that has no record.
    pub(crate) fn cancel_folded(&mut self, id: &JobId, position: u32) -> Answer {
        self.unfold(id, Ranges::one(position));
        let element = self.state.folded.get(id).map(|array| array.element(position));
        element.map_or(Answer::Done, |element| self.cancel(&element))
    }

    /// Ends what waits of an array: it can never start, or nobody wants it.
    pub(crate) fn end_array(&mut self, id: &JobId, cause: Cause) {
        self.close_if_open(id);
        self.drop_folded(id, cause.clone());
        for element in self.live_elements(id) {
            if self.is_in(&element, JobState::Pending) {
                self.end_unplaced(&element, cause.clone());
            }
        }
    }

    /// Cancels what is folded of an array.
    pub(crate) fn drop_folded(&mut self, id: &JobId, cause: Cause) {
        let Some(array) = self.state.folded.get(id).filter(|array| !array.folded.is_empty()) else { return };
        let positions = array.folded.clone();
        self.emit(Event::FoldedDropped { array: id.clone(), positions, cause });
    }

    /// Elements with a record that have not ended.
    fn live_elements(&self, id: &JobId) -> Vec<JobId> {
        let Some(array) = self.state.folded.get(id) else { return Vec::new() };
        let live = self.state.elements_of(array).filter(|record| !record.state.is_final());
        live.map(|record| record.job.id.clone()).collect()
    }

    pub(crate) fn hold_array(&mut self, id: &JobId, held: bool) -> Answer {
        let Some(array) = self.state.folded.get(id) else {
            return Answer::Refused(unknown("job", id.as_str()));
        };
        let waits = |job: &JobId| self.is_in(job, JobState::Pending) || self.is_ahead(job);
        let elements: Vec<JobId> = self.live_elements(id).into_iter().filter(waits).collect();
        if array.folded.is_empty() && elements.is_empty() {
            let message = format!("no element of array `{id}` waits");
            return Answer::Refused(Refused::new("not_pending", message, "only waiting jobs can be held"));
        }
        let same = array.user_hold == held;
        let others =
            elements.iter().filter(|job| self.state.job(job).is_some_and(|record| record.user_hold != held));
        let others: Vec<JobId> = others.cloned().collect();
        if same && others.is_empty() {
            return Answer::Ignored("as_it_was".into());
        }
        // Held first as a whole, released last as a whole: else the window would be filled up meanwhile.
        if held && !same {
            self.emit(Event::UserHold { job: id.clone(), held });
        }
        for job in others {
            if held {
                self.ask_back(&job);
            }
            self.emit(Event::UserHold { job, held });
        }
        if !held && !same {
            self.emit(Event::UserHold { job: id.clone(), held });
        }
        Answer::Done
    }

    pub(crate) fn forget_array(&mut self, id: &JobId) -> Answer {
        let Some(array) = self.state.folded.get(id) else { return Answer::Ignored("unknown_job".into()) };
        if !array.is_over() {
            let message = format!("{} elements of array `{id}` have not ended", array.left());
            return Answer::Refused(Refused::new("not_ended", message, "cancel it first"));
        }
        let waits = |id: &JobId| self.state.folded.get(id).is_some_and(|array| !array.folded.is_empty());
        if let Some(follower) = array.followers.iter().find(|follower| waits(follower)) {
            let message = format!("array `{follower}` follows `{id}` and has elements that wait");
            return Answer::Refused(Refused::new("needed", message, "wait for that array, or cancel it"));
        }
        self.emit(Event::Forgotten(id.clone()));
        Answer::Done
    }

    /// What only a job that runs, or has run, can be asked to do.
    pub(crate) fn not_while_folded(&self, job: &JobId) -> Option<Answer> {
        if self.state.folded.contains_key(job) {
            let message = format!("`{job}` is an array");
            return Some(Answer::Refused(Refused::new("is_array", message, "name one of its elements")));
        }
        self.state.folded_element(job)?;
        let message = format!("job `{job}` waits with the rest of its array and has not started");
        Some(Answer::Refused(Refused::new("not_started", message, "wait until it starts, or cancel it")))
    }

    pub(crate) fn set_array_timer(&mut self, id: &JobId) {
        let at = self.state.folded.get(id).filter(|array| array.is_queued()).and_then(|array| {
            // Once elements were unfolded, its time has come.
            array.job.retry_at.filter(|at| *at > self.now || (array.fresh == 0 && array.records == 0))
        });
        self.timers.set(Timer::Array(id.clone()), at);
    }
}
