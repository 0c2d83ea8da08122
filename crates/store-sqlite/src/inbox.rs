//! The other side: applying an event once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::shared::NewOwner;
use pillarbox_core::port::{self, AcceptBatch, AcceptRequest, Accepted, Origin, Position, Transactions};
use pillarbox_core::{Error, EventId, Fence, Result, Timestamp};
use pillarbox_host::{BatchMarks, Call, Operation, accept_all};
use serde::Serialize;
use sqlx::SqlitePool;

use crate::call::Writer;
use crate::commit::{Tx, commit};
use crate::driver::Transaction;
use crate::error::classify;
use crate::options::Options;
use crate::sql::Statements;
use crate::statement::Value;
use crate::store::SqliteStore;
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
/// # use pillarbox_store_sqlite::{Options, SqliteStore};
/// # async fn example(source: Arc<dyn Source>) -> Result<()> {
/// let store = SqliteStore::connect("sqlite://shop.db", Options::default()).await?;
/// let consumer = Consumer::builder(source, Arc::new(store.inbox())).name("billing").build()?;
/// # let shutdown = std::future::pending();
/// consumer
///     .run(shutdown, async |tx, event| {
///         sqlx::query("insert into invoices (order_id) values (?1)")
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
    writer: Writer,
    statements: Arc<Statements>,
}

impl SqliteStore {
    /// The inbox in the same file, for a consumer. Its transactions begin in the same way as with
    /// [`begin`](Self::begin).
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        Inbox { writer: self.writer.clone(), statements: Arc::clone(&self.statements) }
    }
}

impl Inbox {
    /// The inbox in the tables that these settings name. The pool must have their file open.
    ///
    /// SQLite allows one writer at a time. On a pool of one connection, the transactions of a consumer wait
    /// in a queue. On a larger pool they poll the lock of the file. The pool also decides how durable their
    /// commits are. [`SqliteStore::inbox`](crate::SqliteStore::inbox) has one connection, and every commit is
    /// on disk when it returns.
    #[must_use]
    pub fn new(pool: SqlitePool, options: &Options) -> Self {
        let statements = Arc::new(Statements::new(Tables::new(options)));
        Self { writer: Writer::shared(pool), statements }
    }

    /// Marks the event for this consumer, in a transaction of any [supported driver](Transaction). The handler
    /// may only run on [`Accepted::Fresh`].
    ///
    /// SQLite allows one writer at a time: a concurrent duplicate waits until this transaction ends, at most
    /// for the busy timeout of its own connection. Begin the transaction with `BEGIN IMMEDIATE`, because this
    /// call reads before it writes.
    ///
    /// # Errors
    /// When the consumer's name breaks a rule, before anything is written. Also any error of the database.
    pub fn accept<'t, T: Transaction>(
        &self,
        tx: &'t mut T,
        request: AcceptRequest,
    ) -> T::Answer<'t, Accepted> {
        tx.run(request.check().and_then(|()| Marking::new(self, request).begin()))
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
        tx.run(accept_all(Arc::clone(&self.statements), batch))
    }
}

impl BatchMarks<Value> for Statements {
    // Having each row told costs more than a look before: the transaction has the write lock, so what the look finds
    // stays as it is.
    const TELLS_MARKED: bool = false;

    fn fences_of(&self, consumer: &str, lanes: &[&str]) -> Result<Call<Value>> {
        Ok(Call::new(self.fences_of.shared(), vec![Value::text(consumer), list(&lanes)?]))
    }

    fn marked(&self, consumer: &str, events: &BTreeSet<EventId>) -> Result<Call<Value>> {
        Ok(Call::new(self.marked_many.shared(), vec![Value::text(consumer), list(events)?]))
    }

    fn mark(
        &self,
        consumer: &str,
        events: &BTreeSet<EventId>,
        now: Option<Timestamp>,
    ) -> Result<Call<Value>> {
        let values = vec![Value::text(consumer), list(events)?, Value::at(now)];
        Ok(Call::new(self.accept_many.shared(), values))
    }

    fn raise(&self, consumer: &str, owner: NewOwner, now: Option<Timestamp>) -> Result<Operation<Value, ()>> {
        let raise = raise(self, consumer, owner.origin, now);
        Ok(Operation::change(raise, |_| Ok(Operation::Done(()))))
    }
}

/// A list as SQLite reads it.
fn list(list: &impl Serialize) -> Result<Value> {
    let json = serde_json::to_string(list);
    json.map(Value::Text).map_err(|_| Error::invalid("a value cannot be passed to SQLite"))
}

/// Remembers an owner of a lane.
fn raise(statements: &Statements, consumer: &str, origin: Origin, now: Option<Timestamp>) -> Call<Value> {
    let values = vec![
        Value::text(consumer),
        origin.lane.into(),
        Value::Integer(origin.fence.0),
        origin.position.stream.into(),
        Value::Integer(origin.position.offset),
        Value::at(now),
    ];
    Call::new(statements.fence_raise.shared(), values)
}

/// The way of one event through the inbox.
struct Marking {
    statements: Arc<Statements>,
    request: AcceptRequest,
}

impl Marking {
    fn new(inbox: &Inbox, request: AcceptRequest) -> Self {
        Self { statements: Arc::clone(&inbox.statements), request }
    }

    /// First the newest owner that was seen of the lane that the event comes from.
    fn begin(self) -> Result<Operation<Value, Accepted>> {
        let Some(own) = self.request.origin.clone() else { return Ok(self.mark(None)) };
        let values = vec![Value::text(&self.request.consumer), Value::text(&own.lane)];
        Ok(Operation::ask(Call::new(self.statements.fence_of.shared(), values), move |rows| {
            let known = match rows.first() {
                Some(row) => {
                    let position = Position { stream: row.text(1)?.to_owned(), offset: row.number(2)? };
                    Some(Origin { lane: own.lane.clone(), fence: Fence(row.number(0)?), position })
                }
                None => None,
            };
            if known.as_ref().is_some_and(|known| own.is_stale(known)) {
                return Ok(self.refuse());
            }
            let newer = own.is_newer(known.as_ref()).then_some(own);
            Ok(self.mark(newer))
        }))
    }

    /// A stale event is not marked. It may have been before.
    fn refuse(self) -> Operation<Value, Accepted> {
        let values = vec![Value::text(&self.request.consumer), Value::text(self.request.event_id)];
        Operation::ask(Call::new(self.statements.marked.shared(), values), |rows| {
            let marked = rows.first().map_or(Ok(false), |row| row.flag(0))?;
            Ok(Operation::Done(if marked { Accepted::Duplicate } else { Accepted::Stale }))
        })
    }

    fn mark(self, newer: Option<Origin>) -> Operation<Value, Accepted> {
        let Self { statements, request } = self;
        let values =
            vec![Value::text(&request.consumer), Value::text(request.event_id), Value::at(request.now)];
        Operation::change(Call::new(statements.accept.shared(), values), move |marked| {
            let accepted = if marked.rows == 0 { Accepted::Duplicate } else { Accepted::Fresh };
            // Also for a duplicate: what a new owner publishes first is what the last one may have published already.
            let Some(origin) = newer else { return Ok(Operation::Done(accepted)) };
            let raise = raise(&statements, &request.consumer, origin, request.now);
            Ok(Operation::change(raise, move |_| Ok(Operation::Done(accepted))))
        })
    }
}

#[async_trait]
impl<'c> port::Inbox<Tx<'c>> for Inbox {
    async fn accept(&self, tx: &mut Tx<'c>, request: AcceptRequest) -> Result<Accepted> {
        Inbox::accept(self, tx, request).await
    }

    async fn accept_all(&self, tx: &mut Tx<'c>, batch: AcceptBatch) -> Result<Vec<Accepted>> {
        Inbox::accept_all(self, tx, batch).await
    }
}

#[async_trait]
impl Transactions for Inbox {
    type Tx = Tx<'static>;

    /// With the write lock from the start: accepting reads before it writes, and SQLite cannot turn a reader into a
    /// writer when another connection wrote in between.
    async fn begin(&self) -> Result<Self::Tx> {
        self.writer.begin().await
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        commit(tx).await
    }

    async fn rollback(&self, tx: Self::Tx) -> Result<()> {
        tx.rollback().await.map_err(classify)
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("prefix", &self.statements.tables.prefix).finish_non_exhaustive()
    }
}
