//! What if last week: a stretch of the server's own journal is replayed under other policies.
//!
//! The work is done by a child, the same program as `landfall compare --journal`: it gives way to everything else on the machine, takes one
//! core, and is ended when it needs more time or memory than it may. One runs at a time. It reads the journal by itself, so the driver is
//! not asked anything. What comes of it lies in `replays/` of the data directory, the newest so many; a report is shown in a frame that
//! may do nothing but show it, whoever made it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use landfall_api::ApiError;
use landfall_api::answer::Acted;
use landfall_api::replay::{OpenReport, ReplayRequest, ReplayView};
use landfall_policy::builtin;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::Operator;
use super::extract::{At, Body};
use super::problem::{BodyProblems, Problem, Problems, Reply};

/// The longest that a replay may take.
const TIME_MAX: Duration = Duration::from_secs(30 * 60);
/// The most memory that it may take, as its own command line says it.
const MEMORY_MAX: &str = "4GiB";
/// Replays and reports that are kept; the oldest go.
const KEPT_MAX: usize = 20;
/// Characters of what a child said that are told.
const SAID_MAX: usize = 600;
/// Whatever pools have.
const OWN: &str = "own";

/// A report may show itself, and nothing else: no script, no request, no way to the page around it.
const SANDBOX: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                       form-action 'none'; frame-ancestors 'self'";

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, begin))
        .routes(routes!(one, remove))
        .routes(routes!(report))
        .routes(routes!(open))
}

/// The replay that runs, if one does.
#[derive(Debug, Default)]
pub(crate) struct Replays(Mutex<Option<Running>>);

#[derive(Debug, Clone)]
struct Running {
    id: u64,
    cancel: CancellationToken,
}

impl Replays {
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self, id: u64) -> bool {
        self.running().as_ref().is_some_and(|running| running.id == id)
    }
}

fn folder(app: &App) -> PathBuf {
    app.config.data_dir.join("replays")
}

fn storage(error: std::io::Error) -> Problem {
    crate::driver::Failure::Storage(error.to_string()).into()
}

/// Does something with files on a thread that may wait for them.
async fn with_files<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| crate::driver::Failure::Closing)?.map_err(storage)
}

fn write(dir: &Path, view: &ReplayView) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let beside = dir.join("replay.json.new");
    std::fs::write(&beside, serde_json::to_vec(view).map_err(std::io::Error::other)?)?;
    std::fs::rename(beside, dir.join("replay.json"))
}

/// All that are kept, newest first.
fn read_all(folder: &Path) -> std::io::Result<Vec<ReplayView>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut all = Vec::new();
    for entry in entries {
        let dir = entry?.path();
        // What cannot be read was being written when the server ended.
        let Ok(text) = std::fs::read(dir.join("replay.json")) else { continue };
        let Ok(mut view) = serde_json::from_slice::<ReplayView>(&text) else { continue };
        let progress = std::fs::read_to_string(dir.join("progress")).ok();
        view.progress =
            progress.and_then(|text| text.trim().parse().ok()).filter(|_| view.state == "running");
        all.push(view);
    }
    all.sort_by_key(|view| std::cmp::Reverse(view.id));
    Ok(all)
}

async fn all(app: &App) -> Result<Vec<ReplayView>, Problem> {
    let folder = folder(app);
    let mut all = with_files(move || read_all(&folder)).await?;
    for view in all.iter_mut().filter(|view| view.state == "running" && !app.replays.is_running(view.id)) {
        view.state = "failed".to_owned();
        view.error = Some("the server ended meanwhile".to_owned());
    }
    Ok(all)
}

async fn known(app: &App, id: &str) -> Result<ReplayView, Problem> {
    let number: u64 = id.parse().map_err(|_| Problem::unknown("replay", id))?;
    let found = all(app).await?.into_iter().find(|view| view.id == number);
    found.ok_or_else(|| Problem::unknown("replay", id))
}

/// Takes a number for the next one and makes room for it.
async fn place(app: &App) -> Result<(u64, PathBuf), Problem> {
    let known = all(app).await?;
    let id = known.first().map_or(1, |newest| newest.id + 1);
    let folder = folder(app);
    let old: Vec<PathBuf> = known
        .iter()
        .filter(|view| view.state != "running")
        .skip(KEPT_MAX - 1)
        .map(|view| folder.join(view.id.to_string()))
        .collect();
    let dir = folder.join(id.to_string());
    let made = dir.clone();
    with_files(move || {
        for old in old {
            std::fs::remove_dir_all(old)?;
        }
        std::fs::create_dir_all(made)
    })
    .await?;
    Ok((id, dir))
}

fn now_ms(app: &App) -> u64 {
    u64::try_from(app.handle.now().as_millis()).unwrap_or(0)
}

/// Lists replays of the journal and reports that were opened, newest first.
#[utoipa::path(get, path = "/replays", tag = "replays",
    responses((status = 200, description = "All that are kept.", body = Vec<ReplayView>), Problems))]
async fn list(State(app): Shared, _operator: Operator) -> Reply<Vec<ReplayView>> {
    all(&app).await.map(Json)
}

/// Shows a replay and how far it is.
#[utoipa::path(get, path = "/replays/{id}", tag = "replays", params(("id" = String, Path, description = "Its number.")),
    responses((status = 200, description = "The replay.", body = ReplayView), Problems))]
async fn one(State(app): Shared, _operator: Operator, At(id): At<String>) -> Reply<ReplayView> {
    known(&app, &id).await.map(Json)
}

/// Replays a stretch of the server's own journal under other policies. One runs at a time, with the lowest priority, for half an hour at
/// most; its report is there when it is done.
#[utoipa::path(post, path = "/replays", tag = "replays", request_body = ReplayRequest,
    responses((status = 201, description = "It has begun.", body = ReplayView), Problems, BodyProblems))]
async fn begin(
    State(app): Shared,
    Operator(principal): Operator,
    Body(asked): Body<ReplayRequest>,
) -> Result<(StatusCode, Json<ReplayView>), Problem> {
    let now = now_ms(&app);
    let until = asked.until_ms.unwrap_or(now).min(now);
    if asked.since_ms >= until {
        return Err(Problem::invalid("since_ms", "the stretch has no length", "begin before it ends"));
    }
    let pool = pool_of(&app, asked.pool).await?;
    let policies = policies_of(asked.policies)?;
    let program = std::env::current_exe().map_err(storage)?;
    // Held until it is known to run, so that two who ask at once do not both begin.
    let _one_by_one = app.edits.lock().await;
    if app.replays.running().is_some() {
        let error = ApiError::new("replay_runs", "a replay is under way").hint("wait for it, or cancel it");
        return Err(Problem::new(StatusCode::CONFLICT, error));
    }
    let (id, dir) = place(&app).await?;
    let view = ReplayView {
        id,
        state: "running".to_owned(),
        since_ms: Some(asked.since_ms),
        until_ms: Some(until),
        pool: Some(pool.clone()),
        policies: policies.clone(),
        by: principal.name,
        began_at_ms: now,
        ..ReplayView::default()
    };
    let (noted, to) = (view.clone(), dir.clone());
    let said =
        with_files(move || write(&to, &noted).and_then(|()| std::fs::File::create(to.join("said")))).await?;
    let mut command = tokio::process::Command::new(program);
    command.arg("compare").arg("--journal").arg(&app.config.data_dir);
    command.args(["--since", &asked.since_ms.to_string(), "--until", &until.to_string(), "--pool", &pool]);
    for policy in &policies {
        command.args(["--policy", policy]);
    }
    command.arg("--out").arg(&dir).arg("--force").arg("--progress-file").arg(dir.join("progress"));
    command.args(["--low-priority", "--threads", "1", "--memory-max", MEMORY_MAX]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).kill_on_drop(true).spawn();
    let child = child.map_err(storage)?;
    let cancel = CancellationToken::new();
    *app.replays.running() = Some(Running { id, cancel: cancel.clone() });
    tokio::spawn(follow(app.clone(), child, cancel, view.clone(), dir));
    Ok((StatusCode::CREATED, Json(view)))
}

async fn pool_of(app: &App, asked: Option<String>) -> Result<String, Problem> {
    let pools = app
        .handle
        .read(|view| view.engine.state().pools.keys().map(ToString::to_string).collect::<Vec<String>>());
    let pools = pools.await?;
    match asked {
        Some(pool) if pools.contains(&pool) => Ok(pool),
        Some(pool) => Err(Problem::unknown("pool", &pool)),
        None if pools.len() == 1 => Ok(pools.into_iter().next().unwrap_or_default()),
        None => {
            Err(Problem::invalid("pool", "there are several pools", "name one: a policy suits one of them"))
        }
    }
}

fn policies_of(mut asked: Vec<String>) -> Result<Vec<String>, Problem> {
    let invalid = |message: String, hint: &str| Err(Problem::invalid("policies", message, hint));
    if let Some(unknown) =
        asked.iter().find(|name| *name != OWN && !builtin::ALL.iter().any(|(known, _)| known == name))
    {
        let message = format!("there is no policy `{}`", super::problem::shortened(unknown));
        return invalid(message, "`landfall policy list` names them; `own` is what the pool had");
    }
    match asked.len() {
        1 if asked[0] != OWN => asked.insert(0, OWN.to_owned()),
        2 if asked[0] != asked[1] => {}
        _ => return invalid("it takes one or two policies".to_owned(), "one is compared with `own`"),
    }
    Ok(asked)
}

/// Waits for a child, and notes what came of it.
async fn follow(
    app: Arc<App>,
    mut child: tokio::process::Child,
    cancel: CancellationToken,
    mut view: ReplayView,
    dir: PathBuf,
) {
    let over = tokio::select! {
        status = child.wait() => match status {
            Ok(status) if status.success() => Ok("done"),
            Ok(status) => Err(status.to_string()),
            Err(error) => Err(error.to_string()),
        },
        () = cancel.cancelled() => Ok("cancelled"),
        () = app.shutdown.cancelled() => Err("the server ended meanwhile".to_owned()),
        () = tokio::time::sleep(TIME_MAX) => {
            Err(format!("it took longer than {} min; choose a shorter stretch", TIME_MAX.as_secs() / 60))
        }
    };
    if child.id().is_some() {
        // It may have ended by itself meanwhile.
        let _ = child.kill().await;
    }
    view.ended_at_ms = Some(now_ms(&app));
    let to = dir.clone();
    let noted = with_files(move || {
        match over {
            Ok(state) => view.state = state.to_owned(),
            Err(how) => {
                let said = std::fs::read_to_string(to.join("said")).unwrap_or_default();
                let said: String = said.trim().chars().take(SAID_MAX).collect();
                // A program that gets no memory can only say so and abort.
                let memory = said.is_empty() || said.contains("memory allocation");
                view.error = Some(match memory && how.contains("signal") {
                    true => format!("it needed more than {MEMORY_MAX} of memory; choose a shorter stretch"),
                    false if said.is_empty() => how,
                    false => said,
                });
                view.state = "failed".to_owned();
            }
        }
        write(&to, &view)
    });
    if noted.await.is_err() {
        tracing::warn!("what came of a replay could not be written down");
    }
    *app.replays.running() = None;
}

/// Ends a replay that runs, or removes one that is over, with its report.
#[utoipa::path(delete, path = "/replays/{id}", tag = "replays", params(("id" = String, Path, description = "Its number.")),
    responses((status = 200, description = "Done.", body = Acted), Problems))]
async fn remove(State(app): Shared, _operator: Operator, At(id): At<String>) -> Reply<Acted> {
    let view = known(&app, &id).await?;
    let running = app.replays.running().clone().filter(|running| running.id == view.id);
    if let Some(running) = running {
        running.cancel.cancel();
    } else {
        let dir = folder(&app).join(view.id.to_string());
        with_files(move || std::fs::remove_dir_all(dir)).await?;
    }
    Ok(Json(Acted::default()))
}

/// Opens a report that was made elsewhere, so that it can be looked at here. It is kept like the others.
#[utoipa::path(post, path = "/replays/reports", tag = "replays", request_body = OpenReport,
    responses((status = 201, description = "It is there.", body = ReplayView), Problems, BodyProblems))]
async fn open(
    State(app): Shared,
    Operator(principal): Operator,
    Body(report): Body<OpenReport>,
) -> Result<(StatusCode, Json<ReplayView>), Problem> {
    let begins = report.html.trim_start().get(..9).is_some_and(|text| text.eq_ignore_ascii_case("<!doctype"));
    if !begins {
        let hint = "give the text of the report.html that `landfall compare --out DIR` wrote";
        return Err(Problem::invalid(
            "html",
            "this is no report: it does not begin with <!doctype html>",
            hint,
        ));
    }
    let _one_by_one = app.edits.lock().await;
    let (id, dir) = place(&app).await?;
    let now = now_ms(&app);
    let view = ReplayView {
        id,
        state: "opened".to_owned(),
        name: Some(report.name.chars().filter(|char| !char.is_control()).take(200).collect()),
        by: principal.name,
        began_at_ms: now,
        ended_at_ms: Some(now),
        ..ReplayView::default()
    };
    let noted = view.clone();
    with_files(move || {
        std::fs::write(dir.join("report.html"), report.html)?;
        write(&dir, &noted)
    })
    .await?;
    Ok((StatusCode::CREATED, Json(view)))
}

/// The report of a replay, as a page that may do nothing but be looked at.
#[utoipa::path(get, path = "/replays/{id}/report", tag = "replays", params(("id" = String, Path, description = "Its number.")),
    responses((status = 200, description = "A page.", body = String, content_type = "text/html"), Problems))]
async fn report(State(app): Shared, _operator: Operator, At(id): At<String>) -> Result<Response, Problem> {
    let view = known(&app, &id).await?;
    let file = folder(&app).join(view.id.to_string()).join("report.html");
    let read = tokio::fs::read(file).await;
    let text = match read {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Problem::unknown("report", &id));
        }
        Err(error) => return Err(storage(error)),
    };
    let headers: [(HeaderName, &str); 5] = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, SANDBOX),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_policy_is_compared_with_what_the_pool_had() {
        let names = |given: &[&str]| {
            policies_of(given.iter().map(|name| (*name).to_owned()).collect())
                .map_err(|problem| problem.error.message)
        };
        assert_eq!(names(&["fgd"]).unwrap(), ["own", "fgd"]);
        assert_eq!(names(&["fgd", "bin-pack"]).unwrap(), ["fgd", "bin-pack"]);
        assert_eq!(names(&["bin-pack", "own"]).unwrap(), ["bin-pack", "own"]);
        for wrong in [&[][..], &["own"], &["fgd", "fgd"], &["fgd", "bin-pack", "own"], &["nonsense"]] {
            assert!(names(wrong).is_err(), "{wrong:?}");
        }
    }
}
