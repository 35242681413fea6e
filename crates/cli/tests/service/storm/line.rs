//! The line between an agent and the server: a relay that can be cut, hold everything back, or be slow.
//!
//! A silent line loses nothing by itself, as TCP does not: what was on its way arrives when the line is back, or the
//! connection is found to be broken. Which of the two is up to whoever mends it.

use std::time::Duration;

use landfall_testkit::Rng;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// After how long Linux sends again what was not acknowledged, at the least.
const RESENT_AFTER: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Weather {
    Open,
    /// Every piece waits so long, in both directions.
    Slow(Duration),
    /// The same, and one piece in fifty waits for as long as TCP does before it sends again what was lost; drawn from a seed.
    Lossy {
        pause: Duration,
        seed: u64,
    },
    /// Nothing passes; whoever speaks is not told.
    Silent,
    /// Connections break and new ones are refused.
    Cut,
}

/// The weather, and how often connections have been broken: one that is older than the last time ends.
type Now = (Weather, u64);

pub(crate) struct Line {
    now: watch::Sender<Now>,
    /// What the agent is told as the address of the server.
    pub(crate) url: String,
}

impl Line {
    /// A line to `server`, such as `127.0.0.1:7878`.
    pub(crate) async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (now, seen) = watch::channel((Weather::Open, 0));
        tokio::spawn(async move {
            while let Ok((agent, _)) = listener.accept().await {
                if seen.borrow().0 != Weather::Cut {
                    tokio::spawn(relay(agent, server.clone(), seen.clone()));
                }
            }
        });
        Self { now, url }
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.now.send_modify(|now| *now = (weather, now.1 + u64::from(weather == Weather::Cut)));
    }

    /// Opens it again; connections of before may be found broken.
    pub(crate) fn mend(&self, broken: bool) {
        self.now.send_modify(|now| *now = (Weather::Open, now.1 + u64::from(broken)));
    }
}

async fn relay(agent: TcpStream, server: String, now: watch::Receiver<Now>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let since = now.borrow().1;
    let ((from_agent, to_agent), (from_server, to_server)) = (agent.into_split(), server.into_split());
    // Whichever side ends first ends both, as a broken line does.
    tokio::select! {
        () = pump(from_agent, to_server, now.clone()) => {}
        () = pump(from_server, to_agent, now.clone()) => {}
        () = broken(now, since) => {}
    }
}

async fn broken(mut now: watch::Receiver<Now>, since: u64) {
    let _ = now.wait_for(|(_, breaks)| *breaks > since).await;
}

async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut now: watch::Receiver<Now>,
) {
    let (mut piece, mut random) = (vec![0; 1 << 16], None);
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let Ok(weather) = now.wait_for(|(weather, _)| *weather != Weather::Silent).await.map(|now| now.0)
        else {
            return;
        };
        match weather {
            Weather::Slow(pause) => tokio::time::sleep(pause).await,
            Weather::Lossy { pause, seed } => {
                let random = random.get_or_insert_with(|| Rng::new(seed));
                tokio::time::sleep(pause + RESENT_AFTER * u32::from(random.one_in(50))).await;
            }
            _ => {}
        }
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}
