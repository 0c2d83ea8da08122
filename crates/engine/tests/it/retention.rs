use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::{AcceptRequest, Accepted, Admin, Entropy, Inbox, Keep};
use pillarbox_core::{AuditKind, Event, Outcome, Status};
use pillarbox_engine::{Retention, RetentionOptions};
use pillarbox_host::OsEntropy;
use pillarbox_testkit::{MemoryInbox, Reply, Which};
use tokio::time::sleep;

use crate::world::{World, options};

#[tokio::test(start_paused = true)]
async fn delivered_entries_go_after_their_time_and_dead_ones_never() {
    let world = World::new();
    let bad = world.stage(Event::new("bad", "{}")).await;
    world.stage_many(25).await;
    world.sink.on(Which::Event(bad), Reply::Answer(Outcome::rejected("no", "")));
    assert_eq!(world.relay(options()).drain().await.unwrap().delivered, 25);

    let mut retention = RetentionOptions::default();
    retention.delivered = Duration::from_secs(3600);
    retention.batch = 10;
    let retention = Retention::new(Arc::new(world.store.clone()), retention).unwrap();
    retention.run(sleep(Duration::from_secs(1800))).await;
    assert_eq!(world.with_status(Status::Delivered), 25, "too young");
    retention.run(sleep(Duration::from_secs(1900))).await;
    assert_eq!(world.with_status(Status::Delivered), 0);
    assert_eq!(world.entry(bad).status, Status::Dead);
    sleep(Duration::from_secs(365 * 24 * 3600)).await;
    assert_eq!(retention.run_once().await.unwrap(), 0);
    assert_eq!(world.entry(bad).status, Status::Dead);

    let purged = world.store.audit(100).await.unwrap();
    let purges = purged.iter().filter(|record| record.kind == AuditKind::Purged).count();
    assert_eq!(purges, 3, "25 entries in batches of 10, each audited");
}

#[tokio::test(start_paused = true)]
async fn the_inbox_forgets_after_a_time_of_its_own() {
    let world = World::new();
    let inbox = MemoryInbox::new(&world.store);
    for _ in 0..25 {
        let mut tx = world.store.begin();
        let request = AcceptRequest::new("billing", OsEntropy.event_id());
        assert_eq!(inbox.accept(&mut tx, request).await.unwrap(), Accepted::Fresh);
        tx.commit();
    }
    let mut retention = RetentionOptions::default();
    retention.delivered = Duration::ZERO;
    retention.batch = 10;
    let retention = Retention::new(Arc::new(world.store.clone()), retention).unwrap();
    retention.run(sleep(Duration::from_secs(29 * 24 * 3600))).await;
    assert_eq!(world.store.accepted().len(), 25, "thirty days are the default");
    retention.run(sleep(Duration::from_secs(24 * 3600 + 120))).await;
    assert!(world.store.accepted().is_empty());
    let trail = world.store.audit(100).await.unwrap();
    let details: Vec<_> = trail.iter().map(|record| (record.kind, record.detail.as_str())).collect();
    let purged = AuditKind::InboxPurged;
    assert_eq!(details, [(purged, "10"), (purged, "10"), (purged, "5")]);
}

#[tokio::test(start_paused = true)]
async fn no_retention_deletes_at_settle() {
    let world = World::new();
    world.stage_many(5).await;
    let mut options = options();
    options.keep = Keep::No;
    assert_eq!(world.relay(options).drain().await.unwrap().delivered, 5);
    assert!(world.store.entries().is_empty());
}

#[test]
fn a_retention_that_cannot_work_is_refused_when_built() {
    let world = World::new();
    let changes: [fn(&mut RetentionOptions); 3] = [
        |options| options.batch = 0,
        |options| options.interval = Duration::ZERO,
        |options| options.inbox = Duration::ZERO,
    ];
    for change in changes {
        let mut options = RetentionOptions::default();
        change(&mut options);
        assert!(Retention::new(Arc::new(world.store.clone()), options).is_err());
    }
}
