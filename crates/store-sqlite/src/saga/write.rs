//! Carrying decisions out: audit records, entries, new entries, the sagas themselves, in this order.

use std::collections::BTreeMap;

use pillarbox_core::port::Keep;
use pillarbox_core::{EntryMove, Error, ErrorKind, NewEntry, Result, RouteName, SagaWork, Timestamp};
use pillarbox_host::process_clock;
use sqlx::SqliteConnection;

use crate::batch::StageBatch;
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
    audit(statements, work, actor, at, tx).await?;
    let (mut changed, mut deleted) = (Vec::new(), Vec::new());
    for entry in work.iter().flat_map(SagaWork::entries) {
        if entry.change == EntryMove::Deliver && keep == Keep::No {
            deleted.push(entry.held.seq);
            continue;
        }
        let (change, failure) = entry.change.parts();
        let failure = failure.map(ToString::to_string);
        changed.push((entry.held.seq, entry.held.fence.0, entry.seen.as_str(), change, failure));
    }
    if !changed.is_empty() {
        let entries = statements.saga_entry.with(Bind::new().at(at).json(&changed).done()?);
        let done = entries.execute(&mut *tx).await.map_err(classify)?;
        check(done.rows_affected(), changed.len())?;
    }
    if !deleted.is_empty() {
        let entries = statements.saga_deleted.with(Bind::new().json(&deleted).done()?);
        let done = entries.execute(&mut *tx).await.map_err(classify)?;
        check(done.rows_affected(), deleted.len())?;
    }
    stage(statements, work, tx).await?;
    let mut sagas = Vec::with_capacity(work.len());
    for one in work {
        let saga = one.saga.columns()?;
        let due = saga.due_at.map(Timestamp::as_micros);
        sagas.push((saga.id, one.version, saga.status, saga.dead, due, saga.body, one.moves.ended));
    }
    let moved = statements.saga_move.with(Bind::new().at(at).json(&sagas).done()?);
    let done = moved.execute(tx).await.map_err(classify)?;
    check(done.rows_affected(), sagas.len())
}

async fn audit(
    statements: &Statements,
    work: &[SagaWork],
    actor: &str,
    at: Option<Timestamp>,
    tx: &mut SqliteConnection,
) -> Result<()> {
    let records: Vec<_> = work
        .iter()
        .flat_map(|one| &one.moves.audit)
        .map(|record| {
            (
                record.saga_id,
                record.kind.as_str(),
                record.event_id,
                &record.step,
                &record.detail,
                &record.route,
                &record.subject.kind,
                &record.subject.value,
            )
        })
        .collect();
    if records.is_empty() {
        return Ok(());
    }
    let write = statements.saga_audit_write.with(Bind::new().at(at).text(actor).json(&records).done()?);
    write.execute(tx).await.map_err(classify)?;
    Ok(())
}

/// One statement a route: sagas of one relay have the same.
async fn stage(statements: &Statements, work: &[SagaWork], tx: &mut SqliteConnection) -> Result<()> {
    let mut routes: BTreeMap<&RouteName, Vec<NewEntry>> = BTreeMap::new();
    for one in work {
        routes.entry(&one.saga.route).or_default().extend(one.staged(|| process_clock().now())?);
    }
    routes.retain(|_, entries| !entries.is_empty());
    for (route, entries) in routes {
        let batch = StageBatch::new(&entries)?;
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
