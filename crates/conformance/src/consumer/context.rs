//! What travels with an event: stamps, correlation, cause, payload.

use std::time::Duration;

use super::harness::InboxHarness;
use super::steps::*;

/// How often what is left is consumed until something was seen.
const ROUNDS_MAX: usize = 20;

/// The consumer's clock goes beyond what it has applied; a replay of old events does not move it, and a stamp from
/// too far ahead is refused without refusing its event.
pub async fn a_stamp_is_merged_for_fresh_events_only<I: InboxHarness>(world: &ConsumerInput<I>) {
    let (ahead, far) = (clock_at(Duration::from_secs(30)).now(), clock_at(Duration::from_secs(3600)).now());
    let stamped = |n, stamp: pillarbox_core::Hlc| {
        let mut message = message(n);
        message.attributes.insert("pillarboxhlc".into(), stamp.to_string());
        message
    };
    let clock = clock_at(Duration::ZERO);
    let with_clock = || {
        let mut setup = world.setup();
        setup.clock = Some(clock.clone());
        setup
    };
    world.broker.publish(stamped(1, far)).await;
    let (work, _) = world.consume_the_rest(with_clock()).await;
    assert!(work.calls_of(1) == 1 && clock.now() < ahead, "refused, and the event is applied");
    world.broker.publish(stamped(2, ahead)).await;
    world.consume_the_rest(with_clock()).await;
    assert!(clock.now() > ahead, "merged");

    let clock = clock_at(Duration::ZERO);
    world.broker.publish(stamped(2, ahead)).await;
    let mut duplicates = 0;
    // It has another key than the mark behind it. If the database lets only the mark through in time, it comes again.
    for _ in 0..ROUNDS_MAX {
        let mut replay = world.setup();
        replay.clock = Some(clock.clone());
        let (work, tally) = world.consume_the_rest(replay).await;
        assert_eq!(work.calls_of(2), 0, "it was applied again");
        duplicates += tally.duplicates;
        if duplicates > 0 {
            break;
        }
    }
    assert!(duplicates > 0, "the duplicate was not seen");
    assert!(clock.now() < ahead, "a duplicate does not move the clock");
}

/// While it runs, a handler's clock is above the stamp of the event that it was given, also when the producer's clock is
/// ahead: what it stages then is stamped after what it reacts to.
pub async fn a_reaction_is_stamped_after_its_cause<I: InboxHarness>(world: &ConsumerInput<I>) {
    let ahead = clock_at(Duration::from_secs(30)).now();
    let mut message = message(1);
    message.attributes.insert("pillarboxhlc".into(), ahead.to_string());
    world.broker.publish(message).await;
    let clock = clock_at(Duration::ZERO);
    let mut setup = world.setup();
    setup.clock = Some(clock.clone());
    let (stamped, stamps) = tokio::sync::watch::channel(None);
    let work = world.work();
    let handler = work.clone();
    setup
        .run(work.until_called(1), async move |tx, event| {
            stamped.send_replace(Some(clock.now()));
            handler.apply(tx, &event).await
        })
        .await;
    assert!(stamps.borrow().is_some_and(|stamp| stamp > ahead));
}

/// What a handler stages belongs to the same correlation, and names the consumed event as its cause.
pub async fn what_follows_keeps_the_correlation_and_names_its_cause<I: InboxHarness>(
    world: &ConsumerInput<I>,
) {
    world.broker.publish(made(event(1).correlation_id("order-7").causation_id("click"))).await;
    world.consume_the_rest(world.setup()).await;
    let applied = world.inbox.applied().await;
    let follows = applied.iter().find(|entry| entry.payload == b"1").unwrap();
    assert_eq!(follows.correlation_id.as_deref(), Some("order-7"));
    assert_eq!(follows.causation_id, Some(id(1).to_string()));
}

/// Every field arrives as it was staged.
pub async fn an_event_arrives_with_its_whole_context<I: InboxHarness>(world: &ConsumerInput<I>) {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let sent = event(1)
        .key("kunde-ä/1 %")
        .content_type("application/x-number")
        .header("shop", "north")
        .header("traceparent", trace)
        .tenant("acme")
        .correlation_id("order-7")
        .causation_id("click")
        .execution_id("run-3");
    let message = made(sent);
    let occurred_at = message.attributes["time"].clone();
    let hlc = message.attributes["pillarboxhlc"].clone();
    world.broker.publish(message).await;
    let (seen, mut arrived) = tokio::sync::mpsc::unbounded_channel();
    let work = world.work();
    let handler = work.clone();
    world
        .setup()
        .run(work.until_called(1), async move |tx, event| {
            seen.send(event.clone()).unwrap();
            handler.apply(tx, &event).await
        })
        .await;
    let event = arrived.recv().await.unwrap();
    assert_eq!((event.event_id, event.event_type.as_str()), (id(1), "order.placed"));
    assert_eq!((event.payload.as_slice(), event.content_type.as_str()), (&b"1"[..], "application/x-number"));
    assert_eq!(event.key.as_deref(), Some("kunde-ä/1 %"));
    assert_eq!(event.headers.get("shop").map(String::as_str), Some("north"));
    assert_eq!(event.headers.get("traceparent").map(String::as_str), Some(trace));
    assert_eq!(event.tenant.as_deref(), Some("acme"));
    assert_eq!(event.correlation_id.as_deref(), Some("order-7"));
    assert_eq!(event.causation_id.as_deref(), Some("click"));
    assert_eq!(event.execution_id.as_deref(), Some("run-3"));
    assert_eq!(event.occurred_at.map(|at| at.to_string()), Some(occurred_at));
    assert_eq!(event.hlc.map(|hlc| hlc.to_string()), Some(hlc));
}
