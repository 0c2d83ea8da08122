//! The values of one event that says no more than most do.

use pillarbox_core::port::shared::headers_json;
use pillarbox_core::{CONTENT_TYPE_DEFAULT, NewEntry, PRIORITY_DEFAULT, Result};

use crate::statement::Value;

/// Whether `stage_lean.sql` has a place for everything that this entry says.
pub(crate) fn is_lean(entry: &NewEntry) -> bool {
    let event = &entry.event;
    let context = [&event.tenant, &event.correlation_id, &event.causation_id, &event.execution_id];
    context.into_iter().chain([&event.group_id]).all(Option::is_none)
        && event.occurred_at.is_none()
        && event.max_attempts.is_none()
        && entry.delay_micros().is_none()
        && event.priority == PRIORITY_DEFAULT
        && event.content_type == CONTENT_TYPE_DEFAULT
}

/// The values of `stage_lean.sql`, in its order.
pub(crate) fn values(entry: NewEntry) -> Result<Vec<Value>> {
    let event = entry.event;
    let headers = (!event.headers.is_empty()).then(|| headers_json(&event.headers)).transpose()?;
    Ok(vec![
        Value::text(entry.event_id),
        Value::text(entry.route),
        Value::Text(Some(event.event_type)),
        Value::Text(event.key),
        Value::Bytes(event.payload),
        Value::Text(headers),
        Value::Integer(Some(entry.hlc.raw())),
    ])
}
