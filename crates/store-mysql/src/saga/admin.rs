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

use crate::admin::{SNAPSHOT, records};
use crate::bind::Bind;
use crate::call::{Traffic, begin};
use crate::error::{Phase, classify};
use crate::row::Cells;
use crate::store::MySqlStore;

use super::read::{Kept, load, saga};
use super::settle::Locked;

impl MySqlStore {
    /// Sagas of a route that have not ended, up to a limit.
    pub(crate) async fn count_open_sagas(&self, route: &RouteName) -> Result<u64> {
        let limit = i64::try_from(OPEN_SAGAS_MAX).unwrap_or(i64::MAX);
        let open = self.statements.saga_open.with(Bind::new().bytes(route.as_str()).number(limit))?;
        let rows = self.rows(Traffic::Reading, &open).await?;
        rows.first().map_or(Ok(0), |row| Cells::of(row).count())
    }
}

#[async_trait]
impl SagaAdmin for MySqlStore {
    async fn list_sagas(&self, filter: SagaFilter) -> Result<Vec<SagaRecord>> {
        filter.check()?;
        let (kind, value) = filter.subject.map(|subject| (subject.kind, subject.value)).unzip();
        let bind = Bind::new()
            .optional_text(filter.status.map(SagaStatus::as_str))
            .optional_text(filter.name)
            .optional_text(kind)
            .optional_text(value)
            .at(filter.after.map(|after| after.created_at))
            .optional_text(filter.after.map(|after| after.id.to_string()))
            .number(filter.limit.into());
        let rows = self.rows(Traffic::Operator, &self.statements.saga_list.with(bind)?).await?;
        rows.iter().map(|row| saga(row, 0)).collect()
    }

    async fn show_saga(&self, id: SagaId) -> Result<Option<SagaStory>> {
        // One moment, so that the trail explains the status that is shown.
        let mut tx = begin(self.pool(), SNAPSHOT).await?;
        let Some((saga, entries)) = load(&self.statements, id, Kept::No, &mut tx).await? else {
            return Ok(None);
        };
        let audit = self.statements.saga_audit.with(Bind::new().bytes(id.to_string()))?;
        let audit = records(&audit.rows(&mut tx).await?)?;
        tx.rollback().await.map_err(|error| classify(error, Phase::Before))?;
        Ok(Some(SagaStory { saga, entries, audit }))
    }

    async fn intervene(&self, request: InterventionRequest) -> Result<Intervened> {
        check_name("actor", &request.actor)?;
        intervene(&Locked(&self.sagas()), &request).await
    }

    async fn saga_counts(&self, now: Option<Timestamp>) -> Result<SagaCounts> {
        let look = self.statements.saga_counts.with(Bind::new().at(now))?;
        let mut counts = SagaCounts::zero();
        for row in &self.rows(Traffic::Operator, &look).await? {
            counts.count(&mut Cells::of(row))?;
        }
        Ok(counts)
    }

    async fn audit_of(&self, subject: &Reference) -> Result<Vec<AuditRecord>> {
        let bind = Bind::new().bytes(subject.kind.as_str()).bytes(subject.value.as_str());
        records(&self.rows(Traffic::Operator, &self.statements.audit_subject.with(bind)?).await?)
    }

    async fn purge_sagas(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_ended(request).await
    }
}
