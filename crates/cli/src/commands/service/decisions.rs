//! `landfall decisions`: what was decided, from the journal.

use landfall_api::Paged;
use landfall_api::answer::DecisionView;
use landfall_client::with_query;
use serde::Serialize;

use crate::answer::Answer;
use crate::error::{CliError, usage};
use crate::render;
use crate::render::clock;
use crate::reply::Reply;
use crate::service::{ConnectArgs, now_ms};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Newest first, as far back as the journal reaches (server.retention): who was chosen, who came next, and what stood against the \
others. Where nobody is chosen that is kept too, when the reasons change or after five minutes. \
`landfall explain JOB --at TIME` says what stood for and against a job at an instant.

Examples:
  landfall decisions
  landfall decisions --job 9 --full
  landfall decisions --pool gpu --none --since 2h
  landfall decisions --node gpu-3 --until 2026-11-17T12:00:00Z --json")]
pub(crate) struct Args {
    /// Only those about this job.
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only those that chose this node, or that it asked for as a worker.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only those of this pool.
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Only those that chose nobody.
    #[arg(long)]
    none: bool,
    /// Also points, runners-up, what stood against the others, and the facts looked at.
    #[arg(long)]
    full: bool,
    /// Only those since then: a span such as 2h, a date, or milliseconds since 1970.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only those up to then.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
pub(crate) struct Listed {
    /// The newest first.
    pub(crate) decisions: Vec<DecisionView>,
    pub(crate) now_ms: u64,
    /// Whether everything about each is shown.
    #[serde(skip)]
    pub(crate) full: bool,
}

pub(crate) fn list(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let since = args.since.as_deref().map(|text| instant("--since", text)).transpose()?;
    let since = since.map(|ms| ms.to_string());
    let until = args.until.as_deref().map(|text| instant("--until", text)).transpose()?;
    let until = until.map(|ms| ms.to_string());
    args.connect.ask(async |client| {
        let mut decisions: Vec<DecisionView> = Vec::new();
        let mut cursor: Option<String> = None;
        while decisions.len() < args.limit {
            let limit = (args.limit - decisions.len()).min(1000).to_string();
            let params = [
                ("job", args.job.as_deref()),
                ("node", args.node.as_deref()),
                ("pool", args.pool.as_deref()),
                ("chose", Some(if args.none { "nobody" } else { "any" })),
                ("since_ms", since.as_deref()),
                ("until_ms", until.as_deref()),
                ("limit", Some(limit.as_str())),
                ("cursor", cursor.as_deref()),
            ];
            let page: Paged<DecisionView> = client.get(&with_query("/decisions", &params)).await?;
            decisions.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let data = Listed { decisions, now_ms: now_ms(), full: args.full };
        Ok(Reply::new("landfall.decisions/1", data, render::service::decisions::list).boxed())
    })
}

/// An instant of the past: a span before now (`2h`), a date in UTC, or milliseconds since 1970.
pub(crate) fn instant(flag: &str, text: &str) -> Result<u64, CliError> {
    let span = || text.parse::<landfall_model::Millis>().ok().map(|span| now_ms().saturating_sub(span.get()));
    let ms = text.parse::<u64>().ok().or_else(span).or_else(|| clock::parse_date(text));
    ms.ok_or_else(|| {
        let hint = "write 2h for two hours ago, 2026-11-17T12:30:00Z, or milliseconds since 1970";
        usage(format!("{flag}: `{text}` is no instant"), hint)
    })
}
