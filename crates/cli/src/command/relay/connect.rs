//! Getting to the database: a daemon waits for it, a one-shot run says that it is not there.

use std::time::Duration;

use pillarbox_core::{Backoff, Jitter, format_duration};
use tokio::sync::watch;

use super::Until;
use crate::context::Context;
use crate::database::Database;
use crate::fault::Fault;

/// The longest wait between two tries.
const RETRY_MAX: Duration = Duration::from_secs(30);
const RETRY_BASE: Duration = Duration::from_millis(500);

/// The database, or `None` when the daemon was stopped while it waited for it.
pub(crate) async fn connect(
    until: Until,
    context: &Context,
    mut stopped: watch::Receiver<bool>,
) -> Result<Option<Database>, Fault> {
    let backoff = Backoff::new(RETRY_BASE, RETRY_MAX, Jitter::None)?;
    let mut tries = 0_u32;
    loop {
        tries = tries.saturating_add(1);
        let why = match context.open().await {
            Ok(database) => return Ok(Some(database)),
            Err(Fault::Unavailable(why)) if until == Until::Stopped => why,
            Err(fault) => return Err(fault),
        };
        let wait = backoff.delay(tries, 0)?;
        context.out.warn(format_args!("{why}; the relay tries again in {}", format_duration(wait)));
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return Ok(None),
            () = tokio::time::sleep(wait) => {}
        }
    }
}
