//! Events as documents, and whether the server takes documents of that size.

use mongodb::bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use pillarbox_core::{Error, NewEntry, Result, Timestamp};

use crate::command::{NEXT, event};

/// The largest document that MongoDB takes.
const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What a document has besides its payload and its headers: names are bounded, and a claim adds some.
const AROUND: usize = 32 * 1024;
/// Most bytes of one command. The server takes 48 MB.
const COMMAND_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most documents of one command.
const COMMAND_DOCUMENTS_MAX: usize = 10_000;

/// Refuses an event whose document would be too large, before anything is written.
pub(crate) fn check_size(entry: &NewEntry) -> Result<()> {
    let bytes = bytes(entry);
    if bytes > DOCUMENT_BYTES_MAX {
        return Err(Error::too_large(format!(
            "the event needs a document of {bytes} bytes, and MongoDB allows {DOCUMENT_BYTES_MAX}. Keep large payloads \
             elsewhere, and stage where they are"
        )));
    }
    Ok(())
}

fn bytes(entry: &NewEntry) -> usize {
    let event = &entry.event;
    let headers: usize = event.headers.iter().map(|(name, value)| name.len() + value.len() + 16).sum();
    event.payload.len() + headers + AROUND
}

/// Entries in parts that one command each can carry.
pub(crate) fn parts(entries: &[NewEntry]) -> Vec<&[NewEntry]> {
    let (mut parts, mut rest) = (Vec::new(), entries);
    while !rest.is_empty() {
        let mut left = COMMAND_BYTES_MAX;
        let fits = |entry: &&NewEntry| {
            let bytes = bytes(entry);
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        };
        let count = rest.iter().take(COMMAND_DOCUMENTS_MAX).take_while(fits).count().max(1);
        let (part, later) = rest.split_at(count);
        parts.push(part);
        rest = later;
    }
    parts
}

/// The document of an entry. `created` is the writer's clock, `now` the server's, which only a delay needs.
pub(crate) fn document(entry: NewEntry, created: Timestamp, now: Option<Timestamp>) -> Document {
    let (lane, delay) = (i32::from(entry.lane()), entry.delay_micros());
    let staged = entry.event;
    let mut document = doc! {
        "seq": NEXT,
        "event_id": event(entry.event_id),
        "route": entry.route.as_str(),
        "type": staged.event_type,
        "payload": Binary { subtype: BinarySubtype::Generic, bytes: staged.payload },
        "content_type": staged.content_type,
        "priority": i32::from(staged.priority),
        "hlc": entry.hlc.raw(),
        "status": "pending",
        "attempts": 0,
        "crashes": 0,
        "fence": 0_i64,
        "created_at": created.as_micros(),
        "lane": lane,
    };
    let headers: Document =
        staged.headers.into_iter().map(|(name, value)| (name, Bson::String(value))).collect();
    if !headers.is_empty() {
        document.insert("headers", headers);
    }
    let texts = [
        ("key", staged.key),
        ("tenant", staged.tenant),
        ("correlation_id", staged.correlation_id),
        ("causation_id", staged.causation_id),
        ("execution_id", staged.execution_id),
        ("group_id", staged.group_id),
    ];
    // What has no value is not written.
    for (name, text) in texts {
        document.extend(text.map(|text| (name.to_owned(), Bson::String(text))));
    }
    let due = now.zip(delay).map(|(now, delay)| now.as_micros().saturating_add(delay));
    let numbers = [
        ("occurred_at", staged.occurred_at.map(Timestamp::as_micros)),
        ("max_attempts", staged.max_attempts.map(i64::from)),
        ("due_at", due),
    ];
    for (name, number) in numbers {
        document.extend(number.map(|number| (name.to_owned(), Bson::Int64(number))));
    }
    document
}
