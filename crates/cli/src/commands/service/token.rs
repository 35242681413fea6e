//! `landfall token`: who may do what.

use std::path::PathBuf;

use landfall_api::token::{NewToken, Role, TokenRequest, TokenView};
use landfall_client::segment;
use landfall_model::{Mib, MilliCpu};
use serde::Serialize;

use super::listing;
use super::submit::args::millis;
use crate::answer::{Answer, Page};
use crate::config::cores;
use crate::error::{CliError, usage};
use crate::render;
use crate::render::text::clean;
use crate::reply::Reply;
use crate::service::{self, ConnectArgs, now_ms};

/// Commands about tokens.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Make a token; its secret is shown this once.
    #[command(after_help = "\
Roles: admin (everything), operator (everything but tokens), submitter (jobs of one tenant), agent (speaks for a node).

Examples:
  landfall token create ana --role submitter --tenant vision
  landfall token create gpu-3 --role agent --node gpu-3 --out gpu-3.token
  landfall token create fleet --role agent --node '*' --expires 7d
  landfall token create guest --role agent --node guest --max-cpus 8 --max-memory 32GiB")]
    Create(CreateArgs),
    /// List tokens, never their secrets.
    #[command(after_help = "Example:\n  landfall token list")]
    List(ListArgs),
    /// Revoke tokens at once.
    #[command(after_help = "Example:\n  landfall token revoke ana")]
    Revoke(RevokeArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// What it is called.
    #[arg(value_name = "NAME")]
    name: String,
    /// What its bearer may do.
    #[arg(long, value_name = "ROLE", value_parser = ["admin", "operator", "submitter", "agent"])]
    role: String,
    /// The tenant of a submitter.
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,
    /// The node of an agent; `*` for any.
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    /// Cores that the node of an agent counts for at most, whatever it says.
    #[arg(long, value_name = "CORES", value_parser = cores)]
    max_cpus: Option<MilliCpu>,
    /// Memory that it counts for at most.
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<Mib>,
    /// How long it works, such as `30d` [default: until it is revoked].
    #[arg(long, value_name = "SPAN", value_parser = millis)]
    expires: Option<u64>,
    /// Write the secret to this file, which only you may read, instead of showing it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArgs {
    /// Ids of tokens (`landfall token list`), or names that only one token has.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
pub(crate) struct Created {
    #[serde(flatten)]
    pub(crate) token: TokenView,
    /// The secret, unless it went to a file.
    pub(crate) secret: Option<String>,
    pub(crate) file: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Listed {
    pub(crate) tokens: Vec<TokenView>,
    #[serde(skip)]
    pub(crate) now_ms: u64,
}

#[derive(Serialize)]
struct Revoked {
    revoked: Vec<String>,
}

pub(crate) fn run(command: &Command) -> Result<Box<dyn Answer>, CliError> {
    match command {
        Command::Create(args) => create(args),
        Command::List(args) => args.connect.ask(async |client| {
            let tokens = listing::all(client, "/tokens", &[]).await?;
            let data = Listed { tokens, now_ms: now_ms() };
            Ok(Reply::new("landfall.tokens/1", data, render::service::fleet::tokens).boxed())
        }),
        Command::Revoke(args) => args.connect.ask(async |client| {
            let known: Vec<TokenView> = listing::all(client, "/tokens", &[]).await?;
            let ids = args.ids.iter().map(|given| meant(given, &known)).collect::<Result<Vec<_>, _>>()?;
            for id in &ids {
                client.delete::<serde_json::Value>(&format!("/tokens/{}", segment(id))).await?;
            }
            let page = |data: &Revoked, _: Page| format!("revoked {}\n", clean(&data.revoked.join(", ")));
            let data = Revoked { revoked: ids };
            Ok(Reply::new("landfall.tokens-revoked/1", data, page).boxed())
        }),
    }
}

/// The id of the token that an id or a name stands for.
fn meant(given: &str, known: &[TokenView]) -> Result<String, CliError> {
    if known.iter().any(|token| token.id == given) {
        return Ok(given.to_owned());
    }
    let named: Vec<&str> =
        known.iter().filter(|token| token.name == given).map(|token| token.id.as_str()).collect();
    match named.as_slice() {
        [] => {
            let names = known.iter().map(|token| token.name.as_str());
            Err(CliError::no_such("token", given, names).or_hint("`landfall token list` shows all"))
        }
        [only] => Ok((*only).to_owned()),
        several => Err(usage(
            format!("{} tokens are called `{given}`", several.len()),
            format!("name one by its id: {}", several.join(", ")),
        )),
    }
}

fn create(args: &CreateArgs) -> Result<Box<dyn Answer>, CliError> {
    let role = match args.role.as_str() {
        "admin" => Role::Admin,
        "operator" => Role::Operator,
        "submitter" => Role::Submitter,
        _ => Role::Agent,
    };
    match (role, &args.tenant, &args.node) {
        (Role::Submitter, None, _) => {
            return Err(usage("a submitter acts for a tenant", "name it with --tenant"));
        }
        (Role::Agent, _, None) => {
            return Err(usage("an agent speaks for a node", "name it with --node, or say --node '*'"));
        }
        (Role::Submitter, _, Some(_)) => return Err(usage("a submitter has no node", "leave --node out")),
        (Role::Agent, Some(_), _) => return Err(usage("an agent has no tenant", "leave --tenant out")),
        _ => {}
    }
    let client = args.connect.client()?;
    if let Some(path) = &args.out
        && path.exists()
    {
        return Err(CliError::Exists { file: path.display().to_string() });
    }
    let expires = args.expires.map(|span| Ok::<_, CliError>(args.connect.now()?.saturating_add(span)));
    let request = TokenRequest {
        name: args.name.clone(),
        role,
        tenant: args.tenant.clone(),
        node: args.node.clone(),
        expires_at_ms: expires.transpose()?,
        max_cpu_milli: args.max_cpus.map(MilliCpu::get),
        max_ram_mib: args.max_memory.map(Mib::get),
    };
    service::block_on(async {
        let NewToken { token, secret } = client.post("/tokens", &request).await?;
        let (mut shown, mut file) = (Some(secret), None);
        if let Some(path) = &args.out {
            let secret = shown.take().unwrap_or_default();
            write_secret(path, &secret)?;
            file = Some(path.display().to_string());
        }
        let data = Created { token, secret: shown, file };
        Ok(Reply::new("landfall.token/1", data, render::service::fleet::token).boxed())
    })
}

/// Writes a secret to a file that only its owner may read.
pub(crate) fn write_secret(path: &std::path::Path, secret: &str) -> Result<(), CliError> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let failed = |source| CliError::Write { file: path.display().to_string(), source };
    let beside = path.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).map_err(failed)?;
    writeln!(file, "{secret}").and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_a_token_if_only_one_has_it() {
        let token = |id: &str, name: &str| TokenView {
            id: id.into(),
            name: name.into(),
            role: Role::Admin,
            tenant: None,
            node: None,
            created_at_ms: 0,
            expires_at_ms: None,
            max_cpu_milli: None,
            max_ram_mib: None,
        };
        let known = [token("a1", "ana"), token("b1", "ben"), token("b2", "ben"), token("c1", "a1")];
        assert_eq!(meant("ana", &known).unwrap(), "a1");
        assert_eq!(meant("a1", &known).unwrap(), "a1", "an id comes before a name");
        assert!(matches!(meant("ben", &known), Err(CliError::Usage { .. })));
        assert!(matches!(meant("nobody", &known), Err(CliError::NoSuch { .. })));
    }
}
