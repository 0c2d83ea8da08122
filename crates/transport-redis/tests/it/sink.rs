//! What only a sink to Redis does.

use pillarbox_conformance::delivery::{confirm, entries, entry};
use pillarbox_core::Event;
use pillarbox_transport_redis::RedisSink;

use crate::harness::{OwnStream, REDIS, VALKEY};

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
