//! Committing what the application has written in: known to be committed, or an error.

use pillarbox_core::{Error, ErrorKind, Result, Retry};
use sqlx::{Postgres, Transaction};

use crate::error::{Phase, classify};

/// What the application, its callbacks and its audit sinks write in.
pub(crate) type Tx<'c> = Transaction<'c, Postgres>;

/// Asks a transaction whether it can be committed.
const ASK: &str = include_str!("sql/commit_ask.sql");
/// Asks it and commits it.
const ASK_AND_COMMIT: &str = include_str!("sql/commit_chain.sql");

/// Commits a transaction of the application's, a nested one too. Asking costs a round trip.
pub(crate) async fn commit(mut tx: Tx<'_>) -> Result<()> {
    sqlx::raw_sql(ASK).execute(&mut *tx).await.map_err(|error| refused(error, Phase::Before))?;
    tx.commit().await.map_err(|error| classify(error, Phase::Committing))
}

/// Commits a transaction of a pool of which this is the outermost level, without a further round trip: what is left for
/// the driver to roll back goes with the message by which the pool tests a connection that returns.
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
    let state = error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned();
    let (retry, text) = match &*state {
        "25P02" => (
            Retry::Later,
            "nothing was committed: a statement in the transaction had failed, and PostgreSQL then discards \
             the whole transaction. When a statement fails, return its error, or run statements that may \
             fail in a nested transaction (`tx.begin()`)",
        ),
        // It is not known which of the two ended it.
        "25P01" => (
            Retry::Unknown,
            "the transaction had ended before it was committed: a COMMIT or a ROLLBACK was sent as a \
             statement. Let only the code that began the transaction end it",
        ),
        _ => return classify(error, phase),
    };
    Error::new(ErrorKind::Aborted, text).with_retry(retry).with_code(state)
}
