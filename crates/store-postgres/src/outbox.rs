//! Staging: events inside the application's own transaction.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use pillarbox_core::{EventId, NewEntry, Result, Staged, check_name};
use pillarbox_host::{Call, Operation, Staging, outbox_calls};

use crate::batch::StageBatch;
use crate::commit::{Tx, commit};
use crate::driver::Transaction;
use crate::lean;
use crate::options::{Mode, Options};
use crate::sql::{Sql, Staging as Statements};
use crate::statement::{Value, values};
use crate::store::PostgresStore;
use crate::tables::Tables;

/// Filled in once, so that an outbox may be made anew for each request.
static DEFAULT_STATEMENTS: LazyLock<Arc<Statements>> =
    LazyLock::new(|| Arc::new(Statements::new(Tables::new(&Options::default()))));

/// Stages events of one route inside the application's own transaction. Cheap to clone.
///
/// Staging commits nothing: an event becomes durable when the application's transaction commits, and a
/// rollback removes it. Staging is one statement, however many events there are. If its future is dropped
/// half-way, either all of the events are in the transaction or none.
#[derive(Clone)]
pub struct Outbox {
    pub(crate) staging: Staging,
    pub(crate) statements: Arc<Statements>,
    pub(crate) mode: Mode,
}

impl PostgresStore {
    /// The outbox of this route in the same tables. It stages in any transaction of this database.
    pub fn outbox(&self, route: impl Into<String>) -> Outbox {
        Outbox { staging: Staging::new(route), statements: Arc::clone(self.staging()), mode: self.mode() }
    }
}

impl Outbox {
    /// The outbox of this route, in the default tables. If the route breaks a rule, staging refuses it.
    pub fn new(route: impl Into<String>) -> Self {
        let statements = Arc::clone(&DEFAULT_STATEMENTS);
        Self { staging: Staging::new(route), statements, mode: Mode::Direct }
    }

    /// Sets which tables to write to, and whether the application's connections go through a transaction
    /// pooler. With [`Mode::Pooled`] staging leaves no prepared statement in a session.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.statements = Arc::new(Statements::new(Tables::new(&options)));
        self.mode = options.mode.unwrap_or(Mode::Direct);
        self
    }
}

outbox_calls! {
    impl Outbox {
        /// # Errors
        /// When the event is out of bounds, before anything is written. When the database fails: the transaction
        /// should then be rolled back.
        stage;

        /// # Errors
        /// As for [`stage`](Self::stage). Then none of the events is staged.
        stage_all;

        /// Call it before staging. If you lock several keys, lock them in the same order everywhere, or the
        /// database may detect a deadlock.
        ///
        /// # Errors
        /// When the route or the key breaks a rule, or when the database fails.
        serialize;

        /// `Ok` means that the transaction is committed. The driver's own `commit` does not promise that. If a
        /// statement of the transaction had failed, it returns `Ok` too, although PostgreSQL has rolled
        /// everything back. This check costs one round trip more than the driver's `commit`.
        ///
        /// # Errors
        /// [`Aborted`](pillarbox_core::ErrorKind::Aborted) when a statement of the transaction had failed or had
        /// ended the transaction: this call committed nothing. Also when the commit fails.
        /// [`Retry::Unknown`](pillarbox_core::Retry::Unknown) means that the answer to the commit was lost. To
        /// find out whether it committed, stage the same event ids again.
        commit;
    }
}

impl Outbox {
    fn one(&self, entry: NewEntry) -> Result<Operation<Value, Staged>> {
        let id = entry.event_id;
        let call = if entry.event.id.is_some() {
            self.call(&self.statements.stage_one, values(entry)?)
        } else if lean::is_lean(&entry) {
            self.call(&self.statements.stage_lean, lean::values(entry)?)
        } else {
            self.call(&self.statements.stage_fresh, values(entry)?)
        };
        Ok(Operation::change(call, move |changed| {
            Ok(Operation::Done(if changed.rows == 0 { Staged::Duplicate(id) } else { Staged::Fresh(id) }))
        }))
    }

    fn several(&self, entries: Vec<NewEntry>) -> Result<Operation<Value, Vec<Staged>>> {
        let ids: Vec<EventId> = entries.iter().map(|entry| entry.event_id).collect();
        let mut batch = StageBatch::default();
        entries.into_iter().try_for_each(|entry| batch.push(entry))?;
        let call = self.call(&self.statements.stage_many, batch.values(self.staging.route_text()));
        Ok(Operation::ask(call, |rows| {
            let fresh: Result<HashSet<EventId>> = rows.iter().map(|row| row.text(0)?.parse()).collect();
            Ok(Operation::Done(Staged::tell(ids, fresh?)))
        }))
    }

    fn lock(&self, key: &str) -> Result<Operation<Value, ()>> {
        let route = self.staging.route()?;
        check_name("key", key)?;
        let call = self.call(&self.statements.serialize, vec![Value::text(route), Value::text(key)]);
        Ok(Operation::change(call, |_| Ok(Operation::Done(()))))
    }

    pub(crate) fn call(&self, sql: &Sql, values: Vec<Value>) -> Call<Value> {
        Call::new(sql.shared(), values).keep(self.mode == Mode::Direct)
    }
}
