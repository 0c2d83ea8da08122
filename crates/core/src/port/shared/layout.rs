//! The tables that stores have, and their columns in the order in which statements return them.

/// The columns of an entry, in the order in which [`Decoded`](super::Decoded) reads them. The last one is for statements
/// alone.
pub const ENTRY: [&str; 30] = [
    "seq",
    "event_id",
    "route",
    "type",
    "key",
    "payload",
    "payload_bytes",
    "content_type",
    "headers",
    "tenant",
    "correlation_id",
    "causation_id",
    "execution_id",
    "occurred_at",
    "priority",
    "group_id",
    "hlc",
    "status",
    "attempts",
    "crashes",
    "max_attempts",
    "due_at",
    "fence",
    "owner",
    "last_error",
    "last_attempt_at",
    "created_at",
    "settled_at",
    "lane",
    "leased_at",
];

/// The columns of a saga, in the order in which [`saga_columns`](super::saga_columns) reads them.
pub const SAGA: [&str; 15] = [
    "id",
    "name",
    "route",
    "subject_kind",
    "subject_value",
    "generation",
    "status",
    "version",
    "dead",
    "due_at",
    "deadline_at",
    "body",
    "created_at",
    "updated_at",
    "ended_at",
];

const AUDIT: [&str; 11] = [
    "seq",
    "at",
    "kind",
    "actor",
    "route",
    "event_id",
    "saga_id",
    "subject_kind",
    "subject_value",
    "step",
    "detail",
];

const RELAY: [&str; 13] = [
    "run",
    "route",
    "owner",
    "mode",
    "wake",
    "in_flight",
    "circuit",
    "down_since",
    "outages",
    "reason",
    "started_at",
    "seen_at",
    "lease_until",
];

/// Every table by the end of its name, with the columns that must be there.
pub const TABLES: [(&str, &[&str]); 10] = [
    ("outbox", &ENTRY),
    ("audit", &AUDIT),
    ("saga", &SAGA),
    ("inbox", &["consumer", "event_id", "accepted_at"]),
    ("inbox_fence", &["consumer", "lane", "fence", "stream", "position", "seen_at"]),
    ("relay", &RELAY),
    ("route_state", &["route", "on_dead", "paused_at", "paused_by", "pause_reason"]),
    (
        "lane_session",
        &["rank", "route", "session", "owner", "leased_at", "lease_until", "shares", "handed", "isolated"],
    ),
    ("lane", &["route", "lane", "session", "fence", "revision"]),
    ("schema", &["version", "applied_at"]),
];

/// What a table lacks. `found` are its columns. Empty: there is no such table.
pub fn lacks(table: &str, wanted: &[&str], found: impl Fn(&str) -> bool, is_there: bool) -> Vec<String> {
    if !is_there {
        return vec![format!("the table {table} is missing")];
    }
    let absent = wanted.iter().filter(|column| !found(column));
    absent.map(|column| format!("the column {column} of {table} is missing")).collect()
}
