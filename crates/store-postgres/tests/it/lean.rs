//! The short statement for what most events say, and what the statuses are to plain SQL.

use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, ClaimRequest, Company, Store};
use pillarbox_core::{CONTENT_TYPE_DEFAULT, Entry, Event, Status};

use crate::harness::{Direct, Pooled};
use crate::steps::{ROUTE, claim, claim_request, ids, reap_request};

/// An event that the short statement has no place for, one for each of its fields.
fn others() -> Vec<Event> {
    let event = || Event::new("order.placed", "1").key("k").header("shop", "north");
    vec![
        event().content_type("text/plain"),
        event().tenant("t"),
        event().correlation_id("c"),
        event().causation_id("d"),
        event().execution_id("e"),
        event().occurred_at("2026-01-31T12:00:00.123456Z".parse().unwrap()),
        event().priority(101),
        event().group_id("g"),
        event().max_attempts(3),
    ]
}

async fn round_trip<H>(harness: &H, tx: &mut sqlx::Transaction<'static, sqlx::Postgres>)
where
    H: StoreHarness<Outbox = pillarbox_store_postgres::Outbox>,
{
    let outbox = harness.outbox(ROUTE);
    let plain = Event::new("plain", vec![0, 255, b'\\', b'"']);
    let full = Event::new("order.placed", "1").key("süd").header("shop", "north \"and\" süd");
    for event in [plain.clone(), full, plain].into_iter().chain(others()) {
        assert!(!outbox.stage(tx, event).await.unwrap().is_duplicate());
    }
}

fn check(entries: &[Entry]) {
    let [plain, full, again, rest @ ..] = entries else { panic!("{} entries", entries.len()) };
    for plain in [plain, again] {
        assert_eq!((plain.event_type.as_str(), plain.key.as_deref()), ("plain", None));
        assert_eq!((plain.payload.as_slice(), plain.headers.len()), (&[0, 255, b'\\', b'"'][..], 0));
        assert_eq!((plain.content_type.as_str(), plain.priority), (CONTENT_TYPE_DEFAULT, 100));
        assert!(plain.hlc.is_some());
    }
    assert_eq!((full.key.as_deref(), full.headers["shop"].as_str()), (Some("süd"), "north \"and\" süd"));
    assert!(rest.iter().all(|entry| entry.headers["shop"] == "north" && entry.key.as_deref() == Some("k")));
    let said = |says: fn(&Entry) -> bool| assert_eq!(rest.iter().filter(|entry| says(entry)).count(), 1);
    said(|entry| entry.content_type == "text/plain");
    said(|entry| entry.tenant.as_deref() == Some("t"));
    said(|entry| entry.correlation_id.as_deref() == Some("c"));
    said(|entry| entry.causation_id.as_deref() == Some("d"));
    said(|entry| entry.execution_id.as_deref() == Some("e"));
    said(|entry| entry.occurred_at.is_some_and(|at| at.to_string() == "2026-01-31T12:00:00.123456Z"));
    said(|entry| entry.priority == 101);
    said(|entry| entry.group_id.as_deref() == Some("g"));
    said(|entry| entry.max_attempts == Some(3));
}

#[tokio::test]
async fn whatever_an_event_says_it_round_trips_by_the_short_statement_or_the_long_one() {
    let harness = Direct::start().await;
    let mut tx = harness.begin().await;
    round_trip(&harness, &mut tx).await;
    tx.commit().await.unwrap();
    check(&claim(&harness.store(), 100).await);
}

#[tokio::test]
async fn whatever_an_event_says_it_round_trips_through_a_pooler_too() {
    let harness = Pooled::start().await;
    let mut tx = harness.begin().await;
    round_trip(&harness, &mut tx).await;
    tx.commit().await.unwrap();
    check(&claim(&harness.store(), 100).await);
}

#[tokio::test]
async fn a_delayed_event_without_an_id_waits() {
    let harness = Direct::start().await;
    let mut tx = harness.begin().await;
    let late = Event::new("late", "1").delay(Duration::from_secs(60));
    assert!(!harness.outbox(ROUTE).stage(&mut tx, late).await.unwrap().is_duplicate());
    tx.commit().await.unwrap();
    assert!(claim(&harness.store(), 10).await.is_empty());
}

#[tokio::test]
async fn whatever_plain_sql_says_of_attempts_a_pending_entry_is_not_left_behind() {
    let harness = Direct::start().await;
    harness
        .execute(
            "insert into {s}.pillarbox_outbox (route, type, payload, attempts) values ('orders', 't', '', 99)",
        )
        .await;
    assert_eq!(claim(&harness.store(), 10).await[0].attempts, 100);
}

#[tokio::test]
async fn what_plain_sql_calls_in_flight_or_spent_without_a_lease_is_found_by_the_reaper() {
    let harness = Direct::start().await;
    harness
        .execute(
            "insert into {s}.pillarbox_outbox (route, type, payload, status, attempts) \
             select 'orders', 't', '', status, attempts \
             from (values ('in_flight', 0), ('retrying', 99), ('retrying', 1)) as v(status, attempts)",
        )
        .await;
    let reaped = harness.store().reap(reap_request()).await.unwrap();
    assert_eq!((reaped.stale, reaped.released, reaped.dead.len()), (1, 1, 1));
    let reaped = harness.store().reap(reap_request()).await.unwrap();
    assert_eq!((reaped.stale, reaped.released, reaped.dead.len()), (0, 0, 0));
    assert_eq!(claim(&harness.store(), 10).await.len(), 1);
    let suspects = ClaimRequest { company: Company::Suspects { beside: 0 }, ..claim_request(10) };
    assert_eq!(harness.store().claim(suspects).await.unwrap().entries.len(), 1, "what was in flight");
}

#[tokio::test]
async fn what_plain_sql_puts_back_is_claimed_although_it_was_settled_once() {
    let harness = Direct::start().await;
    harness
        .execute(
            "insert into {s}.pillarbox_outbox (route, type, payload, status, settled_at) \
             values ('orders', 't', '', 'delivered', now()); \
             update {s}.pillarbox_outbox set status = 'pending'",
        )
        .await;
    let claimed = claim(&harness.store(), 10).await;
    assert_eq!(ids(&claimed).len(), 1);
    let counts = harness.store().counts(None).await.unwrap();
    assert_eq!((counts[0].of(Status::InFlight), counts[0].of(Status::Delivered)), (1, 0));
}
