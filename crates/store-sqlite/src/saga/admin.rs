//! What operators see and do of sagas.

use async_trait::async_trait;
use pillarbox_core::limits::OPEN_SAGAS_MAX;
use pillarbox_core::port::shared::{Columns, intervene};
use pillarbox_core::port::{
    Intervened, InterventionRequest, PurgeRequest, Purged, SagaAdmin, SagaCounts, SagaFilter, SagaStory,
};
use pillarbox_core::{
    AuditRecord, Reference, Result, RouteName, SagaId, SagaRecord, SagaStatus, Timestamp, check_name,
};

use crate::admin::records;
use crate::bind::Bind;
use crate::error::classify;
use crate::row::Cells;
use crate::store::SqliteStore;

use super::read::{load, saga};
use super::settle::Locked;

impl SqliteStore {
    /// Sagas of a route that have not ended, up to a limit.
    pub(crate) async fn count_open_sagas(&self, route: &RouteName) -> Result<u64> {
        let limit = i64::try_from(OPEN_SAGAS_MAX).unwrap_or(i64::MAX);
        let arguments = Bind::new().text(route.as_str()).number(limit).done()?;
        let open = self.statements.saga_open.with(arguments);
        Cells::of(&open.fetch_one(&mut *self.reader().await?).await.map_err(classify)?).count()
    }
}

#[async_trait]
impl SagaAdmin for SqliteStore {
    async fn list_sagas(&self, filter: SagaFilter) -> Result<Vec<SagaRecord>> {
        filter.check()?;
        let arguments = Bind::new()
            .value(filter.status.map(SagaStatus::as_str))
            .value(filter.name)
            .value(filter.subject.as_ref().map(|subject| subject.kind.clone()))
            .value(filter.subject.map(|subject| subject.value))
            .at(filter.after.map(|after| after.created_at))
            .value(filter.after.map(|after| after.id.to_string()))
            .number(filter.limit.into())
            .done()?;
        let list = self.statements.saga_list.with(arguments);
        let rows = list.fetch_all(self.pool()).await.map_err(classify)?;
        rows.iter().map(|row| saga(row, 0)).collect()
    }

    async fn show_saga(&self, id: SagaId) -> Result<Option<SagaStory>> {
        // One transaction, so that the trail explains the status that is shown.
        let mut tx = self.pool().begin().await.map_err(classify)?;
        let Some((saga, entries)) = load(&self.statements, id, &mut tx).await? else { return Ok(None) };
        let audit = self.statements.saga_audit.with(Bind::new().text(&id.to_string()).done()?);
        let audit = records(&audit.fetch_all(&mut *tx).await.map_err(classify)?)?;
        tx.rollback().await.map_err(classify)?;
        Ok(Some(SagaStory { saga, entries, audit }))
    }

    async fn intervene(&self, request: InterventionRequest) -> Result<Intervened> {
        check_name("actor", &request.actor)?;
        intervene(&Locked(&self.sagas()), &request).await
    }

    async fn saga_counts(&self, now: Option<Timestamp>) -> Result<SagaCounts> {
        let sagas = self.statements.saga_counts.with(Bind::new().at(now).done()?);
        let rows = sagas.fetch_all(self.pool()).await.map_err(classify)?;
        let mut counts = SagaCounts::zero();
        rows.iter().try_for_each(|row| counts.count(&mut Cells::of(row)))?;
        Ok(counts)
    }

    async fn audit_of(&self, subject: &Reference) -> Result<Vec<AuditRecord>> {
        let arguments = Bind::new().text(&subject.kind).text(&subject.value).done()?;
        let rows = self.statements.audit_subject.with(arguments);
        records(&rows.fetch_all(self.pool()).await.map_err(classify)?)
    }

    async fn purge_sagas(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_ended(request).await
    }
}
