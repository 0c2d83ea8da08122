//! Many events as the parameters of one statement, and whether the server takes a statement of that size.

use pillarbox_core::port::shared::{Columns, StageBatch};
use pillarbox_core::{Error, NewEntry, Result};
use sqlx::MySqlConnection;

use crate::error::{Phase, classify};
use crate::row::Cells;

/// Most bytes of one call: neither server takes a statement of more than a gigabyte.
const BATCH_BYTES_MAX: usize = 500_000_000;
/// Up to this size a statement is sent without asking: `migrate` refuses a server that takes less.
pub(crate) const PACKET_LEAST: usize = 1 << 20;
/// What a statement has besides its payloads: names and headers are bounded.
const AROUND: usize = 300 * 1024;

/// What `stage_many.sql` binds besides the route.
pub(crate) fn batch(entries: &[NewEntry]) -> Result<StageBatch> {
    StageBatch::new(entries, BATCH_BYTES_MAX)
}

/// Refuses a statement with that many bytes of values before it is sent, if the server would refuse it. The server would
/// also close the connection, and the application's transaction with it.
pub(crate) async fn check_packet(bytes: usize, connection: &mut MySqlConnection) -> Result<()> {
    let needed = bytes.saturating_add(AROUND);
    if needed <= PACKET_LEAST {
        return Ok(());
    }
    let ask = sqlx::query("select @@max_allowed_packet").fetch_one(connection).await;
    let most = Cells::of(&ask.map_err(|error| classify(error, Phase::Application))?).number()?;
    if usize::try_from(most).is_ok_and(|most| needed > most) {
        return Err(Error::too_large(format!(
            "the events of one call need a statement of {needed} bytes, and max_allowed_packet of the database is \
             {most}. Stage them in several calls, or raise that setting"
        )));
    }
    Ok(())
}
