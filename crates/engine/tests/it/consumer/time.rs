//! What a consumer waits for, in paused time.

use std::time::Duration;

use pillarbox_core::{Backoff, Error, ErrorKind, Jitter};
use pillarbox_engine::sink::HandlerError;
use pillarbox_testkit::eventually;
use tokio::time::Instant;

use super::rig::*;

const BACKOFF: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_stream_that_fails_is_opened_again_after_the_backoff() {
    let unavailable = Mood::Fails(|| Error::new(ErrorKind::Unavailable, "refused"));
    let timeout = Mood::Fails(|| Error::new(ErrorKind::Timeout, "no answer"));
    let source = Moody::new(broker([1]).source(QUEUE), [unavailable, timeout, Mood::Works]);
    let (asked, begin) = (source.asked.clone(), Instant::now());
    let handled = Count::default();
    let calls = handled.clone();
    let consumer = consumer(source).build().unwrap();
    let tally = consumer
        .run(eventually(SOON, async || handled.get() == 1), async move |_, _| {
            calls.up();
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(tally.processed, 1);
    let waits: Vec<Duration> = asked.lock().unwrap().iter().map(|at| *at - begin).collect();
    assert_eq!(waits.len(), 3);
    assert!(waits[0] < BACKOFF && waits[1] >= BACKOFF && waits[2] >= 2 * BACKOFF, "{waits:?}");
    assert!(waits[2] < 3 * BACKOFF, "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cut_stream_waits_for_the_backoff_too() {
    let broker = broker([1]);
    let source = Moody::new(broker.source(QUEUE), []);
    let (asked, begin) = (source.asked.clone(), Instant::now());
    let handled = Count::default();
    let calls = handled.clone();
    let shutdown = async {
        eventually(SOON, async || handled.get() == 1).await;
        broker.cut(QUEUE);
        broker.publish(QUEUE, message(2, None));
        eventually(SOON, async || handled.get() == 2).await;
    };
    let consumer = consumer(source).build().unwrap();
    consumer
        .run(shutdown, async move |_, _| {
            calls.up();
            Ok(())
        })
        .await
        .unwrap();
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    assert!(asked[1] - begin >= BACKOFF);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_always_fails_does_not_spin() {
    let broker = broker([1]);
    let calls = Count::default();
    let handled = calls.clone();
    let options = options(|options| options.redeliver_after = Duration::from_secs(10));
    let consumer = consumer(broker.source(QUEUE)).options(options).build().unwrap();
    let tally = consumer
        .run(tokio::time::sleep(Duration::from_secs(95)), async move |_, _| {
            handled.up();
            Err(HandlerError::retry("always", ""))
        })
        .await
        .unwrap();
    assert_eq!(calls.get(), 10, "one at the beginning and one every ten seconds");
    assert_eq!(tally.failed, 10, "the shutdown gives back at once what was held");
    assert_eq!((broker.ready(QUEUE), broker.unanswered(QUEUE)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_handler_says_when_it_wants_to_be_tried_again() {
    let begin = Instant::now();
    let calls = Count::default();
    let handled = calls.clone();
    let options = options(|options| {
        options.retries = 1;
        options.idle = Some(Duration::from_secs(1));
    });
    let consumer = consumer(broker([1]).source(QUEUE)).options(options).build().unwrap();
    let tally = consumer
        .run(std::future::pending(), async move |_, _| {
            if handled.up() == 1 {
                return Err(HandlerError::retry_after(Duration::from_secs(77), "later", ""));
            }
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!((calls.get(), tally.processed), (2, 1));
    assert!(begin.elapsed() >= Duration::from_secs(77));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_retries_to_come() {
    let broker = broker([1]);
    let (begin, calls) = (Instant::now(), Count::default());
    let handled = calls.clone();
    let hour = Duration::from_secs(3600);
    let options = options(|options| {
        options.retries = 10;
        options.backoff = Backoff::new(hour, hour, Jitter::None).unwrap();
        options.redeliver_after = hour;
    });
    let consumer = consumer(broker.source(QUEUE)).options(options).build().unwrap();
    let tally = consumer
        .run(eventually(SOON, async || calls.get() == 1), async move |_, _| {
            handled.up();
            Err(HandlerError::retry("always", ""))
        })
        .await
        .unwrap();
    assert_eq!((calls.get(), tally.failed), (1, 1));
    assert!(begin.elapsed() < hour);
    assert_eq!(broker.ready(QUEUE), 1, "it was given back");
}

#[tokio::test(start_paused = true)]
async fn an_idle_consumer_ends_when_nothing_was_done_for_that_long() {
    let broker = broker([1]);
    let (begin, calls) = (Instant::now(), Count::default());
    let handled = calls.clone();
    let options = options(|options| options.idle = Some(Duration::from_secs(10)));
    let consumer = consumer(broker.source(QUEUE)).options(options).build().unwrap();
    // The first try takes longer than the idle time, and its event comes again after it: both are work.
    let tally = consumer
        .run(std::future::pending(), async move |_, _| {
            if handled.up() == 1 {
                tokio::time::sleep(Duration::from_secs(60)).await;
                return Err(HandlerError::retry("first", ""));
            }
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!((tally.processed, tally.failed), (1, 1));
    let elapsed = begin.elapsed();
    assert!(elapsed >= Duration::from_secs(71) && elapsed < Duration::from_secs(80), "{elapsed:?}");
}
