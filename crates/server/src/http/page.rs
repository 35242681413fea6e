//! The board itself: a page, its script and its style, with headers that keep everything else out.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::app::{App, Shared};
use super::extract::header_text;
use super::problem::no_route;

/// Nothing from elsewhere, nothing inline, in nobody's frame; reports are shown in frames of their own, which may do less.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(index))
        .route("/favicon.svg", get(icon))
        .route("/assets/{file}", get(part))
        .layer(axum::middleware::map_response(guarded))
}

async fn guarded(mut response: Response) -> Response {
    let headers: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn index(State(app): Shared, headers: HeaderMap, uri: Uri) -> Response {
    file(&app, "index.html", &headers, uri).await
}

async fn icon(State(app): Shared, headers: HeaderMap, uri: Uri) -> Response {
    file(&app, "favicon.svg", &headers, uri).await
}

async fn part(State(app): Shared, Path(name): Path<String>, headers: HeaderMap, uri: Uri) -> Response {
    file(&app, &format!("assets/{name}"), &headers, uri).await
}

async fn file(app: &App, path: &str, headers: &HeaderMap, uri: Uri) -> Response {
    let Some(asset) = landfall_board::asset(path).filter(|_| app.config.board) else {
        return no_route(uri).await.into_response();
    };
    let packs = packs(headers);
    let (bytes, packed) = match asset.packed.filter(|_| packs) {
        Some(packed) => (packed, true),
        None => (asset.bytes, false),
    };
    let keep = if asset.is_fixed() { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut response =
        ([(header::CONTENT_TYPE, asset.kind()), (header::CACHE_CONTROL, keep)], bytes).into_response();
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if packed {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Whether whoever asks can unpack gzip.
pub(crate) fn packs(headers: &HeaderMap) -> bool {
    header_text(headers, "accept-encoding").is_some_and(|text| {
        text.split(',').any(|coding| {
            let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
            name.trim().eq_ignore_ascii_case("gzip") && quality.trim() != "q=0"
        })
    })
}
