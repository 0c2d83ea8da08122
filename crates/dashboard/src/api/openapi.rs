//! The OpenAPI document, made from the code.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, Server};
use utoipa::{Modify, OpenApi};

use crate::shared::Shared;

/// The API of a dashboard.
#[derive(OpenApi)]
#[openapi(
    info(title = "Pillarbox", description = "Look at an outbox and act on it."),
    paths(
        super::looking::status,
        super::looking::routes,
        super::looking::route,
        super::waiting::waits,
        super::waiting::lanes,
        super::looking::relays,
        super::looking::inbox,
        super::trail::audit,
        super::reading::entries,
        super::reading::groups,
        super::reading::entry,
        super::reading::payload,
        super::actions::act,
        super::actions::pause,
        super::actions::resume,
        super::actions::purge,
        super::sagas::sagas,
        super::sagas::saga,
        super::sagas::intervene,
    ),
    modifiers(&Token)
)]
struct Api;

/// A token in the header `Authorization`.
struct Token;

impl Modify for Token {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = openapi.components.get_or_insert_with(Components::new);
        components.add_security_scheme("token", scheme);
        openapi.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new())]);
    }
}

/// The OpenAPI document.
pub(crate) async fn document(State(shared): State<Arc<Shared>>) -> Json<utoipa::openapi::OpenApi> {
    let mut api = Api::openapi();
    if !shared.options.prefix.is_empty() {
        api.servers = Some(vec![Server::new(shared.options.prefix.clone())]);
    }
    Json(api)
}
