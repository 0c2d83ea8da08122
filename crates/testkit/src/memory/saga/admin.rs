//! The operator's side of sagas in memory.

use async_trait::async_trait;
use pillarbox_core::port::{
    Effect, Intervened, InterventionRequest, Keep, PurgeRequest, Purged, SagaAdmin, SagaCounts, SagaFilter,
    SagaStory,
};
use pillarbox_core::{
    AuditKind, AuditRecord, Reference, Result, RouteName, SagaColumns, SagaId, SagaRecord, SagaStatus,
    SagaWork, Timestamp, check_name,
};

use crate::memory::state::{Key, State};
use crate::memory::store::MemoryStore;

#[async_trait]
impl SagaAdmin for MemoryStore {
    async fn list_sagas(&self, filter: SagaFilter) -> Result<Vec<SagaRecord>> {
        filter.check()?;
        let state = self.shared.lock();
        let after = filter.after.map(|after| (after.created_at, after.id.to_string()));
        let is_meant = |saga: &&SagaColumns| {
            filter.status.is_none_or(|status| status.as_str() == saga.status)
                && filter.name.as_ref().is_none_or(|name| *name == saga.name)
                && filter
                    .subject
                    .as_ref()
                    .is_none_or(|of| of.kind == saga.subject_kind && of.value == saga.subject_value)
                && after.as_ref().is_none_or(|(at, id)| (saga.created_at, &saga.id) > (*at, id))
        };
        let mut sagas: Vec<_> = state.sagas.values().filter(is_meant).cloned().collect();
        sagas.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        sagas.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
        sagas.into_iter().map(SagaRecord::read).collect()
    }

    async fn show_saga(&self, id: SagaId) -> Result<Option<SagaStory>> {
        let state = self.shared.lock();
        let Some(saga) = state.sagas.get(&id) else { return Ok(None) };
        let saga = SagaRecord::read(saga.clone())?;
        let ids = saga.event_ids();
        let entries = state.rows.values().map(|row| &row.entry);
        let of = |record: &&AuditRecord| record.saga_id == Some(id);
        Ok(Some(SagaStory {
            entries: entries.filter(|entry| ids.contains(&entry.event_id)).cloned().collect(),
            audit: state.audit.iter().filter(of).cloned().collect(),
            saga,
        }))
    }

    async fn intervene(&self, request: InterventionRequest) -> Result<Intervened> {
        check_name("actor", &request.actor)?;
        let _turn = self.shared.sagas.lock().await;
        let now = self.shared.now(request.now);
        self.shared.lock().intervene(&request, now)
    }

    async fn saga_counts(&self, now: Option<Timestamp>) -> Result<SagaCounts> {
        let now = self.shared.now(now);
        let state = self.shared.lock();
        let mut counts = SagaCounts::zero();
        for saga in state.sagas.values() {
            let status: SagaStatus = saga.status.parse()?;
            *counts.counts.entry(status).or_default() += 1;
            if !status.is_ended() {
                *counts.open.entry(RouteName::new(saga.route.clone())?).or_default() += 1;
            }
            if status.is_stuck() {
                counts.oldest_stuck_age = counts.oldest_stuck_age.max(Some(now.since(saga.updated_at)));
            } else if !status.is_ended() && saga.deadline_at.is_some_and(|deadline| deadline <= now) {
                counts.overdue += 1;
            }
        }
        Ok(counts)
    }

    async fn audit_of(&self, subject: &Reference) -> Result<Vec<AuditRecord>> {
        let state = self.shared.lock();
        let of = |record: &&AuditRecord| {
            record.subject.as_ref().is_some_and(|of| of.kind == subject.kind && of.value == subject.value)
        };
        Ok(state.audit.iter().filter(of).cloned().collect())
    }

    async fn purge_sagas(&self, request: PurgeRequest) -> Result<Purged> {
        request.check()?;
        let _turn = self.shared.sagas.lock().await;
        let now = self.shared.now(request.now);
        self.shared.lock().purge_sagas(&request, now)
    }
}

impl State {
    fn purge_sagas(&mut self, request: &PurgeRequest, now: Timestamp) -> Result<Purged> {
        let before = now.saturating_sub(request.older_than);
        let ended = self.sagas.iter().filter_map(|(id, saga)| Some((saga.ended_at?, *id)));
        let mut old: Vec<(Timestamp, SagaId)> = ended.filter(|(at, _)| *at <= before).collect();
        old.sort_unstable();
        old.truncate(usize::try_from(request.limit).unwrap_or(usize::MAX));
        let purged = Purged { purged: old.len() as u64 };
        if request.effect == Effect::DryRun || old.is_empty() {
            return Ok(purged);
        }
        self.check_audit(true)?;
        self.record(now, AuditKind::SagasPurged, &request.actor, None, old.len().to_string());
        for (_, id) in old {
            self.sagas.remove(&id);
            self.taken.remove(&Key::Saga(id));
        }
        Ok(purged)
    }

    fn intervene(&mut self, request: &InterventionRequest, now: Timestamp) -> Result<Intervened> {
        let columns = self.sagas.get(&request.id).ok_or_else(|| request.unknown())?;
        let saga = SagaRecord::read(columns.clone())?;
        let seen = self.entries_of(&saga);
        let work = SagaWork::intervene(saga, seen, &request.what, now)?;
        self.check_audit(true)?;
        let intervened = work.intervened();
        self.apply(work, &request.actor, Keep::UntilPurged, now)?;
        Ok(intervened)
    }
}
