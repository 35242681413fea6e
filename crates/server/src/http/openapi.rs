//! The OpenAPI document, made from the handlers.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

/// What stands above the routes.
#[derive(OpenApi)]
#[openapi(
    info(title = "Landfall", description = "Where work runs, and why. Errors have one shape: code, message, hint, field."),
    modifiers(&Bearer),
    security(("bearer" = []))
)]
pub(crate) struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("A token.")).build();
        let components = document.components.get_or_insert_with(Default::default);
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}

/// The document as an answer.
pub(crate) fn serve(document: &str) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document.to_owned()).into_response()
}
