//! The store: its settings and its connections.

use std::fmt;
use std::sync::Arc;

use pillarbox_core::Result;
use pillarbox_core::port::Pool;
use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqlitePool};

use crate::call::Writer;
use crate::connect::{Target, connections};
use crate::error::classify;
use crate::options::Options;
use crate::sql::Statements;
use crate::tables::Tables;

/// The outbox in a SQLite file, for relays and operators. Cheap to clone.
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
    /// If the file does not exist, it is created, readable and writable by its owner only, unless the URL
    /// says `mode=rw` or `mode=ro`. The tables are not created: see [`migrate`](Self::migrate).
    ///
    /// # Errors
    /// [`Invalid`](pillarbox_core::ErrorKind::Invalid) for a URL that is not a SQLite URL. Also any error of
    /// the database.
    ///
    /// ```
    /// use pillarbox_store_sqlite::{Options, SqliteStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> pillarbox_core::Result<()> {
    /// let store = SqliteStore::connect("sqlite::memory:", Options::default()).await?;
    /// store.migrate().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let target = Target::parse(url, &options)?;
        let pool = target.durable_pool().await?;
        if target.in_memory {
            return Self::new(pool, options);
        }
        let (writer, reading) = (target.writer().await?, target.reading_pool());
        Ok(Self { writer, reading, ..Self::new(pool, options)? })
    }

    /// A store on the application's own pool. The pool decides how durable claims and settles are. Deaths and
    /// the changes of operators are always on disk when the call returns.
    ///
    /// # Errors
    /// None today.
    pub fn new(pool: SqlitePool, options: Options) -> Result<Self> {
        Ok(Self {
            writer: Writer::shared(pool.clone()),
            reading: pool.clone(),
            pool,
            statements: Arc::new(Statements::new(Tables::new(&options))),
            options: Arc::new(options),
        })
    }

    /// The pool from which operators read. Applications may stage on it. If the store was made by
    /// [`connect`](Self::connect), every commit on it is on disk when it returns.
    #[must_use]
    pub fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    /// The settings. Give them to an outbox or inbox of the same tables.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Closes all connections. Later calls fail. When the last connection to a file closes, SQLite also
    /// removes its log.
    pub async fn close(&self) {
        self.writer.close().await;
        self.reading.close().await;
        self.pool.close().await;
    }

    /// The connections of all pools.
    pub(crate) fn all_pools(&self) -> Pool {
        match self.writer.own_pool() {
            Some(writer) => [writer, &self.reading, &self.pool]
                .map(connections)
                .into_iter()
                .fold(Pool::default(), Pool::and),
            None => connections(&self.pool),
        }
    }

    /// A connection to read with.
    pub(crate) async fn reader(&self) -> Result<PoolConnection<Sqlite>> {
        self.writer.check_file()?;
        self.reading.acquire().await.map_err(classify)
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("prefix", &self.statements.tables.prefix).finish_non_exhaustive()
    }
}
