//! What operators see and do of sagas.

use async_trait::async_trait;
use pillarbox_core::limits::OPEN_SAGAS_MAX;
use pillarbox_core::port::{
    Intervened, InterventionRequest, Keep, PurgeRequest, Purged, SagaAdmin, SagaCounts, SagaFilter, SagaStory,
};
use pillarbox_core::{
    AuditRecord, Entry, Error, ErrorKind, Reference, Result, RouteName, SagaId, SagaRecord, SagaStatus,
    SagaWork, Timestamp, check_name,
};
use sqlx::Row;

use crate::bind::Bind;
use crate::call::{Again, Line};
use crate::error::{Phase, classify};
use crate::row::{At, decode_audit, decode_whole};
use crate::store::PostgresStore;

use super::read::{now, saga, unreadable};

/// Relays that move the same saga at the same time come first at most this often.
const TRIES: usize = 16;

impl PostgresStore {
    /// Sagas of a route that have not ended, up to a limit.
    pub(crate) async fn count_open_sagas(&self, route: &RouteName) -> Result<u64> {
        let limit = i64::try_from(OPEN_SAGAS_MAX).unwrap_or(i64::MAX);
        let arguments = Bind::new().text(route.as_str()).number(limit).done()?;
        let rows = self.run(Line::Relay, Again::Always, &self.sql().saga_open, arguments).await?;
        let open: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(|_| unreadable())?;
        Ok(u64::try_from(open).unwrap_or(0))
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
            .number(filter.limit.into())
            .done()?;
        let rows = self.run(Line::Operator, Again::Always, &self.sql().saga_list, arguments).await?;
        rows.iter().map(|row| saga(row, 1)).collect()
    }

    async fn show_saga(&self, id: SagaId) -> Result<Option<SagaStory>> {
        let arguments = Bind::new().text(&id.to_string()).at(None).done()?;
        let rows = self.run(Line::Operator, Again::Always, &self.sql().saga_show, arguments).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let saga = saga(row, 1)?;
        let ids: Vec<uuid::Uuid> = saga.event_ids().into_iter().map(|id| id.0).collect();
        let arguments = Bind::new().value(ids).text(&id.to_string()).done()?;
        let rows = self.run(Line::Operator, Again::Always, &self.sql().saga_entries, arguments).await?;
        let entry = |row| decode_whole(row).map_err(|error| classify(error, Phase::Before));
        let entries = rows.iter().map(entry).collect::<Result<Vec<Entry>>>()?;
        let arguments = Bind::new().text(&id.to_string()).done()?;
        let rows = self.run(Line::Operator, Again::Always, &self.sql().saga_audit, arguments).await?;
        let audit = rows.iter().map(decode_audit).collect::<Result<Vec<_>>>()?;
        Ok(Some(SagaStory { saga, entries, audit }))
    }

    async fn intervene(&self, request: InterventionRequest) -> Result<Intervened> {
        check_name("actor", &request.actor)?;
        let sagas = self.sagas();
        for _ in 0..TRIES {
            let loaded = sagas.load(request.id, request.now).await?;
            let Some((saga, seen, now)) = loaded else {
                return Err(Error::new(ErrorKind::NotFound, format!("there is no saga {}", request.id)));
            };
            let work = SagaWork::intervene(saga, seen, &request.what, now)?;
            let one = std::slice::from_ref(&work);
            if sagas.write(None, one, &request.actor, Keep::UntilPurged, now).await?.contains(&request.id) {
                return Ok(work.intervened());
            }
        }
        Err(Error::new(
            ErrorKind::Contention,
            format!("relays moved the saga {TRIES} times meanwhile, so nothing was done: try again"),
        ))
    }

    async fn saga_counts(&self, pinned: Option<Timestamp>) -> Result<SagaCounts> {
        let arguments = Bind::new().at(pinned).done()?;
        let rows = self.run(Line::Operator, Again::Always, &self.sql().saga_counts, arguments).await?;
        let mut counts = SagaCounts::zero();
        for row in &rows {
            let number = |column: usize| -> Result<u64> {
                let number: i64 = row.try_get(column).map_err(|_| unreadable())?;
                Ok(u64::try_from(number).unwrap_or(0))
            };
            let status: SagaStatus = row.try_get::<&str, _>(0).map_err(|_| unreadable())?.parse()?;
            *counts.counts.entry(status).or_default() += number(1)?;
            if !status.is_ended() {
                let route: String = row.try_get(5).map_err(|_| unreadable())?;
                *counts.open.entry(RouteName::new(route)?).or_default() += number(1)?;
            }
            let since = row.try_get::<At, _>(3).map_err(|_| unreadable())?.timestamp();
            if status.is_stuck() {
                let age = now(row, 4)?.since(since.unwrap_or(Timestamp::MIN));
                counts.oldest_stuck_age = counts.oldest_stuck_age.max(Some(age));
            } else {
                counts.overdue += number(2)?;
            }
        }
        Ok(counts)
    }

    async fn audit_of(&self, subject: &Reference) -> Result<Vec<AuditRecord>> {
        let arguments = Bind::new().text(&subject.kind).text(&subject.value).done()?;
        let rows = self.run(Line::Operator, Again::Always, &self.sql().audit_subject, arguments).await?;
        rows.iter().map(decode_audit).collect()
    }

    async fn purge_sagas(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_ended(request).await
    }
}
