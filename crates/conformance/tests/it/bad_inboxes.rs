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

/// What is wrong with an inbox. A value and not a type: each type would compile the whole suite again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// Marks nothing.
    Forgets,
    /// Marks in a transaction of its own, which a rollback does not reach.
    MarksAside,
    /// Commits what should be rolled back.
    CommitsAlways,
    /// Takes every consumer for one.
    MixesConsumers,
    /// Remembers no owners of lanes.
    ForgetsOwners,
    /// Goes by the fence alone, wherever a message stands.
    IgnoresPlaces,
    /// Takes a commit for one that nobody knows of.
    CommitsBlindly,
    /// Does not see that an event is twice in one batch.
    RepeatsInBatches,
    /// Marks a batch in a transaction of its own.
    MarksBatchesAside,
}

/// What is wrong with a broker.
#[derive(Clone, Copy)]
enum Damage {
    /// Forgets the key of what it publishes.
    LosesKeys,
    /// Publishes another correlation than it was given.
    SwapsContext,
}

tokio::task_local! {
    /// What the next inbox or broker starts with.
    static DEFECT: Defect;
    static DAMAGE: Damage;
}

/// The inbox in memory with one of these defects.
struct BadInbox(MemoryInboxHarness, Defect);

struct BadMarks(Arc<MemoryInbox>, Defect);

#[async_trait]
impl Inbox<MemoryTx> for BadMarks {
    async fn accept(&self, tx: &mut MemoryTx, mut request: AcceptRequest) -> Result<Accepted> {
        match self.1 {
            Defect::Forgets => Ok(Accepted::Fresh),
            Defect::MarksAside => {
                let mut aside = self.0.begin().await?;
                let accepted = self.0.accept(&mut aside, request).await?;
                self.0.commit(aside).await?;
                Ok(accepted)
            }
            Defect::MixesConsumers => {
                request.consumer = "everyone".into();
                self.0.accept(tx, request).await
            }
            Defect::ForgetsOwners => self.0.accept(tx, request.origin(None)).await,
            Defect::IgnoresPlaces => {
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
        match self.1 {
            Defect::RepeatsInBatches => {
                let known = self.0.accept_all(tx, batch).await?;
                Ok(vec![Accepted::Fresh; known.len()])
            }
            Defect::MarksBatchesAside => {
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
impl Transactions for BadMarks {
    type Tx = MemoryTx;

    async fn begin(&self) -> Result<MemoryTx> {
        self.0.begin().await
    }

    async fn commit(&self, tx: MemoryTx) -> Result<()> {
        let committed = self.0.commit(tx).await;
        if self.1 == Defect::CommitsBlindly { Ok(()) } else { committed }
    }

    async fn rollback(&self, tx: MemoryTx) -> Result<()> {
        if self.1 == Defect::CommitsAlways { self.0.commit(tx).await } else { self.0.rollback(tx).await }
    }
}

#[async_trait]
impl InboxHarness for BadInbox {
    type Inbox = BadMarks;

    const NAME: &'static str = "a bad inbox";

    async fn start() -> Self {
        Self(MemoryInboxHarness::start().await, DEFECT.get())
    }

    fn inbox(&self) -> Arc<Self::Inbox> {
        Arc::new(BadMarks(self.0.inbox(), self.1))
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

/// The broker in memory with one of these defects.
struct BadBroker(MemoryBrokerHarness, Damage);

#[async_trait]
impl SourceHarness for BadBroker {
    fn name() -> &'static str {
        "a bad broker"
    }

    async fn start() -> Self {
        Self(MemoryBrokerHarness::of(MemoryBroker::new()), DAMAGE.get())
    }

    fn source(&self) -> Arc<dyn Source> {
        self.0.source()
    }

    async fn publish(&self, mut message: Published) {
        match self.1 {
            Damage::LosesKeys => {
                message.attributes.remove("subject");
                message.attributes.remove("partitionkey");
            }
            Damage::SwapsContext => drop(message.attributes.insert("correlationid".into(), "another".into())),
        }
        self.0.publish(message).await;
    }
}

/// Each of these cases fails on an inbox with this defect.
async fn finds<const N: usize>(defect: Defect, names: [&str; N]) {
    for name in names {
        let failed = DEFECT.scope(defect, fails::<MemoryBrokerHarness, BadInbox>(name)).await;
        assert!(failed, "{name} passes");
    }
}

/// The same of a broker.
async fn finds_damage<const N: usize>(damage: Damage, names: [&str; N]) {
    for name in names {
        let failed = DAMAGE.scope(damage, fails::<BadBroker, MemoryInboxHarness>(name)).await;
        assert!(failed, "{name} passes");
    }
}

async fn fails<B: SourceHarness, I: InboxHarness>(name: &str) -> bool {
    let cases = consumer::cases::<I>();
    let case = cases.iter().find(|case| case.name == name).unwrap();
    let world = consumer::ConsumerInput::start::<B>().await;
    AssertUnwindSafe((case.run)(&world)).catch_unwind().await.is_err()
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_forgets_is_found() {
    let found_by = [
        "the_handlers_write_and_the_mark_commit_together",
        "a_duplicate_is_acknowledged_without_running_the_handler",
        "an_event_whose_answer_was_lost_is_a_duplicate",
        "two_concurrent_duplicates_run_the_handler_once",
    ];
    finds(Defect::Forgets, found_by).await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_marks_in_another_transaction_is_found() {
    let found_by = [
        "a_failed_handler_leaves_no_mark_and_the_event_comes_again",
        "a_panicking_handler_is_a_failed_delivery",
        "a_dropped_consumer_leaves_nothing_half_done",
        "a_concurrent_duplicate_runs_if_the_first_failed",
    ];
    finds(Defect::MarksAside, found_by).await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_commits_what_failed_is_found() {
    let found_by = [
        "the_handlers_own_unique_violation_is_a_failure",
        "what_the_handler_rejects_is_parked",
        "a_retry_in_the_process_has_a_fresh_transaction",
    ];
    finds(Defect::CommitsAlways, found_by).await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_does_not_look_at_its_commit_is_found() {
    let found_by = [
        "a_swallowed_error_that_ruins_the_transaction_loses_nothing",
        "a_handler_that_ends_its_transaction_loses_nothing",
    ];
    finds(Defect::CommitsBlindly, found_by).await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_is_wrong_about_batches_is_found() {
    finds(Defect::RepeatsInBatches, ["a_batch_is_applied_once_whatever_is_in_it_twice"]).await;
    finds(Defect::MarksBatchesAside, ["a_rejected_event_is_parked_and_its_batch_is_applied"]).await;
    finds(Defect::CommitsAlways, ["a_rejected_event_is_parked_and_its_batch_is_applied"]).await;
    finds(Defect::CommitsBlindly, ["a_batch_whose_commit_failed_loses_nothing"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_mixes_consumers_is_found() {
    finds(Defect::MixesConsumers, ["distinct_consumers_are_independent"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_forgets_owners_or_goes_by_the_fence_alone_is_found() {
    finds(Defect::ForgetsOwners, ["a_stale_publish_does_not_overtake_its_key"]).await;
    finds(Defect::IgnoresPlaces, ["what_was_published_before_a_take_over_is_applied_after_it"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_changes_what_travels_is_found() {
    finds_damage(Damage::LosesKeys, ["messages_of_one_key_stay_in_order"]).await;
    let found_by =
        ["an_event_arrives_with_its_whole_context", "what_follows_keeps_the_correlation_and_names_its_cause"];
    finds_damage(Damage::SwapsContext, found_by).await;
}
