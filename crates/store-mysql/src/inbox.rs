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
use sqlx::MySqlPool;

use crate::bind::Bind;
use crate::call::begin;
use crate::commit::{BEGIN_READ_COMMITTED, Tx, commit_pooled};
use crate::driver::Transaction;
use crate::error::{Phase, classify};
use crate::options::Options;
use crate::sql::Statements;
use crate::statement::Value;
use crate::store::MySqlStore;
use crate::tables::Tables;

/// What `accept.sql` tells of an event that was marked before.
const DUPLICATE: u64 = 1;

/// Marks events as seen, in the transaction of the handler's own write. Cheap to clone.
///
/// A consumer takes its transactions from the inbox's pool, in READ COMMITTED. [`accept`](Self::accept) also works in a
/// transaction that the application began elsewhere.
///
/// ```
/// # use std::sync::Arc;
/// # use pillarbox_core::{Result, port::Source};
/// # use pillarbox_engine::Consumer;
/// # use pillarbox_store_mysql::{MySqlStore, Options};
/// # async fn example(source: Arc<dyn Source>) -> Result<()> {
/// let store = MySqlStore::connect("mysql://app@localhost/shop", Options::default()).await?;
/// let consumer = Consumer::builder(source, Arc::new(store.inbox())).name("billing").build()?;
/// # let shutdown = std::future::pending();
/// consumer
///     .run(shutdown, async |tx, event| {
///         sqlx::query("insert into invoices (order_id) values (?)").bind(event.key).execute(&mut **tx).await?;
///         Ok(())
///     })
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Inbox {
    pool: MySqlPool,
    statements: Arc<Statements>,
}

impl MySqlStore {
    /// The inbox in the same database, for a consumer. Its transactions begin on [`pool`](Self::pool).
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        Inbox { pool: self.pool().clone(), statements: Arc::clone(&self.statements) }
    }
}

impl Inbox {
    /// The inbox in the tables that these settings name. The pool must reach their database.
    #[must_use]
    pub fn new(pool: MySqlPool, options: &Options) -> Self {
        Self { pool, statements: Arc::new(Statements::new(Tables::new(options))) }
    }

    /// Marks the event for this consumer, in a transaction of any [supported driver](Transaction). The handler
    /// may only run on [`Accepted::Fresh`].
    ///
    /// A concurrent duplicate waits until this transaction ends, at most for the lock timeout of its connection.
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
    /// If another transaction marks one of the events at the same moment, the error is
    /// [`Contention`](pillarbox_core::ErrorKind::Contention): roll back and run the transaction again. In READ COMMITTED
    /// batches do not wait for gaps between marks.
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
    // Not on every server can an insert tell which rows it made.
    const TELLS_MARKED: bool = false;

    fn fences_of(&self, consumer: &str, lanes: &[&str]) -> Result<Call<Value>> {
        self.fences_of.call(Bind::new().bytes(consumer).bytes(list(&lanes)?))
    }

    fn marked(&self, consumer: &str, events: &BTreeSet<EventId>) -> Result<Call<Value>> {
        self.marked_many.call(Bind::new().bytes(consumer).bytes(list(events)?))
    }

    fn mark(
        &self,
        consumer: &str,
        events: &BTreeSet<EventId>,
        now: Option<Timestamp>,
    ) -> Result<Call<Value>> {
        self.accept_many.call(Bind::new().bytes(consumer).bytes(list(events)?).at(now))
    }

    fn raise(&self, consumer: &str, owner: NewOwner, now: Option<Timestamp>) -> Result<Operation<Value, ()>> {
        raise(self, consumer, owner, now)
    }
}

/// A list as the server reads it.
fn list(list: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(list).map_err(|_| Error::invalid("a value cannot be passed to the database"))
}

/// Remembers a newer owner, unless another transaction is about to. Only the first owner of a lane is waited for.
fn raise(
    statements: &Statements,
    consumer: &str,
    newer: NewOwner,
    now: Option<Timestamp>,
) -> Result<Operation<Value, ()>> {
    let NewOwner { origin, known, .. } = newer;
    let lane = Bind::new().bytes(consumer).bytes(origin.lane);
    let owner = lane
        .clone()
        .number(origin.fence.0)
        .bytes(origin.position.stream)
        .number(origin.position.offset)
        .at(now);
    let raise = Operation::change(statements.fence_raise.call(owner)?, |_| Ok(Operation::Done(())));
    if !known {
        return Ok(raise);
    }
    Ok(Operation::ask(statements.fence_lock.call(lane)?, move |rows| {
        Ok(if rows.is_empty() { Operation::Done(()) } else { raise })
    }))
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
        let Some(own) = self.request.origin.clone() else { return self.mark(None) };
        let bind = Bind::new().bytes(self.request.consumer.as_str()).bytes(own.lane.as_str());
        Ok(Operation::ask(self.statements.fence_of.call(bind)?, move |rows| {
            let known = match rows.first() {
                Some(row) => {
                    let position = Position { stream: row.text(1)?.to_owned(), offset: row.number(2)? };
                    Some(Origin { lane: own.lane.clone(), fence: Fence(row.number(0)?), position })
                }
                None => None,
            };
            if known.as_ref().is_some_and(|known| own.is_stale(known)) {
                return self.refuse();
            }
            let is_newer = own.is_newer(known.as_ref());
            self.mark(is_newer.then(|| NewOwner::new(own, known.is_some())))
        }))
    }

    fn event(&self) -> Bind {
        Bind::new().bytes(self.request.consumer.as_str()).bytes(*self.request.event_id.0.as_bytes())
    }

    /// A stale event is not marked. It may have been before.
    fn refuse(self) -> Result<Operation<Value, Accepted>> {
        Ok(Operation::ask(self.statements.marked.call(self.event())?, |rows| {
            let marked = rows.first().map_or(Ok(false), |row| row.flag(0))?;
            Ok(Operation::Done(if marked { Accepted::Duplicate } else { Accepted::Stale }))
        }))
    }

    fn mark(self, newer: Option<NewOwner>) -> Result<Operation<Value, Accepted>> {
        let bind = self.event().at(self.request.now);
        Ok(Operation::change(self.statements.accept.call(bind)?, move |marked| {
            let accepted = if marked.told == DUPLICATE { Accepted::Duplicate } else { Accepted::Fresh };
            // Also for a duplicate: what a new owner publishes first is what the last one may have published already.
            match newer {
                Some(newer) => {
                    let AcceptRequest { consumer, now, .. } = self.request;
                    Ok(raise(&self.statements, &consumer, newer, now)?.map(move |()| accepted))
                }
                None => Ok(Operation::Done(accepted)),
            }
        }))
    }
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
        begin(&self.pool, BEGIN_READ_COMMITTED).await
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
        f.debug_struct("Inbox").field("prefix", &self.statements.tables.prefix).finish_non_exhaustive()
    }
}
