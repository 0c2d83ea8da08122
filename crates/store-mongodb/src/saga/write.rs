//! Carrying decisions out: audit records, entries, new entries, the sagas themselves, in this order.

use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::Keep;
use pillarbox_core::port::shared::{EntryMoveRow, SagaAuditRow, SagaMoveRow, SagaRows};
use pillarbox_core::{Error, ErrorKind, NewEntry, Result, SagaWork, Timestamp};
use pillarbox_host::process_clock;

use crate::call::Link;
use crate::change::audit;
use crate::command::{Change, delete, event, insert, stamps, update};
use crate::outbox::insert_all;
use crate::tables::{SEQ, Tables};

/// Writes what was decided, if nothing has changed since it was read.
///
/// # Errors
/// [`Contention`](ErrorKind::Contention) if something has. The transaction must be rolled back.
pub(super) async fn write(
    tables: &Tables,
    work: &[SagaWork],
    actor: &str,
    keep: Keep,
    now: Timestamp,
    tx: &mut Link<'_>,
) -> Result<()> {
    let (rows, at) = (SagaRows::of(work, keep)?, now.as_micros());
    if !rows.audit.is_empty() {
        let records = rows.audit.iter().map(|row| record(row, actor, at)).collect();
        tx.write(insert(&tables.audit, records)).await?;
    }
    if !rows.entries.is_empty() {
        let changes = rows.entries.iter().map(|row| entry(row, at).hint(tables.index(SEQ)));
        let found = tx.write(update(&tables.outbox, changes)).await?.found;
        all(found, rows.entries.len())?;
    }
    if !rows.deleted.is_empty() {
        let gone = doc! { "seq": { "$in": stamps(rows.deleted.iter().copied()) } };
        all(tx.write(delete(&tables.outbox, gone)).await?.found, rows.deleted.len())?;
    }
    let mut entries: Vec<NewEntry> = Vec::new();
    for one in work {
        entries.extend(one.staged(|| process_clock().now())?);
    }
    if !entries.is_empty() {
        let wanted = entries.len();
        let staged = insert_all(tx, tables, entries).await?;
        all(staged.iter().filter(|staged| !staged.is_duplicate()).count() as u64, wanted)?;
    }
    let changes = rows.sagas.iter().map(|row| moved(row, at));
    all(tx.write(update(&tables.saga, changes)).await?.found, rows.sagas.len())
}

/// `[saga, kind, event id, step, detail, route, kind and value of the subject]`.
fn record(row: &SagaAuditRow<'_>, actor: &str, at: i64) -> Document {
    let (saga, kind, id, step, detail, route, subject_kind, subject_value) = row;
    let mut record = audit(at, kind, actor);
    record.extend(doc! {
        "saga_id": saga.to_string(),
        "event_id": id.map_or(Bson::Null, |id| event(id).into()),
        "step": step.as_deref(),
        "detail": detail.as_str(),
        "route": route.as_str(),
        "subject_kind": subject_kind.as_str(),
        "subject_value": subject_value.as_str(),
    });
    record
}

/// `[seq, fence, status before, change, failure]`.
fn entry(row: &EntryMoveRow, at: i64) -> Change {
    let (seq, fence, seen, change, failure) = row;
    let is_requeued = *change == "requeued";
    let mut set = doc! { "status": if is_requeued { "pending" } else { *change } };
    let mut unset = doc! { "due_at": "", "owner": "", "claim": "" };
    if is_requeued {
        set.extend(doc! { "attempts": 0, "crashes": 0 });
        unset.insert("settled_at", "");
    } else {
        set.insert("settled_at", at);
    }
    if *change == "delivered" {
        unset.insert("last_error", "");
    } else {
        set.extend(failure.as_ref().map(|failure| ("last_error".to_owned(), Bson::from(failure.as_str()))));
    }
    let filter = doc! { "seq": { "$in": stamps([*seq]) }, "fence": *fence, "status": *seen };
    Change::all(filter, doc! { "$set": set, "$unset": unset })
}

/// `[id, version before, status, dead, due, body, ended]`.
fn moved(row: &SagaMoveRow, at: i64) -> Change {
    let (id, version, status, dead, due, body, ended) = row;
    let mut set = doc! {
        "status": status, "dead": *dead, "due_at": due.map_or(Bson::Null, Bson::Int64), "body": body, "updated_at": at,
    };
    if *ended {
        set.insert("ended_at", at);
    }
    Change::all(doc! { "_id": id, "version": *version }, doc! { "$set": set, "$inc": { "version": 1_i64 } })
}

fn all(found: u64, wanted: usize) -> Result<()> {
    if found == wanted as u64 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Contention,
        format!(
            "a saga was changed at the same time: {found} documents were found instead of {wanted}; try again"
        ),
    ))
}
