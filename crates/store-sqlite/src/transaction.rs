//! A transaction around an operation: begun before it, and committed after it with the events that it collected.

use pillarbox_core::Result;
use pillarbox_host::outbox;
use sqlx::SqlitePool;

use crate::commit::{Tx, rollback};
use crate::error::classify;
use crate::outbox::Outbox;
use crate::statement::{Statement, params};
use crate::store::SqliteStore;

impl SqliteStore {
    /// Begins a transaction that writes. Its commit is on disk when it returns.
    ///
    /// It waits in one queue with the relays and consumers of this store, in the order of arrival. It has the
    /// write lock from its start, so that no other writer changes what it reads. SQLite by itself has no
    /// queue. Transactions of a pool with several connections poll the lock of the file, with growing pauses,
    /// and any number of others may overtake them.
    ///
    /// If the store was made by [`new`](Self::new), it has no queue, and the application's pool decides how
    /// durable a commit is.
    ///
    /// ```
    /// # use pillarbox_core::{Event, Result};
    /// # use pillarbox_store_sqlite::{Outbox, SqliteStore};
    /// # async fn example(store: SqliteStore, outbox: Outbox) -> Result<()> {
    /// let mut tx = store.begin().await?;
    /// // … your own statements, with `&mut *tx` …
    /// outbox.stage(&mut tx, Event::json("order.placed", &7)?).await?;
    /// outbox.commit(tx).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Contention`](pillarbox_core::ErrorKind::Contention) when another process held the lock for the whole
    /// [busy timeout](crate::Options::busy_timeout). [`Timeout`](pillarbox_core::ErrorKind::Timeout) when the
    /// queue did not move for half a minute. That happens if one task begins a transaction while it has
    /// another one open. Also any error of the database.
    pub async fn begin(&self) -> Result<Tx<'static>> {
        self.writer.begin().await
    }
}

outbox! {
    /// ```
    /// # use pillarbox_core::{Event, Result};
    /// # use pillarbox_store_sqlite::{Outbox, SqliteStore};
    /// # async fn example(store: SqliteStore, outbox: Outbox) -> Result<()> {
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

impl Begin for SqliteStore {}
impl sealed::Begin for SqliteStore {
    async fn begin_one(&self) -> Result<Tx<'static>> {
        self.begin().await
    }
}

impl Begin for SqlitePool {}
impl sealed::Begin for SqlitePool {
    async fn begin_one(&self) -> Result<Tx<'static>> {
        self.begin_with("BEGIN IMMEDIATE").await.map_err(classify)
    }
}
