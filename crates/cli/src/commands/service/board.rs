//! `landfall board`: an address that opens the board and signs one browser in.

use landfall_api::board::SessionCode;
use landfall_client::{Client, ClientError};
use serde::Serialize;

use crate::answer::{Answer, Page};
use crate::error::CliError;
use crate::render::text::clean;
use crate::reply::Reply;
use crate::service::ConnectArgs;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The address has a code that signs in the first browser that opens it, with what your token may do. It works once, within an hour; treat it \
like the token until then.

Examples:
  landfall board
  landfall board --open")]
pub(crate) struct Args {
    /// Open it in the browser.
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
struct Opened {
    address: String,
    expires_at_ms: u64,
}

pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    args.connect.ask(async |client| {
        let code = code(client).await?;
        let address = format!("{}{}", client.server().trim_end_matches('/'), code.path);
        if args.open {
            open(&address);
        }
        let data = Opened { address, expires_at_ms: code.expires_at_ms };
        let page = |data: &Opened, _: Page| format!("{}\n", clean(&data.address));
        Ok(Reply::new("landfall.board/1", data, page).boxed())
    })
}

async fn code(client: &Client) -> Result<SessionCode, ClientError> {
    client.post("/session/code", &serde_json::json!({})).await
}

/// The address of the board of a server, with a code.
pub(super) async fn address(client: &Client, url: &str) -> Result<String, CliError> {
    Ok(format!("{}{}", url.trim_end_matches('/'), code(client).await?.path))
}

/// Opens an address in the browser; where there is none, the address on the screen has to do.
pub(super) fn open(address: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = std::process::Stdio::null;
    let opened = std::process::Command::new(program)
        .arg(address)
        .stdin(quiet())
        .stdout(quiet())
        .stderr(quiet())
        .spawn();
    if let Err(error) = opened {
        anstream::eprintln!("cannot open a browser ({program}: {error}); open the address yourself");
    }
}
