//! The application's side: staging events in its own transaction.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use pillarbox_core::port::shared::Columns;
use pillarbox_core::{Error, Event, EventId, NewEntry, Result, Staged, check_name};
use pillarbox_host::Staging;
use sqlx::MySqlConnection;

use crate::batch::{batch, check_packet};
use crate::bind::Bind;
use crate::commit::{Tx, commit};
use crate::error::Phase;
use crate::options::Options;
use crate::row::Cells;
use crate::sql::Statements;
use crate::statement::{Param, Statement, params};
use crate::store::MySqlStore;
use crate::tables::Tables;

/// Stages events of one route inside the application's own transaction. Cheap to clone: one for each route
/// and process is enough.
///
/// The events become durable when that transaction commits, and a rollback removes them.
///
/// Do not drop the future of a call half-way, as a timeout around it does, and then go on with the transaction. The
/// driver cannot recover a connection on which it was preparing a statement. Put the timeout around the whole
/// transaction, and close its connection.
#[derive(Clone)]
pub struct Outbox {
    pub(crate) staging: Staging,
    pub(crate) statements: Arc<Statements>,
}

/// Filled in once, so that an outbox may be made anew for each request.
static DEFAULT_STATEMENTS: LazyLock<Arc<Statements>> =
    LazyLock::new(|| Arc::new(Statements::new(Tables::new(&Options::default()))));

impl MySqlStore {
    /// The outbox of this route in the same tables. It stages in any transaction of this database.
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
    /// When the route or the event breaks a rule, or is larger than the server's `max_allowed_packet`, before anything
    /// is written. Also any error of the database.
    pub async fn stage(&self, tx: &mut Tx<'_>, event: Event) -> Result<Staged> {
        let entry = self.staging.entry(&self.staging.route()?, event)?;
        self.insert_one(tx, entry).await
    }

    /// Stages any number of events in one statement. The outcomes are in the order of the events.
    ///
    /// # Errors
    /// As for [`stage`](Self::stage).
    pub async fn stage_all(
        &self,
        tx: &mut Tx<'_>,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Vec<Staged>> {
        let mut entries = self.staging.entries(events)?;
        match entries.len() {
            0 => Ok(Vec::new()),
            1 => {
                let one = entries.pop().ok_or_else(|| Error::invalid("nothing was staged"))?;
                Ok(vec![self.insert_one(tx, one).await?])
            }
            _ => self.insert_all(tx, &entries).await,
        }
    }

    /// Locks this key until the transaction ends. Another transaction that calls this for the same route and
    /// key waits until then, so that the events of both have an order. Without this call, two transactions
    /// that stage one key at the same time are unordered.
    ///
    /// Call it before staging. If you lock several keys, lock them in the same order everywhere, or the
    /// database may detect a deadlock. The nodes of a Galera cluster do not share locks: there, of two transactions on
    /// two nodes, the one that commits later fails with
    /// [`Contention`](pillarbox_core::ErrorKind::Contention).
    ///
    /// # Errors
    /// When the route or the key breaks a rule, or when the lock is not free within the lock timeout.
    pub async fn serialize(&self, tx: &mut Tx<'_>, key: &str) -> Result<()> {
        let route = self.staging.route()?;
        check_name("key", key)?;
        let bind = Bind::new().bytes(route.as_str()).bytes(key);
        self.statements.serialize.with(bind.clone())?.execute_in(tx, Phase::Application).await?;
        self.statements.serialize_end.with(bind)?.execute_in(tx, Phase::Application).await.map(drop)
    }

    /// Commits the transaction, then wakes the relay of this process if there is one.
    ///
    /// `Ok` means that the transaction is committed. The driver's own `commit` does not promise that. After a deadlock
    /// it returns `Ok` too, although the server has rolled everything back. This check costs one round trip more.
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

    /// One event without the detour that any number of them take. Texts go as bytes: a connection of the application may
    /// have any character set.
    async fn insert_one(&self, connection: &mut MySqlConnection, entry: NewEntry) -> Result<Staged> {
        let id = entry.event_id;
        check_packet(entry.event.payload.len(), connection).await?;
        let bind = params(entry)?.into_iter().fold(Bind::new(), |bind, param| match param {
            Param::Null => bind.optional_number(None),
            Param::Integer(number) => bind.number(number),
            Param::Text(text) => bind.bytes(text),
            Param::Bytes(bytes) => bind.bytes(bytes),
            _ => bind.refuse(),
        });
        let one = self.statements.stage_one.with(bind)?;
        let done = one.execute_in(connection, Phase::Application).await?;
        // The server tells the number of a new row, and zero for one that was there.
        Ok(if done.told == 0 { Staged::Duplicate(id) } else { Staged::Fresh(id) })
    }

    async fn insert_all(
        &self,
        connection: &mut MySqlConnection,
        entries: &[NewEntry],
    ) -> Result<Vec<Staged>> {
        let ids: Vec<EventId> = entries.iter().map(|entry| entry.event_id).collect();
        let batch = batch(entries)?;
        check_packet(batch.bytes(), connection).await?;
        let bind = Bind::new().bytes(self.staging.route_text()).bytes(batch.json);
        let many = self.statements.stage_many.with(bind.clone().bytes(batch.payloads))?;
        let done = many.execute_in(connection, Phase::Application).await?;
        let mut fresh: HashSet<EventId> = ids.iter().copied().collect();
        // Duplicates are rare: only then ask which. No other event has the stamp that this call gave.
        if done.rows < ids.len() as u64 {
            let rows =
                self.statements.stage_fresh.with(bind)?.rows_in(connection, Phase::Application).await?;
            let mut there = HashSet::new();
            fresh.clear();
            for row in &rows {
                let mut row = Cells::of(row);
                let (id, is_ours) = (row.event_id()?, row.flag()?);
                there.extend(id);
                fresh.extend(id.filter(|_| is_ours));
            }
            // IGNORE is for duplicates, and leaves out as well what the table refuses.
            if let Some(id) = ids.iter().find(|id| !there.contains(id)) {
                return Err(Error::invalid(format!("the table refuses the event {id}")));
            }
        }
        Ok(Staged::tell(ids, fresh))
    }
}
