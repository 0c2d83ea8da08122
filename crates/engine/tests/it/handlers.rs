use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pillarbox_core::{Event, FailureKind, Status, TypedEvent};
use pillarbox_engine::RelayOptions;
use pillarbox_engine::sink::{Handled, HandlerError, Handlers};
use tokio::time::sleep;

use crate::rig::Rig;

#[tokio::test(start_paused = true)]
async fn a_handler_nobody_registered_is_dead_at_once() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("fax.send", "{}")).await;
    let relay = rig.to(Arc::new(Handlers::new()), RelayOptions::handlers()).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().dead, 1);
    let entry = rig.entry(id);
    assert_eq!((entry.status, entry.attempts), (Status::Dead, 1));
    assert_eq!(entry.last_error.unwrap().kind, FailureKind::UnknownHandler);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_fails_one_entry_alone() {
    let rig = Rig::new();
    let bad = rig.stage(Event::new("bad", "{}")).await;
    let good = rig.stage(Event::new("good", "{}")).await;
    let handlers = Handlers::new()
        .on("bad", async |_| -> Result<(), HandlerError> { panic!("broken") })
        .and_then(|handlers| handlers.on("good", async |_| Ok(())))
        .unwrap();
    let relay = rig.to(Arc::new(handlers), RelayOptions::handlers()).build().unwrap();
    let tally = relay.drain().await.unwrap();
    assert_eq!((tally.retried, tally.delivered), (1, 1));
    assert_eq!(rig.entry(good).status, Status::Delivered);
    let entry = rig.entry(bad);
    assert_eq!((entry.status, entry.last_error.unwrap().kind), (Status::Retrying, FailureKind::Panicked));
}

#[tokio::test(start_paused = true)]
async fn a_handlers_error_is_stored_without_its_message() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("mail", "{}")).await;
    let handlers = Handlers::new()
        .on("mail", async |_| {
            Err::<(), _>(std::io::Error::other("canary@example.org is full"))?;
            Ok(())
        })
        .unwrap();
    let relay = rig.to(Arc::new(handlers), RelayOptions::handlers()).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().retried, 1);
    assert_eq!(rig.entry(id).last_error.unwrap().to_string(), "failed/std::io::error::Error: other error");
}

#[tokio::test(start_paused = true)]
async fn a_payload_of_another_shape_is_rejected_without_being_quoted() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("mail", r#"{"to": "canary"}"#)).await;
    let handlers = Handlers::new()
        .on("mail", async |handling| {
            let _: std::collections::BTreeMap<String, u64> = handling.json()?;
            Ok(())
        })
        .unwrap();
    let relay = rig.to(Arc::new(handlers), RelayOptions::handlers()).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().dead, 1);
    let error = rig.entry(id).last_error.unwrap().to_string();
    assert!(
        error.starts_with("rejected/payload: ") && error.contains("`to`") && !error.contains("canary"),
        "{error}"
    );
}

#[derive(serde::Serialize, serde::Deserialize)]
struct MailWanted {
    to: String,
}

impl TypedEvent for MailWanted {
    const TYPE: &'static str = "mail.wanted";
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_a_rust_type_gets_what_was_staged_as_it_and_nothing_else() {
    let rig = Rig::new();
    let good = rig.stage(Event::of(&MailWanted { to: "canary".into() }).unwrap()).await;
    let bad = rig.stage(Event::new(MailWanted::TYPE, r#"{"too": 1}"#)).await;
    let handlers = Handlers::new()
        .on_event(async |mail: MailWanted, _| match mail.to.as_str() {
            "canary" => Ok(()),
            _ => Err(HandlerError::reject("to", "")),
        })
        .unwrap();
    let relay = rig.to(Arc::new(handlers), RelayOptions::handlers()).build().unwrap();
    let tally = relay.drain().await.unwrap();
    assert_eq!((tally.delivered, tally.dead), (1, 1));
    assert_eq!(rig.entry(good).status, Status::Delivered);
    let error = rig.entry(bad).last_error.unwrap().to_string();
    assert_eq!(error, "rejected/payload: the payload has no `to`");
}

#[tokio::test(start_paused = true)]
async fn the_handler_gets_the_idempotency_key_and_the_attempt() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("mail", "7")).await;
    let handlers = Handlers::new()
        .on("mail", move |handling| async move {
            assert_eq!(handling.event_id(), id);
            if handling.attempt() < 3 {
                return Err(HandlerError::retry_after(Duration::from_secs(1), "busy", "later"));
            }
            Ok(())
        })
        .unwrap();
    let relay = rig.to(Arc::new(handlers), RelayOptions::handlers()).build().unwrap();
    let tally = relay.run(sleep(Duration::from_secs(10))).await.unwrap();
    assert_eq!((tally.retried, tally.delivered, tally.dead), (2, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn no_more_handlers_run_at_once_than_allowed() {
    let rig = Rig::new();
    for _ in 0..40 {
        rig.stage(Event::new("work", "{}")).await;
    }
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (at_work, high) = (Arc::clone(&running), Arc::clone(&most));
    let handlers = Handlers::new()
        .concurrency(3)
        .on("work", move |_| {
            let (at_work, high) = (Arc::clone(&at_work), Arc::clone(&high));
            async move {
                high.fetch_max(at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_secs(1)).await;
                at_work.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        })
        .unwrap();
    let mut options = RelayOptions::handlers();
    options.batch = 10;
    let relay = rig.to(Arc::new(handlers), options).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 40);
    assert_eq!((most.load(Ordering::SeqCst), running.load(Ordering::SeqCst)), (3, 0));
}

#[test]
fn a_name_registered_twice_is_an_error() {
    let error = Handlers::new()
        .on("mail", async |_| Ok(()))
        .and_then(|handlers| handlers.on("mail", async |_| Ok(())))
        .unwrap_err();
    assert!(error.to_string().contains("\"mail\" is already registered"), "{error}");
    assert!(Handlers::new().on("", async |_| Ok(())).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_handlers_own_limit_does_not_hold_up_the_others() {
    let rig = Rig::new();
    for n in 0..6 {
        let name = if n % 2 == 0 { "slow" } else { "fast" };
        rig.stage(Event::new(name, "{}")).await;
    }
    let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (Arc::clone(&at_once), Arc::clone(&most));
    let done = Arc::new(AtomicUsize::new(0));
    let fast = Arc::clone(&done);
    let handlers = Handlers::new()
        .on("slow", move |_| {
            let (now, peak) = (Arc::clone(&now), Arc::clone(&peak));
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                sleep(Duration::from_secs(10)).await;
                now.fetch_sub(1, Ordering::Relaxed);
                Ok(())
            }
        })
        .unwrap()
        .on("fast", move |_| {
            fast.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        })
        .unwrap()
        .concurrency(4)
        .limit("slow", 1)
        .unwrap();
    let relay = rig.to(Arc::new(handlers), RelayOptions::handlers()).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 6);
    assert_eq!((most.load(Ordering::Relaxed), done.load(Ordering::Relaxed)), (1, 3));
}

#[test]
fn a_limit_of_nobody_or_of_nothing_is_refused() {
    let handlers = || Handlers::new().on("mail", async |_| Ok(())).unwrap();
    assert!(handlers().limit("fax", 1).unwrap_err().to_string().contains("\"fax\""));
    assert!(handlers().limit("mail", 0).unwrap_err().to_string().contains("is 0; it must be 1 to"));
    assert!(
        handlers().on("mail", async |_| Ok(())).unwrap_err().to_string().contains("is already registered")
    );
}

#[tokio::test(start_paused = true)]
async fn a_parked_entry_comes_back_with_all_of_its_attempts() {
    let rig = Rig::new();
    let id = rig.stage(Event::new("check", "{}").max_attempts(1)).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let handlers = Handlers::new()
        .on("check", move |handling| {
            assert_eq!(handling.attempt(), 1);
            let call = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                Ok(if call < 3 { Handled::ParkFor(Duration::from_secs(60)) } else { Handled::AlreadyDone })
            }
        })
        .unwrap();
    let relay = rig.to(Arc::new(handlers), RelayOptions::handlers()).build().unwrap();
    for parked in 1..=3 {
        let tally = relay.drain().await.unwrap();
        assert_eq!((tally.retried, calls.load(Ordering::Relaxed)), (1, parked));
        assert_eq!(relay.drain().await.unwrap().claimed, 0, "nobody sees it before its time");
        let entry = rig.entry(id);
        assert_eq!((entry.status, entry.attempts), (Status::Pending, 0));
        sleep(Duration::from_secs(61)).await;
    }
    assert_eq!(relay.drain().await.unwrap().delivered, 1);
}
