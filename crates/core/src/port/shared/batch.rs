//! Many events as the parameters of one statement.

use crate::entry::NewEntry;
use crate::error::{Error, Result};

use super::statement::headers_json;

/// Any number of events as a statement reads them that takes JSON.
#[derive(Clone, Debug)]
pub struct StageBatch {
    /// One array per event: `id, type, key, content_type, headers, tenant, correlation_id, causation_id, execution_id,
    /// occurred_at, priority, group_id, hlc, max_attempts, delay`, and an array of the payload's place, its length and the
    /// lane.
    pub json: String,
    /// All payloads, one after the other, behind one byte: databases read an empty blob as null.
    pub payloads: Vec<u8>,
}

impl StageBatch {
    /// Writes entries down. Neither part may have more than `bytes_max` bytes.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for more than that.
    pub fn new(entries: &[NewEntry], bytes_max: usize) -> Result<Self> {
        let bytes = entries.iter().map(|entry| entry.event.payload.len()).sum();
        check_bytes(bytes, bytes_max)?;
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
        check_bytes(json.len(), bytes_max)?;
        Ok(Self { json: String::from_utf8(json).map_err(|_| unwritable())?, payloads })
    }

    /// How many bytes both parts have.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.json.len() + self.payloads.len()
    }
}

fn check_bytes(bytes: usize, bytes_max: usize) -> Result<()> {
    if bytes > bytes_max {
        return Err(Error::too_large(format!(
            "the events of one call have {bytes} bytes; at most {bytes_max} are allowed. Stage them in several \
             calls"
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
    fn more_than_the_database_takes_is_refused() {
        assert!(check_bytes(7, 7).is_ok());
        assert_eq!(check_bytes(8, 7).unwrap_err().kind(), crate::ErrorKind::TooLarge);
    }
}
