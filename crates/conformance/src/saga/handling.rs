//! Handlers that do the steps, through a relay.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox_core::port::SagaHooks;
use pillarbox_core::{
    AuditKind, FailureKind, Reference, Saga, SagaId, SagaStatus, Status, Step, StepState, Timestamp,
};
use pillarbox_engine::Relay;
use pillarbox_engine::sink::{Handled, HandlerError, Handlers, Handling};

use super::SagaHarness;
use super::steps::{StagesEnd, booking, ended, erasure, forward, kinds, person, relay, show, stage};
use crate::store::between::PATIENCE;
use pillarbox_testkit::eventually;

/// Drains until the saga has this status.
async fn drain_until<H: SagaHarness>(harness: &H, relay: &Relay, id: SagaId, status: SagaStatus) {
    eventually(PATIENCE, async || {
        relay.drain().await.unwrap();
        show(harness, id).await.saga.status == status
    })
    .await;
}

type Log = Arc<Mutex<Vec<String>>>;

/// Handlers of the booking that write down their names and pass them on; `fails` is rejected.
fn travel(log: &Log, fails: &'static str) -> Handlers {
    let names = ["hotel.book", "car.book", "card.charge", "mail.send", "hotel.cancel", "car.cancel"];
    names.into_iter().fold(Handlers::new(), |handlers, name| {
        let log = Arc::clone(log);
        let run = move |_: Handling| {
            log.lock().unwrap().push(name.to_owned());
            async move {
                if name == fails {
                    return Err(HandlerError::reject("refused", "it says no"));
                }
                Handled::done_with(name)
            }
        };
        handlers.on(name, run).unwrap()
    })
}

/// From the first step to the callback, in one drain.
pub async fn a_relay_runs_a_saga_to_its_end<H: SagaHarness>(harness: &H) {
    let id = stage(harness, booking(1)).await;
    let log = Log::default();
    let end = StagesEnd::new(harness);
    let relay = relay(harness, SagaHooks::default().end(end), travel(&log, "nothing")).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 4);
    assert_eq!(*log.lock().unwrap(), ["hotel.book", "car.book", "card.charge", "mail.send"]);
    assert_eq!(show(harness, id).await.saga.status, SagaStatus::Completed);
    assert_eq!(ended(harness).await, [format!("{id} completed")]);
}

/// And back, when the pivot is refused.
pub async fn a_relay_compensates_a_saga_to_its_end<H: SagaHarness>(harness: &H) {
    let id = stage(harness, booking(1)).await;
    let log = Log::default();
    let end = StagesEnd::new(harness);
    let relay = relay(harness, SagaHooks::default().end(end), travel(&log, "card.charge")).build().unwrap();
    drain_until(harness, &relay, id, SagaStatus::Compensated).await;
    let ran = ["hotel.book", "car.book", "card.charge", "car.cancel", "hotel.cancel"];
    assert_eq!(*log.lock().unwrap(), ran);
    assert_eq!(ended(harness).await, [format!("{id} compensated")]);
}

/// The key is the step's event id, in every attempt.
pub async fn a_handler_is_given_its_key_reference_and_data<H: SagaHarness>(harness: &H) {
    let hotel = Reference::new("hotel", "h-3").extra("city", "Bonn");
    let saga = Saga::ordered("trip", person(1))
        .step(Step::compensatable("hotel", "hotel.book", "hotel.cancel").reference(hotel).input(&7).unwrap())
        .step(Step::new("mail", "mail.send"))
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let id = stage(harness, saga).await;
    let seen = Arc::new(Mutex::new(vec![]));
    let log = Arc::clone(&seen);
    let handlers = Handlers::new()
        .on("hotel.book", move |handling| {
            let log = Arc::clone(&log);
            async move {
                let reference = handling.reference()?;
                assert_eq!(reference.extra["city"], "Bonn");
                assert_eq!(handling.json::<u32>()?, 7);
                assert!(handling.trace().is_some_and(|trace| trace.starts_with("00-0af7")));
                log.lock().unwrap().push((handling.idempotency_key(), handling.attempt()));
                if handling.attempt() < 3 {
                    return Ok(Handled::RetryAfter(Duration::from_millis(1)));
                }
                Handled::done_with("room 12")
            }
        })
        .unwrap()
        .on("mail.send", async |handling| {
            assert_eq!(handling.data::<String>("hotel")?.as_deref(), Some("room 12"));
            assert_eq!(handling.data::<String>("nobody")?, None);
            assert_eq!(handling.reference()?, person(1));
            Ok(())
        })
        .unwrap();
    let relay = relay(harness, SagaHooks::default(), handlers).build().unwrap();
    drain_until(harness, &relay, id, SagaStatus::Completed).await;
    let key = forward(id, "hotel");
    assert_eq!(*seen.lock().unwrap(), [(key, 1), (key, 2), (key, 3)]);
}

/// "Already gone" is success, and a step that is run again converges on one effect.
pub async fn a_step_that_was_done_before_is_done<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let effects = Arc::new(Mutex::new(BTreeSet::new()));
    let runs = Arc::new(Mutex::new(0));
    let handlers =
        ["crm.erase", "files.erase", "payments.erase"].into_iter().fold(Handlers::new(), |all, name| {
            let (effects, runs) = (Arc::clone(&effects), Arc::clone(&runs));
            let run = move |handling: Handling| {
                *runs.lock().unwrap() += 1;
                let fresh = effects.lock().unwrap().insert(handling.idempotency_key());
                async move {
                    // The effect is there and the answer is lost: it is run again under the same key.
                    if fresh {
                        Err(HandlerError::unknown("timeout", "no answer"))
                    } else {
                        Ok(Handled::AlreadyDone)
                    }
                }
            };
            all.on(name, run).unwrap()
        });
    let relay = relay(harness, SagaHooks::default(), handlers).build().unwrap();
    drain_until(harness, &relay, id, SagaStatus::Completed).await;
    assert_eq!((*runs.lock().unwrap(), effects.lock().unwrap().len()), (6, 3));
}

/// However often it parks, its attempts are all there.
pub async fn a_parked_step_comes_back_with_a_fresh_budget<H: SagaHarness>(harness: &H) {
    let saga = Saga::group("wait", person(1)).step(Step::new("check", "check").max_attempts(2));
    let id = stage(harness, saga).await;
    let calls = Arc::new(Mutex::new(vec![]));
    let log = Arc::clone(&calls);
    let handlers = Handlers::new()
        .on("check", move |handling| {
            let mut calls = log.lock().unwrap();
            calls.push(handling.attempt());
            let answer = match calls.len() {
                5 => Handled::Done,
                // A time that has passed is now.
                3 => Handled::ParkUntil(Timestamp::MIN),
                _ => Handled::ParkFor(Duration::from_millis(1)),
            };
            async { Ok(answer) }
        })
        .unwrap();
    let relay = relay(harness, SagaHooks::default(), handlers).build().unwrap();
    drain_until(harness, &relay, id, SagaStatus::Completed).await;
    assert_eq!(*calls.lock().unwrap(), [1, 1, 1, 1, 1]);
    assert_eq!(kinds(harness, &person(1)).await, [AuditKind::StepSucceeded, AuditKind::Completed]);
}

/// An entry whose handler is not registered is dead at once and audited.
pub async fn an_unknown_handler_blocks_its_saga_at_once<H: SagaHarness>(harness: &H) {
    let id = stage(harness, erasure(1)).await;
    let handlers = Handlers::new()
        .on("crm.erase", async |_| Ok(()))
        .unwrap()
        .on("files.erase", async |_| Ok(()))
        .unwrap();
    assert!(handlers.check(&erasure(1).build().unwrap()).unwrap_err().to_string().contains("payments.erase"));
    let relay = relay(harness, SagaHooks::default(), handlers).build().unwrap();
    drain_until(harness, &relay, id, SagaStatus::Blocked).await;
    let story = show(harness, id).await;
    let entry = story.entries.iter().find(|entry| entry.event_id == forward(id, "payments")).unwrap();
    assert_eq!((entry.status, entry.attempts), (Status::Dead, 1));
    assert_eq!(entry.last_error.as_ref().map(|error| error.kind), Some(FailureKind::UnknownHandler));
    assert_eq!(
        kinds(harness, &person(1)).await.iter().filter(|kind| **kind == AuditKind::StepFailed).count(),
        1
    );
}

/// A panic, a hang, a payload of another shape, a lost connection: each a counted attempt, and the others go on.
pub async fn a_handler_that_misbehaves_wedges_nothing<H: SagaHarness>(harness: &H) {
    let bad = Saga::group("bad", person(1))
        .step(Step::new("panics", "panics"))
        .step(Step::new("hangs", "hangs").timeout(Duration::from_millis(5)))
        .step(Step::new("wrong", "wrong").input("text").unwrap())
        .step(Step::new("loses", "loses"))
        .step(Step::new("talks", "talks"));
    let id = stage(harness, bad).await;
    let good = stage(harness, Saga::group("good", person(2)).step(Step::new("works", "works"))).await;
    let handlers = Handlers::new()
        .on("panics", async |_| -> Result<(), HandlerError> { panic!("it panics") })
        .unwrap()
        .on("hangs", async |_| std::future::pending::<Result<(), HandlerError>>().await)
        .unwrap()
        .on("wrong", async |handling| handling.json::<u64>().map(|_| ()))
        .unwrap()
        .on("loses", async |_| {
            Err(std::io::Error::other("the connection to the database is gone"))?;
            Ok(())
        })
        .unwrap()
        .on("talks", async |_| Handled::done_with(&"x".repeat(10_000)))
        .unwrap()
        .on("works", async |_| Ok(()))
        .unwrap();
    let relay = relay(harness, SagaHooks::default(), handlers).build().unwrap();
    eventually(PATIENCE, async || {
        relay.drain().await.unwrap();
        show(harness, id).await.saga.dead() == 5
    })
    .await;
    let story = show(harness, id).await;
    assert!(story.saga.steps.iter().all(|step| step.state == StepState::Dead));
    let attempts = |step: &str| {
        story.entries.iter().find(|entry| entry.event_id == forward(id, step)).map(|entry| entry.attempts)
    };
    assert_eq!(["panics", "hangs", "wrong", "loses", "talks"].map(attempts), [3, 3, 1, 3, 1].map(Some));
    assert_eq!(show(harness, good).await.saga.status, SagaStatus::Completed);
}
