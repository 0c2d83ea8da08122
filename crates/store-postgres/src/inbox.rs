//! The other side: applying an event once, in the handler's own transaction.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{self, AcceptRequest, Accepted, Transactions};
use pillarbox_core::{Error, ErrorKind, Result};
use pillarbox_host::{Call, Step};
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

    fn mark(&self, request: AcceptRequest) -> Result<Step<Value, Accepted>> {
        request.check()?;
        let mut values =
            vec![Value::text(&request.consumer), Value::text(request.event_id), Value::at(request.now)];
        let Some(origin) = request.origin else {
            return Ok(Step::change(self.call(&self.statements.accept, values), |marked| {
                Ok(Step::Done(if marked.rows == 0 { Accepted::Duplicate } else { Accepted::Fresh }))
            }));
        };
        let owner = [
            Value::Text(Some(origin.lane)),
            Value::Integer(Some(origin.fence.0)),
            Value::Text(Some(origin.position.stream)),
            Value::Integer(Some(origin.position.offset)),
        ];
        values.extend(owner.clone());
        let mut raised = vec![Value::Text(Some(request.consumer))];
        raised.extend(owner);
        raised.push(Value::at(request.now));
        let raise = self.call(&self.statements.fence_raise, raised);
        Ok(Step::ask(self.call(&self.statements.accept_origin, values), move |rows| {
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
                true => Step::change(raise, move |_| Ok(Step::Done(accepted))),
                false => Step::Done(accepted),
            })
        }))
    }

    fn call(&self, sql: &Sql, values: Vec<Value>) -> Call<Value> {
        Call::new(sql.shared(), values).keep(self.mode == Mode::Direct)
    }
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
