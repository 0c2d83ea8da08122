//! The other side: applying an event once.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::shared::Columns;
use pillarbox_core::port::{self, AcceptRequest, Accepted, Origin, Position, Transactions};
use pillarbox_core::{Fence, Result};
use sqlx::MySqlPool;
use sqlx::mysql::MySqlRow;

use crate::bind::Bind;
use crate::commit::{BEGIN_READ_COMMITTED, Tx, commit_pooled};
use crate::error::{Phase, classify};
use crate::options::Options;
use crate::row::Cells;
use crate::sql::{Done, Sql, Statements};
use crate::store::MySqlStore;
use crate::tables::Tables;

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

    /// Marks the event for this consumer. The handler may only run on [`Accepted::Fresh`].
    ///
    /// A concurrent duplicate waits until this transaction ends, at most for the lock timeout of its connection.
    ///
    /// # Errors
    /// When the consumer's name breaks a rule, before anything is written. Also any error of the database.
    pub async fn accept(&self, tx: &mut Tx<'_>, request: AcceptRequest) -> Result<Accepted> {
        request.check()?;
        let known = self.known(tx, &request).await?;
        let event = Bind::new().bytes(request.consumer.as_str()).bytes(*request.event_id.0.as_bytes());
        let own = request.origin.as_ref();
        if own.zip(known.as_ref()).is_some_and(|(own, newest)| own.is_stale(newest)) {
            let marked = self.rows(tx, &self.statements.marked, event).await?;
            let marked = marked.first().map_or(Ok(false), |row| Cells::of(row).flag())?;
            return Ok(if marked { Accepted::Duplicate } else { Accepted::Stale });
        }
        let marked = self.execute(tx, &self.statements.accept, event.at(request.now)).await?;
        // Also for a duplicate: what a new owner publishes first is what the last one may have published already.
        if let Some(origin) = own.filter(|own| own.is_newer(known.as_ref())) {
            self.raise(tx, &request, origin, known.is_some()).await?;
        }
        Ok(if marked.told == 0 { Accepted::Fresh } else { Accepted::Duplicate })
    }

    /// The newest owner that was seen of the lane that the event comes from.
    async fn known(&self, tx: &mut Tx<'_>, request: &AcceptRequest) -> Result<Option<Origin>> {
        let Some(origin) = &request.origin else { return Ok(None) };
        let bind = Bind::new().bytes(request.consumer.as_str()).bytes(origin.lane.as_str());
        let rows = self.rows(tx, &self.statements.fence_of, bind).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut row = Cells::of(row);
        let (lane, fence) = (origin.lane.clone(), Fence(row.number()?));
        Ok(Some(Origin { lane, fence, position: Position { stream: row.text()?, offset: row.number()? } }))
    }

    /// Remembers a newer owner, unless another transaction is about to. Only the first owner of a lane is waited for.
    async fn raise(&self, tx: &mut Tx<'_>, request: &AcceptRequest, own: &Origin, known: bool) -> Result<()> {
        let bind = Bind::new().bytes(request.consumer.as_str()).bytes(own.lane.as_str());
        if known && self.rows(tx, &self.statements.fence_lock, bind.clone()).await?.is_empty() {
            return Ok(());
        }
        let bind = bind.number(own.fence.0).bytes(own.position.stream.as_str()).number(own.position.offset);
        self.execute(tx, &self.statements.fence_raise, bind.at(request.now)).await.map(drop)
    }

    async fn rows(&self, tx: &mut Tx<'_>, sql: &Sql, bind: Bind) -> Result<Vec<MySqlRow>> {
        sql.with(bind)?.rows_in(tx, Phase::Application).await
    }

    async fn execute(&self, tx: &mut Tx<'_>, sql: &Sql, bind: Bind) -> Result<Done> {
        sql.with(bind)?.execute_in(tx, Phase::Application).await
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

    async fn begin(&self) -> Result<Self::Tx> {
        self.pool.begin_with(BEGIN_READ_COMMITTED).await.map_err(|error| classify(error, Phase::Before))
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
