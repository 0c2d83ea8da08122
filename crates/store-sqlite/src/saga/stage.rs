//! Staging a saga inside the application's own transaction.

use async_trait::async_trait;
use pillarbox_core::port::{Entropy, StageSaga, StagedSaga};
use pillarbox_core::{Result, Saga, SagaId, SagaRecord, Timestamp};
use pillarbox_host::OsEntropy;
use sqlx::{Row, Sqlite, Transaction};

use crate::error::classify;
use crate::outbox::Outbox;
use crate::sql::query;

impl Outbox {
    /// Stages a saga with the entries of the steps that may run now, on this route.
    ///
    /// # Errors
    /// What the database reports; the transaction should then be rolled back.
    pub async fn stage_saga(&self, tx: &mut Transaction<'_, Sqlite>, mut saga: Saga) -> Result<StagedSaga> {
        saga.fill_header("traceparent", || self.traceparent());
        let route = self.route()?;
        let id = saga.id().unwrap_or_else(|| SagaId(OsEntropy.event_id().0));
        // The times are the database's: only what does not depend on them is taken from this one.
        let mut draft = SagaRecord::new(saga.clone(), id, route.clone(), 1, Timestamp::MIN);
        let _ = draft.start()?;
        let columns = draft.columns()?;
        let timeout = draft.timeout.and_then(|timeout| i64::try_from(timeout.as_millis() * 1000).ok());
        let row = query(&self.statements.saga_stage)
            .bind(columns.id)
            .bind(columns.name)
            .bind(columns.route)
            .bind(columns.subject_kind)
            .bind(columns.subject_value)
            .bind(columns.status)
            .bind(columns.body)
            .bind(timeout)
            .bind(draft.due_at.is_some())
            .fetch_optional(&mut **tx)
            .await
            .map_err(classify)?;
        let Some(row) = row else { return Ok(StagedSaga::Duplicate(id)) };
        let generation: i64 = row.try_get_unchecked(0).map_err(classify)?;
        let generation = u32::try_from(generation).unwrap_or(u32::MAX);
        let mut record = SagaRecord::new(saga, id, route, generation, Timestamp::MIN);
        let moves = record.start()?;
        self.stage_all(tx, moves.stage).await?;
        Ok(StagedSaga::Fresh { id, generation })
    }
}

#[async_trait]
impl<'c> StageSaga<Transaction<'c, Sqlite>> for Outbox {
    async fn stage_saga(&self, tx: &mut Transaction<'c, Sqlite>, saga: Saga) -> Result<StagedSaga> {
        Self::stage_saga(self, tx, saga).await
    }
}
