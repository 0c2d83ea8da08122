//! Carrying decisions out: audit records, entries, new entries, the sagas themselves, in this order.

use std::collections::BTreeMap;

use pillarbox_core::port::Keep;
use pillarbox_core::port::shared::SagaRows;
use pillarbox_core::{Error, ErrorKind, NewEntry, Result, RouteName, SagaWork, Timestamp};
use pillarbox_host::process_clock;
use sqlx::SqliteConnection;

use crate::batch::batch;
use crate::bind::Bind;
use crate::error::classify;
use crate::sql::Statements;

/// Writes what was decided in the same transaction, which has the write lock: nothing can have changed since.
pub(super) async fn write(
    statements: &Statements,
    work: &[SagaWork],
    actor: &str,
    keep: Keep,
    now: Timestamp,
    tx: &mut SqliteConnection,
) -> Result<()> {
    let at = Some(now);
    let rows = SagaRows::of(work, keep)?;
    if !rows.audit.is_empty() {
        let bind = Bind::new().at(at).text(actor).json(&rows.audit);
        statements.saga_audit_write.with(bind.done()?).execute(&mut *tx).await.map_err(classify)?;
    }
    if !rows.entries.is_empty() {
        let entries = statements.saga_entry.with(Bind::new().at(at).json(&rows.entries).done()?);
        let done = entries.execute(&mut *tx).await.map_err(classify)?;
        check(done.rows_affected(), rows.entries.len())?;
    }
    if !rows.deleted.is_empty() {
        let entries = statements.saga_deleted.with(Bind::new().json(&rows.deleted).done()?);
        let done = entries.execute(&mut *tx).await.map_err(classify)?;
        check(done.rows_affected(), rows.deleted.len())?;
    }
    stage(statements, work, tx).await?;
    let moved = statements.saga_move.with(Bind::new().at(at).json(&rows.sagas).done()?);
    let done = moved.execute(tx).await.map_err(classify)?;
    check(done.rows_affected(), rows.sagas.len())
}

/// One statement a route: sagas of one relay have the same.
async fn stage(statements: &Statements, work: &[SagaWork], tx: &mut SqliteConnection) -> Result<()> {
    let mut routes: BTreeMap<&RouteName, Vec<NewEntry>> = BTreeMap::new();
    for one in work {
        routes.entry(&one.saga.route).or_default().extend(one.staged(|| process_clock().now())?);
    }
    routes.retain(|_, entries| !entries.is_empty());
    for (route, entries) in routes {
        let batch = batch(&entries)?;
        let bind = Bind::new().text(route.as_str()).value(batch.json).value(batch.payloads);
        let stage = statements.stage_many.with(bind.done()?);
        let done = stage.execute(&mut *tx).await.map_err(classify)?;
        check(done.rows_affected(), entries.len())?;
    }
    Ok(())
}

fn check(changed: u64, wanted: usize) -> Result<()> {
    if changed == wanted as u64 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Internal,
        format!("a saga was not written: {changed} rows changed instead of {wanted}"),
    ))
}
