//! What operators see and do of sagas.

use async_trait::async_trait;
use pillarbox_core::limits::OPEN_SAGAS_MAX;
use pillarbox_core::port::{
    Intervened, InterventionRequest, PurgeRequest, Purged, SagaAdmin, SagaCounts, SagaFilter, SagaStory,
};
use pillarbox_core::{
    AuditRecord, Reference, Result, RouteName, SagaId, SagaRecord, SagaStatus, Timestamp, check_name,
};
use sqlx::Row;

use crate::admin::records;
use crate::error::classify;
use crate::purge;
use crate::sql::{query, timestamp};
use crate::store::SqliteStore;

use super::read::{load, saga};

impl SqliteStore {
    /// Sagas of a route that have not ended, up to a limit.
    pub(crate) async fn count_open_sagas(&self, route: &RouteName) -> Result<u64> {
        let limit = i64::try_from(OPEN_SAGAS_MAX).unwrap_or(i64::MAX);
        let open = query(&self.statements.saga_open).bind(route.to_string()).bind(limit);
        let row = open.fetch_one(&mut *self.reader().await?).await.map_err(classify)?;
        let open: i64 = row.try_get_unchecked(0).map_err(classify)?;
        Ok(u64::try_from(open).unwrap_or(0))
    }
}

#[async_trait]
impl SagaAdmin for SqliteStore {
    async fn list_sagas(&self, filter: SagaFilter) -> Result<Vec<SagaRecord>> {
        filter.check()?;
        let rows = query(&self.statements.saga_list)
            .bind(filter.status.map(SagaStatus::as_str))
            .bind(filter.name)
            .bind(filter.subject.as_ref().map(|subject| subject.kind.clone()))
            .bind(filter.subject.map(|subject| subject.value))
            .bind(filter.limit)
            .fetch_all(self.pool())
            .await
            .map_err(classify)?;
        rows.iter().map(|row| saga(row, 0)).collect()
    }

    async fn show_saga(&self, id: SagaId) -> Result<Option<SagaStory>> {
        // One transaction, so that the trail explains the status that is shown.
        let mut tx = self.pool().begin().await.map_err(classify)?;
        let Some((saga, entries)) = load(&self.statements, id, &mut tx).await? else { return Ok(None) };
        let audit = query(&self.statements.saga_audit).bind(id.to_string());
        let audit = records(&audit.fetch_all(&mut *tx).await.map_err(classify)?)?;
        tx.rollback().await.map_err(classify)?;
        Ok(Some(SagaStory { saga, entries, audit }))
    }

    async fn intervene(&self, request: InterventionRequest) -> Result<Intervened> {
        check_name("actor", &request.actor)?;
        self.sagas().intervene(&request).await
    }

    async fn saga_counts(&self, now: Option<Timestamp>) -> Result<SagaCounts> {
        let rows = query(&self.statements.saga_counts).bind(now.map(Timestamp::as_micros));
        let rows = rows.fetch_all(self.pool()).await.map_err(classify)?;
        let mut counts = SagaCounts::zero();
        for row in &rows {
            let number = |column: usize| -> Result<i64> { row.try_get_unchecked(column).map_err(classify) };
            let status: SagaStatus = row.try_get_unchecked::<&str, _>(0).map_err(classify)?.parse()?;
            let sagas = u64::try_from(number(1)?).unwrap_or(0);
            *counts.counts.entry(status).or_default() += sagas;
            if !status.is_ended() {
                let route = row.try_get_unchecked::<&str, _>(5).map_err(classify)?;
                *counts.open.entry(RouteName::new(route)?).or_default() += sagas;
            }
            if status.is_stuck() {
                let age = timestamp(number(4)?)?.since(timestamp(number(3)?)?);
                counts.oldest_stuck_age = counts.oldest_stuck_age.max(Some(age));
            } else {
                counts.overdue += u64::try_from(number(2)?).unwrap_or(0);
            }
        }
        Ok(counts)
    }

    async fn audit_of(&self, subject: &Reference) -> Result<Vec<AuditRecord>> {
        let rows =
            query(&self.statements.audit_subject).bind(subject.kind.clone()).bind(subject.value.clone());
        records(&rows.fetch_all(self.pool()).await.map_err(classify)?)
    }

    async fn purge_sagas(&self, request: PurgeRequest) -> Result<Purged> {
        purge::purge_sagas(self, request).await
    }
}
