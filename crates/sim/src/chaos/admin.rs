//! The operator's side of a store, with every change written down.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::limits::LIST_MAX;
use pillarbox_core::port::shared::Verb;
use pillarbox_core::port::{
    Admin, AuditFilter, Changed, CountByRequest, CountGroup, Filter, InventoryRequest, InventoryRow,
    LaneBacklog, PauseChange, PauseRequest, PurgeRequest, Purged, Recent, RecentRequest, RouteCounts,
    SelectionRequest, Story, Waits, WaitsRequest,
};
use pillarbox_core::{AuditRecord, Entry, EventId, Result, RouteName, Status, Timestamp};

use super::super::history::Happened;
use super::Chaos;

/// Wraps an [`Admin`]: finds out which entries a change took, and writes that down.
pub(crate) struct RecordingAdmin {
    inner: Arc<dyn Admin>,
    chaos: Chaos,
}

impl RecordingAdmin {
    pub(crate) fn new(inner: Arc<dyn Admin>, chaos: Chaos) -> Self {
        Self { inner, chaos }
    }

    async fn rows(&self, statuses: &[Status]) -> Result<BTreeSet<i64>> {
        let mut rows = BTreeSet::new();
        for status in statuses {
            let filter = Filter::default().status(*status).limit(LIST_MAX);
            rows.extend(self.inner.list(filter).await?.iter().map(|entry| entry.seq));
        }
        Ok(rows)
    }

    /// Writes down which of these rows are not of these statuses any more.
    async fn record_gone(
        &self,
        before: BTreeSet<i64>,
        statuses: &[Status],
        what: fn(i64) -> Happened,
    ) -> Result<()> {
        let after = self.rows(statuses).await?;
        for seq in before.difference(&after) {
            self.chaos.record("operator", what(*seq));
        }
        Ok(())
    }
}

#[async_trait]
impl Admin for RecordingAdmin {
    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
        self.inner.counts(now).await
    }

    async fn list(&self, filter: Filter) -> Result<Vec<Entry>> {
        self.inner.list(filter).await
    }

    async fn count_by(&self, request: CountByRequest) -> Result<Vec<CountGroup>> {
        self.inner.count_by(request).await
    }

    async fn recent(&self, request: RecentRequest) -> Result<Recent> {
        self.inner.recent(request).await
    }

    async fn waits(&self, request: WaitsRequest) -> Result<Waits> {
        self.inner.waits(request).await
    }

    async fn lanes_of(&self, route: &RouteName) -> Result<Vec<LaneBacklog>> {
        self.inner.lanes_of(route).await
    }

    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>> {
        self.inner.inventory(request).await
    }

    async fn show(&self, id: EventId) -> Result<Vec<Story>> {
        self.inner.show(id).await
    }

    async fn trail(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>> {
        self.inner.trail(filter).await
    }

    async fn change(&self, request: SelectionRequest, verb: Verb) -> Result<Changed> {
        let what: fn(i64) -> Happened = match verb {
            Verb::Requeue => |seq| Happened::Requeued { seq },
            Verb::Discard => |seq| Happened::Discarded { seq },
            Verb::Hasten | Verb::Cancel => return self.inner.change(request, verb).await,
        };
        let before = self.rows(&[Status::Dead]).await?;
        let changed = self.inner.change(request, verb).await?;
        if verb == Verb::Requeue {
            let after = self.rows(&[Status::Dead]).await?;
            for seq in before.difference(&after) {
                self.chaos.lock().attempts.remove(seq);
            }
        }
        self.record_gone(before, &[Status::Dead], what).await?;
        Ok(changed)
    }

    async fn set_pause(&self, request: PauseRequest) -> Result<PauseChange> {
        self.inner.set_pause(request).await
    }

    async fn purge(&self, request: PurgeRequest) -> Result<Purged> {
        let ended = [Status::Delivered, Status::Dead, Status::Discarded];
        let before = self.rows(&ended).await?;
        let purged = self.inner.purge(request).await?;
        self.record_gone(before, &ended, |seq| Happened::Purged { seq }).await?;
        Ok(purged)
    }

    async fn purge_inbox(&self, request: PurgeRequest) -> Result<Purged> {
        self.inner.purge_inbox(request).await
    }
}
