//! Several events that a consumer applies in one transaction.

use crate::error::{Error, ErrorKind, Result};
use crate::event::EventId;
use crate::limits::ACCEPT_BATCH_MAX;
use crate::name::check_name;
use crate::time::Timestamp;

use super::{AcceptRequest, Origin};

/// A request to mark several events that arrived, for one consumer.
///
/// ```
/// use pillarbox_core::port::AcceptBatch;
///
/// let id = "01932c07-a9f0-7000-8000-000000000001".parse()?;
/// let batch = AcceptBatch::new("billing").event(id, None);
/// assert_eq!(batch.events.len(), 1);
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AcceptBatch {
    /// The name of the consumer that applies the events, 1 to 255 characters.
    pub consumer: String,
    /// The events in the order in which they arrived, each with its id and its
    /// [origin](AcceptRequest::origin). At most [`ACCEPT_BATCH_MAX`].
    pub events: Vec<(EventId, Option<Origin>)>,
    /// The time of the operation. Default: none, the database's clock.
    pub now: Option<Timestamp>,
}

impl AcceptBatch {
    /// A batch of this consumer, still without events.
    #[must_use]
    pub fn new(consumer: impl Into<String>) -> Self {
        Self { consumer: consumer.into(), events: Vec::new(), now: None }
    }

    /// Adds an event.
    #[must_use]
    pub fn event(mut self, event_id: EventId, origin: Option<Origin>) -> Self {
        self.events.push((event_id, origin));
        self
    }

    /// Sets the time of the operation.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// Refuses a consumer name that is not allowed, and too many events.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) or [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn check(&self) -> Result<()> {
        check_name("consumer", &self.consumer)?;
        if self.events.len() > ACCEPT_BATCH_MAX {
            let told = format!("a batch has at most {ACCEPT_BATCH_MAX} events; accept the rest in another");
            return Err(Error::new(ErrorKind::TooLarge, told));
        }
        Ok(())
    }

    /// The same events, one request each.
    pub fn into_requests(self) -> impl Iterator<Item = AcceptRequest> + Send {
        let Self { consumer, events, now } = self;
        events.into_iter().map(move |(event_id, origin)| AcceptRequest {
            consumer: consumer.clone(),
            event_id,
            origin,
            now,
        })
    }
}
