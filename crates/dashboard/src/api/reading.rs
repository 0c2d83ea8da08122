//! Entries: lists by pages, groups, one entry's story, and its payload.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use pillarbox_core::EventId;
use pillarbox_core::port::{CountBy, CountByRequest};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ErrorJson, Refusal};
use crate::json::{EntryJson, GroupJson, StoryJson};
use crate::shared::Shared;

use super::asked::EntriesQuery;
use super::extract::Params;

/// The most groups of one answer.
pub(crate) const GROUPS_MAX: u32 = 200;

/// A page of entries, oldest first, without payloads and headers.
#[derive(Serialize, ToSchema)]
pub(crate) struct EntriesJson {
    entries: Vec<EntryJson>,
    /// The cursor of the next page. `null`: this is the last one.
    next: Option<String>,
}

#[utoipa::path(get, path = "/api/v1/entries", tag = "entries", params(EntriesQuery),
    responses((status = 200, body = EntriesJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// A page of entries, oldest first, without payloads and headers.
pub(crate) async fn entries(
    State(shared): State<Arc<Shared>>,
    Params(query): Params<EntriesQuery>,
) -> Result<Json<EntriesJson>, Refusal> {
    let filter = query.filter(shared.clock.now())?;
    let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
    let entries = shared.ports.admin.list(filter).await?;
    let next = entries.last().filter(|_| entries.len() == limit).map(|last| last.seq.to_string());
    Ok(Json(EntriesJson { entries: entries.iter().map(EntryJson::listed).collect(), next }))
}

/// Groups of entries, the largest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct GroupsJson {
    groups: Vec<GroupJson>,
}

#[utoipa::path(get, path = "/api/v1/groups", tag = "entries", params(EntriesQuery),
    responses((status = 200, body = GroupsJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// How many entries match, by type and error, the largest group first.
pub(crate) async fn groups(
    State(shared): State<Arc<Shared>>,
    Params(query): Params<EntriesQuery>,
) -> Result<Json<GroupsJson>, Refusal> {
    let filter = query.filter(shared.clock.now())?.limit(GROUPS_MAX);
    let request = CountByRequest { filter, by: CountBy::TypeAndError };
    let groups = shared.ports.admin.count_by(request).await?;
    Ok(Json(GroupsJson { groups: groups.iter().map(GroupJson::from).collect() }))
}

/// Whether payloads are wanted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EntryQuery {
    /// Whether payloads are wanted. Default: false.
    payload: Option<bool>,
}

/// One event on every route that carries it.
#[derive(Serialize, ToSchema)]
pub(crate) struct EventJson {
    stories: Vec<StoryJson>,
}

#[utoipa::path(get, path = "/api/v1/entries/{event_id}", tag = "entries", params(
        ("event_id" = String, Path, description = "The event's id, a UUID."), EntryQuery),
    responses((status = 200, body = EventJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 404, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// Everything known about one event, for each route that carries it.
pub(crate) async fn entry(
    State(shared): State<Arc<Shared>>,
    Path(event_id): Path<String>,
    Params(query): Params<EntryQuery>,
) -> Result<Json<EventJson>, Refusal> {
    let id: EventId = event_id.parse()?;
    let stories = shared.ports.admin.show(id).await?;
    if stories.is_empty() {
        return Err(Refusal::not_found(format!("no route carries event {id}; it may have been purged")));
    }
    let with_payload = query.payload.unwrap_or(false);
    let stories = stories.iter().map(|story| StoryJson::new(story, with_payload)).collect();
    Ok(Json(EventJson { stories }))
}

/// Which of the routes that carry an event.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PayloadQuery {
    /// The route. Default: the first one.
    route: Option<String>,
}

#[utoipa::path(get, path = "/api/v1/entries/{event_id}/payload", tag = "entries", params(
        ("event_id" = String, Path, description = "The event's id, a UUID."), PayloadQuery),
    responses((status = 200, description = "The bytes, to save as a file.", body = Vec<u8>,
            content_type = "application/octet-stream"),
        (status = 400, body = ErrorJson), (status = 401, body = ErrorJson),
        (status = 404, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// The payload's bytes. They are never shown as a page, whatever their content type says.
pub(crate) async fn payload(
    State(shared): State<Arc<Shared>>,
    Path(event_id): Path<String>,
    Params(query): Params<PayloadQuery>,
) -> Result<Response, Refusal> {
    let id: EventId = event_id.parse()?;
    let stories = shared.ports.admin.show(id).await?;
    let is_meant =
        |route: &str| query.route.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == route);
    let story = stories.into_iter().find(|story| is_meant(story.entry.route.as_str()));
    let story = story.ok_or_else(|| Refusal::not_found(format!("no such route carries event {id}")))?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"payload\""),
    ];
    Ok((headers, story.entry.payload).into_response())
}
