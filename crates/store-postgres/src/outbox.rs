//! Staging: events inside the application's own transaction.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use pillarbox_core::port::{Entropy, Stage, Wake};
use pillarbox_core::{
    Error, ErrorKind, Event, EventId, EventLimits, Headers, HybridClock, NewEntry, Result, RouteName, Staged,
    check_name,
};
use pillarbox_host::{OsEntropy, process_clock};
use sqlx::postgres::PgArguments;
use sqlx::{Postgres, Row, Transaction};
use uuid::Uuid;

use crate::batch::Batch;
use crate::bind::Bind;
use crate::commit::commit;
use crate::error::{Phase, classify};
use crate::lean;
use crate::options::{Mode, Options};
use crate::sql::{SAGA_EXISTS, SAGA_STAGE, SERIALIZE, STAGE_FRESH, STAGE_LEAN, STAGE_MANY, STAGE_ONE, Sql};
use crate::statement::{NUMBERS, Param, Statement, params};
use crate::tables::Tables;

/// Gives the W3C `traceparent` of the current span, if there is one.
type Trace = dyn Fn() -> Option<String> + Send + Sync;

/// The statements that stage.
pub(crate) struct Statements {
    one: Sql,
    fresh: Sql,
    lean: Sql,
    many: Sql,
    serialize: Sql,
    pub(crate) saga: Sql,
    pub(crate) saga_exists: Sql,
}

/// Filled in once, so that an outbox may be made anew for each request.
static DEFAULT_STATEMENTS: LazyLock<Arc<Statements>> =
    LazyLock::new(|| Arc::new(Statements::new(&Options::default())));

impl Statements {
    fn new(options: &Options) -> Self {
        let tables = Tables::new(options);
        Self {
            one: Sql::new(STAGE_ONE, &tables),
            fresh: Sql::new(STAGE_FRESH, &tables),
            lean: Sql::new(STAGE_LEAN, &tables),
            many: Sql::new(STAGE_MANY, &tables),
            serialize: Sql::new(SERIALIZE, &tables),
            saga: Sql::new(SAGA_STAGE, &tables),
            saga_exists: Sql::new(SAGA_EXISTS, &tables),
        }
    }
}

/// Stages events of one route inside the application's own transaction. Cheap to clone.
///
/// Nothing is committed here: an event becomes durable exactly when the application's transaction does, and a
/// rollback takes it along. Staging is one statement, however many events there are, and a future that is
/// dropped half-way leaves either all of them in the transaction or none.
#[derive(Clone)]
pub struct Outbox {
    route: String,
    limits: EventLimits,
    ordered: bool,
    pub(crate) statements: Arc<Statements>,
    pub(crate) mode: Mode,
    wake: Option<Arc<dyn Wake>>,
    trace: Option<Arc<Trace>>,
    clock: Option<Arc<HybridClock>>,
}

impl Outbox {
    /// The outbox of this route, in the default tables. A route that breaks a rule is refused when
    /// something is staged.
    pub fn new(route: impl Into<String>) -> Self {
        Self {
            route: route.into(),
            limits: EventLimits::default(),
            ordered: false,
            statements: Arc::clone(&DEFAULT_STATEMENTS),
            mode: Mode::Direct,
            wake: None,
            trace: None,
            clock: None,
        }
    }

    /// Sets which tables to write to, and whether the application's connections go through a transaction
    /// pooler: with [`Mode::Pooled`] no prepared statement is left in a session.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.statements = Arc::new(Statements::new(&options));
        self.mode = options.mode.unwrap_or(Mode::Direct);
        self
    }

    /// Sets other limits than the default ones.
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

    /// Sets whom [`commit`](Self::commit) wakes: a relay in the same process.
    #[must_use]
    pub fn wake(mut self, wake: Arc<dyn Wake>) -> Self {
        self.wake = Some(wake);
        self
    }

    /// Sets where the W3C `traceparent` of the current span comes from. An event that has one keeps it.
    #[must_use]
    pub fn trace(mut self, trace: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        self.trace = Some(Arc::new(trace));
        self
    }

    /// Sets another source of clock stamps than the one of this process.
    #[must_use]
    pub fn clock(mut self, clock: Arc<HybridClock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Stages one event.
    ///
    /// # Errors
    /// For an event out of bounds, before anything is written; or when the database fails, and the
    /// transaction should then be rolled back.
    pub async fn stage(&self, tx: &mut Transaction<'_, Postgres>, event: Event) -> Result<Staged> {
        let known = event.id.is_some();
        let entry = self.entry(&self.route()?, event)?;
        let id = entry.event_id;
        let headers = headers(&entry.event.headers)?;
        let (sql, values) = if known {
            (&self.statements.one, bind_all(entry, headers)?)
        } else if lean::is_lean(&entry) {
            (&self.statements.lean, lean::values(&entry, &headers)?)
        } else {
            (&self.statements.fresh, bind_all(entry, headers)?)
        };
        let query = sql.with(values).persistent(self.mode == Mode::Direct);
        let done = query.execute(&mut **tx).await.map_err(|error| classify(error, Phase::Application))?;
        Ok(if done.rows_affected() == 0 { Staged::Duplicate(id) } else { Staged::Fresh(id) })
    }

    /// Stages any number of events in one statement; the outcomes are in their order. Nothing in, nothing
    /// done.
    ///
    /// # Errors
    /// As for [`stage`](Self::stage); then none of them is staged.
    pub async fn stage_all(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Vec<Staged>> {
        let mut events: Vec<Event> = events.into_iter().collect();
        // One alone costs half as much by its own statement.
        if events.len() == 1
            && let Some(event) = events.pop()
        {
            return Ok(vec![self.stage(tx, event).await?]);
        }
        let route = self.route()?;
        let mut batch = Batch::default();
        for event in events {
            let entry = self.entry(&route, event)?;
            let headers = headers(&entry.event.headers)?;
            batch.push(entry, headers)?;
        }
        let ids = batch.event_ids.clone();
        if ids.is_empty() {
            return Ok(vec![]);
        }
        let query =
            self.statements.many.with(batch.bind(route.as_str())?).persistent(self.mode == Mode::Direct);
        let rows = query.fetch_all(&mut **tx).await.map_err(|error| classify(error, Phase::Application))?;
        let fresh: sqlx::Result<BTreeSet<Uuid>> = rows.iter().map(|row| row.try_get(0)).collect();
        let mut fresh = fresh.map_err(|error| classify(error, Phase::Application))?;
        // An id that came twice is fresh the first time.
        Ok(ids
            .into_iter()
            .map(
                |id| {
                    if fresh.remove(&id) {
                        Staged::Fresh(EventId(id))
                    } else {
                        Staged::Duplicate(EventId(id))
                    }
                },
            )
            .collect())
    }

    /// Takes the turn of this key until the transaction ends: whoever else calls this for the same route and key waits
    /// until then, so that the events of both have an order. Without it, two transactions that stage one key at the
    /// same time are unordered. Call it before staging; several keys in one order, or the database may find a deadlock.
    ///
    /// # Errors
    /// For a route or key that breaks a rule, or when the database fails.
    pub async fn serialize(&self, tx: &mut Transaction<'_, Postgres>, key: &str) -> Result<()> {
        let route = self.route()?;
        check_name("key", key)?;
        let bind = Bind::new().text(route.as_str()).text(key).done()?;
        let query = self.statements.serialize.with(bind).persistent(self.mode == Mode::Direct);
        query.execute(&mut **tx).await.map(|_| ()).map_err(|error| classify(error, Phase::Application))
    }

    /// Commits the transaction and wakes the relay of this process.
    ///
    /// `Ok` means that it is committed. The driver's own `commit` does not say that: after a statement of the
    /// transaction failed it is `Ok` as well, although PostgreSQL has rolled everything back. That costs a round trip
    /// more than the driver's.
    ///
    /// # Errors
    /// [`Aborted`](ErrorKind::Aborted) when a statement of the transaction had failed, or had ended it: nothing was
    /// committed by this call. Or when the commit fails. [`Retry::Unknown`](pillarbox_core::Retry::Unknown): its answer was lost; stage
    /// the same event ids again to find out.
    pub async fn commit(&self, tx: Transaction<'_, Postgres>) -> Result<()> {
        commit(tx).await?;
        if let Some(wake) = &self.wake {
            wake.wake();
        }
        Ok(())
    }

    /// The statement that stages this event, for any other driver.
    ///
    /// # Errors
    /// For an event out of bounds.
    pub fn statement(&self, event: Event) -> Result<Statement> {
        let entry = self.entry(&self.route()?, event)?;
        let headers = headers(&entry.event.headers)?;
        Ok(Statement { sql: self.statements.one.as_str().to_owned(), params: params(entry, headers) })
    }

    /// The trace of the current span.
    pub(crate) fn traceparent(&self) -> Option<String> {
        self.trace.as_ref().and_then(|trace| trace())
    }

    pub(crate) fn route(&self) -> Result<RouteName> {
        RouteName::new(&*self.route)
    }

    fn entry(&self, route: &RouteName, mut event: Event) -> Result<NewEntry> {
        if !event.headers.contains_key("traceparent")
            && let Some(parent) = self.traceparent()
        {
            event = event.header("traceparent", parent);
        }
        if self.ordered {
            event.check_ordered()?;
        }
        let hlc = self.clock.as_deref().unwrap_or_else(|| process_clock()).now();
        NewEntry::new(route, event, OsEntropy.event_id(), hlc, &self.limits)
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("route", &self.route).finish_non_exhaustive()
    }
}

#[async_trait]
impl<'c> Stage<Transaction<'c, Postgres>> for Outbox {
    async fn stage_all(&self, tx: &mut Transaction<'c, Postgres>, events: Vec<Event>) -> Result<Vec<Staged>> {
        Self::stage_all(self, tx, events).await
    }
}

pub(crate) fn headers(headers: &Headers) -> Result<String> {
    serde_json::to_string(headers)
        .map_err(|_| Error::new(ErrorKind::Internal, "the headers cannot be written as JSON"))
}

/// The values of `stage_one.sql` and `stage_fresh.sql`, in their order.
fn bind_all(entry: NewEntry, headers: String) -> Result<PgArguments> {
    let params = params(entry, headers).into_iter().enumerate();
    let bind = params.fold(Bind::new(), |bind, (place, param)| match param {
        // What is not there has a type as well: the prepared statement is kept for what will be there.
        Param::Null if place >= NUMBERS => bind.value(None::<i64>),
        Param::Null => bind.value(None::<&str>),
        Param::Text(text) => bind.value(text),
        Param::Integer(number) => bind.value(number),
        Param::Bytes(bytes) => bind.value(bytes),
    });
    bind.done()
}
