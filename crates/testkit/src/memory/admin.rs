//! The operator's side of the in-memory store.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use pillarbox_core::limits::LIST_MAX;
use pillarbox_core::port::{
    Admin, Changed, Effect, Filter, InventoryRequest, InventoryRow, PurgeRequest, Purged, RouteCounts,
    Selection, SelectionRequest, Story,
};
use pillarbox_core::{
    Action, AuditKind, AuditRecord, Entry, EventId, Reference, Result, RouteName, SagaId, Status, Timestamp,
};

use super::mutant::Mutant;
use super::state::State;
use super::store::MemoryStore;

#[async_trait]
impl Admin for MemoryStore {
    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
        let now = self.shared.now(now);
        let state = self.shared.lock();
        let mut routes: BTreeMap<RouteName, RouteCounts> = BTreeMap::new();
        for entry in state.rows.values().map(|row| &row.entry) {
            let route = entry.route.clone();
            let counts = routes.entry(route.clone()).or_insert_with(|| RouteCounts::zero(route));
            let in_flight = state.is_handed_out(entry, now);
            *counts.counts.entry(if in_flight { Status::InFlight } else { entry.status }).or_default() += 1;
            let waits_since = entry.due_at.unwrap_or(entry.created_at);
            if !entry.status.is_terminal() && waits_since <= now {
                counts.oldest_due_age = counts.oldest_due_age.max(Some(now.since(waits_since)));
            }
        }
        Ok(routes.into_values().collect())
    }

    async fn list(&self, filter: Filter) -> Result<Vec<Entry>> {
        filter.check()?;
        let state = self.shared.lock();
        let status = |entry: &&Entry| filter.status.is_none_or(|status| status == entry.status);
        let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        Ok(state.matching(&filter).filter(status).take(limit).cloned().collect())
    }

    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>> {
        request.check()?;
        let state = self.shared.lock();
        let rows = state.rows.values().map(|row| &row.entry).filter(|entry| entry.seq > request.after);
        let row = |entry: &Entry| InventoryRow {
            seq: entry.seq,
            event_id: entry.event_id,
            route: entry.route.clone(),
            key: entry.key.clone(),
            status: entry.status,
            created_at: entry.created_at,
        };
        Ok(rows.take(usize::try_from(request.limit).unwrap_or(usize::MAX)).map(row).collect())
    }

    async fn show(&self, id: EventId) -> Result<Vec<Story>> {
        let state = self.shared.lock();
        let entries = state.rows.values().map(|row| &row.entry).filter(|entry| entry.event_id == id);
        let story = |entry: &Entry| Story {
            entry: entry.clone(),
            audit: state
                .audit
                .iter()
                .filter(|record| record.event_id == Some(id) && record.route.as_ref() == Some(&entry.route))
                .cloned()
                .collect(),
        };
        Ok(entries.map(story).collect())
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditRecord>> {
        let state = self.shared.lock();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(state.audit[state.audit.len().saturating_sub(limit)..].to_vec())
    }

    async fn requeue(&self, request: SelectionRequest) -> Result<Changed> {
        let now = self.shared.now(request.now);
        self.shared.lock().change_dead(&request, AuditKind::Requeued, now)
    }

    async fn discard(&self, request: SelectionRequest) -> Result<Changed> {
        let now = self.shared.now(request.now);
        self.shared.lock().change_dead(&request, AuditKind::Discarded, now)
    }

    async fn purge(&self, request: PurgeRequest) -> Result<Purged> {
        let now = self.shared.now(request.now);
        self.shared.lock().purge(&request, now)
    }

    async fn purge_inbox(&self, request: PurgeRequest) -> Result<Purged> {
        let now = self.shared.now(request.now);
        self.shared.lock().purge_inbox(&request, now)
    }
}

impl State {
    /// Entries that a filter means, its status and limit aside.
    fn matching<'a>(&'a self, filter: &'a Filter) -> impl Iterator<Item = &'a Entry> {
        self.rows.values().map(|row| &row.entry).filter(|entry| {
            filter.route.as_ref().is_none_or(|route| *route == entry.route)
                && filter.event_type.as_ref().is_none_or(|event_type| *event_type == entry.event_type)
                && filter.key.as_ref().is_none_or(|key| Some(key) == entry.key.as_ref())
        })
    }

    /// Which dead entries are meant, and what of the selection is not a dead entry.
    fn select(&self, selection: &Selection) -> (Vec<i64>, Changed) {
        let mut changed = Changed::default();
        let mut dead = vec![];
        match selection {
            Selection::Ids(ids) => {
                for id in ids.iter().collect::<BTreeSet<_>>() {
                    let entries =
                        self.rows.values().map(|row| &row.entry).filter(|entry| entry.event_id == *id);
                    let (is_dead, is_not): (Vec<_>, Vec<_>) =
                        entries.partition(|entry| entry.status == Status::Dead);
                    if is_dead.is_empty() && is_not.is_empty() {
                        changed.missing.push(*id);
                    }
                    changed.skipped += is_not.len() as u64;
                    dead.extend(is_dead.iter().map(|entry| entry.seq));
                }
            }
            Selection::Matching(filter) => {
                let matching = self.matching(filter).filter(|entry| entry.status == Status::Dead);
                dead.extend(matching.map(|entry| entry.seq));
            }
        }
        changed.changed = dead.len() as u64;
        (dead, changed)
    }

    /// The saga of a step that has not ended.
    fn open_saga(&self, seq: i64) -> Option<SagaId> {
        let entry = &self.rows.get(&seq)?.entry;
        let id = entry.group_id.as_deref().filter(|_| entry.is_step())?.parse().ok()?;
        self.sagas.get(&id).filter(|saga| saga.ended_at.is_none()).map(|_| id)
    }

    fn change_dead(
        &mut self,
        request: &SelectionRequest,
        kind: AuditKind,
        now: Timestamp,
    ) -> Result<Changed> {
        let (mut dead, mut changed) = self.select(&request.selection);
        let (of_open, rest): (Vec<i64>, Vec<i64>) =
            dead.iter().partition(|seq| self.open_saga(**seq).is_some());
        let sagas: BTreeSet<SagaId> = of_open.iter().filter_map(|seq| self.open_saga(*seq)).collect();
        changed.sagas = sagas.into_iter().take(usize::try_from(LIST_MAX).unwrap_or(usize::MAX)).collect();
        if kind == AuditKind::Discarded && !self.is(Mutant::DiscardTakesSteps) {
            dead = rest;
            changed.changed = dead.len() as u64;
        }
        if request.effect == Effect::DryRun {
            return Ok(changed);
        }
        self.check_audit(!dead.is_empty())?;
        for seq in &dead {
            let Some(row) = self.rows.get(seq) else { continue };
            let whose = (Some(row.entry.route.clone()), Some(row.entry.event_id));
            let group = row.entry.group_id.as_deref().and_then(|group| group.parse().ok());
            let saga = group.and_then(|id| self.sagas.get(&id).map(|saga| (id, saga.clone())));
            let record = self.push_audit(now, kind, &request.actor, whose, String::new());
            if let Some((id, saga)) = saga {
                record.saga_id = Some(id);
                record.subject = Some(Reference::new(saga.subject_kind, saga.subject_value));
            }
        }
        for seq in dead {
            self.revise(seq);
            let Some(row) = self.rows.get_mut(&seq) else { continue };
            if kind == AuditKind::Requeued {
                row.step(Action::Requeue);
                row.entry.attempts = 0;
                row.entry.settled_at = None;
            } else {
                row.step(Action::Discard);
                row.entry.settled_at = Some(now);
            }
        }
        Ok(changed)
    }

    fn purge(&mut self, request: &PurgeRequest, now: Timestamp) -> Result<Purged> {
        let before = now.saturating_sub(request.older_than);
        let old: Vec<i64> = self
            .rows
            .values()
            .map(|row| &row.entry)
            .filter(|entry| matches!(entry.status, Status::Delivered | Status::Discarded))
            .filter(|entry| entry.settled_at.is_some_and(|settled| settled <= before))
            .take(usize::try_from(request.limit).unwrap_or(usize::MAX))
            .map(|entry| entry.seq)
            .collect();
        let purged = Purged { purged: old.len() as u64 };
        if request.effect == Effect::DryRun || old.is_empty() {
            return Ok(purged);
        }
        self.check_audit(true)?;
        self.record(now, AuditKind::Purged, &request.actor, None, format!("{} entries", old.len()));
        for seq in old {
            self.remove(seq);
        }
        Ok(purged)
    }
}
