//! Where events arrive: a queue, stream or subject of a broker.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::event::Headers;
use crate::received::Attributes;

/// A place to consume from.
#[async_trait]
pub trait Source: Send + Sync {
    /// What this source can tell. Data, so that tests and the consumer choose by it.
    fn capabilities(&self) -> SourceCapabilities;

    /// Begins to receive. Messages that an earlier consumer of the same name left unacknowledged come again.
    async fn subscribe(&self) -> Result<Box<dyn Subscription>>;
}

/// Whoever shares one passes it on as it is.
#[async_trait]
impl<T: Source + ?Sized> Source for Arc<T> {
    fn capabilities(&self) -> SourceCapabilities {
        (**self).capabilities()
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        (**self).subscribe().await
    }
}

/// A stream of messages. Dropping it gives back what was received and not answered.
#[async_trait]
pub trait Subscription: Send {
    /// Waits for the next message; `None` when the broker closed the stream. Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Option<Message>>;

    /// Called before the stream is dropped by whoever can wait: what was received and not answered is given back when
    /// this returns, so that it need not time out at the broker. Never takes longer than a few seconds. Default:
    /// nothing, dropping does it all.
    async fn close(&mut self) {}
}

/// A message as it arrived, not decoded yet.
pub struct Message {
    /// CloudEvents attributes by their bare names.
    pub attributes: Attributes,
    /// All other headers.
    pub headers: Headers,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// How often the broker has delivered it, counting this time; `None` where it does not say.
    pub delivery_count: Option<u32>,
    /// Where it stands in the order in which the broker took its messages; `None` where that is not known. Known for a
    /// message that was delivered before only where it also has a delivery count.
    pub position: Option<Position>,
    /// The answer to the broker.
    pub receipt: Box<dyn Receipt>,
}

/// A place in the order in which a broker took its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Positions of one stream can be compared, those of two cannot.
    pub stream: String,
    /// Grows along the stream.
    pub offset: i64,
}

/// The one answer that a message gets. Without one the broker delivers it again.
#[async_trait]
pub trait Receipt: Send {
    /// Applied, or seen before: the broker forgets it.
    async fn ack(self: Box<Self>) -> Result<()>;

    /// Failed: the broker delivers it again.
    async fn nack(self: Box<Self>) -> Result<()>;

    /// Not to be handled here ever: rejected without requeue, into the broker's dead letters where it has some.
    async fn park(self: Box<Self>) -> Result<()>;
}

/// What a source can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceCapabilities {
    /// Whether messages carry a delivery count. Default: false.
    pub delivery_count: bool,
    /// Whether a parked message is kept somewhere by the broker. Default: false.
    pub keeps_parked: bool,
}

impl SourceCapabilities {
    /// Sets whether messages carry a delivery count.
    #[must_use]
    pub fn delivery_count(mut self, tells: bool) -> Self {
        self.delivery_count = tells;
        self
    }

    /// Sets whether a parked message is kept.
    #[must_use]
    pub fn keeps_parked(mut self, keeps: bool) -> Self {
        self.keeps_parked = keeps;
        self
    }
}
