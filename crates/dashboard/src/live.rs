//! The stream of live updates: each look of the sampler, as the part of the page that shows it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use serde::Deserialize;
use tokio::sync::watch;

use crate::error::Refusal;
use crate::page;
use crate::sampler::Snapshot;
use crate::shared::Shared;

/// What the open page shows.
#[derive(Deserialize)]
pub(crate) struct LiveQuery {
    view: Option<String>,
    route: Option<String>,
}

/// Sends the live parts of a view whenever the sampler has read something.
pub(crate) async fn live(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<LiveQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    let permit = Arc::clone(&shared.streams).try_acquire_owned().map_err(|_| {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open; close one and try again")
    })?;
    let mut latest: watch::Receiver<Arc<Snapshot>> = shared.latest.subscribe();
    latest.mark_changed();
    let stream = unfold((latest, permit, shared, query), async |(mut latest, permit, shared, query)| {
        latest.changed().await.ok()?;
        let snapshot = Arc::clone(&latest.borrow_and_update());
        let html = page::live_parts(&shared, &snapshot, query.view.as_deref(), query.route.as_deref());
        let event = Event::default().event("look").data(html.into_string().replace(['\n', '\r'], " "));
        Some((Ok(event), (latest, permit, shared, query)))
    });
    let quiet =
        KeepAlive::new().interval(Duration::from_secs(10)).event(Event::default().event("quiet").data(""));
    Ok(Sse::new(stream).keep_alive(quiet))
}
