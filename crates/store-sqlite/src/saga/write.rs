//! Carrying decisions out: audit records, entries, new entries, the sagas themselves, in this order.

use std::collections::BTreeMap;

use pillarbox_core::port::Keep;
use pillarbox_core::{
    EntryMove, Error, ErrorKind, EventId, EventLimits, NewEntry, Result, RouteName, SagaWork, Timestamp,
};
use pillarbox_host::process_clock;
use sqlx::SqliteConnection;

use crate::batch::Batch;
use crate::error::classify;
use crate::sql::{Statements, query};

/// Writes what was decided in the same transaction, which has the write lock: nothing can have changed since.
pub(super) async fn write(
    statements: &Statements,
    work: &[SagaWork],
    actor: &str,
    keep: Keep,
    now: Timestamp,
    tx: &mut SqliteConnection,
) -> Result<()> {
    let at = now.as_micros();
    audit(statements, work, actor, at, tx).await?;
    let (mut changed, mut deleted) = (Vec::new(), Vec::new());
    for entry in work.iter().flat_map(SagaWork::entries) {
        let (change, failure) = match &entry.change {
            EntryMove::Deliver if keep == Keep::No => {
                deleted.push(entry.held.seq);
                continue;
            }
            EntryMove::Deliver => ("delivered", None),
            EntryMove::Bury(failure) => ("dead", Some(failure)),
            EntryMove::Discard(failure) => ("discarded", Some(failure)),
            EntryMove::Requeue => ("requeued", None),
        };
        let failure = failure.map(ToString::to_string);
        changed.push((entry.held.seq, entry.held.fence.0, entry.seen.as_str(), change, failure));
    }
    if !changed.is_empty() {
        let done =
            query(&statements.saga_entry).bind(at).bind(serde_json::to_string(&changed).map_err(unwritable)?);
        let done = done.execute(&mut *tx).await.map_err(classify)?;
        check(done.rows_affected(), changed.len())?;
    }
    if !deleted.is_empty() {
        let done = query(&statements.saga_deleted).bind(serde_json::to_string(&deleted).map_err(unwritable)?);
        let done = done.execute(&mut *tx).await.map_err(classify)?;
        check(done.rows_affected(), deleted.len())?;
    }
    stage(statements, work, tx).await?;
    let mut sagas = Vec::with_capacity(work.len());
    for one in work {
        let saga = one.saga.columns()?;
        let due = saga.due_at.map(Timestamp::as_micros);
        sagas.push((saga.id, one.version, saga.status, saga.dead, due, saga.body, one.moves.ended));
    }
    let done = query(&statements.saga_move).bind(at).bind(serde_json::to_string(&sagas).map_err(unwritable)?);
    let done = done.execute(tx).await.map_err(classify)?;
    check(done.rows_affected(), sagas.len())
}

async fn audit(
    statements: &Statements,
    work: &[SagaWork],
    actor: &str,
    at: i64,
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
    let write = query(&statements.saga_audit_write)
        .bind(at)
        .bind(actor.to_owned())
        .bind(serde_json::to_string(&records).map_err(unwritable)?);
    write.execute(tx).await.map_err(classify)?;
    Ok(())
}

/// One statement a route: sagas of one relay have the same.
async fn stage(statements: &Statements, work: &[SagaWork], tx: &mut SqliteConnection) -> Result<()> {
    let mut routes: BTreeMap<&RouteName, Vec<NewEntry>> = BTreeMap::new();
    for one in work {
        for event in &one.moves.stage {
            // Every step has a key of its own; the fresh one is never used.
            let fresh = EventId(one.saga.id.0);
            let stamp = process_clock().now();
            let entry = NewEntry::new(&one.saga.route, event.clone(), fresh, stamp, &EventLimits::default())?;
            routes.entry(&one.saga.route).or_default().push(entry);
        }
    }
    for (route, entries) in routes {
        let batch = Batch::new(&entries)?;
        let done = query(&statements.stage_many)
            .bind(route.to_string())
            .bind(batch.json)
            .bind(batch.payloads)
            .execute(&mut *tx)
            .await
            .map_err(classify)?;
        check(done.rows_affected(), entries.len())?;
    }
    Ok(())
}

fn unwritable(_: serde_json::Error) -> Error {
    Error::invalid("a saga cannot be written as JSON")
}

fn check(changed: u64, wanted: usize) -> Result<()> {
    if changed == wanted as u64 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Internal,
        format!("{changed} rows of sagas were changed where {wanted} were meant"),
    ))
}
