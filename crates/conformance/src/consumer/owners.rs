//! Lanes change hands: what an owner published after it had lost its lane does not overtake, and nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox_core::{Backoff, Fence, Jitter};
use pillarbox_engine::sink::HandlerError;

use super::harness::InboxHarness;
use super::steps::*;
use super::wrap::{Arrivals, Change, changed};
use crate::case::skip;
use pillarbox_testkit::Published;
use pillarbox_testkit::eventually;

/// Published from one lane under this fence.
fn laned(mut message: Published, fence: i64) -> Published {
    message.attributes.insert("pillarboxlane".into(), "suite/3".into());
    message.attributes.insert("pillarboxfence".into(), fence.to_string());
    message
}

/// A relay that was frozen past its lease publishes the third of a key when its successor is at the second: the
/// handler sees the successor's, in its turn, and the other one becomes a duplicate.
pub async fn a_stale_publish_does_not_overtake_its_key<I: InboxHarness>(world: &ConsumerInput<I>) {
    overtaken_by_none(world, 1).await;
}

/// The same, with all of them in one batch.
pub async fn a_stale_publish_in_a_batch_does_not_overtake_its_key<I: InboxHarness>(world: &ConsumerInput<I>) {
    overtaken_by_none(world, 4).await;
}

async fn overtaken_by_none<I: InboxHarness>(world: &ConsumerInput<I>, batch: usize) {
    if !world.broker.tells_positions() {
        return skip("messages carry no position");
    }
    // What a broker delivers a second time, as a slow one may, has no place any more on some: then once more.
    for round in 1..=5 {
        if third_by_the_owner(world, round * 10, batch).await {
            return;
        }
    }
    panic!("the broker delivered something twice in every round");
}

/// Whether each message came once, and so it was shown.
async fn third_by_the_owner<I: InboxHarness>(world: &ConsumerInput<I>, base: u64, batch: usize) -> bool {
    let fence = i64::try_from(base).unwrap();
    for (n, fence) in [(1, fence + 7), (3, fence + 6), (2, fence + 7), (3, fence + 7)] {
        world.broker.publish(laned(keyed(base + n, "key"), fence)).await;
    }
    let arrivals = Arrivals::default();
    let mut setup = world.setup();
    setup.source = changed(setup.source, Change::ArrivalsAreSeen(arrivals.clone()));
    setup.options.concurrency = 4;
    setup.options = setup.options.batch(batch, Duration::from_millis(300));
    // Held until the end of the run, which cuts it short.
    setup.options.redeliver_after = SOON;
    let work = world.work();
    let (handler, by_the_owner) = (work.clone(), Arc::new(AtomicBool::new(true)));
    let told = Arc::clone(&by_the_owner);
    let tally = setup
        .run(work.until_called(base + 3), async move |tx, event| {
            let owner = event.lane.as_ref().is_some_and(|lane| lane.1 == Fence(fence + 7));
            told.fetch_and(owner, Ordering::SeqCst);
            handler.apply(tx, &event).await
        })
        .await;
    let came: Vec<String> = std::mem::take(&mut *arrivals.lock().unwrap());
    if came.len() != 4 {
        world.consume_the_rest(world.setup()).await;
        return false;
    }
    assert_eq!(work.calls(), [base + 1, base + 2, base + 3]);
    assert!(by_the_owner.load(Ordering::SeqCst), "the handler saw what the lane's owner published");
    assert_eq!((tally.processed, tally.stale, tally.failed), (3, 1, 0));

    let mut setup = world.setup();
    setup.source = changed(setup.source, Change::ArrivalsAreSeen(arrivals.clone()));
    let came_again = eventually(SOON, async || arrivals.lock().unwrap().contains(&id(base + 3).to_string()));
    let work = world.work();
    let handler = work.clone();
    let tally = setup.run(came_again, async move |tx, event| handler.apply(tx, &event).await).await;
    assert!(work.calls().is_empty() && tally.duplicates >= 1 && tally.stale == 0, "{tally:?}");
    true
}

/// A message that only the old owner of a lane published is applied in the end: it is refused a few times,
/// and not for ever.
pub async fn a_stale_publish_that_nobody_else_brings_is_applied<I: InboxHarness>(world: &ConsumerInput<I>) {
    if !world.broker.tells_positions() {
        return skip("messages carry no position");
    }
    world.broker.publish(laned(message(1), 7)).await;
    world.broker.publish(laned(message(2), 6)).await;
    let work = world.work();
    let handler = work.clone();
    let run = world.setup().run(work.until_called(2), async move |tx, event| handler.apply(tx, &event).await);
    let tally = run.await;
    assert!(tally.stale >= 1 && tally.failed == 0, "{tally:?}");
    assert_eq!((work.calls(), world.applied().await), (vec![1, 2], vec![1, 2]));
}

/// What an owner published while it held the lane is not stale, however late it is handled.
pub async fn what_was_published_before_a_take_over_is_applied_after_it<I: InboxHarness>(
    world: &ConsumerInput<I>,
) {
    world.broker.publish(laned(message(1), 6)).await;
    world.broker.publish(laned(message(2), 7)).await;
    let mut setup = world.setup();
    setup.options.concurrency = 4;
    setup.options.retries = u32::MAX;
    setup.options.backoff =
        Backoff::new(Duration::from_millis(1), Duration::from_millis(1), Jitter::None).unwrap();
    let work = world.work();
    let (handler, inbox) = (work.clone(), Arc::clone(&world.inbox));
    let (done, taken_over) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let finished = Arc::clone(&done);
    let shutdown = eventually(SOON, async || done.load(Ordering::SeqCst));
    let tally = setup
        .run(shutdown, async move |tx, event| {
            // The try that sees the effect of the other began before it, perhaps. The next one did not.
            if event.event_id == id(1) && !taken_over.load(Ordering::SeqCst) {
                let applied = inbox.applied().await;
                taken_over.store(applied.iter().any(|entry| entry.payload == b"2"), Ordering::SeqCst);
                return Err(HandlerError::retry("early", ""));
            }
            handler.apply(tx, &event).await?;
            finished.fetch_or(event.event_id == id(1), Ordering::SeqCst);
            Ok(())
        })
        .await;
    assert_eq!((tally.processed, tally.stale, tally.failed), (2, 0, 0));
    assert_eq!((work.calls(), world.applied().await), (vec![2, 1], vec![1, 2]));
}
