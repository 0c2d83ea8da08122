//! The in-memory store under its own conformance suite.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use pillarbox_core::port::{Presence, SagaHooks, Sagas};
use pillarbox_core::{
    CONTENT_TYPE_DEFAULT, Event, EventLimits, Headers, NewEntry, RouteName, Status, Timestamp,
};

use super::inbox::MemoryInbox;
use super::mutant::Mutant;
use super::outbox::{MemoryOutbox, row_of};
use super::state::{Key, Row, State};
use super::store::MemoryStore;
use super::tx::MemoryTx;
use crate::conformance::{Ruin, SagaHarness, StoreHarness, Tamper};

/// Runs the conformance suite on the in-memory store; also an example of a harness.
pub struct MemoryHarness {
    store: MemoryStore,
}

impl MemoryHarness {
    /// A harness over a store with a planted defect.
    #[doc(hidden)]
    #[must_use]
    pub fn with_mutant(mutant: Mutant) -> Self {
        Self { store: MemoryStore::new().with_mutant(mutant) }
    }

    /// As a plain INSERT does: no stamp, and everything else by default.
    fn stage_plain(&self, state: &mut State, route: &str, event: Event) -> bool {
        let now = self.store.shared.clock.now();
        let Ok(route) = RouteName::new(route) else { return false };
        let stamp = self.store.shared.stamps.now();
        let fresh_id = state.fresh_id(now);
        let event = event.content_type(CONTENT_TYPE_DEFAULT);
        let new = NewEntry::new(&route, event, fresh_id, stamp, &EventLimits::default());
        let Ok(new) = new else { return false };
        let seq = state.next_seq();
        state.taken.insert(Key::Staged(new.route.clone(), new.event_id));
        let mut entry = row_of(new, seq, now);
        entry.hlc = None;
        state.rows.insert(seq, Row::new(entry));
        true
    }
}

#[async_trait]
impl StoreHarness for MemoryHarness {
    type Tx = MemoryTx;
    type Outbox = MemoryOutbox;
    type Inbox = MemoryInbox;
    type Store = MemoryStore;

    const NAME: &'static str = "memory";

    async fn start() -> Self {
        Self { store: MemoryStore::new() }
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
        self.store.shared.database_now()
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
        let mut state = self.store.shared.lock();
        match tamper {
            Tamper::FailAudit => state.audit_fails = true,
            Tamper::RepairAudit => state.audit_fails = false,
            Tamper::SpoilHeaders(id) => {
                for row in state.rows.values_mut().filter(|row| row.entry.event_id == id) {
                    row.entry.headers = Headers::new();
                    row.spoiled = true;
                }
            }
            Tamper::DeleteEntry(id) => {
                for seq in seqs(&state, id) {
                    state.remove(seq);
                }
            }
            Tamper::ForgetLeaseEnd(id) => {
                for row in state.rows.values_mut().filter(|row| row.entry.event_id == id) {
                    row.entry.status = Status::InFlight;
                    row.entry.due_at = None;
                }
            }
            Tamper::LockEntry(id) => {
                let seqs = seqs(&state, id);
                state.locked.extend(seqs);
            }
            Tamper::UnlockEntries => state.locked.clear(),
            Tamper::StagePlain { route, event_type, payload } => {
                return self.stage_plain(&mut state, &route, Event::new(event_type, payload));
            }
            Tamper::StageText { route, event_type, payload } => {
                return self.stage_plain(&mut state, &route, Event::new(event_type, payload));
            }
            Tamper::StageKeyed { route, event_type, key, payload } => {
                return self.stage_plain(&mut state, &route, Event::new(event_type, payload).key(key));
            }
            Tamper::AdvanceClock(by) => {
                let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
                self.store.shared.ahead_micros.fetch_add(micros, Ordering::Relaxed);
            }
            // There are no columns to take away or to get wrong.
            Tamper::DropColumn | Tamper::StageWrong { .. } => return false,
        }
        true
    }
}

impl SagaHarness for MemoryHarness {
    fn sagas(&self, hooks: SagaHooks<MemoryTx>) -> Arc<dyn Sagas> {
        Arc::new(self.store.sagas().hooks(hooks))
    }
}

fn seqs(state: &State, id: pillarbox_core::EventId) -> Vec<i64> {
    state.rows.iter().filter(|(_, row)| row.entry.event_id == id).map(|(seq, _)| *seq).collect()
}
