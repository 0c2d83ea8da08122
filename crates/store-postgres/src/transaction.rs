//! A transaction around an operation: begun before it, and committed after it with the events that it collected.

use pillarbox_core::Result;
use pillarbox_host::outbox;
use sqlx::PgPool;

use crate::commit::{Tx, rollback};
use crate::error::{Phase, classify};
use crate::outbox::Outbox;
use crate::statement::{Statement, params};
use crate::store::PostgresStore;

impl PostgresStore {
    /// Begins a transaction of the application, on the [pool](Self::pool) that has the store's timeouts.
    ///
    /// Any other `sqlx` transaction works as well, also one from the application's own pool: events that an
    /// outbox stages in it are committed with it. A consumer's transaction is such a transaction too.
    ///
    /// ```
    /// # use pillarbox_core::{Event, Result};
    /// # use pillarbox_store_postgres::{Outbox, PostgresStore};
    /// # async fn example(store: PostgresStore, outbox: Outbox) -> Result<()> {
    /// let mut tx = store.begin().await?;
    /// // … your own statements, with `&mut *tx` …
    /// outbox.stage(&mut tx, Event::json("order.placed", &7)?).await?;
    /// outbox.commit(tx).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// When no connection becomes free in time, or when the server cannot be reached.
    pub async fn begin(&self) -> Result<Tx<'static>> {
        sealed::Begin::begin_one(self.pool()).await
    }
}

outbox! {
    /// ```
    /// # use pillarbox_core::{Event, Result};
    /// # use pillarbox_store_postgres::{Outbox, PostgresStore};
    /// # async fn example(store: PostgresStore, outbox: Outbox) -> Result<()> {
    /// outbox
    ///     .transaction(&store, async |tx, buffer| {
    ///         // … your own statements, with `&mut **tx` …
    ///         buffer.stage(Event::json("order.placed", &7)?.key("o-7"))?;
    ///         buffer.stage(Event::json("stock.taken", &7)?.key("o-7"))
    ///     })
    ///     .await
    /// # }
    /// ```
    Outbox, Tx
}

impl Begin for PostgresStore {}
impl sealed::Begin for PostgresStore {
    async fn begin_one(&self) -> Result<Tx<'static>> {
        self.begin().await
    }
}

impl Begin for PgPool {}
impl sealed::Begin for PgPool {
    async fn begin_one(&self) -> Result<Tx<'static>> {
        self.begin().await.map_err(|error| classify(error, Phase::Application))
    }
}
