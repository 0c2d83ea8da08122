//! Many events as one array a column: the number of parameters does not grow with the events.

use pillarbox_core::port::shared::headers_json;
use pillarbox_core::{Error, NewEntry, Result};
use sqlx::postgres::PgArguments;
use uuid::Uuid;

use crate::bind::Bind;
use crate::row::At;

/// Most bytes of one call. The server takes one gigabyte a message, and an array is at most that.
const BYTES_MAX: usize = 256 * 1024 * 1024;

/// The columns of `stage_many.sql`, in its order.
#[derive(Default)]
pub(crate) struct StageBatch {
    event_ids: Vec<Uuid>,
    types: Vec<String>,
    keys: Vec<Option<String>>,
    payloads: Vec<Vec<u8>>,
    content_types: Vec<String>,
    headers: Vec<String>,
    tenants: Vec<Option<String>>,
    correlation_ids: Vec<Option<String>>,
    causation_ids: Vec<Option<String>>,
    execution_ids: Vec<Option<String>>,
    occurred_ats: Vec<Option<At>>,
    priorities: Vec<i16>,
    group_ids: Vec<Option<String>>,
    hlcs: Vec<i64>,
    max_attempts: Vec<Option<i32>>,
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
        self.event_ids.push(entry.event_id.0);
        self.hlcs.push(entry.hlc.raw());
        self.headers.push(headers);
        let event = entry.event;
        self.types.push(event.event_type);
        self.keys.push(event.key);
        self.payloads.push(event.payload);
        self.content_types.push(event.content_type);
        self.tenants.push(event.tenant);
        self.correlation_ids.push(event.correlation_id);
        self.causation_ids.push(event.causation_id);
        self.execution_ids.push(event.execution_id);
        self.occurred_ats.push(event.occurred_at.map(At::from));
        self.priorities.push(event.priority);
        self.group_ids.push(event.group_id);
        self.max_attempts.push(event.max_attempts.and_then(|attempts| i32::try_from(attempts).ok()));
        Ok(())
    }

    pub(crate) fn bind(self, route: &str) -> Result<PgArguments> {
        Bind::new()
            .text(route)
            .value(self.event_ids)
            .value(self.types)
            .value(self.keys)
            .value(self.payloads)
            .value(self.content_types)
            .value(self.headers)
            .value(self.tenants)
            .value(self.correlation_ids)
            .value(self.causation_ids)
            .value(self.execution_ids)
            .value(self.occurred_ats)
            .value(self.priorities)
            .value(self.group_ids)
            .value(self.hlcs)
            .value(self.max_attempts)
            .value(self.delays)
            .done()
    }
}
