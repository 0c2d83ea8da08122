//! From a URL to connections: where the file is, which users may read it, and how durable a write is.

use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use pillarbox_core::port::Pool;
use pillarbox_core::{Error, ErrorKind, Result};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Executor, SqlitePool};
use tokio::time::sleep;

use crate::call::{Writer, is_reusable};
use crate::error::classify;
use crate::options::Options;

/// Connections of the pool that applications and operators use.
const CONNECTIONS_MAX: u32 = 8;
/// Connections that lanes are read with: a reader uses one at a time, and a process has a reader per route.
const READERS_MAX: u32 = 4;
/// Rows that the driver's thread may be ahead of us. With fewer it waits in between; each takes several kilobytes.
const ROW_BUFFER: usize = 256;
/// The pages that a relay's connection keeps, in kibibytes, as SQLite wants them said. A relay goes through the file once,
/// in order: sixteen times as much was no faster and made it exceed its memory.
const CACHE: &str = "-1000";

/// SQLite itself does not ask for the lock again: its pauses would grow to a tenth of a second.
const ASK_ONCE: &str = "pragma busy_timeout = 0";

/// What SQLite can count, in milliseconds.
const BUSY_TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// Between two attempts to turn a file to its write-ahead log, which takes the other one as long as a write.
const TURN: Duration = Duration::from_millis(5);

/// Where a URL leads.
pub(crate) struct Target {
    connect: SqliteConnectOptions,
    busy_timeout: Duration,
    /// A database in memory lives as long as its one connection.
    pub(crate) in_memory: bool,
}

impl Target {
    /// Reads `sqlite://path`, `sqlite:path` or `sqlite::memory:`, with SQLite's `mode=ro`, `rw` or `rwc`.
    pub(crate) fn parse(url: &str, options: &Options) -> Result<Self> {
        let rest = url.strip_prefix("sqlite:").ok_or_else(malformed)?;
        let (path, query) =
            rest.trim_start_matches("//").split_once('?').unwrap_or((rest.trim_start_matches("//"), ""));
        let mode = query.split('&').find_map(|pair| pair.strip_prefix("mode="));
        let in_memory = path == ":memory:" || mode == Some("memory");
        if path.is_empty() {
            return Err(malformed());
        }
        let busy_timeout = options.busy_timeout.min(BUSY_TIMEOUT_MAX);
        let mut connect = SqliteConnectOptions::from_str(url)
            .map_err(|_| malformed())?
            .busy_timeout(busy_timeout)
            .synchronous(SqliteSynchronous::Full)
            .row_buffer_size(ROW_BUFFER)
            .disable_statement_logging();
        if mode.is_none() || mode == Some("rwc") {
            connect = connect.create_if_missing(true);
        }
        if !in_memory && matches!(mode, None | Some("rwc")) {
            create_private(connect.get_filename())?;
        }
        if !in_memory && mode != Some("ro") {
            connect = connect.journal_mode(SqliteJournalMode::Wal);
        }
        Ok(Self { connect, busy_timeout, in_memory })
    }

    /// The pool for applications: every commit is on disk when it returns. The first one to be opened.
    ///
    /// The first connection of all turns the file to its write-ahead log, for which SQLite does not wait: while
    /// anybody else is at the file it fails at once, whatever the busy timeout. So the waiting is done here.
    pub(crate) async fn durable_pool(&self) -> Result<SqlitePool> {
        let started = Instant::now();
        loop {
            match self.open_durable_pool().await {
                Err(error)
                    if error.kind() == ErrorKind::Contention && started.elapsed() < self.busy_timeout =>
                {
                    sleep(TURN).await;
                }
                opened => return opened,
            }
        }
    }

    async fn open_durable_pool(&self) -> Result<SqlitePool> {
        let pool = SqlitePoolOptions::new()
            .max_connections(if self.in_memory { 1 } else { CONNECTIONS_MAX })
            .after_release(|connection, _| Box::pin(is_reusable(connection)));
        let pool = if self.in_memory { pool.idle_timeout(None).max_lifetime(None) } else { pool };
        pool.connect_with(self.connect.clone()).await.map_err(classify)
    }

    /// Connections that lanes are read with, opened when they are needed.
    pub(crate) fn reading_pool(&self) -> SqlitePool {
        SqlitePoolOptions::new()
            .max_connections(READERS_MAX)
            .test_before_acquire(false)
            .connect_lazy_with(self.connect.clone().pragma("cache_size", CACHE))
    }

    /// The one connection to write with.
    pub(crate) async fn writer(&self) -> Result<Writer> {
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false)
            // Not before it is open: a connection that opens a file may have to wait for another one that
            // recovers it.
            .after_connect(|connection, _| Box::pin(async { connection.execute(ASK_ONCE).await.map(|_| ()) }))
            .after_release(|connection, _| Box::pin(is_reusable(connection)))
            // What a statement in a transaction would undo if it failed half-way: by default SQLite writes it to a file,
            // for a claim of five hundred more than half as much again as the claim.
            .connect_with(self.connect.clone().pragma("cache_size", CACHE).pragma("temp_store", "memory"))
            .await
            .map_err(classify)?;
        Ok(Writer::line(pool, self.busy_timeout))
    }
}

/// The connections of a pool.
pub(crate) fn connections(pool: &SqlitePool) -> Pool {
    let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
    let max = pool.options().get_max_connections();
    // Both change meanwhile, and are read one after the other.
    Pool { open: pool.size().max(idle), idle, max }
}

/// A pool for applications that stage. It uses the write-ahead log, every commit is on disk when it returns,
/// and the [busy timeout](Options::busy_timeout) is the default. If the file does not exist, it is created,
/// readable and writable by its owner only.
///
/// If a transaction reads before it writes, begin it with `pool.begin_with("BEGIN IMMEDIATE")`. SQLite cannot
/// turn a reader into a writer when another transaction wrote in between. Transactions of this pool poll the
/// lock of the file. Where many transactions write at the same time, use
/// [`SqliteStore::begin`](crate::SqliteStore::begin), which queues them.
///
/// # Errors
/// [`Invalid`](ErrorKind::Invalid) for a URL that is not a SQLite URL. Also any error of the database.
pub async fn app_pool(url: &str) -> Result<SqlitePool> {
    Target::parse(url, &Options::default())?.durable_pool().await
}

/// Makes a missing file that only its owner can read; SQLite gives the log files the same rights.
fn create_private(path: &Path) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::new(
            match error.kind() {
                std::io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                _ => ErrorKind::Unavailable,
            },
            format!("the database file cannot be created: {}", error.kind()),
        )),
    }
}

fn malformed() -> Error {
    Error::invalid(
        "the URL does not name a SQLite database; write sqlite://path, sqlite:path or sqlite::memory:",
    )
}
