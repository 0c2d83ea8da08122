//! Outcomes: what a relay makes of what a handler or destination said, recorded in the store under test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join;
use pillarbox_core::port::{Admin, Stage};
use pillarbox_core::{AuditKind, FailureKind, Outcome, Status};
use pillarbox_engine::Relay;
use pillarbox_engine::sink::{HandlerError, Handlers};
use tokio::sync::mpsc;

use super::between::*;
use super::steps::*;
use crate::case::skip;
use crate::{Ruin, StoreHarness, Tamper};
use pillarbox_testkit::{MemorySink, Reply, Which};

/// Never dropped, never looped: dead at once, and audited.
pub async fn an_unknown_handler_is_dead_and_audited<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let relay = relay_to(harness, Handlers::new()).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().dead, 1);
    let dead = entry(harness, 1).await;
    assert_eq!((dead.status, dead.attempts), (Status::Dead, 1));
    assert_eq!(dead.last_error.map(|failure| failure.kind), Some(FailureKind::UnknownHandler));
    assert_eq!(audit(harness).await, [(AuditKind::Dead, Some(id(1)))]);
}

/// `Reject` is final on attempt 1.
pub async fn a_handler_that_rejects_ends_the_entry<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let reject = async |_| Err::<(), _>(HandlerError::reject("no_such_order", "it was never placed"));
    let handlers = Handlers::new().on("order.placed", reject).unwrap();
    assert_eq!(relay_to(harness, handlers).build().unwrap().drain().await.unwrap().dead, 1);
    let dead = entry(harness, 1).await;
    assert_eq!((dead.status, dead.attempts), (Status::Dead, 1));
    assert_eq!(dead.last_error.map(|failure| failure.code().to_owned()).as_deref(), Some("no_such_order"));
}

/// With N allowed the handler runs N times, sees the numbers 1 to N and one idempotency key, and then it is dead.
pub async fn a_failing_handler_is_tried_until_its_attempts_are_spent<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let (ran, mut runs) = mpsc::unbounded_channel();
    let handlers = Handlers::new()
        .on("order.placed", move |handling| {
            ran.send((handling.event_id(), handling.attempt())).unwrap();
            async { Err::<(), _>(HandlerError::retry("busy", "")) }
        })
        .unwrap();
    let mut three = options();
    three.max_attempts = 3;
    let relay = relay_to(harness, handlers).options(three).build().unwrap();
    drain_out(harness, &relay).await;
    let mut seen = vec![];
    while let Ok(run) = runs.try_recv() {
        seen.push(run);
    }
    assert_eq!(seen, [(id(1), 1), (id(1), 2), (id(1), 3)]);
    let dead = entry(harness, 1).await;
    assert_eq!((dead.status, dead.attempts), (Status::Dead, 3));
    assert_eq!(audit(harness).await, [(AuditKind::Dead, Some(id(1)))]);
}

/// A failure that passes: retried, then delivered, with the error cleared.
pub async fn a_failure_that_passes_is_delivered_in_the_end<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    let sink = MemorySink::new();
    sink.on_nth(Which::Any, 1, Reply::Answer(Outcome::failed("busy", "")));
    let relay = relay_to(harness, sink.clone()).build().unwrap();
    drain_out(harness, &relay).await;
    assert_eq!((sink.attempts().len(), sink.received().len()), (6, 3));
    for entry in all(harness).await {
        assert_eq!((entry.status, entry.attempts, entry.last_error), (Status::Delivered, 2, None));
    }
}

/// The relay lives, the neighbours are delivered, and the panic is one failed attempt.
pub async fn a_handler_that_panics_is_one_failed_attempt<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1).max_attempts(2), event(2)]).await.len(), 2);
    let runs = Arc::new(AtomicU32::new(0));
    let ran = Arc::clone(&runs);
    let handlers = Handlers::new()
        .on("order.placed", move |handling| {
            let ran = Arc::clone(&ran);
            async move {
                if handling.event_id() == id(1) {
                    ran.fetch_add(1, Ordering::Relaxed);
                    panic!("the handler of this case panics on purpose");
                }
                Ok(())
            }
        })
        .unwrap();
    let relay = relay_to(harness, handlers).build().unwrap();
    drain_out(harness, &relay).await;
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    let dead = entry(harness, 1).await;
    assert_eq!((dead.status, dead.attempts), (Status::Dead, 2));
    assert_eq!(dead.last_error.map(|failure| failure.kind), Some(FailureKind::Panicked));
    assert_eq!(entry(harness, 2).await.status, Status::Delivered);
}

/// A confirmation that was lost is one attempt; the next one carries the same event id.
pub async fn a_delivery_without_an_answer_is_tried_again<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let sink = MemorySink::new();
    sink.on_nth(Which::Any, 1, Reply::Lose);
    let relay = relay_to(harness, sink.clone()).build().unwrap();
    drain_out(harness, &relay).await;
    assert_eq!(sink.received_ids(), [id(1), id(1)]);
    assert_eq!(entry(harness, 1).await.attempts, 2);
}

/// A destination that is down costs nothing: entries are given back, and delivered once it is up again.
pub async fn a_destination_that_is_down_spends_no_attempts<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1).max_attempts(1), event(2).max_attempts(1)]).await.len(), 2);
    let sink = MemorySink::new();
    sink.on(Which::Any, Reply::Answer(Outcome::down("refused", "")));
    let relay = relay_to(harness, sink.clone()).build().unwrap();
    for _ in 0..3 {
        let tally = relay.drain().await.unwrap();
        assert_eq!((tally.dead, tally.retried), (0, 0));
    }
    for entry in all(harness).await {
        assert_eq!((entry.status, entry.attempts), (Status::Pending, 0));
    }
    sink.heal();
    assert_eq!(relay.drain().await.unwrap().delivered, 2);
}

/// An undecodable row dies with its reason, and the relay goes on.
pub async fn an_undecodable_row_does_not_stop_the_relay<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    tamper!(harness, Tamper::SpoilHeaders(id(1)));
    let sink = MemorySink::new();
    let tally = relay_to(harness, sink.clone()).build().unwrap().drain().await.unwrap();
    assert_eq!((tally.delivered, tally.dead), (2, 1));
    assert_eq!(sink.received_ids(), ids_of([2, 3]));
    assert_eq!(entry(harness, 1).await.status, Status::Dead);
}

/// A handler that walks away from its own transaction fails alone; the queue and the database go on.
pub async fn a_handler_that_drops_its_transaction_does_not_wedge_the_queue<H: StoreHarness>(harness: &H) {
    assert!(walks_away(harness, None).await);
}

/// The same for one whose connection to the database breaks in the middle of its transaction.
pub async fn a_handler_whose_connection_breaks_does_not_wedge_the_queue<H: StoreHarness>(harness: &H) {
    if !walks_away(harness, Some(Ruin::BrokenConnection)).await {
        skip("there is no connection that could break");
    }
}

/// Of four entries the first one's handler writes, ruins its transaction and drops it. Says whether it could.
async fn walks_away<H: StoreHarness>(harness: &H, how: Option<Ruin>) -> bool {
    let mut could = true;
    assert_eq!(stage(harness, events(4)).await.len(), 4);
    // The handler has no database of its own here: it asks this case to begin, write, and walk away.
    let (ask, mut asked) = mpsc::unbounded_channel::<tokio::sync::oneshot::Sender<()>>();
    let handlers = Handlers::new()
        .concurrency(1)
        .on("order.placed", move |handling| {
            let ask = ask.clone();
            async move {
                if handling.event_id() == id(1) {
                    let (done, broken) = tokio::sync::oneshot::channel();
                    ask.send(done).unwrap();
                    broken.await.unwrap();
                    return Err(HandlerError::reject("broken", "the connection broke"));
                }
                Ok(())
            }
        })
        .unwrap();
    let application = async {
        while let Some(done) = asked.recv().await {
            let mut tx = harness.begin().await;
            let staged = harness.outbox(ROUTE).stage_all(&mut tx, vec![event(50)]).await.unwrap();
            assert_eq!(staged.len(), 1);
            if let Some(how) = how {
                could = H::ruin(&mut tx, how).await;
            }
            drop(tx);
            done.send(()).unwrap();
        }
    };
    let relaying = async {
        // The relay owns the handlers, and with them the channel: once it is gone the application ends.
        let relay = relay_to(harness, handlers).build().unwrap();
        drain_out(harness, &relay).await;
    };
    join(application, relaying).await;
    assert_eq!(count(harness, Status::Delivered).await, 3);
    assert_eq!(entry(harness, 1).await.status, Status::Dead);
    assert!(harness.store().show(id(50)).await.unwrap().is_empty(), "what was dropped was rolled back");
    could
}

/// The hook hears of a death when it is durable, and not before.
pub async fn the_death_hook_is_told_once_it_is_durable<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(2)).await.len(), 2);
    let sink = MemorySink::new();
    sink.on(Which::Event(id(1)), Reply::Answer(Outcome::rejected("unroutable", "")));
    let store = Between::new(harness.store(), []);
    let log = store.log();
    let told = Arc::clone(&log);
    let relay = Relay::builder(store, sink)
        .route(ROUTE)
        .options(options())
        .on_death(move |death| lock(&told).push(format!("told of {} ({})", death.event_id, death.attempts)))
        .build()
        .unwrap();
    assert_eq!(relay.drain().await.unwrap().dead, 1);
    assert_eq!(*lock(&log), ["dead is durable".to_owned(), format!("told of {} (1)", id(1))]);
}

/// A hook that panics changes nothing.
pub async fn a_death_hook_that_panics_changes_nothing<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    let sink = MemorySink::new();
    sink.on(Which::Event(id(1)), Reply::Answer(Outcome::rejected("unroutable", "")));
    let relay =
        relay_to(harness, sink).on_death(|_| panic!("the hook of this case panics on purpose")).build();
    let tally = relay.unwrap().drain().await.unwrap();
    assert_eq!((tally.delivered, tally.dead), (2, 1));
    assert_eq!(audit(harness).await, [(AuditKind::Dead, Some(id(1)))]);
}

/// A death that cannot be audited waits for its lease; what was delivered beside it does not run again.
pub async fn a_failing_audit_does_not_run_the_rest_again<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(5)).await.len(), 5);
    tamper!(harness, Tamper::FailAudit);
    let sink = MemorySink::new();
    sink.on(Which::Event(id(3)), Reply::Answer(Outcome::rejected("unroutable", "")));
    let relay = relay_to(harness, sink.clone()).build().unwrap();
    // The run may say that something could not be recorded; what matters is what it did record.
    let _ = relay.drain().await;
    let delivered: Vec<_> = all(harness)
        .await
        .iter()
        .filter(|entry| entry.status == Status::Delivered)
        .map(|entry| entry.event_id)
        .collect();
    assert_eq!(delivered, ids_of([1, 2, 4, 5]));
    assert_eq!(entry(harness, 3).await.status, Status::InFlight);
    assert!(harness.tamper(Tamper::RepairAudit).await);
}
