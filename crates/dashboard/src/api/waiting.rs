//! How long the deliveries of a route took, and what waits in each of its lanes. Read when asked for.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use pillarbox_core::port::{LaneBacklog, WAIT_BOUNDS, Waits, WaitsRequest};
use pillarbox_core::{Result, RouteName};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{ErrorJson, Refusal};
use crate::shared::Shared;

/// How far back deliveries are looked at.
pub(crate) const WAITS_WITHIN: Duration = Duration::from_secs(24 * 3600);

impl Shared {
    /// How long the newest deliveries of a route took.
    pub(crate) async fn waits(&self, route: &RouteName) -> Result<Waits> {
        let request = WaitsRequest { route: route.clone(), within: WAITS_WITHIN, now: None };
        self.ports.admin.waits(request).await
    }

    /// The route of this name, if something was staged on it.
    async fn known_route(&self, route: String) -> Result<RouteName, Refusal> {
        let name = RouteName::new(route)?;
        let snapshot = self.first_look().await;
        match snapshot.route(&name) {
            Some(_) => Ok(name),
            None => Err(Refusal::not_found("no entry of this route was staged")),
        }
    }
}

/// Entries that waited about equally long.
#[derive(Serialize, ToSchema)]
pub(crate) struct WaitJson {
    /// They waited no longer than this, and longer than the bound before it. Null: longer than every bound.
    up_to_seconds: Option<f64>,
    entries: u64,
}

/// How long the newest deliveries of a route took.
#[derive(Serialize, ToSchema)]
pub(crate) struct WaitsJson {
    route: String,
    /// Only entries that were delivered within this time are counted.
    within_seconds: u64,
    /// How many entries were counted, at most 1000. Entries that are deleted on delivery are not counted.
    entries: u64,
    /// The entries by how long they waited from staging to delivery, delays and retries included.
    waits: Vec<WaitJson>,
}

#[utoipa::path(get, path = "/api/v1/routes/{route}/waits", tag = "looking",
    params(("route" = String, Path, description = "The route.")),
    responses((status = 200, body = WaitsJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 404, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// How long the newest deliveries of a route took, from staging to delivery.
pub(crate) async fn waits(
    State(shared): State<Arc<Shared>>,
    Path(route): Path<String>,
) -> Result<Json<WaitsJson>, Refusal> {
    let name = shared.known_route(route).await?;
    let waits = shared.waits(&name).await?;
    let bounds = WAIT_BOUNDS.iter().map(|bound| Some(bound.as_secs_f64())).chain([None]);
    let counted = bounds.zip(waits.counts);
    Ok(Json(WaitsJson {
        route: name.to_string(),
        within_seconds: WAITS_WITHIN.as_secs(),
        entries: waits.entries(),
        waits: counted.map(|(up_to_seconds, entries)| WaitJson { up_to_seconds, entries }).collect(),
    }))
}

/// A lane of a route.
#[derive(Serialize, ToSchema)]
pub(crate) struct LaneJson {
    lane: u8,
    /// Entries that are pending or retrying, counted up to 1000.
    waiting: u64,
    /// The relay that holds the lane. Null: no relay does.
    owner: Option<String>,
}

impl From<LaneBacklog> for LaneJson {
    fn from(of: LaneBacklog) -> Self {
        Self { lane: of.lane, waiting: of.waiting, owner: of.owner }
    }
}

/// The lanes of a route.
#[derive(Serialize, ToSchema)]
pub(crate) struct LanesJson {
    route: String,
    /// Every lane by number. Empty if no relay has ever read the route by lanes.
    lanes: Vec<LaneJson>,
}

#[utoipa::path(get, path = "/api/v1/routes/{route}/lanes", tag = "looking",
    params(("route" = String, Path, description = "The route.")),
    responses((status = 200, body = LanesJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 404, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// The lanes of a route, with what waits in each and the relay that holds it.
pub(crate) async fn lanes(
    State(shared): State<Arc<Shared>>,
    Path(route): Path<String>,
) -> Result<Json<LanesJson>, Refusal> {
    let name = shared.known_route(route).await?;
    let lanes = shared.ports.admin.lanes_of(&name).await?;
    Ok(Json(LanesJson { route: name.to_string(), lanes: lanes.into_iter().map(LaneJson::from).collect() }))
}
