//! The place where events arrive: a queue, stream or subject of a broker.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::event::Headers;
use crate::received::Attributes;

/// A place to consume from.
#[async_trait]
pub trait Source: Send + Sync {
    /// The capabilities of this source. They are data, so that tests and the consumer can choose by them.
    fn capabilities(&self) -> SourceCapabilities;

    /// The name of the queue, stream or subject, for traces. Default: none.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Begins to receive. Messages that an earlier consumer of the same name left unacknowledged are delivered
    /// again.
    async fn subscribe(&self) -> Result<Box<dyn Subscription>>;
}

/// Forwards every call to the shared value.
#[async_trait]
impl<T: Source + ?Sized> Source for Arc<T> {
    fn capabilities(&self) -> SourceCapabilities {
        (**self).capabilities()
    }

    fn name(&self) -> Option<&str> {
        (**self).name()
    }

    async fn subscribe(&self) -> Result<Box<dyn Subscription>> {
        (**self).subscribe().await
    }
}

/// A stream of messages. Dropping it gives back the messages that were received and not answered.
#[async_trait]
pub trait Subscription: Send {
    /// Waits for the next message. `None`: the broker closed the stream. Dropping the future loses no message.
    async fn next(&mut self) -> Result<Option<Message>>;

    /// Gives back the messages that were received and not answered, so that they need not time out at the broker. A
    /// caller that can wait calls it before it drops the stream. When it returns, the messages are given back. It
    /// never takes longer than a few seconds. Default: it does nothing, because dropping the stream does it all.
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
    /// How often the broker has delivered the message, this time included. `None`: the broker does not say.
    pub delivery_count: Option<u32>,
    /// The message's position in the order in which the broker took its messages. `None`: the position is not
    /// known. For a message that was delivered before, it is known only if the message also has a delivery count.
    pub position: Option<Position>,
    /// The means to answer the broker.
    pub receipt: Box<dyn Receipt>,
}

/// A position in the order in which a broker took its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The stream. Positions can be compared only within one stream.
    pub stream: String,
    /// The offset. It grows along the stream.
    pub offset: i64,
}

/// The one answer that a message gets. Without an answer, the broker delivers the message again.
#[async_trait]
pub trait Receipt: Send {
    /// The event was applied, now or before. The broker forgets the message.
    async fn ack(self: Box<Self>) -> Result<()>;

    /// Handling failed. The broker delivers the message again.
    async fn nack(self: Box<Self>) -> Result<()>;

    /// The message can never be handled here. It is rejected without requeue and goes to the broker's dead letters,
    /// if it has any.
    async fn park(self: Box<Self>) -> Result<()>;
}

/// The capabilities of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceCapabilities {
    /// Whether messages carry a delivery count. Default: false.
    pub delivery_count: bool,
    /// Whether the broker keeps parked messages. Default: false.
    pub keeps_parked: bool,
    /// Whether a message that is given back comes again before every newer message of its key that this source has not
    /// handed out yet. `false`: newer messages may come first, so after a failure a key may be out of order. Default:
    /// false.
    pub returns_in_order: bool,
    /// The name of the broker's system in traces, as for
    /// [`SinkCapabilities::system`](super::SinkCapabilities::system). Default: `pillarbox`.
    pub system: &'static str,
}

impl Default for SourceCapabilities {
    fn default() -> Self {
        Self { delivery_count: false, keeps_parked: false, returns_in_order: false, system: "pillarbox" }
    }
}

impl SourceCapabilities {
    /// Sets whether messages carry a delivery count.
    #[must_use]
    pub fn delivery_count(mut self, tells: bool) -> Self {
        self.delivery_count = tells;
        self
    }

    /// Sets whether the broker keeps parked messages.
    #[must_use]
    pub fn keeps_parked(mut self, keeps: bool) -> Self {
        self.keeps_parked = keeps;
        self
    }

    /// Sets whether a message that is given back comes before the newer ones of its key.
    #[must_use]
    pub fn returns_in_order(mut self, returns: bool) -> Self {
        self.returns_in_order = returns;
        self
    }

    /// Sets the name of the broker's system in traces.
    #[must_use]
    pub fn system(mut self, system: &'static str) -> Self {
        self.system = system;
        self
    }
}
