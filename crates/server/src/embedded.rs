//! A server without a socket: requests go straight to its routes. For programs that have their own way in, and for tests.

use std::sync::Arc;

use axum::Router;
use landfall_store::sqlite::Sqlite;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::driver::Driver;
use crate::error::ServerError;
use crate::http;
use crate::http::app::App;
use crate::serve::{admin_token, blocking, open_app};

/// A server that runs until [`Embedded::end`]. Whatever it acknowledges is stored as by any other.
pub struct Embedded {
    app: Arc<App>,
    router: Router,
    admin_token: String,
    driver: Driver,
    chores: tokio::task::JoinHandle<()>,
}

impl Embedded {
    /// Starts one on the data directory of a configuration, whose address and certificate are of no account.
    ///
    /// # Errors
    /// When it cannot start.
    pub async fn start(config: Config) -> Result<Self, ServerError> {
        let dir = config.data_dir.clone();
        let store = blocking("cannot open the journal", move || Sqlite::open(&dir)).await??;
        // Nobody reaches it, so it is no peer of anybody.
        let (app, driver, _) = open_app(config, store, CancellationToken::new()).await?;
        let file = admin_token(&app).await?;
        let read = std::fs::read_to_string(&file);
        let token = read
            .map_err(|error| ServerError::File { path: file, message: error.to_string() })?
            .trim()
            .to_owned();
        let chores = http::chores(app.clone());
        Ok(Self { router: http::router(app.clone()), app, admin_token: token, driver, chores })
    }

    /// Its routes.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// A token that may do everything.
    pub fn admin_token(&self) -> &str {
        &self.admin_token
    }

    /// Ends it; all that is stored stays.
    pub async fn end(self) {
        self.app.shutdown.cancel();
        self.chores.abort();
        self.app.handle.connections().close();
        self.app.handle.close().await;
        let _ = tokio::task::spawn_blocking(move || self.driver.join()).await;
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}
