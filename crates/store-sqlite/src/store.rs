//! The store: its connections, and the port that it implements.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{
    Admin, Changed, Claim, ClaimRequest, CountByRequest, CountGroup, ExtendRequest, Extended, Filter,
    InventoryRequest, InventoryRow, Migrated, PauseChange, PauseRequest, PurgeRequest, Purged, Purging,
    ReapRequest, Reaped, RouteCounts, Schema, SchemaState, SelectionRequest, SettleRequest, Settled, Store,
    Story,
};
use pillarbox_core::{AuditRecord, EventId, Result, RouteName, Timestamp};
use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqlitePool, Transaction};

use crate::change::Verb;
use crate::connect::Target;
use crate::error::classify;
use crate::inbox::Inbox;
use crate::options::Options;
use crate::sql::Statements;
use crate::writer::Writer;
use crate::{admin, change, claim, purge, reap, schema, settle};

/// The outbox in a SQLite file, as relays and operators see it. Cheap to clone.
///
/// Several stores, in one process or in many, may share one file.
#[derive(Clone)]
pub struct SqliteStore {
    pub(crate) writer: Writer,
    pool: SqlitePool,
    /// Where relays read: not from the pool that applications may have emptied, and beside the writer.
    reading: SqlitePool,
    pub(crate) statements: Arc<Statements>,
    options: Arc<Options>,
}

impl SqliteStore {
    /// Opens the file of a URL: `sqlite://path`, `sqlite:path`, or `sqlite::memory:` on one connection.
    ///
    /// A missing file is made, readable and writable by its owner only, unless the URL says `mode=rw` or
    /// `mode=ro`. The tables are not: see [`Schema::migrate`].
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid) for a URL that is not one of SQLite; or what the
    /// database reports.
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let target = Target::parse(url, &options)?;
        let pool = target.durable_pool().await?;
        if target.in_memory {
            return Self::new(pool, options);
        }
        let (writer, reading) = (target.writer().await?, target.reading_pool());
        Ok(Self { writer, reading, ..Self::new(pool, options)? })
    }

    /// A store on a pool of the application's own. How durable claims and settles are is that pool's choice;
    /// deaths and the changes of operators are on disk when they return, whatever it is.
    ///
    /// # Errors
    /// None today.
    pub fn new(pool: SqlitePool, options: Options) -> Result<Self> {
        Ok(Self {
            writer: Writer::shared(pool.clone()),
            reading: pool.clone(),
            pool,
            statements: Arc::new(Statements::new(&options)),
            options: Arc::new(options),
        })
    }

    /// The pool that operators read from. Applications may stage on it: every commit is on disk when it returns.
    #[must_use]
    pub fn pool(&self) -> &SqlitePool {
        &self.pool
    }

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
    /// [busy timeout](Options::busy_timeout); [`Timeout`](pillarbox_core::ErrorKind::Timeout) when the line did not
    /// move for half a minute, as it does not if a transaction is begun while another one is open in the same task; or
    /// what the database reports.
    pub async fn begin(&self) -> Result<Transaction<'static, Sqlite>> {
        self.writer.begin().await
    }

    /// The inbox in the same file: what a consumer needs. Its transactions are begun as with [`begin`](Self::begin).
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        Inbox::of(self.writer.clone(), Arc::clone(&self.statements))
    }

    /// The settings: give them to an outbox or inbox of the same tables.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Closes all connections; calls fail from then on. The last one on a file also puts its log away.
    pub async fn close(&self) {
        self.writer.close().await;
        self.reading.close().await;
        self.pool.close().await;
    }

    /// A connection to read with.
    pub(crate) async fn reader(&self) -> Result<PoolConnection<Sqlite>> {
        self.writer.check_file()?;
        self.reading.acquire().await.map_err(classify)
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        claim::claim(self, request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        claim::extend(self, request).await
    }

    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        settle::settle(self, request).await
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        reap::reap(self, request).await
    }

    async fn open_sagas(&self, route: &RouteName) -> Result<u64> {
        self.count_open_sagas(route).await
    }

    fn purging(&self) -> Option<Purging> {
        Some(Purging { admin: Arc::new(self.clone()), sagas: Some(Arc::new(self.clone())) })
    }
}

#[async_trait]
impl Admin for SqliteStore {
    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
        admin::counts(self, now).await
    }

    async fn list(&self, filter: Filter) -> Result<Vec<pillarbox_core::Entry>> {
        admin::list(self, filter).await
    }

    async fn count_by(&self, request: CountByRequest) -> Result<Vec<CountGroup>> {
        admin::count_by(self, request).await
    }

    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>> {
        admin::inventory(self, request).await
    }

    async fn show(&self, id: EventId) -> Result<Vec<Story>> {
        admin::show(self, id).await
    }

    async fn audit(&self, limit: u32) -> Result<Vec<AuditRecord>> {
        admin::audit(self, limit).await
    }

    async fn requeue(&self, request: SelectionRequest) -> Result<Changed> {
        change::change(self, request, Verb::Requeue).await
    }

    async fn discard(&self, request: SelectionRequest) -> Result<Changed> {
        change::change(self, request, Verb::Discard).await
    }

    async fn hasten(&self, request: SelectionRequest) -> Result<Changed> {
        change::change(self, request, Verb::Hasten).await
    }

    async fn cancel(&self, request: SelectionRequest) -> Result<Changed> {
        change::change(self, request, Verb::Cancel).await
    }

    async fn set_pause(&self, request: PauseRequest) -> Result<PauseChange> {
        change::set_pause(self, request).await
    }

    async fn purge(&self, request: PurgeRequest) -> Result<Purged> {
        purge::purge(self, request).await
    }

    async fn purge_inbox(&self, request: PurgeRequest) -> Result<Purged> {
        purge::purge_inbox(self, request).await
    }
}

#[async_trait]
impl Schema for SqliteStore {
    async fn inspect(&self) -> Result<SchemaState> {
        schema::inspect(self).await
    }

    async fn migrate(&self) -> Result<Migrated> {
        schema::migrate(self).await
    }

    async fn plan(&self) -> Result<String> {
        schema::plan(self).await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("prefix", &self.statements.tables.prefix).finish_non_exhaustive()
    }
}
