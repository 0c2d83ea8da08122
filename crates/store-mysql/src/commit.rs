//! Ending a transaction: known to be committed, rolled back, or an error that says which.

use pillarbox_core::{Error, ErrorKind, Result, Retry};
use sqlx::{MySql, Transaction};

use crate::error::{NO_SAVEPOINT, Phase, classify, number};

/// What the application, its callbacks and its audit sinks write in.
pub(crate) type Tx<'c> = Transaction<'c, MySql>;

/// Begins a transaction on a connection that is set to READ COMMITTED.
pub(crate) const BEGIN: &str = "start transaction";
/// Begins one on any connection. The level is that of this transaction alone.
pub(crate) const BEGIN_READ_COMMITTED: &str =
    "set transaction isolation level read committed; start transaction";

/// Fails where no transaction is open. A plain COMMIT is silent about that, as after a deadlock: the server then has
/// rolled everything back, and has committed each later statement by itself.
const ASK: &str = "savepoint pillarbox_commit; release savepoint pillarbox_commit";
/// Asks and commits: where a statement fails, the server does not go on to the next.
const ASK_AND_COMMIT: &str = "savepoint pillarbox_commit; release savepoint pillarbox_commit; commit";

/// Commits a transaction of the application's, a nested one too. Asking costs a round trip.
pub(crate) async fn commit(mut tx: Tx<'_>) -> Result<()> {
    sqlx::raw_sql(ASK).execute(&mut *tx).await.map_err(|error| refused(error, Phase::Before))?;
    tx.commit().await.map_err(|error| refused(error, Phase::Committing))
}

/// Commits a transaction of a pool of which this is the outermost level, without a further round trip. The driver still
/// counts it as open, and rolls back nothing when the connection returns to its pool.
pub(crate) async fn commit_pooled(mut tx: Tx<'static>) -> Result<()> {
    let committed = sqlx::raw_sql(ASK_AND_COMMIT).execute(&mut *tx).await;
    committed.map(|_| ()).map_err(|error| refused(error, Phase::Committing))
}

/// Rolls back now and not in the background, because a caller that sees the error may rely on it.
pub(crate) async fn rollback(tx: Tx<'_>) {
    // A lost connection has done it too.
    if tx.rollback().await.is_err() {
        tracing::debug!("the transaction had ended before it was rolled back");
    }
}

fn refused(error: sqlx::Error, phase: Phase) -> Error {
    if number(&error) == Some(NO_SAVEPOINT) {
        // It is not known what ended it.
        return Error::new(
            ErrorKind::Aborted,
            "the transaction had ended before it was committed: a deadlock rolled it back, or a COMMIT, a ROLLBACK \
             or a statement that commits by itself, such as CREATE TABLE, was sent in it. When a statement fails, \
             return its error. Let only the code that began the transaction end it",
        )
        .with_retry(Retry::Unknown)
        .with_code(NO_SAVEPOINT.to_string());
    }
    classify(error, phase)
}
