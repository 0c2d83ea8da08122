//! The other side: applying an event once.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::shared::Columns;
use pillarbox_core::port::{self, AcceptRequest, Accepted, Origin, Position, Transactions};
use pillarbox_core::{Fence, Result};
use sqlx::{SqliteConnection, SqlitePool};

use crate::bind::Bind;
use crate::call::Writer;
use crate::commit::{Tx, commit};
use crate::error::classify;
use crate::options::Options;
use crate::row::Cells;
use crate::sql::{Sql, Statements};
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

    /// Marks the event for this consumer. The handler may only run on [`Accepted::Fresh`].
    ///
    /// SQLite allows one writer at a time: a concurrent duplicate waits until this transaction ends, at most
    /// for the busy timeout of its own connection. Begin the transaction with `BEGIN IMMEDIATE`, because this
    /// call reads before it writes.
    ///
    /// # Errors
    /// When the consumer's name breaks a rule, before anything is written. Also any error of the database.
    pub async fn accept(&self, tx: &mut Tx<'_>, request: AcceptRequest) -> Result<Accepted> {
        request.check()?;
        let known = self.known(&mut *tx, &request).await?;
        let stale =
            request.origin.as_ref().zip(known.as_ref()).is_some_and(|(own, newest)| own.is_stale(newest));
        if stale {
            let marked = self.is_marked(tx, &request).await?;
            return Ok(if marked { Accepted::Duplicate } else { Accepted::Stale });
        }
        let bind = Bind::new().text(&request.consumer).text(&request.event_id.to_string()).at(request.now);
        let marked = self.execute(tx, &self.statements.accept, bind).await?;
        // Also for a duplicate: what a new owner publishes first is what the last one may have published already.
        if let Some(origin) = request.origin.as_ref().filter(|own| own.is_newer(known.as_ref())) {
            self.raise(tx, &request, origin).await?;
        }
        Ok(if marked == 0 { Accepted::Duplicate } else { Accepted::Fresh })
    }

    /// The newest owner that was seen of the lane that the event comes from.
    async fn known(
        &self,
        connection: &mut SqliteConnection,
        request: &AcceptRequest,
    ) -> Result<Option<Origin>> {
        let Some(origin) = &request.origin else { return Ok(None) };
        let arguments = Bind::new().text(&request.consumer).text(&origin.lane).done()?;
        let newest = self.statements.fence_of.with(arguments);
        let Some(row) = newest.fetch_optional(connection).await.map_err(classify)? else { return Ok(None) };
        let mut row = Cells::of(&row);
        let (lane, fence) = (origin.lane.clone(), Fence(row.number()?));
        Ok(Some(Origin { lane, fence, position: Position { stream: row.text()?, offset: row.number()? } }))
    }

    async fn is_marked(&self, connection: &mut SqliteConnection, request: &AcceptRequest) -> Result<bool> {
        let bind = Bind::new().text(&request.consumer).text(&request.event_id.to_string());
        let marked = self.statements.marked.with(bind.done()?);
        Cells::of(&marked.fetch_one(connection).await.map_err(classify)?).flag()
    }

    async fn raise(
        &self,
        connection: &mut SqliteConnection,
        request: &AcceptRequest,
        origin: &Origin,
    ) -> Result<()> {
        let bind = Bind::new()
            .text(&request.consumer)
            .text(&origin.lane)
            .number(origin.fence.0)
            .text(&origin.position.stream)
            .number(origin.position.offset)
            .at(request.now);
        self.execute(connection, &self.statements.fence_raise, bind).await.map(drop)
    }

    async fn execute(&self, connection: &mut SqliteConnection, sql: &Sql, bind: Bind) -> Result<u64> {
        Ok(sql.with(bind.done()?).execute(connection).await.map_err(classify)?.rows_affected())
    }
}

#[async_trait]
impl<'c> port::Inbox<Tx<'c>> for Inbox {
    async fn accept(&self, tx: &mut Tx<'c>, request: AcceptRequest) -> Result<Accepted> {
        Inbox::accept(self, tx, request).await
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
