use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::{Event, Outcome, Status};
use pillarbox_engine::{CircuitState, Relay};
use pillarbox_testkit::{MemoryOutbox, MemorySink, Reply, Which};
use tokio::time::sleep;

use crate::world::{Rig, options};

fn down() -> Reply {
    Reply::Answer(Outcome::down("refused", "connection refused"))
}

#[tokio::test(start_paused = true)]
async fn an_outage_spends_no_attempt_and_kills_nothing() {
    let world = Rig::new();
    let ids = world.stage_many(300).await;
    world.sink.on(Which::Any, down());
    let relay = world.relay(options());
    let handle = relay.handle();
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(400))), async {
        // What was claimed before the first answer came back is released together.
        sleep(Duration::from_millis(400)).await;
        let before = world.sink.attempts().len();
        sleep(Duration::from_secs(300)).await;
        assert_ne!(handle.state().circuit, CircuitState::Closed);
        assert!(!handle.state().is_healthy());
        assert!(world.store.entries().iter().all(|entry| entry.attempts <= 1 && !entry.status.is_terminal()));
        let probes = world.sink.attempts().len() - before;
        assert!((10..20).contains(&probes), "one probe at a time, 0.5 s doubling to 30 s, not {probes}");
        world.sink.heal();
    });
    let tally = tally.unwrap();
    assert_eq!((tally.delivered, tally.dead, tally.retried), (300, 0, 0));
    assert_eq!(handle.state().circuit, CircuitState::Closed);
    for id in ids {
        assert_eq!((world.entry(id).status, world.entry(id).attempts), (Status::Delivered, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn another_route_keeps_its_pace_during_an_outage() {
    let world = Rig::new();
    world.stage_many(50).await;
    world.sink.on(Which::Any, down());
    let other = MemorySink::new();
    let mut tx = world.store.begin();
    for _ in 0..50 {
        let event = Event::new("mail", "{}");
        MemoryOutbox::new(&world.store, "mails").stage(&mut tx, event).await.unwrap();
    }
    tx.commit();
    let healthy = Relay::builder(Arc::new(world.store.clone()), Arc::new(other.clone()))
        .route("mails")
        .build()
        .unwrap();
    let stuck = world.relay(options());
    let (tally, _) = tokio::join!(healthy.drain(), stuck.run(sleep(Duration::from_secs(5))));
    assert_eq!(tally.unwrap().delivered, 50);
    assert_eq!(other.received().len(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_out_an_outage() {
    let world = Rig::new();
    world.stage_many(10).await;
    world.sink.on(Which::Any, down());
    let tally = world.relay(options()).drain().await.unwrap();
    assert_eq!((tally.released, tally.delivered), (10, 0));
    assert_eq!(world.with_status(Status::Pending), 10);
    world.sink.heal();
    assert_eq!(world.relay(options()).drain().await.unwrap().delivered, 10);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_rejected_still_shows_that_the_destination_is_up() {
    let world = Rig::new();
    let ids = world.stage_many(20).await;
    world.sink.on(Which::Any, down());
    let relay = world.relay(options());
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(60))), async {
        sleep(Duration::from_secs(5)).await;
        world.sink.heal();
        world.sink.on(Which::Event(ids[0]), Reply::Answer(Outcome::rejected("no", "")));
    });
    let tally = tally.unwrap();
    assert_eq!((tally.dead, tally.delivered), (1, 19));
}

fn full() -> Reply {
    Reply::Answer(Outcome::busy("full", "the queue is full"))
}

#[tokio::test(start_paused = true)]
async fn a_full_destination_spends_no_attempt_and_gets_everything_once_there_is_room() {
    let world = Rig::new();
    let ids = world.stage_many(300).await;
    world.sink.on(Which::Any, full());
    let relay = world.relay(options());
    let handle = relay.handle();
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(400))), async {
        sleep(Duration::from_secs(300)).await;
        assert_ne!(handle.state().circuit, CircuitState::Closed);
        assert!(!handle.state().is_healthy());
        assert!(world.store.entries().iter().all(|entry| entry.attempts <= 1 && !entry.status.is_terminal()));
        world.sink.heal();
    });
    let tally = tally.unwrap();
    assert_eq!((tally.delivered, tally.dead, tally.retried), (300, 0, 0));
    assert!(ids.iter().all(|id| world.entry(*id).attempts == 1));
}

#[tokio::test(start_paused = true)]
async fn one_message_that_is_always_refused_is_not_an_outage_for_the_others() {
    let world = Rig::new();
    let poison = world.stage(Event::new("poison", "{}")).await;
    world.stage_many(300).await;
    world.sink.on(Which::Event(poison), full());
    let relay = world.relay(options());
    let tally = relay.run(sleep(Duration::from_secs(60))).await.unwrap();
    assert_eq!((tally.delivered, tally.dead), (300, 0));
    let entry = world.entry(poison);
    assert_eq!(
        (entry.status, entry.attempts),
        (Status::Pending, 0),
        "not dead: nobody knows that it is to blame"
    );
    assert_eq!(entry.last_error.unwrap().to_string(), "down/full: the queue is full");
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_of_several_does_not_stop_the_others_for_good() {
    let world = Rig::new();
    for _ in 0..200 {
        world.stage(Event::new("to.the.full.one", "{}")).await;
    }
    world.stage_many(300).await;
    world.sink.on(Which::Type("to.the.full.one".into()), full());
    let relay = world.relay(options());
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(600))), async {
        sleep(Duration::from_secs(300)).await;
        assert_eq!(world.with_status(Status::Delivered), 300, "behind 200 that are refused");
        world.sink.heal();
    });
    let tally = tally.unwrap();
    assert_eq!((tally.delivered, tally.dead, tally.retried), (500, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_says_when_to_come_back_is_left_alone_until_then() {
    let world = Rig::new();
    world.stage_many(10).await;
    let Outcome::Busy { failure, .. } = Outcome::busy("http_429", "") else { unreachable!() };
    let wait = Some(Duration::from_secs(120));
    world.sink.on(Which::Any, Reply::Answer(Outcome::Busy { failure, retry_after: wait }));
    let relay = world.relay(options());
    let (tally, ()) = tokio::join!(relay.run(sleep(Duration::from_secs(300))), async {
        sleep(Duration::from_secs(119)).await;
        assert_eq!(world.sink.attempts().len(), 10);
        world.sink.heal();
    });
    assert_eq!(tally.unwrap().delivered, 10);
}
