//! The one way in which a call reaches the file: the write lock, of which there is one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::{Error, ErrorKind, Result};
use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Connection, Row, Sqlite, SqliteConnection, SqlitePool};
use tokio::time::{Instant, sleep, sleep_until};

use crate::commit::{Tx, end};
use crate::error::classify;
use crate::file::OpenFile;
use crate::patience::patiently;

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
/// SQLite lets one writer in at a time and keeps no queue: a connection that finds the lock taken sleeps for
/// longer and longer, up to a tenth of a second, and may be passed by any number of others meanwhile. So a
/// store has one connection to write with, for which all callers in this process queue in order; and the
/// first in that queue asks the file, where others may write, every millisecond.
#[derive(Clone)]
pub(crate) struct Writer {
    pool: SqlitePool,
    /// On an application's pool the waiting is left to SQLite.
    line: Option<Arc<WriteLine>>,
    /// What was opened, if it can be told from what is there now.
    file: Option<Arc<OpenFile>>,
}

impl Writer {
    /// A line of our own: a pool of one connection that does not wait for the lock itself. `patience` is how long we do.
    pub(crate) fn line(pool: SqlitePool, patience: Duration) -> Self {
        let file = open_file(&pool);
        Self { pool, line: Some(Arc::new(WriteLine::new(patience))), file }
    }

    /// A pool of the application's.
    pub(crate) fn shared(pool: SqlitePool) -> Self {
        let file = open_file(&pool);
        Self { pool, line: None, file }
    }

    /// Refuses to go on in a file that was deleted or replaced.
    pub(crate) fn check_file(&self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| file.check())
    }

    /// The pool of a line of our own; `None` on an application's pool.
    pub(crate) fn own_pool(&self) -> Option<&SqlitePool> {
        self.line.as_ref().map(|_| &self.pool)
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// Begins a transaction of the application's: it has the lock, and its commit is on disk when it returns, unless the
    /// pool is the application's and says otherwise.
    pub(crate) async fn begin(&self) -> Result<Tx<'static>> {
        self.check_file()?;
        // The driver gives the connection back when it does not get the lock: without this, the next caller
        // in the queue would get it.
        let _place = self.place().await;
        let started = Instant::now();
        loop {
            match self.pool.begin_with(self.beginning(Commit::Durable)).await.map_err(classify) {
                Err(error) if self.asks_again(&error, started) => sleep(ASK_EVERY).await,
                begun => return begun,
            }
        }
    }

    /// Runs a step in a transaction that has the lock, so that what the step reads is what it changes.
    pub(crate) async fn together<S: UnitOfWork>(&self, step: S) -> Result<S::Outcome> {
        self.run(step, Commit::Relaxed, &mut *self.turn().await?).await
    }

    /// The same for a step that must be on disk when the call returns, whatever the pool.
    pub(crate) async fn durably<S: UnitOfWork>(&self, step: S) -> Result<S::Outcome> {
        let mut turn = self.turn().await?;
        // Of an application's pool only the pragma tells; it must be left as it was found. A future dropped half-way
        // leaves a connection that goes on waiting for the disk: slower, never less safe.
        let relax = self.line.is_none() && synchronous(&mut turn).await? < SYNCHRONOUS_FULL;
        if relax {
            sqlx::query("pragma synchronous = full").execute(&mut *turn).await.map_err(classify)?;
        }
        let outcome = self.run(step, Commit::Durable, &mut turn).await;
        if relax && sqlx::query("pragma synchronous = normal").execute(&mut *turn).await.is_err() {
            tracing::debug!(
                "PRAGMA synchronous could not be set back to normal; this connection stays slower than it \
                 could be"
            );
        }
        outcome
    }

    /// Runs one statement, and returns how many rows have changed.
    pub(crate) async fn execute(&self, statement: Statement) -> Result<u64> {
        self.together(Execute(statement)).await
    }

    /// Runs one statement, and has the changed rows told.
    pub(crate) async fn fetch_all(&self, statement: Statement) -> Result<Vec<SqliteRow>> {
        self.together(FetchAll(statement)).await
    }

    /// The head of the line, in the order of coming. Kept until the connection is had for good.
    async fn place(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        match &self.line {
            Some(line) => Some(line.head.lock().await),
            None => None,
        }
    }

    /// The connection, when it is our turn.
    async fn turn(&self) -> Result<PoolConnection<Sqlite>> {
        self.check_file()?;
        let _place = self.place().await;
        loop {
            let mut connection = self.pool.acquire().await.map_err(classify)?;
            if is_reusable(&mut connection).await.map_err(classify)? {
                return Ok(connection);
            }
            connection.close().await.map_err(classify)?;
        }
    }

    async fn run<S: UnitOfWork>(
        &self,
        step: S,
        commit: Commit,
        turn: &mut SqliteConnection,
    ) -> Result<S::Outcome> {
        if let (Some(line), Commit::Relaxed) = (&self.line, commit) {
            line.leave_room().await;
        }
        let started = Instant::now();
        loop {
            match turn.begin_with(self.beginning(commit)).await.map_err(classify) {
                Ok(mut tx) => {
                    let locked = Instant::now();
                    let outcome = step.run(&mut tx).await;
                    let outcome = end(tx, outcome, S::stands).await;
                    self.line.iter().for_each(|line| line.had_the_lock(locked));
                    return outcome;
                }
                Err(error) if self.asks_again(&error, started) => sleep(ASK_EVERY).await,
                Err(error) => return Err(error),
            }
        }
    }

    fn beginning(&self, commit: Commit) -> &'static str {
        match (&self.line, commit) {
            (None, _) => "BEGIN IMMEDIATE",
            (Some(_), Commit::Durable) => "PRAGMA synchronous = FULL; BEGIN IMMEDIATE",
            (Some(_), Commit::Relaxed) => "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE",
        }
    }

    fn asks_again(&self, error: &Error, started: Instant) -> bool {
        let Some(line) = self.line.as_ref().filter(|_| error.kind() == ErrorKind::Contention) else {
            return false;
        };
        line.met_others();
        started.elapsed() < line.patience
    }
}

fn open_file(pool: &SqlitePool) -> Option<Arc<OpenFile>> {
    OpenFile::at(pool.connect_options().get_filename()).map(Arc::new)
}

/// The pause between two tries for a lock that another process has.
const ASK_EVERY: Duration = Duration::from_millis(1);
/// How long another process that was seen to have the lock is taken into account.
const OTHERS_FOR: Duration = Duration::from_secs(1);
/// The most room that is left to them at once.
const ROOM_MAX: Duration = Duration::from_millis(20);

/// The state of the lock, and whether other processes write to the file.
///
/// A relay with a backlog has the lock nearly always. Other processes poll for it and would find it free by
/// luck only. So once another process was seen to have it, a relay leaves it alone for as long as it had it
/// itself.
struct WriteLine {
    /// How long to ask for the lock.
    patience: Duration,
    /// The first in the queue has it. The queue is fair.
    head: tokio::sync::Mutex<()>,
    seen: Mutex<Seen>,
}

struct Seen {
    /// When another process had the lock.
    others: Option<Instant>,
    /// When we last gave it back, and how long we had had it.
    freed: Instant,
    had: Duration,
}

impl WriteLine {
    fn new(patience: Duration) -> Self {
        let seen = Seen { others: None, freed: Instant::now(), had: Duration::ZERO };
        Self { patience, head: tokio::sync::Mutex::new(()), seen: Mutex::new(seen) }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn met_others(&self) {
        self.seen().others = Some(Instant::now());
    }

    fn had_the_lock(&self, since: Instant) {
        let mut seen = self.seen();
        (seen.freed, seen.had) = (Instant::now(), since.elapsed());
    }

    async fn leave_room(&self) {
        let room = {
            let seen = self.seen();
            let others = seen.others.is_some_and(|met| met.elapsed() < OTHERS_FOR);
            others.then(|| seen.freed + seen.had.min(ROOM_MAX))
        };
        if let Some(until) = room {
            sleep_until(until).await;
        }
    }
}

/// Statements that happen together or not at all.
#[async_trait]
pub(crate) trait UnitOfWork: Send {
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
impl UnitOfWork for Execute {
    type Outcome = u64;

    async fn run(self, tx: &mut SqliteConnection) -> Result<u64> {
        self.0.execute(tx).await.map(|done| done.rows_affected()).map_err(classify)
    }
}

struct FetchAll(Statement);

#[async_trait]
impl UnitOfWork for FetchAll {
    type Outcome = Vec<SqliteRow>;

    async fn run(self, tx: &mut SqliteConnection) -> Result<Vec<SqliteRow>> {
        patiently(self.0.fetch_all(tx)).await.map_err(classify)
    }
}

/// Whether a connection that comes back to its pool can serve the next caller.
///
/// SQLite ends a transaction by itself when the disk is full. The driver then still counts it as open and would
/// begin the next one as a savepoint that nothing ends.
pub(crate) async fn is_reusable(connection: &mut SqliteConnection) -> sqlx::Result<bool> {
    if connection.is_in_transaction() {
        // A rollback may still be under way in the connection's thread; the ping comes after it.
        connection.ping().await?;
    }
    Ok(!connection.is_in_transaction())
}

/// What `pragma synchronous` shows for FULL.
const SYNCHRONOUS_FULL: i64 = 2;

async fn synchronous(connection: &mut SqliteConnection) -> Result<i64> {
    let row = sqlx::query("pragma synchronous").fetch_one(connection).await.map_err(classify)?;
    row.try_get_unchecked(0).map_err(classify)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pillarbox_core::ErrorKind;
    use tokio::time::{Instant, advance};

    use super::{OTHERS_FOR, ROOM_MAX, WriteLine};
    use crate::{Options, SqliteStore};

    /// How long a relay waits before it takes the lock, after it had it for so long.
    async fn room(line: &WriteLine, had: Duration) -> Duration {
        let since = Instant::now();
        advance(had).await;
        line.had_the_lock(since);
        let freed = Instant::now();
        line.leave_room().await;
        freed.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_leaves_as_much_room_as_it_took_while_others_write() {
        let (line, had) = (WriteLine::new(Duration::ZERO), Duration::from_millis(7));
        assert_eq!(room(&line, had).await, Duration::ZERO, "nobody else is there");
        line.met_others();
        assert_eq!(room(&line, had).await, had);
        assert_eq!(room(&line, ROOM_MAX * 5).await, ROOM_MAX);
        advance(ROOM_MAX).await;
        let started = Instant::now();
        line.leave_room().await;
        assert_eq!(started.elapsed(), Duration::ZERO, "there was room enough");
        advance(OTHERS_FOR).await;
        assert_eq!(room(&line, had).await, Duration::ZERO, "they are gone");
    }

    #[tokio::test]
    async fn whoever_else_has_the_lock_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("x.db").display());
        let options = Options::default().busy_timeout(Duration::ZERO);
        let store = SqliteStore::connect(&url, options.clone()).await.unwrap();
        let noticed = || store.writer.line.as_ref().unwrap().seen().others.is_some();
        store.begin().await.unwrap().rollback().await.unwrap();
        assert!(!noticed());
        let theirs = SqliteStore::connect(&url, options).await.unwrap().begin().await.unwrap();
        assert_eq!(store.begin().await.unwrap_err().kind(), ErrorKind::Contention);
        assert!(noticed());
        theirs.rollback().await.unwrap();
    }
}
