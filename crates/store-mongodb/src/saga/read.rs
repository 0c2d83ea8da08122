//! Reading sagas and their entries.

use std::collections::BTreeMap;

use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::shared::{HeldSteps, saga_columns};
use pillarbox_core::{
    Entry, Error, ErrorKind, EventId, Failure, Fence, Held, Result, SagaId, SagaRecord, Status, StepSeen,
};

use crate::call::Link;
use crate::command::{Find, event, stamps};
use crate::row::{Cells, SAGA, decode, number, text, uuid_of};
use crate::tables::{EVENT, SEQ, Tables};

/// Reads a saga.
pub(super) fn saga(document: &Document) -> Result<SagaRecord> {
    let name = |name: &&'static str| if *name == "id" { "_id" } else { *name };
    let names: Vec<&str> = SAGA.iter().map(name).collect();
    SagaRecord::read(saga_columns(&mut Cells::of(document, &names))?)
}

/// The claims that still stand, each with its saga, if it is of one.
pub(super) async fn held_steps(tables: &Tables, claims: &[Held], tx: &mut Link<'_>) -> Result<HeldSteps> {
    let seqs = stamps(claims.iter().map(|held| held.seq));
    let find = Find::new(&tables.outbox, doc! { "seq": { "$in": seqs }, "status": "in_flight" })
        .fields(&["seq", "fence", "event_id", "attempts", "last_error", "group_id"])
        .hint(tables.index(SEQ));
    let found = tx.find(find).await?;
    let groups: Vec<&str> = found.iter().filter_map(|entry| entry.get_str("group_id").ok()).collect();
    let mut sagas: BTreeMap<String, Document> = BTreeMap::new();
    for saga in tx.find(Find::new(&tables.saga, doc! { "_id": { "$in": groups } })).await? {
        sagas.insert(text(&saga, "_id").to_owned(), saga);
    }
    let mut steps = BTreeMap::new();
    for entry in &found {
        let held = Held { seq: number(entry, "seq"), fence: Fence(number(entry, "fence")) };
        if !claims.contains(&held) {
            continue;
        }
        let of = entry.get_str("group_id").ok().and_then(|group| sagas.get(group));
        steps.insert(held, (step(entry, held)?, of.map(saga).transpose()?));
    }
    Ok(steps)
}

fn step(entry: &Document, held: Held) -> Result<StepSeen> {
    let id = match entry.get("event_id") {
        Some(Bson::Binary(id)) => uuid_of(id).map(EventId),
        _ => None,
    };
    let unknown = || Error::new(ErrorKind::Corrupt, "the id of an entry cannot be read");
    let attempts = u32::try_from(number(entry, "attempts")).unwrap_or(0);
    let last_error = entry.get_str("last_error").ok().map(Failure::parse);
    Ok(StepSeen { held, event_id: id.ok_or_else(unknown)?, status: Status::InFlight, attempts, last_error })
}

/// A saga with its entries, oldest first.
pub(super) async fn load(
    tables: &Tables,
    id: SagaId,
    tx: &mut Link<'_>,
) -> Result<Option<(SagaRecord, Vec<Entry>)>> {
    let name = id.to_string();
    let found = tx.find(Find::new(&tables.saga, doc! { "_id": &name })).await?;
    let Some(found) = found.first() else { return Ok(None) };
    let saga = saga(found)?;
    let ids: Vec<Bson> = saga.event_ids().into_iter().map(|id| Bson::Binary(event(id))).collect();
    let find = Find::new(&tables.outbox, doc! { "event_id": { "$in": ids }, "group_id": name })
        .sort(doc! { "seq": 1 })
        .hint(tables.index(EVENT));
    let entries = tx.find(find).await?.into_iter().map(|entry| decode(entry).entry).collect();
    Ok(Some((saga, entries)))
}
