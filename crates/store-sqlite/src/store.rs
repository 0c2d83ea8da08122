//! The store: its connections, and the port that it implements.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{
    Admin, Changed, Claim, ClaimRequest, ExtendRequest, Extended, Filter, InventoryRequest, InventoryRow,
    Migrated, PurgeRequest, Purged, ReapRequest, Reaped, RouteCounts, Schema, SchemaState, SelectionRequest,
    SettleRequest, Settled, Store, Story,
};
use pillarbox_core::{AuditRecord, EventId, Result, Timestamp};
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Row, Sqlite, SqliteConnection, SqlitePool};

use crate::connect::{Target, is_reusable};
use crate::error::{classify, classify_commit};
use crate::inbox::Inbox;
use crate::options::Options;
use crate::sql::Statements;
use crate::{admin, change, claim, purge, reap, schema, settle};

/// The outbox in a SQLite file, as relays and operators see it. Cheap to clone.
///
/// Several stores, in one process or in many, may share one file.
#[derive(Clone)]
pub struct SqliteStore {
    /// Where relays write: one connection, so that the calls of one process queue here and do not poll the
    /// lock of the file.
    writer: SqlitePool,
    pool: SqlitePool,
    /// Where lanes are read: not from the pool that applications may have emptied, and beside the writer.
    reading: SqlitePool,
    /// Where consumers work: one connection for the same reason, with every commit on disk.
    consuming: SqlitePool,
    /// Whether the writer is ours and does not wait for the disk.
    relaxed: bool,
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
        let (writer, consuming) = (target.relaxed_pool().await?, target.queueing_pool());
        let reading = target.reading_pool();
        Ok(Self { writer, reading, consuming, relaxed: true, ..Self::new(pool, options)? })
    }

    /// A store on a pool of the application's own. How durable claims and settles are is that pool's choice;
    /// deaths and the changes of operators are on disk when they return, whatever it is.
    ///
    /// # Errors
    /// None today.
    pub fn new(pool: SqlitePool, options: Options) -> Result<Self> {
        Ok(Self {
            writer: pool.clone(),
            reading: pool.clone(),
            consuming: pool.clone(),
            pool,
            relaxed: false,
            statements: Arc::new(Statements::new(&options)),
            options: Arc::new(options),
        })
    }

    /// The pool that operators read from. Applications may stage on it: every commit is on disk when it returns.
    #[must_use]
    pub fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    /// The inbox in the same file: what a consumer needs. Its transactions wait in line for each other, and every commit
    /// is on disk when it returns.
    #[must_use]
    pub fn inbox(&self) -> Inbox {
        Inbox::of(self.consuming.clone(), Arc::clone(&self.statements))
    }

    /// Where sagas are settled: with the transactions of consumers, because the application writes in them too.
    pub(crate) fn consuming(&self) -> &SqlitePool {
        &self.consuming
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
        self.consuming.close().await;
        self.pool.close().await;
    }

    /// A connection to write with, for claims and settles.
    pub(crate) async fn writer(&self) -> Result<PoolConnection<Sqlite>> {
        loop {
            let mut connection = self.writer.acquire().await.map_err(classify)?;
            // A transaction that SQLite ended by itself, as it does on a full disk, still counts as open here.
            if !connection.is_in_transaction() || is_reusable(&mut connection).await.map_err(classify)? {
                return Ok(connection);
            }
            connection.close().await.map_err(classify)?;
        }
    }

    /// A connection to read lanes with.
    pub(crate) async fn reader(&self) -> Result<PoolConnection<Sqlite>> {
        self.reading.acquire().await.map_err(classify)
    }

    /// Runs a step that must be on disk when the call returns.
    ///
    /// A future dropped half-way leaves a connection that goes on waiting for the disk until the next such
    /// step: slower, never less safe.
    pub(crate) async fn durably<S: Step>(&self, step: &S) -> Result<S::Outcome> {
        let mut connection = self.writer().await?;
        // Of an application's pool only the pragma tells; it must be left as it was found.
        let relax = self.relaxed || synchronous(&mut connection).await? < SYNCHRONOUS_FULL;
        if relax {
            sqlx::query("pragma synchronous = full").execute(&mut *connection).await.map_err(classify)?;
        }
        let outcome = together(&mut connection, step).await;
        if relax && sqlx::query("pragma synchronous = normal").execute(&mut *connection).await.is_err() {
            tracing::debug!("a connection of the store stays slower than it could be");
        }
        outcome
    }
}

/// Several statements that happen together or not at all.
#[async_trait]
pub(crate) trait Step: Sync {
    /// What the step found or did.
    type Outcome: Send;

    /// Runs the statements; an error rolls all of them back.
    async fn run(&self, tx: &mut SqliteConnection) -> Result<Self::Outcome>;
}

/// Runs a step in a transaction that has the write lock from its start, so that what the step reads is what it
/// changes.
pub(crate) async fn together<S: Step>(connection: &mut SqliteConnection, step: &S) -> Result<S::Outcome> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await.map_err(classify)?;
    match step.run(&mut tx).await {
        Ok(outcome) => {
            tx.commit().await.map_err(classify_commit)?;
            Ok(outcome)
        }
        Err(error) => {
            // Now and not in the background: who sees the error may count on the lock being free. That SQLite
            // rolled back by itself, as it does on a full disk, is no second error.
            if tx.rollback().await.is_err() {
                tracing::debug!("the transaction had ended before it was rolled back");
            }
            Err(error)
        }
    }
}

/// What `pragma synchronous` shows for FULL.
const SYNCHRONOUS_FULL: i64 = 2;

async fn synchronous(connection: &mut SqliteConnection) -> Result<i64> {
    let row = sqlx::query("pragma synchronous").fetch_one(connection).await.map_err(classify)?;
    row.try_get_unchecked(0).map_err(classify)
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
}

#[async_trait]
impl Admin for SqliteStore {
    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
        admin::counts(self, now).await
    }

    async fn list(&self, filter: Filter) -> Result<Vec<pillarbox_core::Entry>> {
        admin::list(self, filter).await
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
        change::requeue(self, request).await
    }

    async fn discard(&self, request: SelectionRequest) -> Result<Changed> {
        change::discard(self, request).await
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
