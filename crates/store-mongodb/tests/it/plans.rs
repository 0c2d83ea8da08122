//! Every command of a relay goes by an index, sorts nothing and examines little more than its batch, with many pending and
//! many settled entries: read from the server's own profile of what really ran, and from its plans. Pages and counts of an
//! operator go by an index too.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::TryStreamExt;
use mongodb::bson::{Bson, Document, Timestamp as Stamp, doc};
use mongodb::options::InsertManyOptions;
use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{
    Admin, AttendRequest, ClaimOrder, ClaimRequest, CountBy, CountByRequest, Effect, Filter, Keep, LANES,
    LaneCursor, LaneWish, Lanes, Leases, ReadRequest, ReapRequest, SessionId, SettleRequest, Settlement,
    Steps, Store, Verdict,
};
use pillarbox_core::{Standing, Status};
use pillarbox_store_mongodb::Options;

use crate::harness::MongoHarness;
use crate::steps::{ROUTE, route, wish};

const BATCH: u32 = 100;
/// Entries that are read of each lane.
const OF_A_LANE: u32 = 8;
/// So many entries are looked for at most to tell whether they are few.
const PROBED: i64 = 1001;
/// Documents of one insert.
const AT_ONCE: i64 = 20_000;

async fn fill(harness: &MongoHarness, count: i64, settled: bool) {
    let outbox = harness.database.open().collection::<Document>("pillarbox_outbox");
    for first in (0..count).step_by(20_000) {
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
            // Some come from writers without a clock.
            if number % 2 == 0 {
                document.insert("hlc", number);
            }
            if settled {
                document.insert("status", "delivered");
                document.insert("settled_at", 1_i64);
            }
            document
        };
        let options = InsertManyOptions::builder().ordered(false).bypass_document_validation(true).build();
        outbox.insert_many((first..first + AT_ONCE).map(one)).with_options(options).await.unwrap();
    }
}

fn number(document: &Document, name: &str) -> i64 {
    match document.get(name) {
        Some(Bson::Int32(number)) => (*number).into(),
        Some(Bson::Int64(number)) => *number,
        _ => 0,
    }
}

/// What the server ran on our collections while this was done.
async fn during(harness: &MongoHarness, done: impl Future<Output = ()>) -> Vec<Document> {
    let profile = harness.database.open().collection::<Document>("system.profile");
    profile.drop().await.unwrap();
    harness.database.run(doc! { "profile": 2 }).await;
    done.await;
    harness.database.run(doc! { "profile": 0 }).await;
    let found = profile.find(doc! { "ns": { "$regex": r"\.pillarbox_" } }).await.unwrap();
    found.try_collect().await.unwrap()
}

fn is_of_outbox(command: &Document) -> bool {
    command.get_str("ns").unwrap().ends_with(".pillarbox_outbox")
}

/// How much a command went through.
fn examined(command: &Document) -> i64 {
    number(command, "docsExamined").max(number(command, "keysExamined"))
}

/// The stages of a plan, wherever they stand in it.
fn stages(plan: &Bson, found: &mut BTreeSet<String>) {
    match plan {
        Bson::Document(document) => {
            found.extend(document.get_str("stage").map(str::to_owned));
            let plans = document.iter().filter(|(name, _)| *name != "rejectedPlans");
            plans.for_each(|(_, value)| stages(value, found));
        }
        Bson::Array(values) => values.iter().for_each(|value| stages(value, found)),
        _ => {}
    }
}

/// The stages that the server plans for a command that it ran. `None`: it is a write, or was too long to be kept.
async fn planned(harness: &MongoHarness, ran: &Document) -> Option<BTreeSet<String>> {
    let kept = ran.get_document("command").ok()?;
    let names = ["find", "aggregate", "filter", "pipeline", "sort", "limit", "projection", "hint", "cursor"];
    let command: Document = kept
        .iter()
        .filter(|(name, _)| names.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !command.contains_key("find") && !command.contains_key("aggregate") {
        return None;
    }
    let plan = harness.database.run(doc! { "explain": command, "verbosity": "queryPlanner" }).await;
    let mut found = BTreeSet::new();
    // Not the rest: it repeats the command.
    for part in ["queryPlanner", "stages"] {
        if let Some(plan) = plan.get(part) {
            stages(plan, &mut found);
        }
    }
    Some(found)
}

/// Every command went by an index, sorted nothing, and examined no more than so many documents and keys. All that it did
/// for others is in the numbers of a command, so that they tell of a look into the outbox on the way, too.
async fn check(harness: &MongoHarness, ran: &[Document], most: i64) {
    let mut explained = 0;
    for command in ran {
        assert!(examined(command) <= most, "{} examined: {command}", examined(command));
        if !is_of_outbox(command) {
            continue;
        }
        let plan = command.get_str("planSummary").unwrap_or_default();
        assert!(plan.contains("IXSCAN") && !plan.contains("COLLSCAN"), "{command}");
        assert!(!command.get_bool("hasSortStage").unwrap_or(false), "{command}");
        if let Some(stages) = planned(harness, command).await {
            explained += 1;
            assert!(stages.iter().any(|stage| stage.contains("IXSCAN")), "{stages:?}: {command}");
            assert!(
                !stages.iter().any(|stage| stage == "COLLSCAN" || stage == "SORT"),
                "{stages:?}: {command}"
            );
        }
    }
    assert!(explained > 1, "{ran:?}");
}

/// Two claims, what settles them, and a reap.
async fn check_rows(harness: &MongoHarness) {
    let store = harness.store();
    // The first one takes notice of the route.
    let _ = store.claim(wish(1)).await.unwrap();
    for order in [ClaimOrder::Staged, ClaimOrder::Causal] {
        let ran = during(harness, async {
            let claimed = store.claim(ClaimRequest { order, ..wish(BATCH) }).await.unwrap().entries;
            assert_eq!(claimed.len(), 100);
            let settle = |held| Settlement { held, verdict: Verdict::Delivered };
            let settlements = claimed.iter().map(|entry| settle(entry.held())).collect();
            let request =
                SettleRequest { settlements, owner: "w".into(), keep: Keep::UntilPurged, now: None };
            assert_eq!(Store::settle(&*store, request).await.unwrap().accepted, 100);
        })
        .await;
        assert!(ran.len() > 5, "{ran:?}");
        check(harness, &ran, 3 * i64::from(BATCH)).await;
    }
    let reap = ReapRequest {
        route: Some(route()),
        limit: BATCH,
        owner: "w".into(),
        max_attempts: Some(5),
        leases: Leases::Impossible,
        steps: Steps::Leave,
        effect: Effect::Apply,
        now: None,
    };
    let ran = during(harness, async { drop(store.reap(reap).await.unwrap()) }).await;
    check(harness, &ran, 3 * i64::from(BATCH)).await;
}

/// One read of all lanes.
async fn check_lanes(harness: &MongoHarness) {
    let (store, session) = (harness.store(), SessionId::of_random(7, 1));
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
    let wanted = i64::from(LANES) * i64::from(OF_A_LANE);
    let ran = during(harness, async {
        let lanes = (0..LANES).map(|lane| LaneWish { lane, run: 1, limit: OF_A_LANE }).collect();
        let read = ReadRequest { route: route(), session, lanes, cursor: LaneCursor::default() };
        assert_eq!(i64::try_from(store.read(read).await.unwrap().entries.len()).unwrap(), wanted);
    })
    .await;
    // Of each lane three times as much is looked at: what comes late is told as well.
    check(harness, &ran, 4 * wanted).await;
}

/// The index that a command was told to use.
fn hint(command: &Document) -> &str {
    let asked = ["command", "originatingCommand"].map(|name| command.get_document(name).ok());
    asked.into_iter().flatten().find_map(|asked| asked.get_str("hint").ok()).unwrap_or_default()
}

/// What plain inserts left is taken in first, by the index of what is open.
fn is_adoption(command: &Document) -> bool {
    let plain = |asked: &Document| {
        asked.get_document("filter").is_ok_and(|filter| filter.get("status") == Some(&Bson::Null))
    };
    ["command", "originatingCommand"].iter().any(|name| command.get_document(name).is_ok_and(plain))
}

/// What is asked of the outbox is answered by the named indexes. `most` is what it may examine; `None`: all of what is open.
async fn check_asked(
    harness: &MongoHarness,
    what: &str,
    indexes: &[&str],
    most: Option<i64>,
    asked: impl Future<Output = ()>,
) {
    let ran = during(harness, asked).await;
    let of_outbox: Vec<&Document> = ran.iter().filter(|command| is_of_outbox(command)).collect();
    assert!(!of_outbox.is_empty(), "{what}: {ran:?}");
    for command in of_outbox {
        let plan = command.get_str("planSummary").unwrap_or_default();
        assert!(plan.contains("IXSCAN") && !plan.contains("COLLSCAN"), "{what}: {command}");
        let index = hint(command).trim_start_matches("pillarbox_outbox_");
        assert!(is_adoption(command) || indexes.contains(&index), "{what}: {command}");
        if let Some(most) = most {
            assert!(examined(command) <= most, "{what}: {} examined: {command}", examined(command));
        }
    }
}

/// Pages and counts of an operator.
async fn check_pages(harness: &MongoHarness) {
    let store = harness.store();
    let few = Some(3 * i64::from(BATCH));
    for (status, indexes, most) in [
        (None, &["seq"][..], few),
        (Some(Status::Delivered.into()), &["seq"], few),
        (Some(Status::Dead.into()), &["ended"], few),
        (Some(Status::Discarded.into()), &["ended"], few),
        (Some(Status::Pending.into()), &["open", "lane"], None),
        (Some(Status::Retrying.into()), &["open"], few),
        (Some(Status::InFlight.into()), &["open"], few),
        (Some(Standing::Blocked), &["open"], few),
    ] {
        let filter = || {
            let mut filter = Filter::default();
            (filter.status, filter.limit) = (status, BATCH);
            filter
        };
        let what = format!("a page of {status:?}");
        check_asked(harness, &what, indexes, most, async { drop(store.list(filter()).await.unwrap()) }).await;
        if indexes == ["seq"] {
            // It counts everything.
            continue;
        }
        let what = format!("a count of {status:?}");
        let request = CountByRequest { filter: filter(), by: CountBy::Type };
        check_asked(harness, &what, indexes, most, async { drop(store.count_by(request).await.unwrap()) })
            .await;
    }
}

/// A page of a large backlog is read in its order from the lanes of each route: nothing is sorted, and little more than the
/// page is read. Before that, the index tells that they are many.
async fn check_backlog(harness: &MongoHarness) {
    let (store, outbox) =
        (harness.store(), harness.database.open().collection::<Document>("pillarbox_outbox"));
    let pending = || doc! { "status": "pending", "settled_at": Bson::Null };
    let (mut some, other) = (pending(), doc! { "$set": { "route": "returns" } });
    some.insert("hlc", doc! { "$lt": 20_000_i64 });
    outbox.update_many(some, other).await.unwrap();
    for route in [None, Some(route())] {
        let mut wanted = pending();
        wanted.extend(route.as_ref().map(|route| ("route".to_owned(), route.as_str().into())));
        let oldest = outbox.find(wanted).sort(doc! { "seq": 1 }).limit(2 * i64::from(BATCH)).await.unwrap();
        let oldest: Vec<Document> = oldest.try_collect().await.unwrap();
        let mut filter = Filter::default();
        (filter.status, filter.limit, filter.route) = (Some(Status::Pending.into()), BATCH, route);
        for wanted in oldest.chunks(100) {
            let mut listed = Vec::new();
            let ran = during(harness, async { listed = store.list(filter.clone()).await.unwrap() }).await;
            filter.after = listed.last().map(|entry| entry.seq);
            let ids = listed.iter().map(|entry| entry.event_id.0.as_bytes().to_vec());
            let wanted = wanted.iter().map(|entry| match entry.get("event_id") {
                Some(Bson::Binary(id)) => id.bytes.clone(),
                _ => vec![],
            });
            assert!(ids.eq(wanted), "{filter:?}");
            let asked = |command: &&Document| is_of_outbox(command) && !is_adoption(command);
            let ran: Vec<&Document> = ran.iter().filter(asked).collect();
            let (mut merges, mut documents) = (0, 0);
            for command in ran {
                let stages = planned(harness, command).await.unwrap();
                assert!(!stages.contains("SORT") && !stages.contains("COLLSCAN"), "{stages:?}: {command}");
                merges += i64::from(stages.contains("SORT_MERGE"));
                let is_probe = hint(command).ends_with("_open");
                let most = if is_probe { PROBED } else { 3 * i64::from(BATCH) };
                assert!(examined(command) <= most, "{} examined: {command}", examined(command));
                documents += number(command, "docsExamined") * i64::from(!is_probe);
            }
            assert!(merges > 0 && documents <= 3 * i64::from(BATCH), "{merges}, {documents}: {filter:?}");
        }
    }
}

/// Everything that is checked, beside so many settled entries and with so many pending ones.
async fn check_all(settled: i64, pending: i64) {
    let harness = MongoHarness::with(Options::default().causal_order(true)).await;
    fill(&harness, settled, true).await;
    fill(&harness, pending, false).await;
    check_rows(&harness).await;
    check_pages(&harness).await;
    check_backlog(&harness).await;
    check_lanes(&harness).await;
}

#[tokio::test]
async fn with_many_pending_and_settled_entries_every_call_goes_by_an_index_and_sorts_nothing() {
    check_all(60_000, 60_000).await;
}

// They are inserted for minutes.
#[tokio::test]
async fn beside_1_000_000_settled_entries_every_call_goes_by_an_index_and_sorts_nothing() {
    check_all(1_000_000, 200_000).await;
}
