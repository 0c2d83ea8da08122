//! Lanes: the suite, and what commits late. A row has its number before its transaction commits.

use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::Event;
use pillarbox_core::port::{
    AttendRequest, Attendance, LANES, LaneCursor, LaneRead, LaneWish, Lanes, ReadRequest, SessionId, Store,
};
use pillarbox_store_mongodb::MongoStore;

use crate::harness::MongoHarness;
use crate::steps::{ROUTE, claim, event, route, stage, wish};

pillarbox_conformance::lanes_conformance!(MongoHarness);

const SESSION: SessionId = SessionId::of_random(7, 1);

async fn join(store: &MongoStore, session: SessionId) -> Attendance {
    let request = AttendRequest {
        route: route(),
        session,
        joins: true,
        owner: "worker-1".into(),
        lease: Duration::from_secs(60),
        shares: LANES,
        max_attempts: 5,
        skips_dead: false,
        now: None,
    };
    store.attend(request).await.unwrap()
}

async fn read(store: &MongoStore, cursor: &LaneCursor) -> LaneRead {
    let lanes = (0..LANES).map(|lane| LaneWish { lane, run: 1, limit: 10 }).collect();
    store.read(ReadRequest { route: route(), session: SESSION, lanes, cursor: cursor.clone() }).await.unwrap()
}

fn keyed(number: u32) -> Event {
    event(number).key("k")
}

#[tokio::test]
async fn an_entry_with_a_lower_number_that_commits_later_is_told_behind_the_cursor() {
    let harness = MongoHarness::start().await;
    let (store, outbox) = (harness.store(), harness.outbox(ROUTE));
    assert_eq!(join(&store, SESSION).await.lanes.len(), usize::from(LANES));
    let (mut slow, mut fast) = (harness.begin().await, harness.begin().await);
    let _ = outbox.stage(&mut slow, keyed(1)).await.unwrap();
    let _ = outbox.stage(&mut fast, keyed(2)).await.unwrap();
    outbox.commit(fast).await.unwrap();
    let first = read(&store, &LaneCursor::default()).await;
    assert_eq!((first.entries.len(), first.behind.len()), (1, 0));
    assert_eq!(first.entries[0].payload, b"2");
    outbox.commit(slow).await.unwrap();
    // One that is staged now goes after both, and is not handed out before the late one is known.
    let mut later = harness.begin().await;
    let _ = outbox.stage(&mut later, keyed(3)).await.unwrap();
    outbox.commit(later).await.unwrap();
    let second = read(&store, &first.cursor).await;
    assert_eq!(second.entries.iter().map(|entry| &entry.payload[..]).collect::<Vec<_>>(), [b"3"]);
    assert_eq!(second.behind.len(), 1);
    assert!(second.behind[0] < first.entries[0].seq, "it was drawn before");
    assert!(read(&store, &second.cursor).await.behind.is_empty(), "it is told once");
}

#[tokio::test]
async fn a_transaction_that_is_held_open_delays_no_other_entry() {
    let harness = MongoHarness::start().await;
    let (store, outbox) = (harness.store(), harness.outbox(ROUTE));
    let _ = join(&store, SESSION).await;
    let mut held = harness.begin().await;
    let _ = outbox.stage(&mut held, event(0)).await.unwrap();
    stage(&harness, 20).await;
    assert_eq!(read(&store, &LaneCursor::default()).await.entries.len(), 20);
    harness.rollback(held).await;
}

#[tokio::test]
async fn a_claim_that_meets_a_new_reader_of_lanes_gives_everything_back() {
    let harness = MongoHarness::start().await;
    let store = harness.store();
    stage(&harness, 2).await;
    assert_eq!(claim(&store, 1).await.len(), 1);
    assert_eq!(join(&store, SESSION).await.lanes.len(), usize::from(LANES));
    assert!(claim(&store, 1).await.is_empty(), "the route is read by lanes now");
    let read = read(&store, &LaneCursor::default()).await;
    assert_eq!(read.entries.len(), 1, "what was claimed by rows is not read");
    assert_eq!(read.entries[0].attempts, 0);
}

#[tokio::test]
async fn eight_claimants_and_a_joining_reader_never_share_an_entry() {
    let harness = MongoHarness::start().await;
    let store = harness.store();
    stage(&harness, 400).await;
    let _ = store.claim(wish(1)).await.unwrap();
    let claims = (0..8).map(|_| async { claim(&store, 20).await });
    let reader = async {
        let _ = join(&store, SESSION).await;
        read(&store, &LaneCursor::default()).await.entries
    };
    let (claimed, read) = futures_util::future::join(futures_util::future::join_all(claims), reader).await;
    let mut seen = std::collections::BTreeSet::new();
    for entry in claimed.into_iter().flatten().chain(read) {
        assert!(seen.insert(entry.event_id), "{} was handed out by rows and by lanes", entry.event_id);
    }
}
