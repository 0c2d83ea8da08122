//! Transactions: what is staged in one is its own until it commits.

use std::sync::Arc;

use pillarbox_core::{Error, ErrorKind, Result};

use super::mutant::Mutant;
use super::state::{Key, Row, State, TxId};
use super::store::Shared;

/// A transaction of the in-memory store. Dropped without a commit, it is rolled back.
pub struct MemoryTx {
    shared: Arc<Shared>,
    id: TxId,
    writes: Vec<Write>,
    savepoints: Vec<usize>,
}

/// What a transaction will do at its commit.
pub(crate) struct Write {
    pub(crate) key: Key,
    /// The row to add; `None` for a mark of the inbox.
    pub(crate) row: Option<Row>,
}

impl MemoryTx {
    pub(crate) fn begin(shared: &Arc<Shared>) -> Self {
        let id = shared.lock().next_tx();
        Self { shared: Arc::clone(shared), id, writes: Vec::new(), savepoints: Vec::new() }
    }

    /// Makes everything of this transaction visible at once.
    pub fn commit(mut self) {
        let writes = std::mem::take(&mut self.writes);
        let mut state = self.shared.lock();
        for write in writes {
            state.reserved.remove(&write.key);
            state.taken.insert(write.key);
            if let Some(row) = write.row {
                state.rows.insert(row.entry.seq, row);
            }
        }
        drop(state);
        self.shared.ended.notify_waiters();
    }

    /// Forgets everything of this transaction.
    pub fn rollback(self) {
        drop(self);
    }

    /// Sets a savepoint; they nest.
    pub fn savepoint(&mut self) {
        self.savepoints.push(self.writes.len());
    }

    /// Takes back what was written since the last savepoint, and forgets that savepoint. Without one, everything.
    pub fn rollback_to_savepoint(&mut self) {
        let keep = self.savepoints.pop().unwrap_or(0);
        self.undo(keep);
    }

    fn undo(&mut self, keep: usize) {
        let undone = self.writes.split_off(keep.min(self.writes.len()));
        if undone.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        for write in undone {
            state.reserved.remove(&write.key);
            if let (Some(row), true) = (write.row, state.is(Mutant::RollbackLeaks)) {
                state.rows.insert(row.entry.seq, row);
            }
        }
        drop(state);
        self.shared.ended.notify_waiters();
    }

    /// Whether this transaction is of that store.
    pub(crate) fn check_store(&self, shared: &Arc<Shared>) -> Result<()> {
        if Arc::ptr_eq(&self.shared, shared) {
            return Ok(());
        }
        Err(Error::invalid("this transaction belongs to another store"))
    }

    /// Whether a key can be written now, or is there already. Where another open transaction has it, waits for the
    /// end of that one, as a unique index does; a circle of waits is an error, as a deadlock is.
    ///
    /// `write` runs under the lock once no key is in other hands, and says what to write. Nothing is written
    /// before that, so that a call dropped while it waits has done nothing.
    pub(crate) async fn write<T>(
        &mut self,
        keys: &[Key],
        write: impl FnOnce(&mut State, &dyn Fn(&State, &Key) -> bool) -> (Vec<Write>, T) + Send,
    ) -> Result<T> {
        let shared = Arc::clone(&self.shared);
        loop {
            let ended = shared.ended.notified();
            tokio::pin!(ended);
            // Listening begins before the look at the state, so that no end is missed in between.
            ended.as_mut().enable();
            {
                let mut state = shared.lock();
                let other =
                    keys.iter().filter_map(|key| state.reserved.get(key)).find(|owner| **owner != self.id);
                match other.copied() {
                    None => {
                        let exists = |state: &State, key: &Key| {
                            state.taken.contains(key) || state.reserved.contains_key(key)
                        };
                        let (writes, answer) = write(&mut state, &exists);
                        for write in &writes {
                            state.reserved.insert(write.key.clone(), self.id);
                        }
                        drop(state);
                        self.writes.extend(writes);
                        return Ok(answer);
                    }
                    Some(other) if state.would_deadlock(self.id, other) => {
                        return Err(Error::new(
                            ErrorKind::Contention,
                            "two transactions wait for each other",
                        ));
                    }
                    Some(other) => {
                        state.waiting.insert(self.id, other);
                    }
                }
            }
            let waits = Waits { shared: &shared, tx: self.id };
            ended.await;
            drop(waits);
        }
    }
}

impl Drop for MemoryTx {
    fn drop(&mut self) {
        self.undo(0);
    }
}

/// Ends the wait also when the waiting future is dropped.
struct Waits<'a> {
    shared: &'a Shared,
    tx: TxId,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.shared.lock().waiting.remove(&self.tx);
    }
}
