//! Many events as the parameters of one statement, and whether the server takes a statement of that size.

use pillarbox_core::port::shared::StageBatch;
use pillarbox_core::{Error, NewEntry, Result};
use pillarbox_host::Operation;

use crate::bind::Bind;
use crate::sql::Statements;
use crate::statement::Value;

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

/// Goes on with a statement of that many bytes of values, or refuses it before it is sent if the server would refuse it. The
/// server would also close the connection, and the application's transaction with it.
pub(crate) fn check_packet<R: Send + 'static>(
    bytes: usize,
    statements: &Statements,
    next: Operation<Value, R>,
) -> Result<Operation<Value, R>> {
    let needed = bytes.saturating_add(AROUND);
    if needed <= PACKET_LEAST {
        return Ok(next);
    }
    Ok(Operation::ask(statements.packet.call(Bind::new())?, move |rows| {
        let most = rows.first().map_or(Ok(i64::MAX), |row| row.number(0))?;
        if usize::try_from(most).is_ok_and(|most| needed > most) {
            return Err(Error::too_large(format!(
                "the events of one call need a statement of {needed} bytes, and max_allowed_packet of the database \
                 is {most}. Stage them in several calls, or raise that setting"
            )));
        }
        Ok(next)
    }))
}
