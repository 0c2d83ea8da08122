//! The story of a saga for people: steps, attempts and audit records in one line of time.

use serde::Serialize;

use crate::audit::AuditRecord;
use crate::entry::Entry;
use crate::event::EventId;
use crate::time::Timestamp;

use super::record::SagaRecord;

/// Something that happened to a saga.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineItem {
    /// When, by the database's clock.
    pub at: Timestamp,
    /// What: `staged`, `attempt`, or the kind of an audit record.
    pub what: String,
    /// To which step.
    pub step: Option<String>,
    /// Of which entry.
    pub event_id: Option<EventId>,
    /// Who did it.
    pub actor: Option<String>,
    /// How many attempts there were, or why it failed.
    pub detail: String,
}

/// Joins what is known of a saga, oldest first. Of the attempts of an entry only the last one has a time.
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
