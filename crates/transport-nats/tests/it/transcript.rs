//! What a stream of JetStream must be to be read as a transcript.

use async_nats::jetstream::stream::{Config, RetentionPolicy};
use pillarbox_conformance::delivery::{confirm, entries, ids};
use pillarbox_conformance::transcript::read;
use pillarbox_core::port::Transcript;
use pillarbox_core::{ErrorKind, RouteName};
use pillarbox_transport_nats::{NatsSink, NatsTranscript};

use crate::harness::{DEBIAN, OwnStream};

fn transcript(place: &OwnStream) -> NatsTranscript {
    NatsTranscript::of_sink(&place.to(), &RouteName::new("orders").unwrap()).unwrap()
}

#[tokio::test]
async fn only_the_subject_of_the_url_is_read() {
    let place = OwnStream::new(DEBIAN).await;
    let batch = entries(10);
    confirm(&NatsSink::new(&place.to()).unwrap(), &batch).await;
    place.context.publish(format!("{}.events.other", place.name), "7".into()).await.unwrap().await.unwrap();
    let of =
        |subject: &str| NatsTranscript::new(&format!("{}/{}.{subject}", place.server, place.name)).unwrap();
    let expected: Vec<String> = ids(&batch).iter().map(ToString::to_string).collect();
    assert_eq!(read(&of("events.order.placed")).await.unwrap(), (expected, 0));
    assert!(read(&of("nothing.here")).await.unwrap().0.is_empty());
}

#[tokio::test]
async fn a_stream_that_forgets_what_was_consumed_is_no_transcript() {
    for retention in [RetentionPolicy::WorkQueue, RetentionPolicy::Interest] {
        let place = OwnStream::with(|config| Config { retention, ..config }).await;
        let error = transcript(&place).open().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

#[test]
fn the_subjects_of_a_sink_are_those_that_begin_like_its_own() {
    let route = RouteName::new("orders").unwrap();
    assert!(NatsTranscript::of_sink("nats://h/{route}.{type}", &route).is_ok());
    assert!(NatsTranscript::of_sink("nats://h/{type}?stream=ORDERS", &route).is_ok());
    let error = NatsTranscript::of_sink("nats://h/{type}", &route).map(drop).unwrap_err();
    assert!(error.to_string().contains("stream="), "{error}");
    assert!(NatsTranscript::new("nats://h/orders?durable=x").is_err());
}
