//! Taking in what plain inserts have written: the fields that such documents leave out get their values here.

use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::Entropy;
use pillarbox_core::{EventId, NO_LANE, Result, Timestamp, lane_of};
use pillarbox_host::OsEntropy;

use crate::call::Traffic;
use crate::command::{Change, Find, event, update};
use crate::row::uuid_of;
use crate::store::MongoStore;
use crate::tables::OPEN;

/// The most documents that one call takes in.
const AT_ONCE: i64 = 1000;
/// What is looked at of a document.
const READ: [&str; 11] = [
    "_id",
    "seq",
    "event_id",
    "key",
    "group_id",
    "content_type",
    "priority",
    "attempts",
    "crashes",
    "fence",
    "created_at",
];
const STEP: &str = "application/vnd.pillarbox.step+json";

/// A document without a status is one that nobody has taken in.
pub(crate) fn plain() -> Document {
    doc! { "status": Bson::Null, "settled_at": Bson::Null }
}

/// A look at one such document, as part of another look.
pub(crate) fn plain_one() -> Vec<Document> {
    vec![doc! { "$match": plain() }, doc! { "$limit": 1 }, doc! { "$project": { "_id": 1 } }]
}

impl MongoStore {
    /// Takes in the documents of plain inserts, the oldest first. Relays and operators may do it at the same time: each
    /// document is taken in once.
    pub(crate) async fn adopt(&self, traffic: Traffic) -> Result<()> {
        loop {
            let find = Find::new(&self.tables.outbox, plain())
                .sort(doc! { "_id": 1 })
                .limit(AT_ONCE)
                .fields(&READ)
                .hint(self.tables.index(OPEN));
            let found = self.find(traffic, find).await?;
            if found.is_empty() {
                return Ok(());
            }
            let now = self.link(traffic).now_or(None).await?;
            let changes = found.iter().map(|document| change(document, now));
            self.execute(update(&self.tables.outbox, changes)).await?;
        }
    }
}

fn change(document: &Document, now: Timestamp) -> Change {
    let given = match document.get("event_id") {
        Some(Bson::Binary(given)) => uuid_of(given).map(EventId),
        _ => None,
    };
    let id = given.unwrap_or_else(|| OsEntropy.event_id());
    let is_step = document.get_str("group_id").is_ok() && document.get_str("content_type") == Ok(STEP);
    let lane = if is_step { NO_LANE } else { lane_of(document.get_str("key").ok(), id) };
    let created = match document.get("_id") {
        Some(Bson::ObjectId(made)) => made.timestamp().timestamp_millis().saturating_mul(1000),
        _ => now.as_micros(),
    };
    let defaults: [(&str, Bson); 7] = [
        ("event_id", event(id).into()),
        ("content_type", "application/json".into()),
        ("priority", 100.into()),
        ("attempts", 0.into()),
        ("crashes", 0.into()),
        ("fence", 0_i64.into()),
        ("created_at", created.into()),
    ];
    let mut set = doc! { "status": "pending", "lane": i32::from(lane) };
    // What the writer has given stays as it is.
    let is_missing = |name: &str| matches!(document.get(name), None | Some(Bson::Null));
    set.extend(
        defaults
            .into_iter()
            .filter(|(name, _)| is_missing(name))
            .map(|(name, value)| (name.to_owned(), value)),
    );
    let mut change = doc! { "$set": set };
    if is_missing("seq") {
        change.insert("$currentDate", doc! { "seq": { "$type": "timestamp" } });
    }
    let id = document.get("_id").cloned().unwrap_or(Bson::Null);
    Change::all(doc! { "_id": id, "status": Bson::Null }, change)
}
