//! The application's side: staging events in its own transaction.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use pillarbox_core::port::shared::Columns;
use pillarbox_core::{Error, Event, EventId, NewEntry, Result, Staged, check_name};
use pillarbox_host::Staging;
use sqlx::SqliteConnection;

use crate::batch::batch;
use crate::bind::Bind;
use crate::commit::{Tx, commit};
use crate::error::classify;
use crate::options::Options;
use crate::row::Cells;
use crate::sql::{Statements, query};
use crate::statement::{Param, Statement, params};
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

    /// Stages one event.
    ///
    /// # Errors
    /// When the route or the event breaks a rule, before anything is written. Also any error of the database.
    pub async fn stage(&self, tx: &mut Tx<'_>, event: Event) -> Result<Staged> {
        let staged = self.stage_all(tx, [event]).await?;
        staged.into_iter().next().ok_or_else(|| Error::invalid("nothing was staged"))
    }

    /// Stages any number of events in one statement. The outcomes are in the order of the events.
    ///
    /// # Errors
    /// When the route or an event breaks a rule, before anything is written. Also any error of the database.
    pub async fn stage_all(
        &self,
        tx: &mut Tx<'_>,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Vec<Staged>> {
        let entries = self.staging.entries(events)?;
        self.insert(tx, entries).await
    }

    /// Locks this key until the transaction ends. Another transaction that calls this for the same route and
    /// key waits until then, so that the events of both have an order. Without this call, two transactions
    /// that stage one key at the same time are unordered.
    ///
    /// Call it before staging. If you lock several keys, lock them in the same order everywhere, or the
    /// database may detect a deadlock. On SQLite this takes the write lock of the file, whatever the key. A
    /// transaction that began with `BEGIN IMMEDIATE` has that lock already.
    ///
    /// # Errors
    /// When the route or the key breaks a rule, or when the lock is not free within the busy timeout.
    pub async fn serialize(&self, tx: &mut Tx<'_>, key: &str) -> Result<()> {
        self.staging.route()?;
        check_name("key", key)?;
        query(&self.statements.serialize).execute(&mut **tx).await.map(|_| ()).map_err(classify)
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

    /// The SQL and the parameters that stage this event with any other driver, in a transaction of that
    /// driver.
    ///
    /// # Errors
    /// When the route or the event breaks a rule.
    pub fn statement(&self, event: Event) -> Result<Statement> {
        let entry = self.staging.entry(&self.staging.route()?, event)?;
        Ok(Statement::new(self.statements.stage_one.as_str(), params(entry)?))
    }

    async fn insert(
        &self,
        connection: &mut SqliteConnection,
        mut entries: Vec<NewEntry>,
    ) -> Result<Vec<Staged>> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        if entries.len() == 1
            && let Some(entry) = entries.pop()
        {
            return Ok(vec![self.insert_one(connection, entry).await?]);
        }
        let ids: Vec<EventId> = entries.iter().map(|entry| entry.event_id).collect();
        let batch = batch(&entries)?;
        let bind = Bind::new().text(self.staging.route_text()).value(batch.json).value(batch.payloads);
        let many = self.statements.stage_many.with(bind.done()?);
        let done = many.execute(&mut *connection).await.map_err(classify)?;
        let mut fresh: HashSet<EventId> = ids.iter().copied().collect();
        // Having every row told back costs a quarter of staging it, and duplicates are rare: only then ask.
        if done.rows_affected() < fresh.len() as u64 {
            fresh = self.newest(connection, done.rows_affected()).await?;
        }
        Ok(Staged::tell(ids, fresh))
    }

    /// One event without the detour that any number of them take.
    async fn insert_one(&self, connection: &mut SqliteConnection, entry: NewEntry) -> Result<Staged> {
        let id = entry.event_id;
        let bind = params(entry)?.into_iter().fold(Bind::new(), |bind, param| match param {
            Param::Null => bind.value(None::<i64>),
            Param::Integer(number) => bind.value(number),
            Param::Text(text) => bind.value(text),
            Param::Bytes(bytes) => bind.value(bytes),
            _ => bind.refuse(),
        });
        let one = self.statements.stage_one.with(bind.done()?);
        let done = one.execute(connection).await.map_err(classify)?;
        Ok(if done.rows_affected() == 0 { Staged::Duplicate(id) } else { Staged::Fresh(id) })
    }

    async fn newest(&self, connection: &mut SqliteConnection, count: u64) -> Result<HashSet<EventId>> {
        let bind = Bind::new().number(i64::try_from(count).unwrap_or(i64::MAX));
        let newest = self.statements.stage_newest.with(bind.done()?);
        let rows = newest.fetch_all(connection).await.map_err(classify)?;
        rows.iter().map(|row| Cells::of(row).text()?.parse()).collect()
    }
}
