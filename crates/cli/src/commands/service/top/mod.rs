//! `landfall top`: queue, nodes and the reason of the selected job, live.
//!
//! [`state`] is what is known and selected, [`keys`] what keys do to it, [`draw`] how it looks; all three are plain functions.
//! This file talks to the server and to the terminal.

mod draw;
mod keys;
mod state;

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use landfall_api::Paged;
use landfall_api::answer::StatusView;
use landfall_api::job::JobView;
use landfall_api::node::NodeView;
use landfall_client::{Client, ClientError, segment};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::sync::mpsc;

use self::keys::{Action, press};
use self::state::{Known, Screen};
use super::explain;
use crate::answer::{Answer, Page};
use crate::error::{CliError, usage};
use crate::exit::Exit;
use crate::render::standing::section;
use crate::reply::Said;
use crate::service::{self, ConnectArgs, now_ms};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keys: up and down select, tab goes from jobs to nodes, / filters, c cancels the selected job after a question, q leaves.

Examples:
  landfall top
  landfall top --interval 5s")]
pub(crate) struct Args {
    /// Time from one look to the next.
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = super::submit::args::millis)]
    interval: u64,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Jobs that are looked at at most, of those that wait and of those that do not.
const JOBS_MAX: &str = "1000";

pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let client = args.connect.client()?;
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(usage(
            "`top` needs a terminal",
            "`landfall jobs` and `landfall nodes` show the same once",
        ));
    }
    let interval = Duration::from_millis(args.interval.max(200));
    service::block_on(async move {
        // An unreachable server is told before the screen changes.
        let known = look(&client, None).await?;
        // Puts a hook in place that restores the terminal when the program panics.
        let mut terminal = ratatui::try_init().map_err(CliError::Output)?;
        let outcome = live(&client, &mut terminal, known, interval).await;
        ratatui::restore();
        outcome
    })?;
    Ok(Box::new(Said(Exit::Done)))
}

async fn live(
    client: &Client,
    terminal: &mut ratatui::DefaultTerminal,
    known: Known,
    interval: Duration,
) -> Result<(), CliError> {
    let mut screen = Screen::new(known);
    let (keys, mut pressed) = mpsc::channel(64);
    let stop = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let stop = stop.clone();
        move || read_keys(&keys, &stop)
    });
    let (found, mut looks) = mpsc::channel::<Result<Known, ClientError>>(1);
    let mut beat = tokio::time::interval(interval);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut looking = false;
    let outcome = loop {
        if let Err(error) = terminal.draw(|frame| draw::screen(frame, &screen)) {
            break Err(CliError::Output(error));
        }
        tokio::select! {
            event = pressed.recv() => match event {
                None => break Ok(()),
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => match press(&mut screen, key) {
                    Action::Quit => break Ok(()),
                    Action::Cancel(id) => {
                        let path = format!("/jobs/{}/cancel", segment(&id));
                        screen.message = match client.order::<serde_json::Value>(&path).await {
                            Ok(_) => Some(format!("cancelled {id}")),
                            Err(error) => Some(error.to_string()),
                        };
                        beat.reset_immediately();
                    }
                    Action::Look => beat.reset_immediately(),
                    Action::Nothing => {}
                },
                Some(_) => {}
            },
            _ = beat.tick(), if !looking => {
                looking = true;
                let (client, found, job) = (client.clone(), found.clone(), screen.selected_job().map(|job| job.id.clone()));
                tokio::spawn(async move {
                    let _ = found.send(look(&client, job.as_deref()).await).await;
                });
            }
            Some(result) = looks.recv() => {
                looking = false;
                match result {
                    Ok(known) => screen.learn(known),
                    Err(error) => screen.known.error = Some(error.to_string()),
                }
            }
        }
    };
    stop.store(true, Ordering::Relaxed);
    let _ = reader.join();
    outcome
}

/// Hands on what is typed until somebody says stop.
fn read_keys(keys: &mpsc::Sender<Event>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match event::poll(Duration::from_millis(100)) {
            Ok(false) => {}
            Ok(true) => match event::read() {
                Ok(event) if keys.blocking_send(event.clone()).is_ok() => {}
                _ => return,
            },
            Err(_) => return,
        }
    }
}

/// Asks the server for everything that is shown.
async fn look(client: &Client, job: Option<&str>) -> Result<Known, ClientError> {
    let status: StatusView = client.get("/status").await?;
    // Each for itself: what runs is to be seen however many wait. One that starts in between is in both.
    let in_states = async |states: &str| -> Result<Vec<JobView>, ClientError> {
        let path = format!("/jobs?state={states}&limit={JOBS_MAX}");
        Ok(client.get::<Paged<JobView>>(&path).await?.items)
    };
    let mut jobs = in_states("pending").await?;
    let placed = in_states("staging,running,checkpointing,stopping,suspended").await?;
    let started: BTreeSet<&str> = placed.iter().map(|job| job.id.as_str()).collect();
    jobs.retain(|job| !started.contains(job.id.as_str()));
    jobs.extend(placed);
    let nodes: Paged<NodeView> = client.get("/nodes?limit=1000").await?;
    let why = match job {
        Some(id) => explain::ask(client, id).await.ok(),
        None => None,
    };
    let why = why.map(|found| {
        let text = section(&found.explanation, found.estimate.as_ref(), Page { width: Some(100) });
        (found.job, anstream::adapter::strip_str(&text).to_string())
    });
    let server = client.server().to_owned();
    Ok(Known {
        server,
        status: Some(status),
        jobs: state::folded(jobs),
        nodes: nodes.items,
        why,
        error: None,
        at_ms: now_ms(),
    })
}
