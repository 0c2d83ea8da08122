//! What is in flight: batches, and where each claim is in them.

use std::collections::BTreeMap;

use pillarbox_core::port::Death;
use pillarbox_core::{Entry, Failure, Held};

use crate::seqs::HeldMap;

use super::super::batch::{Batch, BatchId};

/// Everything that was claimed and is not concluded.
///
/// **Invariant:** a claim is in `places` from its answer until its verdict is recorded, refused as fenced, or left to its
/// lease.
#[derive(Default)]
pub(super) struct Flight {
    pub(super) batches: BTreeMap<BatchId, Batch>,
    /// Where each claim is. By fence as well as by row: an entry whose lease ended while we were at it may come back
    /// to us under a new claim, and the end of the old one must not be taken for the end of the new one.
    pub(super) places: HeldMap<(BatchId, usize)>,
    /// Claimed rows that no sink will see, to be told of once they are dead.
    undecodable: BTreeMap<Held, Death>,
    pub(super) bytes: usize,
    next: BatchId,
}

impl Flight {
    /// Takes a batch in, with its claims.
    pub(super) fn add(&mut self, batch: Batch) -> BatchId {
        let id = self.next;
        self.next += 1;
        self.bytes += batch.bytes;
        for (index, entry) in batch.entries.iter().enumerate() {
            self.places.insert(entry.held(), (id, index));
        }
        self.batches.insert(id, batch);
        id
    }

    /// Takes a row in that no sink will see: a batch without entries. `death` reports it, if its id is known.
    pub(super) fn add_undecodable(&mut self, held: Held, batch: Batch, death: Option<Death>) {
        let id = self.add(Batch { unsettled: 1, ..batch });
        self.places.insert(held, (id, 0));
        if let Some(death) = death {
            self.undecodable.insert(held, death);
        }
    }

    /// The entry of a claim. A row that no sink will see has none.
    pub(super) fn entry(&self, held: Held) -> Option<&Entry> {
        let (id, index) = self.places.get(&held)?;
        self.batches.get(id)?.entries.get(*index)
    }

    /// The report of a claim that is dead.
    pub(super) fn death_of(&mut self, held: Held, failure: Failure) -> Option<Death> {
        if let Some(death) = self.undecodable.remove(&held) {
            return Some(death);
        }
        let entry = self.entry(held)?;
        Some(Death {
            event_id: entry.event_id,
            route: entry.route.clone(),
            event_type: entry.event_type.clone(),
            attempts: entry.attempts,
            failure,
        })
    }

    /// The claim is no longer ours to settle.
    pub(super) fn forget(&mut self, held: Held) {
        self.undecodable.remove(&held);
        let Some((id, _)) = self.places.remove(&held) else { return };
        let Some(batch) = self.batches.get_mut(&id) else { return };
        batch.unsettled = batch.unsettled.saturating_sub(1);
        if batch.unsettled == 0 && batch.delivering.is_none() {
            self.drop_batch(id);
        }
    }

    pub(super) fn drop_batch(&mut self, id: BatchId) {
        if let Some(batch) = self.batches.remove(&id) {
            self.bytes = self.bytes.saturating_sub(batch.bytes);
        }
    }
}
