//! Many events as the parameters of one statement.

use pillarbox_core::port::shared::headers_json;
use pillarbox_core::{Error, NewEntry, Result};

/// Most bytes of one call: SQLite takes no parameter of a billion bytes or more.
const BATCH_BYTES_MAX: usize = 900_000_000;

/// What `stage_many.sql` binds besides the route.
#[derive(Debug)]
pub(crate) struct StageBatch {
    /// One array per event, in the order of that statement.
    pub(crate) json: String,
    /// All payloads, one after the other.
    pub(crate) payloads: Vec<u8>,
}

impl StageBatch {
    /// Writes the entries down as that statement reads them.
    pub(crate) fn new(entries: &[NewEntry]) -> Result<Self> {
        let bytes = entries.iter().map(|entry| entry.event.payload.len()).sum();
        check_bytes(bytes)?;
        // A function of SQLite reads an empty blob as null, so this one never is.
        let mut payloads = Vec::with_capacity(bytes + 1);
        payloads.push(0);
        let mut json = Vec::with_capacity(entries.len() * 200 + 2);
        json.push(b'[');
        for (index, entry) in entries.iter().enumerate() {
            if index > 0 {
                json.push(b',');
            }
            let event = &entry.event;
            // SQL counts bytes from one. With the lane, because a tuple ends at sixteen.
            let cut = (payloads.len() + 1, event.payload.len(), entry.lane());
            payloads.extend_from_slice(&event.payload);
            let fields = (
                entry.event_id,
                &event.event_type,
                &event.key,
                &event.content_type,
                headers_json(&event.headers)?,
                &event.tenant,
                &event.correlation_id,
                &event.causation_id,
                &event.execution_id,
                event.occurred_at.map(|at| at.as_micros()),
                event.priority,
                &event.group_id,
                entry.hlc.raw(),
                event.max_attempts,
                entry.delay_micros(),
                cut,
            );
            serde_json::to_writer(&mut json, &fields).map_err(|_| unwritable())?;
        }
        json.push(b']');
        check_bytes(json.len())?;
        Ok(Self { json: String::from_utf8(json).map_err(|_| unwritable())?, payloads })
    }
}

fn check_bytes(bytes: usize) -> Result<()> {
    if bytes > BATCH_BYTES_MAX {
        return Err(Error::too_large(format!(
            "the events of one call have {bytes} bytes; at most {BATCH_BYTES_MAX} are allowed. Stage them in \
             several calls"
        )));
    }
    Ok(())
}

fn unwritable() -> Error {
    Error::invalid("an event cannot be written as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_sqlite_takes_is_refused() {
        assert!(check_bytes(BATCH_BYTES_MAX).is_ok());
        assert_eq!(check_bytes(BATCH_BYTES_MAX + 1).unwrap_err().kind(), pillarbox_core::ErrorKind::TooLarge);
    }
}
