use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::{AcceptRequest, Accepted, Admin, Entropy, Inbox, Keep, SagaAdmin};
use pillarbox_core::{AuditKind, Event, Outcome, Reference, Saga, Status, Step};
use pillarbox_engine::sink::Handlers;
use pillarbox_engine::{Relay, Retention, RetentionOptions};
use pillarbox_host::OsEntropy;
use pillarbox_testkit::{MemoryInbox, MemoryOutbox, Reply, Which};
use tokio::time::sleep;

use crate::rig::{ROUTE, Rig, options};

#[tokio::test(start_paused = true)]
async fn delivered_entries_go_after_their_time_and_dead_ones_never() {
    let rig = Rig::new();
    let bad = rig.stage(Event::new("bad", "{}")).await;
    rig.stage_many(25).await;
    rig.sink.on(Which::Event(bad), Reply::Answer(Outcome::rejected("no", "")));
    assert_eq!(rig.relay(options()).drain().await.unwrap().delivered, 25);

    let mut retention = RetentionOptions::default();
    retention.delivered = Duration::from_secs(3600);
    retention.batch = 10;
    let retention = Retention::new(rig.store.clone(), retention).unwrap();
    retention.run(sleep(Duration::from_secs(1800))).await;
    assert_eq!(rig.with_status(Status::Delivered), 25, "too young");
    retention.run(sleep(Duration::from_secs(1900))).await;
    assert_eq!(rig.with_status(Status::Delivered), 0);
    assert_eq!(rig.entry(bad).status, Status::Dead);
    sleep(Duration::from_secs(365 * 24 * 3600)).await;
    assert_eq!(retention.run_once().await.unwrap(), 0);
    assert_eq!(rig.entry(bad).status, Status::Dead);

    let purged = rig.store.audit(100).await.unwrap();
    let purges = purged.iter().filter(|record| record.kind == AuditKind::Purged).count();
    assert_eq!(purges, 3, "25 entries in batches of 10, each audited");
}

#[tokio::test(start_paused = true)]
async fn the_inbox_forgets_after_a_time_of_its_own() {
    let rig = Rig::new();
    let inbox = MemoryInbox::new(&rig.store);
    for _ in 0..25 {
        let mut tx = rig.store.begin();
        let request = AcceptRequest::new("billing", OsEntropy.event_id());
        assert_eq!(inbox.accept(&mut tx, request).await.unwrap(), Accepted::Fresh);
        tx.commit();
    }
    let mut retention = RetentionOptions::default();
    retention.delivered = Duration::ZERO;
    retention.batch = 10;
    let retention = Retention::new(rig.store.clone(), retention).unwrap();
    retention.run(sleep(Duration::from_secs(29 * 24 * 3600))).await;
    assert_eq!(rig.store.accepted().len(), 25, "thirty days are the default");
    retention.run(sleep(Duration::from_secs(24 * 3600 + 120))).await;
    assert!(rig.store.accepted().is_empty());
    let trail = rig.store.audit(100).await.unwrap();
    let details: Vec<_> = trail.iter().map(|record| (record.kind, record.detail.as_str())).collect();
    let purged = AuditKind::InboxPurged;
    assert_eq!(details, [(purged, "10"), (purged, "10"), (purged, "5")]);
}

#[tokio::test(start_paused = true)]
async fn an_ended_saga_goes_after_a_time_of_its_own() {
    let rig = Rig::new();
    let saga = Saga::group("erase", Reference::new("person", "p-1")).step(Step::new("crm", "crm.erase"));
    let mut tx = rig.store.begin();
    let staged =
        MemoryOutbox::new(&rig.store, ROUTE).stage_saga(&mut tx, saga.build().unwrap()).await.unwrap();
    tx.commit();
    let handlers = Handlers::new().on("crm.erase", async |_| Ok(())).unwrap();
    let store = &rig.store;
    let relay = Relay::sagas(store.clone(), store.sagas(), handlers).route(ROUTE).build().unwrap();
    assert_eq!(relay.drain().await.unwrap().delivered, 1);

    let retention = Retention::new(store.clone(), RetentionOptions::default()).unwrap();
    sleep(Duration::from_secs(31 * 24 * 3600)).await;
    assert_eq!(retention.run_once().await.unwrap(), 1, "its entry; who does not name sagas keeps them");
    let mut longer = RetentionOptions::default();
    longer.sagas = Duration::from_secs(60 * 24 * 3600);
    let retention = Retention::new(store.clone(), longer).unwrap().sagas(store.clone());
    assert_eq!(retention.run_once().await.unwrap(), 0, "too young");
    sleep(Duration::from_secs(30 * 24 * 3600)).await;
    assert_eq!(retention.run_once().await.unwrap(), 1);
    assert!(store.show_saga(staged.id()).await.unwrap().is_none());
    assert_eq!(store.audit_of(&Reference::new("person", "p-1")).await.unwrap().len(), 2, "the trail stays");
}

#[tokio::test(start_paused = true)]
async fn no_retention_deletes_at_settle() {
    let rig = Rig::new();
    rig.stage_many(5).await;
    let mut options = options();
    options.keep = Keep::No;
    assert_eq!(rig.relay(options).drain().await.unwrap().delivered, 5);
    assert!(rig.store.entries().is_empty());
}

#[test]
fn a_retention_that_cannot_work_is_refused_when_built() {
    let rig = Rig::new();
    let changes: [fn(&mut RetentionOptions); 3] = [
        |options| options.batch = 0,
        |options| options.interval = Duration::ZERO,
        |options| options.inbox = Duration::ZERO,
    ];
    for change in changes {
        let mut options = RetentionOptions::default();
        change(&mut options);
        assert!(Retention::new(rig.store.clone(), options).is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn an_embedded_relay_purges_by_itself_unless_it_is_told_not_to() {
    let day = Duration::from_secs(24 * 3600);
    for ordered in [false, true] {
        let rig = Rig::new();
        let builder = || {
            let (store, sink) = (Arc::new(rig.store.clone()), Arc::new(rig.sink.clone()));
            let builder = if ordered { Relay::ordered(store, sink) } else { Relay::builder(store, sink) };
            builder.route(ROUTE)
        };
        rig.stage_many(3).await;
        let relay = builder().build().unwrap();
        let minute = || sleep(Duration::from_secs(60));
        assert_eq!(relay.run(minute()).await.unwrap().delivered, 3);
        assert_eq!(rig.with_status(Status::Delivered), 3, "too young");
        // Nobody relays for a day: a relay that waits is a lot of polls, also on a clock that jumps.
        sleep(day).await;
        let _ = builder().without_retention().build().unwrap().run(minute()).await.unwrap();
        assert_eq!(rig.with_status(Status::Delivered), 3, "nobody purges");
        let _ = relay.run(minute()).await.unwrap();
        assert_eq!(rig.with_status(Status::Delivered), 0, "a day is the default");

        // From cron it is the end of a drain, with a time of the application's own.
        rig.stage_many(2).await;
        let mut hour = RetentionOptions::default();
        hour.delivered = Duration::from_secs(3600);
        let relay = builder().retention(hour).build().unwrap();
        assert_eq!(relay.drain().await.unwrap().delivered, 2);
        sleep(Duration::from_secs(3601)).await;
        assert_eq!(rig.with_status(Status::Delivered), 2);
        assert_eq!(relay.drain().await.unwrap().delivered, 0);
        assert_eq!(rig.with_status(Status::Delivered), 0);
    }
}

#[test]
fn a_relay_with_a_retention_that_cannot_work_is_refused_when_built() {
    let rig = Rig::new();
    let mut options = RetentionOptions::default();
    options.batch = 0;
    let builder = Relay::builder(Arc::new(rig.store.clone()), Arc::new(rig.sink.clone()));
    assert!(builder.route(ROUTE).retention(options).build().is_err());
}
