//! The page: rendered here, kept alive by one stream, with one style and one script of its own.

mod assets;
mod audit;
mod dead;
mod doctor;
mod entries;
mod entry;
mod heads;
mod inbox;
mod lanes;
mod layout;
mod login;
mod overview;
mod parts;
mod relays;
mod route;
mod sagas;
mod spark;
mod waits;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, http::HeaderMap};
use maud::{Markup, html};
use pillarbox_core::RouteName;

use crate::error::Refusal;
use crate::sampler::Snapshot;
use crate::security::Visitor;
use crate::shared::Shared;

pub(crate) use assets::{icon, script, style};
pub(crate) use audit::audit;
pub(crate) use dead::dead;
pub(crate) use doctor::doctor;
pub(crate) use entries::entries;
pub(crate) use entry::entry;
pub(crate) use inbox::inbox;
pub(crate) use login::{log_in, log_out, login};
pub(crate) use overview::overview;
pub(crate) use relays::relays;
pub(crate) use route::route;
pub(crate) use sagas::{saga, sagas};

use layout::Frame;

/// The parts of a view that change with every look.
pub(crate) fn live_parts(
    shared: &Shared,
    snapshot: &Snapshot,
    view: Option<&str>,
    route: Option<&str>,
) -> Markup {
    let main = match view {
        Some("overview") => Some(overview::live(shared, snapshot)),
        Some("relays") => Some(relays::live(shared, snapshot)),
        Some("inbox") => Some(inbox::live(snapshot)),
        Some("route") => {
            let name = route.and_then(|route| RouteName::new(route).ok());
            name.map(|name| route::live(shared, snapshot, &name))
        }
        _ => None,
    };
    html! {
        div data-live="verdict" { (layout::verdict(shared, snapshot)) }
        div data-live="age" { (layout::age(shared, snapshot)) }
        @if let Some(main) = main { div data-live="main" { (main) } }
    }
}

/// A refusal as a page, for a person who follows a link.
pub(crate) fn refused(shared: &Shared, visitor: &Visitor, refusal: &Refusal) -> Response {
    let frame = Frame::new(shared, visitor, "Not shown");
    let page = frame.page(&html! {
        section.empty {
            h1 { "This cannot be shown" }
            p { (refusal.message) }
            p { a href=(shared.path("/")) { "Back to the overview" } }
        }
    });
    (refusal.status, page).into_response()
}

/// There is nothing at this path.
pub(crate) async fn nowhere(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let refusal = Refusal::new(StatusCode::NOT_FOUND, "there is nothing at this address");
    let accept = headers.get("accept").and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if uri.path().starts_with("/api/") || !accept.contains("text/html") {
        return refusal.into_response();
    }
    refused(&shared, &visitor, &refusal)
}
