//! Every command of a relay goes by an index and sorts nothing, with many pending and many settled entries: read from the
//! server's own profile of what really ran.

use mongodb::bson::{Bson, Document, Timestamp as Stamp, doc};
use pillarbox_conformance::StoreHarness;
use pillarbox_core::Held;
use pillarbox_core::port::{
    AttendRequest, Keep, LANES, LaneCursor, LaneWish, Lanes, ReadRequest, ReapRequest, SessionId,
    SettleRequest, Settlement, Store, Verdict,
};
use pillarbox_store_mongodb::Options;
use std::time::Duration;

use futures_util::TryStreamExt;

use crate::harness::MongoHarness;
use crate::steps::{ROUTE, route, wish};

const PENDING: i64 = 60_000;
const SETTLED: i64 = 60_000;
const BATCH: u32 = 100;

async fn fill(harness: &MongoHarness, count: i64, settled: bool) {
    let outbox = harness.database.open().collection::<Document>("pillarbox_outbox");
    for first in (0..count).step_by(10_000) {
        let one = |number: i64| {
            let mut document = doc! {
                "seq": Stamp { time: 0, increment: 0 },
                "event_id": mongodb::bson::Binary {
                    subtype: mongodb::bson::spec::BinarySubtype::Uuid,
                    bytes: uuid::Uuid::now_v7().as_bytes().to_vec(),
                },
                "route": ROUTE, "type": "order.placed", "payload": "{}", "content_type": "application/json",
                "priority": 100, "attempts": 0, "crashes": 0, "fence": 0_i64, "created_at": 1_i64,
                "lane": i32::try_from(number % 64).unwrap(), "status": "pending",
            };
            if settled {
                document.insert("status", "delivered");
                document.insert("settled_at", 1_i64);
            }
            document
        };
        outbox.insert_many((first..first + 10_000).map(one)).await.unwrap();
    }
}

/// What the server ran on the outbox since the profile was switched on.
async fn profiled(harness: &MongoHarness) -> Vec<Document> {
    let namespace = format!("{}.pillarbox_outbox", harness.database.name);
    let profile = harness.database.open().collection::<Document>("system.profile");
    let found = profile.find(doc! { "ns": namespace }).await.unwrap();
    found.try_collect().await.unwrap()
}

fn number(document: &Document, name: &str) -> i64 {
    match document.get(name) {
        Some(Bson::Int32(number)) => (*number).into(),
        Some(Bson::Int64(number)) => *number,
        _ => 0,
    }
}

#[tokio::test]
async fn with_many_pending_and_settled_entries_every_call_goes_by_an_index_and_sorts_nothing() {
    let harness = MongoHarness::with(Options::default()).await;
    let store = harness.store();
    fill(&harness, SETTLED, true).await;
    fill(&harness, PENDING, false).await;
    let _ = store.claim(wish(1)).await.unwrap();
    harness.database.run(doc! { "profile": 2 }).await;
    let claimed = store.claim(wish(BATCH)).await.unwrap().entries;
    assert_eq!(claimed.len(), 100);
    let settle = |held: Held| Settlement { held, verdict: Verdict::Delivered };
    let settlements = claimed.iter().map(|entry| settle(entry.held())).collect();
    let request = SettleRequest { settlements, owner: "w".into(), keep: Keep::UntilPurged, now: None };
    assert_eq!(Store::settle(&*store, request).await.unwrap().accepted, 100);
    let reap = ReapRequest {
        route: Some(route()),
        limit: 100,
        owner: "w".into(),
        max_attempts: Some(5),
        ..reap_request()
    };
    let _ = store.reap(reap).await.unwrap();
    let session = SessionId::of_random(7, 1);
    let attend = AttendRequest {
        route: route(),
        session,
        joins: true,
        owner: "w".into(),
        lease: Duration::from_secs(60),
        shares: LANES,
        max_attempts: 5,
        skips_dead: false,
        now: None,
    };
    let lanes = store.attend(attend).await.unwrap().lanes;
    assert_eq!(lanes.len(), usize::from(LANES));
    let lanes = (0..LANES).map(|lane| LaneWish { lane, run: 1, limit: 8 }).collect();
    let read = ReadRequest { route: route(), session, lanes, cursor: LaneCursor::default() };
    assert_eq!(store.read(read).await.unwrap().entries.len(), 64 * 8);
    harness.database.run(doc! { "profile": 0 }).await;
    let ran = profiled(&harness).await;
    assert!(ran.len() > 6, "{ran:?}");
    for command in &ran {
        let plan = command.get_str("planSummary").unwrap_or_default();
        assert!(!plan.contains("COLLSCAN"), "{command}");
        assert!(!command.get_bool("hasSortStage").unwrap_or(false), "{command}");
        let examined = number(command, "docsExamined").max(number(command, "keysExamined"));
        assert!(examined <= 4096, "{examined} examined: {command}");
    }
}

fn reap_request() -> ReapRequest {
    ReapRequest {
        route: None,
        limit: 1,
        owner: String::new(),
        max_attempts: None,
        leases: pillarbox_core::port::Leases::Impossible,
        steps: pillarbox_core::port::Steps::Leave,
        effect: pillarbox_core::port::Effect::Apply,
        now: None,
    }
}
