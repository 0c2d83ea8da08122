//! What can be read as a transcript.

use pillarbox_core::port::Transcript;
use pillarbox_core::{ErrorKind, RouteName};
use pillarbox_transport_redis::RedisTranscript;

use crate::harness::{OwnStream, REDIS};

#[tokio::test]
async fn a_key_that_is_not_a_stream_is_no_transcript() {
    let place = OwnStream::new(REDIS).await;
    place.ask(&["SET", &place.stream, "7"]).await.unwrap();
    let transcript = RedisTranscript::new(&place.to()).unwrap();
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
