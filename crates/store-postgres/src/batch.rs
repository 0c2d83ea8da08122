//! Many events as one array a column: the number of parameters does not grow with the events.

use pillarbox_core::port::shared::headers_json;
use pillarbox_core::{Error, NewEntry, Result};

use crate::statement::Value;

/// Most bytes of one call. The server takes one gigabyte a message, and an array is at most that.
const BYTES_MAX: usize = 256 * 1024 * 1024;

/// The columns of `stage_many.sql`, in its order.
#[derive(Default)]
pub(crate) struct StageBatch {
    event_ids: Vec<Option<String>>,
    types: Vec<Option<String>>,
    keys: Vec<Option<String>>,
    payloads: Vec<Vec<u8>>,
    content_types: Vec<Option<String>>,
    headers: Vec<Option<String>>,
    tenants: Vec<Option<String>>,
    correlation_ids: Vec<Option<String>>,
    causation_ids: Vec<Option<String>>,
    execution_ids: Vec<Option<String>>,
    occurred_ats: Vec<Option<String>>,
    priorities: Vec<Option<i64>>,
    group_ids: Vec<Option<String>>,
    hlcs: Vec<Option<i64>>,
    max_attempts: Vec<Option<i64>>,
    delays: Vec<Option<i64>>,
    bytes: usize,
}

impl StageBatch {
    pub(crate) fn push(&mut self, entry: NewEntry) -> Result<()> {
        let headers = headers_json(&entry.event.headers)?;
        self.bytes = self.bytes.saturating_add(entry.event.payload.len()).saturating_add(headers.len());
        if self.bytes > BYTES_MAX {
            return Err(Error::too_large(format!(
                "the events of one call have more than {BYTES_MAX} bytes. Stage them in several calls"
            )));
        }
        self.delays.push(entry.delay_micros());
        self.event_ids.push(Some(entry.event_id.to_string()));
        self.hlcs.push(Some(entry.hlc.raw()));
        self.headers.push(Some(headers));
        let event = entry.event;
        self.types.push(Some(event.event_type));
        self.keys.push(event.key);
        self.payloads.push(event.payload);
        self.content_types.push(Some(event.content_type));
        self.tenants.push(event.tenant);
        self.correlation_ids.push(event.correlation_id);
        self.causation_ids.push(event.causation_id);
        self.execution_ids.push(event.execution_id);
        self.occurred_ats.push(event.occurred_at.map(|at| at.to_string()));
        self.priorities.push(Some(event.priority.into()));
        self.group_ids.push(event.group_id);
        self.max_attempts.push(event.max_attempts.map(i64::from));
        Ok(())
    }

    pub(crate) fn values(self, route: &str) -> Vec<Value> {
        vec![
            Value::text(route),
            Value::Texts(self.event_ids),
            Value::Texts(self.types),
            Value::Texts(self.keys),
            Value::Blobs(self.payloads),
            Value::Texts(self.content_types),
            Value::Texts(self.headers),
            Value::Texts(self.tenants),
            Value::Texts(self.correlation_ids),
            Value::Texts(self.causation_ids),
            Value::Texts(self.execution_ids),
            Value::Texts(self.occurred_ats),
            Value::Integers(self.priorities),
            Value::Texts(self.group_ids),
            Value::Integers(self.hlcs),
            Value::Integers(self.max_attempts),
            Value::Integers(self.delays),
        ]
    }
}
