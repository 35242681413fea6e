//! The connection to the server: register, listen, send heartbeats; begin anew whenever that breaks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use landfall_api::agent::Ask;
use landfall_api::node::{Heard, Registered};
use landfall_client::ClientError;

use crate::backoff::Backoff;
use crate::hub::Hub;
use crate::probe::Programs;

/// How long old reports may hold up a registration. Attempts that are not reported are named in it, so none is lost.
const REPORTS_FIRST: Duration = Duration::from_secs(3);
/// The server pings every ten seconds; after so much silence the line is dead.
const SILENCE_MAX: Duration = Duration::from_secs(35);
/// How often programs that run jobs are looked for.
const PROBE_EVERY: Duration = Duration::from_secs(300);
/// How often it is looked which images of containers there are.
const IMAGES_EVERY: Duration = Duration::from_secs(60);
/// How often it is looked whether the server has been silent for long.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Bounds for what the server says about heartbeats.
const BEAT_MS: std::ops::RangeInclusive<u64> = 100..=600_000;

/// Lines of a session that may make no sense before it begins anew.
const NONSENSE_MAX: u32 = 100;

/// A heartbeat that is on its way.
type Beat = tokio::task::JoinHandle<Result<Heard, ClientError>>;

/// Why a session ended.
enum Broke {
    /// The server said so, or the line broke.
    Again(String),
    Over,
}

/// Keeps a session up until the agent is over.
pub(crate) async fn work(hub: Arc<Hub>) {
    let mut backoff = Backoff::new(hub.node());
    let mut complained = false;
    loop {
        // What happened before is told before the server counts what runs now.
        hub.all_stored(REPORTS_FIRST).await;
        already_done(&hub);
        let forgot = hub.jobs().forgot;
        let registration = hub.registration();
        let asked = Instant::now();
        let answer = tokio::select! {
            answer = hub.client.register(hub.node(), &registration) => answer,
            () = hub.over.cancelled() => return,
        };
        match answer {
            Ok(registered) => {
                hub.heard();
                hub.jobs().server_clock.set(asked, registered.server_time_ms);
                let actions = hub.jobs().on_registered(forgot);
                hub.carry_out(actions);
                let Registered { journal, adopted, .. } = &registered;
                if !journal.is_empty() && hub.layout.journal().as_ref() != Some(journal) {
                    tokio::select! {
                        () = hub.change_journal(journal, adopted) => already_done(&hub),
                        () = hub.over.cancelled() => return,
                    }
                }
                say(&hub, &registered, complained);
                complained = false;
                hub.jobs().pull = registered.dispatch == "pull";
                let began = Instant::now();
                match session(&hub, &registered).await {
                    Broke::Over => return,
                    Broke::Again(why) => tracing::info!(why, "the session with the server begins anew"),
                }
                if began.elapsed() > SILENCE_MAX {
                    backoff.reset();
                }
            }
            Err(error) => {
                let Some(error) = hub.is_fatal(error) else { return };
                if !std::mem::replace(&mut complained, true) {
                    let hint = error.hint().unwrap_or_default();
                    tracing::warn!(%error, hint, "cannot register; jobs go on, and it is tried again");
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next()) => {}
            () = hub.over.cancelled() => return,
        }
    }
}

/// Whoever wanted a new session before this one gets it.
fn already_done(hub: &Hub) {
    let _ = hub.rejoin.notified().now_or_never();
}

fn say(hub: &Hub, registered: &Registered, again: bool) {
    let Registered { pool, dispatch, approval, .. } = registered;
    tracing::info!(node = hub.node(), pool, dispatch, approval, again, "registered");
    if approval != "approved" {
        tracing::warn!(approval, "the node gets no work before an operator approves it");
    }
}

async fn session(hub: &Arc<Hub>, registered: &Registered) -> Broke {
    let again = |error: ClientError| match hub.is_fatal(error) {
        Some(error) => Broke::Again(error.to_string()),
        None => Broke::Over,
    };
    let mut commands = match hub.client.commands(hub.node()).await {
        Ok(commands) => commands,
        Err(error) => return again(error),
    };
    hub.ask.notify_one();
    let beat = registered.heartbeat_interval_ms.clamp(*BEAT_MS.start(), *BEAT_MS.end());
    let mut beats = tokio::time::interval(Duration::from_millis(beat));
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    beats.tick().await;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut probe = tokio::time::interval_at(tokio::time::Instant::now() + PROBE_EVERY, PROBE_EVERY);
    let mut images = tokio::time::interval_at(tokio::time::Instant::now() + IMAGES_EVERY, IMAGES_EVERY);
    let mut heard = tokio::time::Instant::now();
    let mut nonsense = 0;
    // A heartbeat runs beside the commands: a slow answer must not hold them up.
    let mut beating: Option<Beat> = None;
    loop {
        tokio::select! {
            command = commands.next() => match command {
                Ok(Some(command)) => {
                    heard = tokio::time::Instant::now();
                    hub.on_command(command);
                }
                Ok(None) => return Broke::Again("the server closed the line".to_owned()),
                // A server that is newer may say more than is understood here; the rest still counts.
                Err(error @ ClientError::BadAnswer { .. }) if nonsense < NONSENSE_MAX => {
                    nonsense += 1;
                    tracing::warn!(%error, "a command is left out; is the server newer than this agent?");
                }
                Err(error) => return again(error),
            },
            () = tokio::time::sleep_until(heard + SILENCE_MAX) => {
                return Broke::Again("the server is silent".to_owned());
            }
            _ = beats.tick(), if beating.is_none() => beating = Some(beat_once(hub)),
            // Where a short silence means something, the server is asked for a word before that.
            _ = looks.tick(), if beating.is_none() => {
                let shortest = hub.jobs().shortest_silence();
                if shortest.is_some_and(|silence| hub.silent_for() >= silence / 4) {
                    beating = Some(beat_once(hub));
                }
            }
            answer = finished(&mut beating), if beating.is_some() => {
                beating = None;
                match answer {
                    Ok(Ok(heard)) => {
                        hub.heard();
                        if heard.status == "rejoin" {
                            return Broke::Again("the server asks for it".to_owned());
                        }
                        hub.jobs().forget_expected();
                        hub.ask.notify_one();
                    }
                    Ok(Err(error)) => return again(error),
                    Err(error) => return Broke::Again(format!("a heartbeat failed: {error}")),
                }
            }
            _ = probe.tick() => {
                let hub = Arc::clone(hub);
                tokio::spawn(async move { use_programs(&hub, Programs::probe(&hub.config).await) });
            }
            _ = images.tick() => {
                let hub = Arc::clone(hub);
                tokio::spawn(async move {
                    let programs = hub.machine().programs.clone();
                    let images = programs.images().await;
                    hub.machine().set_images(images);
                });
            }
            () = hub.rejoin.notified() => return Broke::Again("what runs here has changed".to_owned()),
            () = hub.over.cancelled() => return Broke::Over,
        }
    }
}

fn beat_once(hub: &Arc<Hub>) -> Beat {
    let hub = Arc::clone(hub);
    tokio::spawn(async move {
        let beat = hub.heartbeat();
        let asked = Instant::now();
        let heard = hub.client.heartbeat(hub.node(), &beat).await?;
        hub.jobs().server_clock.see(asked, heard.server_time_ms);
        Ok(heard)
    })
}

/// Waits for a heartbeat's answer; for ever if none is on its way.
async fn finished(beating: &mut Option<Beat>) -> Result<Result<Heard, ClientError>, tokio::task::JoinError> {
    match beating {
        Some(beat) => beat.await,
        None => std::future::pending().await,
    }
}

/// Uses what was found to run jobs.
fn use_programs(hub: &Hub, programs: Programs) {
    let mut machine = hub.machine();
    if machine.programs == programs {
        return;
    }
    machine.programs = programs.clone();
    tracing::info!(runtimes = machine.runtimes().join(","), "what this node can run has changed");
    drop(machine);
    hub.jobs().site.programs = programs;
}

/// Asks for work in a pull pool whenever there may be some and there is room.
pub(crate) async fn ask(hub: Arc<Hub>) {
    loop {
        tokio::select! {
            () = hub.ask.notified() => {}
            () = hub.over.cancelled() => return,
        }
        // Whoever can only fetch is given the first half of evals that are done in two runs.
        let kinds: &[&str] =
            if hub.config.eval || hub.config.fetch { &["eval", "build"] } else { &["build"] };
        for kind in kinds {
            let slots = hub.jobs().take_ask();
            if slots == 0 {
                continue;
            }
            let ask = Ask { kind: (*kind).to_owned(), slots };
            let answer = hub.client.ask(hub.node(), &ask).await;
            let granted = answer.as_ref().map_or(0, |answer| answer.granted.len() as u32);
            hub.jobs().on_granted(slots, granted);
            if let Err(error) = answer
                && let Some(error) = hub.is_fatal(error)
            {
                tracing::debug!(%error, "cannot ask for work");
            }
        }
    }
}
