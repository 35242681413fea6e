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

pub(crate) fn serve(document: &str) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document.to_owned()).into_response()
}

/// Gives every operation an id of its own: its method and its path.
pub(crate) fn name_operations(document: &mut utoipa::openapi::OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let words = path.trim_start_matches(landfall_api::API).split(['/', '{', '}', '.', '-']);
        let words = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_");
        let operations = [
            ("get", &mut item.get),
            ("put", &mut item.put),
            ("post", &mut item.post),
            ("delete", &mut item.delete),
            ("patch", &mut item.patch),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                operation.operation_id = Some(format!("{method}_{words}"));
            }
        }
    }
}
