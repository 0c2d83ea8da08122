//! The raw loop on MongoDB: what somebody would write by hand, on a plain collection.

use futures_util::TryStreamExt;
use mongodb::bson::{Binary, Document, doc, spec::BinarySubtype};
use mongodb::options::{Acknowledgment, CollectionOptions, IndexOptions, ReturnDocument, WriteConcern};
use mongodb::{Collection, IndexModel};
use pillarbox_store_mongodb::MongoStore;

use super::raw::Design;
use crate::fault::Fault;

/// Documents of one insert.
const LOAD: u32 = 10_000;
const NAME: &str = "pillarbox_bench_classic";
/// The outbox beside it.
const OUTBOX: &str = "pillarbox_bench_outbox";

/// A plain collection. Its writes are as durable as those of a store.
pub(super) struct Documents {
    plain: Collection<Document>,
}

impl Documents {
    pub(super) fn of(store: &MongoStore) -> Self {
        let concern = WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build();
        let options = CollectionOptions::builder().write_concern(concern).build();
        Self { plain: store.database().collection_with_options(NAME, options) }
    }

    pub(super) async fn create(&self) -> Result<(), Fault> {
        let due = doc! { "status": 1, "due_at": 1, "_id": 1 };
        let named = IndexOptions::builder().name("due".to_owned()).build();
        let index = IndexModel::builder().keys(due).options(named).build();
        self.plain.create_index(index).await.map(drop).map_err(failed)
    }

    pub(super) async fn fill(&self, rows: u32, payload: &[u8]) -> Result<(), Fault> {
        self.plain.delete_many(doc! {}).await.map_err(failed)?;
        let mut made = 0;
        while made < rows {
            let upto = rows.min(made + LOAD);
            let payload = || Binary { subtype: BinarySubtype::Generic, bytes: payload.to_vec() };
            let one = |id: u32| {
                doc! {
                    "_id": i64::from(id), "type": "bench.event", "payload": payload(), "status": "pending", "attempts": 0,
                    "due_at": 0_i64,
                }
            };
            self.plain.insert_many((made + 1..=upto).map(one)).await.map_err(failed)?;
            made = upto;
        }
        Ok(())
    }

    /// A classic claim takes one document after the other: that is what `findOneAndUpdate` can.
    pub(super) async fn take(&self, batch: u32, design: Design, cursor: i64) -> Result<Vec<i64>, Fault> {
        if design != Design::Classic {
            let above = self.plain.find(doc! { "_id": { "$gt": cursor }, "status": "pending" });
            let found = above.sort(doc! { "_id": 1 }).limit(batch.into()).await.map_err(failed)?;
            let found: Vec<Document> = found.try_collect().await.map_err(failed)?;
            return Ok(found.iter().filter_map(id_of).collect());
        }
        let mut ids = Vec::new();
        for _ in 0..batch {
            let due = doc! { "status": "pending", "due_at": { "$lte": 1_i64 } };
            let take =
                doc! { "$set": { "status": "processing", "locked_until": 1_i64 }, "$inc": { "attempts": 1 } };
            let taken = self.plain.find_one_and_update(due, take).sort(doc! { "due_at": 1, "_id": 1 });
            let taken = taken.return_document(ReturnDocument::After).await.map_err(failed)?;
            let Some(id) = taken.as_ref().and_then(id_of) else { break };
            ids.push(id);
        }
        Ok(ids)
    }

    pub(super) async fn settle(&self, design: Design, ids: &[i64]) -> Result<(), Fault> {
        let taken = doc! { "_id": { "$in": ids } };
        if design == Design::LaneDeleted {
            return self.plain.delete_many(taken).await.map(drop).map_err(failed);
        }
        let done = doc! { "$set": { "status": "done", "done_at": 1_i64 }, "$unset": { "locked_until": "" } };
        self.plain.update_many(taken, done).await.map(drop).map_err(failed)
    }
}

// Type and payload are read as a relay would have to, to publish them.
fn id_of(document: &Document) -> Option<i64> {
    std::hint::black_box((document.get_str("type").ok()?, document.get_binary_generic("payload").ok()?));
    document.get_i64("_id").ok()
}

/// Empties the outbox of a measurement.
///
/// # Errors
/// When the database refuses.
pub async fn empty_outbox(store: &MongoStore) -> Result<(), Fault> {
    let outbox: Collection<Document> = store.database().collection(OUTBOX);
    outbox.delete_many(doc! {}).await.map(drop).map_err(failed)
}

/// Drops the collections whose names begin like that.
pub(super) async fn drop_all(store: &MongoStore, prefix: &str) -> Result<(), Fault> {
    let database = store.database();
    for name in database.list_collection_names().await.map_err(failed)? {
        if name.starts_with(&format!("{prefix}_")) {
            database.collection::<Document>(&name).drop().await.map_err(failed)?;
        }
    }
    Ok(())
}

fn failed(error: mongodb::error::Error) -> Fault {
    Fault::failed(format!("a raw loop failed: {error}"))
}
