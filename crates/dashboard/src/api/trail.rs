//! The audit trail, page by page and filtered.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use pillarbox_core::port::AuditFilter;
use pillarbox_core::{AuditKind, AuditRecord, Timestamp, check_name};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ErrorJson, Refusal};
use crate::json::AuditJson;
use crate::shared::Shared;

use super::asked::{given, link, time};
use super::extract::Params;

/// The most records of one answer.
const RECORDS_MAX: u32 = 1_000;
/// Records of one answer if nobody asks for another number.
const RECORDS_DEFAULT: u32 = 100;

/// What only operators do.
pub(crate) const BY_HAND: &[AuditKind] = &[
    AuditKind::Requeued,
    AuditKind::Discarded,
    AuditKind::Hastened,
    AuditKind::Cancelled,
    AuditKind::RoutePaused,
    AuditKind::RouteResumed,
    AuditKind::Resumed,
    AuditKind::StepSkipped,
    AuditKind::Abandoned,
];
/// What was given up.
pub(crate) const GIVEN_UP: &[AuditKind] =
    &[AuditKind::Dead, AuditKind::StepFailed, AuditKind::CompensationFailed];
/// What sagas did.
pub(crate) const OF_SAGAS: &[AuditKind] = &[
    AuditKind::StepSucceeded,
    AuditKind::StepFailed,
    AuditKind::Compensating,
    AuditKind::StepCompensated,
    AuditKind::CompensationFailed,
    AuditKind::Completed,
    AuditKind::Compensated,
    AuditKind::Resumed,
    AuditKind::StepSkipped,
    AuditKind::Abandoned,
];
/// What was deleted by age, by retention or by hand.
pub(crate) const PURGES: &[AuditKind] = &[AuditKind::Purged, AuditKind::InboxPurged, AuditKind::SagasPurged];

/// Which records of the audit trail are asked for. Every parameter that is set narrows them.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// The kinds, such as `requeued`, with commas between them.
    pub(crate) kind: Option<String>,
    /// The actor: the name of an operator, or the owner name of a relay.
    pub(crate) actor: Option<String>,
    /// From this time or later: RFC 3339, or how long ago, such as `2h`.
    pub(crate) since: Option<String>,
    /// The cursor of the next page, from the answer before.
    pub(crate) cursor: Option<String>,
    /// The most records, 1 to 1000. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<u32>,
}

impl AuditQuery {
    /// The filter of the store.
    pub(crate) fn filter(&self, now: Timestamp) -> Result<AuditFilter, Refusal> {
        let limit = self.limit();
        if !(1..=RECORDS_MAX).contains(&limit) {
            return Err(Refusal::bad(format!("the limit is {limit}; it may be 1 to {RECORDS_MAX}")));
        }
        let mut filter = AuditFilter::default().limit(limit).kinds(self.kinds()?);
        if let Some(actor) = given(&self.actor) {
            check_name("actor", actor)?;
            filter = filter.actor(actor);
        }
        if let Some(since) = given(&self.since) {
            filter = filter.since(time(since, now)?);
        }
        if let Some(cursor) = given(&self.cursor) {
            let seq = cursor.parse().map_err(|_| Refusal::bad("the cursor is not one of this API"))?;
            filter = filter.before(seq);
        }
        Ok(filter)
    }

    fn kinds(&self) -> Result<Vec<AuditKind>, Refusal> {
        let Some(named) = given(&self.kind) else { return Ok(vec![]) };
        let kind = |name: &str| {
            AuditKind::ALL.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| {
                Refusal::bad(format!(
                    "{:?} is not a kind of record; the kinds are {}",
                    name.chars().take(40).collect::<String>(),
                    AuditKind::ALL.map(AuditKind::as_str).join(", ")
                ))
            })
        };
        if named.split(',').count() > AuditKind::ALL.len() {
            return Err(Refusal::bad("name each kind once"));
        }
        named.split(',').map(str::trim).map(kind).collect()
    }

    /// The same question for these kinds, from the newest record on.
    pub(crate) fn of_kinds(&self, kinds: &[AuditKind]) -> Self {
        let names: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
        Self { kind: Some(names.join(",")), cursor: None, ..self.clone() }
    }

    fn limit(&self) -> u32 {
        self.limit.unwrap_or(RECORDS_DEFAULT)
    }

    /// The cursor of the page behind this one. `None`: this page is not full, so it is the last one.
    pub(crate) fn next_cursor(&self, page: &[AuditRecord]) -> Option<String> {
        let is_full = page.len() >= usize::try_from(self.limit()).unwrap_or(usize::MAX);
        page.last().filter(|_| is_full).map(|last| last.seq.to_string())
    }

    /// The query of a link.
    pub(crate) fn link(&self) -> String {
        let limit = self.limit.map(|limit| limit.to_string());
        link(&[
            ("kind", &self.kind),
            ("actor", &self.actor),
            ("since", &self.since),
            ("cursor", &self.cursor),
            ("limit", &limit),
        ])
    }
}

/// A page of the audit trail.
#[derive(Serialize, ToSchema)]
pub(crate) struct TrailJson {
    /// Newest first.
    records: Vec<AuditJson>,
    /// The cursor of the next page, of older records. `null`: this is the last one.
    next: Option<String>,
}

#[utoipa::path(get, path = "/api/v1/audit", tag = "looking", params(AuditQuery),
    responses((status = 200, body = TrailJson), (status = 400, body = ErrorJson),
        (status = 401, body = ErrorJson), (status = 503, body = ErrorJson)))]
/// A page of the audit trail, newest first.
pub(crate) async fn audit(
    State(shared): State<Arc<Shared>>,
    Params(query): Params<AuditQuery>,
) -> Result<Json<TrailJson>, Refusal> {
    let records = shared.ports.admin.trail(query.filter(shared.clock.now())?).await?;
    let next = query.next_cursor(&records);
    Ok(Json(TrailJson { records: records.iter().map(AuditJson::from).collect(), next }))
}
