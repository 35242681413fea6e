//! `landfall peers` and `landfall peer`: who places work with this server, and who it is among them.

use std::path::PathBuf;

use landfall_api::peer::{AddPeer, OwnPeer, PeerRequest, PeerView};
use landfall_client::segment;
use serde::{Deserialize, Serialize};

use super::listing;
use crate::answer::Answer;
use crate::config::{Config, ConfigArgs};
use crate::error::{CliError, broken, usage};
use crate::input::Input;
use crate::render;
use crate::reply::Reply;
use crate::service::ConnectArgs;

/// Commands about other peers.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// List the peers that are trusted, connected or known.
    #[command(after_help = "Example:\n  landfall peers list")]
    List(ConnectArgs),
    /// Show a peer: trust, facts, what was wrong with what it sent.
    #[command(after_help = "Example:\n  landfall peers show 9xKq")]
    Show(OneArgs),
    /// Keep in touch with a peer from now on.
    #[command(after_help = "\
Examples:
  landfall peers add /ip4/10.0.0.2/tcp/7879/p2p/12D3KooW...          an address that `landfall peer id` printed there
  landfall peers add '/ip4/10.0.0.2/tcp/7879/p2p/12D3KooW...#SECRET'  an invitation: both trust each other afterwards")]
    Add(AddArgs),
    /// Trust a peer: from 0.1 on it may submit work here, from 0.3 on it may run work of this server.
    #[command(after_help = "Example:\n  landfall peers trust 9xKq 0.8 --note 'the lab next door'")]
    Trust(TrustArgs),
    /// Exchange nothing with a peer any more.
    #[command(after_help = "Example:\n  landfall peers block 9xKq --note 'sends nonsense'")]
    Block(BlockArgs),
    /// Show what is owed to peers, and what they owe.
    #[command(after_help = "Example:\n  landfall peers accounts")]
    Accounts(ConnectArgs),
    /// Write the trust table, notes and blocks as a file.
    #[command(after_help = "Example:\n  landfall peers export > trust.toml")]
    Export(ConnectArgs),
    /// Trust, note and block as a file says; who is not in it stays as it is.
    #[command(after_help = "Example:\n  landfall peers import trust.toml")]
    Import(ImportArgs),
}

/// Commands about the peer that this server is.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum OwnCommand {
    /// Print the id of this server's peer, and how others reach it.
    #[command(after_help = "Example:\n  landfall peer id")]
    Id(IdArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneArgs {
    /// The peer: its id, or as much of the end of it as is unique.
    #[arg(value_name = "PEER")]
    peer: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// Its address, or an invitation.
    #[arg(value_name = "ADDRESS")]
    address: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// The peer: its id, or as much of the end of it as is unique.
    #[arg(value_name = "PEER")]
    peer: String,
    /// From 0 (not at all) to 1.
    #[arg(value_name = "TRUST", value_parser = share)]
    trust: f64,
    /// Why, for people.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// How near it is: cell, org, federation, commons.
    #[arg(long, value_name = "SCOPE", value_parser = ["local", "cell", "org", "federation", "commons"])]
    scope: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BlockArgs {
    /// The peer: its id, or as much of the end of it as is unique.
    #[arg(value_name = "PEER")]
    peer: String,
    /// Let it in again.
    #[arg(long)]
    undo: bool,
    /// Why, for people.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// A file that `landfall peers export` wrote.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct IdArgs {
    /// Read it from this data directory instead of asking the server.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The trust table as a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrustFile {
    #[serde(default)]
    peers: Vec<TrustRow>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustRow {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trust: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    blocked: bool,
}

/// What a server thinks of its peers, as a file.
async fn exported(client: &landfall_client::Client) -> Result<TrustFile, CliError> {
    let own: OwnPeer = client.get("/peer").await?;
    let all: Vec<PeerView> = listing::all(client, "/peers", &[]).await?;
    let said = |peer: &PeerView| peer.trust.is_some() || peer.blocked || peer.note.is_some();
    let rows = all.into_iter().filter(|peer| peer.id != own.id && said(peer)).map(|peer| TrustRow {
        id: peer.id,
        trust: peer.trust,
        scope: Some(peer.scope).filter(|scope| scope != "commons"),
        note: peer.note,
        blocked: peer.blocked,
    });
    Ok(TrustFile { peers: rows.collect() })
}

/// Makes a server think of its peers as a file says.
async fn import(client: &landfall_client::Client, rows: Vec<TrustRow>) -> Result<Listed, CliError> {
    let mut peers = Vec::new();
    for row in rows {
        let asked =
            PeerRequest { trust: row.trust, note: row.note, blocked: Some(row.blocked), scope: row.scope };
        peers.push(client.put(&format!("/peers/{}", segment(&row.id)), &asked).await?);
    }
    Ok(Listed { peers })
}

fn share(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().map_err(|_| format!("`{text}` is no number"))?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err("trust is a number from 0 to 1".into()) }
}

#[derive(Serialize)]
pub(crate) struct Listed {
    pub(crate) peers: Vec<PeerView>,
}

#[derive(Serialize)]
pub(crate) struct One {
    #[serde(flatten)]
    pub(crate) peer: PeerView,
}

#[derive(Serialize)]
pub(crate) struct Own {
    #[serde(flatten)]
    pub(crate) peer: OwnPeer,
}

/// The whole id of a peer that somebody shortened; a whole one need not be known yet.
async fn resolved(client: &landfall_client::Client, text: &str) -> Result<String, CliError> {
    let all: Vec<PeerView> = listing::all(client, "/peers", &[]).await?;
    let mut found = all.iter().filter(|peer| peer.id.ends_with(text)).map(|peer| peer.id.clone());
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(usage(format!("several peers end with `{text}`"), "give more of the id")),
        (None, _) => Ok(text.to_owned()),
    }
}

pub(crate) fn run(command: &Command) -> Result<Box<dyn Answer>, CliError> {
    let one =
        |peer: PeerView| Reply::new("landfall.peer/1", One { peer }, render::service::peers::one).boxed();
    match command {
        Command::List(connect) => connect.ask(async |client| {
            let peers = listing::all(client, "/peers", &[]).await?;
            Ok(Reply::new("landfall.peers/1", Listed { peers }, render::service::peers::list).boxed())
        }),
        Command::Export(connect) => connect.ask(async |client| {
            let page = |table: &TrustFile, _| toml::to_string(table).unwrap_or_default();
            Ok(Reply::new("landfall.trust/1", exported(client).await?, page).boxed())
        }),
        Command::Import(args) => {
            let file = Input::read(&args.file)?;
            let table: TrustFile = toml::from_str(&file.text).map_err(|error| {
                usage(
                    format!("{}: {}", file.file, error.message()),
                    "`landfall peers export` writes such a file",
                )
            })?;
            let wrong = |row: &&TrustRow| row.trust.is_some_and(|trust| !(0.0..=1.0).contains(&trust));
            if let Some(row) = table.peers.iter().find(wrong) {
                return Err(usage(
                    format!("{}: the trust in {} is no number from 0 to 1", file.file, row.id),
                    "nothing was changed; correct it",
                ));
            }
            args.connect.ask(async |client| {
                let listed = import(client, table.peers).await?;
                Ok(Reply::new("landfall.peers/1", listed, render::service::peers::list).boxed())
            })
        }
        Command::Accounts(connect) => connect.ask(async |client| {
            let peers: Vec<PeerView> = listing::all(client, "/peers", &[]).await?;
            let peers = peers.into_iter().filter(|peer| peer.account != Default::default()).collect();
            Ok(Reply::new("landfall.accounts/1", Listed { peers }, render::service::peers::accounts).boxed())
        }),
        Command::Show(args) => args.connect.ask(async |client| {
            let id = resolved(client, &args.peer).await?;
            Ok(one(client.get(&format!("/peers/{}", segment(&id))).await?))
        }),
        Command::Add(args) => args.connect.ask(async |client| {
            let asked = AddPeer { address: args.address.clone() };
            let peer: OwnPeer = client.post("/peers", &asked).await?;
            Ok(Reply::new("landfall.own-peer/1", Own { peer }, |_, _| "added\n".to_owned()).boxed())
        }),
        Command::Trust(args) => args.connect.ask(async |client| {
            let id = resolved(client, &args.peer).await?;
            let asked = PeerRequest {
                trust: Some(args.trust),
                note: args.note.clone(),
                scope: args.scope.clone(),
                ..PeerRequest::default()
            };
            Ok(one(client.put(&format!("/peers/{}", segment(&id)), &asked).await?))
        }),
        Command::Block(args) => args.connect.ask(async |client| {
            let id = resolved(client, &args.peer).await?;
            let asked =
                PeerRequest { blocked: Some(!args.undo), note: args.note.clone(), ..PeerRequest::default() };
            Ok(one(client.put(&format!("/peers/{}", segment(&id)), &asked).await?))
        }),
    }
}

pub(crate) fn own(command: &OwnCommand) -> Result<Box<dyn Answer>, CliError> {
    let OwnCommand::Id(args) = command;
    let shown = |peer| Reply::new("landfall.own-peer/1", Own { peer }, render::service::peers::own).boxed();
    if let Some(dir) = &args.data_dir {
        let flags = [("server.data_dir", Some(dir.display().to_string()))];
        let dir = Config::load(&ConfigArgs::default(), &flags)?.data_dir()?;
        let found =
            landfall_server::peer_id(&dir).map_err(|error| broken(error.to_string(), "look at that file"))?;
        let id = found.ok_or_else(|| {
            usage(
                format!("{} has no key of a peer", dir.display()),
                "it is made when a server whose pool negotiates starts there: `landfall up --peer`",
            )
        })?;
        let (pool, addresses) = (String::new(), Vec::new());
        return Ok(shown(OwnPeer { id, pool, addresses, invitation: None, epoch: 0 }));
    }
    args.connect.ask(async |client| Ok(shown(client.get("/peer").await?)))
}
