//! Sagas: lists, one saga's story, and what an operator can do about it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use pillarbox_core::port::{Intervened, Intervention, InterventionRequest, SagaFilter, SagaStory};
use pillarbox_core::{SagaId, SagaRecord, SagaWork, StepSeen, Timestamp, check_name};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ErrorJson, Refusal};
use crate::json::{AuditJson, SagaJson, TimelineJson};
use crate::security::Visitor;
use crate::shared::Shared;

use super::answer::entries;
use super::asked::{PAGE_DEFAULT, PAGE_MAX, given, link};
use super::extract::{Body, Params};

/// The longest reason, in bytes.
const REASON_BYTES_MAX: usize = 1_000;

/// Which sagas are asked for.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SagasQuery {
    /// `running`, `blocked`, `compensating`, `compensation_failed`, `completed`, `compensated` or `abandoned`.
    pub(crate) status: Option<String>,
    /// The saga's name.
    pub(crate) name: Option<String>,
    /// The cursor of the next page, from the answer before.
    pub(crate) cursor: Option<String>,
    /// The most sagas of the page, 1 to 500. Default: 50.
    #[param(minimum = 1, maximum = 500)]
    pub(crate) limit: Option<u32>,
}

impl SagasQuery {
    pub(crate) fn filter(&self) -> Result<SagaFilter, Refusal> {
        let limit = self.limit();
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Refusal::bad(format!("the limit is {limit}; it may be 1 to {PAGE_MAX}")));
        }
        let mut filter = SagaFilter::default().limit(limit);
        if let Some(status) = given(&self.status) {
            filter = filter.status(status.parse()?);
        }
        if let Some(name) = given(&self.name) {
            check_name("name", name)?;
            filter = filter.name(name);
        }
        if let Some(cursor) = given(&self.cursor) {
            filter = filter.after(cursor.parse()?);
        }
        Ok(filter)
    }

    fn limit(&self) -> u32 {
        self.limit.unwrap_or(PAGE_DEFAULT)
    }

    /// The cursor of the page behind this one. `None`: this page is not full, so it is the last one.
    pub(crate) fn next_cursor(&self, page: &[SagaRecord]) -> Option<String> {
        let is_full = page.len() >= usize::try_from(self.limit()).unwrap_or(usize::MAX);
        page.last().filter(|_| is_full).map(|last| last.cursor().to_string())
    }

    /// The same question for the first page. `None`: this one asks for the first page.
    pub(crate) fn beginning(&self) -> Option<Self> {
        given(&self.cursor).map(|_| Self { cursor: None, ..self.clone() })
    }

    /// The query of a link.
    pub(crate) fn link(&self) -> String {
        let limit = self.limit.map(|limit| limit.to_string());
        link(&[("status", &self.status), ("name", &self.name), ("cursor", &self.cursor), ("limit", &limit)])
    }
}

/// A page of sagas, oldest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct SagasJson {
    sagas: Vec<SagaJson>,
    /// The cursor of the next page. `null`: this is the last one.
    next: Option<String>,
}

#[utoipa::path(get, path = "/api/v1/sagas", tag = "sagas", params(SagasQuery),
    responses((status = 200, body = SagasJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// A page of sagas, oldest first.
pub(crate) async fn sagas(
    State(shared): State<Arc<Shared>>,
    Params(query): Params<SagasQuery>,
) -> Result<Json<SagasJson>, Refusal> {
    let sagas = shared.ports.sagas.list_sagas(query.filter()?).await?;
    let next = query.next_cursor(&sagas);
    Ok(Json(SagasJson { sagas: sagas.iter().map(SagaJson::from).collect(), next }))
}

/// Everything known of one saga.
#[derive(Serialize, ToSchema)]
pub(crate) struct SagaStoryJson {
    saga: SagaJson,
    timeline: Vec<TimelineJson>,
    /// What an operator can do now: `retry`, `compensate`, `skip` or `abandon`.
    can: Vec<&'static str>,
    /// A flowchart, as Mermaid text.
    mermaid: String,
}

#[utoipa::path(get, path = "/api/v1/sagas/{id}", tag = "sagas",
    params(("id" = String, Path, description = "The saga's id, a UUID.")),
    responses((status = 200, body = SagaStoryJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 404, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// Everything known of one saga.
pub(crate) async fn saga(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<SagaStoryJson>, Refusal> {
    let story = story(&shared, id.parse()?).await?;
    Ok(Json(SagaStoryJson {
        saga: (&story.saga).into(),
        timeline: story.timeline().iter().map(TimelineJson::from).collect(),
        can: wishes(&story, shared.clock.now()).iter().map(|wish| wish.verb).collect(),
        mermaid: story.saga.mermaid(),
    }))
}

async fn story(shared: &Shared, id: SagaId) -> Result<SagaStory, Refusal> {
    let story = shared.ports.sagas.show_saga(id).await?;
    story.ok_or_else(|| Refusal::not_found(format!("there is no saga {id}")))
}

/// Something that an operator can do about a saga.
pub(crate) struct Wish {
    pub(crate) verb: &'static str,
    pub(crate) step: Option<String>,
    /// What it is for.
    pub(crate) words: String,
}

/// Everything that an operator can do about a saga as it is now: each was tried on what was read of it.
pub(crate) fn wishes(story: &SagaStory, now: Timestamp) -> Vec<Wish> {
    let reason = || "why".to_owned();
    let mut possible = vec![
        (Intervention::Retry, "retry", None, "Retry the dead steps".to_owned()),
        (Intervention::Compensate, "compensate", None, "Undo everything that may have run".to_owned()),
    ];
    for step in &story.saga.steps {
        let what = Intervention::Skip { step: step.name.clone(), reason: reason() };
        possible.push((what, "skip", Some(step.name.clone()), format!("Continue without {}", step.name)));
    }
    possible.push((
        Intervention::Abandon { reason: reason() },
        "abandon",
        None,
        "End it as it is".to_owned(),
    ));
    let wish =
        |(what, verb, step, words)| plan(story, &what, now).is_ok().then_some(Wish { verb, step, words });
    possible.into_iter().filter_map(wish).collect()
}

/// What would come of an intervention: the same decision that the store takes, on what was read.
pub(crate) fn plan(
    story: &SagaStory,
    what: &Intervention,
    now: Timestamp,
) -> pillarbox_core::Result<Intervened> {
    let seen = story.entries.iter().map(|entry| StepSeen {
        held: entry.held(),
        event_id: entry.event_id,
        status: entry.status,
        attempts: entry.attempts,
        last_error: entry.last_error.clone(),
    });
    let work = SagaWork::intervene(story.saga.clone(), seen.collect(), what, now)?;
    Ok(work.intervened())
}

/// How to intervene.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InterventionBody {
    /// The step to skip.
    step: Option<String>,
    /// Why, for the audit trail. `skip` and `abandon` need it.
    #[serde(default)]
    reason: String,
    /// Only tell what would come of it.
    #[serde(default)]
    dry_run: bool,
}

/// What an intervention did, or would do.
#[derive(Serialize, ToSchema)]
pub(crate) struct IntervenedJson {
    dry_run: bool,
    saga: String,
    /// The saga's status after it.
    status: &'static str,
    requeued: u64,
    discarded: u64,
    message: String,
    /// The newest audit records of the saga.
    audit: Vec<AuditJson>,
}

#[utoipa::path(post, path = "/api/v1/sagas/{id}/{verb}", tag = "actions", request_body = InterventionBody, params(
        ("id" = String, Path, description = "The saga's id, a UUID."),
        ("verb" = String, Path, description = "`retry`, `compensate`, `skip` or `abandon`."),
        ("pillarbox-actor" = String, Header, description = "Who acts, for the audit trail.")),
    responses((status = 200, body = IntervenedJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 403, body = ErrorJson), (status = 404, body = ErrorJson),
        (status = 409, body = ErrorJson), (status = 413, body = ErrorJson), (status = 415, body = ErrorJson),
        (status = 422, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// Intervenes in a saga, and tells what came of it.
pub(crate) async fn intervene(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    Path((id, verb)): Path<(String, String)>,
    Body(body): Body<InterventionBody>,
) -> Result<Json<IntervenedJson>, Refusal> {
    let id: SagaId = id.parse()?;
    let what = what(&verb, &body)?;
    let before = story(&shared, id).await?;
    let mut done = plan(&before, &what, shared.clock.now())?;
    let mut audit = vec![];
    if !body.dry_run {
        let actor = visitor.name.unwrap_or_else(|| shared.options.actor.clone());
        let request = InterventionRequest { id, what, actor, now: None };
        done = shared.ports.sagas.intervene(request).await?;
        let after = story(&shared, id).await?;
        let fresh = after.audit.len().saturating_sub(before.audit.len());
        audit = after.audit.iter().rev().take(fresh).map(AuditJson::from).collect();
    }
    let is = if body.dry_run { "would be" } else { "is" };
    let message = format!(
        "saga {id} {is} {}; {} requeued, {} discarded",
        done.status,
        entries(done.requeued),
        done.discarded
    );
    Ok(Json(IntervenedJson {
        dry_run: body.dry_run,
        saga: id.to_string(),
        status: done.status.as_str(),
        requeued: done.requeued,
        discarded: done.discarded,
        message,
        audit,
    }))
}

fn what(verb: &str, body: &InterventionBody) -> Result<Intervention, Refusal> {
    let reason = || match body.reason.trim() {
        "" => Err(Refusal::bad("a `reason` is needed, for the audit trail")),
        reason if reason.len() > REASON_BYTES_MAX => {
            Err(Refusal::bad(format!("the reason is longer than {REASON_BYTES_MAX} bytes")))
        }
        reason => Ok(reason.to_owned()),
    };
    match verb {
        "retry" => Ok(Intervention::Retry),
        "compensate" => Ok(Intervention::Compensate),
        "skip" => {
            let step = body.step.clone().ok_or_else(|| Refusal::bad("the `step` to skip is needed"))?;
            check_name("step", &step)?;
            Ok(Intervention::Skip { step, reason: reason()? })
        }
        "abandon" => Ok(Intervention::Abandon { reason: reason()? }),
        _ => Err(Refusal::not_found("there is no such verb; there are retry, compensate, skip and abandon")),
    }
}
