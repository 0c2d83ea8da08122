//! The one way in which a call reaches the server.

use std::time::Duration;

use futures_util::TryStreamExt;
use pillarbox_core::{Error, ErrorKind, Result, Retry};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Connection, Either, Executor, PgConnection, Postgres};
use tokio::time::timeout;

use crate::error::{Phase, classify};
use crate::options::Mode;
pub(crate) use crate::options::Traffic;
use crate::sql::Sql;
use crate::store::PostgresStore;

/// What the client waits beyond the server's own timeouts before it gives a silent connection up.
const SILENCE: Duration = Duration::from_secs(5);

/// Whether a call may be sent again when its connection broke.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// Only if the server said that nothing happened.
    IfUndone,
    /// Always: doing it twice is doing it once.
    Always,
}

impl PostgresStore {
    /// Runs one statement and commits it.
    pub(crate) async fn run(
        &self,
        line: Traffic,
        again: Again,
        sql: &Sql,
        arguments: PgArguments,
    ) -> Result<Vec<PgRow>> {
        self.run_each(line, again, sql, arguments, keep).await
    }

    /// The same; each row is put into the answer when it comes, while the server looks for the next ones.
    pub(crate) async fn run_each<T: Default + Send>(
        &self,
        line: Traffic,
        again: Again,
        sql: &Sql,
        arguments: PgArguments,
        put: impl Fn(&mut T, PgRow) -> sqlx::Result<()> + Sync,
    ) -> Result<T> {
        let held = self.acquire(line).await?;
        let error = match self.attempt(held, line, again, sql.with(arguments.clone()), &put).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => error,
            answer => return answer,
        };
        // A server that says itself that it ends the connection has undone the statement.
        let undone = error.retry() == Retry::Later && error.code().is_some();
        if !undone && again == Again::IfUndone {
            return Err(error);
        }
        tracing::debug!(%error, "the connection broke; the call is repeated on a new one");
        let held = self.acquire_tested(line).await?;
        self.attempt(held, line, again, sql.with(arguments), &put).await
    }

    /// Begins a transaction of several statements. Dropped without a commit, it is rolled back.
    pub(crate) async fn unit(&self, line: Traffic) -> Result<Unit> {
        let held = self.acquire(line).await?;
        match Unit::begin(held, self.begin_script(line), self.patience()).await {
            Err(error) if error.kind() == ErrorKind::Unavailable && error.retry() == Retry::Later => {
                self.unit_again(line, &error).await
            }
            answer => answer,
        }
    }

    /// The same on a new connection, after that of the first one broke with this error.
    pub(crate) async fn unit_again(&self, line: Traffic, error: &Error) -> Result<Unit> {
        tracing::debug!(%error, "the connection broke; the call is repeated on a new one");
        let held = self.acquire_tested(line).await?;
        Unit::begin(held, self.begin_script(line), self.patience()).await
    }

    /// How long the client waits for one answer.
    fn patience(&self) -> Duration {
        self.options().statement_timeout.saturating_add(SILENCE)
    }

    async fn attempt<T: Default + Send>(
        &self,
        held: CheckedOut,
        line: Traffic,
        again: Again,
        query: Statement,
        put: &(impl Fn(&mut T, PgRow) -> sqlx::Result<()> + Sync),
    ) -> Result<T> {
        let lost = if again == Again::Always { Phase::Before } else { Phase::Committing };
        let work = async {
            match self.mode() {
                Mode::Direct => held.run_alone(query, lost, put).await,
                Mode::Pooled => {
                    let mut unit = Unit::begin(held, self.begin_script(line), self.patience()).await?;
                    let rows = unit.each(query, put).await?;
                    unit.commit(lost).await?;
                    Ok(rows)
                }
            }
        };
        // When it takes too long the work is dropped, and its silent connection with it.
        timeout(self.patience(), work).await.unwrap_or_else(|_| {
            let retry = if again == Again::Always { Retry::Later } else { Retry::Unknown };
            Err(silent().with_retry(retry))
        })
    }

    async fn acquire(&self, line: Traffic) -> Result<CheckedOut> {
        let connection = self.line(line).acquire().await.map_err(|error| classify(error, Phase::Before))?;
        Ok(CheckedOut { connection, reusable: false })
    }

    /// A connection that has just answered. Every broken one of the pool may come up once; after that a new
    /// one is opened.
    async fn acquire_tested(&self, line: Traffic) -> Result<CheckedOut> {
        for _ in 0..=self.line(line).size() {
            let mut held = self.acquire(line).await?;
            if held.connection.ping().await.is_ok() {
                return Ok(held);
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "none of the connections to the database answers"))
    }
}

/// A statement with its values.
type Statement = Query<'static, Postgres, PgArguments>;

async fn collect<T: Default>(
    query: Statement,
    connection: &mut PgConnection,
    put: &(impl Fn(&mut T, PgRow) -> sqlx::Result<()> + Sync),
) -> sqlx::Result<T> {
    // Not `fetch`, which is one more stream around this one, and is asked for each row.
    let mut steps = connection.fetch_many(query);
    let mut answer = T::default();
    while let Some(step) = steps.try_next().await? {
        if let Either::Right(row) = step {
            put(&mut answer, row)?;
        }
    }
    Ok(answer)
}

#[expect(clippy::unnecessary_wraps, reason = "others can fail")]
fn keep(rows: &mut Vec<PgRow>, row: PgRow) -> sqlx::Result<()> {
    rows.push(row);
    Ok(())
}

fn silent() -> Error {
    Error::new(ErrorKind::Timeout, "the database did not answer in time")
}

/// A connection during one call. A call that is dropped half-way takes its connection with it: nobody can know
/// what is still under way on it.
struct CheckedOut {
    connection: PoolConnection<Postgres>,
    reusable: bool,
}

impl Drop for CheckedOut {
    fn drop(&mut self) {
        if !self.reusable {
            self.connection.close_on_drop();
        }
    }
}

impl CheckedOut {
    async fn run_alone<T: Default + Send>(
        mut self,
        query: Statement,
        lost: Phase,
        put: &(impl Fn(&mut T, PgRow) -> sqlx::Result<()> + Sync),
    ) -> Result<T> {
        let answer = collect(query, &mut self.connection, put).await;
        let answer = answer.map_err(|error| classify(error, lost));
        // An error that is about the statement leaves the connection as good as it was.
        self.reusable = match &answer {
            Ok(_) => true,
            Err(error) => error.code().is_some() && error.kind() != ErrorKind::Unavailable,
        };
        answer
    }
}

/// A transaction of a call's own. Its statements are unnamed: nothing is left in a session that a pooler may
/// hand on to another caller.
pub(crate) struct Unit {
    held: CheckedOut,
    patience: Duration,
}

impl Unit {
    async fn begin(mut held: CheckedOut, begin: &Sql, patience: Duration) -> Result<Self> {
        // Not the driver's own `begin`: cancelled half-way, that one gives an open transaction back to the pool.
        let begun = timeout(patience, begin.script().execute(&mut *held.connection)).await;
        begun.map_err(|_| silent())?.map_err(|error| classify(error, Phase::Before))?;
        Ok(Self { held, patience })
    }

    /// Waits for as long as the server takes: for migrations.
    pub(crate) fn patiently(mut self) -> Self {
        self.patience = Duration::MAX;
        self
    }

    pub(crate) async fn rows(&mut self, sql: &Sql, arguments: PgArguments) -> Result<Vec<PgRow>> {
        self.each(sql.with(arguments), &keep).await
    }

    async fn each<T: Default + Send>(
        &mut self,
        query: Statement,
        put: &(impl Fn(&mut T, PgRow) -> sqlx::Result<()> + Sync),
    ) -> Result<T> {
        let rows = collect(query.persistent(false), &mut self.held.connection, put);
        let answer = timeout(self.patience, rows).await;
        self.or_rollback(answer.map_err(|_| silent())?).await
    }

    pub(crate) async fn script(&mut self, sql: &Sql) -> Result<()> {
        let answer = sql.script().execute(self.connection()).await;
        self.or_rollback(answer).await.map(|_| ())
    }

    /// A failed statement ends the transaction at once: its locks do not wait for the connection to close.
    async fn or_rollback<T>(&mut self, answer: sqlx::Result<T>) -> Result<T> {
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.held.reusable = sqlx::raw_sql("rollback").execute(self.connection()).await.is_ok();
                Err(classify(error, Phase::Before))
            }
        }
    }

    fn connection(&mut self) -> &mut PgConnection {
        &mut self.held.connection
    }

    pub(crate) async fn commit(mut self, lost: Phase) -> Result<()> {
        sqlx::raw_sql("commit").execute(self.connection()).await.map_err(|error| classify(error, lost))?;
        self.held.reusable = true;
        Ok(())
    }
}
