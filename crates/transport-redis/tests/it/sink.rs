//! What only a sink to Redis does.

use pillarbox_conformance::delivery::{confirm, deliver, down, entries, entry, fresh, rejected};
use pillarbox_core::{Entry, Event, EventId, Outcome};
use pillarbox_transport_redis::RedisSink;

use crate::harness::{OwnStream, REDIS, Server, VALKEY};

/// An entry of a key, as a relay hands it over that keeps the order of keys.
fn ordered(key: &str, event: Event) -> Entry {
    let mut entry = entry(event.key(key));
    entry.lane = Some(7);
    entry
}

fn ids(entries: &[Entry]) -> Vec<EventId> {
    entries.iter().map(|entry| entry.event_id).collect()
}

fn order(key: &str) -> Entry {
    ordered(key, Event::new("order.placed", "{}"))
}

#[tokio::test]
async fn entries_of_one_key_arrive_together_and_in_order_beside_others() {
    for server in [REDIS, VALKEY] {
        let place = OwnStream::new(server).await;
        let sink = RedisSink::new(&place.to()).unwrap();
        let batch: Vec<Entry> =
            (0..1000).map(|n| if n % 3 == 0 { order(&format!("k-{n}")) } else { order("hot") }).collect();
        confirm(&sink, &batch).await;
        let stored = place.stored_ids().await;
        assert_eq!(stored.len(), 1000);
        let hot: Vec<Entry> =
            batch.iter().filter(|entry| entry.key.as_deref() == Some("hot")).cloned().collect();
        let hot = ids(&hot);
        let stored: Vec<EventId> = stored.into_iter().filter(|id| hot.contains(id)).collect();
        assert_eq!(stored, hot);
    }
}

#[tokio::test]
async fn an_entry_that_is_too_large_stops_only_what_is_behind_it_in_its_key() {
    let server = Server::start("proto-max-bulk-len 1mb").await;
    let place = OwnStream::on(&server.url()).await;
    let sink = RedisSink::new(&place.to()).unwrap();
    let large = ordered("hot", Event::new("sized", vec![b'x'; 1024 * 1024 + 1]));
    let batch = [order("hot"), order("cold"), large, order("hot"), order("hot"), order("cold")];
    let outcomes = deliver(&sink, &batch).await;
    assert_eq!(rejected(&outcomes[2]).code(), "too_large");
    for (index, outcome) in outcomes.iter().enumerate().filter(|(index, _)| *index != 2) {
        let wanted = if [3, 4].contains(&index) { Outcome::Untried } else { Outcome::Confirmed };
        assert_eq!(*outcome, wanted, "{index}");
    }
    assert_eq!(place.stored().await.len(), 3);
}

#[tokio::test]
async fn where_memory_is_short_nothing_of_a_key_is_added() {
    let server = Server::start("maxmemory-policy noeviction").await;
    let place = OwnStream::on(&server.url()).await;
    let sink = RedisSink::new(&place.to()).unwrap();
    let batch: Vec<Entry> = (0..500).map(|_| order("hot")).collect();
    place.ask(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    let outcomes = deliver(&sink, &batch).await;
    assert_eq!(down(&outcomes[0]).code(), "oom");
    assert!(outcomes[1..].iter().all(|outcome| *outcome == Outcome::Untried), "{outcomes:?}");
    place.ask(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    assert!(place.stored().await.is_empty());
    confirm(&sink, &batch).await;
    assert_eq!(place.stored_ids().await, ids(&batch));
}

/// The entries of a key go to several streams, and one of them is forbidden.
#[tokio::test]
async fn a_stream_that_refuses_stops_what_is_behind_it_in_other_streams() {
    let place = OwnStream::new(REDIS).await;
    let user = fresh("user");
    let keys = format!("~{}:allowed", place.stream);
    place.ask(&["ACL", "SETUSER", &user, "on", ">pw", &keys, "+@all"]).await.unwrap();
    let url = place.server.replacen("redis://", &format!("redis://{user}:pw@"), 1);
    let sink = RedisSink::new(&format!("{url}?stream={}:{{type}}", place.stream)).unwrap();
    let batch = ["allowed", "denied", "allowed"].map(|kind| ordered("hot", Event::new(kind, "{}")));
    let outcomes = deliver(&sink, &batch).await;
    place.ask(&["ACL", "DELUSER", &user]).await.unwrap();
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Confirmed, &Outcome::Untried));
    assert_eq!(down(&outcomes[1]).code(), "noperm");
    assert_eq!(place.stored_in(&format!("{}:allowed", place.stream)).await.len(), 1);
}

#[tokio::test]
async fn each_entry_goes_to_the_stream_of_its_type() {
    let place = OwnStream::new(VALKEY).await;
    let sink = RedisSink::new(&format!("{}?stream={}:{{type}}", place.server, place.stream)).unwrap();
    let batch = ["a", "b", "a"].map(|event_type| entry(Event::new(event_type, "{}")));
    confirm(&sink, &batch).await;
    assert_eq!(place.stored_in(&format!("{}:a", place.stream)).await.len(), 2);
    assert_eq!(place.stored_in(&format!("{}:b", place.stream)).await.len(), 1);
}

#[tokio::test]
async fn a_stream_is_trimmed_to_about_its_length() {
    for server in [REDIS, VALKEY] {
        let place = OwnStream::new(server).await;
        let sink = RedisSink::new(&format!("{}&maxlen=100", place.to())).unwrap();
        confirm(&sink, &entries(2000)).await;
        let left = place.stored().await.len();
        assert!((100..1000).contains(&left), "{left}");
    }
}
