//! What operators change: requeue and discard, audited first.

use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use pillarbox_core::limits::LIST_MAX;
use pillarbox_core::port::{Changed, Effect, Selection, SelectionRequest};
use pillarbox_core::{AuditKind, Error, EventId, Result, SagaId, Status, Timestamp};
use sqlx::{Row, SqliteConnection};

use crate::claim::seqs_json;
use crate::error::classify;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;
use crate::writer::Step;

pub(crate) async fn requeue(store: &SqliteStore, request: SelectionRequest) -> Result<Changed> {
    change(store, request, AuditKind::Requeued).await
}

pub(crate) async fn discard(store: &SqliteStore, request: SelectionRequest) -> Result<Changed> {
    change(store, request, AuditKind::Discarded).await
}

async fn change(store: &SqliteStore, request: SelectionRequest, kind: AuditKind) -> Result<Changed> {
    let step = Change { statements: &store.statements, request: &request, kind };
    if request.effect == Effect::DryRun {
        let mut reader = store.pool().acquire().await.map_err(classify)?;
        let (dead, changed) = step.find(&mut reader).await?;
        return Ok(Changed { changed: dead.len() as u64, ..changed });
    }
    store.writer.durably(&step).await
}

struct Change<'a> {
    statements: &'a Statements,
    request: &'a SelectionRequest,
    kind: AuditKind,
}

impl Change<'_> {
    /// The rows to change, and what is told of the others.
    async fn find(&self, connection: &mut SqliteConnection) -> Result<(Vec<i64>, Changed)> {
        let (ids, selected): (&[EventId], _) = match &self.request.selection {
            Selection::Ids(ids) => {
                let json = serde_json::to_string(ids)
                    .map_err(|_| Error::invalid("an event id cannot be written as JSON"))?;
                (ids, query(&self.statements.selected_ids).bind(json))
            }
            Selection::Matching(filter) => {
                let statement = query(&self.statements.selected_matching)
                    .bind(filter.route.as_ref().map(|route| route.to_string()))
                    .bind(filter.event_type.clone())
                    .bind(filter.key.clone());
                (&[], statement)
            }
        };
        let mut dead = Vec::new();
        let mut known = HashSet::new();
        let mut sagas = BTreeSet::new();
        let mut changed = Changed::default();
        for row in selected.fetch_all(connection).await.map_err(classify)? {
            known.insert(row.try_get_unchecked::<&str, _>(1).map_err(classify)?.parse::<EventId>()?);
            if row.try_get_unchecked::<&str, _>(2).map_err(classify)? != Status::Dead.as_str() {
                changed.skipped += 1;
                continue;
            }
            let saga: Option<&str> = row.try_get_unchecked(3).map_err(classify)?;
            sagas.extend(saga.and_then(|id| id.parse::<SagaId>().ok()));
            // A discard leaves the steps of open sagas as they are.
            if saga.is_none() || self.kind != AuditKind::Discarded {
                dead.push(row.try_get_unchecked(0).map_err(classify)?);
            }
        }
        changed.sagas = sagas.into_iter().take(usize::try_from(LIST_MAX).unwrap_or(usize::MAX)).collect();
        // An id that was named twice is missing once.
        changed.missing = ids.iter().copied().filter(|id| known.insert(*id)).collect();
        Ok((dead, changed))
    }
}

#[async_trait]
impl Step for &Change<'_> {
    type Outcome = Changed;

    async fn run(self, tx: &mut SqliteConnection) -> Result<Changed> {
        let (dead, mut changed) = self.find(&mut *tx).await?;
        if dead.is_empty() {
            return Ok(changed);
        }
        let now = self.request.now.map(Timestamp::as_micros);
        let seqs = seqs_json(&dead)?;
        // The audit rows come before the status that they explain.
        query(&self.statements.change_audit)
            .bind(now)
            .bind(self.kind.as_str())
            .bind(self.request.actor.clone())
            .bind(seqs.clone())
            .execute(&mut *tx)
            .await
            .map_err(classify)?;
        let statement = if self.kind == AuditKind::Requeued {
            &self.statements.requeue
        } else {
            &self.statements.discard
        };
        let done = query(statement).bind(now).bind(seqs.clone()).execute(&mut *tx).await.map_err(classify)?;
        // Whoever reads these lanes is past these entries.
        query(&self.statements.lanes_revise).bind(seqs).execute(tx).await.map_err(classify)?;
        changed.changed = done.rows_affected();
        Ok(changed)
    }
}
