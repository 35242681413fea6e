//! What handlers take from requests, with errors in our shape.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use landfall_api::ApiError;
use landfall_model::NodeId;
use landfall_model::scenario::from_message;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::app::App;
use super::problem::Problem;

#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

/// A JSON body that may be left out.
#[derive(Debug)]
pub(crate) struct OptionalBody<T>(pub(crate) T);

/// Parameters after the question mark.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

/// What stands in the path.
#[derive(Debug)]
pub(crate) struct At<T>(pub(crate) T);

/// A node that is named in the path.
#[derive(Debug)]
pub(crate) struct AtNode(pub(crate) NodeId);

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn not_json() -> Problem {
    let error = ApiError::new("not_json", "the body is not declared as JSON");
    let error = error.hint("send the header `Content-Type: application/json`");
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error)
}

async fn bytes(request: Request, limit: usize) -> Result<axum::body::Bytes, Problem> {
    let too_large = || {
        let error = ApiError::new("too_large", format!("the body has more than {limit} bytes"));
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, error.hint("send less at once"))
    };
    let declared = request.headers().get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<u64>().ok());
    if declared.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    axum::body::to_bytes(request.into_body(), limit).await.map_err(|error| {
        if error.to_string().contains("length limit") {
            return too_large();
        }
        Problem::bad("the body broke off", "send it again")
    })
}

/// Reads JSON and says where it goes wrong.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let reader = &mut serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut *reader).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() && path.split('.').any(|step| step == "needs") {
            let found = from_message(&path, &inner.to_string());
            let mut problem = ApiError::new("invalid_needs", found.message).field(found.field);
            problem.hint = found.hint;
            return Problem::new(StatusCode::UNPROCESSABLE_ENTITY, problem);
        }
        let code = if inner.is_data() { "invalid_json" } else { "malformed_json" };
        let mut problem = ApiError::new(code, inner.to_string()).hint("see /openapi.json for the fields");
        if path != "." && inner.is_data() {
            problem = problem.field(path);
        }
        Problem::new(StatusCode::BAD_REQUEST, problem)
    })?;
    reader.end().map_err(|error| {
        let error = ApiError::new("malformed_json", error.to_string());
        Problem::new(StatusCode::BAD_REQUEST, error.hint("send one JSON value"))
    })?;
    Ok(value)
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(not_json());
        }
        let bytes = bytes(request, app.config.body_limit).await?;
        parse(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Arc<App>> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let declared = is_json(request.headers());
        let bytes = bytes(request, app.config.body_limit).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(T::default()));
        }
        if !declared {
            return Err(not_json());
        }
        parse(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let found = Query::<T>::from_request_parts(parts, app).await;
        found
            .map(|Query(value)| Self(value))
            .map_err(|rejection| Problem::bad(rejection.body_text(), "see /openapi.json for the parameters"))
    }
}

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<App>> for At<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let found = Path::<T>::from_request_parts(parts, app).await;
        found.map(|Path(value)| Self(value)).map_err(|rejection| {
            Problem::bad(rejection.body_text(), "names in paths are percent-encoded UTF-8")
        })
    }
}

impl FromRequestParts<Arc<App>> for AtNode {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let At(name) = At::<String>::from_request_parts(parts, app).await?;
        node_id(&name).map(Self)
    }
}

/// The id of a node, checked.
pub(crate) fn node_id(text: &str) -> Result<NodeId, Problem> {
    NodeId::new(text).map_err(|error| Problem::bad(error.to_string(), "use the id of a node"))
}

pub(crate) fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

/// An `ETag` made from a version.
fn etag(version: &str) -> String {
    format!("\"{version}\"")
}

/// Whether a list of tags in a header names this version.
fn names(list: &str, version: &str) -> bool {
    list.split(',').map(str::trim).any(|tag| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        tag == "*" || tag.trim_matches('"') == version
    })
}

/// Whether the asker has this version already.
fn is_known(headers: &HeaderMap, version: &str) -> bool {
    header_text(headers, "if-none-match").is_some_and(|list| names(list, version))
}

/// A thing with its `ETag`.
pub(crate) fn tagged(version: &str, thing: &impl Serialize) -> Response {
    ([(header::ETAG, etag(version))], Json(thing)).into_response()
}

/// A thing with its `ETag`, or only that if the asker has this version already.
pub(crate) fn unless_known(headers: &HeaderMap, version: &str, thing: &impl Serialize) -> Response {
    if is_known(headers, version) {
        return (StatusCode::NOT_MODIFIED, [(header::ETAG, etag(version))]).into_response();
    }
    tagged(version, thing)
}

/// Refuses a change of something that is not what the asker thinks it is. `None` means it does not exist.
pub(crate) fn check_match(headers: &HeaderMap, version: Option<&str>) -> Result<(), Problem> {
    if let Some(list) = header_text(headers, "if-match")
        && !version.is_some_and(|version| names(list, version))
    {
        return Err(Problem::changed("it is not what it was when you looked"));
    }
    if let (Some("*"), Some(_)) = (header_text(headers, "if-none-match"), version) {
        return Err(Problem::changed("it is there already"));
    }
    Ok(())
}
