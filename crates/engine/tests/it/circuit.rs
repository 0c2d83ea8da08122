use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::{Event, Outcome, Status};
use pillarbox_engine::{CircuitState, Relay};
use pillarbox_testkit::{MemoryOutbox, MemorySink, Reply, Which};
use tokio::time::sleep;

use crate::rig::{Rig, options};

fn down() -> Reply {
    Reply::Answer(Outcome::down("refused", "connection refused"))
}

#[tokio::test(start_paused = true)]
async fn an_outage_spends_no_attempt_and_kills_nothing() {
    let rig = Rig::new();
    let ids = rig.stage_many(300).await;
    rig.sink.on(Which::Any, down());
    let relay = rig.relay(options());
    let handle = relay.handle();
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(400))), async {
        // What was claimed before the first answer came back is released together.
        sleep(Duration::from_millis(400)).await;
        let before = rig.sink.attempts().len();
        sleep(Duration::from_secs(300)).await;
        assert_ne!(handle.state().circuit, CircuitState::Closed);
        assert!(!handle.state().is_healthy());
        assert!(rig.store.entries().iter().all(|entry| entry.attempts <= 1 && !entry.status.is_terminal()));
        let probes = rig.sink.attempts().len() - before;
        assert!((10..20).contains(&probes), "one probe at a time, 0.5 s doubling to 30 s, not {probes}");
        rig.sink.heal();
    });
    let tally = tally.unwrap();
    assert_eq!((tally.delivered, tally.dead, tally.retried), (300, 0, 0));
    assert_eq!(handle.state().circuit, CircuitState::Closed);
    for id in ids {
        assert_eq!((rig.entry(id).status, rig.entry(id).attempts), (Status::Delivered, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn another_route_keeps_its_pace_during_an_outage() {
    let rig = Rig::new();
    rig.stage_many(50).await;
    rig.sink.on(Which::Any, down());
    let other = MemorySink::new();
    let mut tx = rig.store.begin();
    for _ in 0..50 {
        let event = Event::new("mail", "{}");
        MemoryOutbox::new(&rig.store, "mails").stage(&mut tx, event).await.unwrap();
    }
    tx.commit();
    let healthy =
        Relay::builder(Arc::new(rig.store.clone()), Arc::new(other.clone())).route("mails").build().unwrap();
    let stuck = rig.relay(options());
    let (tally, _) = tokio::join!(healthy.drain(), stuck.run(sleep(Duration::from_secs(5))));
    assert_eq!(tally.unwrap().delivered, 50);
    assert_eq!(other.received().len(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_out_an_outage() {
    let rig = Rig::new();
    rig.stage_many(10).await;
    rig.sink.on(Which::Any, down());
    let tally = rig.relay(options()).drain().await.unwrap();
    assert_eq!((tally.released, tally.delivered), (10, 0));
    assert_eq!(rig.with_status(Status::Pending), 10);
    rig.sink.heal();
    assert_eq!(rig.relay(options()).drain().await.unwrap().delivered, 10);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_rejected_still_shows_that_the_destination_is_up() {
    let rig = Rig::new();
    let ids = rig.stage_many(20).await;
    rig.sink.on(Which::Any, down());
    let relay = rig.relay(options());
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(60))), async {
        sleep(Duration::from_secs(5)).await;
        rig.sink.heal();
        rig.sink.on(Which::Event(ids[0]), Reply::Answer(Outcome::rejected("no", "")));
    });
    let tally = tally.unwrap();
    assert_eq!((tally.dead, tally.delivered), (1, 19));
}

fn full() -> Reply {
    Reply::Answer(Outcome::busy("full", "the queue is full"))
}

#[tokio::test(start_paused = true)]
async fn a_full_destination_spends_no_attempt_and_gets_everything_once_there_is_room() {
    let rig = Rig::new();
    let ids = rig.stage_many(300).await;
    rig.sink.on(Which::Any, full());
    let relay = rig.relay(options());
    let handle = relay.handle();
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(400))), async {
        sleep(Duration::from_secs(300)).await;
        assert_ne!(handle.state().circuit, CircuitState::Closed);
        assert!(!handle.state().is_healthy());
        assert!(rig.store.entries().iter().all(|entry| entry.attempts <= 1 && !entry.status.is_terminal()));
        rig.sink.heal();
    });
    let tally = tally.unwrap();
    assert_eq!((tally.delivered, tally.dead, tally.retried), (300, 0, 0));
    assert!(ids.iter().all(|id| rig.entry(*id).attempts == 1));
}

#[tokio::test(start_paused = true)]
async fn one_message_that_is_always_refused_is_not_an_outage_for_the_others() {
    let rig = Rig::new();
    let poison = rig.stage(Event::new("poison", "{}")).await;
    rig.stage_many(300).await;
    rig.sink.on(Which::Event(poison), full());
    let relay = rig.relay(options());
    let tally = relay.run(sleep(Duration::from_secs(60))).await.unwrap();
    assert_eq!((tally.delivered, tally.dead), (300, 0));
    let entry = rig.entry(poison);
    assert_eq!(
        (entry.status, entry.attempts),
        (Status::Pending, 0),
        "not dead: nobody knows that it is to blame"
    );
    assert_eq!(entry.last_error.unwrap().to_string(), "down/full: the queue is full");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_of_several_does_not_stop_the_others_for_good() {
    let rig = Rig::new();
    for _ in 0..200 {
        rig.stage(Event::new("to.the.full.one", "{}")).await;
    }
    rig.stage_many(300).await;
    rig.sink.on(Which::Type("to.the.full.one".into()), full());
    let relay = rig.relay(options());
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(600))), async {
        sleep(Duration::from_secs(300)).await;
        assert_eq!(rig.with_status(Status::Delivered), 300, "behind 200 that are refused");
        rig.sink.heal();
    });
    let tally = tally.unwrap();
    assert_eq!((tally.delivered, tally.dead, tally.retried), (500, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_says_when_to_come_back_is_left_alone_until_then() {
    let rig = Rig::new();
    rig.stage_many(10).await;
    let Outcome::Busy { failure, .. } = Outcome::busy("http_429", "") else { unreachable!() };
    let wait = Some(Duration::from_secs(120));
    rig.sink.on(Which::Any, Reply::Answer(Outcome::Busy { failure, retry_after: wait }));
    let relay = rig.relay(options());
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(300))), async {
        sleep(Duration::from_secs(119)).await;
        assert_eq!(rig.sink.attempts().len(), 10);
        rig.sink.heal();
    });
    assert_eq!(tally.unwrap().delivered, 10);
}
