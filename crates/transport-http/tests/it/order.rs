//! Order per key, and how many requests are under way at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use pillarbox_core::{Entry, Event, Outcome};
use pillarbox_transport_http::HttpSink;
use tokio::sync::{Barrier, Semaphore};

use super::harness::{Server, deliver, entry, entry_of, private};

fn keyed(numbers: std::ops::RangeInclusive<u64>, keys: u64) -> Vec<Entry> {
    numbers.map(|n| entry_of(n, Event::new("t", n.to_string()).key(format!("k-{}", n % keys)))).collect()
}

/// The numbers of each key, in the order in which they arrived.
fn by_key(server: &Server) -> BTreeMap<String, Vec<u64>> {
    let mut arrived: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for seen in server.seen() {
        let key = seen.headers["ce-subject"].to_str().unwrap().to_owned();
        arrived.entry(key).or_default().push(String::from_utf8(seen.body.to_vec()).unwrap().parse().unwrap());
    }
    arrived
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_one_key_arrive_in_order_also_when_batches_overlap() {
    let server = Server::status(200).await;
    let sink = HttpSink::with_options(private(&server.url())).unwrap();
    let (first, second, third) = (keyed(1..=200, 7), keyed(201..=400, 7), keyed(401..=600, 7));
    tokio::join!(deliver(&sink, &first), deliver(&sink, &second), deliver(&sink, &third));
    let arrived = by_key(&server);
    assert_eq!(arrived.len(), 7);
    for (key, numbers) in arrived {
        assert!(numbers.is_sorted(), "{key}: {numbers:?}");
    }
}

#[tokio::test]
async fn a_failed_entry_does_not_hold_up_the_next_of_its_key() {
    let server = Server::answering(async |seen| {
        let bad = seen.body == "1";
        if bad { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK }.into_response()
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url())).unwrap();
    let outcomes = deliver(&sink, &keyed(1..=3, 1)).await;
    assert!(matches!(outcomes[0], Outcome::Failed { .. }));
    assert_eq!(outcomes[1..], [Outcome::Confirmed, Outcome::Confirmed]);
}

#[tokio::test]
async fn one_slow_answer_delays_nobody_but_its_own_key() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let server = Server::answering(move |seen| {
        let held = Arc::clone(&held);
        async move {
            if seen.body == "7" {
                held.acquire().await.unwrap().forget();
            }
            StatusCode::OK.into_response()
        }
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url())).unwrap();
    let batch = keyed(1..=70, 7);
    let delivering = deliver(&sink, &batch);
    let others = pillarbox_testkit::eventually(super::harness::PATIENCE, async || {
        by_key(&server).iter().all(|(key, numbers)| numbers.len() == if key == "k-0" { 1 } else { 10 })
    });
    let (outcomes, ()) = tokio::join!(delivering, async {
        others.await;
        gate.add_permits(1);
    });
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Confirmed));
    assert_eq!(by_key(&server)["k-0"], (1..=10).map(|n| n * 7).collect::<Vec<_>>());
}

/// Every answer waits until four requests are there: fewer would hang, more would be seen.
#[tokio::test]
async fn as_many_requests_as_allowed_are_under_way_over_all_batches_and_no_more() {
    let (barrier, now, most) =
        (Arc::new(Barrier::new(4)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen_at_most = Arc::clone(&most);
    let server = Server::answering(move |_| {
        let (barrier, now, most) = (Arc::clone(&barrier), Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            barrier.wait().await;
            now.fetch_sub(1, Ordering::SeqCst);
            StatusCode::OK.into_response()
        }
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url()).concurrency(4)).unwrap();
    let (first, second): (Vec<_>, Vec<_>) = ((1..=20).map(entry).collect(), (21..=40).map(entry).collect());
    tokio::join!(deliver(&sink, &first), deliver(&sink, &second));
    assert_eq!(seen_at_most.load(Ordering::SeqCst), 4);
}
