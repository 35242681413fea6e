//! Errors as they leave: one shape, whatever went wrong.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use landfall_api::ApiError;
use landfall_api::answer::Acted;
use landfall_engine::{Answer, Refused};
use landfall_store::StoreError;

use crate::driver::Failure;

/// A request that is not followed: a status, an explanation, and headers that go with it.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) error: Box<ApiError>,
    header: Option<(HeaderName, HeaderValue)>,
}

/// What most handlers answer.
pub(crate) type Reply<T> = Result<Json<T>, Problem>;

impl Problem {
    /// A problem with a status and an explanation.
    pub(crate) fn new(status: StatusCode, error: ApiError) -> Self {
        Self { status, error: Box::new(error), header: None }
    }

    /// Something is wrong with the request itself.
    pub(crate) fn bad(message: impl Into<String>, hint: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ApiError::new("bad_request", message).hint(hint))
    }

    /// The request can be read and makes no sense.
    pub(crate) fn invalid(field: &str, message: impl Into<String>, hint: &str) -> Self {
        let error = ApiError::new("invalid", message).hint(hint).field(field);
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error)
    }

    /// There is no such thing.
    pub(crate) fn unknown(what: &str, id: &str) -> Self {
        let message = format!("there is no {what} `{}`", shortened(id));
        let error = ApiError::new(format!("unknown_{what}"), message);
        Self::new(StatusCode::NOT_FOUND, error.hint(format!("list the {what}s to see which there are")))
    }

    /// The thing is not what the request expects.
    pub(crate) fn changed(message: impl Into<String>) -> Self {
        let error = ApiError::new("changed", message).hint("read it again, then send the new ETag");
        Self::new(StatusCode::PRECONDITION_FAILED, error)
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.header = Some((name, HeaderValue::from_static(value)));
        self
    }
}

/// Names in messages do not get longer than this.
pub(crate) fn shortened(id: &str) -> String {
    const MOST: usize = 80;
    if id.chars().count() <= MOST {
        return id.escape_debug().to_string();
    }
    format!("{}…", id.chars().take(MOST).collect::<String>().escape_debug())
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let message = failure.to_string();
        match failure {
            Failure::Busy => {
                let error = ApiError::new("busy", message).hint("try again in a second");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, error).header(header::RETRY_AFTER, "1")
            }
            Failure::Closing => {
                let error = ApiError::new("closing", message).hint("try again when it is back");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, error).header(header::RETRY_AFTER, "5")
            }
            Failure::Storage(_) => {
                let error = ApiError::new("storage", message).hint("look at the disk of the server");
                Self::new(StatusCode::INSUFFICIENT_STORAGE, error)
            }
            Failure::Refused(status, error) => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::CONFLICT);
                Self::new(status, error)
            }
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let hint = error.hint();
        if let StoreError::Compacted { oldest } = error {
            let error = ApiError::new("compacted", error.to_string())
                .hint(format!("begin with after={}", oldest.saturating_sub(1)));
            return Self::new(StatusCode::GONE, error);
        }
        let error = ApiError::new("storage", error.to_string()).hint(hint);
        Self::new(StatusCode::INSUFFICIENT_STORAGE, error)
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let status = match refused.code.as_ref() {
            "bad_index" | "bad_count" | "bad_lifetime" => StatusCode::BAD_REQUEST,
            "bad_policy" | "policy_family" | "unknown_policy" | "unknown_input" | "out_of_range"
            | "not_finite" | "gang_unsupported" | "never_fits" | "no_pool" | "whole_nodes" | "quota_gpus"
            | "quota_cpus" | "quota_nodes" | "max_jobs" => StatusCode::UNPROCESSABLE_ENTITY,
            code if code.starts_with("unknown_") => StatusCode::NOT_FOUND,
            _ => StatusCode::CONFLICT,
        };
        let mut error = ApiError::new(refused.code, refused.message);
        error.hint = Some(refused.hint).filter(|hint| !hint.is_empty());
        Self::new(status, error)
    }
}

/// What an order became, as it is answered.
pub(crate) fn acted(answer: Answer) -> Result<Acted, Problem> {
    match answer {
        Answer::Refused(refused) => Err(refused.into()),
        Answer::Ignored(why) => Ok(Acted { ignored: Some(why.into_owned()) }),
        Answer::NotCommitted(reasons) => {
            let reasons: Vec<_> = reasons.iter().map(|reason| reason.by_ledger().said()).collect();
            let message = format!("the ledger did not commit it: {}", reasons.join("; "));
            let error = ApiError::new("not_committed", message).hint("look at the situation again");
            Err(Problem::new(StatusCode::CONFLICT, error))
        }
        _ => Ok(Acted::default()),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(*self.error)).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// Errors of the board have its shape, wherever they come from: `{ "error": true, "message": text }`.
pub(crate) async fn in_board_shape(response: Response) -> Response {
    if !(response.status().is_client_error() || response.status().is_server_error()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
    let said = serde_json::from_slice::<ApiError>(&bytes);
    let message = said.map_or_else(|_| String::from_utf8_lossy(&bytes).into_owned(), |error| error.message);
    let body = serde_json::json!({ "error": true, "message": message });
    let mut response = (parts.status, Json(body)).into_response();
    for name in [header::WWW_AUTHENTICATE, header::RETRY_AFTER, header::ALLOW] {
        if let Some(value) = parts.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// The answer where there is no route.
pub(crate) async fn no_route(uri: axum::http::Uri) -> Problem {
    let message = format!("there is nothing at {}", shortened(uri.path()));
    let error = ApiError::new("no_route", message).hint("see /openapi.json");
    Problem::new(StatusCode::NOT_FOUND, error)
}

/// The answer where a route does not know the method.
pub(crate) async fn no_method(method: axum::http::Method, uri: axum::http::Uri) -> Problem {
    let message = format!("{} does not answer {}", shortened(uri.path()), shortened(method.as_str()));
    let error = ApiError::new("no_method", message).hint("see /openapi.json");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, error)
}

/// The answer after a panic, which is always a mistake of ours.
pub(crate) fn after_panic(what: Box<dyn std::any::Any + Send>) -> Response {
    let text = what.downcast_ref::<&str>().copied().map(str::to_owned);
    let text = text.or_else(|| what.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!(panic = %text, "a request failed by a mistake of the server");
    let error =
        ApiError::new("internal", "the server made a mistake").hint("report it with the server's log");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error).into_response()
}

/// What every route may answer beside what it says itself.
pub(crate) struct Problems;

impl utoipa::IntoResponses for Problems {
    fn responses()
    -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::response::Response>> {
        described::<ApiError>(&[
            ("400", "The request cannot be read, or a parameter is wrong."),
            ("401", "There is no valid token."),
            ("403", "The token may not do this."),
            ("404", "There is no such thing."),
            ("405", "The route does not know the method."),
            ("503", "Too much to do; try again after `Retry-After` seconds."),
            ("507", "It could not be read or stored."),
        ])
    }
}

/// What routes with a body may answer beside [`Problems`].
pub(crate) struct BodyProblems;

impl utoipa::IntoResponses for BodyProblems {
    fn responses()
    -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::response::Response>> {
        described::<ApiError>(&[
            ("409", "The thing is in a state in which this cannot be done."),
            ("412", "The thing has changed; its ETag is not the one in `If-Match`."),
            ("413", "The body is too large."),
            ("415", "The body is not `application/json`."),
            ("422", "The body can be read and makes no sense."),
        ])
    }
}

/// Answers with these statuses, all in the shape of one type.
pub(crate) fn described<T: utoipa::PartialSchema>(
    statuses: &[(&str, &str)],
) -> std::collections::BTreeMap<String, utoipa::openapi::RefOr<utoipa::openapi::response::Response>> {
    let of = |(status, text): &(&str, &str)| {
        let content = utoipa::openapi::ContentBuilder::new().schema(Some(T::schema())).build();
        let response = utoipa::openapi::ResponseBuilder::new()
            .description(*text)
            .content("application/json", content)
            .build();
        ((*status).to_owned(), utoipa::openapi::RefOr::T(response))
    };
    statuses.iter().map(of).collect()
}
