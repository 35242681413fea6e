//! `landfall plan`: what would happen if.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use landfall_engine::answers::{Change, misfit};
use landfall_engine::input::Submission;
use landfall_engine::{Engine, Refused};
use landfall_model::answer::PlanAnswer;
use landfall_model::{Job, JobId, NodeId, Pool, PoolId, Situation, Tenant, TenantId};
use landfall_policy::policy_file;
use serde::Serialize;

use super::service;
use super::service::submit::args::JobArgs;
use crate::answer::{Answer, Page, to_json};
use crate::config::cores;
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::input::Input;
use crate::render;
use crate::selection;
use crate::service::ConnectArgs;

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("change").args(
    ["job", "cancel", "lose", "add_nodes", "policy", "policy_file", "quota"])))]
#[command(after_help = "\
Without --scenario the running server is asked, and nothing is changed there: a command or --file is a job to submit, --cancel \
and --lose are about its jobs and nodes, --policy, --policy-file and --quota about its pools and tenants.

With --scenario the situation first does by itself whatever it can do at its instant; the answer is what the change does on top of that. \
With --job the jobs count as not yet submitted. Without any change: what starts by itself. Nothing is ever changed.

Examples:
  landfall plan --gpu 4 --memory 64GiB -- ./train                where it would start, or why it would wait
  landfall plan --lose gpu-2                                     what would happen without a node
  landfall plan --policy-file mine.toml --pool gpu               what another policy would do now
  landfall plan --scenario lab.toml --job train-7                would it start, where, why; or until when it waits
  landfall plan --scenario lab.toml --lose gpu-2                 who would be stopped, whose start moves
  landfall plan --scenario lab.toml --add-nodes two-more.toml    is it worth it
  landfall plan --scenario lab.toml --policy fgd                 another policy for the only pool
  landfall plan --scenario lab.toml --quota team-a:gpus=16       a larger quota

Ends with 0 if what was asked about would start now (or the change would be accepted), 1 if a job would wait, 6 if the \
change would be refused.")]
pub(crate) struct Args {
    /// The situation: a scenario file in TOML or JSON; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Option<PathBuf>,
    /// Submit this job of the scenario now; may be given several times.
    #[arg(long, value_name = "ID")]
    job: Vec<String>,
    /// Cancel this job.
    #[arg(long, value_name = "ID")]
    pub(crate) cancel: Option<String>,
    /// Lose this node; may be given several times.
    #[arg(long, value_name = "ID")]
    pub(crate) lose: Vec<String>,
    /// Add the nodes of this scenario file.
    #[arg(long, value_name = "FILE")]
    add_nodes: Option<PathBuf>,
    /// Give the pool this built-in policy.
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Give the pool a policy of your own.
    #[arg(long, value_name = "FILE")]
    policy_file: Option<PathBuf>,
    /// Change a quota: TENANT=N (nodes), or TENANT:cpus=N, TENANT:gpus=N, TENANT:jobs=N, TENANT:gpu-hours=N.
    #[arg(long, value_name = "TENANT=N")]
    quota: Option<String>,
    #[command(flatten)]
    pub(crate) submit: JobArgs,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Asks the running server.
pub(crate) fn live(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let only_scenarios = [("--job", !args.job.is_empty()), ("--add-nodes", args.add_nodes.is_some())];
    if let Some((flag, _)) = only_scenarios.iter().find(|(_, given)| *given) {
        return Err(usage(format!("{flag} needs a scenario"), "give one with --scenario FILE"));
    }
    let own = args.policy_file.as_ref().map(|path| selection::load(path)).transpose()?;
    let policy = match (&args.policy, own) {
        (Some(name), _) => Some(service::plan::Policy::Named(name)),
        (None, Some(own)) => {
            let text = policy_file::text(own.spec());
            text.map(|text| service::plan::Policy::Own { name: own.name().to_owned(), text })
        }
        (None, None) => None,
    };
    // With a policy the pool is where it goes, not where a job does.
    let job_args = match policy {
        Some(_) => JobArgs { pool: None, ..args.submit.clone() },
        None => args.submit.clone(),
    };
    let says_job = says_job(&job_args);
    // Who says only what a job needs asks whether that would start, whatever it runs.
    let mut asked = args.submit.clone();
    if says_job && !says_what(&args.submit) {
        asked.command = vec!["true".to_owned()];
    }
    let other = [args.cancel.is_some(), !args.lose.is_empty(), policy.is_some(), args.quota.is_some()];
    if usize::from(says_job) + other.iter().filter(|given| **given).count() > 1 {
        let message = "a job to submit, --cancel, --lose, a policy and --quota do not go together";
        return Err(usage(message, "plan one change at a time"));
    }
    let question = service::plan::Question {
        job: Some(&asked).filter(|_| says_job),
        cancel: args.cancel.as_deref(),
        lose: &args.lose,
        policy,
        pool: args.submit.pool.as_deref(),
        quota: args.quota.as_deref().map(quota).transpose()?,
    };
    service::plan::run(&question, &args.connect)
}

/// Whether anything is said about a job to submit.
fn says_job(job: &JobArgs) -> bool {
    *job != JobArgs::default()
}

fn says_what(job: &JobArgs) -> bool {
    !job.command.is_empty()
        || job.read.is_some()
        || job.file.is_some()
        || job.workload.is_some()
        || job.image.is_some()
}

pub(crate) struct Planned {
    pub(crate) change: String,
    /// Jobs that the question is about.
    pub(crate) asked: Vec<JobId>,
    /// What would happen.
    pub(crate) answer: PlanAnswer,
}

pub(crate) fn run(args: &Args) -> Result<Planned, CliError> {
    let Some(scenario) = &args.scenario else {
        return Err(usage("there is no scenario", "give one with --scenario"));
    };
    // The pool is where a policy goes.
    if says_job(&JobArgs { pool: None, ..args.submit.clone() }) {
        return Err(usage(
            "a command to run has no place in a scenario",
            "leave --scenario out, or name a job of it with --job",
        ));
    }
    let input = Input::read(scenario)?;
    let situation = input.situation()?;
    let plan = Planner { args, input: &input, situation: &situation };
    let submitted = plan.submitted()?;
    let rest;
    let base = if submitted.is_empty() {
        &situation
    } else {
        rest = plan.without(&submitted)?;
        &rest
    };
    let engine = Engine::from_situation(base).map_err(|refused| CliError::unusable(&input.file, refused))?;
    let (change, text) = plan.change(&engine, &submitted)?;
    let asked = submitted.into_iter().map(|job| job.id).collect();
    Ok(Planned { change: text, asked, answer: engine.plan(change) })
}

struct Planner<'a> {
    args: &'a Args,
    input: &'a Input,
    situation: &'a Situation,
}

impl Planner<'_> {
    fn submitted(&self) -> Result<Vec<Job>, CliError> {
        let find = |id: &String| self.situation.job(id).cloned().ok_or_else(|| self.no_job(id));
        let mut jobs: Vec<Job> = self.args.job.iter().map(find).collect::<Result<_, _>>()?;
        jobs.sort_by(|a, b| a.id.cmp(&b.id));
        jobs.dedup_by(|a, b| a.id == b.id);
        Ok(jobs)
    }

    /// The situation without some of its jobs.
    fn without(&self, jobs: &[Job]) -> Result<Situation, CliError> {
        let given = self.situation;
        let rest = given.jobs().iter().filter(|job| !jobs.iter().any(|other| other.id == job.id));
        let (nodes, rest) = (given.nodes().to_vec(), rest.cloned().collect());
        Situation::new(given.now, nodes, rest, &[], given.world.clone())
            .map_err(|error| usage(error.to_string(), "correct the scenario"))
    }

    fn change(&self, engine: &Engine, submitted: &[Job]) -> Result<(Change, String), CliError> {
        let args = self.args;
        if !submitted.is_empty() {
            let names: Vec<&str> = submitted.iter().map(|job| job.id.as_str()).collect();
            let jobs = submitted.iter().cloned().map(Submission::new).collect();
            return Ok((Change::Submit(jobs), format!("{} submitted", subject("job", &names))));
        }
        if let Some(id) = &args.cancel {
            let known = JobId::new(id).ok().filter(|id| engine.state().job(id).is_some());
            let job = known.ok_or_else(|| self.no_job(id))?;
            return Ok((Change::Cancel(job), format!("job {id} is cancelled")));
        }
        if !args.lose.is_empty() {
            let find = |id: &String| match self.situation.node(id) {
                Some(node) => Ok(node.id.clone()),
                None => {
                    let known = self.situation.nodes().iter().map(|node| node.id.as_str());
                    Err(CliError::no_such("node", id, known).in_file(&self.input.file))
                }
            };
            let nodes: Vec<NodeId> = args.lose.iter().map(find).collect::<Result<_, _>>()?;
            let names: Vec<&str> = nodes.iter().map(NodeId::as_str).collect();
            let text = format!("{} lost", subject("node", &names));
            return Ok((Change::NodesLost(nodes), text));
        }
        if let Some(path) = &args.add_nodes {
            let file = Input::read(path)?;
            let nodes = file.situation()?.nodes().to_vec();
            if nodes.is_empty() {
                return Err(usage(format!("{} has no nodes", file.file), "add rows under [[nodes]]"));
            }
            let names: Vec<&str> = nodes.iter().map(|node| node.id.as_str()).collect();
            let text = format!("{} added", subject("node", &names));
            return Ok((Change::NodesAdded(nodes), text));
        }
        if let Some(text) = &args.quota {
            let (tenant, shown) = self.quota(text)?;
            return Ok((Change::SetTenant(Box::new(tenant)), shown));
        }
        if args.policy.is_some() || args.policy_file.is_some() {
            return self.policy(engine);
        }
        Ok((Change::Nothing, "nothing is changed".into()))
    }

    fn policy(&self, engine: &Engine) -> Result<(Change, String), CliError> {
        let mut pool = self.pool(engine)?;
        let (spec, text) = match (&self.args.policy, &self.args.policy_file) {
            (_, Some(path)) => {
                let spec = selection::load(path)?.spec().clone();
                let text = policy_file::text(&spec).map(Arc::from);
                (spec, text)
            }
            (name, None) => {
                let name = name.as_deref().unwrap_or_default();
                let found = landfall_policy::builtin::spec(name).and_then(Result::ok);
                let spec = found.ok_or_else(|| selection::unknown(name))?;
                pool.policy = landfall_model::Name::new(name).ok();
                (spec, None)
            }
        };
        if let Some(message) = misfit(&pool, text.as_deref()) {
            return Err(usage(message, "`landfall policy list` shows what each is for"));
        }
        let shown = format!("pool {} has policy {}", pool.id, spec.name);
        Ok((Change::SetPool { pool: Box::new(pool), policy: text }, shown))
    }

    fn pool(&self, engine: &Engine) -> Result<Pool, CliError> {
        let pools = &engine.state().pools;
        let names = || pools.keys().map(PoolId::as_str);
        let found = match &self.args.submit.pool {
            Some(name) => {
                let found = pools.values().find(|pool| pool.pool.id.as_str() == name);
                Some(
                    found
                        .ok_or_else(|| CliError::no_such("pool", name, names()).in_file(&self.input.file))?,
                )
            }
            None => pools.values().next().filter(|_| pools.len() == 1),
        };
        found.map(|state| state.pool.clone()).ok_or_else(|| {
            usage(
                "there are several pools",
                format!("name one with --pool: {}", names().collect::<Vec<_>>().join(", ")),
            )
        })
    }

    fn quota(&self, text: &str) -> Result<(Tenant, String), CliError> {
        let Wanted { tenant: name, field, value, shown } = quota(text)?;
        let tenants = &self.situation.world.tenants;
        let tenant = TenantId::new(&name).ok().and_then(|id| tenants.get(&id));
        let mut tenant = tenant.cloned().ok_or_else(|| {
            CliError::no_such("tenant", &name, tenants.keys().map(TenantId::as_str)).in_file(&self.input.file)
        })?;
        let mut fields = serde_json::to_value(tenant.quota).unwrap_or_default();
        fields[field] = value;
        tenant.quota =
            serde_json::from_value(fields).map_err(|error| usage(error.to_string(), "correct --quota"))?;
        Ok((tenant, shown))
    }

    fn no_job(&self, id: &str) -> CliError {
        let jobs = self.situation.jobs().iter().map(|job| job.id.as_str());
        CliError::no_such("job", id, jobs).in_file(&self.input.file)
    }
}

/// A quota that somebody asks about.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) tenant: String,
    /// Its field in a tenant's quota.
    pub(crate) field: &'static str,
    pub(crate) value: serde_json::Value,
    pub(crate) shown: String,
}

/// Reads `TENANT:gpus=16`.
fn quota(text: &str) -> Result<Wanted, CliError> {
    let wrong = || {
        usage(
            format!("`{text}` is no quota"),
            "write TENANT=N, TENANT:cpus=N, TENANT:gpus=N, TENANT:jobs=N or TENANT:gpu-hours=N",
        )
    };
    let (subject, amount) = text.split_once('=').ok_or_else(wrong)?;
    let (tenant, what) = subject.rsplit_once(':').unwrap_or((subject, "nodes"));
    let hours = || amount.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0).ok_or_else(wrong);
    let whole = || amount.parse::<u64>().map_err(|_| wrong());
    let (field, value) = match what {
        "nodes" => ("max_nodes", hours()?.into()),
        "cpus" => ("max_cpu_milli", cores(amount).map_err(|_| wrong())?.get().into()),
        "gpus" => ("max_gpus", whole()?.into()),
        "jobs" => ("max_jobs", whole()?.into()),
        "gpu-hours" => ("gpu_hours_cap", hours()?.into()),
        _ => return Err(wrong()),
    };
    let shown = format!("tenant {tenant} may have {amount} {}", what.replace('-', " "));
    Ok(Wanted { tenant: tenant.to_owned(), field, value, shown })
}

/// "job a is", "3 nodes are".
fn subject(what: &str, names: &[&str]) -> String {
    match names {
        [only] => format!("{what} {only} is"),
        several => format!("{} {what}s are", several.len()),
    }
}

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    change: &'a str,
    jobs: &'a [JobId],
    #[serde(flatten)]
    answer: &'a PlanAnswer,
}

impl Answer for Planned {
    fn exit(&self) -> Exit {
        if self.answer.refused.is_some() {
            return Exit::Refused;
        }
        let starts = |job: &JobId| self.answer.starts.iter().any(|start| start.job == *job);
        if self.asked.iter().all(starts) { Exit::Done } else { Exit::Nothing }
    }

    fn text(&self, page: Page) -> String {
        render::plan::page(&self.change, &self.answer, page)
    }

    fn json(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        let (change, jobs) = (self.change.as_str(), self.asked.as_slice());
        to_json(out, &Json { schema: "landfall.plan/1", change, jobs, answer: &self.answer })
    }
}

impl CliError {
    /// A scenario that can be read and not be run.
    pub(crate) fn unusable(file: &str, refused: Refused) -> Self {
        Self::Unusable { file: file.to_owned(), refused }
    }
}
