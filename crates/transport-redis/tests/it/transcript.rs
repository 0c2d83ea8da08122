//! Reading all that a stream holds.

use pillarbox_core::port::Transcript;
use pillarbox_core::{Error, ErrorKind, RouteName};
use pillarbox_transport_redis::{RedisSink, RedisTranscript};

use crate::harness::{Place, REDIS, VALKEY, deliver, entries};

/// The ids of all that is read, and how much was deleted.
async fn read(transcript: &RedisTranscript) -> Result<(Vec<String>, u64), Error> {
    let mut pages = transcript.open().await?;
    let mut ids = Vec::new();
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            return Ok((ids, pages.deleted()));
        }
        ids.extend(page.into_iter().map(|mut attributes| attributes.remove("id").unwrap_or_default()));
    }
}

async fn everything_is_read_in_order(variable: &str) {
    let place = Place::new(variable).await;
    let url = place.to();
    let batch = entries(950);
    deliver(&RedisSink::new(&place.to()).unwrap(), &batch).await;
    place.ask(&["XADD", &place.stream, "*", "price", "7"]).await.unwrap();
    let mut expected: Vec<String> = batch.iter().map(|entry| entry.event_id.to_string()).collect();
    expected.push(String::new());
    let transcript = RedisTranscript::new(&url).unwrap();
    assert_eq!(transcript.open().await.unwrap().total(), Some(951));
    assert_eq!(read(&transcript).await.unwrap(), (expected.clone(), 0));
    // As often as anybody wants, and without the group of a consumer.
    assert_eq!(read(&transcript).await.unwrap().0, expected);
    place.ask(&["XTRIM", &place.stream, "MAXLEN", "900"]).await.unwrap();
    assert_eq!(read(&transcript).await.unwrap(), (expected.split_off(51), 51));
}

#[tokio::test]
async fn everything_in_a_stream_of_redis_is_read_in_order_and_what_was_deleted_is_counted() {
    everything_is_read_in_order(REDIS).await;
}

#[tokio::test]
async fn everything_in_a_stream_of_valkey_is_read_in_order_and_what_was_deleted_is_counted() {
    everything_is_read_in_order(VALKEY).await;
}

#[tokio::test]
async fn a_stream_that_is_not_there_is_not_found() {
    let place = Place::new(REDIS).await;
    let route = RouteName::new("orders").unwrap();
    let transcript = RedisTranscript::of_sink(&place.to(), &route).unwrap();
    let error = transcript.open().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    place.ask(&["SET", &place.stream, "7"]).await.unwrap();
    assert_eq!(transcript.open().await.map(drop).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn what_a_sink_writes_to_must_be_one_stream() {
    let route = RouteName::new("orders").unwrap();
    assert!(RedisTranscript::of_sink("redis://h/0?stream=s:{route}", &route).is_ok());
    let error = RedisTranscript::of_sink("redis://h/0?stream=s:{type}", &route).map(drop).unwrap_err();
    assert!(error.to_string().contains("one stream"), "{error}");
    assert!(RedisTranscript::new("redis://h/0?stream=s&group=g").is_err());
}
