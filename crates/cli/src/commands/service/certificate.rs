//! `landfall certificate`: a self-signed certificate, to try TLS without an authority.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::answer::{Answer, Page};
use crate::error::{CliError, usage};
use crate::render::text::clean;
use crate::reply::Reply;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes cert.pem and key.pem. Give both to the server, and cert.pem to whoever shall trust it. For more than a try, get a certificate \
from your authority.

Examples:
  landfall certificate --host landfall.lab --host 10.0.0.5 --out tls
  landfall server --listen 0.0.0.0:7878 --tls-cert tls/cert.pem --tls-key tls/key.pem
  landfall status --server https://landfall.lab:7878 --ca-file tls/cert.pem --token-file ana.token")]
pub(crate) struct Args {
    /// A name or address under which the server is reached; may be given several times.
    #[arg(long = "host", value_name = "NAME", required = true)]
    hosts: Vec<String>,
    /// The directory to write to; it is made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(Serialize)]
struct Made {
    cert: String,
    key: String,
    hosts: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<Box<dyn Answer>, CliError> {
    let bad = |error: rcgen::Error| {
        usage(format!("no certificate can be made for that: {error}"), "give host names or addresses")
    };
    let made = rcgen::generate_simple_self_signed(args.hosts.clone()).map_err(bad)?;
    let (cert, key) = (args.out.join("cert.pem"), args.out.join("key.pem"));
    std::fs::create_dir_all(&args.out).map_err(|source| unwritten(&args.out, source))?;
    write_new(&key, 0o600, &made.signing_key.serialize_pem())?;
    write_new(&cert, 0o644, &made.cert.pem())?;
    let data =
        Made { cert: cert.display().to_string(), key: key.display().to_string(), hosts: args.hosts.clone() };
    let page = |made: &Made, _: Page| format!("{}\n{}\n", clean(&made.cert), clean(&made.key));
    Ok(Reply::new("landfall.certificate/1", data, page).boxed())
}

/// Never over something that is there: it may be the key of a server that runs.
fn write_new(path: &Path, mode: u32, text: &str) -> Result<(), CliError> {
    let file = std::fs::File::options().write(true).create_new(true).mode(mode).open(path);
    match file.and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(CliError::Exists { file: path.display().to_string() })
        }
        Err(source) => Err(unwritten(path, source)),
    }
}

fn unwritten(path: &Path, source: std::io::Error) -> CliError {
    CliError::Write { file: path.display().to_string(), source }
}
