//! What only JetStream's consumers do.

use async_nats::jetstream::consumer::push;
use pillarbox_conformance::delivery::{SOON, confirm, entries, fresh, ids};
use pillarbox_core::port::{Message, Source, Subscription};
use pillarbox_core::{ErrorKind, EventId};
use pillarbox_transport_nats::{NatsSink, NatsSource};

use crate::harness::{DEBIAN, LATEST, OwnStream, Server, variable};

async fn publish(place: &OwnStream, count: usize) -> Vec<EventId> {
    let batch = entries(count);
    confirm(&NatsSink::new(&place.to()).unwrap(), &batch).await;
    ids(&batch)
}

async fn next(subscription: &mut Box<dyn Subscription>) -> Message {
    let next = tokio::time::timeout(SOON, subscription.next()).await.expect("nothing arrives");
    next.unwrap().expect("a message")
}

async fn subscribe_error(url: &str) -> pillarbox_core::Error {
    NatsSource::new(url).unwrap().subscribe().await.map(drop).unwrap_err()
}

#[tokio::test]
async fn without_a_subject_for_it_a_parked_message_is_only_never_delivered_again() {
    let place = OwnStream::new(DEBIAN).await;
    let ids = publish(&place, 2).await;
    let source = NatsSource::new(&place.from("&ack_wait=100ms")).unwrap();
    assert!(!source.capabilities().keeps_parked);
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.park().await.unwrap();
    let second = next(&mut subscription).await;
    assert_eq!(second.attributes["id"], ids[1].to_string());
    second.receipt.ack().await.unwrap();
    let info = place.stream().await.consumer_info("billing").await.unwrap();
    assert_eq!((info.num_ack_pending, info.num_pending), (0, 0));
}

#[tokio::test]
async fn a_parked_message_is_kept_where_the_url_says() {
    let place = OwnStream::new(LATEST).await;
    let ids = publish(&place, 1).await;
    // In the same stream, where its id would make it a repetition.
    let parked = format!("{}.parked.here", place.name);
    let from = format!("{}/{}.events.>?durable=billing&parked={parked}", place.server, place.name);
    let source = NatsSource::new(&from).unwrap();
    assert!(source.capabilities().keeps_parked);
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.park().await.unwrap();
    let stored = place.stored().await;
    assert_eq!(stored.len(), 2);
    assert_eq!((stored[1].subject.as_str(), &stored[1].payload), (parked.as_str(), &stored[0].payload));
    assert_eq!(place.stored_ids().await, [ids[0], ids[0]]);
}

#[tokio::test]
async fn a_subject_that_no_stream_takes_is_not_found_and_named() {
    let name = fresh("missing");
    let error = subscribe_error(&format!("{}/{name}.>?durable=d", variable(DEBIAN))).await;
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(&name), "{error}");
}

#[tokio::test]
async fn what_waiting_cannot_mend_is_told_apart_from_what_it_can() {
    let server = Server::start(
        "jetstream { store_dir: \"DATA\" }
         authorization { users: [ { user: app, password: secret, permissions: { publish: { deny: \"$JS.>\" } } } ] }",
    )
    .await;
    let error =
        subscribe_error(&format!("nats://app:wrong@127.0.0.1:{}/orders?durable=d", server.port())).await;
    assert_eq!(error.kind(), ErrorKind::Denied);
    let url = format!("nats://app:secret@127.0.0.1:{}/orders?stream=orders&durable=d", server.port());
    let error = subscribe_error(&url).await;
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("$JS.API.STREAM.INFO.orders"), "{error}");
    let off = Server::start("").await;
    let error = subscribe_error(&format!("{}/orders?stream=orders&durable=d", off.url())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("JetStream"), "{error}");
}

#[tokio::test]
async fn a_consumer_of_another_kind_is_refused() {
    let place = OwnStream::new(DEBIAN).await;
    let config = push::Config {
        durable_name: Some("billing".into()),
        deliver_subject: fresh("push"),
        ..push::Config::default()
    };
    place.stream().await.create_consumer(config).await.unwrap();
    assert_eq!(subscribe_error(&place.from("")).await.kind(), ErrorKind::Invalid);
}
