//! The application's side: staging events in its own transaction.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use pillarbox_core::{EventId, NewEntry, Result, Staged, check_name};
use pillarbox_host::{Call, Operation, Staging, outbox_calls};

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

outbox_calls! {
    impl Outbox {
        new;

        options;

        /// # Errors
        /// When the route or the event breaks a rule, before anything is written. Also any error of the database.
        stage;

        /// # Errors
        /// When the route or an event breaks a rule, before anything is written. Also any error of the database.
        stage_all;

        /// Call it before staging. If you lock several keys, lock them in the same order everywhere, or the
        /// database may detect a deadlock. On SQLite this takes the write lock of the file, for every key. A
        /// transaction that began with `BEGIN IMMEDIATE` has that lock already.
        ///
        /// # Errors
        /// When the route or the key breaks a rule, or when the lock is not free within the busy timeout.
        serialize;

        /// # Errors
        /// [`Aborted`](pillarbox_core::ErrorKind::Aborted) when the transaction had already ended. Also any error
        /// of the database. [`Retry::Unknown`](pillarbox_core::Retry::Unknown) means that the commit may have
        /// happened.
        commit;
    }
}

impl Outbox {
    /// One event without the detour that any number of them take.
    fn one(&self, entry: NewEntry) -> Result<Operation<Value, Staged>> {
        let id = entry.event_id;
        let call = Call::new(self.statements.stage_one.shared(), values(entry)?);
        Ok(Operation::change(call, move |changed| {
            Ok(Operation::Done(if changed.rows == 0 { Staged::Duplicate(id) } else { Staged::Fresh(id) }))
        }))
    }

    fn several(&self, entries: Vec<NewEntry>) -> Result<Operation<Value, Vec<Staged>>> {
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
