//! Staging: what a session must have, what is too large, what is compared, and plain inserts.

use std::time::Duration;

use mongodb::bson::{Bson, Document, Timestamp as Stamp, doc};
use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, Filter};
use pillarbox_core::{ErrorKind, Event, EventLimits, Retry};
use pillarbox_store_mongodb::{Options, Outbox};

use crate::harness::{MongoHarness, kill};
use crate::steps::{ROUTE, claim, event, stage};

#[tokio::test]
async fn a_session_without_a_transaction_is_refused_before_anything_is_written() {
    let harness = MongoHarness::start().await;
    let mut session = harness.database.client.start_session().await.unwrap();
    let outbox = harness.outbox(ROUTE);
    for _ in 0..2 {
        let error = outbox.stage(&mut session, event(1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("call start_transaction on it before"), "{error}");
    }
    assert!(harness.store().list(Filter::default()).await.unwrap().is_empty());
    // And it can have one afterwards.
    session.start_transaction().await.unwrap();
    let _ = outbox.stage(&mut session, event(1)).await.unwrap();
    outbox.commit(session).await.unwrap();
    assert_eq!(claim(&harness.store(), 10).await.len(), 1);
}

#[tokio::test]
async fn an_event_beyond_the_limit_of_a_document_is_refused_before_anything_is_written() {
    let harness = MongoHarness::start().await;
    let mut limits = EventLimits::default();
    limits.payload_bytes = 64 * 1024 * 1024;
    let outbox = harness.outbox(ROUTE).limits(limits);
    let mut tx = harness.begin().await;
    let large = Event::new("order.placed", vec![b'x'; 16 * 1024 * 1024]);
    let error = outbox.stage(&mut tx, large).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::TooLarge, Retry::Never));
    assert!(error.to_string().contains("MongoDB allows 16777216"), "{error}");
    // The transaction goes on, and takes what just fits, also twice in one call.
    let fits = || Event::new("order.placed", vec![b'x'; 15 * 1024 * 1024]);
    assert_eq!(outbox.stage_all(&mut tx, [fits(), fits()]).await.unwrap().len(), 2);
    outbox.commit(tx).await.unwrap();
    let claimed = claim(&harness.store(), 10).await;
    assert_eq!(claimed.iter().map(|entry| entry.payload.len()).sum::<usize>(), 30 * 1024 * 1024);
}

#[tokio::test]
async fn the_database_is_that_of_the_url_or_of_the_settings() {
    let harness = MongoHarness::start().await;
    let mut tx = harness.begin().await;
    let _ = Outbox::new(ROUTE).stage(&mut tx, event(1)).await.unwrap();
    Outbox::new(ROUTE).commit(tx).await.unwrap();
    assert_eq!(claim(&harness.store(), 10).await.len(), 1);
    let mut tx = harness.begin().await;
    let elsewhere = Outbox::new(ROUTE).options(Options::default().database("pillarbox_no_such"));
    let error = elsewhere.stage(&mut tx, event(1)).await.unwrap_err();
    assert!(error.to_string().contains("`pillarbox migrate` creates them"), "{error}");
}

#[tokio::test]
async fn numbers_follow_the_order_of_staging_whatever_the_writers_clock() {
    let harness = MongoHarness::start().await;
    for _ in 0..5 {
        stage(&harness, 3).await;
    }
    let payloads: Vec<Vec<u8>> =
        claim(&harness.store(), 100).await.into_iter().map(|entry| entry.payload).collect();
    let expected: Vec<Vec<u8>> = (0..5).flat_map(|_| ["1", "2", "3"]).map(|text| text.into()).collect();
    assert_eq!(payloads, expected);
}

#[tokio::test]
async fn a_plain_insert_of_three_fields_is_taken_in_with_the_defaults() {
    let harness = MongoHarness::start().await;
    let plain = doc! { "route": ROUTE, "type": "order.placed", "payload": "{}" };
    assert!(harness.database.insert(plain).await);
    let mut stamped = doc! { "route": ROUTE, "type": "order.placed", "payload": "{}", "key": "k" };
    stamped.insert("seq", Stamp { time: 0, increment: 0 });
    stamped.insert("headers", doc! { "a": "b" });
    assert!(harness.database.insert(stamped).await);
    let entries = harness.store().list(Filter::default()).await.unwrap();
    assert_eq!(entries.len(), 2);
    for entry in &entries {
        assert_eq!(
            (entry.priority, entry.attempts, entry.content_type.as_str()),
            (100, 0, "application/json")
        );
        assert!(!entry.event_id.0.is_nil());
    }
    // The stamped one was numbered when it was inserted, the other one when it was taken in.
    assert_eq!(entries[0].key.as_deref(), Some("k"));
    assert_eq!(entries[0].headers["a"], "b");
    assert_eq!(claim(&harness.store(), 10).await.len(), 2);
}

#[tokio::test]
async fn what_the_validator_refuses_is_refused_in_a_plain_insert() {
    let harness = MongoHarness::start().await;
    let fine = || doc! { "route": ROUTE, "type": "order.placed", "payload": "{}" };
    for (name, value) in [
        ("route", Bson::from("")),
        ("route", "x".repeat(256).into()),
        ("type", 7.into()),
        ("key", "".into()),
        ("payload", doc! {}.into()),
        ("seq", 7.into()),
        ("headers", doc! { "a": 1 }.into()),
        ("due_at", "tomorrow".into()),
        ("status", "sent".into()),
        ("max_attempts", 0.into()),
        // Nobody would take it in.
        ("status", "pending".into()),
    ] {
        let mut document = fine();
        document.insert(name, value);
        assert!(!harness.database.insert(document.clone()).await, "{document}");
    }
    for name in ["route", "type", "payload"] {
        let mut document = fine();
        document.remove(name);
        assert!(!harness.database.insert(document).await, "{name}");
    }
}

#[tokio::test]
async fn a_commit_of_a_transaction_that_the_server_has_ended_is_an_error() {
    let harness = MongoHarness::start().await;
    let outbox = harness.outbox(ROUTE);
    let mut tx = harness.begin().await;
    let _ = outbox.stage(&mut tx, event(1)).await.unwrap();
    kill(&harness.database.client, &tx).await;
    let error = outbox.commit(tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    assert!(claim(&harness.store(), 10).await.is_empty());
}

#[tokio::test]
async fn who_serializes_a_key_waits_for_the_other() {
    let harness = MongoHarness::start().await;
    let outbox = harness.outbox(ROUTE);
    let mut first = harness.begin().await;
    outbox.serialize(&mut first, "k").await.unwrap();
    let second = async {
        let mut second = harness.begin().await;
        outbox.serialize(&mut second, "k").await.unwrap();
        let _ = outbox.stage(&mut second, event(2).key("k")).await.unwrap();
        outbox.commit(second).await.unwrap();
    };
    let first = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let _ = outbox.stage(&mut first, event(1).key("k")).await.unwrap();
        outbox.commit(first).await.unwrap();
    };
    futures_util::future::join(first, second).await;
    let payloads: Vec<Vec<u8>> =
        claim(&harness.store(), 10).await.into_iter().map(|entry| entry.payload).collect();
    assert_eq!(payloads, [b"1", b"2"]);
}

#[tokio::test]
async fn a_document_of_the_outbox_stages_with_any_driver() {
    let harness = MongoHarness::start().await;
    let document: Document = harness.outbox(ROUTE).document(event(1).key("k")).unwrap();
    assert!(harness.database.insert(document).await);
    let claimed = claim(&harness.store(), 10).await;
    assert_eq!((claimed.len(), claimed[0].key.as_deref()), (1, Some("k")));
}
