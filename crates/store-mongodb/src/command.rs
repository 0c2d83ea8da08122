//! The commands of this crate, and the expressions that stand in them. Values never become names: texts that an
//! expression gets are marked as literal.

use mongodb::bson::{Binary, Bson, Document, Timestamp as Stamp, doc, spec::BinarySubtype};
use pillarbox_core::{CRASHES_IN_COMPANY, EventId, Timestamp};
use uuid::Uuid;

/// Where sequence numbers begin: the first second of the year 2020. So they fit into a signed number until the year 2088.
const EPOCH: u32 = 1_577_836_800;
/// The server puts its own next number in the place of this one when it inserts a document.
pub(crate) const NEXT: Stamp = Stamp { time: 0, increment: 0 };

/// The sequence number that a stamp of the server stands for.
pub(crate) fn seq_of(stamp: Stamp) -> i64 {
    let seconds = i64::from(stamp.time) - i64::from(EPOCH);
    (seconds.clamp(0, i64::from(i32::MAX)) << 32) | i64::from(stamp.increment)
}

/// The stamp of a sequence number.
pub(crate) fn stamp_of(seq: i64) -> Stamp {
    let seq = u64::try_from(seq).unwrap_or(0);
    let seconds = u32::try_from(seq >> 32).unwrap_or(u32::MAX);
    let increment = u32::try_from(seq & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    Stamp { time: seconds.saturating_add(EPOCH), increment }
}

/// Stamps of sequence numbers, as a list.
pub(crate) fn stamps(seqs: impl IntoIterator<Item = i64>) -> Vec<Bson> {
    seqs.into_iter().map(|seq| Bson::Timestamp(stamp_of(seq))).collect()
}

/// An id as the database has it.
pub(crate) fn binary(id: Uuid) -> Binary {
    Binary { subtype: BinarySubtype::Uuid, bytes: id.as_bytes().to_vec() }
}

pub(crate) fn event(id: EventId) -> Binary {
    binary(id.0)
}

/// A value of an expression that is taken as it is, also if it begins with a dollar sign.
pub(crate) fn literal(value: impl Into<Bson>) -> Bson {
    doc! { "$literal": value.into() }.into()
}

/// The pinned time, or the server's, in microseconds.
pub(crate) fn now(pinned: Option<Timestamp>) -> Bson {
    match pinned {
        Some(now) => now.as_micros().into(),
        None => doc! { "$multiply": [{ "$toLong": "$$NOW" }, 1000_i64] }.into(),
    }
}

/// This time and some microseconds.
pub(crate) fn later(now: &Bson, micros: i64) -> Bson {
    doc! { "$add": [now.clone(), micros] }.into()
}

/// The claim's number: at least the clock, so that it grows even when the write of the last claim was lost in a crash.
pub(crate) fn next_fence(now: &Bson) -> Bson {
    doc! { "$max": [{ "$add": [{ "$ifNull": ["$fence", 0_i64] }, 1_i64] }, now.clone()] }.into()
}

/// Whether an entry is pending, or has attempts left: what is pending has spent none.
pub(crate) fn may_be_tried(otherwise: u32) -> Document {
    let left = has_attempts(otherwise).remove("$expr").unwrap_or(Bson::Boolean(true));
    doc! { "$expr": { "$or": [{ "$eq": ["$status", "pending"] }, left] } }
}

/// Whether attempts are left, by [`attempts_counted`](pillarbox_core::attempts_counted).
pub(crate) fn has_attempts(otherwise: u32) -> Document {
    let crashes = doc! { "$min": ["$crashes", i64::from(CRASHES_IN_COMPANY)] };
    let counted = doc! { "$subtract": ["$attempts", crashes] };
    let allowed = doc! { "$ifNull": ["$max_attempts", i64::from(otherwise)] };
    doc! { "$expr": { "$lt": [counted, allowed] } }
}

/// Whether none are left. `None`: only the entry's own limit counts.
pub(crate) fn is_spent(otherwise: Option<u32>) -> Document {
    let crashes = doc! { "$min": ["$crashes", i64::from(CRASHES_IN_COMPANY)] };
    let counted = doc! { "$subtract": ["$attempts", crashes] };
    // Nothing is larger than that.
    let allowed = doc! { "$ifNull": ["$max_attempts", otherwise.map_or(i64::MAX, i64::from)] };
    doc! { "$expr": { "$gte": [counted, allowed] } }
}

/// What a `find` asks.
#[derive(Clone, Debug)]
pub(crate) struct Find {
    pub(crate) collection: String,
    pub(crate) filter: Document,
    pub(crate) sort: Document,
    pub(crate) limit: i64,
    pub(crate) projection: Document,
    pub(crate) hint: Option<String>,
}

impl Find {
    pub(crate) fn new(collection: &str, filter: Document) -> Self {
        let (sort, projection) = (Document::new(), Document::new());
        Self { collection: collection.to_owned(), filter, sort, limit: 0, projection, hint: None }
    }

    pub(crate) fn sort(self, sort: Document) -> Self {
        Self { sort, ..self }
    }

    /// At most so many; zero means all.
    pub(crate) fn limit(self, limit: i64) -> Self {
        Self { limit, ..self }
    }

    /// Only these fields, without the id of the document unless it is named.
    pub(crate) fn fields(mut self, names: &[&str]) -> Self {
        self.projection = names.iter().map(|name| ((*name).to_owned(), Bson::Int32(1))).collect();
        if !names.contains(&"_id") {
            self.projection.insert("_id", 0);
        }
        self
    }

    pub(crate) fn hint(self, hint: String) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// The command.
    pub(crate) fn command(self) -> Document {
        let mut command = doc! { "find": self.collection, "filter": self.filter };
        if !self.sort.is_empty() {
            command.insert("sort", self.sort);
        }
        if self.limit > 0 {
            command.insert("limit", self.limit);
        }
        if !self.projection.is_empty() {
            command.insert("projection", self.projection);
        }
        if let Some(hint) = self.hint {
            command.insert("hint", hint);
        }
        command.insert("batchSize", if self.limit > 0 { self.limit } else { 10_000 });
        command
    }
}

/// One change of an `update`.
#[derive(Clone, Debug)]
pub(crate) struct Change(Document);

impl Change {
    /// Changes every document that fits.
    pub(crate) fn all(filter: Document, update: impl Into<Bson>) -> Self {
        Self(doc! { "q": filter, "u": update.into(), "multi": true })
    }

    /// Changes one document, or inserts it.
    pub(crate) fn upsert(filter: Document, update: impl Into<Bson>) -> Self {
        Self(doc! { "q": filter, "u": update.into(), "upsert": true })
    }

    /// By this index.
    pub(crate) fn hint(mut self, hint: String) -> Self {
        self.0.insert("hint", hint);
        self
    }
}

/// An `update` of these changes, in their order.
pub(crate) fn update(collection: &str, changes: impl IntoIterator<Item = Change>) -> Document {
    let updates: Vec<Bson> = changes.into_iter().map(|change| Bson::Document(change.0)).collect();
    doc! { "update": collection, "updates": updates }
}

/// An `insert` of these documents, in their order.
pub(crate) fn insert(collection: &str, documents: Vec<Document>) -> Document {
    doc! { "insert": collection, "documents": documents }
}

/// A `delete` of every document that fits.
pub(crate) fn delete(collection: &str, filter: Document) -> Document {
    doc! { "delete": collection, "deletes": [{ "q": filter, "limit": 0 }] }
}

/// An `aggregate`.
pub(crate) fn aggregate(collection: &str, pipeline: Vec<Document>) -> Document {
    doc! { "aggregate": collection, "pipeline": pipeline, "cursor": { "batchSize": 10_000 } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_and_sequence_numbers_are_the_same_in_the_same_order() {
        let stamps = [(1_794_917_790, 1), (1_794_917_790, 2), (1_794_917_791, 0), (3_000_000_000, u32::MAX)];
        let stamps = stamps.map(|(time, increment)| Stamp { time, increment });
        let seqs = stamps.map(seq_of);
        assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]) && seqs[0] > 0, "{seqs:?}");
        assert_eq!(seqs.map(stamp_of), stamps);
        assert_eq!(stamp_of(-1), stamp_of(0));
    }
}
