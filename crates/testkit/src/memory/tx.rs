//! Transactions: what is staged in one is its own until it commits.

use std::sync::Arc;

use pillarbox_core::port::Origin;
use pillarbox_core::{Error, ErrorKind, Result, SagaColumns, Timestamp};

use super::mutant::Mutant;
use super::saga::subject_of;
use super::state::{Key, Row, State, TxId};
use super::store::Shared;

/// A transaction of the store in memory. If it is dropped without a commit, it is rolled back.
pub struct MemoryTx {
    shared: Arc<Shared>,
    id: TxId,
    writes: Vec<Write>,
    savepoints: Vec<usize>,
    aborted: bool,
}

/// What a transaction will do at its commit.
pub(crate) enum Write {
    /// Adds an entry.
    Row(Key, Box<Row>),
    /// Marks an event as seen.
    Mark(Key, Timestamp),
    /// Adds a saga.
    Saga(Key, Box<SagaColumns>),
    /// Holds a key until the end of the transaction.
    Reserve(Key),
    /// Remembers an owner of a lane for a consumer. It reserves nothing: of two the newer one stays.
    Fence(String, Origin, Timestamp),
}

impl Write {
    fn key(&self) -> Option<&Key> {
        match self {
            Self::Row(key, _) | Self::Mark(key, _) | Self::Saga(key, _) | Self::Reserve(key) => Some(key),
            Self::Fence(..) => None,
        }
    }
}

impl MemoryTx {
    pub(crate) fn begin(shared: &Arc<Shared>) -> Self {
        let id = shared.lock().next_tx();
        Self { shared: Arc::clone(shared), id, writes: Vec::new(), savepoints: Vec::new(), aborted: false }
    }

    /// Makes all writes of this transaction visible at once. If the transaction was [aborted](Self::abort),
    /// it makes none visible.
    pub fn commit(self) {
        // Nothing is asked of the state, so nothing else can be refused.
        let _ = self.commit_with(|_| Ok(Some(())));
    }

    /// Commits together with a change of the state, unless that fails or says `None`: then everything is rolled back.
    pub(crate) fn commit_with<T>(
        mut self,
        change: impl FnOnce(&mut State) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.check_open()?;
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let changed = change(&mut state);
        if !matches!(changed, Ok(Some(_))) {
            drop(state);
            return changed;
        }
        let writes = std::mem::take(&mut self.writes);
        for write in writes {
            if let Some(key) = write.key() {
                state.reserved.remove(key);
                state.taken.insert(key.clone());
            }
            match write {
                Write::Row(_, row) => drop(state.rows.insert(row.entry.seq, *row)),
                Write::Mark(key, at) => drop(state.accepted_at.insert(key, at)),
                Write::Saga(key, saga) => {
                    if let Key::Saga(id) = key {
                        state.sagas.insert(id, *saga);
                    }
                }
                Write::Reserve(_) => {}
                Write::Fence(consumer, origin, at) => state.remember(consumer, origin, at),
            }
        }
        drop(state);
        self.shared.ended.notify_waiters();
        changed
    }

    /// How many sagas of this subject this transaction has staged.
    pub(crate) fn sagas_of(&self, subject: &Key) -> u32 {
        let of = |write: &&Write| matches!(write, Write::Saga(_, saga) if subject_of(saga) == *subject);
        u32::try_from(self.writes.iter().filter(of).count()).unwrap_or(u32::MAX)
    }

    /// Discards all writes of this transaction.
    pub fn rollback(self) {
        drop(self);
    }

    /// Aborts this transaction, as a database does when a statement in it fails. All of its writes are
    /// discarded, and later writes fail. An inbox or a saga that commits it gets an error.
    pub fn abort(&mut self) {
        self.undo(0);
        self.aborted = true;
    }

    /// Sets a savepoint. Savepoints can be nested.
    pub fn savepoint(&mut self) {
        self.savepoints.push(self.writes.len());
    }

    /// Discards the writes since the last savepoint, and that savepoint. Without a savepoint, all writes are
    /// discarded.
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
            write.key().map(|key| state.reserved.remove(key));
            if let (Write::Row(_, row), true) = (write, state.is(Mutant::RollbackLeaks)) {
                state.rows.insert(row.entry.seq, *row);
            }
        }
        drop(state);
        self.shared.ended.notify_waiters();
    }

    fn check_open(&self) -> Result<()> {
        if self.aborted {
            return Err(Error::new(ErrorKind::Aborted, "the transaction was aborted; nothing was committed"));
        }
        Ok(())
    }

    /// Whether this transaction is of that store.
    pub(crate) fn check_store(&self, shared: &Arc<Shared>) -> Result<()> {
        if Arc::ptr_eq(&self.shared, shared) {
            return Ok(());
        }
        Err(Error::invalid("this transaction belongs to another store"))
    }

    /// The newest owner of a lane that a consumer has seen, in this transaction or before it.
    pub(crate) fn newest_owner(&self, consumer: &str, lane: &str) -> Option<Origin> {
        let own = self.writes.iter().rev().find_map(|write| match write {
            Write::Fence(by, origin, _) if by == consumer && origin.lane == lane => Some(origin.clone()),
            _ => None,
        });
        own.or_else(|| {
            let state = self.shared.lock();
            state.fences.get(&(consumer.to_owned(), lane.to_owned())).map(|(origin, _)| origin.clone())
        })
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
        self.check_open()?;
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
                        let written = writes.iter().filter_map(Write::key);
                        state.reserved.extend(written.map(|key| (key.clone(), self.id)));
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
