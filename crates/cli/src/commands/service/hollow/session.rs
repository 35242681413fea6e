//! The connection of a hollow node to the server, as an agent keeps it: register, listen, send heartbeats and reports, begin
//! anew whenever that breaks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt as _, OptionFuture};
use landfall_api::agent::{Ask, Asked, Command, Probed, ReportAnswers, Reports};
use landfall_api::node::{Heard, Heartbeat, Registration};
use landfall_client::{Client, ClientError};
use landfall_replay::trace::random::Random;

use super::Fleet;
use super::node::Node;

/// Waits between tries, with something drawn on top, so that not all nodes come back at the same moment.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Bounds for what the server says about heartbeats.
const BEAT_MS: std::ops::RangeInclusive<u64> = 100..=600_000;
const HOUR: f64 = 3600.0;
/// Reports in one message; after a long break there may be more.
const REPORTS_AT_ONCE: usize = 5000;

/// Why a node is not connected any more.
enum Broke {
    Line,
    /// Its machine is gone, for the sake of trying.
    Vanished,
    Over,
}

pub(super) struct Session {
    pub(super) fleet: Arc<Fleet>,
    pub(super) client: Client,
    pub(super) name: String,
    pub(super) node: Node,
    pub(super) random: Random,
    /// Which start of its machine this is.
    pub(super) epoch: u64,
    pub(super) seq: u64,
    pub(super) journal: String,
    pub(super) joined: bool,
}

impl Session {
    /// Keeps the node up until everything is over.
    pub(super) async fn live(mut self) {
        let over = self.fleet.over.clone();
        while !over.is_cancelled() {
            let broke = tokio::select! {
                broke = self.once() => broke,
                () = over.cancelled() => Broke::Over,
            };
            self.set_joined(false);
            let pause = match broke {
                Broke::Over => return,
                Broke::Line => AGAIN_AFTER.mul_f64(1.0 + self.random.unit()),
                Broke::Vanished => {
                    self.fleet.counts.vanished.fetch_add(1, Ordering::Relaxed);
                    self.count();
                    self.node.forget();
                    self.epoch += 1;
                    self.seq = 0;
                    self.fleet.away
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = over.cancelled() => {}
            }
        }
    }

    /// When this machine is gone next.
    fn vanishes_in(&mut self) -> Option<Duration> {
        let per_hour = self.fleet.vanish_per_hour;
        let hours = (per_hour > 0.0).then(|| self.random.exponential() / per_hour)?;
        Duration::try_from_secs_f64(hours * HOUR).ok()
    }

    fn heartbeat(&mut self) -> Heartbeat {
        self.seq += 1;
        Heartbeat {
            epoch: self.epoch,
            seq: self.seq,
            accepting: true,
            active_jobs: self.node.active(),
            running: self.node.named(),
            ..self.fleet.machine.heartbeat.clone()
        }
    }

    async fn register(&mut self) -> Result<Duration, ClientError> {
        // Thousands at once would only stand in each other's way.
        let fleet = self.fleet.clone();
        let _turn = fleet.turns.acquire().await;
        let heartbeat = self.heartbeat();
        let registration = Registration { forgot: self.seq == 1, heartbeat, ..self.fleet.machine.clone() };
        let registered = self.client.register(&self.name, &registration).await?;
        if self.journal != registered.journal {
            self.client.set_journal(Some(registered.journal.clone()));
            self.node.forget();
            self.journal = registered.journal;
        }
        self.node.slots =
            (registered.dispatch == "pull").then_some(self.fleet.machine.max_concurrent.unwrap_or(1));
        let beat = registered.heartbeat_interval_ms.clamp(*BEAT_MS.start(), *BEAT_MS.end());
        Ok(Duration::from_millis(beat))
    }

    fn set_joined(&mut self, joined: bool) {
        match (std::mem::replace(&mut self.joined, joined), joined) {
            (false, true) => {
                self.fleet.counts.joins.fetch_add(1, Ordering::Relaxed);
                self.fleet.counts.joined.fetch_add(1, Ordering::Relaxed);
            }
            (true, false) => drop(self.fleet.counts.joined.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    fn count(&mut self) {
        let (counted, counts) = (self.node.take_counted(), &self.fleet.counts);
        counts.began.fetch_add(counted.began, Ordering::Relaxed);
        counts.ended.fetch_add(counted.ended, Ordering::Relaxed);
        counts.failed.fetch_add(counted.failed, Ordering::Relaxed);
        counts.stopped.fetch_add(counted.stopped, Ordering::Relaxed);
    }

    /// One session with the server.
    async fn once(&mut self) -> Broke {
        let opened = async {
            let beat = self.register().await?;
            Ok::<_, ClientError>((beat, self.client.commands(&self.name).await?))
        };
        let (beat, mut commands) = match opened.await {
            Ok(opened) => opened,
            Err(error) => {
                self.fleet.complain(&self.name, error);
                return Broke::Line;
            }
        };
        self.set_joined(true);
        let mut beats =
            tokio::time::interval_at((Instant::now() + beat.mul_f64(self.random.unit())).into(), beat);
        // What is so rare that no clock counts so far never happens.
        let vanish = self.vanishes_in().map(tokio::time::sleep);
        let vanishes = vanish.is_some();
        let mut vanish = std::pin::pin!(OptionFuture::from(vanish));
        let mut beating: Option<BoxFuture<'static, Result<Heard, ClientError>>> = None;
        let mut telling: Option<(Reports, BoxFuture<'static, Result<ReportAnswers, ClientError>>)> = None;
        let mut asking: Option<(u32, BoxFuture<'static, Result<Asked, ClientError>>)> = None;
        let mut ask = true;
        loop {
            if telling.is_none() && !self.node.reports.is_empty() {
                let slots = self.node.take_ask();
                telling = Some(self.tell(slots));
            }
            if ask && asking.is_none() {
                ask = false;
                asking = self.ask();
            }
            let next = self.node.next().map(|at| tokio::time::sleep_until(at.into()));
            let waits = next.is_some();
            tokio::select! {
                command = commands.next() => match command {
                    Ok(Some(Command::Work)) => ask = true,
                    Ok(Some(Command::Probe)) => {
                        let (client, name) = (self.client.clone(), self.name.clone());
                        tokio::spawn(async move { client.probed(&name, &Probed { good: true }).await });
                    }
                    Ok(Some(command)) => self.node.on_command(command, Instant::now()),
                    Ok(None) | Err(_) => return self.broke(telling),
                },
                _ = OptionFuture::from(next), if waits => self.node.on_time(Instant::now()),
                answer = answered(telling.as_mut().map(|(_, answer)| answer)), if telling.is_some() => {
                    let Some((reports, _)) = telling.take() else { continue };
                    match answer {
                        Ok(stored) => self.node.on_granted(reports.ask, stored.granted),
                        Err(_) => return self.broke(Some((reports, ()))),
                    }
                }
                answer = answered(asking.as_mut().map(|(_, answer)| answer)), if asking.is_some() => {
                    let Some((slots, _)) = asking.take() else { continue };
                    let granted = answer.map_or(0, |asked| asked.granted.len());
                    self.node.on_granted(slots, u32::try_from(granted).unwrap_or(u32::MAX));
                }
                _ = beats.tick(), if beating.is_none() => {
                    let beat = self.heartbeat();
                    let (client, name) = (self.client.clone(), self.name.clone());
                    beating = Some(async move { client.heartbeat(&name, &beat).await }.boxed());
                }
                answer = answered(beating.as_mut()), if beating.is_some() => {
                    beating = None;
                    match answer {
                        Ok(heard) if heard.status == "rejoin" => return self.broke(telling),
                        Ok(_) => {
                            self.node.forget_expected();
                            ask = true;
                        }
                        Err(_) => return self.broke(telling),
                    }
                }
                _ = &mut vanish, if vanishes => return Broke::Vanished,
            }
            self.count();
        }
    }

    /// What was not stored is told again.
    fn broke<T>(&mut self, telling: Option<(Reports, T)>) -> Broke {
        if let Some((mut reports, _)) = telling {
            reports.reports.append(&mut self.node.reports);
            self.node.reports = reports.reports;
        }
        self.node.forget_expected();
        Broke::Line
    }

    fn tell(&mut self, ask: u32) -> (Reports, BoxFuture<'static, Result<ReportAnswers, ClientError>>) {
        let count = self.node.reports.len().min(REPORTS_AT_ONCE);
        let reports = Reports { reports: self.node.reports.drain(..count).collect(), ask };
        let (client, name, sent) = (self.client.clone(), self.name.clone(), reports.clone());
        (reports, async move { client.report(&name, &sent).await }.boxed())
    }

    fn ask(&mut self) -> Option<(u32, BoxFuture<'static, Result<Asked, ClientError>>)> {
        let slots = self.node.take_ask();
        let (client, name) = (self.client.clone(), self.name.clone());
        let ask = Ask { kind: "build".into(), slots };
        (slots > 0).then(|| (slots, async move { client.ask(&name, &ask).await }.boxed()))
    }
}

/// Waits for an answer; for ever if none is on its way.
async fn answered<T>(
    asked: Option<&mut BoxFuture<'static, Result<T, ClientError>>>,
) -> Result<T, ClientError> {
    match asked {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}
