//! The other side: applying an event once.

use std::sync::Arc;

use async_trait::async_trait;

use crate::entry::Fence;
use crate::error::Result;
use crate::event::EventId;
use crate::limits::LANE_BYTES_MAX;
use crate::name::check_name;
use crate::received::Received;
use crate::time::Timestamp;

use super::Position;

/// Marks an event as seen in the *same transaction* as the handler's own write.
#[async_trait]
pub trait Inbox<Tx: Send + ?Sized>: Send + Sync {
    /// Marks the event for this consumer. The handler may only run on [`Accepted::Fresh`].
    ///
    /// A concurrent duplicate waits until this transaction ends: it then sees a duplicate after a commit,
    /// and is fresh after a rollback.
    ///
    /// With an [origin](AcceptRequest::origin) the inbox also remembers the newest fence of that lane. That memory is
    /// part of the transaction too, and no transaction waits for another one because of it.
    async fn accept(&self, tx: &mut Tx, request: AcceptRequest) -> Result<Accepted>;
}

/// Where a consumer's transactions come from: each holds the mark of one event and the handler's own write.
#[async_trait]
pub trait Transactions: Inbox<Self::Tx> {
    /// The driver's own transaction.
    type Tx: Send;

    /// Begins a transaction.
    async fn begin(&self) -> Result<Self::Tx>;

    /// Commits it: `Ok` means that all of it is known to be committed.
    ///
    /// A transaction that cannot be committed any more, because a statement in it failed or something ended it, is
    /// [`Aborted`](crate::ErrorKind::Aborted), also where the database's own COMMIT is silent about that. A lost answer
    /// is [`Retry::Unknown`](crate::Retry::Unknown): the event comes again and is then fresh or a duplicate.
    async fn commit(&self, tx: Self::Tx) -> Result<()>;

    /// Rolls it back.
    async fn rollback(&self, tx: Self::Tx) -> Result<()>;
}

/// Whoever shares one passes it on as it is.
#[async_trait]
impl<Tx: Send + ?Sized, T: Inbox<Tx> + ?Sized> Inbox<Tx> for Arc<T> {
    async fn accept(&self, tx: &mut Tx, request: AcceptRequest) -> Result<Accepted> {
        (**self).accept(tx, request).await
    }
}

/// Whoever shares one passes it on as it is.
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

/// An event that arrived.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AcceptRequest {
    /// Who applies it; distinct consumers are independent. 1 to 255 characters.
    pub consumer: String,
    /// The id from the envelope.
    pub event_id: EventId,
    /// Who published it and where it stands in its stream. Default: none, nothing is refused as stale.
    pub origin: Option<Origin>,
    /// The time to act at. Default: none, the database's clock.
    pub now: Option<Timestamp>,
}

impl AcceptRequest {
    /// This event for this consumer.
    #[must_use]
    pub fn new(consumer: impl Into<String>, event_id: EventId) -> Self {
        Self { consumer: consumer.into(), event_id, origin: None, now: None }
    }

    /// Sets who published it and where it stands in its stream.
    #[must_use]
    pub fn origin(mut self, origin: Option<Origin>) -> Self {
        self.origin = origin;
        self
    }

    /// Sets the time to act at.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// Refuses a consumer name out of bounds.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) or [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn check(&self) -> Result<()> {
        check_name("consumer", &self.consumer)
    }
}

/// The owner of a lane that published an event, and where the event stands in the stream that it came by.
///
/// An owner that was frozen past its lease can still have bytes under way. They reach the broker *behind* those of
/// the owner that took its lane over, and so it is the place in the stream that tells them from a message that was
/// published in time and is only handled late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The lane: unlike that of any other store or route whose events come by the same stream.
    pub lane: String,
    /// Its owner's fence: a later owner has a higher one.
    pub fence: Fence,
    /// Where the event stands.
    pub position: Position,
}

impl Origin {
    /// The origin of an event, if it was published from a lane and its position is known. A lane whose name is longer
    /// than [`LANE_BYTES_MAX`] has none.
    #[must_use]
    pub fn of<T>(event: &Received<T>, position: Option<Position>) -> Option<Self> {
        let (lane, fence) = event.lane.as_ref()?;
        let lane = format!("{} {lane}", event.source);
        (lane.len() <= LANE_BYTES_MAX).then_some(())?;
        Some(Self { lane, fence: *fence, position: position? })
    }

    /// Whether it was published by an owner that had lost the lane by then: one with a higher fence stands before it
    /// in the same stream. The lane's owner publishes it again, because the settle of this one is fenced.
    #[must_use]
    pub fn is_stale(&self, newest: &Self) -> bool {
        self.fence < newest.fence
            && self.position.stream == newest.position.stream
            && self.position.offset > newest.position.offset
    }

    /// Whether it is to be remembered instead of what was known.
    #[must_use]
    pub fn is_newer(&self, known: Option<&Self>) -> bool {
        known.is_none_or(|known| self.fence > known.fence)
    }
}

/// What an event is to this consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Accepted {
    /// First time seen: apply the effect in the same transaction.
    Fresh,
    /// Applied before: acknowledge it without running the handler.
    Duplicate,
    /// Not applied yet, and published by an owner that had lost its lane: give it back to the broker without running
    /// the handler. The lane's owner brings it in its turn. Never acknowledge it, and accept it without an origin when
    /// it has come a few times: then nobody else seems to bring it. Nothing was marked.
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
