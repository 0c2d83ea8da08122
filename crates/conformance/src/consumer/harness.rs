//! What the author of a source or of an inbox writes so that the suite can run on it.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{Sink, Source, Transactions};
use pillarbox_core::{Entry, Event};
use pillarbox_engine::sink::HandlerError;

use crate::Ruin;
use crate::source::Wanted;
use pillarbox_testkit::Published;

/// A broker under test, with one queue, stream or subject of its own, and how to damage it.
///
/// An unacknowledged message should be redelivered soon: set short redelivery times if the broker has such
/// settings.
#[async_trait]
pub trait SourceHarness: Send + Sync + 'static {
    /// The broker's name in the output of the suite.
    fn name() -> &'static str
    where
        Self: Sized;

    /// Creates a fresh, empty queue of its own.
    async fn start() -> Self
    where
        Self: Sized;

    /// A source of that queue. Every call returns another consumer: they share the messages.
    fn source(&self) -> Arc<dyn Source>;

    /// Publishes a message unchanged, also one that no transport would produce. If the same event is
    /// published twice, these are two messages: the broker must not drop the duplicate.
    async fn publish(&self, message: Published);

    /// How many messages the broker has parked. `None`: the broker keeps no parked messages.
    async fn parked(&self) -> Option<usize> {
        None
    }

    /// Ends every open stream, as a lost connection does. `false`: the harness cannot do that, and the case
    /// prints that it was skipped.
    async fn cut(&self) -> bool {
        false
    }

    /// A sink into the same queue. `None`: the harness has no sink, and events are
    /// [published](Self::publish).
    fn sink(&self) -> Option<Arc<dyn Sink>> {
        None
    }

    /// A source with the setting that one case needs. `None`: the broker has no such setting. The case then
    /// uses the usual source, or prints that it was skipped.
    fn source_with(&self, _wanted: Wanted) -> Option<Arc<dyn Source>> {
        None
    }

    /// How many messages were delivered and are not answered. `None`: the broker does not report it.
    async fn unanswered(&self) -> Option<usize> {
        None
    }

    /// How many messages the queue still holds once no consumer is connected. `None`: the broker does not report it.
    async fn left(&self) -> Option<usize> {
        None
    }

    /// Waits until the broker has noticed that earlier consumers are gone.
    async fn settled(&self) {}

    /// Waits until this many messages that a source of [`Wanted::GivenBackAtOnce`] gave back are ready for
    /// redelivery. Only needed for a broker that does not tell another consumer about them.
    async fn returned(&self, _messages: usize) {}

    /// Whether sources of one queue share its messages one by one. `false`: they share parts of the queue, and the case
    /// about single messages prints that it was skipped.
    fn shares_single_messages(&self) -> bool {
        true
    }

    /// Deletes what a source creates when it subscribes, such as a group. `false`: a source creates nothing.
    async fn delete_group(&self) -> bool {
        false
    }

    /// Whether messages carry their position, by which a consumer finds those of a former owner of their lane.
    /// `false`: the broker has no such order, and the cases about it print that they were skipped.
    fn tells_positions(&self) -> bool {
        true
    }

    /// Whether redelivered messages come in their old order.
    fn returns_in_order(&self) -> bool {
        true
    }
}

/// An inbox under test, and the write that a handler makes together with its mark.
#[async_trait]
pub trait InboxHarness: Send + Sync + Sized + 'static {
    /// The inbox and its transactions.
    type Inbox: Transactions + 'static;

    /// The inbox's name in the output of the suite.
    const NAME: &'static str;

    /// Creates a fresh, empty inbox of its own, with room for eight transactions at the same time.
    async fn start() -> Self;

    /// The inbox.
    fn inbox(&self) -> Arc<Self::Inbox>;

    /// The handler's own write: stages an event that follows from the consumed one, in the handler's
    /// transaction.
    async fn apply(&self, tx: &mut Tx<Self>, event: Event) -> Result<(), HandlerError>;

    /// The events that were applied and committed, with repetitions.
    async fn applied(&self) -> Vec<Entry>;

    /// A write that breaks a unique index of the application's own. If there is no such index, the error that
    /// a handler would return.
    async fn violate(&self, _tx: &mut Tx<Self>) -> Result<(), HandlerError> {
        Err(HandlerError::retry("unique_violation", ""))
    }

    /// Damages the handler's transaction, as [`StoreHarness::ruin`](crate::StoreHarness::ruin) does. `false`:
    /// the transaction cannot be damaged in this way, and the case prints that it was skipped.
    async fn ruin(&self, _tx: &mut Tx<Self>, _how: Ruin) -> bool {
        false
    }

    /// Whether several transactions can write at the same time. `false` is for a database with one writer.
    /// The cases in which handlers wait for each other are then skipped, and print that they were.
    fn concurrent_writers(&self) -> bool {
        true
    }
}

/// The transaction of an inbox under test.
pub type Tx<I> = <<I as InboxHarness>::Inbox as Transactions>::Tx;
