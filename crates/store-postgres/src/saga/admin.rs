//! What operators see and do of sagas.

use async_trait::async_trait;
use pillarbox_core::limits::OPEN_SAGAS_MAX;
use pillarbox_core::port::shared::Columns;
use pillarbox_core::port::{
    Intervened, InterventionRequest, Keep, PurgeRequest, Purged, SagaAdmin, SagaCounts, SagaFilter, SagaStory,
};
use pillarbox_core::{
    AuditRecord, Entry, Error, ErrorKind, Reference, Result, RouteName, SagaId, SagaRecord, SagaStatus,
    SagaWork, Timestamp, check_name,
};

use crate::admin::records;
use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::error::{Phase, classify};
use crate::row::{Cells, decode_whole};
use crate::store::PostgresStore;

use super::read::saga;

/// Relays that move the same saga at the same time come first at most this often.
const TRIES: usize = 16;

impl PostgresStore {
    /// Sagas of a route that have not ended, up to a limit.
    pub(crate) async fn count_open_sagas(&self, route: &RouteName) -> Result<u64> {
        let limit = i64::try_from(OPEN_SAGAS_MAX).unwrap_or(i64::MAX);
        let arguments = Bind::new().text(route.as_str()).number(limit).done()?;
        let rows = self.run(Traffic::Relay, Again::Always, &self.sql().saga_open, arguments).await?;
        rows.first().map_or(Ok(0), |row| Cells::of(row).count())
    }
}

#[async_trait]
impl SagaAdmin for PostgresStore {
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
        let rows = self.run(Traffic::Operator, Again::Always, &self.sql().saga_list, arguments).await?;
        rows.iter().map(|row| saga(row, 1)).collect()
    }

    async fn show_saga(&self, id: SagaId) -> Result<Option<SagaStory>> {
        let arguments = Bind::new().text(&id.to_string()).at(None).done()?;
        let rows = self.run(Traffic::Operator, Again::Always, &self.sql().saga_show, arguments).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let saga = saga(row, 1)?;
        let ids: Vec<uuid::Uuid> = saga.event_ids().into_iter().map(|id| id.0).collect();
        let arguments = Bind::new().value(ids).text(&id.to_string()).done()?;
        let rows = self.run(Traffic::Operator, Again::Always, &self.sql().saga_entries, arguments).await?;
        let entry = |row| decode_whole(row).map_err(|error| classify(error, Phase::Before));
        let entries = rows.iter().map(entry).collect::<Result<Vec<Entry>>>()?;
        let arguments = Bind::new().text(&id.to_string()).done()?;
        let rows = self.run(Traffic::Operator, Again::Always, &self.sql().saga_audit, arguments).await?;
        Ok(Some(SagaStory { saga, entries, audit: records(&rows)? }))
    }

    async fn intervene(&self, request: InterventionRequest) -> Result<Intervened> {
        check_name("actor", &request.actor)?;
        let sagas = self.sagas();
        for _ in 0..TRIES {
            let loaded = sagas.load(request.id, request.now).await?;
            let Some((saga, seen, now)) = loaded else { return Err(request.unknown()) };
            let work = SagaWork::intervene(saga, seen, &request.what, now)?;
            let one = std::slice::from_ref(&work);
            if sagas.write(None, one, &request.actor, Keep::UntilPurged, now).await?.contains(&request.id) {
                return Ok(work.intervened());
            }
        }
        Err(Error::new(
            ErrorKind::Contention,
            format!("relays changed the saga {TRIES} times in the meantime, so nothing was done. Try again"),
        ))
    }

    async fn saga_counts(&self, pinned: Option<Timestamp>) -> Result<SagaCounts> {
        let arguments = Bind::new().at(pinned).done()?;
        let rows = self.run(Traffic::Operator, Again::Always, &self.sql().saga_counts, arguments).await?;
        let mut counts = SagaCounts::zero();
        rows.iter().try_for_each(|row| counts.count(&mut Cells::of(row)))?;
        Ok(counts)
    }

    async fn audit_of(&self, subject: &Reference) -> Result<Vec<AuditRecord>> {
        let arguments = Bind::new().text(&subject.kind).text(&subject.value).done()?;
        let rows = self.run(Traffic::Operator, Again::Always, &self.sql().audit_subject, arguments).await?;
        records(&rows)
    }

    async fn purge_sagas(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_ended(request).await
    }
}
