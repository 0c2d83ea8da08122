//! Staging: events inside the application's own transaction.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use pillarbox_core::{Event, EventId, Result, Staged, check_name};
use pillarbox_host::{Call, Operation, Staging};

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

    /// Stages one event in the application's transaction, of any [supported driver](Transaction).
    ///
    /// # Errors
    /// When the event is out of bounds, before anything is written. When the database fails: the transaction
    /// should then be rolled back.
    pub fn stage<'t, T: Transaction>(&self, tx: &'t mut T, event: Event) -> T::Answer<'t, Staged> {
        tx.run(self.one(event))
    }

    /// Stages any number of events in one statement. The outcomes are in the order of the events. Without
    /// events it does nothing.
    ///
    /// # Errors
    /// As for [`stage`](Self::stage). Then none of the events is staged.
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
    /// database may detect a deadlock.
    ///
    /// # Errors
    /// When the route or the key breaks a rule, or when the database fails.
    pub fn serialize<'t, T: Transaction>(&self, tx: &'t mut T, key: &str) -> T::Answer<'t, ()> {
        tx.run(self.lock(key))
    }

    /// Commits the transaction and wakes the relay of this process.
    ///
    /// `Ok` means that the transaction is committed. The driver's own `commit` does not promise that. If a
    /// statement of the transaction had failed, it returns `Ok` too, although PostgreSQL has rolled
    /// everything back. This check costs one round trip more than the driver's `commit`.
    ///
    /// # Errors
    /// [`Aborted`](pillarbox_core::ErrorKind::Aborted) when a statement of the transaction had failed or had
    /// ended the transaction: this call committed nothing. Also when the commit fails.
    /// [`Retry::Unknown`](pillarbox_core::Retry::Unknown) means that the answer to the commit was lost. To
    /// find out whether it committed, stage the same event ids again.
    pub async fn commit(&self, tx: Tx<'_>) -> Result<()> {
        commit(tx).await?;
        self.staging.committed();
        Ok(())
    }

    fn one(&self, event: Event) -> Result<Operation<Value, Staged>> {
        let known = event.id.is_some();
        let entry = self.staging.entry(&self.staging.route()?, event)?;
        let id = entry.event_id;
        let call = if known {
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

    pub(crate) fn many(
        &self,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Operation<Value, Vec<Staged>>> {
        let mut events: Vec<Event> = events.into_iter().collect();
        // One alone costs half as much by its own statement.
        if events.len() == 1
            && let Some(event) = events.pop()
        {
            return Ok(self.one(event)?.map(|staged| vec![staged]));
        }
        let route = self.staging.route()?;
        let mut batch = StageBatch::default();
        let mut ids = Vec::with_capacity(events.len());
        for event in events {
            let entry = self.staging.entry(&route, event)?;
            ids.push(entry.event_id);
            batch.push(entry)?;
        }
        if ids.is_empty() {
            return Ok(Operation::Done(vec![]));
        }
        let call = self.call(&self.statements.stage_many, batch.values(route.as_str()));
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
