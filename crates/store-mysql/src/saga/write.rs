//! Carrying decisions out: audit records, entries, new entries, the sagas themselves, in this order.

use std::collections::BTreeMap;

use pillarbox_core::port::Keep;
use pillarbox_core::port::shared::SagaRows;
use pillarbox_core::{Error, ErrorKind, NewEntry, Result, RouteName, SagaWork, Timestamp};
use pillarbox_host::process_clock;
use sqlx::MySqlConnection;

use crate::batch::batch;
use crate::bind::Bind;
use crate::sql::{Sql, Statements};

/// Writes what was decided, if nothing has changed since it was read.
///
/// # Errors
/// [`Contention`](ErrorKind::Contention) if something has. The transaction must be rolled back.
pub(super) async fn write(
    statements: &Statements,
    work: &[SagaWork],
    actor: &str,
    keep: Keep,
    now: Timestamp,
    tx: &mut MySqlConnection,
) -> Result<()> {
    let (rows, at) = (SagaRows::of(work, keep)?, || Bind::new().at(Some(now)));
    if !rows.audit.is_empty() {
        statements.saga_audit_write.with(at().text(actor).json(&rows.audit))?.execute(tx).await?;
    }
    if !rows.entries.is_empty() {
        all(&statements.saga_entry, at().json(&rows.entries), rows.entries.len(), tx).await?;
    }
    if !rows.deleted.is_empty() {
        all(&statements.saga_deleted, Bind::new().json(&rows.deleted), rows.deleted.len(), tx).await?;
    }
    // One statement a route: sagas of one relay have the same.
    let mut routes: BTreeMap<&RouteName, Vec<NewEntry>> = BTreeMap::new();
    for one in work {
        routes.entry(&one.saga.route).or_default().extend(one.staged(|| process_clock().now())?);
    }
    for (route, entries) in routes.into_iter().filter(|(_, entries)| !entries.is_empty()) {
        let batch = batch(&entries)?;
        let bind = Bind::new().bytes(route.as_str()).bytes(batch.json).bytes(batch.payloads);
        all(&statements.stage_many, bind, entries.len(), tx).await?;
    }
    all(&statements.saga_move, at().json(&rows.sagas), rows.sagas.len(), tx).await
}

/// Runs a statement that must find as many rows.
async fn all(sql: &Sql, bind: Bind, wanted: usize, tx: &mut MySqlConnection) -> Result<()> {
    let found = sql.with(bind)?.execute(tx).await?.rows;
    if found == wanted as u64 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Contention,
        format!(
            "a saga was changed at the same time: {found} rows were found instead of {wanted}; try again"
        ),
    ))
}
