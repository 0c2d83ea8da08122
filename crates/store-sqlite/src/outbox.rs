//! The application's side: staging events in its own transaction.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use pillarbox_core::port::{Entropy, Stage, Wake};
use pillarbox_core::{
    Error, Event, EventId, EventLimits, HybridClock, NewEntry, Result, RouteName, Staged, check_name,
};
use pillarbox_host::{OsEntropy, process_clock};
use sqlx::{Row, Sqlite, SqliteConnection, Transaction};

use crate::batch::Batch;
use crate::error::{classify, classify_commit};
use crate::options::Options;
use crate::sql::{Statements, query};
use crate::statement::{Param, Statement, params_of, stage_one};

/// Stages events of one route inside the application's own transaction.
///
/// The events become durable exactly when that transaction does, and a rollback takes them with it. Cheap to
/// clone; one per route and process is enough.
///
/// A future of this type that is dropped half-way leaves all of its events in the transaction or none of them.
#[derive(Clone)]
pub struct Outbox {
    route: String,
    limits: EventLimits,
    ordered: bool,
    pub(crate) statements: Arc<Statements>,
    wake: Option<Arc<dyn Wake>>,
    trace: Option<Arc<Trace>>,
    clock: Option<Arc<HybridClock>>,
}

type Trace = dyn Fn() -> Option<String> + Send + Sync;

/// Filled in once, so that an outbox may be made anew for each request.
static DEFAULT_STATEMENTS: LazyLock<Arc<Statements>> =
    LazyLock::new(|| Arc::new(Statements::new(&Options::default())));

impl Outbox {
    /// An outbox of this route with default settings. A route that breaks a rule is refused when something is
    /// staged.
    #[must_use]
    pub fn new(route: impl Into<String>) -> Self {
        Self {
            route: route.into(),
            limits: EventLimits::default(),
            ordered: false,
            statements: Arc::clone(&DEFAULT_STATEMENTS),
            wake: None,
            trace: None,
            clock: None,
        }
    }

    /// Sets which tables are meant. Default: those of [`Options::default`].
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.statements = Arc::new(Statements::new(&options));
        self
    }

    /// Sets the limits of events. Default: [`EventLimits::default`].
    #[must_use]
    pub fn limits(mut self, limits: EventLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Says that the route is delivered in order per key (`order = "key"`): a delayed event with a key is then
    /// refused, because it would hold back its key. Default: not known, and such an event does hold it back.
    #[must_use]
    pub fn ordered(mut self) -> Self {
        self.ordered = true;
        self
    }

    /// Sets the relay in this process that [`commit`](Self::commit) wakes. Default: none.
    #[must_use]
    pub fn wake(mut self, wake: Arc<dyn Wake>) -> Self {
        self.wake = Some(wake);
        self
    }

    /// Sets where the W3C `traceparent` of the current span comes from; it becomes the header of that name
    /// unless the event already has one. Default: nowhere.
    #[must_use]
    pub fn trace(mut self, trace: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        self.trace = Some(Arc::new(trace));
        self
    }

    /// Sets where clock stamps come from. Default: [`process_clock`].
    #[must_use]
    pub fn clock(mut self, clock: Arc<HybridClock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Stages one event.
    ///
    /// # Errors
    /// When the route or the event breaks a rule, before anything is written; or what the database reports.
    pub async fn stage(&self, tx: &mut Transaction<'_, Sqlite>, event: Event) -> Result<Staged> {
        let staged = self.stage_all(tx, [event]).await?;
        staged.into_iter().next().ok_or_else(|| Error::invalid("nothing was staged"))
    }

    /// Stages any number of events in one statement; the outcomes are in the order of the events.
    ///
    /// # Errors
    /// When the route or an event breaks a rule, before anything is written; or what the database reports.
    pub async fn stage_all(
        &self,
        tx: &mut Transaction<'_, Sqlite>,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Vec<Staged>> {
        let entries = self.entries(events)?;
        self.insert(tx, entries).await
    }

    /// Takes the turn of this key until the transaction ends: whoever else calls this for the same route and key waits
    /// until then, so that the events of both have an order. Without it, two transactions that stage one key at the
    /// same time are unordered. Call it before staging; several keys in one order, or the database may find a deadlock.
    /// On SQLite this is the write lock of the file, whatever the key; a transaction begun with `BEGIN IMMEDIATE` has
    /// it already.
    ///
    /// # Errors
    /// For a route or key that breaks a rule, or when the lock is not had within the busy timeout.
    pub async fn serialize(&self, tx: &mut Transaction<'_, Sqlite>, key: &str) -> Result<()> {
        RouteName::new(self.route.as_str())?;
        check_name("key", key)?;
        query(&self.statements.serialize).execute(&mut **tx).await.map(|_| ()).map_err(classify)
    }

    /// Commits the transaction, then wakes the relay in this process, if there is one.
    ///
    /// # Errors
    /// [`Aborted`](pillarbox_core::ErrorKind::Aborted) when the transaction had ended before. Or what the database
    /// reports; [`Retry::Unknown`](pillarbox_core::Retry::Unknown) means that the commit may have happened.
    pub async fn commit(&self, tx: Transaction<'_, Sqlite>) -> Result<()> {
        tx.commit().await.map_err(classify_commit)?;
        if let Some(wake) = &self.wake {
            wake.wake();
        }
        Ok(())
    }

    /// The SQL and the parameters that stage this event with any other driver, in a transaction of that driver.
    ///
    /// # Errors
    /// When the route or the event breaks a rule.
    pub fn statement(&self, event: Event) -> Result<Statement> {
        let mut entries = self.entries([event])?;
        let entry = entries.pop().ok_or_else(|| Error::invalid("nothing to stage"))?;
        stage_one(&self.statements.stage_one, entry)
    }

    /// The trace of the current span.
    pub(crate) fn traceparent(&self) -> Option<String> {
        self.trace.as_ref().and_then(|trace| trace())
    }

    pub(crate) fn route(&self) -> Result<RouteName> {
        RouteName::new(self.route.as_str())
    }

    /// Checks events and gives them identity and stamp. Nothing is written before all of them passed.
    fn entries(&self, events: impl IntoIterator<Item = Event>) -> Result<Vec<NewEntry>> {
        let route = self.route()?;
        let clock = self.clock.as_deref().unwrap_or_else(|| process_clock());
        events
            .into_iter()
            .map(|mut event| {
                if !event.headers.contains_key("traceparent")
                    && let Some(parent) = self.traceparent()
                {
                    event.headers.insert("traceparent".into(), parent);
                }
                if self.ordered {
                    event.check_ordered()?;
                }
                NewEntry::new(&route, event, OsEntropy.event_id(), clock.now(), &self.limits)
            })
            .collect()
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
        let batch = Batch::new(&entries)?;
        let done = query(&self.statements.stage_many)
            .bind(self.route.clone())
            .bind(batch.json)
            .bind(batch.payloads)
            .execute(&mut *connection)
            .await
            .map_err(classify)?;
        let mut fresh: HashSet<EventId> = ids.iter().copied().collect();
        // Having every row told back costs a quarter of staging it, and duplicates are rare: only then ask.
        if done.rows_affected() < fresh.len() as u64 {
            fresh = self.newest(connection, done.rows_affected()).await?;
        }
        // Twice in one call: the first one is the entry, so its id is used up.
        Ok(ids
            .into_iter()
            .map(|id| if fresh.remove(&id) { Staged::Fresh(id) } else { Staged::Duplicate(id) })
            .collect())
    }

    /// One event without the detour that any number of them take.
    async fn insert_one(&self, connection: &mut SqliteConnection, entry: NewEntry) -> Result<Staged> {
        let id = entry.event_id;
        let mut query = query(&self.statements.stage_one);
        for param in params_of(entry)? {
            query = match param {
                Param::Null => query.bind(None::<i64>),
                Param::Integer(number) => query.bind(number),
                Param::Text(text) => query.bind(text),
                Param::Bytes(bytes) => query.bind(bytes),
            };
        }
        let done = query.execute(connection).await.map_err(classify)?;
        Ok(if done.rows_affected() == 0 { Staged::Duplicate(id) } else { Staged::Fresh(id) })
    }

    async fn newest(&self, connection: &mut SqliteConnection, count: u64) -> Result<HashSet<EventId>> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let rows =
            query(&self.statements.stage_newest).bind(count).fetch_all(connection).await.map_err(classify)?;
        rows.iter().map(|row| row.try_get_unchecked::<&str, _>(0).map_err(classify)?.parse()).collect()
    }
}

#[async_trait]
impl<'c> Stage<Transaction<'c, Sqlite>> for Outbox {
    async fn stage_all(&self, tx: &mut Transaction<'c, Sqlite>, events: Vec<Event>) -> Result<Vec<Staged>> {
        Outbox::stage_all(self, tx, events).await
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("route", &self.route).finish_non_exhaustive()
    }
}
