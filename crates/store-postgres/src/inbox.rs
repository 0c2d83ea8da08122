//! The other side: applying an event once, in the handler's own transaction.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::shared::NewOwner;
use pillarbox_core::port::{self, AcceptBatch, AcceptRequest, Accepted, Origin, Transactions};
use pillarbox_core::{Error, ErrorKind, EventId, Result, Timestamp};
use pillarbox_host::{BatchMarks, Call, Operation, accept_all};
use sqlx::PgPool;

use crate::commit::{Tx, commit_pooled};
use crate::driver::Transaction;
use crate::error::{Phase, classify};
use crate::options::{Mode, Options};
use crate::sql::{Accepting, Sql};
use crate::statement::Value;
use crate::store::PostgresStore;
use crate::tables::Tables;

/// Marks events as seen, in the transaction of the handler's own write. Cheap to clone.
///
/// A consumer takes its transactions from the inbox's pool. [`accept`](Self::accept) also works in a
/// transaction that the application began elsewhere.
///
/// ```
/// # use std::sync::Arc;
/// # use pillarbox_core::{Result, port::Source};
/// # use pillarbox_engine::Consumer;
/// # use pillarbox_store_postgres::{Options, PostgresStore};
/// # async fn example(source: Arc<dyn Source>) -> Result<()> {
/// let options = Options::default().connections(16);
/// let store = PostgresStore::connect("postgres://127.0.0.1/shop", options).await?;
/// let consumer = Consumer::builder(source, Arc::new(store.inbox())).name("billing").build()?;
/// # let shutdown = std::future::pending();
/// consumer
///     .run(shutdown, async |tx, event| {
///         sqlx::query("insert into invoices (order_id) values ($1)")
///             .bind(event.key)
///             .execute(&mut **tx)
///             .await?;
///         Ok(())
///     })
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Inbox {
    pool: PgPool,
    statements: Arc<Accepting>,
    mode: Mode,
}

impl PostgresStore {
    /// The inbox in the same database, for a consumer. It shares [`pool`](Self::pool), so
    /// [`Options::connections`] limits how many messages are handled at the same time.
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        Inbox::new(self.pool().clone(), self.options())
    }
}

impl Inbox {
    /// The inbox in the tables that these settings name. The pool must be connected to their database.
    ///
    /// Each message holds a connection while it is handled. If the pool has fewer connections than the
    /// consumer's concurrency, the pool is the limit. Behind a transaction pooler, set [`Options::mode`].
    /// [`PostgresStore::inbox`](crate::PostgresStore::inbox) sets it by itself.
    #[must_use]
    pub fn new(pool: PgPool, options: &Options) -> Self {
        let statements = Arc::new(Accepting::new(Tables::new(options)));
        Self { pool, statements, mode: options.mode.unwrap_or(Mode::Direct) }
    }

    /// Marks the event for this consumer, in a transaction of any [supported driver](Transaction). The handler
    /// may only run on [`Accepted::Fresh`].
    ///
    /// A concurrent duplicate waits until this transaction ends, at most for the lock timeout of its own
    /// connection.
    ///
    /// # Errors
    /// When the consumer's name is out of bounds, or when the database fails. The transaction should then be
    /// rolled back.
    pub fn accept<'t, T: Transaction>(
        &self,
        tx: &'t mut T,
        request: AcceptRequest,
    ) -> T::Answer<'t, Accepted> {
        tx.run(self.mark(request))
    }

    /// Marks several events for one consumer, in a transaction of any [supported driver](Transaction). The outcomes
    /// stand in the order of the events. They are the same as with [`accept`](Self::accept) for each of them.
    ///
    /// # Errors
    /// When the consumer's name breaks a rule or the batch has too many events, before anything is written. Also any
    /// error of the database.
    pub fn accept_all<'t, T: Transaction>(
        &self,
        tx: &'t mut T,
        batch: AcceptBatch,
    ) -> T::Answer<'t, Vec<Accepted>> {
        tx.run(accept_all(Arc::new(self.clone()), batch))
    }

    fn mark(&self, request: AcceptRequest) -> Result<Operation<Value, Accepted>> {
        request.check()?;
        let mut values =
            vec![Value::text(&request.consumer), Value::text(request.event_id), Value::at(request.now)];
        let Some(origin) = request.origin else {
            return Ok(Operation::change(self.call(&self.statements.accept, values), |marked| {
                Ok(Operation::Done(if marked.rows == 0 { Accepted::Duplicate } else { Accepted::Fresh }))
            }));
        };
        values.extend(owner(origin.clone()));
        let raise = self.raised(&request.consumer, origin, request.now);
        Ok(Operation::ask(self.call(&self.statements.accept_origin, values), move |rows| {
            let row = rows.first().ok_or_else(|| {
                Error::new(ErrorKind::Corrupt, "the database did not say whether the event is known")
            })?;
            let accepted = match (row.flag(0)?, row.flag(1)?) {
                (true, _) => Accepted::Fresh,
                (false, true) => Accepted::Stale,
                (false, false) => Accepted::Duplicate,
            };
            // Also for a duplicate: what a new owner publishes first is what the last one may have published already.
            Ok(match row.flag(2)? {
                true => Operation::change(raise, move |_| Ok(Operation::Done(accepted))),
                false => Operation::Done(accepted),
            })
        }))
    }

    /// Remembers an owner of a lane.
    fn raised(&self, consumer: &str, origin: Origin, now: Option<Timestamp>) -> Call<Value> {
        let mut values = vec![Value::text(consumer)];
        values.extend(owner(origin));
        values.push(Value::at(now));
        self.call(&self.statements.fence_raise, values)
    }

    fn call(&self, sql: &Sql, values: Vec<Value>) -> Call<Value> {
        Call::new(sql.shared(), values).keep(self.mode == Mode::Direct)
    }
}

impl BatchMarks<Value> for Inbox {
    const TELLS_MARKED: bool = true;

    fn fences_of(&self, consumer: &str, lanes: &[&str]) -> Result<Call<Value>> {
        let lanes = lanes.iter().map(|lane| Some((*lane).to_owned())).collect();
        Ok(self.call(&self.statements.fences_of, vec![Value::text(consumer), Value::Texts(lanes)]))
    }

    fn marked(&self, consumer: &str, events: &BTreeSet<EventId>) -> Result<Call<Value>> {
        Ok(self.call(&self.statements.marked_many, vec![Value::text(consumer), ids(events)]))
    }

    fn mark(
        &self,
        consumer: &str,
        events: &BTreeSet<EventId>,
        now: Option<Timestamp>,
    ) -> Result<Call<Value>> {
        let values = vec![Value::text(consumer), ids(events), Value::at(now)];
        Ok(self.call(&self.statements.accept_many, values))
    }

    fn raise(&self, consumer: &str, owner: NewOwner, now: Option<Timestamp>) -> Result<Operation<Value, ()>> {
        Ok(Operation::change(self.raised(consumer, owner.origin, now), |_| Ok(Operation::Done(()))))
    }
}

fn ids(events: &BTreeSet<EventId>) -> Value {
    Value::Texts(events.iter().map(|id| Some(id.to_string())).collect())
}

/// The values of an owner, in the order of the statements.
fn owner(origin: Origin) -> [Value; 4] {
    [
        Value::Text(Some(origin.lane)),
        Value::Integer(Some(origin.fence.0)),
        Value::Text(Some(origin.position.stream)),
        Value::Integer(Some(origin.position.offset)),
    ]
}

#[async_trait]
impl<'c> port::Inbox<Tx<'c>> for Inbox {
    async fn accept(&self, tx: &mut Tx<'c>, request: AcceptRequest) -> Result<Accepted> {
        Self::accept(self, tx, request).await
    }

    async fn accept_all(&self, tx: &mut Tx<'c>, batch: AcceptBatch) -> Result<Vec<Accepted>> {
        Self::accept_all(self, tx, batch).await
    }
}

#[async_trait]
impl Transactions for Inbox {
    type Tx = Tx<'static>;

    async fn begin(&self) -> Result<Self::Tx> {
        self.pool.begin().await.map_err(|error| classify(error, Phase::Before))
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        commit_pooled(tx).await
    }

    async fn rollback(&self, tx: Self::Tx) -> Result<()> {
        tx.rollback().await.map_err(|error| classify(error, Phase::Before))
    }
}

// Nothing of the pool: its options print passwords.
impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("mode", &self.mode).finish_non_exhaustive()
    }
}
