//! A transaction around an operation: begun before it, and committed after it with the events that it collected.

use pillarbox_core::Result;
use pillarbox_host::outbox;
use sqlx::SqlitePool;

use crate::commit::{Tx, rollback};
use crate::error::classify;
use crate::outbox::Outbox;
use crate::store::SqliteStore;

impl SqliteStore {
    /// Begins a transaction that writes. Its commit is on disk when it returns.
    ///
    /// It waits in line with the relays and consumers of this store, longest waiting first, and has the write lock
    /// from its start: what it reads is what it changes. SQLite by itself keeps no line: transactions of a pool of several
    /// connections poll the lock of the file, with growing pauses, and may be passed by any number of others.
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
    /// [`Contention`](pillarbox_core::ErrorKind::Contention) when another process had the lock for all of the
    /// [busy timeout](crate::Options::busy_timeout); [`Timeout`](pillarbox_core::ErrorKind::Timeout) when the line did
    /// not move for half a minute, as it does not if a transaction is begun while another one is open in the same task; or
    /// what the database reports.
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
