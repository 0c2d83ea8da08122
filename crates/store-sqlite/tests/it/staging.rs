//! What an outbox adds to the conformance suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, Filter, Wake};
use pillarbox_core::{ErrorKind, Event, EventLimits, Ident, Staged};
use pillarbox_store_sqlite::{Options, Outbox, Param, SqliteStore};
use sqlx::Connection;

use crate::harness::{SqliteHarness, url};
use crate::steps::*;

#[tokio::test]
async fn a_nested_transaction_that_rolls_back_takes_its_events_with_it() {
    let harness = SqliteHarness::start().await;
    let outbox = harness.outbox(ROUTE);
    let mut tx = harness.begin().await;
    let kept = outbox.stage(&mut tx, event(1)).await.unwrap();
    let mut nested = tx.begin().await.unwrap();
    assert!(!outbox.stage(&mut nested, event(2)).await.unwrap().is_duplicate());
    nested.rollback().await.unwrap();
    let mut nested = tx.begin().await.unwrap();
    let also = outbox.stage(&mut nested, event(3)).await.unwrap();
    nested.commit().await.unwrap();
    harness.commit(tx).await;
    let ids: Vec<_> = claim(&harness.store(), 10).await.iter().map(|entry| entry.event_id).collect();
    assert_eq!(ids, [kept.event_id(), also.event_id()]);
}

struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_relay_in_the_process_is_woken_after_the_commit_and_not_before() {
    let harness = SqliteHarness::start().await;
    let counter = Arc::new(Counter(AtomicUsize::new(0)));
    let outbox = harness.outbox(ROUTE).wake(Arc::clone(&counter) as Arc<dyn Wake>);
    let mut tx = harness.begin().await;
    assert!(!outbox.stage(&mut tx, event(1)).await.unwrap().is_duplicate());
    assert_eq!(counter.0.load(Ordering::SeqCst), 0);
    outbox.commit(tx).await.unwrap();
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    assert_eq!(claim(&harness.store(), 10).await.len(), 1);
}

#[tokio::test]
async fn the_trace_of_the_current_span_becomes_a_header_unless_the_event_has_one() {
    let harness = SqliteHarness::start().await;
    let outbox = harness.outbox(ROUTE).trace(|| Some("00-aa-bb-01".into()));
    let mut tx = harness.begin().await;
    let events = [event(1), event(2).header("traceparent", "mine"), event(3).header("shop", "north")];
    assert_eq!(outbox.stage_all(&mut tx, events).await.unwrap().len(), 3);
    harness.commit(tx).await;
    let traces: Vec<_> =
        claim(&harness.store(), 10).await.iter().map(|entry| entry.headers["traceparent"].clone()).collect();
    assert_eq!(traces, ["00-aa-bb-01", "mine", "00-aa-bb-01"]);
}

#[tokio::test]
async fn a_bad_route_or_a_payload_over_the_limit_is_refused_when_staging() {
    let harness = SqliteHarness::start().await;
    let mut tx = harness.begin().await;
    let error = Outbox::new("").stage(&mut tx, event(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(Outbox::new("x".repeat(256)).statement(event(1)).unwrap_err().kind(), ErrorKind::TooLarge);
    let outbox = harness.outbox(ROUTE).limits(EventLimits::default().payload_bytes(3));
    assert_eq!(outbox.stage(&mut tx, Event::new("t", "four")).await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert!(!outbox.stage(&mut tx, Event::new("t", "two")).await.unwrap().is_duplicate());
    harness.commit(tx).await;
    assert_eq!(claim(&harness.store(), 10).await.len(), 1);
}

#[tokio::test]
async fn the_statement_for_other_drivers_stages_the_same_entry() {
    let harness = SqliteHarness::start().await;
    let outbox = harness.outbox(ROUTE);
    let id = pillarbox_host::random_u64();
    let event = || {
        Event::new("order.placed", vec![0, 255, b'\'', 0])
            .id(pillarbox_core::EventId(uuid::Uuid::from_u128(u128::from(id))))
            .key("o-1")
            .header("shop", "nörth \"quoted\"")
            .tenant("t")
            .correlation_id("co")
            .causation_id("ca")
            .execution_id("ex")
            .occurred_at(pillarbox_core::Timestamp::from_micros(1_700_000_000_000_001).unwrap())
            .priority(-5)
            .group_id("g")
            .max_attempts(9)
    };
    for changed in [1, 0] {
        let statement = outbox.statement(event()).unwrap();
        let mut query = sqlx::query(sqlx::AssertSqlSafe(statement.sql));
        for param in statement.params {
            query = match param {
                Param::Null => query.bind(None::<i64>),
                Param::Integer(number) => query.bind(number),
                Param::Text(text) => query.bind(text),
                Param::Bytes(bytes) => query.bind(bytes),
                other => panic!("no driver can bind {other:?}"),
            };
        }
        let done = query.execute(harness.store().pool()).await.unwrap();
        assert_eq!(done.rows_affected(), changed, "the second is a duplicate");
    }
    let plain = harness.store().list(Filter::default()).await.unwrap().remove(0);
    harness.execute("delete from pillarbox_outbox").await;
    let mut tx = harness.begin().await;
    let staged = outbox.stage(&mut tx, event()).await.unwrap();
    harness.commit(tx).await;
    assert!(matches!(staged, Staged::Fresh(_)));
    let mut other = harness.store().list(Filter::default()).await.unwrap().remove(0);
    (other.seq, other.hlc, other.created_at) = (plain.seq, plain.hlc, plain.created_at);
    assert_eq!(other, plain);
}

#[tokio::test]
async fn two_prefixes_in_one_file_do_not_see_each_other() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 2).await;
    let options = Options::default().prefix(Ident::new("order").unwrap());
    let other = SqliteStore::connect(&url(&harness.directory), options.clone()).await.unwrap();
    assert_eq!(other.migrate().await.unwrap().from, 0);
    assert!(claim(&other, 10).await.is_empty());
    let mut tx = other.pool().begin().await.unwrap();
    assert!(!Outbox::new(ROUTE).options(options).stage(&mut tx, event(1)).await.unwrap().is_duplicate());
    tx.commit().await.unwrap();
    assert_eq!((claim(&other, 10).await.len(), claim(&harness.store(), 10).await.len()), (1, 2));
}

#[tokio::test]
async fn a_delayed_event_with_a_key_is_refused_where_the_route_is_known_to_be_ordered() {
    let harness = SqliteHarness::start().await;
    let outbox = harness.outbox(ROUTE).ordered();
    let mut tx = harness.begin().await;
    let later = Duration::from_secs(60);
    let error = outbox.stage(&mut tx, event(1).key("k").delay(later)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("ordered route"), "{error}");
    for fine in [event(2).key("k"), event(3).delay(later), event(4).key("k").delay(Duration::ZERO)] {
        assert!(!outbox.stage(&mut tx, fine).await.unwrap().is_duplicate());
    }
    harness.commit(tx).await;
    assert_eq!(claim(&harness.store(), 10).await.len(), 2);
}

#[tokio::test]
async fn who_serializes_a_key_waits_for_whoever_did_before() {
    let harness = SqliteHarness::start().await;
    let outbox = harness.outbox(ROUTE);
    let pool = harness.store().pool().clone();
    // Neither has the write lock from its start.
    let (mut first, mut second) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    outbox.serialize(&mut first, "k").await.unwrap();
    let committed = AtomicBool::new(false);
    let one = async {
        let staged = outbox.stage(&mut first, event(1).key("k")).await.unwrap();
        committed.store(true, Ordering::SeqCst);
        first.commit().await.unwrap();
        staged.event_id()
    };
    let other = async {
        outbox.serialize(&mut second, "k").await.unwrap();
        assert!(committed.load(Ordering::SeqCst), "it did not wait");
        let staged = outbox.stage(&mut second, event(2).key("k")).await.unwrap();
        second.commit().await.unwrap();
        staged.event_id()
    };
    // The one that must wait begins.
    let (second, first) = tokio::join!(other, one);
    let ids: Vec<_> = claim(&harness.store(), 10).await.iter().map(|entry| entry.event_id).collect();
    assert_eq!(ids, [first, second]);
    let mut tx = harness.begin().await;
    assert_eq!(outbox.serialize(&mut tx, "").await.unwrap_err().kind(), ErrorKind::Invalid);
}
