//! The other side: applying an event once, in the handler's own transaction.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::Result;
use pillarbox_core::port::{self, AcceptRequest, Accepted, Origin, Transactions};
use sqlx::postgres::PgArguments;
use sqlx::{PgPool, Row};

use crate::bind::Bind;
use crate::commit::{Tx, commit_pooled};
use crate::error::{Phase, classify};
use crate::options::{Mode, Options};
use crate::sql::{Accepting, Sql};
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

    /// Marks the event for this consumer. The handler may only run on [`Accepted::Fresh`].
    ///
    /// A concurrent duplicate waits until this transaction ends, at most for the lock timeout of its own
    /// connection.
    ///
    /// # Errors
    /// When the consumer's name is out of bounds, or when the database fails. The transaction should then be
    /// rolled back.
    pub async fn accept(&self, tx: &mut Tx<'_>, request: AcceptRequest) -> Result<Accepted> {
        request.check()?;
        let bind = Bind::new().text(&request.consumer).value(request.event_id.0).at(request.now);
        let Some(origin) = &request.origin else {
            let marked = self.execute(tx, &self.statements.accept, bind.done()?).await?;
            return Ok(if marked == 0 { Accepted::Duplicate } else { Accepted::Fresh });
        };
        let arguments = bind
            .text(&origin.lane)
            .number(origin.fence.0)
            .text(&origin.position.stream)
            .number(origin.position.offset)
            .done()?;
        let query = self.statements.accept_origin.with(arguments).persistent(self.mode == Mode::Direct);
        let row = query.fetch_one(&mut **tx).await.map_err(failed)?;
        let is = |column: &str| row.try_get::<bool, _>(column).map_err(failed);
        // Also for a duplicate: what a new owner publishes first is what the last one may have published already.
        if is("newer")? {
            self.raise(tx, &request, origin).await?;
        }
        Ok(match (is("fresh")?, is("stale")?) {
            (true, _) => Accepted::Fresh,
            (false, true) => Accepted::Stale,
            (false, false) => Accepted::Duplicate,
        })
    }

    async fn raise(&self, tx: &mut Tx<'_>, request: &AcceptRequest, origin: &Origin) -> Result<()> {
        let arguments = Bind::new()
            .text(&request.consumer)
            .text(&origin.lane)
            .number(origin.fence.0)
            .text(&origin.position.stream)
            .number(origin.position.offset)
            .at(request.now)
            .done()?;
        self.execute(tx, &self.statements.fence_raise, arguments).await?;
        Ok(())
    }

    async fn execute(&self, tx: &mut Tx<'_>, sql: &Sql, arguments: PgArguments) -> Result<u64> {
        let query = sql.with(arguments).persistent(self.mode == Mode::Direct);
        Ok(query.execute(&mut **tx).await.map_err(failed)?.rows_affected())
    }
}

fn failed(error: sqlx::Error) -> pillarbox_core::Error {
    classify(error, Phase::Application)
}

#[async_trait]
impl<'c> port::Inbox<Tx<'c>> for Inbox {
    async fn accept(&self, tx: &mut Tx<'c>, request: AcceptRequest) -> Result<Accepted> {
        Self::accept(self, tx, request).await
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
