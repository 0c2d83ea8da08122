//! What operators change: entries by hand, and whether a route is paused. Audited first.

use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use pillarbox_core::limits::LIST_MAX;
use pillarbox_core::port::{
    Changed, Effect, Filter, PauseChange, PauseRequest, PauseTo, Selection, SelectionRequest, Skip, Skipped,
};
use pillarbox_core::{Action, AuditKind, EventId, Result, SagaId, Standing, Status, Timestamp, check_name};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::claim::seqs_json;
use crate::error::classify;
use crate::meant::Asked;
use crate::row::shown_route;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;
use crate::writer::Step;

/// What is done to entries by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Requeue,
    Discard,
    Hasten,
    Cancel,
}

impl Verb {
    fn action(self) -> Action {
        match self {
            Self::Requeue => Action::Requeue,
            Self::Discard => Action::Discard,
            Self::Hasten => Action::Hasten,
            Self::Cancel => Action::Cancel,
        }
    }

    fn audited_as(self) -> AuditKind {
        match self {
            Self::Requeue => AuditKind::Requeued,
            Self::Discard => AuditKind::Discarded,
            Self::Hasten => AuditKind::Hastened,
            Self::Cancel => AuditKind::Cancelled,
        }
    }

    /// The stored statuses that it takes, of those that the filter means.
    fn statuses(self, filter: &Filter) -> Vec<Status> {
        let meant = filter.status.map_or(&Status::ALL[..], Standing::stored);
        meant.iter().copied().filter(|status| status.after(self.action()).is_some()).collect()
    }
}

pub(crate) async fn change(store: &SqliteStore, request: SelectionRequest, verb: Verb) -> Result<Changed> {
    check_name("actor", &request.actor)?;
    let step = Change { statements: &store.statements, request: &request, verb };
    if request.effect == Effect::DryRun {
        let mut reader = store.pool().acquire().await.map_err(classify)?;
        return Ok(step.find(&mut reader).await?.1);
    }
    store.writer.durably(&step).await
}

struct Change<'a> {
    statements: &'a Statements,
    request: &'a SelectionRequest,
    verb: Verb,
}

impl Change<'_> {
    /// The rows to change, and what is told of them and of the others.
    async fn find(&self, connection: &mut SqliteConnection) -> Result<(Vec<i64>, Changed)> {
        let any = Filter::default();
        let (ids, filter, limit) = match &self.request.selection {
            Selection::Ids(ids) => (Some(&ids[..]), &any, None),
            Selection::Matching(filter) => (None, filter, self.request.limit),
        };
        let statuses = self.verb.statuses(filter);
        let waits = self.verb == Verb::Hasten && ids.is_none();
        let asked = Asked { filter, ids, statuses, limit, waits, now: self.request.now };
        let selected = asked.query(&self.statements.selected)?;
        let mut picked = Vec::new();
        let mut known = HashSet::new();
        let mut sagas = BTreeSet::new();
        let mut changed = Changed::default();
        for row in selected.fetch_all(connection).await.map_err(classify)? {
            let seq = row.try_get_unchecked(0).map_err(classify)?;
            let event_id = row.try_get_unchecked::<&str, _>(1).map_err(classify)?.parse::<EventId>()?;
            known.insert(event_id);
            changed.cursor = Some(seq);
            let saga: Option<&str> = row.try_get_unchecked(7).map_err(classify)?;
            let saga = saga.map(str::parse::<SagaId>).transpose()?;
            if row.try_get_unchecked::<&str, _>(3).map_err(classify)? == Status::Dead.as_str() {
                sagas.extend(saga);
            }
            match self.refusal(&row, saga)? {
                None => picked.push(seq),
                Some(why) => {
                    let route = shown_route(row.try_get_unchecked(2).map_err(classify)?)?;
                    changed.skip(Skipped { event_id, route, why });
                }
            }
        }
        changed.sagas = sagas.into_iter().take(usize::try_from(LIST_MAX).unwrap_or(usize::MAX)).collect();
        // An id that was named twice is missing once.
        changed.missing = ids.into_iter().flatten().copied().filter(|id| known.insert(*id)).collect();
        changed.changed = picked.len() as u64;
        Ok((picked, changed))
    }

    /// Why a row of `selected.sql`, a step of this open saga, cannot be changed so; `None`: it can.
    fn refusal(&self, row: &SqliteRow, saga: Option<SagaId>) -> Result<Option<Skip>> {
        let status: Status = row.try_get_unchecked::<&str, _>(3).map_err(classify)?.parse()?;
        if status.after(self.verb.action()).is_none() {
            let standing = row.try_get_unchecked::<&str, _>(4).map_err(classify)?.parse()?;
            return Ok(Some(Skip::Standing(standing)));
        }
        let (held, due): (bool, bool) =
            (row.try_get_unchecked(5).map_err(classify)?, row.try_get_unchecked(6).map_err(classify)?);
        Ok(match self.verb {
            Verb::Discard | Verb::Cancel if saga.is_some() => saga.map(Skip::OpenSaga),
            Verb::Hasten if due => Some(Skip::Due),
            Verb::Cancel if held => Some(Skip::LaneHeld),
            _ => None,
        })
    }
}

#[async_trait]
impl Step for &Change<'_> {
    type Outcome = Changed;

    async fn run(self, tx: &mut SqliteConnection) -> Result<Changed> {
        let (picked, changed) = self.find(&mut *tx).await?;
        if picked.is_empty() {
            return Ok(changed);
        }
        let now = self.request.now.map(Timestamp::as_micros);
        let seqs = seqs_json(&picked)?;
        // The audit rows come before the status that they explain.
        query(&self.statements.change_audit)
            .bind(now)
            .bind(self.verb.audited_as().as_str())
            .bind(self.request.actor.clone())
            .bind(seqs.clone())
            .execute(&mut *tx)
            .await
            .map_err(classify)?;
        let statement = match self.verb {
            Verb::Requeue => &self.statements.requeue,
            Verb::Discard | Verb::Cancel => &self.statements.discard,
            Verb::Hasten => &self.statements.hasten,
        };
        query(statement).bind(now).bind(seqs.clone()).execute(&mut *tx).await.map_err(classify)?;
        // Whoever reads these lanes is past these entries.
        query(&self.statements.lanes_revise).bind(seqs).execute(tx).await.map_err(classify)?;
        Ok(changed)
    }
}

pub(crate) async fn set_pause(store: &SqliteStore, request: PauseRequest) -> Result<PauseChange> {
    request.check()?;
    store.writer.durably(&SetPause { statements: &store.statements, request: &request }).await
}

struct SetPause<'a> {
    statements: &'a Statements,
    request: &'a PauseRequest,
}

#[async_trait]
impl Step for &SetPause<'_> {
    type Outcome = PauseChange;

    async fn run(self, tx: &mut SqliteConnection) -> Result<PauseChange> {
        let (statement, kind) = match self.request.to {
            PauseTo::Paused => (&self.statements.pause, AuditKind::RoutePaused),
            PauseTo::Running => (&self.statements.resume, AuditKind::RouteResumed),
        };
        let values = |statement| {
            query(statement)
                .bind(self.request.now.map(Timestamp::as_micros))
                .bind(self.request.route.to_string())
                .bind(self.request.actor.clone())
                .bind(self.request.reason.clone())
        };
        let paused = query(&self.statements.pauses).fetch_all(&mut *tx).await.map_err(classify)?;
        let paused =
            paused.iter().any(|row| row.try_get_unchecked(0).ok() == Some(self.request.route.as_str()));
        if paused == (self.request.to == PauseTo::Paused) {
            return Ok(PauseChange::Already);
        }
        let audit = values(&self.statements.pause_audit).bind(kind.as_str());
        audit.execute(&mut *tx).await.map_err(classify)?;
        values(statement).execute(tx).await.map_err(classify)?;
        Ok(PauseChange::Changed)
    }
}
