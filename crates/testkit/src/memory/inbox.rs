//! Accepting in memory, and forgetting by age.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{
    AcceptRequest, Accepted, Effect, Inbox, Origin, PurgeRequest, Purged, Transactions,
};
use pillarbox_core::{AuditKind, Result, Timestamp};

use super::state::{Key, State};
use super::store::{MemoryStore, Shared};
use super::tx::{MemoryTx, Write};

/// Marks events as seen, in transactions of a [`MemoryStore`].
pub struct MemoryInbox {
    shared: Arc<Shared>,
}

impl MemoryInbox {
    /// The inbox of this store.
    #[must_use]
    pub fn new(store: &MemoryStore) -> Self {
        Self { shared: Arc::clone(&store.shared) }
    }
}

#[async_trait]
impl Inbox<MemoryTx> for MemoryInbox {
    async fn accept(&self, tx: &mut MemoryTx, request: AcceptRequest) -> Result<Accepted> {
        request.check()?;
        tx.check_store(&self.shared)?;
        let now = self.shared.now(request.now);
        let AcceptRequest { consumer, event_id, origin, .. } = request;
        let known = origin.as_ref().and_then(|own| tx.newest_owner(&consumer, &own.lane));
        let stale = origin.as_ref().zip(known.as_ref()).is_some_and(|(own, newest)| own.is_stale(newest));
        let newer = origin.filter(|own| own.is_newer(known.as_ref()));
        let key = Key::Accepted(consumer.clone(), event_id);
        tx.write(std::slice::from_ref(&key), |state, exists| {
            // Also for a duplicate: what a new owner publishes first is what the last one may have published already.
            let mut writes: Vec<Write> =
                newer.map(|origin| Write::Fence(consumer, origin, now)).into_iter().collect();
            if exists(state, &key) {
                return (writes, Accepted::Duplicate);
            }
            if stale {
                return (writes, Accepted::Stale);
            }
            writes.push(Write::Mark(key.clone(), now));
            (writes, Accepted::Fresh)
        })
        .await
    }
}

impl State {
    /// Remembers an owner of a lane, never an earlier one.
    pub(crate) fn remember(&mut self, consumer: String, origin: Origin, at: Timestamp) {
        let known =
            self.fences.entry((consumer, origin.lane.clone())).or_insert_with(|| (origin.clone(), at));
        if origin.is_newer(Some(&known.0)) {
            *known = (origin, at);
        }
    }

    /// Deletes marks by age, and with them lanes of which nothing new was seen for as long.
    pub(crate) fn purge_inbox(&mut self, request: &PurgeRequest, now: Timestamp) -> Result<Purged> {
        let before = now.saturating_sub(request.older_than);
        let mut old: Vec<(Timestamp, Key)> = self
            .accepted_at
            .iter()
            .filter(|(_, at)| **at <= before)
            .map(|(key, at)| (*at, key.clone()))
            .collect();
        old.sort();
        old.truncate(usize::try_from(request.limit).unwrap_or(usize::MAX));
        let purged = Purged { purged: old.len() as u64 };
        if request.effect == Effect::DryRun || old.is_empty() {
            return Ok(purged);
        }
        self.check_audit(true)?;
        self.record(now, AuditKind::InboxPurged, &request.actor, None, old.len().to_string());
        for (_, key) in old {
            self.accepted_at.remove(&key);
            self.taken.remove(&key);
        }
        self.fences.retain(|_, (_, at)| *at > before);
        Ok(purged)
    }
}

#[async_trait]
impl Transactions for MemoryInbox {
    type Tx = MemoryTx;

    async fn begin(&self) -> Result<MemoryTx> {
        Ok(MemoryTx::begin(&self.shared))
    }

    async fn commit(&self, tx: MemoryTx) -> Result<()> {
        tx.check_store(&self.shared)?;
        tx.commit_with(|_| Ok(Some(()))).map(|_| ())
    }

    async fn rollback(&self, tx: MemoryTx) -> Result<()> {
        tx.rollback();
        Ok(())
    }
}
