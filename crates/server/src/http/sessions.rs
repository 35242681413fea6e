//! Sessions of browsers. Whoever shows a token, or a code that was made with one, gets a cookie that scripts cannot read.
//!
//! A session stands for its token: it may do what the token may, and ends with it. Sessions and codes are kept in memory, so a restart ends
//! them. Cookies are sent by browsers unasked, so a request that is let in by one has to come from the board's own page: browsers say
//! where a request comes from, and a change needs a header that pages of other origins cannot send.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use landfall_api::answer::Acted;
use landfall_api::board::{SessionCode, SessionRequest, SessionView};
use landfall_api::token::Role;
use landfall_api::{ApiError, FROM_THE_BOARD};
use landfall_model::{Millis, Time};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::{App, Shared};
use super::auth::{Principal, forbidden, hash, hex, unauthorized};
use super::extract::{Body, header_text};
use super::problem::{BodyProblems, Problem, Problems, Reply};
use crate::driver::Failure;

/// How long a code may be turned into a session.
const CODE_LASTS: Millis = Millis::secs(3600);
/// How long a session lasts.
const SESSION_LASTS: Millis = Millis::secs(7 * 86_400);
/// Codes, and sessions, that are kept at once; beyond that the oldest go.
const KEPT_MAX: usize = 10_000;

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(who, sign_in, sign_out)).routes(routes!(make_code))
}

/// Something secret that stands for a token for a while.
#[derive(Debug, Clone)]
struct Stand {
    token: String,
    until: Time,
}

/// By the hash of what is secret.
type Stands = BTreeMap<String, Stand>;

/// Codes and sessions that work.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    codes: Mutex<Stands>,
    sessions: Mutex<Stands>,
}

fn locked(stands: &Mutex<Stands>) -> MutexGuard<'_, Stands> {
    stands.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a secret that stands for a token.
fn add(stands: &Mutex<Stands>, token: &str, now: Time, lasts: Millis) -> Result<(String, Time), Failure> {
    let mut random = [0u8; 32];
    getrandom::fill(&mut random).map_err(|error| Failure::Storage(format!("no randomness: {error}")))?;
    let (secret, until) = (hex(&random), now + lasts);
    let mut stands = locked(stands);
    stands.retain(|_, stand| stand.until > now);
    if stands.len() >= KEPT_MAX {
        let oldest = stands.iter().min_by_key(|(_, stand)| stand.until).map(|(key, _)| key.clone());
        oldest.map(|oldest| stands.remove(&oldest));
    }
    stands.insert(hash(&secret), Stand { token: token.to_owned(), until });
    Ok((secret, until))
}

/// The name of the cookie: browsers share cookies between ports, so that of another server must not be overwritten.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = header_text(headers, "host").unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| port.parse::<u16>().is_ok());
    format!("landfall-{}", port.unwrap_or("session"))
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let name = cookie_name(headers);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

fn set_cookie(app: &App, headers: &HeaderMap, value: &str, seconds: u64) -> HeaderValue {
    let secure = if app.config.tls.is_some() { "; Secure" } else { "" };
    let name = cookie_name(headers);
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Whether a browser says that a page of another origin asks.
fn is_foreign(headers: &HeaderMap) -> bool {
    if let Some(site) = header_text(headers, "sec-fetch-site") {
        // What the person at the browser asks for, by typing an address, comes from no page.
        return !matches!(site, "same-origin" | "none");
    }
    let Some(origin) = header_text(headers, "origin") else { return false };
    let host = origin.split_once("://").map(|(_, host)| host);
    host.is_none() || host != header_text(headers, "host")
}

fn refused_foreign() -> Problem {
    let error = ApiError::new("cross_site", "a page of another site asks for this in your name");
    let hint = format!("programs send a token; the board's own page sends the header `{FROM_THE_BOARD}`");
    Problem::new(StatusCode::FORBIDDEN, error.hint(hint))
}

/// Who asks by a cookie, if anybody does.
pub(crate) fn principal(parts: &Parts, app: &App) -> Option<Result<Principal, Problem>> {
    let secret = cookie(&parts.headers)?;
    let now = app.handle.now();
    let stand = locked(&app.sessions.sessions).get(&hash(secret)).cloned().filter(|stand| stand.until > now);
    let known = stand.and_then(|stand| app.tokens.principal(&stand.token, now));
    let Some(known) = known else {
        return Some(Err(unauthorized("session_over", "the session is over: sign in again")));
    };
    let changes = !matches!(parts.method, Method::GET | Method::HEAD);
    if is_foreign(&parts.headers) || (changes && !parts.headers.contains_key(FROM_THE_BOARD)) {
        return Some(Err(refused_foreign()));
    }
    Some(Ok(known))
}

fn view(principal: Principal, until: Option<Time>) -> SessionView {
    SessionView {
        name: principal.name,
        role: principal.role,
        tenant: principal.tenant,
        expires_at_ms: until.map(|until| u64::try_from(until.as_millis()).unwrap_or(0)),
    }
}

/// Says who is signed in; null if nobody is.
#[utoipa::path(get, path = "/session", tag = "board", security(()),
    responses((status = 200, description = "Who asks.", body = Option<SessionView>), Problems))]
async fn who(
    State(app): Shared,
    principal: Result<Principal, Problem>,
    headers: HeaderMap,
) -> Json<Option<SessionView>> {
    // Nobody is an answer to this, not an error.
    let Ok(principal) = principal else { return Json(None) };
    let stand =
        cookie(&headers).and_then(|secret| locked(&app.sessions.sessions).get(&hash(secret)).cloned());
    let own = stand.filter(|stand| stand.token == principal.token);
    Json(Some(view(principal, own.map(|stand| stand.until))))
}

/// Signs a browser in: a code or a token becomes a cookie.
#[utoipa::path(post, path = "/session", tag = "board", request_body = SessionRequest, security(()),
    responses((status = 200, description = "Signed in.", body = SessionView,
            headers(("Set-Cookie" = String, description = "The session."))), Problems, BodyProblems))]
async fn sign_in(
    State(app): Shared,
    headers: HeaderMap,
    Body(request): Body<SessionRequest>,
) -> Result<Response, Problem> {
    if is_foreign(&headers) {
        return Err(refused_foreign());
    }
    let now = app.handle.now();
    let principal = match (request.code, request.token) {
        (Some(code), None) => {
            let stand = locked(&app.sessions.codes).remove(&hash(&code)).filter(|stand| stand.until > now);
            let known = stand.and_then(|stand| app.tokens.principal(&stand.token, now));
            known.ok_or_else(|| {
                let mut problem = unauthorized("bad_code", "this address was used before, or is too old");
                problem.error.hint = Some("`landfall board` makes a new one; or sign in with a token".into());
                problem
            })?
        }
        (None, Some(secret)) => app.tokens.check(secret.trim(), now)?,
        _ => {
            return Err(Problem::invalid(
                "token",
                "a session needs a code or a token",
                "send one of the two",
            ));
        }
    };
    if principal.role == Role::Agent {
        return Err(forbidden(&principal, "submitter"));
    }
    let (secret, until) = add(&app.sessions.sessions, &principal.token, now, SESSION_LASTS)?;
    tracing::info!(token = %principal.name, "a browser signed in");
    let set = set_cookie(&app, &headers, &secret, SESSION_LASTS.get() / 1000);
    Ok(([(header::SET_COOKIE, set)], Json(view(principal, Some(until)))).into_response())
}

/// Signs a browser out.
#[utoipa::path(delete, path = "/session", tag = "board",
    responses((status = 200, description = "The session is over.", body = Acted), Problems))]
async fn sign_out(State(app): Shared, _anyone: Principal, headers: HeaderMap) -> Response {
    if let Some(secret) = cookie(&headers) {
        locked(&app.sessions.sessions).remove(&hash(secret));
    }
    ([(header::SET_COOKIE, set_cookie(&app, &headers, "", 0))], Json(Acted::default())).into_response()
}

/// Makes a code that becomes a session for whoever opens the address first.
#[utoipa::path(post, path = "/session/code", tag = "board",
    responses((status = 200, description = "The code.", body = SessionCode), Problems))]
async fn make_code(State(app): Shared, principal: Principal) -> Reply<SessionCode> {
    if principal.role == Role::Agent {
        return Err(forbidden(&principal, "submitter"));
    }
    if !app.config.board {
        let error =
            ApiError::new("no_board", "this server has no board").hint("`server.board = true` turns it on");
        return Err(Problem::new(StatusCode::NOT_FOUND, error));
    }
    let (code, until) = add(&app.sessions.codes, &principal.token, app.handle.now(), CODE_LASTS)?;
    // Behind the number sign it stays in the browser: no log and no other site sees it.
    let path = format!("/#/sign-in/{code}");
    let expires_at_ms = u64::try_from(until.as_millis()).unwrap_or(0);
    Ok(Json(SessionCode { code, path, expires_at_ms }))
}
