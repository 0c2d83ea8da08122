//! Ending a transaction: committed, rolled back, or an error that says which.

use pillarbox_core::Result;
use sqlx::{Sqlite, Transaction};

use crate::error::classify_commit;

/// What the application, its callbacks and its audit sinks write in.
pub(crate) type Tx<'c> = Transaction<'c, Sqlite>;

/// Commits a transaction of the application's, a nested one too.
pub(crate) async fn commit(tx: Tx<'_>) -> Result<()> {
    tx.commit().await.map_err(classify_commit)
}

/// Rolls back now and not in the background, because a caller that sees the error may rely on a free lock.
pub(crate) async fn rollback(tx: Tx<'_>) {
    // That SQLite rolled back by itself, as it does on a full disk, is no second error.
    if tx.rollback().await.is_err() {
        tracing::debug!("the transaction had ended before it was rolled back");
    }
}

/// Commits what stands, or rolls back.
pub(crate) async fn end<T>(tx: Tx<'_>, outcome: Result<T>, stands: impl FnOnce(&T) -> bool) -> Result<T> {
    match outcome {
        Ok(outcome) if stands(&outcome) => commit(tx).await.map(|()| outcome),
        outcome => {
            rollback(tx).await;
            outcome
        }
    }
}
