//! The suite can fail: planted defects, each of which a named case finds.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use futures_util::FutureExt;
use pillarbox_conformance::consumer;
use pillarbox_conformance::{InboxHarness, MemoryBrokerHarness, MemoryInboxHarness, Ruin, SourceHarness};
use pillarbox_core::port::{AcceptBatch, AcceptRequest, Accepted, Inbox, Source, Transactions};
use pillarbox_core::{Entry, Event, Result};
use pillarbox_engine::sink::HandlerError;
use pillarbox_testkit::{MemoryBroker, MemoryInbox, MemoryTx, Published};

/// Marks nothing.
const FORGETS: u8 = 1;
/// Marks in a transaction of its own, which a rollback does not reach.
const MARKS_ASIDE: u8 = 2;
/// Commits what should be rolled back.
const COMMITS_ALWAYS: u8 = 3;
/// Takes every consumer for one.
const MIXES_CONSUMERS: u8 = 4;

/// Remembers no owners of lanes.
const FORGETS_OWNERS: u8 = 5;
/// Goes by the fence alone, wherever a message stands.
const IGNORES_PLACES: u8 = 6;
/// Takes a commit for one that nobody knows of.
const COMMITS_BLINDLY: u8 = 7;

/// Does not see that an event is twice in one batch.
const REPEATS_IN_BATCHES: u8 = 8;
/// Marks a batch in a transaction of its own.
const MARKS_BATCHES_ASIDE: u8 = 9;

/// The inbox in memory with one of these defects.
struct BadInbox<const DEFECT: u8>(MemoryInboxHarness);

struct BadMarks<const DEFECT: u8>(Arc<MemoryInbox>);

#[async_trait]
impl<const DEFECT: u8> Inbox<MemoryTx> for BadMarks<DEFECT> {
    async fn accept(&self, tx: &mut MemoryTx, mut request: AcceptRequest) -> Result<Accepted> {
        match DEFECT {
            FORGETS => Ok(Accepted::Fresh),
            MARKS_ASIDE => {
                let mut aside = self.0.begin().await?;
                let accepted = self.0.accept(&mut aside, request).await?;
                self.0.commit(aside).await?;
                Ok(accepted)
            }
            MIXES_CONSUMERS => {
                request.consumer = "everyone".into();
                self.0.accept(tx, request).await
            }
            FORGETS_OWNERS => self.0.accept(tx, request.origin(None)).await,
            IGNORES_PLACES => {
                static NEXT: AtomicI64 = AtomicI64::new(1);
                if let Some(origin) = &mut request.origin {
                    origin.position.offset = NEXT.fetch_add(1, Ordering::SeqCst);
                }
                self.0.accept(tx, request).await
            }
            _ => self.0.accept(tx, request).await,
        }
    }

    async fn accept_all(&self, tx: &mut MemoryTx, batch: AcceptBatch) -> Result<Vec<Accepted>> {
        match DEFECT {
            REPEATS_IN_BATCHES => {
                let known = self.0.accept_all(tx, batch).await?;
                Ok(vec![Accepted::Fresh; known.len()])
            }
            MARKS_BATCHES_ASIDE => {
                let mut aside = self.0.begin().await?;
                let accepted = self.0.accept_all(&mut aside, batch).await?;
                self.0.commit(aside).await?;
                Ok(accepted)
            }
            _ => {
                let mut outcomes = Vec::new();
                for request in batch.into_requests() {
                    outcomes.push(self.accept(tx, request).await?);
                }
                Ok(outcomes)
            }
        }
    }
}

#[async_trait]
impl<const DEFECT: u8> Transactions for BadMarks<DEFECT> {
    type Tx = MemoryTx;

    async fn begin(&self) -> Result<MemoryTx> {
        self.0.begin().await
    }

    async fn commit(&self, tx: MemoryTx) -> Result<()> {
        let committed = self.0.commit(tx).await;
        if DEFECT == COMMITS_BLINDLY { Ok(()) } else { committed }
    }

    async fn rollback(&self, tx: MemoryTx) -> Result<()> {
        if DEFECT == COMMITS_ALWAYS { self.0.commit(tx).await } else { self.0.rollback(tx).await }
    }
}

#[async_trait]
impl<const DEFECT: u8> InboxHarness for BadInbox<DEFECT> {
    type Inbox = BadMarks<DEFECT>;

    const NAME: &'static str = "a bad inbox";

    async fn start() -> Self {
        Self(MemoryInboxHarness::start().await)
    }

    fn inbox(&self) -> Arc<Self::Inbox> {
        Arc::new(BadMarks(self.0.inbox()))
    }

    async fn apply(&self, tx: &mut MemoryTx, event: Event) -> Result<(), HandlerError> {
        self.0.apply(tx, event).await
    }

    async fn applied(&self) -> Vec<Entry> {
        self.0.applied().await
    }

    async fn ruin(&self, tx: &mut MemoryTx, how: Ruin) -> bool {
        self.0.ruin(tx, how).await
    }
}

/// Forgets the key of what it publishes.
const LOSES_KEYS: u8 = 1;
/// Publishes everything in the opposite order of what it was given: here, a number of its own in front.
const SWAPS_CONTEXT: u8 = 2;

/// The broker in memory with one of these defects.
struct BadBroker<const DEFECT: u8>(MemoryBrokerHarness);

#[async_trait]
impl<const DEFECT: u8> SourceHarness for BadBroker<DEFECT> {
    const NAME: &'static str = "a bad broker";

    async fn start() -> Self {
        Self(MemoryBrokerHarness::of(MemoryBroker::new()))
    }

    fn source(&self) -> Arc<dyn Source> {
        self.0.source()
    }

    async fn publish(&self, mut message: Published) {
        match DEFECT {
            LOSES_KEYS => {
                message.attributes.remove("subject");
                message.attributes.remove("partitionkey");
            }
            _ => drop(message.attributes.insert("correlationid".into(), "another".into())),
        }
        self.0.publish(message).await;
    }
}

async fn finds<B: SourceHarness, I: InboxHarness>(name: &str) {
    assert!(fails::<B, I>(name).await, "{name} passes");
}

async fn fails<B: SourceHarness, I: InboxHarness>(name: &str) -> bool {
    let cases = consumer::cases::<B, I>();
    let case = cases.iter().find(|case| case.name == name).unwrap();
    let world = consumer::ConsumerInput::start().await;
    AssertUnwindSafe((case.run)(&world)).catch_unwind().await.is_err()
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_forgets_is_found() {
    type Bad = BadInbox<FORGETS>;
    finds::<MemoryBrokerHarness, Bad>("the_handlers_write_and_the_mark_commit_together").await;
    finds::<MemoryBrokerHarness, Bad>("a_duplicate_is_acknowledged_without_running_the_handler").await;
    finds::<MemoryBrokerHarness, Bad>("an_event_whose_answer_was_lost_is_a_duplicate").await;
    finds::<MemoryBrokerHarness, Bad>("two_concurrent_duplicates_run_the_handler_once").await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_marks_in_another_transaction_is_found() {
    type Bad = BadInbox<MARKS_ASIDE>;
    finds::<MemoryBrokerHarness, Bad>("a_failed_handler_leaves_no_mark_and_the_event_comes_again").await;
    finds::<MemoryBrokerHarness, Bad>("a_panicking_handler_is_a_failed_delivery").await;
    finds::<MemoryBrokerHarness, Bad>("a_dropped_consumer_leaves_nothing_half_done").await;
    finds::<MemoryBrokerHarness, Bad>("a_concurrent_duplicate_runs_if_the_first_failed").await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_commits_what_failed_is_found() {
    type Bad = BadInbox<COMMITS_ALWAYS>;
    finds::<MemoryBrokerHarness, Bad>("the_handlers_own_unique_violation_is_a_failure").await;
    finds::<MemoryBrokerHarness, Bad>("what_the_handler_rejects_is_parked").await;
    finds::<MemoryBrokerHarness, Bad>("a_retry_in_the_process_has_a_fresh_transaction").await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_does_not_look_at_its_commit_is_found() {
    type Bad = BadInbox<COMMITS_BLINDLY>;
    finds::<MemoryBrokerHarness, Bad>("a_swallowed_error_that_ruins_the_transaction_loses_nothing").await;
    finds::<MemoryBrokerHarness, Bad>("a_handler_that_ends_its_transaction_loses_nothing").await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_is_wrong_about_batches_is_found() {
    type Repeats = BadInbox<REPEATS_IN_BATCHES>;
    finds::<MemoryBrokerHarness, Repeats>("a_batch_is_applied_once_whatever_is_in_it_twice").await;
    type Aside = BadInbox<MARKS_BATCHES_ASIDE>;
    finds::<MemoryBrokerHarness, Aside>("a_rejected_event_is_parked_and_its_batch_is_applied").await;
    finds::<MemoryBrokerHarness, BadInbox<COMMITS_ALWAYS>>(
        "a_rejected_event_is_parked_and_its_batch_is_applied",
    )
    .await;
    finds::<MemoryBrokerHarness, BadInbox<COMMITS_BLINDLY>>("a_batch_whose_commit_failed_loses_nothing")
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_mixes_consumers_is_found() {
    finds::<MemoryBrokerHarness, BadInbox<MIXES_CONSUMERS>>("distinct_consumers_are_independent").await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_forgets_owners_or_goes_by_the_fence_alone_is_found() {
    type Forgets = BadInbox<FORGETS_OWNERS>;
    finds::<MemoryBrokerHarness, Forgets>("a_stale_publish_does_not_overtake_its_key").await;
    type Ignores = BadInbox<IGNORES_PLACES>;
    finds::<MemoryBrokerHarness, Ignores>("what_was_published_before_a_take_over_is_applied_after_it").await;
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_changes_what_travels_is_found() {
    finds::<BadBroker<LOSES_KEYS>, MemoryInboxHarness>("messages_of_one_key_stay_in_order").await;
    finds::<BadBroker<SWAPS_CONTEXT>, MemoryInboxHarness>("an_event_arrives_with_its_whole_context").await;
    finds::<BadBroker<SWAPS_CONTEXT>, MemoryInboxHarness>(
        "what_follows_keeps_the_correlation_and_names_its_cause",
    )
    .await;
}
