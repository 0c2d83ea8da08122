//! What the handler is not to see: undecodable, refused for good, delivered too often.

use pillarbox_engine::sink::HandlerError;

use super::harness::InboxHarness;
use super::steps::*;
use super::wrap::{Change, changed};
use crate::case::skip;
use pillarbox_testkit::eventually;

/// The broker keeps this many aside, if it keeps any.
async fn parked<I: InboxHarness>(world: &ConsumerInput<I>, count: usize) {
    eventually(SOON, async || world.broker.parked().await.is_none_or(|parked| parked == count)).await;
}

/// The id comes from the envelope; without one nothing could be applied once.
pub async fn a_message_without_an_id_is_parked<I: InboxHarness>(world: &ConsumerInput<I>) {
    let mut message = message(1);
    message.attributes.remove("id");
    world.broker.publish(message).await;
    let (work, tally) = world.consume_the_rest(world.setup()).await;
    assert_eq!((work.calls(), tally.parked, tally.failed), (vec![], 1, 0));
    parked(world, 1).await;
}

/// No hot loop, no panic, nothing for the handler.
pub async fn what_cannot_be_decoded_is_parked<I: InboxHarness>(world: &ConsumerInput<I>) {
    let broken: [fn(&mut pillarbox_core::Attributes); 5] = [
        |attributes| drop(attributes.insert("id".into(), "seven".into())),
        |attributes| drop(attributes.remove("type")),
        |attributes| drop(attributes.remove("source")),
        |attributes| drop(attributes.insert("time".into(), "noon".into())),
        |attributes| drop(attributes.insert("pillarboxhlc".into(), "x".into())),
    ];
    for (n, harm) in (1..).zip(broken) {
        let mut message = message(n);
        harm(&mut message.attributes);
        world.broker.publish(message).await;
    }
    let mut flooded = message(9);
    flooded.headers.extend((0..100).map(|n| (format!("flood{n}"), "x".to_owned())));
    world.broker.publish(flooded).await;
    let (work, tally) = world.consume_the_rest(world.setup()).await;
    assert_eq!((work.calls(), tally.parked), (vec![], 6));
    parked(world, 6).await;
}

/// What a handler refuses for good does not come again, and leaves no mark.
pub async fn what_the_handler_rejects_is_parked<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish([1]).await;
    let mark = world.publish_mark().await;
    let work = world.work();
    let handler = work.clone();
    let tally = world
        .setup()
        .run(work.until_called(mark), async move |tx, event| {
            handler.apply(tx, &event).await?;
            if event.event_id == id(1) { Err(HandlerError::reject("bad", "")) } else { Ok(()) }
        })
        .await;
    assert_eq!((work.calls(), tally.parked, tally.processed), (vec![1], 1, 1));
    assert_eq!(world.applied().await, [0; 0]);
    parked(world, 1).await;
}

/// Read with `?`, it is not tried again: it will not change by itself.
pub async fn a_payload_of_another_shape_is_parked<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish([1]).await;
    let mark = world.publish_mark().await;
    let work = world.work();
    let handler = work.clone();
    let mut setup = world.setup();
    setup.options.retries = 3;
    let tally = setup
        .run(work.until_called(mark), async move |tx, event| {
            handler.apply(tx, &event).await?;
            if event.event_id == id(1) {
                let _text = event.json::<String>()?;
            }
            Ok(())
        })
        .await;
    assert_eq!((work.calls(), tally.parked, tally.failed), (vec![1], 1, 0));
    assert_eq!(world.applied().await, [0; 0]);
    parked(world, 1).await;
}

/// The handler sees exactly as many deliveries as are allowed, and the next one is parked.
pub async fn a_message_delivered_too_often_is_parked_unseen<I: InboxHarness>(world: &ConsumerInput<I>) {
    let mut setup = world.setup();
    if !setup.source.capabilities().delivery_count {
        return skip("the source tells no delivery count");
    }
    setup.options.max_deliveries = Some(2);
    world.publish([1]).await;
    let work = world.work();
    let handler = work.clone();
    // The mark is published when the handler has seen the other as often as it may, so it comes behind it.
    let shutdown = async {
        work.until(|work| work.calls_of(1) == 2).await;
        parked(world, 1).await;
        let mark = world.publish_mark().await;
        work.until_called(mark).await;
    };
    let tally = setup
        .run(shutdown, async move |tx, event| {
            handler.apply(tx, &event).await?;
            if event.event_id == id(1) { Err(HandlerError::retry("always", "")) } else { Ok(()) }
        })
        .await;
    assert_eq!(work.calls_of(1), 2, "at the limit it still runs, over it no more");
    assert_eq!((tally.failed, tally.processed), (2, 1));
    assert_eq!(world.applied().await, [0; 0]);
}

/// Without a delivery count, no message counts as delivered too often.
pub async fn without_a_delivery_count_nothing_is_parked<I: InboxHarness>(world: &ConsumerInput<I>) {
    let mut setup = world.setup();
    setup.source = changed(setup.source, Change::CountsAreHidden);
    setup.options.max_deliveries = Some(1);
    world.publish([1]).await;
    let work = world.work();
    let handler = work.clone();
    let tally = setup
        .run(work.until(|work| work.calls_of(1) == 4), async move |tx, event| {
            let nth = handler.record(&event);
            handler.write(tx, &event).await?;
            if nth < 4 { Err(HandlerError::retry("early", "")) } else { Ok(()) }
        })
        .await;
    assert_eq!((tally.failed, tally.parked, tally.processed), (3, 0, 1));
    assert_eq!(world.applied().await, [1]);
}
