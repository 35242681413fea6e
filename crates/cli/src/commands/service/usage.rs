//! `landfall usage`: who used what, summed up over time.

use landfall_api::fleet::{UsageRow, UsageView};
use landfall_client::with_query;
use serde::Serialize;

use super::submit::args::millis;
use crate::answer::{Answer, Page};
use crate::error::CliError;
use crate::render::clock::{date, span};
use crate::render::service::fleet::{hours, money};
use crate::render::style::DIM;
use crate::render::table::{Cell, Table};
use crate::reply::Reply;
use crate::service::ConnectArgs;

const MS_PER_HOUR: f64 = 3_600_000.0;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Counts jobs from their last start to their end, or to now, and what they cost where their pools have prices. Core-hours are what they asked for, CPU-hours what they really used. Jobs that \
the server has forgotten (server.retention, usually 30 d) are not in it.

Examples:
  landfall usage
  landfall usage --since 7d --by user
  landfall usage --since 24h --by pool --json | jq '.rows[] | {name, gpu_hours}'")]
pub(crate) struct Args {
    /// How far back: `24h`, `7d` [default: all that is kept].
    #[arg(long, value_name = "SPAN", value_parser = millis)]
    since: Option<u64>,
    /// A row for each.
    #[arg(long, value_name = "WHAT", value_parser = ["tenant", "user", "pool"], default_value = "tenant")]
    by: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
struct Used {
    #[serde(flatten)]
    usage: UsageView,
}

pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let since =
        args.since.map(|span| Ok::<_, CliError>(args.connect.now()?.saturating_sub(span).to_string()));
    let since = since.transpose()?;
    args.connect.ask(async |client| {
        let params = [("since_ms", since.as_deref()), ("by", Some(args.by.as_str()))];
        let usage = client.get(&with_query("/usage", &params)).await?;
        Ok(Reply::new("landfall.usage/1", Used { usage }, page).boxed())
    })
}

fn page(used: &Used, _: Page) -> String {
    let UsageView { by, since_ms, until_ms, rows } = &used.usage;
    let over =
        format!("{DIM}from {} on ({}){DIM:#}\n", date(*since_ms), span(until_ms.saturating_sub(*since_ms)));
    if rows.is_empty() {
        return format!("no job ran\n{over}");
    }
    let mut names = vec![
        by.as_str(),
        ">jobs",
        ">running",
        ">failed",
        ">core-hours",
        ">cpu-hours",
        ">gpu-hours",
        ">node-hours",
        ">mean wait",
    ];
    // Where nothing costs anything there is nothing to tell.
    let priced = rows.iter().any(|row| row.price > 0.0);
    names.extend(priced.then_some(">price"));
    let mut table = Table::of(&names);
    for row in rows {
        table.row(cells(row, priced));
    }
    if rows.len() > 1 {
        let mut sum = UsageRow::of("all");
        for row in rows {
            sum.jobs += row.jobs;
            sum.running += row.running;
            sum.failed += row.failed;
            sum.core_hours += row.core_hours;
            sum.cpu_hours_used += row.cpu_hours_used;
            sum.gpu_hours += row.gpu_hours;
            sum.node_hours += row.node_hours;
            sum.waited_hours += row.waited_hours;
            sum.price += row.price;
        }
        table.row(cells(&sum, priced));
    }
    table.render() + &over
}

fn cells(row: &UsageRow, priced: bool) -> Vec<Cell> {
    let name = if row.name.is_empty() { "(none)" } else { &row.name };
    let wait = (row.waited_hours * MS_PER_HOUR / row.jobs.max(1) as f64) as u64;
    let mut cells = vec![
        Cell::from(name),
        row.jobs.to_string().into(),
        row.running.to_string().into(),
        row.failed.to_string().into(),
        hours(row.core_hours).into(),
        hours(row.cpu_hours_used).into(),
        hours(row.gpu_hours).into(),
        hours(row.node_hours).into(),
        span(wait).into(),
    ];
    cells.extend(priced.then(|| money(row.price).into()));
    cells
}
