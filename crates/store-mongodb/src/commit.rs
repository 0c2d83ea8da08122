//! Ending a transaction: known to be committed, rolled back, or an error that says which.

use mongodb::ClientSession;
use mongodb::error::UNKNOWN_TRANSACTION_COMMIT_RESULT;
use pillarbox_core::{Error, ErrorKind, Result, Retry};

use crate::error::{NO_TRANSACTION, Phase, classify, code};

/// What the application, its callbacks and its audit sinks write in: the driver's session, with a transaction in it.
pub(crate) type Tx<'c> = ClientSession;

/// How often a commit is sent again whose outcome is not known. The server commits a transaction once.
const COMMITS: u32 = 5;

/// Commits a transaction of our own. Another transaction that was in the way is [`Contention`](ErrorKind::Contention).
pub(crate) async fn end(session: &mut ClientSession) -> Result<()> {
    let mut left = COMMITS;
    loop {
        left -= 1;
        match session.commit_transaction().await {
            Ok(()) => return Ok(()),
            Err(error) if left > 0 && error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) => {
                tracing::debug!("the outcome of a commit is not known; it is sent again");
            }
            Err(error) => return Err(classify(&error, Phase::Committing)),
        }
    }
}

/// Commits a transaction in which the application has written.
pub(crate) async fn commit(mut session: ClientSession) -> Result<()> {
    end(&mut session).await.map_err(|error| match error.code() {
        Some(code) if code == NO_TRANSACTION.to_string() && error.retry() != Retry::Unknown => Error::new(
            ErrorKind::Aborted,
            "the transaction had ended before it was committed: the server ended it because a command in it failed, or \
             because it took too long. When a command fails, return its error",
        )
        .with_code(code.to_owned()),
        _ => error,
    })
}

/// Rolls back now and not in the background, because a caller that sees the error may rely on it.
pub(crate) async fn rollback(mut session: ClientSession) {
    abort(&mut session).await;
}

/// Rolls back the transaction of a session.
pub(crate) async fn abort(session: &mut ClientSession) {
    // A transaction that the server has ended is rolled back too.
    if let Err(error) = session.abort_transaction().await {
        tracing::debug!(code = ?code(&error), "the transaction had ended before it was rolled back");
    }
}
