//! The one way in which a call reaches the server.

use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::{Error, ErrorKind, Result, Retry};
use pillarbox_host::Changed;
use sqlx::mysql::MySqlRow;
use sqlx::pool::PoolConnection;
use sqlx::{MySql, MySqlConnection, MySqlPool};
use tokio::time::{sleep, timeout};

use crate::commit::{BEGIN, BEGIN_READ_COMMITTED, Tx};
use crate::error::{Phase, classify};
pub(crate) use crate::options::Traffic;
use crate::sql::{Bound, script};
use crate::store::MySqlStore;

/// What the client waits beyond the server's own timeouts before it gives a silent connection up.
const SILENCE: Duration = Duration::from_secs(5);
/// How often a transaction of our own is tried while others are in its way. On a cluster that is told at the COMMIT.
pub(crate) const TRIES: u32 = 16;
/// How often one is tried that waited for a lock until the timeout.
const TRIES_LOCKED: u32 = 2;
/// The pause before the second try; twice as long before each further one, up to the most.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Statements that happen together or not at all. They run again if another transaction was in their way.
#[async_trait]
pub(crate) trait UnitOfWork: Send + Sync {
    /// What the step found or did.
    type Outcome: Send;

    /// Runs the statements; an error rolls all of them back.
    async fn run(&self, tx: &mut MySqlConnection) -> Result<Self::Outcome>;

    /// Whether what was done is to stand; if not, it is rolled back.
    fn stands(&self, _outcome: &Self::Outcome) -> bool {
        true
    }
}

impl MySqlStore {
    /// Runs a step in a transaction. Nothing of it is handed on before the commit has succeeded.
    pub(crate) async fn together<S: UnitOfWork>(&self, line: Traffic, step: &S) -> Result<S::Outcome> {
        let mut tries = Tries::default();
        loop {
            match self.attempt(line, step, &mut tries).await {
                Err(error) if tries.again(&error) => tries.pause().await,
                answer => return answer,
            }
        }
    }

    /// Runs one statement that commits by itself. Doing it twice must be doing it once.
    pub(crate) async fn execute(&self, statement: &Bound) -> Result<Changed> {
        let mut tries = Tries::default();
        loop {
            let mut held = self.acquire(Traffic::Reading, &mut tries).await?;
            let done = timeout(self.patience(), statement.execute(&mut held.connection)).await;
            match held.keep_if_whole(done.unwrap_or_else(|_| Err(silent()))) {
                Err(error) if tries.again(&error) => tries.pause().await,
                answer => return answer,
            }
        }
    }

    /// Reads with one statement.
    pub(crate) async fn rows(&self, line: Traffic, statement: &Bound) -> Result<Vec<MySqlRow>> {
        let mut tries = Tries::default();
        loop {
            let mut held = self.acquire(line, &mut tries).await?;
            let rows = timeout(self.patience(), statement.rows(&mut held.connection)).await;
            match held.keep_if_whole(rows.unwrap_or_else(|_| Err(silent()))) {
                Err(error) if tries.again(&error) => tries.pause().await,
                answer => return answer,
            }
        }
    }

    /// How to begin a transaction, if it needs to be said.
    pub(crate) fn beginning(&self, line: Traffic) -> Option<&'static str> {
        match self.owns_connections() {
            true if line.begins_by_itself() => None,
            true => Some(BEGIN),
            false => Some(BEGIN_READ_COMMITTED),
        }
    }

    async fn attempt<S: UnitOfWork>(&self, line: Traffic, step: &S, tries: &mut Tries) -> Result<S::Outcome> {
        let mut held = self.acquire(line, tries).await?;
        let run = async {
            if let Some(begin) = self.beginning(line) {
                script(begin)
                    .execute(&mut *held.connection)
                    .await
                    .map_err(|error| classify(error, Phase::Before))?;
            }
            step.run(&mut held.connection).await
        };
        // When it takes too long the work is dropped, and its silent connection with it.
        let outcome = timeout(self.patience(), run).await.unwrap_or_else(|_| Err(silent()));
        let stands = outcome.as_ref().is_ok_and(|outcome| step.stands(outcome));
        let (end, phase) = if stands { ("commit", Phase::Committing) } else { ("rollback", Phase::Before) };
        let ended = timeout(self.patience(), script(end).execute(&mut *held.connection)).await;
        let ended =
            ended.map_err(|_| silent().with_retry(if stands { Retry::Unknown } else { Retry::Later }));
        let ended = ended.and_then(|ended| ended.map_err(|error| classify(error, phase)));
        held.reusable = ended.is_ok();
        match outcome {
            Ok(outcome) => ended.map(|_| outcome),
            Err(error) => Err(error),
        }
    }

    /// How long the client waits for one answer.
    fn patience(&self) -> Duration {
        self.options().statement_timeout.saturating_add(SILENCE)
    }

    async fn acquire(&self, line: Traffic, tries: &mut Tries) -> Result<CheckedOut> {
        let pool = self.line(line);
        tries.take_from(pool);
        let connection = pool.acquire().await.map_err(|error| classify(error, Phase::Before))?;
        Ok(CheckedOut { connection, reusable: false })
    }
}

/// Begins a transaction of the driver's.
pub(crate) async fn begin(pool: &MySqlPool, how: &'static str) -> Result<Tx<'static>> {
    let mut tries = Tries::default();
    loop {
        tries.take_from(pool);
        match pool.begin_with(how).await.map_err(|error| classify(error, Phase::Before)) {
            Err(error) if tries.was_idle && tries.again(&error) => {}
            answer => return answer,
        }
    }
}

fn silent() -> Error {
    Error::new(ErrorKind::Timeout, "the database did not answer in time")
}

/// How often something of our own was tried.
#[derive(Default)]
pub(crate) struct Tries {
    conflicts: u32,
    locks: u32,
    breaks: u32,
    /// Whether the connection of this try may have lain in the pool.
    was_idle: bool,
}

impl Tries {
    fn take_from(&mut self, pool: &MySqlPool) {
        self.was_idle = pool.num_idle() > 0;
    }

    /// Whether it is worth another try: nothing has happened, and what was in the way may be gone.
    pub(crate) fn again(&mut self, error: &Error) -> bool {
        let (count, most) = match (error.kind(), error.code()) {
            (ErrorKind::Contention, Some("1205")) => (&mut self.locks, TRIES_LOCKED),
            (ErrorKind::Contention, _) => (&mut self.conflicts, TRIES),
            // A connection that broke before anything was committed. All that lay in the pool may have; a broken one
            // does not return there, so that this ends.
            (ErrorKind::Unavailable, _) if error.retry() == Retry::Later => {
                (&mut self.breaks, if self.was_idle { u32::MAX } else { 2 })
            }
            _ => return false,
        };
        *count += 1;
        let again = *count < most;
        if again {
            tracing::debug!(%error, "the call is repeated");
        }
        again
    }

    pub(crate) async fn pause(&self) {
        sleep(PAUSE.saturating_mul(1 << self.conflicts.min(10)).min(PAUSE_MAX)).await;
    }
}

/// A connection during one call. A call that is dropped half-way takes its connection with it: nobody can know
/// what is still under way on it.
struct CheckedOut {
    connection: PoolConnection<MySql>,
    reusable: bool,
}

impl CheckedOut {
    /// An error that is about the statement leaves the connection as good as it was.
    fn keep_if_whole<T>(mut self, answer: Result<T>) -> Result<T> {
        self.reusable = match &answer {
            Ok(_) => true,
            Err(error) => error.code().is_some() && error.kind() != ErrorKind::Unavailable,
        };
        answer
    }
}

impl Drop for CheckedOut {
    fn drop(&mut self) {
        if !self.reusable {
            self.connection.close_on_drop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_way_is_tried_again_and_not_for_ever() {
        let conflict = Error::new(ErrorKind::Contention, "x").with_code("1213");
        let mut tries = Tries::default();
        assert_eq!((0..100).filter(|_| tries.again(&conflict)).count(), TRIES as usize - 1);
        let locked = Error::new(ErrorKind::Contention, "x").with_code("1205");
        assert!(tries.again(&locked) && !tries.again(&locked));
        let broken = Error::new(ErrorKind::Unavailable, "x").with_retry(Retry::Later);
        let mut tries = Tries { was_idle: true, ..Tries::default() };
        assert!((0..100).all(|_| tries.again(&broken)), "any number of the pool may have broken");
        tries.was_idle = false;
        assert!(!tries.again(&broken), "a new one broke too");
        let unknown = Error::new(ErrorKind::Unavailable, "x").with_retry(Retry::Unknown);
        assert!(!tries.again(&unknown), "it may have been committed");
        assert!(!tries.again(&Error::new(ErrorKind::Schema, "x")));
    }
}
