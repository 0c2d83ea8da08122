//! Two stores share the work, on one server or on two nodes of a Galera cluster: `PILLARBOX_TEST_MYSQL_SECOND` names
//! the second node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join3;
use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{
    AttendRequest, Keep, LANES, LaneCursor, LaneHeld, LaneSettleRequest, LaneSettlement, LaneWish, Lanes,
    ReadRequest, SessionId, SettleRequest, Settlement, Store, Verdict,
};
use pillarbox_core::{Entry, EventId, Fence, Held, RouteName, Timestamp};
use pillarbox_engine::Relay;
use pillarbox_store_mysql::MySqlStore;
use pillarbox_testkit::{MemorySink, eventually};
use sqlx::AssertSqlSafe;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::harness::{MySqlHarness, url_of};
use crate::steps::{ROUTE, event, stage, wish};

const EVENTS: u32 = 300;
/// How many a read takes of each lane: of all of them, it may take 10,000.
const READ_EACH: u32 = 100;
const KEYS: u32 = 20;
/// Only a cluster that hangs takes it.
const PATIENCE: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(60);

/// A second store: on the other node of a cluster, or on the same server.
async fn beside(harness: &MySqlHarness) -> MySqlStore {
    let second = std::env::var("PILLARBOX_TEST_MYSQL_SECOND");
    let second = second.map_or_else(|_| harness.database.url(), |node| url_of(&node, &harness.database.0));
    MySqlStore::connect(&second, harness.options.clone()).await.unwrap()
}

/// Waits until a query gives this number there: what one node has committed is on the other soon.
pub(crate) async fn arrived(store: &MySqlStore, query: &str, wanted: i64) {
    eventually(PATIENCE, async || {
        let row = sqlx::query(AssertSqlSafe(query.to_owned())).fetch_one(store.pool()).await;
        row.is_ok_and(|row| sqlx::Row::get_unchecked::<i64, _>(&row, 0) == wanted)
    })
    .await;
}

/// Claims and settles until nothing is left, and tells what it was given.
async fn drain(store: MySqlStore) -> Vec<EventId> {
    let (mut taken, mut idle) = (Vec::new(), 0);
    while idle < 20 {
        let entries = store.claim(wish(7)).await.unwrap().entries;
        idle = if entries.is_empty() { idle + 1 } else { 0 };
        let verdict = |held| Settlement { held, verdict: Verdict::Delivered };
        let settlements: Vec<_> = entries.iter().map(|entry| verdict(entry.held())).collect();
        let wanted = settlements.len() as u64;
        let request = SettleRequest { owner: "w".into(), settlements, keep: Keep::UntilPurged, now: None };
        assert_eq!(Store::settle(&store, request).await.unwrap().accepted, wanted);
        taken.extend(entries.iter().map(|entry| entry.event_id));
    }
    taken
}

#[tokio::test]
async fn two_stores_share_the_work_and_no_entry_is_handed_out_twice() {
    let harness = MySqlHarness::start().await;
    let second = beside(&harness).await;
    stage(&harness, EVENTS).await;
    arrived(&second, "select count(*) from pillarbox_outbox", EVENTS.into()).await;
    let mut drains = JoinSet::new();
    drains.spawn(drain((*harness.store()).clone()));
    drains.spawn(drain(second));
    let mut times: BTreeMap<EventId, u32> = BTreeMap::new();
    for id in drains.join_all().await.concat() {
        *times.entry(id).or_default() += 1;
    }
    assert_eq!(times.len(), usize::try_from(EVENTS).unwrap());
    assert!(times.values().all(|times| *times == 1), "{times:?}");
}

#[tokio::test]
async fn two_relays_by_lanes_deliver_each_entry_once_and_each_key_in_its_order() {
    let harness = MySqlHarness::start().await;
    let second = beside(&harness).await;
    let sink = MemorySink::new();
    let relay = |store: MySqlStore, owner: &str| {
        let lanes: Arc<dyn Lanes> = Arc::new(store);
        Relay::ordered(lanes, sink.clone()).route(ROUTE).owner(owner).build().unwrap()
    };
    let one = relay((*harness.store()).clone(), "one");
    let two = relay(second.clone(), "two");
    let (stop, stopped) = watch::channel(());
    let until = || {
        let mut stopped = stopped.clone();
        async move { drop(stopped.changed().await) }
    };
    let application = async {
        // Each of them has its share before there is anything to do.
        let shared = "select count(*) from (select count(*) as lanes from pillarbox_lane where session is not null \
            group by session having lanes = 32) as shares";
        arrived(&second, shared, 2).await;
        let (outbox, mut tx) = (harness.outbox(ROUTE), harness.begin().await);
        let events = (1..=EVENTS).map(|number| event(number).key(format!("k-{}", number % KEYS)));
        assert_eq!(outbox.stage_all(&mut tx, events).await.unwrap().len(), EVENTS as usize);
        outbox.commit(tx).await.unwrap();
        let undelivered = "select count(*) from pillarbox_outbox where status <> 'delivered'";
        eventually(PATIENCE, async || sink.received().len() >= EVENTS as usize).await;
        arrived(&second, undelivered, 0).await;
        drop(stop);
    };
    let (first, other, ()) = join3(one.run(until()), two.run(until()), application).await;
    assert_eq!(first.unwrap().delivered + other.unwrap().delivered, u64::from(EVENTS));
    let mut keys: BTreeMap<Option<String>, Vec<i64>> = BTreeMap::new();
    for entry in sink.received() {
        keys.entry(entry.key.as_deref().map(ToOwned::to_owned)).or_default().push(entry.seq);
    }
    assert_eq!(keys.len(), KEYS as usize);
    for (key, seqs) in keys {
        assert_eq!(seqs.len(), (EVENTS / KEYS) as usize, "{key:?}: each once");
        assert!(seqs.is_sorted(), "{key:?}: {seqs:?}");
    }
}

fn heartbeat(route: &RouteName, session: SessionId, now: Timestamp) -> AttendRequest {
    AttendRequest {
        route: route.clone(),
        session,
        joins: true,
        owner: "w".into(),
        lease: LEASE,
        shares: LANES,
        max_attempts: 5,
        skips_dead: false,
        now: Some(now),
    }
}

/// The settle of everything that a session has read.
pub(crate) fn delivering(
    route: &RouteName,
    session: SessionId,
    held: &[LaneHeld],
    entries: &[Entry],
) -> LaneSettleRequest {
    let fence = |lane: u8| held.iter().find(|held| held.lane == lane).map_or(Fence::NONE, |held| held.fence);
    let delivered = |entry: &Entry| {
        let lane = entry.lane.unwrap();
        LaneSettlement {
            held: Held { seq: entry.seq, fence: fence(lane) },
            lane,
            hint: entry.hint,
            attempts: entry.attempts + 1,
            verdict: Verdict::Delivered,
        }
    };
    LaneSettleRequest {
        route: route.clone(),
        session,
        owner: "w".into(),
        settlements: entries.iter().map(delivered).collect(),
        keep: Keep::UntilPurged,
        now: None,
    }
}

/// A session that holds all lanes, and what it has read.
pub(crate) async fn reading(
    store: &MySqlStore,
    route: &RouteName,
    session: SessionId,
    now: Timestamp,
) -> (Vec<LaneHeld>, Vec<Entry>) {
    let held = store.attend(heartbeat(route, session, now)).await.unwrap().lanes;
    let lanes = (0..LANES).map(|lane| LaneWish { lane, run: 1, limit: READ_EACH }).collect();
    let read = ReadRequest { route: route.clone(), session, lanes, cursor: LaneCursor::default() };
    (held, store.read(read).await.unwrap().entries)
}

#[tokio::test]
async fn of_a_settle_and_the_burial_of_its_session_elsewhere_one_counts() {
    const ENTRIES: u32 = 30;
    let harness = MySqlHarness::start().await;
    let (first, second) = (harness.store(), beside(&harness).await);
    for round in 1..=20 {
        let route = RouteName::new(format!("round-{round}")).unwrap();
        let (outbox, mut tx) = (harness.outbox(route.as_str()), harness.begin().await);
        let _ = outbox.stage_all(&mut tx, (1..=ENTRIES).map(event)).await.unwrap();
        outbox.commit(tx).await.unwrap();
        let now = harness.now().await;
        let (dying, next) = (SessionId::of_random(round, 1), SessionId::of_random(round, 2));
        let (held, entries) = reading(&first, &route, dying, now).await;
        assert_eq!((held.len(), entries.len()), (usize::from(LANES), ENTRIES as usize));
        let known = "select count(*) from pillarbox_lane_session where handed > 0";
        arrived(&second, &format!("{known} and route = '{route}'"), 1).await;
        let settle = Lanes::settle(&*first, delivering(&route, dying, &held, &entries));
        let bury = second.attend(heartbeat(&route, next, now.saturating_add(LEASE)));
        let (settled, attendance) = if round % 2 == 0 {
            tokio::join!(settle, bury)
        } else {
            let (attendance, settled) = tokio::join!(bury, settle);
            (settled, attendance)
        };
        let (accepted, attendance) = (settled.unwrap().accepted, attendance.unwrap());
        assert_eq!((attendance.buried, attendance.lanes.len()), (1, usize::from(LANES)));
        assert!(accepted == 0 || accepted == u64::from(ENTRIES), "round {round}: {accepted}");
        for (status, wanted) in [("delivered", accepted), ("retrying", u64::from(ENTRIES) - accepted)] {
            let count = "select count(*) from pillarbox_outbox where attempts = 1 and status";
            let count = format!("{count} = '{status}' and route = '{route}'");
            arrived(&first, &count, i64::try_from(wanted).unwrap()).await;
            arrived(&second, &count, i64::try_from(wanted).unwrap()).await;
        }
    }
}
