//! What is known and what is selected.

use landfall_api::answer::StatusView;
use landfall_api::job::JobView;
use landfall_api::node::NodeView;

#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) server: String,
    pub(super) status: Option<StatusView>,
    /// Jobs that have not ended: those that wait, then the others, newest first.
    pub(super) jobs: Vec<JobView>,
    pub(super) nodes: Vec<NodeView>,
    /// A job and why it is where it is.
    pub(super) why: Option<(String, String)>,
    /// Why the last look failed.
    pub(super) error: Option<String>,
    pub(super) at_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    /// The queue.
    Jobs,
    Nodes,
}

/// What keys mean right now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// Moving about.
    Look,
    /// A filter is typed.
    Filter,
    /// Somebody is asked whether this job shall be cancelled.
    Confirm(String),
}

#[derive(Debug)]
pub(super) struct Screen {
    pub(super) known: Known,
    pub(super) pane: Pane,
    pub(super) mode: Mode,
    /// Only rows with this text.
    pub(super) filter: String,
    /// The selected job, by id: rows move.
    pub(super) job: Option<String>,
    pub(super) node: Option<String>,
    /// What became of the last order.
    pub(super) message: Option<String>,
}

impl Screen {
    /// A screen with nothing selected but the first row.
    pub(super) fn new(known: Known) -> Self {
        let (pane, mode) = (Pane::Jobs, Mode::Look);
        let mut screen =
            Self { known, pane, mode, filter: String::new(), job: None, node: None, message: None };
        screen.settle();
        screen
    }

    pub(super) fn learn(&mut self, mut known: Known) {
        if known.why.is_none() {
            known.why = self.known.why.take();
        }
        self.known = known;
        self.settle();
    }

    /// Jobs that pass the filter: running ones first, then the queue, who waits longest first.
    pub(super) fn jobs(&self) -> Vec<&JobView> {
        let passes = |job: &&JobView| {
            let title = job.name.clone().unwrap_or_else(|| job.run.command.join(" "));
            let texts = [&job.id, &job.state, &job.pool, &title];
            self.passes(
                texts.into_iter().chain(job.tenant.as_ref()).chain(job.nodes.iter().map(|at| &at.node)),
            )
        };
        let mut jobs: Vec<&JobView> = self.known.jobs.iter().filter(passes).rev().collect();
        jobs.sort_by_key(|job| u8::from(job.state == "pending"));
        jobs
    }

    pub(super) fn nodes(&self) -> Vec<&NodeView> {
        let passes = |node: &&NodeView| {
            self.passes([&node.id, &node.state, &node.pool].into_iter().chain(node.region.as_ref()))
        };
        self.known.nodes.iter().filter(passes).collect()
    }

    fn passes<'a>(&self, mut texts: impl Iterator<Item = &'a String>) -> bool {
        let wanted = self.filter.to_lowercase();
        wanted.is_empty() || texts.any(|text| text.to_lowercase().contains(&wanted))
    }

    pub(super) fn selected_job(&self) -> Option<&JobView> {
        let id = self.job.as_deref()?;
        self.jobs().into_iter().find(|job| job.id == id)
    }

    pub(super) fn row(&self, pane: Pane) -> Option<usize> {
        match pane {
            Pane::Jobs => self.jobs().iter().position(|job| Some(&job.id) == self.job.as_ref()),
            Pane::Nodes => self.nodes().iter().position(|node| Some(&node.id) == self.node.as_ref()),
        }
    }

    /// Selects another row of the pane that keys go to.
    pub(super) fn step(&mut self, by: isize) {
        let at = self.row(self.pane).unwrap_or(0);
        match self.pane {
            Pane::Jobs => {
                let ids: Vec<String> = self.jobs().iter().map(|job| job.id.clone()).collect();
                self.job = moved(&ids, at, by);
            }
            Pane::Nodes => {
                let ids: Vec<String> = self.nodes().iter().map(|node| node.id.clone()).collect();
                self.node = moved(&ids, at, by);
            }
        }
    }

    /// Makes sure that what is selected is there.
    pub(super) fn settle(&mut self) {
        if self.row(Pane::Jobs).is_none() {
            self.job = self.jobs().first().map(|job| job.id.clone());
        }
        if self.row(Pane::Nodes).is_none() {
            self.node = self.nodes().first().map(|node| node.id.clone());
        }
    }
}

/// The jobs with each array as one row that says how many of its elements are where.
pub(super) fn folded(jobs: Vec<JobView>) -> Vec<JobView> {
    let mut rows: Vec<(JobView, u64, u64)> = Vec::new();
    for mut job in jobs {
        let array = job.array.take().map(|element| element.id).or(job.elements.map(|_| job.id.clone()));
        let Some(array) = array else {
            rows.push((job, 0, 0));
            continue;
        };
        let number = job.elements.unwrap_or(1);
        let (running, waiting) = if job.state == "pending" { (0, number) } else { (number, 0) };
        match rows.iter_mut().find(|(row, ..)| row.id == array) {
            Some((row, placed, queued)) => {
                (*placed, *queued) = (*placed + running, *queued + waiting);
                if row.state == "pending" && running > 0 {
                    (row.state, row.started_at_ms) = (job.state, job.started_at_ms);
                }
            }
            None => {
                (job.id, job.elements) = (array, Some(number));
                rows.push((job, running, waiting));
            }
        }
    }
    let told = |(mut job, running, waiting): (JobView, u64, u64)| {
        if job.elements.is_some() {
            let why =
                job.why.take().filter(|_| running == 0).map(|why| format!(": {why}")).unwrap_or_default();
            job.nodes.clear();
            job.reason = Some(String::new());
            job.why = Some(match running {
                0 => format!("{waiting} waiting{why}"),
                _ => format!("{running} running, {waiting} waiting"),
            });
        }
        job
    };
    rows.into_iter().map(told).collect()
}

fn moved(ids: &[String], at: usize, by: isize) -> Option<String> {
    let last = ids.len().checked_sub(1)?;
    ids.get(at.saturating_add_signed(by).min(last)).cloned()
}
