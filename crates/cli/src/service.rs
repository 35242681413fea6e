//! How commands reach a server: where it is, who asks, and the one place where the asynchronous world begins.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use landfall_api::answer::StatusView;
use landfall_client::{Client, Settings};

use crate::config::{Config, ConfigArgs, Origin};
use crate::error::{CliError, usage};
use crate::render::clock::parse_date;

// Where the server is, and who asks.
#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct ConnectArgs {
    /// Where the server is [env: LANDFALL_SERVER; default: the one that `landfall up` started].
    #[arg(long, value_name = "URL", help_heading = "Connection")]
    pub(crate) server: Option<String>,
    /// A file with the secret of a token [env: LANDFALL_TOKEN, LANDFALL_TOKEN_FILE; default: what `landfall up` wrote].
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates of authorities to trust instead of the system's [env: LANDFALL_CA_FILE].
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) ca_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

impl ConnectArgs {
    /// What was given, as settings.
    pub(crate) fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        vec![
            ("client.server", self.server.clone()),
            ("client.token_file", path(&self.token_file)),
            ("client.ca_file", path(&self.ca_file)),
        ]
    }

    /// The settings in force.
    pub(crate) fn load(&self) -> Result<Config, CliError> {
        Config::load(&self.config, &self.flags())
    }

    /// A client with the settings in force.
    pub(crate) fn client(&self) -> Result<Client, CliError> {
        client(&self.load()?)
    }

    /// The server's time, in milliseconds since 1970. Its clock may be another than the one here, and it corrects what jumps.
    pub(crate) fn now(&self) -> Result<u64, CliError> {
        self.ask(async |client| Ok(client.get::<StatusView>("/status").await?.now_ms))
    }

    /// Asks the server something, with a client of those settings.
    pub(crate) fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&Client) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let client = self.client()?;
        block_on(question(&client))
    }
}

/// A server that may be away for a while and come back, even at another address.
#[derive(Clone)]
pub(crate) struct Returning {
    client: Client,
    connect: Option<ConnectArgs>,
}

impl Returning {
    /// The server that the arguments lead to, looked for anew while it does not answer.
    pub(crate) fn new(client: Client, connect: &ConnectArgs) -> Self {
        Self { client, connect: Some(connect.clone()) }
    }

    /// A server that is where it is.
    pub(crate) fn fixed(client: Client) -> Self {
        Self { client, connect: None }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Reads again where it is: after a new start the data directory may name another port.
    pub(crate) fn look_again(&mut self) {
        // Settings that cannot be read for a moment say nothing new.
        if let Some(Ok(found)) = self.connect.as_ref().map(ConnectArgs::client)
            && found.server() != self.client.server()
        {
            self.client = found;
        }
    }
}

/// A client with these settings.
pub(crate) fn client(config: &Config) -> Result<Client, CliError> {
    let (server, token) = (server(config), token(config)?);
    let mut settings = Settings::new(server);
    settings.token = token;
    settings.ca_file = config.path("client.ca_file");
    Ok(Client::new(&settings)?)
}

/// Where the server is: as said, else where `up` wrote that it is, else where it usually is.
pub(crate) fn server(config: &Config) -> String {
    let said = config.text("client.server").map(str::to_owned);
    said.or_else(|| url_of_up(config)).unwrap_or_else(|| format!("http://127.0.0.1:{}", landfall_api::PORT))
}

fn url_of_up(config: &Config) -> Option<String> {
    found(config).map(|(url, _)| url)
}

/// Where the server of the data directory wrote that it is, and the file it wrote it to.
pub(crate) fn found(config: &Config) -> Option<(String, PathBuf)> {
    let file = config.data_dir().ok()?.join("url");
    one_line(&file).map(|url| (url, file))
}

/// Where the server of a data directory is.
pub(crate) fn server_of(dir: &Path) -> Result<String, CliError> {
    one_line(&dir.join("url")).ok_or_else(|| {
        usage(
            format!("{} is no data directory of a server", dir.display()),
            "is the server up? `landfall server --data-dir DIR` starts it",
        )
    })
}

/// The token: as said, else the one that `up` wrote, which is for the server of `up` and never sent to another one.
pub(crate) fn token(config: &Config) -> Result<Option<String>, CliError> {
    let (secret, file) = (config.text("client.token"), config.path("client.token_file"));
    let strength = |key: &str| match config.origin(key) {
        Origin::Flag => 3,
        Origin::Env(_) => 2,
        Origin::File(_) => 1,
        Origin::Default => 0,
    };
    match (secret, file) {
        (Some(secret), file)
            if file.is_none() || strength("client.token") >= strength("client.token_file") =>
        {
            Ok(Some(secret.to_owned()))
        }
        (_, Some(path)) => read_token(&path).map(Some),
        _ => {
            let is_ours = config.text("client.server").is_none_or(|said| {
                url_of_up(config).is_some_and(|ours| ours.trim_end_matches('/') == said.trim_end_matches('/'))
            });
            let file = config.data_dir().ok().map(|dir| dir.join("token"));
            Ok(file.filter(|_| is_ours).and_then(|path| one_line(&path)))
        }
    }
}

/// The secret in a file.
pub(crate) fn read_token(path: &Path) -> Result<String, CliError> {
    let file = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| CliError::Read { file: file.clone(), source })?;
    let secret = text.trim();
    if secret.is_empty() || secret.lines().count() > 1 {
        return Err(usage(
            format!("{file} does not hold the secret of a token"),
            "the file should have one line with the secret",
        ));
    }
    Ok(secret.to_owned())
}

fn one_line(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|line| !line.is_empty() && !line.contains('\n'))
}

/// Runs something asynchronous to its end, in this thread: a client waits more than it works, and what an agent does for
/// a job is over sooner than another thread wakes.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    run(tokio::runtime::Builder::new_current_thread(), future)
}

/// Runs something asynchronous that serves many, on all processors.
pub(crate) fn block_on_all_cpus<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    run(tokio::runtime::Builder::new_multi_thread(), future)
}

fn run<T>(
    mut builder: tokio::runtime::Builder,
    future: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    let runtime = builder.enable_all().build().map_err(|source| {
        let message = format!("cannot start: {source}");
        CliError::Failed { message, hint: "the system has no more threads to give; try again later".into() }
    })?;
    let outcome = runtime.block_on(future);
    // A thread that still reads standard input must not keep the program from ending.
    runtime.shutdown_background();
    outcome
}

/// An instant to come: a span (`+8h`) from the server's time, which is asked for then, a date in UTC, or milliseconds since
/// 1970.
pub(crate) fn later(
    flag: &str,
    text: &str,
    now: impl FnOnce() -> Result<u64, CliError>,
) -> Result<u64, CliError> {
    let wrong = || {
        let hint = "write +8h for in eight hours, 2026-11-17T12:30:00Z, or milliseconds since 1970";
        usage(format!("{flag}: `{text}` is no instant"), hint)
    };
    match text.strip_prefix('+') {
        Some(span) => {
            let span = landfall_model::span(span).map_err(|_| wrong())?;
            Ok(now()?.saturating_add(span.get()))
        }
        None => text.parse().ok().or_else(|| parse_date(text)).ok_or_else(wrong),
    }
}

/// The clock here, in milliseconds since 1970: to show how long ago something was, never to say when something shall be.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
