//! The consumer's side: applying an event once.

use std::sync::Arc;

use async_trait::async_trait;

use crate::entry::Fence;
use crate::error::Result;
use crate::event::EventId;
use crate::limits::LANE_BYTES_MAX;
use crate::name::check_name;
use crate::received::Received;
use crate::time::Timestamp;

use super::{AcceptBatch, Position};

/// Marks an event as seen in the *same transaction* as the handler's own write.
#[async_trait]
pub trait Inbox<Tx: Send + ?Sized>: Send + Sync {
    /// Marks the event for this consumer. The handler may only run on [`Accepted::Fresh`].
    ///
    /// A concurrent duplicate waits until this transaction ends. After a commit it is a duplicate. After a rollback
    /// it is fresh.
    ///
    /// If the request has an [origin](AcceptRequest::origin), the inbox also remembers the newest fence of that
    /// lane. That record is part of the transaction too. No transaction waits for another one because of it.
    async fn accept(&self, tx: &mut Tx, request: AcceptRequest) -> Result<Accepted>;

    /// Marks several events for one consumer. The outcomes stand in the order of the events. They are the same as if
    /// [`accept`](Self::accept) were called for each event in that order: an event that comes twice in one batch is
    /// fresh once, and an event of a new owner makes a later one of an earlier owner stale.
    ///
    /// If another transaction marks one of the events at the same time, the call may fail with
    /// [`Contention`](crate::ErrorKind::Contention). Then the transaction has to be run again.
    ///
    /// Default: one call of `accept` after the other. A store overrides it with one statement.
    async fn accept_all(&self, tx: &mut Tx, batch: AcceptBatch) -> Result<Vec<Accepted>> {
        batch.check()?;
        let mut outcomes = Vec::with_capacity(batch.events.len());
        for request in batch.into_requests() {
            outcomes.push(self.accept(tx, request).await?);
        }
        Ok(outcomes)
    }
}

/// Begins and ends a consumer's transactions. Each transaction holds the marks of the events that it applies and the
/// handler's own write.
#[async_trait]
pub trait Transactions: Inbox<Self::Tx> {
    /// The driver's own transaction.
    type Tx: Send;

    /// Begins a transaction.
    async fn begin(&self) -> Result<Self::Tx>;

    /// Commits the transaction. `Ok` means that all of it is known to be committed.
    ///
    /// A transaction cannot be committed any more if one of its statements failed, or if something ended it. The
    /// error is then [`Aborted`](crate::ErrorKind::Aborted), even if the database's own COMMIT reports no error.
    ///
    /// A lost answer is [`Retry::Unknown`](crate::Retry::Unknown). The event comes again and is then fresh or a
    /// duplicate.
    async fn commit(&self, tx: Self::Tx) -> Result<()>;

    /// Rolls the transaction back.
    async fn rollback(&self, tx: Self::Tx) -> Result<()>;
}

/// Forwards every call to the shared value.
#[async_trait]
impl<Tx: Send + ?Sized, T: Inbox<Tx> + ?Sized> Inbox<Tx> for Arc<T> {
    async fn accept(&self, tx: &mut Tx, request: AcceptRequest) -> Result<Accepted> {
        (**self).accept(tx, request).await
    }

    async fn accept_all(&self, tx: &mut Tx, batch: AcceptBatch) -> Result<Vec<Accepted>> {
        (**self).accept_all(tx, batch).await
    }
}

/// Forwards every call to the shared value.
#[async_trait]
impl<T: Transactions + ?Sized> Transactions for Arc<T> {
    type Tx = T::Tx;

    async fn begin(&self) -> Result<Self::Tx> {
        (**self).begin().await
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        (**self).commit(tx).await
    }

    async fn rollback(&self, tx: Self::Tx) -> Result<()> {
        (**self).rollback(tx).await
    }
}

/// A request to mark an event that arrived.
///
/// ```
/// use pillarbox_core::port::AcceptRequest;
///
/// let id = "01932c07-a9f0-7000-8000-000000000001".parse()?;
/// let request = AcceptRequest::new("billing", id);
/// assert_eq!(request.consumer, "billing");
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AcceptRequest {
    /// The name of the consumer that applies the event, 1 to 255 characters. Consumers of different names are
    /// independent.
    pub consumer: String,
    /// The id from the envelope.
    pub event_id: EventId,
    /// The lane owner that published the event, and the event's position in its stream. Default: none, and nothing
    /// is refused as stale.
    pub origin: Option<Origin>,
    /// The time of the operation. Default: none, the database's clock.
    pub now: Option<Timestamp>,
}

impl AcceptRequest {
    /// A request to mark this event for this consumer.
    #[must_use]
    pub fn new(consumer: impl Into<String>, event_id: EventId) -> Self {
        Self { consumer: consumer.into(), event_id, origin: None, now: None }
    }

    /// Sets the lane owner that published the event, and the event's position in its stream.
    #[must_use]
    pub fn origin(mut self, origin: Option<Origin>) -> Self {
        self.origin = origin;
        self
    }

    /// Sets the time of the operation.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// Refuses a consumer name that is not allowed.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) or [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn check(&self) -> Result<()> {
        check_name("consumer", &self.consumer)
    }
}

/// The lane owner that published an event, and the event's position in the stream that it came by.
///
/// An owner that was frozen past its lease can still have bytes under way. These reach the broker *behind* the
/// bytes of the owner that took over the lane. A message that was published in time and is only handled late stands
/// before them. So the position in the stream tells the two cases apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The lane's name. It differs from the lane of any other store or route whose events come by the same stream.
    pub lane: String,
    /// The fence of the lane's owner. A later owner has a higher one.
    pub fence: Fence,
    /// The event's position.
    pub position: Position,
}

impl Origin {
    /// The origin of an event. `None`: it was not published from a lane, its position is not known, or the lane's
    /// name is longer than [`LANE_BYTES_MAX`].
    #[must_use]
    pub fn of<T>(event: &Received<T>, position: Option<Position>) -> Option<Self> {
        let (lane, fence) = event.lane.as_ref()?;
        let lane = format!("{} {lane}", event.source);
        (lane.len() <= LANE_BYTES_MAX).then_some(())?;
        Some(Self { lane, fence: *fence, position: position? })
    }

    /// Whether the event was published by an owner that had already lost the lane. If so, an event with a higher
    /// fence stands before it in the same stream. The lane's owner publishes the event again, because the settle of
    /// the earlier owner is fenced.
    #[must_use]
    pub fn is_stale(&self, newest: &Self) -> bool {
        self.fence < newest.fence
            && self.position.stream == newest.position.stream
            && self.position.offset > newest.position.offset
    }

    /// Whether the inbox remembers this origin instead of the known one.
    #[must_use]
    pub fn is_newer(&self, known: Option<&Self>) -> bool {
        known.is_none_or(|known| self.fence > known.fence)
    }
}

/// What the consumer must do with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Accepted {
    /// First time seen: apply the effect in the same transaction.
    Fresh,
    /// Applied before: acknowledge it without running the handler.
    Duplicate,
    /// Not applied yet, and published by an owner that had already lost its lane. Nothing was marked. Give the
    /// message back to the broker without running the handler, and never acknowledge it. The lane's owner publishes
    /// the event again in its turn.
    ///
    /// If the message has come a few times, accept it without an origin: then no other relay seems to publish it.
    Stale,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(fence: i64, stream: &str, offset: i64) -> Origin {
        let position = Position { stream: stream.into(), offset };
        Origin { lane: "shop orders/3".into(), fence: Fence(fence), position }
    }

    #[test]
    fn only_what_stands_behind_a_later_owner_is_stale() {
        let newest = origin(7, "s", 10);
        assert!(origin(6, "s", 11).is_stale(&newest));
        assert!(!origin(6, "s", 9).is_stale(&newest), "published in time, handled late");
        assert!(!origin(6, "other", 11).is_stale(&newest), "places of two streams say nothing");
        assert!(!origin(7, "s", 11).is_stale(&newest));
        assert!(!origin(8, "s", 11).is_stale(&newest));
    }

    #[test]
    fn the_first_message_of_the_newest_owner_is_remembered() {
        assert!(origin(7, "s", 10).is_newer(None));
        assert!(origin(8, "s", 10).is_newer(Some(&origin(7, "s", 1))));
        assert!(!origin(7, "t", 1).is_newer(Some(&origin(7, "s", 10))));
        assert!(!origin(6, "s", 1).is_newer(Some(&origin(7, "s", 10))));
    }
}
