//! The story of a saga for people: steps, attempts and audit records in one timeline.

use serde::Serialize;

use crate::audit::AuditRecord;
use crate::entry::Entry;
use crate::event::EventId;
use crate::time::Timestamp;

use super::record::SagaRecord;

/// One item of the timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineItem {
    /// When it happened, by the database's clock.
    pub at: Timestamp,
    /// What happened: `staged`, `attempt`, or the kind of an audit record.
    pub what: String,
    /// The step, if the item concerns one.
    pub step: Option<String>,
    /// The entry, if the item concerns one.
    pub event_id: Option<EventId>,
    /// The actor, if one is known.
    pub actor: Option<String>,
    /// The number of attempts, or the reason of a failure.
    pub detail: String,
}

/// Joins all that is known about a saga into one timeline, oldest first. Of an entry's attempts, only the last one
/// has a time.
#[must_use]
pub fn timeline(saga: &SagaRecord, entries: &[Entry], audit: &[AuditRecord]) -> Vec<TimelineItem> {
    let mut items = vec![TimelineItem {
        at: saga.created_at,
        what: "staged".into(),
        step: None,
        event_id: None,
        actor: None,
        detail: format!("{} of {}, generation {}", saga.name, saga.subject, saga.generation),
    }];
    for entry in entries {
        let step = saga.find(entry.event_id).and_then(|(at, _)| saga.steps.get(at));
        let of = |at, what: &str, actor, detail| TimelineItem {
            at,
            what: what.into(),
            step: step.map(|step| step.name.clone()),
            event_id: Some(entry.event_id),
            actor,
            detail,
        };
        items.push(of(entry.created_at, "step_staged", None, entry.event_type.clone()));
        if let Some(at) = entry.last_attempt_at {
            let error = entry.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            let detail = format!("attempt {}{error}", entry.attempts);
            items.push(of(at, "attempt", entry.owner.clone(), detail));
        }
    }
    items.extend(audit.iter().map(|record| TimelineItem {
        at: record.at,
        what: record.kind.as_str().into(),
        step: record.step.clone(),
        event_id: record.event_id,
        actor: Some(record.actor.clone()),
        detail: record.detail.clone(),
    }));
    // Stable: of one moment, a step is staged and tried before its record tells the end.
    items.sort_by_key(|item| item.at);
    items
}
