//! Applied once: the mark and the handler's write are one transaction, whatever the broker repeats.

use super::harness::InboxHarness;
use super::steps::*;
use super::wrap::{Arrivals, Change, changed};
use crate::case::skip;
use pillarbox_testkit::eventually;

/// One delivery, one effect; the mark is there with it, and the message is not.
pub async fn the_handlers_write_and_the_mark_commit_together<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish([1]).await;
    let (_, tally) = world.consume_the_rest(world.setup()).await;
    assert_eq!((tally.processed, tally.duplicates, tally.parked, tally.failed), (2, 0, 0, 0));
    assert_eq!(world.applied().await, [1]);
    world.publish([1]).await;
    let (work, tally) = world.consume_the_rest(world.setup()).await;
    assert!(work.calls_of(1) == 0 && tally.duplicates >= 1, "the mark was committed");
    assert_eq!(world.applied().await, [1]);
}

/// However often it comes.
pub async fn a_duplicate_is_acknowledged_without_running_the_handler<I: InboxHarness>(
    world: &ConsumerInput<I>,
) {
    world.publish([1, 1, 2, 1]).await;
    let (work, tally) = world.consume_the_rest(world.setup()).await;
    assert_eq!(work.calls(), [1, 2]);
    assert_eq!((tally.processed, tally.duplicates, tally.failed), (3, 2, 0));
    assert_eq!(world.applied().await, [1, 2]);
    // Another consumer of the queue finds nothing: all of them were acknowledged.
    let mut other = world.setup();
    other.name = "auditing";
    let (work, tally) = world.consume_the_rest(other).await;
    assert_eq!((work.calls(), tally.processed), (vec![], 1));
}

/// The other waits for the first, and then is a duplicate.
pub async fn two_concurrent_duplicates_run_the_handler_once<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish([1, 1, 2]).await;
    let mut setup = world.setup();
    setup.options.concurrency = 4;
    let (work, wait) = (world.work(), world.inbox.concurrent_writers());
    let handler = work.clone();
    let tally = setup
        .run(work.until(|work| work.calls_of(1) > 0 && work.calls_of(2) > 0), async move |tx, event| {
            // The first to come stays in its transaction until the event behind both was handled.
            if handler.record(&event) == 1 && event.event_id == id(1) && wait {
                handler.until_called(2).await;
            }
            handler.write(tx, &event).await
        })
        .await;
    assert_eq!(counted(&work.calls()), [(1, 1), (2, 1)].into());
    assert_eq!((tally.processed, tally.failed), (2, 0));
    world.consume_the_rest(world.setup()).await;
    assert_eq!(world.applied().await, [1, 2]);
}

/// The other waits for the first, and runs if that one was rolled back.
pub async fn a_concurrent_duplicate_runs_if_the_first_failed<I: InboxHarness>(world: &ConsumerInput<I>) {
    if !world.inbox.concurrent_writers() {
        return skip("handlers cannot wait for each other on a database with one writer");
    }
    world.publish([1, 1, 2]).await;
    let mut setup = world.setup();
    setup.options.concurrency = 4;
    let work = world.work();
    let handler = work.clone();
    let tally = setup
        .run(work.until(|work| work.calls_of(1) > 1 && work.calls_of(2) > 0), async move |tx, event| {
            let nth = handler.record(&event);
            handler.write(tx, &event).await?;
            if nth == 1 && event.event_id == id(1) {
                handler.until_called(2).await;
                return Err(pillarbox_engine::sink::HandlerError::retry("first", ""));
            }
            Ok(())
        })
        .await;
    assert_eq!(counted(&work.calls()), [(1, 2), (2, 1)].into());
    assert_eq!((tally.processed, tally.failed), (2, 1));
    world.consume_the_rest(world.setup()).await;
    assert_eq!(world.applied().await, [1, 2]);
}

/// What one consumer has applied is fresh for another.
pub async fn distinct_consumers_are_independent<I: InboxHarness>(world: &ConsumerInput<I>) {
    for name in ["billing", "mailing"] {
        world.publish([1]).await;
        let mut setup = world.setup();
        setup.name = name;
        let (work, tally) = world.consume_the_rest(setup).await;
        assert_eq!((work.calls(), tally.processed), (vec![1], 2), "{name}");
    }
    assert_eq!(world.applied().await, [1, 1]);
}

/// A consumer that dies between its commit and its answer: the event comes again and is a duplicate.
pub async fn an_event_whose_answer_was_lost_is_a_duplicate<I: InboxHarness>(world: &ConsumerInput<I>) {
    world.publish([1]).await;
    let mut dying = world.setup();
    dying.source = changed(dying.source, Change::AnswersAreLost);
    let (work, tally) = world.consume_the_rest(dying).await;
    assert_eq!((work.calls(), tally.processed), (vec![1], 2), "a lost answer is not fatal");
    let arrivals = Arrivals::default();
    let mut setup = world.setup();
    setup.source = changed(setup.source, Change::ArrivalsAreSeen(arrivals.clone()));
    let came_again = eventually(SOON, async || arrivals.lock().unwrap().contains(&id(1).to_string()));
    let work = world.work();
    let handler = work.clone();
    let tally = setup.run(came_again, async move |tx, event| handler.apply(tx, &event).await).await;
    assert!(tally.duplicates >= 1 && tally.failed == 0, "{tally:?}");
    assert_eq!((work.calls(), world.applied().await), (vec![], vec![1]));
}

/// The control: without the inbox, the same death shows as a second effect. It proves that the case above can
/// fail.
pub async fn without_the_inbox_the_same_loss_runs_the_handler_again<I: InboxHarness>(
    world: &ConsumerInput<I>,
) {
    world.publish([1]).await;
    let mut dying = world.setup();
    dying.source = changed(dying.source, Change::AnswersAreLost);
    dying.options.dedup = false;
    let (work, _) = world.consume_the_rest(dying).await;
    assert_eq!(work.calls(), [1]);
    let work = world.work();
    let handler = work.clone();
    let mut setup = world.setup();
    setup.options.dedup = false;
    setup.run(work.until_called(1), async move |tx, event| handler.apply(tx, &event).await).await;
    assert_eq!(work.calls_of(1), 1);
    assert_eq!(counted(&world.applied().await)[&1], 2, "applied twice");
}
