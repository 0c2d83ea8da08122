//! Reading all that a stream holds.

use async_nats::jetstream::stream::{Config, RetentionPolicy};
use pillarbox_core::port::Transcript;
use pillarbox_core::{Error, ErrorKind, RouteName};
use pillarbox_transport_nats::{NatsSink, NatsTranscript};

use crate::harness::{DEBIAN, LATEST, Place, deliver, entries};

fn transcript(place: &Place) -> NatsTranscript {
    NatsTranscript::of_sink(&place.to(), &RouteName::new("orders").unwrap()).unwrap()
}

/// The ids of all that is read, and how much was deleted.
async fn read(transcript: &NatsTranscript) -> Result<(Vec<String>, u64), Error> {
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
    let batch = entries(1250);
    deliver(&NatsSink::new(&place.to()).unwrap(), &batch).await;
    place.context.publish(format!("{}.other", place.name), "7".into()).await.unwrap().await.unwrap();
    let mut expected: Vec<String> = batch.iter().map(|entry| entry.event_id.to_string()).collect();
    expected.push(String::new());
    let transcript = transcript(&place);
    assert_eq!(transcript.open().await.unwrap().total(), Some(1251));
    assert_eq!(read(&transcript).await.unwrap(), (expected.clone(), 0));
    // As often as anybody wants, and nothing is left behind.
    assert_eq!(read(&transcript).await.unwrap().0, expected);
    let only = format!("{}/{}.order.placed", place.server, place.name);
    assert_eq!(read(&NatsTranscript::new(&only).unwrap()).await.unwrap().0, expected[..1250]);
    place.stream().await.purge().keep(1000).await.unwrap();
    assert_eq!(read(&transcript).await.unwrap(), (expected.split_off(251), 251));
    let empty = format!("{}/{}.nothing.here", place.server, place.name);
    assert!(read(&NatsTranscript::new(&empty).unwrap()).await.unwrap().0.is_empty());
}

#[tokio::test]
async fn everything_in_a_stream_of_debians_server_is_read_in_order_and_what_was_deleted_is_counted() {
    everything_is_read_in_order(DEBIAN).await;
}

#[tokio::test]
async fn everything_in_a_stream_of_the_latest_server_is_read_in_order_and_what_was_deleted_is_counted() {
    everything_is_read_in_order(LATEST).await;
}

#[tokio::test]
async fn a_stream_that_is_not_there_is_not_found() {
    let place = Place::new(DEBIAN).await;
    for url in [
        format!("{}/nobody.takes.{}", place.server, place.name),
        format!("{}?stream=no-{}", place.server, place.name),
    ] {
        let error = NatsTranscript::new(&url).unwrap().open().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}

#[tokio::test]
async fn a_stream_that_forgets_what_was_consumed_is_no_transcript() {
    for retention in [RetentionPolicy::WorkQueue, RetentionPolicy::Interest] {
        let place = Place::with(|config| Config { retention, ..config }).await;
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
