//! Staging in a driver's transaction.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::limits::PAYLOAD_BYTES_DEFAULT;
use pillarbox_core::port::{SagaAdmin, SagaFilter, StagedSaga};
use pillarbox_core::{Entry, Envelope, ErrorKind, Event, HybridClock, Reference, Saga, Staged, Step};
use pillarbox_testkit::{ManualClock, MemorySink, drain_to};

use super::steps::*;
use super::{Act, DriverHarness, End, Outbox, Said};
use crate::StoreHarness;
use crate::store::steps::{ROUTE, event, id};

/// The transaction sees its own event, others see it after the commit, and the relay delivers it.
pub async fn what_a_driver_stages_is_seen_inside_only_until_the_commit<H: DriverHarness>(harness: &H) {
    let elsewhere = Box::pin(async { assert_eq!(count(harness).await, 0, "others see it too early") });
    let said = commit(harness, vec![Act::Stage(event(1)), Act::Count, Act::Meanwhile(elsewhere)]).await;
    assert_eq!(staged(&said[0]), Staged::Fresh(id(1)));
    assert!(matches!(said[1], Said::Counted(1)), "{said:?}");
    assert_eq!(count(harness).await, 1);
    assert_eq!(delivered(harness, ROUTE).await.len(), 1);
}

/// A rollback takes everything with it: events, a saga, a mark.
pub async fn what_a_driver_rolls_back_never_happened<H: DriverHarness>(harness: &H) {
    let acts = vec![
        Act::Stage(event(1)),
        Act::StageAll(vec![event(2), event(3)]),
        Act::StageSaga(saga()),
        Act::Count,
    ];
    let said = roll_back(harness, acts).await;
    assert!(matches!(said[3], Said::Counted(5)), "{said:?}");
    assert_eq!((count(harness).await, sagas(harness).await), (0, 0));
    assert!(delivered(harness, ROUTE).await.is_empty());
}

/// The second event of one id on a route is told, alone and among others, and does not spoil the transaction.
pub async fn a_driver_is_told_of_a_duplicate<H: DriverHarness>(harness: &H) {
    commit(harness, vec![Act::Stage(event(1))]).await;
    let all = vec![event(2), event(1), event(3), event(2)];
    let said = commit(harness, vec![Act::Stage(event(1)), Act::StageAll(all), Act::Stage(event(4))]).await;
    assert_eq!(staged(&said[0]), Staged::Duplicate(id(1)));
    let Said::AllStaged(Ok(all)) = &said[1] else { panic!("{said:?}") };
    let expected =
        [Staged::Fresh(id(2)), Staged::Duplicate(id(1)), Staged::Fresh(id(3)), Staged::Duplicate(id(2))];
    assert_eq!(all, &expected);
    assert_eq!((staged(&said[2]), count(harness).await), (Staged::Fresh(id(4)), 4));
}

/// Many events are staged in the order in which they were given; none and one are many too.
pub async fn many_events_of_a_driver_keep_their_order<H: DriverHarness>(harness: &H) {
    let many = (1..=300).map(event).collect();
    let said =
        commit(harness, vec![Act::StageAll(vec![]), Act::StageAll(many), Act::StageAll(vec![event(301)])])
            .await;
    assert!(matches!(&said[0], Said::AllStaged(Ok(none)) if none.is_empty()), "{said:?}");
    let ids: Vec<_> = delivered(harness, ROUTE).await.iter().map(|entry| entry.event_id).collect();
    assert_eq!(ids, (1..=301).map(id).collect::<Vec<_>>());
}

/// What breaks a limit is refused before a statement is sent: the transaction goes on and commits.
pub async fn a_limit_is_checked_before_a_driver_writes<H: DriverHarness>(harness: &H) {
    let bad = || Event::new("", "{}");
    let large = Event::new("order.placed", vec![b'x'; PAYLOAD_BYTES_DEFAULT + 1]);
    let said = commit(
        harness,
        vec![
            Act::Stage(bad()),
            Act::StageAll(vec![event(1), bad()]),
            Act::Stage(large),
            Act::Serialize(""),
            Act::Count,
            Act::Stage(event(2)),
        ],
    )
    .await;
    let kind = |said: &Said| match said {
        Said::Staged(Err(error)) | Said::AllStaged(Err(error)) | Said::Serialized(Err(error)) => error.kind(),
        other => panic!("not refused: {other:?}"),
    };
    let kinds: Vec<_> = said[..4].iter().map(kind).collect();
    assert_eq!(kinds, [ErrorKind::Invalid, ErrorKind::Invalid, ErrorKind::TooLarge, ErrorKind::Invalid]);
    assert!(matches!(said[4], Said::Counted(0)), "{said:?}");
    assert_eq!((staged(&said[5]), count(harness).await), (Staged::Fresh(id(2)), 1));
}

/// Every field, in every way of staging, arrives at a sink byte for byte as if the store's own driver had staged it.
pub async fn what_a_driver_stages_is_delivered_as_if_sqlx_had_staged_it<H: DriverHarness>(harness: &H) {
    let stamped = |route: &str| -> Outbox<H> {
        let clock = HybridClock::new(Arc::new(ManualClock::default()), Duration::ZERO);
        H::stamped(harness.base().outbox(route), clock)
    };
    let alone = || vec![full().id(id(1)), plain().id(id(2)), full(), plain(), plain().tenant("t")];
    let many = || vec![full().id(id(3)), plain(), full()];
    let mut acts: Vec<Act<'_>> = alone().into_iter().map(Act::Stage).collect();
    acts.push(Act::StageAll(many()));
    let said = harness.run(stamped("driver"), acts, End::Commit).await;
    assert!(said[..5].iter().all(|said| !staged(said).is_duplicate()), "{said:?}");
    let own = stamped("sqlx");
    for event in alone() {
        by_sqlx(harness, &own, vec![event]).await;
    }
    by_sqlx(harness, &own, many()).await;

    let (driver, sqlx) = (delivered(harness, "driver").await, delivered(harness, "sqlx").await);
    assert_eq!((driver.len(), sqlx.len()), (8, 8));
    for (driver, sqlx) in driver.iter().zip(&sqlx) {
        assert_eq!(line(driver, sqlx), line(sqlx, sqlx));
        assert_eq!(driver.payload, sqlx.payload);
        assert_eq!(driver.headers, sqlx.headers);
        assert_eq!((driver.priority, driver.max_attempts), (sqlx.priority, sqlx.max_attempts));
        assert_eq!(driver.group_id, sqlx.group_id);
    }
}

/// A saga is written with the entries of its first steps, and a second one of its id is told.
pub async fn a_driver_stages_a_saga_with_its_first_steps<H: DriverHarness>(harness: &H) {
    let said = commit(harness, vec![Act::StageSaga(saga()), Act::StageSaga(saga()), Act::Count]).await;
    let Said::SagaStaged(Ok(StagedSaga::Fresh { id, generation: 1 })) = &said[0] else { panic!("{said:?}") };
    let Said::SagaStaged(Ok(StagedSaga::Fresh { generation: 2, .. })) = &said[1] else { panic!("{said:?}") };
    assert!(matches!(said[2], Said::Counted(4)), "{said:?}");
    assert_eq!(sagas(harness).await, 2);
    let again = Saga::group("erase", Reference::new("user", "u-7"))
        .id(*id)
        .step(Step::new("mail", "mail.erase"))
        .build()
        .unwrap();
    let said = commit(harness, vec![Act::StageSaga(again), Act::Count]).await;
    assert!(matches!(&said[0], Said::SagaStaged(Ok(StagedSaga::Duplicate(told))) if told == id), "{said:?}");
    assert!(matches!(said[1], Said::Counted(4)), "{said:?}");
}

/// Another transaction that wants the same key waits for the end of this one.
pub async fn who_serializes_a_key_by_a_driver_makes_others_wait<H: DriverHarness>(harness: &H) {
    let elsewhere = Box::pin(async {
        let said = roll_back(harness, vec![Act::Serialize("k")]).await;
        let Said::Serialized(Err(error)) = &said[0] else { panic!("it did not wait: {said:?}") };
        assert_eq!(error.kind(), ErrorKind::Contention, "{error}");
    });
    let said = roll_back(harness, vec![Act::Serialize("k"), Act::Meanwhile(elsewhere)]).await;
    assert!(matches!(said[0], Said::Serialized(Ok(()))), "{said:?}");
    let said = commit(harness, vec![Act::Serialize("k"), Act::Stage(event(1))]).await;
    assert!(matches!(said[0], Said::Serialized(Ok(()))), "{said:?}");
}

/// An event that says everything, in texts that have a meaning in SQL, JSON and arrays.
fn full() -> Event {
    Event::new("order.placed", vec![0, 255, b'\\', b'"', b'{', b'\''])
        .key("süd, \"{o}\" \\ 'x' NULL")
        .content_type("application/octet-stream")
        .header("shop", "north \"and\" süd")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .tenant("NULL")
        .correlation_id("{a,b}")
        .causation_id("\\")
        .execution_id("\"\"")
        .occurred_at("2026-01-31T12:00:00.123456Z".parse().unwrap())
        .group_id("g")
        .max_attempts(3)
}

/// An event that says as little as most do, with an empty payload.
fn plain() -> Event {
    Event::new("order.placed", "").key("k").header("shop", "north")
}

fn saga() -> Saga {
    Saga::group("erase", Reference::new("user", "u-7"))
        .step(Step::new("mail", "mail.erase"))
        .step(Step::new("orders", "orders.erase"))
        .timeout(Duration::from_secs(60))
        .build()
        .unwrap()
}

async fn sagas<H: DriverHarness>(harness: &H) -> usize {
    harness.base().store().list_sagas(SagaFilter::default()).await.unwrap().len()
}

/// What a relay of this route delivers.
async fn delivered<H: DriverHarness>(harness: &H, route: &str) -> Vec<Entry> {
    let sink = MemorySink::new();
    drain_to(harness.base().store(), Arc::new(sink.clone()), route).await;
    sink.received()
}

/// The envelope as a line, with what is never the same twice taken from another entry.
fn line(entry: &Entry, other: &Entry) -> String {
    let mut entry = entry.clone();
    entry.seq = other.seq;
    entry.event_id = other.event_id;
    entry.created_at = other.created_at;
    entry.route = other.route.clone();
    String::from_utf8(Envelope::of(&entry, "/shop").to_json_line()).unwrap()
}
