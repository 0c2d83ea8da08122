//! What breaks: the answer of a commit, a command, and the primary itself.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, ClientSession};
use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{
    Admin, AnnounceRequest, AttendRequest, Attendance, Effect, Keep, LANES, Lanes, Leases, Presence,
    ReapRequest, RunId, SessionId, SettleRequest, Settlement, Steps, Store, Verdict,
};
use pillarbox_core::{CircuitState, ErrorKind, EventId, Result, Status, Timestamp};
use pillarbox_store_mongodb::{MongoStore, Options, Outbox};
use uuid::Uuid;

use crate::harness::MongoHarness;
use crate::servers::Own;
use crate::steps::{ROUTE, claim, event, route, stage, wish};

/// How the server knows the connections of a store for the application, and those for its relays.
const APPLICATION: &str = "pillarbox";
const RELAY: &str = "pillarbox-relay faults.pillarbox";

/// Makes the next commands of a client fail.
async fn fail(client: &Client, of: &str, times: i32, commands: &[&str], how: Document) {
    let mut data = doc! { "failCommands": commands, "appName": of };
    data.extend(how);
    let point = doc! { "configureFailPoint": "failCommand", "mode": { "times": times }, "data": data };
    client.database("admin").run_command(point).await.unwrap();
}

/// A server whose commands fail at will, so that no other test sees it.
async fn alone() -> (Own, Client, String) {
    let own = Own::start("mongodb", "PILLARBOX_TEST_MONGODB");
    let url = own.url.replace("/?", "/faults?");
    let client = Client::with_uri_str(&url).await.unwrap();
    (own, client, url)
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_sent_again_and_happens_once() {
    let (_own, client, url) = alone().await;
    let store = MongoStore::connect(&url, Options::default()).await.unwrap();
    store.migrate().await.unwrap();
    let outbox = store.outbox(ROUTE);
    let mut tx = store.begin().await.unwrap();
    let _ = outbox.stage(&mut tx, event(1)).await.unwrap();
    fail(&client, APPLICATION, 2, &["commitTransaction"], doc! { "closeConnection": true }).await;
    outbox.commit(tx).await.unwrap();
    fail(
        &client,
        RELAY,
        1,
        &["commitTransaction"],
        doc! { "errorCode": 112, "errorLabels": ["TransientTransactionError"] },
    )
    .await;
    let claimed = claim(&store, 10).await;
    assert_eq!(claimed.len(), 1);
    let settlement = Settlement { held: claimed[0].held(), verdict: Verdict::Delivered };
    let request = SettleRequest {
        owner: "w".into(),
        settlements: vec![settlement],
        keep: Keep::UntilPurged,
        now: None,
    };
    // The settle lost its race once, and was run again.
    assert_eq!(Store::settle(&store, request.clone()).await.unwrap().accepted, 1);
    assert_eq!(Store::settle(&store, request).await.unwrap().fenced.len(), 1);
}

/// A transaction as a client of this name leaves it when it is killed.
async fn left_open(url: &str, name: &str, collection: &str, id: &str) -> ClientSession {
    let mut options = ClientOptions::parse(url).await.unwrap();
    options.app_name = Some(name.to_owned());
    let client = Client::with_options(options).unwrap();
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let documents = client.database("faults").collection::<Document>(collection);
    let change = doc! { "$set": { "left": true } };
    documents.update_one(doc! { "_id": id }, change).upsert(true).session(&mut session).await.unwrap();
    session
}

async fn attend(store: &MongoStore, session: u64) -> Result<Attendance> {
    let request = AttendRequest {
        route: route(),
        session: SessionId::of_random(session, 1),
        joins: true,
        owner: "worker".into(),
        lease: Duration::from_secs(60),
        shares: LANES,
        max_attempts: 5,
        skips_dead: false,
        now: None,
    };
    store.attend(request).await
}

#[tokio::test]
async fn a_transaction_that_a_killed_relay_left_open_is_ended_by_the_next_one() {
    let (_own, client, url) = alone().await;
    // The server itself would not end it before this test does.
    let patience = doc! { "setParameter": 1, "transactionLifetimeLimitSeconds": 86_400 };
    client.database("admin").run_command(patience).await.unwrap();
    let store = MongoStore::connect(&url, Options::default()).await.unwrap();
    store.migrate().await.unwrap();
    assert_eq!(attend(&store, 1).await.unwrap().lanes.len(), usize::from(LANES));
    let mut own = left_open(&url, "shop", "orders", "o-1").await;
    // In the middle of a heartbeat, which has the route alone.
    let mut killed = left_open(&url, RELAY, "pillarbox_route_state", ROUTE).await;
    let attendance = loop {
        match attend(&store, 2).await {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Contention, "{error}"),
            Ok(attendance) => break attendance,
        }
    };
    assert_eq!(attendance.lanes.len(), 0, "the first session has them all, and is alive");
    assert!(killed.commit_transaction().await.is_err(), "it is not there any more");
    own.commit_transaction().await.unwrap();
}

/// A relay with a short lease waits for no call for long. The server would let this write wait for as long as it may take.
#[tokio::test]
async fn a_transaction_that_was_left_open_is_ended_also_by_calls_that_are_given_up_soon() {
    let (_own, client, url) = alone().await;
    let patience = doc! { "setParameter": 1, "transactionLifetimeLimitSeconds": 86_400 };
    client.database("admin").run_command(patience).await.unwrap();
    let store = MongoStore::connect(&url, Options::default()).await.unwrap();
    store.migrate().await.unwrap();
    let mut killed = left_open(&url, RELAY, "pillarbox_route_state", ROUTE).await;
    let announced = AnnounceRequest {
        run: RunId(1),
        route: route(),
        owner: "worker".into(),
        mode: "run".into(),
        wake: "poll".into(),
        in_flight: 0,
        circuit: CircuitState::Closed,
        outage: None,
        lease: Duration::from_secs(1),
        on_dead: None,
        now: None,
    };
    let soon = Duration::from_millis(500);
    while tokio::time::timeout(soon, store.announce(announced.clone())).await.is_err() {}
    assert!(killed.commit_transaction().await.is_err(), "it is not there any more");
}

#[tokio::test]
async fn a_conflict_in_the_applications_transaction_is_contention() {
    let harness = MongoHarness::start().await;
    let outbox = harness.outbox(ROUTE);
    let id = EventId(Uuid::from_u128(7));
    let (mut one, mut two) = (harness.begin().await, harness.begin().await);
    let _ = outbox.stage(&mut one, event(1).id(id)).await.unwrap();
    let error = outbox.stage(&mut two, event(1).id(id)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contention, "{error}");
    outbox.commit(one).await.unwrap();
    let mut two = harness.begin().await;
    assert!(outbox.stage(&mut two, event(1).id(id)).await.unwrap().is_duplicate());
    harness.rollback(two).await;
}

#[tokio::test]
async fn a_call_that_is_dropped_half_way_leaves_nothing_behind() {
    let harness = MongoHarness::start().await;
    let store = harness.store();
    stage(&harness, 50).await;
    for _ in 0..20 {
        // Dropped at whatever point it is then.
        drop(tokio::time::timeout(Duration::from_micros(900), store.claim(wish(1))).await);
    }
    let mut left = 0;
    loop {
        let claimed = claim(&store, 10).await;
        if claimed.is_empty() {
            break;
        }
        left += claimed.len();
    }
    let counts = store.counts(None).await.unwrap();
    assert_eq!(
        counts[0].of(Status::InFlight),
        50,
        "all of them are under a lease: {left} by the last claims"
    );
}

fn reaping(now: Option<Timestamp>) -> ReapRequest {
    ReapRequest {
        route: Some(route()),
        limit: 100,
        max_attempts: Some(1000),
        leases: Leases::Impossible,
        steps: Steps::Leave,
        owner: "w".into(),
        effect: Effect::Apply,
        now,
    }
}

/// A relay that was killed in the middle of a settle leaves its transaction open.
#[tokio::test]
async fn an_entry_in_a_transaction_that_nobody_ends_does_not_hold_back_the_reap_of_others() {
    let harness = MongoHarness::start().await;
    let store = harness.store();
    stage(&harness, 3).await;
    let claimed = claim(&store, 3).await;
    let id = mongodb::bson::Uuid::from_bytes(claimed[0].event_id.0.into_bytes());
    let outbox = harness.database.open().collection::<Document>("pillarbox_outbox");
    let mut killed = harness.database.client.start_session().await.unwrap();
    killed.start_transaction().await.unwrap();
    let settle = doc! { "$set": { "status": "delivered" } };
    let settled = outbox.update_one(doc! { "event_id": id }, settle).session(&mut killed).await.unwrap();
    assert_eq!(settled.modified_count, 1);
    let later = claimed[0].due_at.unwrap().saturating_add(Duration::from_secs(1));
    assert_eq!(store.reap(reaping(Some(later))).await.unwrap().released, 2);
    killed.abort_transaction().await.unwrap();
    assert_eq!(store.reap(reaping(Some(later))).await.unwrap().released, 1);
}

/// Stages with the same id until it is known to be there.
async fn stage_surely(client: &Client, outbox: &Outbox, id: EventId) {
    loop {
        let staged = async {
            let mut tx: ClientSession = client.start_session().await.ok()?;
            tx.start_transaction().await.ok()?;
            let _ = outbox.stage(&mut tx, event(1).id(id)).await.ok()?;
            outbox.commit(tx).await.ok()
        };
        if staged.await.is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn work(store: &MongoStore, delivered: &Mutex<BTreeMap<EventId, u32>>, all: usize) {
    loop {
        if delivered.lock().unwrap().len() == all {
            let counts = store.counts(None).await;
            if counts.is_ok_and(|counts| counts[0].of(Status::Delivered) == all as u64) {
                return;
            }
        }
        let mut request = wish(10);
        request.lease = Duration::from_secs(1);
        if let Ok(claim) = store.claim(request).await
            && !claim.entries.is_empty()
        {
            let settlements = claim.entries.iter().map(|entry| {
                *delivered.lock().unwrap().entry(entry.event_id).or_default() += 1;
                Settlement { held: entry.held(), verdict: Verdict::Delivered }
            });
            let settlements = settlements.collect();
            let request =
                SettleRequest { owner: "w".into(), settlements, keep: Keep::UntilPurged, now: None };
            drop(Store::settle(store, request).await);
        } else {
            drop(store.reap(reaping(None)).await);
            let mut suspects = wish(10);
            suspects.lease = Duration::from_secs(1);
            suspects.company = pillarbox_core::port::Company::Suspects { beside: 0 };
            if let Ok(claim) = store.claim(suspects).await {
                let settlements: Vec<Settlement> = claim
                    .entries
                    .iter()
                    .map(|entry| Settlement { held: entry.held(), verdict: Verdict::Delivered })
                    .collect();
                for entry in &claim.entries {
                    *delivered.lock().unwrap().entry(entry.event_id).or_default() += 1;
                }
                let request =
                    SettleRequest { owner: "w".into(), settlements, keep: Keep::UntilPurged, now: None };
                drop(Store::settle(store, request).await);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stepped_down_primary_under_load_loses_and_invents_nothing() {
    const ALL: usize = 300;
    let (_own, client, url) = alone().await;
    let store = MongoStore::connect(&url, Options::default()).await.unwrap();
    store.migrate().await.unwrap();
    let (outbox, delivered) = (store.outbox(ROUTE), Mutex::default());
    let ids: Vec<EventId> = (1..=ALL).map(|n| EventId(Uuid::from_u128(n as u128))).collect();
    let staging = async {
        for id in &ids {
            stage_surely(&client, &outbox, *id).await;
        }
    };
    let stepping = async {
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            // It answers, or its connections break: either way it steps down, and then elects itself again.
            let down = doc! { "replSetStepDown": 1, "force": true };
            drop(client.database("admin").run_command(down).await);
        }
    };
    let (workers, others) = (store.clone(), MongoStore::connect(&url, Options::default()).await.unwrap());
    futures_util::join!(staging, stepping, work(&workers, &delivered, ALL), work(&others, &delivered, ALL));
    let delivered = delivered.into_inner().unwrap();
    assert_eq!(delivered.keys().copied().collect::<Vec<_>>(), ids, "nothing is lost, nothing is invented");
}
