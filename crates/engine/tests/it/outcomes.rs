use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox_core::port::Admin;
use pillarbox_core::{AuditKind, Event, FailureKind, Outcome, Status};
use pillarbox_testkit::{Reply, Which};
use tokio::time::sleep;

use crate::rig::{Rig, options};

#[tokio::test(start_paused = true)]
async fn rejected_for_good_is_dead_on_the_first_attempt_and_audited() {
    let rig = Rig::new();
    let bad = rig.stage(Event::new("bad", "{}")).await;
    let good = rig.stage(Event::new("good", "{}")).await;
    rig.sink.on(Which::Event(bad), Reply::Answer(Outcome::rejected("too_large", "over the limit")));
    let tally = rig.relay(options()).drain().await.unwrap();
    assert_eq!((tally.delivered, tally.dead, tally.retried), (1, 1, 0));
    let entry = rig.entry(bad);
    assert_eq!((entry.status, entry.attempts), (Status::Dead, 1));
    assert_eq!(entry.last_error.unwrap().to_string(), "rejected/too_large: over the limit");
    assert_eq!(rig.entry(good).status, Status::Delivered);
    let story = rig.store.show(bad).await.unwrap().remove(0);
    assert_eq!(story.audit.iter().map(|record| record.kind).collect::<Vec<_>>(), [AuditKind::Dead]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_entry_is_tried_exactly_as_often_as_allowed_with_doubling_waits() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("bad", "{}")).await;
    rig.sink.on(Which::Any, Reply::Answer(Outcome::failed("busy", "try later")));
    let mut options = options();
    options.max_attempts = 4;
    let relay = rig.relay(options);
    let tally = relay.run(sleep(Duration::from_secs(300))).await.unwrap();
    assert_eq!((tally.claimed, tally.retried, tally.dead), (4, 3, 1));
    assert_eq!(rig.sink.attempts().len(), 4, "with N allowed it runs at most N times");
    let entry = rig.entry(id);
    assert_eq!((entry.status, entry.attempts, entry.due_at), (Status::Dead, 4, None));
    let begun: Vec<_> =
        rig.sink.attempts().iter().map(|attempt| attempt.entry.last_attempt_at.unwrap()).collect();
    let waits: Vec<u64> = begun.windows(2).map(|pair| pair[1].since(pair[0]).as_secs()).collect();
    assert_eq!(waits, [1, 2, 4]);
}

#[tokio::test(start_paused = true)]
async fn an_entry_may_allow_fewer_attempts_than_its_route() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("bad", "{}").max_attempts(1)).await;
    rig.sink.on(Which::Any, Reply::Answer(Outcome::failed("busy", "")));
    let tally = rig.relay(options()).drain().await.unwrap();
    assert_eq!((tally.dead, rig.entry(id).status), (1, Status::Dead));
}

#[tokio::test(start_paused = true)]
async fn a_lost_confirmation_is_delivered_again_under_the_same_event_id() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("order.placed", "{}")).await;
    rig.sink.on_nth(Which::Event(id), 1, Reply::Lose);
    let relay = rig.relay(options());
    let tally = relay.run(sleep(Duration::from_secs(120))).await.unwrap();
    assert_eq!((tally.retried, tally.delivered), (1, 1));
    assert_eq!(rig.sink.received_ids(), [id, id]);
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_that_never_comes_is_bounded_by_the_deadline() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("order.placed", "{}")).await;
    rig.sink.on_nth(Which::Event(id), 1, Reply::Hang);
    let mut options = options();
    options.publish_timeout = Some(Duration::from_secs(5));
    let relay = rig.relay(options);
    let tally = relay.run(sleep(Duration::from_secs(10))).await.unwrap();
    assert_eq!((tally.retried, tally.delivered), (1, 1));
    let first = &rig.sink.attempts()[0].entry;
    let second = &rig.sink.attempts()[1].entry;
    let waited = second.last_attempt_at.unwrap().since(first.last_attempt_at.unwrap());
    assert_eq!(waited.as_secs(), 6, "five for the deadline, one for the backoff");
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_fails_its_entries_and_the_relay_lives() {
    let rig = Rig::new();
    let bad = rig.stage(Event::new("bad", "{}")).await;
    rig.sink.on(Which::Event(bad), Reply::Panic);
    let mut options = options();
    options.max_attempts = 2;
    let relay = rig.relay(options);
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(60))), async {
        sleep(Duration::from_secs(30)).await;
        rig.stage_many(3).await;
    });
    let tally = tally.unwrap();
    assert_eq!((tally.dead, tally.delivered), (1, 3));
    assert_eq!(rig.entry(bad).last_error.unwrap().kind, FailureKind::Panicked);
}

#[tokio::test(start_paused = true)]
async fn an_explicit_wait_replaces_the_backoff() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("order.placed", "{}")).await;
    let failure = pillarbox_core::Failure::new(FailureKind::Failed, "busy", "");
    let wait = Some(Duration::from_secs(45));
    rig.sink.on_nth(Which::Any, 1, Reply::Answer(Outcome::Failed { failure, retry_after: wait }));
    let relay = rig.relay(options());
    relay.run_once().await.unwrap();
    let entry = rig.entry(id);
    assert_eq!(entry.due_at.unwrap().since(entry.last_attempt_at.unwrap()).as_secs(), 45);
    assert_eq!(entry.last_error.unwrap().code(), "busy", "a retry keeps the error");
}

#[tokio::test(start_paused = true)]
async fn a_death_is_told_once_it_is_durable_and_a_panicking_hook_changes_nothing() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("bad", "{}")).await;
    let other = rig.stage(Event::new("bad", "{}")).await;
    rig.sink.on(Which::Any, Reply::Answer(Outcome::rejected("no", "")));
    let told = Arc::new(Mutex::new(Vec::new()));
    let (store, heard) = (rig.store.clone(), Arc::clone(&told));
    let relay = rig
        .builder(options())
        .on_death(move |death| {
            let stored = store.entries().into_iter().find(|entry| entry.event_id == death.event_id).unwrap();
            heard.lock().unwrap().push((death.event_id, stored.status, death.attempts));
            panic!("a hook that breaks");
        })
        .build()
        .unwrap();
    let tally = relay.drain().await.unwrap();
    assert_eq!(tally.dead, 2);
    assert_eq!(*told.lock().unwrap(), [(id, Status::Dead, 1), (other, Status::Dead, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_forgets_an_entry_has_it_delivered_again() {
    struct Forgetful(pillarbox_testkit::MemorySink, std::sync::atomic::AtomicBool);
    #[async_trait::async_trait]
    impl pillarbox_core::port::Sink for Forgetful {
        fn capabilities(&self) -> pillarbox_core::port::SinkCapabilities {
            self.0.capabilities()
        }
        async fn deliver(&self, batch: &[pillarbox_core::Entry], report: &dyn pillarbox_core::port::Report) {
            if self.1.swap(true, std::sync::atomic::Ordering::SeqCst) {
                self.0.deliver(batch, report).await;
                // Said twice: the second report is ignored.
                report.outcome(0, Outcome::rejected("late", ""));
                report.outcome(99, Outcome::Confirmed);
            }
        }
    }
    let rig = Rig::new();
    let id = rig.stage(Event::new("order.placed", "{}")).await;
    let sink = Arc::new(Forgetful(rig.sink.clone(), Default::default()));
    let relay = rig.to(sink, options()).build().unwrap();
    let tally = relay.run(sleep(Duration::from_secs(10))).await.unwrap();
    assert_eq!((tally.retried, tally.delivered, tally.dead), (1, 1, 0));
    assert_eq!(rig.entry(id).status, Status::Delivered);
}

#[tokio::test(start_paused = true)]
async fn one_verdict_that_cannot_be_recorded_does_not_run_the_rest_again() {
    use pillarbox_core::port::{
        Claim, ClaimRequest, ExtendRequest, Extended, ReapRequest, Reaped, SettleRequest, Settled, Store,
        Verdict,
    };
    use pillarbox_core::{Error, ErrorKind, Result};

    /// A store whose audit table is broken: no death can be recorded.
    struct NoAudit(pillarbox_testkit::MemoryStore);
    #[async_trait::async_trait]
    impl Store for NoAudit {
        async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
            self.0.claim(request).await
        }
        async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
            self.0.extend(request).await
        }
        async fn settle(&self, request: SettleRequest) -> Result<Settled> {
            if request.settlements.iter().any(|settlement| matches!(settlement.verdict, Verdict::Dead { .. }))
            {
                return Err(Error::new(ErrorKind::Internal, "the audit record cannot be written"));
            }
            self.0.settle(request).await
        }
        async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
            self.0.reap(request).await
        }
    }

    let rig = Rig::new();
    let good = rig.stage_many(20).await;
    let bad = rig.stage(Event::new("bad", "{}")).await;
    rig.sink.on(Which::Event(bad), Reply::Answer(Outcome::rejected("no", "")));
    let store = Arc::new(NoAudit(rig.store.clone()));
    let relay = pillarbox_engine::Relay::builder(store, Arc::new(rig.sink.clone()))
        .route(crate::rig::ROUTE)
        .options(options())
        .build()
        .unwrap();
    let tally = relay.run(sleep(Duration::from_secs(20))).await.unwrap();
    assert_eq!((tally.delivered, tally.dead), (20, 0));
    assert_eq!(rig.sink.received_ids(), good, "each delivered once");
    assert_eq!(rig.entry(bad).status, Status::InFlight, "left to its lease, not lost");
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_row_is_dead_with_its_reason_and_the_batch_goes_on() {
    let store = pillarbox_testkit::MemoryStore::new();
    let outbox = pillarbox_testkit::MemoryOutbox::new(&store, "orders");
    let mut tx = store.begin();
    let events = vec![Event::new("a", "{}"), Event::new("b", "{}"), Event::new("c", "{}")];
    let staged = pillarbox_core::port::Stage::stage_all(&outbox, &mut tx, events).await.unwrap();
    tx.commit();
    let spoiled = staged[1].event_id();
    store.spoil_headers(spoiled);

    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let sink = pillarbox_testkit::MemorySink::new();
    let relay = pillarbox_engine::Relay::builder(Arc::new(store), Arc::new(sink.clone()))
        .route("orders")
        .on_death(move |death| heard.lock().unwrap().push((death.event_id, death.failure.kind)))
        .build()
        .unwrap();
    let tally = relay.drain().await.unwrap();
    assert_eq!((tally.delivered, tally.dead), (2, 1));
    assert_eq!(*told.lock().unwrap(), [(spoiled, FailureKind::Undecodable)]);
}
