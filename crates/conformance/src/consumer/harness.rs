//! What the author of a source or of an inbox writes so that the suite can run on it.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{Sink, Source, Transactions};
use pillarbox_core::{Entry, Event};
use pillarbox_engine::sink::HandlerError;

use crate::Ruin;
use crate::source::Wanted;
use pillarbox_testkit::Published;

/// A broker under test: one queue, stream or subject of its own, and how to harm it.
///
/// What is not acknowledged should come again soon: set short redelivery times where the broker has such.
#[async_trait]
pub trait SourceHarness: Send + Sync + Sized + 'static {
    /// The broker's name in what the suite prints.
    const NAME: &'static str;

    /// A fresh, empty queue of its own.
    async fn start() -> Self;

    /// A consumer's end of that queue. Every call is another consumer: they share the messages.
    fn source(&self) -> Arc<dyn Source>;

    /// Publishes a message as it is, also one that no transport would make. The same event twice is two messages:
    /// a broker that drops duplicates by itself must not be asked to.
    async fn publish(&self, message: Published);

    /// How many messages the broker has set aside; `None` where it keeps none.
    async fn parked(&self) -> Option<usize> {
        None
    }

    /// Ends every stream that is open, as a lost connection does. `false`: the harness cannot do that, and the
    /// case prints that it was skipped.
    async fn cut(&self) -> bool {
        false
    }

    /// A sink into the same queue. `None`: the harness has none, and events are [published](Self::publish).
    fn sink(&self) -> Option<Arc<dyn Sink>> {
        None
    }

    /// A source as one case wants it. `None`: the broker has no such setting; the case takes the usual source, or
    /// prints that it was skipped.
    fn source_with(&self, _wanted: Wanted) -> Option<Arc<dyn Source>> {
        None
    }

    /// How many messages were handed out and are not answered. `None`: the broker does not tell.
    async fn unanswered(&self) -> Option<usize> {
        None
    }

    /// How many messages the queue still holds once no consumer is connected. `None`: the broker does not report it.
    async fn left(&self) -> Option<usize> {
        None
    }

    /// Waits until the broker has noticed that the consumers of before are gone.
    async fn settled(&self) {}

    /// Waits until so many messages that a source of [`Wanted::GivenBackAtOnce`] gave back are ready to come again.
    /// Only for a broker that another consumer does not hear it from.
    async fn returned(&self, _messages: usize) {}

    /// Deletes what a source makes when it subscribes, such as a group. `false`: it makes nothing.
    async fn delete_group(&self) -> bool {
        false
    }

    /// Whether what comes again comes in its old order.
    fn returns_in_order(&self) -> bool {
        true
    }
}

/// An inbox under test, and what a handler writes beside its mark.
#[async_trait]
pub trait InboxHarness: Send + Sync + Sized + 'static {
    /// The inbox and its transactions.
    type Inbox: Transactions + 'static;

    /// The inbox's name in what the suite prints.
    const NAME: &'static str;

    /// A fresh, empty inbox of its own, with room for eight transactions at once.
    async fn start() -> Self;

    /// The inbox.
    fn inbox(&self) -> Arc<Self::Inbox>;

    /// The handler's own write: stages what follows from an event, in the handler's transaction.
    async fn apply(&self, tx: &mut Tx<Self>, event: Event) -> Result<(), HandlerError>;

    /// What was applied and committed, with repetitions.
    async fn applied(&self) -> Vec<Entry>;

    /// A write that breaks a unique index of the application's own. Where there is no such thing, the error that
    /// a handler would return.
    async fn violate(&self, _tx: &mut Tx<Self>) -> Result<(), HandlerError> {
        Err(HandlerError::retry("unique_violation", ""))
    }

    /// Harms the handler's transaction as [`StoreHarness::ruin`](crate::StoreHarness::ruin) does. `false`: it cannot be
    /// harmed that way here, and the case prints that it was skipped.
    async fn ruin(&self, _tx: &mut Tx<Self>, _how: Ruin) -> bool {
        false
    }

    /// Whether several transactions can write at the same time. `false` for a database with one writer: the cases
    /// in which handlers wait for each other are then skipped, and say so.
    fn concurrent_writers(&self) -> bool {
        true
    }
}

/// The transaction of an inbox under test.
pub type Tx<I> = <<I as InboxHarness>::Inbox as Transactions>::Tx;
