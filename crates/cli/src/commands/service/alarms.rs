//! `landfall alarms`: what people should look at.

use landfall_api::Paged;
use landfall_api::alarm::AlarmView;
use landfall_client::segment;
use serde::Serialize;

use crate::answer::{Answer, Page};
use crate::error::CliError;
use crate::render::clock::ago;
use crate::render::style::DIM;
use crate::render::text::clean;
use crate::reply::Reply;
use crate::service::{ConnectArgs, now_ms};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
An alarm is listed until what it is about is over: a node that is configured as it should be again, a job that no longer waits.
One that was acknowledged and comes again wants to be seen again. /metrics counts them (landfall_alarms).

Examples:
  landfall alarms
  landfall alarms --acknowledge 3")]
pub(crate) struct Args {
    /// Note that you have seen this one; may be given several times.
    #[arg(long, value_name = "ALARM")]
    acknowledge: Vec<u64>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
struct Listed {
    /// The oldest first.
    alarms: Vec<AlarmView>,
    #[serde(skip)]
    now_ms: u64,
}

pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        for alarm in &args.acknowledge {
            let path = format!("/alarms/{}/acknowledge", segment(&alarm.to_string()));
            let _: AlarmView = client.order(&path).await?;
        }
        let listed: Paged<AlarmView> = client.get("/alarms").await?;
        let data = Listed { alarms: listed.items, now_ms: now_ms() };
        Ok(Reply::new("landfall.alarms/1", data, page).boxed())
    })
}

fn page(listed: &Listed, _: Page) -> String {
    if listed.alarms.is_empty() {
        return "no alarms\n".to_owned();
    }
    let mut text = String::new();
    for alarm in &listed.alarms {
        let times = if alarm.count > 1 { format!(", {} times", alarm.count) } else { String::new() };
        let seen = alarm.acknowledged_by.as_ref().map(|by| format!(", seen by {}", clean(by)));
        text += &format!("{:>4}  {}\n", alarm.id, clean(&alarm.message));
        text += &format!(
            "      {DIM}{}{times}{}{DIM:#}\n",
            ago(alarm.last_ms, listed.now_ms),
            seen.unwrap_or_default()
        );
        text += &format!("      {}\n", clean(&alarm.help));
    }
    text
}
