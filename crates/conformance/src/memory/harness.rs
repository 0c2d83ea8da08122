//! The in-memory store under its own conformance suite.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{Presence, SagaHooks, Sagas};
use pillarbox_core::{Event, Timestamp};
use pillarbox_testkit::{MemoryInbox, MemoryOutbox, MemoryStore, MemoryTx, Mutant};

use crate::{Ruin, SagaHarness, StoreHarness, Tamper};

/// Runs the conformance suite on the store in memory. It is also an example of a harness.
///
/// With `OPEN`, the store reads lanes as on MySQL and MongoDB: [`MemoryStore::with_open_cursor`].
pub struct MemoryHarness<const OPEN: bool = false> {
    store: MemoryStore,
}

impl MemoryHarness {
    /// A harness over a store with a planted defect.
    #[doc(hidden)]
    #[must_use]
    pub fn with_mutant(mutant: Mutant) -> Self {
        Self { store: MemoryStore::new().with_mutant(mutant) }
    }
}

#[async_trait]
impl<const OPEN: bool> StoreHarness for MemoryHarness<OPEN> {
    type Tx = MemoryTx;
    type Outbox = MemoryOutbox;
    type Inbox = MemoryInbox;
    type Store = MemoryStore;

    const NAME: &'static str = if OPEN { "memory with an open cursor" } else { "memory" };

    async fn start() -> Self {
        let store = MemoryStore::new();
        Self { store: if OPEN { store.with_open_cursor() } else { store } }
    }

    fn store(&self) -> Arc<MemoryStore> {
        Arc::new(self.store.clone())
    }

    fn presence(&self) -> Option<Arc<dyn Presence>> {
        Some(self.store())
    }

    fn outbox(&self, route: &str) -> MemoryOutbox {
        MemoryOutbox::new(&self.store, route)
    }

    fn inbox(&self) -> MemoryInbox {
        MemoryInbox::new(&self.store)
    }

    async fn now(&self) -> Timestamp {
        self.store.now()
    }

    async fn begin(&self) -> MemoryTx {
        self.store.begin()
    }

    async fn commit(&self, tx: MemoryTx) {
        tx.commit();
    }

    async fn rollback(&self, tx: MemoryTx) {
        tx.rollback();
    }

    async fn savepoint(&self, tx: &mut MemoryTx) {
        tx.savepoint();
    }

    async fn rollback_to_savepoint(&self, tx: &mut MemoryTx) {
        tx.rollback_to_savepoint();
    }

    async fn ruin(tx: &mut MemoryTx, how: Ruin) -> bool {
        // There is no connection.
        if how == Ruin::BrokenConnection {
            return false;
        }
        tx.abort();
        true
    }

    async fn tamper(&self, tamper: Tamper) -> bool {
        let store = &self.store;
        match tamper {
            Tamper::FailAudit => store.fail_audit(),
            Tamper::RepairAudit => store.repair_audit(),
            Tamper::SpoilHeaders(id) => store.spoil_headers(id),
            Tamper::DeleteEntry(id) => store.delete_entry(id),
            Tamper::ForgetLeaseEnd(id) => store.forget_lease_end(id),
            Tamper::LockEntry(id) => store.lock_entry(id),
            Tamper::UnlockEntries => store.unlock_entries(),
            Tamper::StagePlain { route, event_type, payload } => {
                return store.stage_plain(&route, Event::new(event_type, payload));
            }
            Tamper::StageText { route, event_type, payload } => {
                return store.stage_plain(&route, Event::new(event_type, payload));
            }
            Tamper::StageKeyed { route, event_type, key, payload } => {
                return store.stage_plain(&route, Event::new(event_type, payload).key(key));
            }
            Tamper::AdvanceClock(by) => store.advance_clock(by),
            // There are no columns to take away or to get wrong.
            Tamper::DropColumn | Tamper::StageWrong { .. } => return false,
        }
        true
    }
}

impl<const OPEN: bool> SagaHarness for MemoryHarness<OPEN> {
    fn sagas(&self, hooks: SagaHooks<MemoryTx>) -> Arc<dyn Sagas> {
        Arc::new(self.store.sagas().hooks(hooks))
    }
}
