//! What the sampler has read: the state of everything, routes, relays and consumers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use pillarbox_core::RouteName;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{ErrorJson, Refusal};
use crate::health::ProblemJson;
use crate::json::{RelayJson, RouteJson, SagaCountsJson};
use crate::shared::Shared;

/// The state of everything.
#[derive(Serialize, ToSchema)]
pub(crate) struct StatusJson {
    /// When the numbers were read.
    at: String,
    /// Why the database cannot be read now. Then the numbers are the last known ones.
    lost: Option<String>,
    /// The verdict in a sentence.
    verdict: String,
    healthy: bool,
    problems: Vec<ProblemJson>,
    routes: Vec<RouteJson>,
    sagas: SagaCountsJson,
    relays: Vec<RelayJson>,
}

#[utoipa::path(get, path = "/api/v1/status", tag = "looking",
    responses((status = 200, body = StatusJson), (status = 401, body = ErrorJson)))]
/// The verdict, and the state of routes, sagas and relays.
pub(crate) async fn status(State(shared): State<Arc<Shared>>) -> Json<StatusJson> {
    let snapshot = shared.first_look().await;
    Json(StatusJson {
        at: snapshot.at.to_string(),
        lost: snapshot.lost.as_ref().map(|lost| lost.why.clone()),
        verdict: snapshot.verdict.sentence(),
        healthy: snapshot.verdict.is_healthy(),
        problems: snapshot.verdict.problems.iter().map(ProblemJson::from).collect(),
        routes: snapshot.routes.iter().map(RouteJson::from).collect(),
        sagas: (&snapshot.sagas).into(),
        relays: snapshot.relays.iter().map(RelayJson::from).collect(),
    })
}

/// The routes.
#[derive(Serialize, ToSchema)]
pub(crate) struct RoutesJson {
    routes: Vec<RouteJson>,
}

#[utoipa::path(get, path = "/api/v1/routes", tag = "looking",
    responses((status = 200, body = RoutesJson), (status = 401, body = ErrorJson)))]
/// The routes, those that need somebody first.
pub(crate) async fn routes(State(shared): State<Arc<Shared>>) -> Json<RoutesJson> {
    let snapshot = shared.first_look().await;
    Json(RoutesJson { routes: snapshot.routes.iter().map(RouteJson::from).collect() })
}

#[utoipa::path(get, path = "/api/v1/routes/{route}", tag = "looking",
    params(("route" = String, Path, description = "The route.")),
    responses((status = 200, body = RouteJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 404, body = ErrorJson)))]
/// One route.
pub(crate) async fn route(
    State(shared): State<Arc<Shared>>,
    Path(route): Path<String>,
) -> Result<Json<RouteJson>, Refusal> {
    let name = RouteName::new(route)?;
    let snapshot = shared.first_look().await;
    let view =
        snapshot.route(&name).ok_or_else(|| Refusal::not_found("no entry of this route was staged"))?;
    Ok(Json(view.into()))
}

/// The relays.
#[derive(Serialize, ToSchema)]
pub(crate) struct RelaysJson {
    relays: Vec<RelayJson>,
}

#[utoipa::path(get, path = "/api/v1/relays", tag = "looking",
    responses((status = 200, body = RelaysJson), (status = 401, body = ErrorJson)))]
/// The relays that were seen in the last hour.
pub(crate) async fn relays(State(shared): State<Arc<Shared>>) -> Json<RelaysJson> {
    let snapshot = shared.first_look().await;
    Json(RelaysJson { relays: snapshot.relays.iter().map(RelayJson::from).collect() })
}

/// A consumer that accepted something in the last fifteen minutes.
#[derive(Serialize, ToSchema)]
pub(crate) struct ConsumerJson {
    consumer: String,
    /// Events that it accepted per second, over the last ten seconds.
    accepted_per_second: f64,
}

/// The consumers.
#[derive(Serialize, ToSchema)]
pub(crate) struct InboxJson {
    consumers: Vec<ConsumerJson>,
}

#[utoipa::path(get, path = "/api/v1/inbox", tag = "looking",
    responses((status = 200, body = InboxJson), (status = 401, body = ErrorJson)))]
/// The consumers that accepted something in the last fifteen minutes.
pub(crate) async fn inbox(State(shared): State<Arc<Shared>>) -> Json<InboxJson> {
    let snapshot = shared.first_look().await;
    let consumer = |(name, history): (&String, &crate::sampler::History)| ConsumerJson {
        consumer: name.clone(),
        accepted_per_second: history.now().went,
    };
    Json(InboxJson { consumers: snapshot.consumers.iter().map(consumer).collect() })
}
