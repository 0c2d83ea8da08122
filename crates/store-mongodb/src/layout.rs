//! The collections of this crate, their validators and their indexes.

use mongodb::bson::{Bson, Document, doc};

use crate::options::Options;
use crate::tables::{CAUSAL, ENDED, EVENT, LANE, OPEN, SEQ, Tables};

/// An index.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) name: String,
    keys: Document,
    /// Which documents are in it. Empty: all.
    part: Document,
    /// Without it a document could be there twice.
    pub(crate) is_needed: bool,
}

impl Index {
    /// As `createIndexes` takes it.
    pub(crate) fn specification(&self) -> Document {
        let mut index = doc! { "key": self.keys.clone(), "name": &self.name };
        if self.is_needed {
            index.insert("unique", true);
        }
        if !self.part.is_empty() {
            index.insert("partialFilterExpression", self.part.clone());
        }
        index
    }

    /// Whether an index of `listIndexes` is this one.
    pub(crate) fn is(&self, found: &Document) -> bool {
        let keys = found.get_document("key").cloned().unwrap_or_default();
        let same = |(a, b): ((&String, &Bson), (&String, &Bson))| {
            a.0 == b.0 && crate::row::number_of(a.1) == crate::row::number_of(b.1)
        };
        let part = found.get_document("partialFilterExpression").cloned().unwrap_or_default();
        let is_unique = found.get_bool("unique").unwrap_or(false);
        keys.len() == self.keys.len()
            && keys.iter().zip(self.keys.iter()).all(same)
            && part == self.part
            && is_unique == self.is_needed
            && !found.contains_key("collation")
    }
}

/// Every index, with its collection.
pub(crate) fn indexes(tables: &Tables, options: &Options) -> Vec<(String, Index)> {
    let live = || doc! { "settled_at": Bson::Null };
    let ended = || doc! { "settled_at": { "$exists": true } };
    let all = Document::new;
    let (outbox, audit, saga) = (&tables.outbox, &tables.audit, &tables.saga);
    let mut indexes = vec![
        // Claims, counts and reaps: each status by itself, due at once (no due_at) or at its time.
        (outbox, OPEN, doc! { "status": 1, "route": 1, "due_at": 1, "priority": 1, "seq": 1 }, live(), false),
        // What lanes read, in their order.
        (outbox, LANE, doc! { "route": 1, "lane": 1, "seq": 1, "status": 1 }, live(), false),
        (outbox, ENDED, doc! { "status": 1, "settled_at": 1, "route": 1 }, ended(), false),
        (outbox, SEQ, doc! { "seq": 1 }, doc! { "seq": { "$exists": true } }, true),
        // The id comes first: operators ask for an event without naming a route.
        (outbox, EVENT, doc! { "event_id": 1, "route": 1 }, doc! { "event_id": { "$exists": true } }, true),
        (audit, "audit_seq", doc! { "seq": 1 }, all(), false),
        (audit, "audit_event", doc! { "event_id": 1, "seq": 1 }, all(), false),
        (audit, "audit_subject", doc! { "subject_kind": 1, "subject_value": 1, "seq": 1 }, all(), false),
        (audit, "audit_saga", doc! { "saga_id": 1, "seq": 1 }, all(), false),
        (
            saga,
            "saga_subject",
            doc! { "name": 1, "subject_kind": 1, "subject_value": 1, "generation": 1 },
            all(),
            true,
        ),
        // What a sweep looks for: sagas that know of dead steps, sagas whose time has come.
        (saga, "saga_dead", doc! { "dead": 1, "_id": 1 }, all(), false),
        (saga, "saga_due", doc! { "due_at": 1, "_id": 1 }, all(), false),
        (saga, "saga_open", doc! { "route": 1, "ended_at": 1 }, all(), false),
        (saga, "saga_status", doc! { "status": 1, "created_at": 1, "_id": 1 }, all(), false),
        (saga, "saga_ended", doc! { "ended_at": 1, "_id": 1 }, all(), false),
        (&tables.inbox, "inbox_age", doc! { "accepted_at": 1 }, all(), false),
        (&tables.lane, "lane_route", doc! { "route": 1, "lane": 1 }, all(), false),
        (&tables.lane_session, "lane_session_route", doc! { "route": 1, "rank": 1 }, all(), false),
    ];
    if options.causal_order {
        let keys = doc! { "status": 1, "route": 1, "due_at": 1, "hlc": 1, "created_at": 1, "seq": 1 };
        indexes.push((outbox, CAUSAL, keys, live(), false));
    }
    let made = |(of, suffix, keys, part, is_needed): (&String, &str, Document, Document, bool)| {
        (of.clone(), Index { name: tables.index(suffix), keys, part, is_needed })
    };
    indexes.into_iter().map(made).collect()
}

/// Every collection, with its validator. Empty: none.
pub(crate) fn collections(tables: &Tables) -> Vec<(String, Document)> {
    let free = [
        &tables.audit,
        &tables.inbox,
        &tables.inbox_fence,
        &tables.relay,
        &tables.route_state,
        &tables.lane_session,
        &tables.lane,
        &tables.serial,
        &tables.saga,
        &tables.schema,
    ];
    let mut collections = vec![(tables.outbox.clone(), outbox_validator())];
    collections.extend(free.map(|name| (name.clone(), Document::new())));
    collections
}

/// What the library checks, for writers that do not use it. Only route, type and payload are required.
fn outbox_validator() -> Document {
    let name = || doc! { "bsonType": "string", "minLength": 1, "maxLength": 255 };
    let optional = || doc! { "bsonType": ["string", "null"], "minLength": 1, "maxLength": 255 };
    let whole = || Bson::from(vec!["int", "long"]);
    let count = || doc! { "bsonType": whole(), "minimum": 0 };
    let time =
        || doc! { "bsonType": ["int", "long", "null"], "minimum": 0, "maximum": 253_402_300_799_999_999_i64 };
    doc! { "$jsonSchema": {
        "bsonType": "object",
        "required": ["route", "type", "payload"],
        // A document with a status counts as taken in, so it must have what that adds.
        "dependencies": { "status": ["seq", "event_id", "lane", "attempts", "crashes", "fence"] },
        "properties": {
            "seq": { "bsonType": "timestamp" },
            "event_id": { "bsonType": "binData" },
            "route": name(),
            "type": name(),
            "key": optional(),
            "payload": { "bsonType": ["string", "binData"] },
            "content_type": optional(),
            "headers": { "bsonType": ["object", "null"], "additionalProperties": { "bsonType": "string" } },
            "tenant": optional(),
            "correlation_id": optional(),
            "causation_id": optional(),
            "execution_id": optional(),
            "group_id": optional(),
            "occurred_at": time(),
            "due_at": time(),
            "created_at": time(),
            "priority": { "bsonType": ["int", "long", "null"], "minimum": -32768, "maximum": 32767 },
            "hlc": { "bsonType": ["int", "long", "null"], "minimum": 0 },
            "status": { "enum": ["pending", "retrying", "in_flight", "delivered", "dead", "discarded", Bson::Null] },
            "attempts": count(),
            "crashes": count(),
            "fence": { "bsonType": whole() },
            "max_attempts": { "bsonType": ["int", "long", "null"], "minimum": 1, "maximum": 1_000_000 },
        },
    } }
}
