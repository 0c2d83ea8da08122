//! Lanes: the suite, and what commits late. A row has its number before its transaction commits.

use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::Event;
use pillarbox_core::port::{
    AttendRequest, Attendance, LANES, LaneCursor, LaneRead, LaneWish, Lanes, ReadRequest, SessionId, Store,
};
use pillarbox_store_mysql::MySqlStore;
use tokio::task::JoinSet;

use crate::harness::MySqlHarness;
use crate::steps::{ROUTE, claim, event, route, stage, wish};

pillarbox_conformance::lanes_conformance!(MySqlHarness);

const SESSION: SessionId = SessionId::of_random(7, 1);

async fn join(store: &MySqlStore, session: SessionId) -> Attendance {
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

async fn read(store: &MySqlStore, cursor: &LaneCursor) -> LaneRead {
    let lanes = (0..LANES).map(|lane| LaneWish { lane, run: 1, limit: 10 }).collect();
    store.read(ReadRequest { route: route(), session: SESSION, lanes, cursor: cursor.clone() }).await.unwrap()
}

fn keyed(number: u32) -> Event {
    event(number).key("k")
}

#[tokio::test]
async fn an_entry_with_a_lower_number_that_commits_later_is_told_behind_the_cursor() {
    let harness = MySqlHarness::start().await;
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
    assert_eq!(second.behind, [first.entries[0].seq - 1]);
    assert!(read(&store, &second.cursor).await.behind.is_empty(), "it is told once");
}

#[tokio::test]
async fn a_transaction_that_is_held_open_delays_no_other_entry() {
    let harness = MySqlHarness::start().await;
    let (store, outbox) = (harness.store(), harness.outbox(ROUTE));
    let _ = join(&store, SESSION).await;
    let mut held = harness.begin().await;
    let _ = outbox.stage(&mut held, event(0)).await.unwrap();
    stage(&harness, 20).await;
    assert_eq!(read(&store, &LaneCursor::default()).await.entries.len(), 20);
    harness.rollback(held).await;
}

#[tokio::test]
async fn a_claim_by_rows_and_a_join_by_lanes_wait_for_each_other() {
    let harness = MySqlHarness::start().await;
    let store = harness.store();
    stage(&harness, 2).await;
    assert_eq!(claim(&store, 1).await.len(), 1);
    // As a join that has not ended: it has the row of the route alone.
    let mut joining = harness.database.connect().await;
    let lock = "start transaction; select 1 from pillarbox_route_state where route = 'orders' for update";
    sqlx::raw_sql(lock).execute(&mut joining).await.unwrap();
    let mut claiming = JoinSet::new();
    claiming.spawn({
        let store = store.clone();
        async move { store.claim(wish(1)).await.unwrap().entries.len() }
    });
    let session = "insert into pillarbox_lane_session (route, session, owner, leased_at, lease_until, shares) \
        values ('orders', x'00000000000000000000000000000001', 'w', 0, 9223372036854775807, 64); commit";
    sqlx::raw_sql(session).execute(&mut joining).await.unwrap();
    assert_eq!(claiming.join_all().await, [0], "the route is read by lanes now");
}
