//! The application's side: staging events in its own transaction.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use pillarbox_core::{Event, EventId, NewEntry, Result, Staged, check_name};
use pillarbox_host::{Call, Operation, Staging};

use crate::batch::batch;
use crate::commit::{Tx, commit};
use crate::driver::Transaction;
use crate::options::Options;
use crate::sql::Statements;
use crate::statement::{Value, values};
use crate::store::SqliteStore;
use crate::tables::Tables;

/// Stages events of one route inside the application's own transaction. Cheap to clone: one for each route
/// and process is enough.
///
/// The events become durable when that transaction commits, and a rollback removes them. If the future of a
/// call is dropped half-way, either all of its events are in the transaction or none.
#[derive(Clone)]
pub struct Outbox {
    pub(crate) staging: Staging,
    pub(crate) statements: Arc<Statements>,
}

/// Filled in once, so that an outbox may be made anew for each request.
static DEFAULT_STATEMENTS: LazyLock<Arc<Statements>> =
    LazyLock::new(|| Arc::new(Statements::new(Tables::new(&Options::default()))));

impl SqliteStore {
    /// The outbox of this route in the same tables. It stages in any transaction of this file.
    pub fn outbox(&self, route: impl Into<String>) -> Outbox {
        Outbox { staging: Staging::new(route), statements: Arc::clone(&self.statements) }
    }
}

impl Outbox {
    /// The outbox of this route, with default settings. If the route breaks a rule, staging refuses it.
    #[must_use]
    pub fn new(route: impl Into<String>) -> Self {
        Self { staging: Staging::new(route), statements: Arc::clone(&DEFAULT_STATEMENTS) }
    }

    /// Sets which tables to write to. Default: those of [`Options::default`].
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.statements = Arc::new(Statements::new(Tables::new(&options)));
        self
    }

    /// Stages one event in the application's transaction, of any [supported driver](Transaction).
    ///
    /// # Errors
    /// When the route or the event breaks a rule, before anything is written. Also any error of the database.
    pub fn stage<'t, T: Transaction>(&self, tx: &'t mut T, event: Event) -> T::Answer<'t, Staged> {
        let entry = self.staging.route().and_then(|route| self.staging.entry(&route, event));
        tx.run(entry.and_then(|entry| self.one(entry)))
    }

    /// Stages any number of events in one statement. The outcomes are in the order of the events.
    ///
    /// # Errors
    /// When the route or an event breaks a rule, before anything is written. Also any error of the database.
    pub fn stage_all<'t, T: Transaction>(
        &self,
        tx: &'t mut T,
        events: impl IntoIterator<Item = Event>,
    ) -> T::Answer<'t, Vec<Staged>> {
        tx.run(self.many(events))
    }

    /// Locks this key until the transaction ends. Another transaction that calls this for the same route and
    /// key waits until then, so that the events of both have an order. Without this call, two transactions
    /// that stage one key at the same time are unordered.
    ///
    /// Call it before staging. If you lock several keys, lock them in the same order everywhere, or the
    /// database may detect a deadlock. On SQLite this takes the write lock of the file, for every key. A
    /// transaction that began with `BEGIN IMMEDIATE` has that lock already.
    ///
    /// # Errors
    /// When the route or the key breaks a rule, or when the lock is not free within the busy timeout.
    pub fn serialize<'t, T: Transaction>(&self, tx: &'t mut T, key: &str) -> T::Answer<'t, ()> {
        tx.run(self.lock(key))
    }

    /// Commits the transaction, then wakes the relay of this process if there is one.
    ///
    /// # Errors
    /// [`Aborted`](pillarbox_core::ErrorKind::Aborted) when the transaction had already ended. Also any error
    /// of the database. [`Retry::Unknown`](pillarbox_core::Retry::Unknown) means that the commit may have
    /// happened.
    pub async fn commit(&self, tx: Tx<'_>) -> Result<()> {
        commit(tx).await?;
        self.staging.committed();
        Ok(())
    }

    /// One event without the detour that any number of them take.
    fn one(&self, entry: NewEntry) -> Result<Operation<Value, Staged>> {
        let id = entry.event_id;
        let call = Call::new(self.statements.stage_one.shared(), values(entry)?);
        Ok(Operation::change(call, move |changed| {
            Ok(Operation::Done(if changed.rows == 0 { Staged::Duplicate(id) } else { Staged::Fresh(id) }))
        }))
    }

    pub(crate) fn many(
        &self,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Operation<Value, Vec<Staged>>> {
        let mut entries = self.staging.entries(events)?;
        if entries.is_empty() {
            return Ok(Operation::Done(Vec::new()));
        }
        if entries.len() == 1
            && let Some(entry) = entries.pop()
        {
            return Ok(self.one(entry)?.map(|staged| vec![staged]));
        }
        let ids: Vec<EventId> = entries.iter().map(|entry| entry.event_id).collect();
        let batch = batch(&entries)?;
        let values =
            vec![Value::text(self.staging.route_text()), batch.json.into(), Value::Bytes(batch.payloads)];
        let newest = self.statements.stage_newest.shared();
        Ok(Operation::change(Call::new(self.statements.stage_many.shared(), values), move |changed| {
            let fresh: HashSet<EventId> = ids.iter().copied().collect();
            if changed.rows >= fresh.len() as u64 {
                return Ok(Operation::Done(Staged::tell(ids, fresh)));
            }
            // Having every row told back costs a quarter of staging it, and duplicates are rare: only then ask.
            let count = Value::Integer(i64::try_from(changed.rows).unwrap_or(i64::MAX));
            Ok(Operation::ask(Call::new(newest, vec![count]), |rows| {
                let fresh: Result<HashSet<EventId>> = rows.iter().map(|row| row.text(0)?.parse()).collect();
                Ok(Operation::Done(Staged::tell(ids, fresh?)))
            }))
        }))
    }

    fn lock(&self, key: &str) -> Result<Operation<Value, ()>> {
        self.staging.route()?;
        check_name("key", key)?;
        let call = Call::new(self.statements.serialize.shared(), vec![]);
        Ok(Operation::change(call, |_| Ok(Operation::Done(()))))
    }
}
