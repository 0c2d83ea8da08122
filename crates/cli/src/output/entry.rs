//! An entry as JSON: its columns, under the names of the SQL contract.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillarbox_core::port::Story;
use pillarbox_core::{AuditRecord, Entry, EventId, Failure, Fence, Headers, RouteName, Standing, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;

/// An entry's columns.
#[derive(Serialize)]
pub(crate) struct EntryJson<'a> {
    seq: i64,
    event_id: EventId,
    route: &'a RouteName,
    #[serde(rename = "type")]
    event_type: &'a str,
    key: &'a Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    content_type: &'a str,
    headers: &'a Headers,
    tenant: &'a Option<String>,
    correlation_id: &'a Option<String>,
    causation_id: &'a Option<String>,
    execution_id: &'a Option<String>,
    occurred_at: Option<Timestamp>,
    priority: i16,
    group_id: &'a Option<String>,
    hlc: Option<i64>,
    status: Standing,
    blocked_by: Option<EventId>,
    attempts: u32,
    crashes: u32,
    max_attempts: Option<u32>,
    due_at: Option<Timestamp>,
    fence: Fence,
    owner: &'a Option<String>,
    last_error: &'a Option<Failure>,
    last_attempt_at: Option<Timestamp>,
    created_at: Timestamp,
    settled_at: Option<Timestamp>,
}

impl<'a> From<&'a Entry> for EntryJson<'a> {
    fn from(entry: &'a Entry) -> Self {
        let payload = json_payload(entry);
        let payload_base64 = payload.is_none().then(|| STANDARD.encode(&entry.payload));
        Self {
            seq: entry.seq,
            event_id: entry.event_id,
            route: &entry.route,
            event_type: &entry.event_type,
            key: &entry.key,
            payload,
            payload_base64,
            content_type: &entry.content_type,
            headers: &entry.headers,
            tenant: &entry.tenant,
            correlation_id: &entry.correlation_id,
            causation_id: &entry.causation_id,
            execution_id: &entry.execution_id,
            occurred_at: entry.occurred_at,
            priority: entry.priority,
            group_id: &entry.group_id,
            hlc: entry.hlc.map(|hlc| hlc.raw()),
            status: entry.standing(),
            blocked_by: entry.blocked_by,
            attempts: entry.attempts,
            crashes: entry.crashes,
            max_attempts: entry.max_attempts,
            due_at: entry.due_at,
            fence: entry.fence,
            owner: &entry.owner,
            last_error: &entry.last_error,
            last_attempt_at: entry.last_attempt_at,
            created_at: entry.created_at,
            settled_at: entry.settled_at,
        }
    }
}

/// The columns in their order, the payload last: for people.
pub(crate) const COLUMNS: [&str; 29] = [
    "event_id",
    "route",
    "type",
    "key",
    "status",
    "blocked_by",
    "attempts",
    "crashes",
    "max_attempts",
    "due_at",
    "last_error",
    "last_attempt_at",
    "created_at",
    "settled_at",
    "owner",
    "fence",
    "seq",
    "priority",
    "tenant",
    "correlation_id",
    "causation_id",
    "execution_id",
    "occurred_at",
    "group_id",
    "hlc",
    "headers",
    "content_type",
    "payload_base64",
    "payload",
];

/// An entry's columns, with its audit records under `audit`.
#[derive(Serialize)]
pub(crate) struct StoryJson<'a> {
    #[serde(flatten)]
    entry: EntryJson<'a>,
    audit: &'a [AuditRecord],
}

impl<'a> From<&'a Story> for StoryJson<'a> {
    fn from(story: &'a Story) -> Self {
        Self { entry: (&story.entry).into(), audit: &story.audit }
    }
}

/// Whether a content type promises JSON.
pub(crate) fn is_json_type(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    essence == "application/json" || essence == "text/json" || essence.ends_with("+json")
}

// The text itself is kept, numbers and repeated names included; only line breaks would break the output.
fn json_payload(entry: &Entry) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(&entry.payload).ok().filter(|_| is_json_type(&entry.content_type))?;
    let raw: Box<RawValue> = serde_json::from_str(text).ok()?;
    if !raw.get().contains(['\n', '\r']) {
        return Some(raw);
    }
    RawValue::from_string(without_spaces(raw.get())).ok()
}

fn without_spaces(json: &str) -> String {
    let (mut in_text, mut escaped) = (false, false);
    json.chars()
        .filter(|c| {
            let keep = in_text || !c.is_ascii_whitespace();
            match (in_text, escaped, c) {
                (true, true, _) => escaped = false,
                (true, false, '\\') => escaped = true,
                (_, false, '"') => in_text = !in_text,
                _ => {}
            }
            keep
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_are_dropped_outside_texts_only() {
        let json = "{\n  \"a b\" : [ 1.50 ,\r\n 2e3 ],\t\"q\\\" \\\\\" : \" x \"\n}";
        assert_eq!(without_spaces(json), r#"{"a b":[1.50,2e3],"q\" \\":" x "}"#);
    }

    #[test]
    fn every_column_is_shown_to_people() {
        let route = RouteName::new("r").unwrap();
        let entry = Entry::new(1, EventId(uuid::Uuid::nil()), route, "t", Timestamp::MIN);
        let value = serde_json::to_value(EntryJson::from(&entry)).unwrap();
        assert!(value.as_object().unwrap().keys().all(|name| COLUMNS.contains(&name.as_str())));
        assert_eq!(value.as_object().unwrap().len() + 1, COLUMNS.len(), "all but payload_base64");
    }

    #[test]
    fn json_is_known_by_its_content_type() {
        for (content_type, json) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/cloudevents+json", true),
            ("text/plain", false),
            ("application/octet-stream", false),
        ] {
            assert_eq!(is_json_type(content_type), json, "{content_type}");
        }
    }
}
