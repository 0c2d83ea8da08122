//! Changes by hand: requeue, discard, retry, cancel, pause, resume and purge. Each can be tried without an effect, and
//! each answers with what happened.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use pillarbox_core::limits::BATCH_MAX;
use pillarbox_core::port::shared::Verb;
use pillarbox_core::port::{
    Effect, PauseChange, PauseRequest, PauseTo, PurgeRequest, Selection, SelectionRequest,
};
use pillarbox_core::{AuditKind, EventId, RouteName, parse_duration};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::{ErrorJson, Refusal};
use crate::json::AuditJson;
use crate::security::Visitor;
use crate::shared::Shared;

use super::answer::{Answer, Before, ChangedJson};
use super::asked::EntriesQuery;
use super::extract::Body;

/// The most ids of one change.
const IDS_MAX: usize = 1_000;
/// The most entries of one change by a filter. The answer says if there may be more.
const CHANGED_MAX: u32 = 10_000;

/// Which entries to change.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeBody {
    /// These events, at most 1000.
    ids: Option<Vec<String>>,
    /// The oldest entries that match and allow the change, at most 10,000. If there may be more, the answer has
    /// `more` and a `cursor`, with which the filter goes on.
    filter: Option<EntriesQuery>,
    /// How many entries you expect to change. With a filter, `discard` and `cancel` need it, and if there are more
    /// now, nothing is changed.
    confirm: Option<u64>,
    /// Only count what would be changed.
    #[serde(default)]
    dry_run: bool,
}

fn verb_of(name: &str) -> Result<(Verb, &'static str), Refusal> {
    match name {
        "requeue" => Ok((Verb::Requeue, "requeued")),
        "discard" => Ok((Verb::Discard, "discarded")),
        "retry" => Ok((Verb::Hasten, "made due at once")),
        "cancel" => Ok((Verb::Cancel, "cancelled")),
        _ => Err(Refusal::not_found("there is no such change; there are requeue, discard, retry and cancel")),
    }
}

#[utoipa::path(post, path = "/api/v1/entries/{verb}", tag = "actions", request_body = ChangeBody, params(
        ("verb" = String, Path, description = "`requeue`, `discard`, `retry` or `cancel`."),
        ("pillarbox-actor" = String, Header, description = "Who acts, for the audit trail.")),
    responses((status = 200, body = ChangedJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 403, body = ErrorJson), (status = 404, body = ErrorJson),
        (status = 409, body = ErrorJson), (status = 413, body = ErrorJson), (status = 415, body = ErrorJson),
        (status = 422, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// Requeues, discards, retries or cancels entries, and tells what happened.
pub(crate) async fn act(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    Path(verb): Path<String>,
    Body(body): Body<ChangeBody>,
) -> Result<Json<ChangedJson>, Refusal> {
    let (verb, done) = verb_of(&verb)?;
    let selection = selection(&shared, &body)?;
    let actor = actor(&shared, &visitor);
    let ask = |effect| SelectionRequest {
        selection: selection.clone(),
        limit: matches!(selection, Selection::Matching(_)).then_some(CHANGED_MAX),
        actor: actor.clone(),
        effect,
        now: None,
    };
    let admin = &shared.ports.admin;
    let limit = matches!(selection, Selection::Matching(_)).then_some(u64::from(CHANGED_MAX));
    if body.dry_run {
        let changed = admin.change(ask(Effect::DryRun), verb).await?;
        let answer = Answer { done, actor: &actor, limit, dry_run: true };
        return Ok(Json(answer.tell(&shared, changed).await));
    }
    confirmed(&shared, &body, ask(Effect::DryRun), verb).await?;
    let changed = noting_refusal(&shared, admin.change(ask(Effect::Apply), verb).await)?;
    let answer = Answer { done, actor: &actor, limit, dry_run: false };
    Ok(Json(answer.tell(&shared, changed).await))
}

fn actor(shared: &Shared, visitor: &Visitor) -> String {
    visitor.name.clone().unwrap_or_else(|| shared.options.actor.clone())
}

fn selection(shared: &Shared, body: &ChangeBody) -> Result<Selection, Refusal> {
    match (&body.ids, &body.filter) {
        (Some(ids), None) if (1..=IDS_MAX).contains(&ids.len()) => {
            Ok(Selection::Ids(ids.iter().map(|id| id.parse::<EventId>()).collect::<Result<_, _>>()?))
        }
        (Some(_), None) => Err(Refusal::bad(format!("name 1 to {IDS_MAX} ids"))),
        (None, Some(filter)) => Ok(Selection::Matching(filter.filter(shared.clock.now())?)),
        _ => Err(Refusal::bad("name either `ids` or a `filter`")),
    }
}

/// What cannot be undone needs the count that the operator has seen.
async fn confirmed(
    shared: &Shared,
    body: &ChangeBody,
    dry: SelectionRequest,
    verb: Verb,
) -> Result<(), Refusal> {
    let needs = matches!(verb, Verb::Discard | Verb::Cancel) && body.filter.is_some();
    if !needs && body.confirm.is_none() {
        return Ok(());
    }
    let would = shared.ports.admin.change(dry, verb).await?.changed;
    match body.confirm {
        Some(expected) if would <= expected => Ok(()),
        Some(expected) => Err(Refusal::new(
            StatusCode::CONFLICT,
            format!(
                "{would} entries match now and you confirmed {expected}, so nothing was changed. Look again"
            ),
        )),
        None => Err(Refusal::new(
            StatusCode::CONFLICT,
            format!(
                "this cannot be undone. It concerns {would} entries; repeat it with \"confirm\": {would}"
            ),
        )),
    }
}

/// Remembers that the database role may only read.
fn noting_refusal<T>(shared: &Shared, result: pillarbox_core::Result<T>) -> Result<T, Refusal> {
    use pillarbox_core::ErrorKind::{Denied, ReadOnly};
    match &result {
        Err(error) if matches!(error.kind(), Denied | ReadOnly) => {
            shared
                .remember_refusal(Some(format!("the database refused the last change: {}", error.message())));
        }
        Err(_) => {}
        Ok(_) => shared.remember_refusal(None),
    }
    Ok(result?)
}

/// Why a route is paused or resumed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseBody {
    /// The reason, for people and the audit trail.
    #[serde(default)]
    reason: String,
    /// Only tell whether the route would change.
    #[serde(default)]
    dry_run: bool,
}

/// Whether a route was changed.
#[derive(Serialize, ToSchema)]
pub(crate) struct PausedJson {
    dry_run: bool,
    route: String,
    changed: bool,
    /// The same in a sentence.
    message: String,
    /// The audit record of this change.
    audit: Vec<AuditJson>,
}

#[utoipa::path(post, path = "/api/v1/routes/{route}/pause", tag = "actions", request_body = PauseBody, params(
        ("route" = String, Path, description = "The route."),
        ("pillarbox-actor" = String, Header, description = "Who acts, for the audit trail.")),
    responses((status = 200, body = PausedJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 403, body = ErrorJson), (status = 413, body = ErrorJson),
        (status = 415, body = ErrorJson), (status = 422, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// Pauses a route: no relay takes entries of it until it is resumed.
pub(crate) async fn pause(
    shared: State<Arc<Shared>>,
    visitor: Extension<Visitor>,
    route: Path<String>,
    body: Body<PauseBody>,
) -> Result<Json<PausedJson>, Refusal> {
    set_pause(shared.0, visitor.0, route.0, body.0, PauseTo::Paused).await
}

#[utoipa::path(post, path = "/api/v1/routes/{route}/resume", tag = "actions", request_body = PauseBody, params(
        ("route" = String, Path, description = "The route."),
        ("pillarbox-actor" = String, Header, description = "Who acts, for the audit trail.")),
    responses((status = 200, body = PausedJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 403, body = ErrorJson), (status = 413, body = ErrorJson),
        (status = 415, body = ErrorJson), (status = 422, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// Resumes a paused route.
pub(crate) async fn resume(
    shared: State<Arc<Shared>>,
    visitor: Extension<Visitor>,
    route: Path<String>,
    body: Body<PauseBody>,
) -> Result<Json<PausedJson>, Refusal> {
    set_pause(shared.0, visitor.0, route.0, body.0, PauseTo::Running).await
}

async fn set_pause(
    shared: Arc<Shared>,
    visitor: Visitor,
    route: String,
    body: PauseBody,
    to: PauseTo,
) -> Result<Json<PausedJson>, Refusal> {
    let (route, actor) = (RouteName::new(route)?, actor(&shared, &visitor));
    let request =
        PauseRequest { route: route.clone(), to, actor: actor.clone(), reason: body.reason, now: None };
    request.check()?;
    let admin = &shared.ports.admin;
    let before = Before::of(&shared, body.dry_run).await;
    let change = if body.dry_run {
        let counts = admin.counts(None).await?;
        request.change(counts.iter().any(|counts| counts.route == route && counts.paused.is_some()))
    } else {
        noting_refusal(&shared, admin.set_pause(request).await)?
    };
    let (is_changed, word) =
        (change == PauseChange::Changed, if to == PauseTo::Paused { "paused" } else { "resumed" });
    let mut message = match (is_changed, body.dry_run) {
        (false, _) => {
            format!("{route} is {} already", if to == PauseTo::Paused { "paused" } else { "running" })
        }
        (true, true) => format!("{route} would be {word}"),
        (true, false) => format!("{route} was {word} by {actor}"),
    };
    let audit = if is_changed && !body.dry_run {
        before.record(&shared, to.audited_as(), &actor, Some(&route), &mut message).await
    } else {
        vec![]
    };
    Ok(Json(PausedJson {
        dry_run: body.dry_run,
        route: route.to_string(),
        changed: is_changed,
        message,
        audit,
    }))
}

/// What to delete by age.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PurgeBody {
    /// `entries` (delivered and discarded), `inbox` or `sagas` (ended).
    what: String,
    /// Only what ended or was accepted at least this long ago, such as `7d`.
    older_than: String,
    /// How many you expect to delete. If there are more now, nothing is deleted.
    confirm: Option<u64>,
    /// Only count what would be deleted.
    #[serde(default)]
    dry_run: bool,
}

/// What a purge deleted, or would delete.
#[derive(Serialize, ToSchema)]
pub(crate) struct PurgedJson {
    dry_run: bool,
    purged: u64,
    /// Whether there may be more: a purge deletes at most 10,000 at once.
    more: bool,
    message: String,
    audit: Vec<AuditJson>,
}

#[utoipa::path(post, path = "/api/v1/purge", tag = "actions", request_body = PurgeBody, params(
        ("pillarbox-actor" = String, Header, description = "Who acts, for the audit trail.")),
    responses((status = 200, body = PurgedJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 403, body = ErrorJson), (status = 409, body = ErrorJson),
        (status = 413, body = ErrorJson), (status = 415, body = ErrorJson), (status = 422, body = ErrorJson),
        (status = 503, body = ErrorJson)))]
/// Deletes entries, inbox rows or sagas by age. Dead entries are never deleted.
pub(crate) async fn purge(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    Body(body): Body<PurgeBody>,
) -> Result<Json<PurgedJson>, Refusal> {
    let (older_than, actor) = (parse_duration(&body.older_than)?, actor(&shared, &visitor));
    let kind = match body.what.as_str() {
        "entries" => AuditKind::Purged,
        "inbox" => AuditKind::InboxPurged,
        "sagas" => AuditKind::SagasPurged,
        _ => return Err(Refusal::bad("`what` is entries, inbox or sagas")),
    };
    let would = delete(&shared, kind, older_than, &actor, Effect::DryRun).await?;
    let before = Before::of(&shared, body.dry_run).await;
    let (purged, word) = if body.dry_run {
        (would, "would be deleted")
    } else {
        if body.confirm.is_none_or(|expected| would > expected) {
            return Err(Refusal::new(
                StatusCode::CONFLICT,
                format!("this cannot be undone. It deletes {would}; repeat it with \"confirm\": {would}"),
            ));
        }
        let purged = delete(&shared, kind, older_than, &actor, Effect::Apply).await;
        (noting_refusal(&shared, purged)?, "deleted")
    };
    let noun = if kind == AuditKind::InboxPurged { "rows of the inbox" } else { body.what.as_str() };
    let mut message = format!("{} {noun} {word}", crate::text::count(purged));
    let audit = if body.dry_run || purged == 0 {
        vec![]
    } else {
        before.record(&shared, kind, &actor, None, &mut message).await
    };
    let more = purged >= u64::from(BATCH_MAX);
    Ok(Json(PurgedJson { dry_run: body.dry_run, purged, more, message, audit }))
}

async fn delete(
    shared: &Shared,
    kind: AuditKind,
    older_than: Duration,
    actor: &str,
    effect: Effect,
) -> pillarbox_core::Result<u64> {
    let request = PurgeRequest { older_than, limit: BATCH_MAX, actor: actor.to_owned(), effect, now: None };
    let ports = &shared.ports;
    let purged = match kind {
        AuditKind::InboxPurged => ports.admin.purge_inbox(request).await?,
        AuditKind::SagasPurged => ports.sagas.purge_sagas(request).await?,
        _ => ports.admin.purge(request).await?,
    };
    Ok(purged.purged)
}
