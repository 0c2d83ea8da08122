//! The way to the write lock of the file, of which there is one.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use pillarbox_core::{Error, ErrorKind, Result};
use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Connection, Row, Sqlite, SqliteConnection, SqlitePool, Transaction};

use crate::connect::is_reusable;
use crate::error::{classify, classify_commit};
use crate::patience::patiently;

/// A transaction that has the write lock: also what callbacks and audit sinks write in.
pub(crate) type Tx = Transaction<'static, Sqlite>;

/// What a commit waits for.
#[derive(Clone, Copy)]
enum Commit {
    /// It is on disk when it returns.
    Durable,
    /// It may be lost with the machine; never before the ones ahead of it.
    Relaxed,
}

/// Where everything is written.
///
/// SQLite lets one writer in at a time and keeps no line: who finds the lock taken sleeps for longer and longer, up
/// to a tenth of a second, and may be passed by any number of others meanwhile. So a store has one connection to
/// write with, at which everybody in this process waits in the order of coming; and who is first in that line asks the
/// file, where other processes may write, every few milliseconds.
#[derive(Clone)]
pub(crate) struct Writer {
    pool: SqlitePool,
    /// How long to ask for the lock, if the connection is ours. On an application's pool the waiting is left to SQLite.
    patience: Option<Duration>,
}

impl Writer {
    /// A line of our own: a pool of one connection that gives up waiting for the lock soon.
    pub(crate) fn line(pool: SqlitePool, patience: Duration) -> Self {
        Self { pool, patience: Some(patience) }
    }

    /// A pool of the application's.
    pub(crate) fn shared(pool: SqlitePool) -> Self {
        Self { pool, patience: None }
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// Begins a transaction of the application's: it has the lock, and its commit is on disk when it returns, unless the
    /// pool is the application's and says otherwise.
    pub(crate) async fn begin(&self) -> Result<Tx> {
        let started = Instant::now();
        loop {
            match self.pool.begin_with(self.beginning(Commit::Durable)).await.map_err(classify) {
                Err(error) if self.asks_again(&error, started) => {}
                begun => return begun,
            }
        }
    }

    /// Runs a step in a transaction that has the lock, so that what the step reads is what it changes.
    pub(crate) async fn together<S: Step>(&self, step: S) -> Result<S::Outcome> {
        self.run(step, Commit::Relaxed, &mut *self.turn().await?).await
    }

    /// The same for a step that must be on disk when the call returns, whatever the pool.
    pub(crate) async fn durably<S: Step>(&self, step: S) -> Result<S::Outcome> {
        let mut turn = self.turn().await?;
        // Of an application's pool only the pragma tells; it must be left as it was found. A future dropped half-way
        // leaves a connection that goes on waiting for the disk: slower, never less safe.
        let relax = self.patience.is_none() && synchronous(&mut turn).await? < SYNCHRONOUS_FULL;
        if relax {
            sqlx::query("pragma synchronous = full").execute(&mut *turn).await.map_err(classify)?;
        }
        let outcome = self.run(step, Commit::Durable, &mut turn).await;
        if relax && sqlx::query("pragma synchronous = normal").execute(&mut *turn).await.is_err() {
            tracing::debug!("a connection of the store stays slower than it could be");
        }
        outcome
    }

    /// Runs one statement; so many rows have changed.
    pub(crate) async fn execute(&self, statement: Statement) -> Result<u64> {
        self.together(Execute(statement)).await
    }

    /// Runs one statement, and has the changed rows told.
    pub(crate) async fn fetch_all(&self, statement: Statement) -> Result<Vec<SqliteRow>> {
        self.together(FetchAll(statement)).await
    }

    /// The connection, when it is our turn.
    async fn turn(&self) -> Result<PoolConnection<Sqlite>> {
        loop {
            let mut connection = self.pool.acquire().await.map_err(classify)?;
            if is_reusable(&mut connection).await.map_err(classify)? {
                return Ok(connection);
            }
            connection.close().await.map_err(classify)?;
        }
    }

    async fn run<S: Step>(&self, step: S, commit: Commit, turn: &mut SqliteConnection) -> Result<S::Outcome> {
        let started = Instant::now();
        loop {
            match turn.begin_with(self.beginning(commit)).await.map_err(classify) {
                Ok(mut tx) => {
                    let outcome = step.run(&mut tx).await;
                    return end(tx, outcome, S::stands).await;
                }
                Err(error) if self.asks_again(&error, started) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn beginning(&self, commit: Commit) -> &'static str {
        match (self.patience, commit) {
            (None, _) => "BEGIN IMMEDIATE",
            (Some(_), Commit::Durable) => "PRAGMA synchronous = FULL; BEGIN IMMEDIATE",
            (Some(_), Commit::Relaxed) => "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE",
        }
    }

    fn asks_again(&self, error: &Error, started: Instant) -> bool {
        error.kind() == ErrorKind::Contention
            && self.patience.is_some_and(|patience| started.elapsed() < patience)
    }
}

/// Statements that happen together or not at all.
#[async_trait]
pub(crate) trait Step: Send {
    /// What the step found or did.
    type Outcome: Send;

    /// Runs the statements; an error rolls all of them back.
    async fn run(self, tx: &mut SqliteConnection) -> Result<Self::Outcome>;

    /// Whether what was done is to stand; if not, it is rolled back.
    fn stands(_outcome: &Self::Outcome) -> bool {
        true
    }
}

/// One statement with its values.
pub(crate) type Statement = Query<'static, Sqlite, SqliteArguments>;

struct Execute(Statement);

#[async_trait]
impl Step for Execute {
    type Outcome = u64;

    async fn run(self, tx: &mut SqliteConnection) -> Result<u64> {
        self.0.execute(tx).await.map(|done| done.rows_affected()).map_err(classify)
    }
}

struct FetchAll(Statement);

#[async_trait]
impl Step for FetchAll {
    type Outcome = Vec<SqliteRow>;

    async fn run(self, tx: &mut SqliteConnection) -> Result<Vec<SqliteRow>> {
        patiently(self.0.fetch_all(tx)).await.map_err(classify)
    }
}

/// Commits what stands, or rolls back: now and not in the background, because who sees the error may count on the lock
/// being free.
pub(crate) async fn end<T>(
    tx: Transaction<'_, Sqlite>,
    outcome: Result<T>,
    stands: impl FnOnce(&T) -> bool,
) -> Result<T> {
    match outcome {
        Ok(outcome) if stands(&outcome) => tx.commit().await.map_err(classify_commit).map(|()| outcome),
        outcome => {
            // That SQLite rolled back by itself, as it does on a full disk, is no second error.
            if tx.rollback().await.is_err() {
                tracing::debug!("the transaction had ended before it was rolled back");
            }
            outcome
        }
    }
}

/// What `pragma synchronous` shows for FULL.
const SYNCHRONOUS_FULL: i64 = 2;

async fn synchronous(connection: &mut SqliteConnection) -> Result<i64> {
    let row = sqlx::query("pragma synchronous").fetch_one(connection).await.map_err(classify)?;
    row.try_get_unchecked(0).map_err(classify)
}
