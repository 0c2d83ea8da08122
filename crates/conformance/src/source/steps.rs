//! What the cases of sources are made of.

use std::sync::Arc;

use pillarbox_core::port::{Message, Source, Subscription};
use pillarbox_core::{Entry, EventId};

use crate::consumer::SourceHarness;
use crate::delivery::{SOON, confirm, entries, ids};
use pillarbox_testkit::Published;
use pillarbox_testkit::eventually;

/// A source with a special setting that one case needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wanted {
    /// It takes at most this many messages ahead.
    Ahead(usize),
    /// A message that is given back is redelivered at once. While its consumer stays connected, an unanswered
    /// message is not redelivered within a test.
    GivenBackAtOnce,
    /// A message that is given back is not redelivered within a test.
    GivenBackLate,
    /// Neither a message that is given back nor an unanswered one is redelivered within a test. A message that a
    /// closed subscription had taken ahead is.
    NothingAgain,
    /// An unanswered message is redelivered soon, although its consumer stays connected.
    UnansweredSoon,
    /// The source of a queue that does not exist, with `missing` in its name.
    Missing,
    /// The source of a server that does not exist, at port 1 of the loopback interface.
    Nobody,
}

/// A source as a case wants it, or the usual one.
pub(super) fn source_with(harness: &dyn SourceHarness, wanted: Wanted) -> Arc<dyn Source> {
    harness.source_with(wanted).unwrap_or_else(|| harness.source())
}

/// Publishes this many events, by the transport's own sink if there is one.
pub(super) async fn publish(harness: &dyn SourceHarness, count: usize) -> Vec<EventId> {
    let batch = entries(count);
    publish_all(harness, &batch).await;
    ids(&batch)
}

pub(super) async fn publish_all(harness: &dyn SourceHarness, batch: &[Entry]) {
    match harness.sink() {
        Some(sink) => confirm(&*sink, batch).await,
        None => {
            for entry in batch {
                harness.publish(Published::of(entry)).await;
            }
        }
    }
}

/// The next message, which must come.
pub(super) async fn next(subscription: &mut Box<dyn Subscription>) -> Message {
    let next = tokio::time::timeout(SOON, subscription.next()).await.expect("nothing arrives");
    next.unwrap().expect("the stream goes on")
}

/// The event id of a message.
pub(super) fn id(message: &Message) -> EventId {
    message.attributes["id"].parse().unwrap()
}

/// Acknowledges messages until this many have arrived, and returns their ids.
pub(super) async fn take(subscription: &mut Box<dyn Subscription>, count: usize) -> Vec<EventId> {
    let mut arrived = Vec::new();
    while arrived.len() < count {
        let message = next(subscription).await;
        arrived.push(id(&message));
        message.receipt.ack().await.unwrap();
    }
    arrived
}

/// Waits until this many messages of the broker are unanswered, if the broker reports that.
pub(super) async fn handed_out(harness: &dyn SourceHarness, count: usize) {
    eventually(SOON, async || harness.unanswered().await.is_none_or(|unanswered| unanswered == count)).await;
}

/// Asserts that these came, in this order if the broker keeps it for what comes again.
pub(super) fn assert_came_again(
    harness: &dyn SourceHarness,
    mut arrived: Vec<EventId>,
    expected: &[EventId],
) {
    let mut expected = expected.to_vec();
    if !harness.returns_in_order() {
        arrived.sort_unstable();
        expected.sort_unstable();
    }
    assert_eq!(arrived, expected);
}
