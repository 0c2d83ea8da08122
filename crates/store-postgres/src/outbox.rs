//! Staging: events inside the application's own transaction.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use pillarbox_core::{Event, EventId, NewEntry, Result, Staged, check_name};
use pillarbox_host::Staging;
use sqlx::Row;
use sqlx::postgres::PgArguments;

use crate::batch::StageBatch;
use crate::bind::Bind;
use crate::commit::{Tx, commit};
use crate::error::{Phase, classify};
use crate::lean;
use crate::options::{Mode, Options};
use crate::sql::Staging as Statements;
use crate::statement::{NUMBERS, Param, Statement, params};
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

    /// Stages one event.
    ///
    /// # Errors
    /// When the event is out of bounds, before anything is written. When the database fails: the transaction
    /// should then be rolled back.
    pub async fn stage(&self, tx: &mut Tx<'_>, event: Event) -> Result<Staged> {
        let known = event.id.is_some();
        let entry = self.staging.entry(&self.staging.route()?, event)?;
        let id = entry.event_id;
        let (sql, values) = if known {
            (&self.statements.stage_one, bind_all(entry)?)
        } else if lean::is_lean(&entry) {
            (&self.statements.stage_lean, lean::values(&entry)?)
        } else {
            (&self.statements.stage_fresh, bind_all(entry)?)
        };
        let query = sql.with(values).persistent(self.mode == Mode::Direct);
        let done = query.execute(&mut **tx).await.map_err(|error| classify(error, Phase::Application))?;
        Ok(if done.rows_affected() == 0 { Staged::Duplicate(id) } else { Staged::Fresh(id) })
    }

    /// Stages any number of events in one statement. The outcomes are in the order of the events. Without
    /// events it does nothing.
    ///
    /// # Errors
    /// As for [`stage`](Self::stage). Then none of the events is staged.
    pub async fn stage_all(
        &self,
        tx: &mut Tx<'_>,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Vec<Staged>> {
        let mut events: Vec<Event> = events.into_iter().collect();
        // One alone costs half as much by its own statement.
        if events.len() == 1
            && let Some(event) = events.pop()
        {
            return Ok(vec![self.stage(tx, event).await?]);
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
            return Ok(vec![]);
        }
        let many = self.statements.stage_many.with(batch.bind(route.as_str())?);
        let query = many.persistent(self.mode == Mode::Direct);
        let rows = query.fetch_all(&mut **tx).await.map_err(|error| classify(error, Phase::Application))?;
        let fresh: sqlx::Result<HashSet<EventId>> =
            rows.iter().map(|row| row.try_get(0).map(EventId)).collect();
        Ok(Staged::tell(ids, fresh.map_err(|error| classify(error, Phase::Application))?))
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
    pub async fn serialize(&self, tx: &mut Tx<'_>, key: &str) -> Result<()> {
        let route = self.staging.route()?;
        check_name("key", key)?;
        let bind = Bind::new().text(route.as_str()).text(key).done()?;
        let query = self.statements.serialize.with(bind).persistent(self.mode == Mode::Direct);
        query.execute(&mut **tx).await.map(|_| ()).map_err(|error| classify(error, Phase::Application))
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

    /// The statement that stages this event, for use with any other driver.
    ///
    /// # Errors
    /// When the event is out of bounds.
    pub fn statement(&self, event: Event) -> Result<Statement> {
        let entry = self.staging.entry(&self.staging.route()?, event)?;
        Ok(Statement::new(self.statements.stage_one.as_str(), params(entry)?))
    }
}

/// The values of `stage_one.sql` and `stage_fresh.sql`, in their order.
fn bind_all(entry: NewEntry) -> Result<PgArguments> {
    let params = params(entry)?.into_iter().enumerate();
    let bind = params.fold(Bind::new(), |bind, (place, param)| match param {
        // What is not there has a type as well: the prepared statement is kept for what will be there.
        Param::Null if place >= NUMBERS => bind.value(None::<i64>),
        Param::Null => bind.value(None::<&str>),
        Param::Text(text) => bind.value(text),
        Param::Integer(number) => bind.value(number),
        Param::Bytes(bytes) => bind.value(bytes),
        _ => bind.refuse(),
    });
    bind.done()
}
