//! What was not acknowledged comes again, and nothing else does.

use futures_util::FutureExt as _;
use pillarbox_core::Event;

use super::steps::*;
use crate::case::skip;
use crate::consumer::SourceHarness;
use crate::delivery::{SOON, entry, ids};
use pillarbox_testkit::eventually;

/// By the broker, where it counts.
pub async fn what_was_given_back_comes_again_and_is_counted(harness: &dyn SourceHarness) {
    let ids = publish(harness, 1).await;
    let source = source_with(harness, Wanted::GivenBackAtOnce);
    let counts = source.capabilities().delivery_count;
    let mut subscription = source.subscribe().await.unwrap();
    for count in 1..=4 {
        let message = next(&mut subscription).await;
        assert_eq!((id(&message), message.delivery_count), (ids[0], counts.then_some(count)));
        message.receipt.nack().await.unwrap();
    }
    assert_eq!(source.capabilities().delivery_count, counts, "redelivered is no count");
    next(&mut subscription).await.receipt.ack().await.unwrap();
    handed_out(harness, 0).await;
}

/// The others do not wait for it.
pub async fn what_was_given_back_waits_for_the_delay(harness: &dyn SourceHarness) {
    let Some(source) = harness.source_with(Wanted::GivenBackLate) else {
        return skip("the broker knows no delay");
    };
    publish(harness, 1).await;
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.nack().await.unwrap();
    let later = publish(harness, 1).await;
    assert_eq!(id(&next(&mut subscription).await), later[0]);
    assert!(subscription.next().now_or_never().is_none());
}

/// Nothing but giving it back makes it come again here.
pub async fn what_a_dropped_subscription_left_comes_again_at_once(harness: &dyn SourceHarness) {
    let Some(source) = harness.source_with(Wanted::GivenBackAtOnce) else {
        return skip("the broker forgets what a consumer gave back when it left");
    };
    let mut ids = publish(harness, 20).await;
    let mut subscription = source.subscribe().await.unwrap();
    let held = next(&mut subscription).await;
    let answered = next(&mut subscription).await;
    handed_out(harness, 20).await;
    // The answer to this comes behind all that the broker has sent.
    answered.receipt.ack().await.unwrap();
    drop((subscription, held));
    harness.returned(19).await;
    // The first one stays connected: what it gives back may still be on its way.
    let second = harness.source_with(Wanted::GivenBackAtOnce).unwrap();
    let mut subscription = second.subscribe().await.unwrap();
    ids.remove(1);
    assert_came_again(harness, take(&mut subscription, 19).await, &ids);
}

/// Also those that had arrived already. Another key does not wait.
pub async fn newer_messages_of_a_key_wait_for_one_that_was_given_back(harness: &dyn SourceHarness) {
    let source = harness.source();
    if !source.capabilities().returns_in_order {
        return skip("newer messages may come before one that was given back");
    }
    let keyed = |n: usize, key: &str| entry(Event::new("order.placed", n.to_string()).key(key));
    let batch = [keyed(0, "a"), keyed(1, "b"), keyed(2, "a"), keyed(3, "a")];
    publish_all(harness, &batch).await;
    let ids = ids(&batch);
    let mut subscription = source.subscribe().await.unwrap();
    let (mut given_back, mut arrived) = (0, Vec::new());
    while arrived.len() < batch.len() {
        let message = next(&mut subscription).await;
        if id(&message) == ids[0] && given_back < 2 {
            given_back += 1;
            message.receipt.nack().await.unwrap();
        } else {
            arrived.push(id(&message));
            message.receipt.ack().await.unwrap();
        }
    }
    assert!(arrived.contains(&ids[1]));
    arrived.retain(|id| *id != ids[1]);
    assert_eq!(arrived, [ids[0], ids[2], ids[3]], "the key is in order");
}

/// Neither answered nor dropped, as by a process that was killed.
pub async fn what_a_dead_consumer_left_comes_again(harness: &dyn SourceHarness) {
    let Some(source) = harness.source_with(Wanted::UnansweredSoon) else {
        return skip("the broker waits for as long as the consumer is connected");
    };
    let ids = publish(harness, 1).await;
    let mut dead = source.subscribe().await.unwrap();
    let held = next(&mut dead).await;
    std::mem::forget((held, dead));
    let source = harness.source_with(Wanted::UnansweredSoon).unwrap();
    let message = next(&mut source.subscribe().await.unwrap()).await;
    assert_eq!(id(&message), ids[0]);
    assert!(message.delivery_count > Some(1) || !source.capabilities().delivery_count);
}

/// Also where nothing is left that could give it back later.
pub async fn a_closed_subscription_has_given_back_what_nobody_saw(harness: &dyn SourceHarness) {
    let Some(source) = harness.source_with(Wanted::NothingAgain) else {
        return skip("the broker takes back everything at the end of a subscription");
    };
    let ids = publish(harness, 20).await;
    let mut subscription = source.subscribe().await.unwrap();
    let first = next(&mut subscription).await;
    handed_out(harness, 20).await;
    // The answer to this comes behind all that the broker has sent.
    first.receipt.ack().await.unwrap();
    let held = next(&mut subscription).await;
    assert_eq!(id(&held), ids[1]);
    subscription.close().await;
    std::mem::forget(held);
    drop((subscription, source));
    let source = harness.source_with(Wanted::NothingAgain).unwrap();
    let mut subscription = source.subscribe().await.unwrap();
    assert_came_again(harness, take(&mut subscription, 18).await, &ids[2..]);
}

/// Neither to the one who answered nor to the next; what was parked is kept where the broker keeps such.
pub async fn what_was_answered_never_comes_again(harness: &dyn SourceHarness) {
    let ids = publish(harness, 2).await;
    let source = source_with(harness, Wanted::UnansweredSoon);
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.park().await.unwrap();
    let second = next(&mut subscription).await;
    assert_eq!(id(&second), ids[1]);
    second.receipt.ack().await.unwrap();
    handed_out(harness, 0).await;
    if harness.parked().await.is_some() {
        eventually(SOON, async || harness.parked().await == Some(1)).await;
    }
    subscription.close().await;
    drop((subscription, source));
    harness.settled().await;
    let later = publish(harness, 1).await;
    let source = source_with(harness, Wanted::UnansweredSoon);
    let message = next(&mut source.subscribe().await.unwrap()).await;
    assert_eq!((id(&message), message.delivery_count.unwrap_or(1)), (later[0], 1));
}
