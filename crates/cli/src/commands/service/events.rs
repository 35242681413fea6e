//! `landfall events`: what happens, as it happens.

use std::io::Write as _;

use landfall_api::answer::{EventView, StatusView};
use landfall_client::with_query;

use crate::answer::Answer;
use crate::error::CliError;
use crate::exit::Exit;
use crate::render::clock::date;
use crate::render::style::{DIM, STRONG};
use crate::render::text::clean;
use crate::reply::Said;
use crate::service::{self, ConnectArgs};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Events of the journal, oldest first: what was submitted, decided, started, ended, which nodes came and went. With --json: one \
object per line.

Examples:
  landfall events                        the last 100
  landfall events -f                     from now on
  landfall events --after 0 --json       everything that is kept
  landfall events -f --job 16")]
pub(crate) struct Args {
    /// Go on with what happens from now on, until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    /// Begin behind this event: a number, or JOURNAL-NUMBER, which a restored server refuses [default: 100 before the last; with --job or --node, the oldest; with --follow, the last].
    #[arg(long, value_name = "SEQ")]
    after: Option<String>,
    /// Only events about this job.
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// Only events about this node.
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) fn run(args: &Args, json: bool) -> Result<Box<dyn Answer>, CliError> {
    /// Events shown if nobody says how many.
    const LAST: u64 = 100;
    let client = args.connect.client()?;
    let show = async {
        let status: StatusView = client.get("/status").await?;
        let begin = match (args.follow, args.job.is_some() || args.node.is_some()) {
            (true, _) => status.seq,
            // What is asked about may have happened long ago.
            (false, true) => status.oldest.saturating_sub(1),
            (false, false) => status.seq.saturating_sub(LAST),
        };
        let after = args.after.clone().unwrap_or_else(|| begin.to_string());
        if !args.follow && after.parse::<u64>().unwrap_or(begin) >= status.seq {
            return Ok(());
        }
        let follow = args.follow.to_string();
        let path = with_query("/events", &[("after", Some(&after)), ("follow", Some(&follow))]);
        let mut events = client.stream_events(&path).await?;
        while let Some(event) = events.next().await? {
            let Ok(view) = serde_json::from_str::<EventView>(&event.data) else {
                // The stream also says that something was left out.
                if event.kind.as_deref() == Some("lagged") {
                    anstream::eprintln!("{DIM}some events were missed; --after shows them{DIM:#}");
                }
                continue;
            };
            let is_asked = args.job.as_ref().is_none_or(|job| view.job.as_ref() == Some(job))
                && args.node.as_ref().is_none_or(|node| view.node.as_ref() == Some(node));
            let seq = view.seq;
            if is_asked && !write(&view, &event.data, json)? {
                return Ok(());
            }
            if !args.follow && seq >= status.seq {
                return Ok(());
            }
        }
        Ok(())
    };
    service::block_on(async {
        tokio::select! {
            shown = show => shown,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    })?;
    Ok(Box::new(Said(Exit::Done)))
}

/// Writes one event; tells whether anybody still listens.
fn write(view: &EventView, data: &str, json: bool) -> Result<bool, CliError> {
    let line = if json {
        format!("{data}\n")
    } else {
        let about = view.job.as_ref().or(view.node.as_ref()).map(|id| clean(id)).unwrap_or_default();
        let at = date(u64::try_from(view.at_ms).unwrap_or(0));
        let rest = clean(&facts(&view.event, view));
        format!(
            "{:>8}  {DIM}{at}{DIM:#}  {STRONG}{:<14}{STRONG:#}  {about:<12}  {DIM}{}{DIM:#}\n",
            view.seq, view.kind, rest
        )
    };
    let mut out = anstream::stdout().lock();
    match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::Output(error)),
    }
}

/// What an event says besides what it is about, in a few words.
fn facts(event: &serde_json::Value, view: &EventView) -> String {
    use serde_json::Value;
    const MOST: usize = 120;
    let about = [&view.job, &view.node];
    let word = |(name, value): (&String, &Value)| match value {
        Value::Null => None,
        Value::String(text) if about.iter().any(|id| id.as_ref() == Some(text)) => None,
        Value::String(text) => Some(format!("{name} {text}")),
        Value::Object(inner) if inner.len() == 1 => inner
            .iter()
            .next()
            .map(|(key, value)| format!("{name} {key} {}", value.to_string().trim_matches('"'))),
        Value::Object(_) => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Array(items) if items.iter().any(Value::is_object) => {
            Some(format!("{name} ({})", items.len()))
        }
        other => Some(format!("{name} {other}")),
    };
    let words: Vec<String> = event.as_object().into_iter().flatten().filter_map(word).collect();
    let text = words.join(", ");
    if text.chars().count() <= MOST {
        return text;
    }
    text.chars().take(MOST).chain(['…']).collect()
}
