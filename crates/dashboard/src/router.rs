//! Every path of the server, and what guards it.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::uri::{PathAndQuery, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use tower::ServiceExt as _;

use crate::security::{add_headers, authenticate, check_host, guard_changes, limit_time};
use crate::shared::{Dashboard, Shared};
use crate::{api, health, live, page};

/// The largest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

impl Dashboard {
    /// The router: `/` the page, `/api/v1/…` the API, `/livez`, `/readyz` and `/metrics`. It shows what
    /// [`run`](Self::run) reads, so run that beside it.
    pub fn router(&self) -> Router {
        let shared = Arc::clone(&self.shared);
        let app = Router::new()
            .merge(open())
            .merge(guarded(&shared))
            .layer(from_fn_with_state(Arc::clone(&shared), check_host))
            .layer(from_fn(add_headers))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(Arc::clone(&shared));
        if shared.options.prefix.is_empty() {
            return app;
        }
        let prefix: Arc<str> = shared.options.prefix.as_str().into();
        Router::new().fallback_service(app.map_request(move |request: Request<Body>| strip(request, &prefix)))
    }
}

/// What everybody may ask for: each is one exact path. Every other path, also one that only looks like these, is guarded.
fn open() -> Router<Arc<Shared>> {
    Router::new()
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/login", get(page::login).post(page::log_in))
        .route("/assets/page.css", get(page::style))
        .route("/assets/page.js", get(page::script))
        .route("/assets/icon.svg", get(page::icon))
        .layer(from_fn(limit_time))
}

fn guarded(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let answers = Router::new()
        .merge(pages())
        .merge(interface())
        .route("/metrics", get(health::metrics))
        .fallback(page::nowhere)
        .layer(from_fn(limit_time));
    answers
        .route("/live", get(live::live))
        .layer(from_fn_with_state(Arc::clone(shared), guard_changes))
        // A viewer may log out too.
        .route("/logout", post(page::log_out))
        .layer(from_fn_with_state(Arc::clone(shared), authenticate))
}

fn pages() -> Router<Arc<Shared>> {
    Router::new()
        .route("/", get(page::overview))
        .route("/routes/{route}", get(page::route))
        .route("/entries", get(page::entries))
        .route("/entries/{event_id}", get(page::entry))
        .route("/dead", get(page::dead))
        .route("/sagas", get(page::sagas))
        .route("/sagas/{id}", get(page::saga))
        .route("/relays", get(page::relays))
        .route("/inbox", get(page::inbox))
        .route("/audit", get(page::audit))
        .route("/doctor", get(page::doctor))
}

fn interface() -> Router<Arc<Shared>> {
    Router::new()
        .route("/api/v1/openapi.json", get(api::document))
        .route("/api/v1/status", get(api::status))
        .route("/api/v1/routes", get(api::routes))
        .route("/api/v1/routes/{route}", get(api::route))
        .route("/api/v1/routes/{route}/waits", get(api::waits))
        .route("/api/v1/routes/{route}/lanes", get(api::lanes))
        .route("/api/v1/routes/{route}/pause", post(api::pause))
        .route("/api/v1/routes/{route}/resume", post(api::resume))
        .route("/api/v1/entries", get(api::entries))
        .route("/api/v1/entries/{id}", get(api::entry).post(api::act))
        .route("/api/v1/entries/{id}/payload", get(api::payload))
        .route("/api/v1/groups", get(api::groups))
        .route("/api/v1/purge", post(api::purge))
        .route("/api/v1/sagas", get(api::sagas))
        .route("/api/v1/sagas/{id}", get(api::saga))
        .route("/api/v1/sagas/{id}/{verb}", post(api::intervene))
        .route("/api/v1/relays", get(api::relays))
        .route("/api/v1/inbox", get(api::inbox))
        .route("/api/v1/audit", get(api::audit))
}

/// Takes the prefix off a path that has it: a proxy may have done so already.
fn strip(mut request: Request<Body>, prefix: &str) -> Request<Body> {
    let path = request.uri().path();
    let Some(rest) = path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return request;
    };
    let rest = if rest.is_empty() { "/" } else { rest };
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    if let Ok(path) = format!("{rest}{query}").parse::<PathAndQuery>() {
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}
