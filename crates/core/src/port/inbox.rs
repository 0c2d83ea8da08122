//! The other side: applying an event once.

use async_trait::async_trait;

use crate::error::Result;
use crate::event::EventId;
use crate::name::check_name;
use crate::time::Timestamp;

/// Marks an event as seen in the *same transaction* as the handler's own write.
#[async_trait]
pub trait Inbox<Tx: Send + ?Sized>: Send + Sync {
    /// Marks the event for this consumer. On [`Accepted::Duplicate`] the handler must not run.
    ///
    /// A concurrent duplicate waits until this transaction ends: it then sees a duplicate after a commit,
    /// and is fresh after a rollback.
    async fn accept(&self, tx: &mut Tx, request: AcceptRequest) -> Result<Accepted>;
}

/// Where a consumer's transactions come from: each holds the mark of one event and the handler's own write.
#[async_trait]
pub trait Transactions: Inbox<Self::Tx> {
    /// The driver's own transaction.
    type Tx: Send;

    /// Begins a transaction.
    async fn begin(&self) -> Result<Self::Tx>;

    /// Commits it. A lost answer is [`Retry::Unknown`](crate::Retry::Unknown): the event comes again and is then
    /// fresh or a duplicate.
    async fn commit(&self, tx: Self::Tx) -> Result<()>;

    /// Rolls it back.
    async fn rollback(&self, tx: Self::Tx) -> Result<()>;
}

/// An event that arrived.
#[derive(Clone, Debug)]
pub struct AcceptRequest {
    /// Who applies it; distinct consumers are independent. 1 to 255 characters.
    pub consumer: String,
    /// The id from the envelope.
    pub event_id: EventId,
    /// The time to act at; `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl AcceptRequest {
    /// Refuses a consumer name out of bounds.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) or [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn check(&self) -> Result<()> {
        check_name("consumer", &self.consumer)
    }
}

/// Whether an event was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Accepted {
    /// First time seen: apply the effect in the same transaction.
    Fresh,
    /// Applied before: acknowledge it without running the handler.
    Duplicate,
}
